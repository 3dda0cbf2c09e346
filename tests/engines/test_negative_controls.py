"""Checks of the checks: what must make the comparison fail does make it fail.

Contraction switched on, one addition associated differently, a wrong kernel: if any of these
passed, equality of bits in the other tests would mean nothing.
"""

from __future__ import annotations

import importlib
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matrix import FUNCTIONS, cases, mismatches, simple_case
from samples import ELEMENTS, all_elements

import gradplan as gp
from gradplan._ffi import tvm_ffi
from gradplan.cases import cases as canonical_cases
from gradplan.certify import digest, expected_results
from gradplan.declaration import Descriptor, Function, Op, Role
from gradplan.engines import BoundKernel, Engine, cpu, registered
from gradplan.engines.reference import ReferenceEngine
from gradplan.plan import plan_class

SOURCES = Path(__file__).parents[2] / "csrc"
BY_NAME = {function.name: (op, function) for op, function in FUNCTIONS}
all_functions = pytest.mark.parametrize(("op", "function"), FUNCTIONS, ids=list(BY_NAME))


def fails(engine: Engine, op: Op, function: Function) -> bool:
    return any(mismatches([engine], (c for c in cases(op, function) if _ordinary(c))))


def _ordinary(case: Any) -> bool:
    """Finite values and no refusals: a difference is one of arithmetic."""
    return case.style == "plain" and getattr(case.desc, "bounds", None) is not gp.Bounds.RAISE


# Contraction -------------------------------------------------------------------------------------


class Build:
    """A library of one kernel, compiled here: seconds instead of minutes for all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
        isa = cpu.isa()
        info = tvm_ffi().libinfo
        self.flags = ["-std=gnu++20", "-fPIC", "-fvisibility=hidden", "-w", f"-I{SOURCES}"]
        self.flags += [f"-I{path}" for path in info.include_paths()]
        self.flags += [f'-DGRADPLAN_ISA="{isa}"', f"-march={isa}" if "x86" in isa else "-DNEON"]
        self.linking = ["-shared"]
        for library in (cpu.LIBRARIES / "libgradplan_common.so", info.find_libtvm_ffi()):
            self.linking += [str(library), f"-Wl,-rpath,{Path(library).parent}"]

    def load(self, name: str, kernel: Path, *flags: str) -> Any:
        target = self.folder / f"lib{name}.so"
        sources = [str(kernel), str(SOURCES / "ffi/per_isa/library.cc")]
        command = [str(self.compiler), *self.flags, *flags, *sources, *self.linking]
        subprocess.run([*command, "-o", str(target)], check=True)
        return tvm_ffi().load_module(str(target))


@pytest.fixture(scope="module")
def lerp_builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """lerp with and without contraction, at the optimisation level that contracts."""
    if not cpu.supported_isas() or cpu.isa() == "x86-64-v2":
        pytest.skip("this CPU has no fused multiply-add that a compiler could use")
    build = Build(tmp_path_factory.mktemp("contraction"))
    if build.compiler is None:
        pytest.skip("no C++ compiler (the package needs one to be built)")
    lerp = SOURCES / "pointwise/lerp.cc"
    return {
        contract: build.load(contract, lerp, "-O2", f"-ffp-contract={contract}")
        for contract in ("off", "fast")
    }


@pytest.mark.parametrize("contract", ["off", "fast"])
def test_contraction_makes_the_comparison_fail(
    contract: str, lerp_builds: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the same build without it passes, so it is the contraction that was noticed."""
    name = f"contract={contract}"
    monkeypatch.setitem(cpu._loaded, name, lerp_builds[contract])
    assert fails(cpu.CpuEngine(name), *BY_NAME["lerp"]) is (contract == "fast")
    # One product, one rounding: there is nothing to contract in the gradient.
    assert not fails(cpu.CpuEngine(name), *BY_NAME["lerp_backward"])


