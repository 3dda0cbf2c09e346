"""The table of kernels of the scan family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gradplan.engines.cuda.launches.choices import CHOICES
from gradplan.engines.cuda.launches.lines import THREADS, rows_of, rows_suffix
from gradplan.vocabulary import ElementKind

from . import recurrence_lines, scan_lines, scan_rows
from .kernel import Kernel

ELEMENTS: Mapping[str, str] = {"f16": "*fp16", "bf16": "*u16", "f32": "*fp32", "f64": "*fp64"}
COMPUTE: Mapping[str, str] = {"f16": "*fp32", "bf16": "*fp32", "f32": "*fp32", "f64": "*fp64"}
_WORDS = {"words_ptr": "*u16", "power_ptr": "*i32", "block_at_ptr": "*i64", "chunk_at_ptr": "*i64"}
_WIDE = {"n", "origin", "sign"}
"""Numbers of 64 bits; strides are, too."""
_STRIDED = ("dy", "dx", "db", "x", "y", "w", "i", "di")
_TENSORS = ("x_ptr", "y_ptr", "dy_ptr", "dx_ptr", "db_ptr", "initial_ptr", "d_initial_ptr")


_OF_LINEAR = ("initial_ptr", "wanted", "i0", "i1", "i2")
_OF_ITS_GRADIENT = (
    *("db_ptr", "d_initial_ptr"),
    *("dbs", "db0", "db1", "db2", "di0", "di1", "di2"),
)
"""Arguments that only linear_scan's kernels have, or only those of its gradients."""


def _type(name: str, pointers: Mapping[str, str]) -> str:
    if name.endswith("_ptr"):
        return pointers[name]
    stride = any(name[: len(t)] == t and name[len(t) :] in ("s", "0", "1", "2") for t in _STRIDED)
    return "i64" if stride or name in _WIDE else "i32"


def _kernel(
    function: Any,
    element: str,
    *,
    pointers: Mapping[str, str] | None = None,
    warps: int = THREADS // 32,
    aligned: tuple[str, ...] = (),
    **constants: object,
) -> Kernel:
    """Pointers not named in `pointers` or _WORDS are to elements if to tensors, else to carries."""
    types = dict.fromkeys(_TENSORS, ELEMENTS[element])
    names = [name for name in function.arg_names if name not in constants]
    for name in names:
        if name.endswith("_ptr") and name not in types:
            types[name] = _WORDS.get(name, COMPUTE[element])
    types.update(pointers or {})
    return Kernel(
        function,
        {name: _type(name, types) for name in names},
        constants,
        aligned=aligned,
        warps=warps,
    )


def vector(element: str) -> int:
    """Elements of 16 bytes."""
    return 16 // int(ElementKind(element).itemsize)


def _lines(form: str) -> Iterator[tuple[str, Kernel]]:
    """The general ones: "any" is for every layout, "unit" for aligned lines of neighbours."""

    def kernel(function: Any, element: str, ahead: int = 16, **rest: Any) -> Kernel:
        constants: dict[str, Any] = {"C": THREADS, "V": 1, "UNIT": False}
        aligned: tuple[str, ...] = ()
        if form == "unit":
            constants |= {"V": vector(element), "UNIT": True}
            aligned = tuple(
                name
                for name in function.arg_names
                if name in _TENSORS and "initial" not in name and name not in rest
            )
        if "U" in function.arg_names:
            constants["U"] = ahead
        return _kernel(function, element, aligned=aligned, **constants, **rest)

    for element in ELEMENTS:
        for phase in ("whole", "totals", "apply"):
            for kind in ("cumsum", "cumprod", "cummax"):
                # Long lines of neighbours are rows; of theirs only the maxima are looked for.
                if form == "unit" and phase != "whole" and (kind, phase) != ("cummax", "totals"):
                    continue
                yield (
                    f"scan_lines/{kind}/{element}/{phase}/{form}",
                    kernel(scan_lines.scan_lines, element, KIND=kind, PHASE=phase),
                )
            for index in ("i64",) if phase == "totals" else ("i32", "i64"):
                pointers = {"y_ptr": "*" + index}
                yield (
                    f"index_lines/{element}/{index}/{phase}/{form}",
                    kernel(scan_lines.index_lines, element, pointers=pointers, PHASE=phase),
                )
        few = max(vector(element), 4)  # exp and log are inlined for each
        for phase in ("whole", "local", "apply"):
            yield (
                f"log_lines/{element}/{phase}/{form}",
                kernel(recurrence_lines.log_lines, element, ahead=few, PHASE=phase),
            )
            for kind, ahead in (("cumprod", 8), ("log_backward", few), ("extreme", 16)):
                yield (
                    f"gradient_lines/{kind}/{element}/{phase}/{form}",
                    kernel(
                        recurrence_lines.lines_recurrence,
                        element,
                        ahead=ahead,
                        pointers={"x_ptr": "*u16"} if kind == "extreme" else {},
                        KIND=kind,
                        PHASE=phase,
                        **dict.fromkeys((*_OF_LINEAR, *_OF_ITS_GRADIENT)),
                    ),
                )
            for name, kind in (("linear", "linear"), ("linear_gradient", "linear_backward")):
                yield (
                    f"{name}_lines/{element}/{phase}/{form}",
                    kernel(
                        recurrence_lines.lines_recurrence,
                        element,
                        ahead=8,
                        KIND=kind,
                        PHASE=phase,
                        **dict.fromkeys(_OF_ITS_GRADIENT if kind == "linear" else ()),
                    ),
                )
        for phase in ("whole", "apply"):
            yield (
                f"records/{element}/{phase}/{form}",
                kernel(recurrence_lines.records, element, PHASE=phase),
            )


def _rows() -> Iterator[tuple[str, Kernel]]:
    """A warp for each row, or for each chunk of one."""
    for element in ELEMENTS:
        for kind in ("cumsum", "cumprod", "cummax"):
            for phase in ("whole", "totals", "apply"):
                rows_of_unit = CHOICES["scan.rows"].values
                forms = [("any", 16, rows_of("any"))]
                forms += [("unit", vector(element), rows) for rows in rows_of_unit]
                for form, v, rows in forms:
                    yield (
                        f"scan_rows/{kind}/{element}/{phase}/{form}{rows_suffix(rows)}",
                        _kernel(
                            scan_rows.scan_rows,
                            element,
                            warps=rows,
                            aligned=("x_ptr", "y_ptr") if form == "unit" else (),
                            R=rows,
                            KIND=kind,
                            PHASE=phase,
                            V=v,
                            UNIT=form == "unit",
                        ),
                    )


def _carries() -> Iterator[tuple[str, Kernel]]:
    """What happens between blocks, by the compute type."""
    for element in ("f32", "f64"):
        for kind in ("cumsum", "cumprod", "cummax"):
            for function in (scan_lines.scan_compose, scan_lines.scan_chain):
                yield (
                    f"{function.__name__}/{kind}/{element}",
                    _kernel(function, element, C=THREADS, KIND=kind),
                )
        for function in (scan_lines.index_compose, scan_lines.index_chain):
            yield f"{function.__name__}/{element}", _kernel(function, element, C=THREADS)
        for kind in ("cumprod", "log", "log_backward", "extreme"):
            yield (
                f"compose/{kind}/{element}",
                _kernel(recurrence_lines.compose, element, C=THREADS, KIND=kind),
            )
            yield (
                f"chain/{kind}/{element}",
                _kernel(recurrence_lines.chain, element, C=THREADS, KIND=kind, given=None),
            )
        yield (
            f"chain/linear/{element}",
            _kernel(recurrence_lines.chain, element, C=THREADS, KIND="cumprod"),
        )


KERNELS: dict[str, Kernel] = dict([*_lines("any"), *_lines("unit"), *_rows(), *_carries()])