def test_the_builds_are_made_without_contraction() -> None:
    """What the control above turns on is turned off where the package is built."""
    text = (SOURCES.parent / "CMakeLists.txt").read_text()
    assert re.search(r"else\(\)\s+target_compile_options\(\S+ PRIVATE -ffp-contract=off\)", text)


# Association -------------------------------------------------------------------------------------


class Altered(ReferenceEngine):
    """The reference with something done to its tensors: `alter(tensors, run)` runs it."""

    def __init__(self, alter: Callable[[dict[str, Any], Callable[[], None]], None]) -> None:
        self.alter = alter

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        right = super().bind(op, desc)
        names = [o.name for o in op.operands(desc)]

        def run(*args: Any) -> None:
            tensors = dict(zip(names, args, strict=False))  # without the workspace
            self.alter(tensors, lambda: right.run(*tensors.values(), None))

        return BoundKernel(run)


def swapped_cumsum(tensors: dict[str, Any], run: Callable[[], None]) -> None:
    """x0 + (x1 + x2) instead of (x0 + x1) + x2, in the third element alone."""
    run()
    x, y = tensors["x"], tensors["y"]
    if x.ndim == 1 and len(x) > 2:
        compute = np.result_type(x.dtype, np.float32)
        first, second, third = (x[i].astype(compute) for i in range(3))
        y[2] = (first + (second + third)).astype(x.dtype)


def swapped_members(tensors: dict[str, Any], run: Callable[[], None]) -> None:
    """The members of each segment from the last to the first."""
    for name in {"input", "segment_ids", "dout", "indices"} & tensors.keys():
        tensors[name] = tensors[name][::-1]
    run()


def swapped_lanes(tensors: dict[str, Any], run: Callable[[], None]) -> None:
    """Rows reduced from their other end."""
    for name, x in tensors.items():
        tensors[name] = x[(slice(None, None, -1),) * x.ndim]
    run()


def contracted_steps(tensors: dict[str, Any], run: Callable[[], None]) -> None:
    """a h + b with one rounding instead of two, in the first step where that makes a difference.

    Which way a scan goes and whether it is exclusive, one state behind, shows in its states.
    """
    run()
    given = [tensors[name] for name in ("a", "b", "h")]
    axes = range(given[0].ndim if given[0].dtype == np.float32 else 0)
    for axis, way, behind in itertools.product(axes, (1, -1), (0, 1)):
        a, b, h = (np.moveaxis(x, axis, 0)[::way] for x in given)
        steps = len(h) - 1 - behind
        if steps < 1:
            continue
        a, b, old, new = a[1 : steps + 1], b[1 : steps + 1], h[behind:-1], h[behind + 1 :]
        twice = b + a * old
        once = (a.astype(np.float64) * old + b).astype(np.float32)
        differ = np.argwhere((new == twice) & (once != twice))
        if np.array_equal(new[0], twice[0]) and len(differ):
            step = tuple(differ[0])
            new[step] = once[step]
            return


SWAPS = {
    "linear_scan": contracted_steps,
    "cumsum": swapped_cumsum,
    "unsorted_segment_sum": swapped_members,
    "embedding_backward": swapped_members,
    "sparsemax_backward": swapped_lanes,
}


@pytest.mark.parametrize("name", SWAPS)
def test_one_swapped_operation_makes_the_comparison_fail(name: str) -> None:
    assert fails(Altered(SWAPS[name]), *BY_NAME[name])
    assert not fails(Altered(lambda tensors, run: run()), *BY_NAME[name])


# Overflow ----------------------------------------------------------------------------------------


OLD_RULES = {
    "infinite products": ("cumprod_backward", "scan_backward.multiply", np.multiply),
    "opposite infinities": ("cumprod_backward", "recurrence._join", np.add),
    "opposite infinities of states": ("linear_scan", "recurrence._join", np.add),
    "infinite states": ("linear_scan_backward", "linear_scan.multiply", np.multiply),
    "infinite differences": ("lerp", "lerp._overflows", lambda span, start, end: span != span),
}


@all_elements
@pytest.mark.parametrize("rule", OLD_RULES)
def test_the_certificate_notices_an_engine_without_the_rules_of_overflow(
    rule: str, element: gp.ElementKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that does what plain IEEE arithmetic gives is caught by the canonical problems."""
    name, where, plain = OLD_RULES[rule]
    if rule == "infinite differences" and element is gp.ElementKind.F16:
        pytest.skip("differences of f16 do not overflow in f32")
    huge = [c for c in canonical_cases(*BY_NAME[name], element) if c.flavour == "huge"]
    right = [digest(expected_results(case)) for case in huge]
    module, function = where.split(".")
    monkeypatch.setattr(importlib.import_module(f"gradplan.reference.{module}"), function, plain)
    assert [digest(expected_results(case)) for case in huge] != right


# Wrong kernels -----------------------------------------------------------------------------------


class OneBit(ReferenceEngine):
    """Right but for the last bit of the last element of every output."""

    name = "cpu"
    automatic = True

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        right = super().bind(op, desc)
        outputs = [i for i, o in enumerate(op.operands(desc)) if o.role is not Role.IN]

        def run(*args: Any) -> None:
            right.run(*args)
            for i in outputs:
                if args[i].size:
                    bits = args[i].view(np.dtype(f"u{args[i].dtype.itemsize}"))
                    bits[(-1,) * bits.ndim] ^= 1

        return BoundKernel(run)


class Untouched(ReferenceEngine):
    """Checks its arguments and then writes nothing."""

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        return BoundKernel(lambda *args: None)


class Beside(ReferenceEngine):
    """Right, but it also writes into the gap behind the first element."""

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        right = super().bind(op, desc)

        def run(*args: Any) -> None:
            right.run(*args)
            out = args[-2]
            if out.size > 1 and abs(out.strides[-1]) > out.dtype.itemsize:
                gap = np.lib.stride_tricks.as_strided(out, (2,), (out.dtype.itemsize,))
                gap.view(np.dtype(f"u{out.dtype.itemsize}"))[1] = 0

        return BoundKernel(run)


@all_functions
def test_a_registered_wrong_kernel_makes_the_comparison_fail(op: Op, function: Function) -> None:
    with registered(OneBit(), first=True) as engine:
        desc = simple_case(op, function).desc
        assert plan_class(op).select(desc).engine == "cpu"  # nothing says that it is another
        assert any(mismatches([engine], [simple_case(op, function)]))
    assert not any(mismatches([ReferenceEngine()], [simple_case(op, function)]))


@all_functions
def test_a_kernel_that_writes_nothing_makes_the_comparison_fail(op: Op, function: Function) -> None:
    assert any(mismatches([Untouched()], [simple_case(op, function)]))


@all_functions
def test_a_kernel_that_writes_beside_its_output_is_noticed(op: Op, function: Function) -> None:
    case = simple_case(op, function, outputs="stepped")
    found = list(mismatches([Beside()], [case]))
    assert any("memory beside the output" in what for what in found)


def test_a_difference_names_the_first_element() -> None:
    op, function = BY_NAME["cumsum"]
    (found,) = mismatches([OneBit()], [simple_case(op, function)])
    assert re.search(
        r"ScanDescriptor\(.*y\[1, 4\] is [0-9a-f]{8}, expected [0-9a-f]{8}; 1 of", found
    )


def test_every_element_type_is_compared() -> None:
    """An engine that is wrong for one type only is found by the matrix of every function."""
    for element in ELEMENTS:

        class OneType(OneBit):
            wrong = element

            def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
                engine: Any = super() if desc.element is self.wrong else ReferenceEngine()
                bound: BoundKernel = engine.bind(op, desc)
                return bound

        for op, function in (BY_NAME["cumsum"], BY_NAME["embedding"]):
            assert any(mismatches([OneType()], cases(op, function)))
