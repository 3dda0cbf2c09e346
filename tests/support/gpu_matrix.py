"""Problems for the GPU kernels, chosen so that every kernel runs; and their comparison.

Candidates are drawn from the declarations: sizes, options, layouts, values. What a candidate would
launch is known without running it, so the few that are kept are those that launch a kernel which
has not run often enough yet, or that have something new for their function.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from layouts import INPUT_LAYOUTS, LAYOUTS, Array, Placed
from matrix import (
    STYLES,
    Case,
    Prepared,
    describe,
    field_choices,
    first_difference,
    index_axis,
    table_axis,
)
from ptx.run import layout_of, run_program

import gradplan as gp
from gradplan.declaration import AxisRole, Function, Op, Operand
from gradplan.engines.cuda import families
from gradplan.engines.cuda.archive import Binary
from gradplan.engines.cuda.launches.choices import CHOICES, choosing
from gradplan.engines.cuda.launches.errors import WORDS, offence
from gradplan.engines.cuda.program import Layout, Program
from gradplan.vocabulary import INDICES, Bounds

# Around the steps of the contract's orders, and of what programs take at a time.
LENGTHS = (1, 16, 17, 128, 272, 1104, 4097, 8320)
FRAMES: tuple[tuple[int | None, ...], ...] = (
    (None,),
    (5, None),
    (None, 40),
    (2, None, 3),
    (2, 3, None, 2, 2),
)
MEMBERS = (1, 64, 257, 1500)
ROWS = (1, 5, 300)
WIDTHS = (1, 4, 17, 129, 256)
MOST = 40_000
"""Elements of a problem: an executed element costs microseconds."""
MOST_SORTED = 4_500
"""Elements that are sorted by themselves."""
MOST_OF_ROWS = 70_000
"""The same where rows are chosen by index: the vector forms of huge segments take this many."""
MOST_SERIAL = 600
"""Elements that one thread takes."""
OFTEN = 2
"""How often each kernel runs."""
RANDOM = 400


@dataclasses.dataclass(frozen=True)
class GpuCase:
    """A problem, and how the kernels are to be run."""

    case: Case
    whole: bool = False
    """As if there were lines enough for a thread each."""
    in_place: bool = False
    """The output in the memory of the input that it may share."""
    left_out: str = ""
    """An output that is not wanted."""
    warp_by_warp: bool = False
    backwards: bool = False
    choices: tuple[tuple[str, int], ...] = ()
    """Of launches/choices.py, made otherwise than by default."""

    def __str__(self) -> str:
        how = [f"without {self.left_out}"] if self.left_out else []
        how += [f"{name}={value}" for name, value in self.choices]
        flags = ("whole", "in_place", "warp_by_warp", "backwards")
        return ", ".join([str(self.case), *how, *(name for name in flags if getattr(self, name))])

    def chosen(self) -> contextlib.AbstractContextManager[None]:
        """With few lines being many, or not: tests are too small to have many."""
        few = {"scan.many": 1, "scan.many_rows": 1} if self.whole else {}
        return choosing({**few, **dict(self.choices)})


# Choosing ------------------------------------------------------------------------------------


def _factors(op: Op, function: Function) -> dict[str, Sequence[Any]]:
    factors: dict[str, Sequence[Any]] = {}
    for name, values in field_choices(op, function).items():
        if name == "length":
            factors[name] = LENGTHS
        elif name == "frame":
            factors[name] = FRAMES
        elif name == index_axis(op):
            factors[name] = MEMBERS
        elif name == table_axis(op) or name in op.sizes_with_role(AxisRole.ALONG):
            factors[name] = ROWS
        elif name in op.packs or (values and isinstance(values[0], int) and max(values) > 1000):
            factors[name] = WIDTHS
        else:
            factors[name] = values
    # Of two gradients one may not be wanted.
    several = [t.name for t in op.outputs] if len(op.outputs) > 1 and op.forwards() else []
    sharing = any(t.inplace for t in op.outputs)
    factors |= {
        "inputs": list(INPUT_LAYOUTS),
        "outputs": list(LAYOUTS),
        "style": STYLES,
        "whole": (False, True),
        "in_place": (False, True) if sharing else (False,),
        "left_out": ("", *several),
        "warp_by_warp": (False, True),
        "backwards": (False, True),
        "index": INDICES,
        "order": ("sorted", "hot", "any"),
        "saved": ("forward", "any"),
        "optional": (True, False) if any(t.optional for t in op.inputs) else (True,),
    }
    return factors


def _candidate(op: Op, function: Function, choice: dict[str, Any], seed: int) -> GpuCase:
    if "frame" in choice:
        others = math.prod(d for d in choice["frame"] if d is not None)
        most = MOST_SORTED if op.has_indices else MOST
        choice["length"] = min(choice["length"], max(most // others, 1))
    rows = choice.get(index_axis(op) or "", 0)
    for width in op.packs if rows else ():
        fitting = [w for w in WIDTHS if w * rows <= MOST_OF_ROWS]
        choice[width] = min(choice[width], max(fitting, default=1))
    if choice["in_place"]:  # one array has one layout
        choice["inputs"] = choice["outputs"]
    options = {f.name: choice[f.name] for f in dataclasses.fields(Case) if f.name in choice}
    rest = {f.name: choice[f.name] for f in dataclasses.fields(GpuCase) if f.name in choice}
    made = GpuCase(Case(op, describe(op, choice, **function.fixed), seed, **options), **rest)
    if made.whole and choice.get("length", 0) > MOST_SERIAL:
        launched = [launch.kernel for launch in planned(made).launches]
        if not any("_rows/" in key for key in launched):  # which have a warp for a line
            return _candidate(op, function, {**choice, "length": MOST_SERIAL}, seed)
    return made


def candidates(op: Op, function: Function) -> Iterator[tuple[GpuCase, frozenset[str]]]:
    """Problems with what is new in them: all sizes and types as they mostly lie in memory, then any
    sizes in any layout."""
    rng = random.Random(function.name)
    factors = _factors(op, function)
    sizes = ["element", "length", "frame", index_axis(op), table_axis(op), *op.packs, "whole"]
    sizes += ["index"] if any(t.index for t in op.tensors) else []
    sizes += [*_apart(op), *op.sizes_with_role(AxisRole.ALONG)]
    names = [name for name in factors if name in sizes]
    systematic = list(itertools.product(*(factors[name] for name in names)))
    rng.shuffle(systematic)
    for seed in range(len(systematic) + RANDOM):
        choice = {name: rng.choice(values) for name, values in factors.items()}
        if seed < len(systematic):
            choice |= dict(zip(names, systematic[seed], strict=True))
            choice |= {"inputs": "contiguous", "outputs": "contiguous"}
            choice |= {"style": "plain"} if seed < len(systematic) * 3 // 4 or seed % 2 else {}
        made = _candidate(op, function, choice, seed)
        yield made, frozenset(f"{name}={value}" for name, value in choice.items())


_CHOSEN: dict[str, tuple[GpuCase, ...]] = {}


def gpu_cases(op: Op, function: Function) -> tuple[GpuCase, ...]:
    """As few as it takes for every kernel of a function to run, and every value of a factor."""
    if function.name not in _CHOSEN:
        _CHOSEN[function.name] = tuple(_choose(op, function))
    return _CHOSEN[function.name]


def _choose(op: Op, function: Function) -> Iterator[GpuCase]:
    runs: Counter[str] = Counter()
    seen: set[str] = set()
    for case, values in candidates(op, function):
        desc: Any = case.case.desc
        launched = {launch.kernel for launch in planned(case).launches}
        if case.case.style == "plain":  # in which every association shows
            values |= {f"{key} of {_size(case)}" for key in launched}
            options = ", ".join(f"{name}={getattr(desc, name)}" for name in _apart(op))
            values |= {f"{options} of {_size(case)} in {desc.element}"}
        if any(runs[key] < OFTEN for key in launched) or not values <= seen:
            yield case
            runs.update(launched)
            seen |= values


def _apart(op: Op) -> list[str]:
    """Options that are certified by themselves."""
    return [info.name for info in op.fields if info.field.apart]


def choice_cases(name: str, pairs: Sequence[tuple[Op, Function]]) -> Iterator[GpuCase]:
    """Cases of other values of a choice: for every op, and every kernel that only they launch.

    Thresholds are tried at 1 as well, since problems are small here. Values that come to the same
    launches are one.
    """
    choice = CHOICES[name]
    cases = [case for pair in pairs for case in gpu_cases(*pair)]
    cases.sort(key=_elements)
    plain = [_planned_once(case) for case in cases]
    known = {launch.kernel for _, program in plain for launch in program.launches}
    seen: set[str] = set()
    for value in choice.others if choice.only_these else (1, *choice.others):
        for case, (given, before) in zip(cases, plain, strict=True):
            made = dataclasses.replace(case, choices=((name, value),))
            program = _program(made, given)
            new = {case.case.op.name, *(each.kernel for each in program.launches)} - known - seen
            if new and program != before:
                seen |= new
                yield made


_PLANNED: dict[int, tuple[Mapping[str, Layout], Program]] = {}
"""By the case, which gpu_cases keeps."""


def _planned_once(case: GpuCase) -> tuple[Mapping[str, Layout], Program]:
    if id(case) not in _PLANNED:
        given = _given(case)
        _PLANNED[id(case)] = given, _program(case, given)
    return _PLANNED[id(case)]


def _elements(case: GpuCase) -> int:
    return sum(math.prod(operand.shape) for operand in case.case.op.operands(case.case.desc))


def _size(case: GpuCase) -> str:
    """Which of the contract's steps a problem is long enough for."""
    op, desc = case.case.op, case.case.desc
    counted = index_axis(op)
    sizes = getattr(desc, counted or op.shape_field or "")
    n = max(sizes, default=1) if isinstance(sizes, tuple) else sizes
    return "a chunk" if n > 4096 else "a block" if n > 256 else "less"


def planned(case: GpuCase) -> Program:
    """What would be launched."""
    return _program(case, _given(case))


def _program(case: GpuCase, given: Mapping[str, Layout]) -> Program:
    with case.chosen():
        return families()[0][case.case.op.name](case.case.desc, given)


def _given(case: GpuCase) -> Mapping[str, Layout]:
    op, desc = case.case.op, case.case.desc
    given = {}
    for operand in op.operands(desc):
        absent = operand.is_input and operand.optional and not case.case.optional
        if operand.name != case.left_out and not absent:
            where = case.case.inputs if operand.is_input else case.case.outputs
            given[operand.name] = _layout(where, operand, _kind(case, operand))
    return given


def _kind(case: GpuCase, operand: Operand) -> gp.ElementKind:
    return case.case.index if len(operand.kinds) > 1 else operand.kinds[0]


def _layout(where: str, operand: Operand, kind: gp.ElementKind) -> Layout:
    """How `layouts.py` would place a tensor: of bytes, which is where elements are as well."""
    if where in LAYOUTS:
        array = LAYOUTS[where](operand.shape, np.uint8).array
    else:
        array = INPUT_LAYOUTS[where](np.zeros(operand.shape, np.uint8))
    aligned = array.ctypes.data * kind.itemsize % 16 == 0
    return Layout(kind.dtype_name, array.shape, array.strides, aligned)


# Running -------------------------------------------------------------------------------------


def wrong(case: GpuCase, binaries: Mapping[str, Binary] | None = None) -> list[str]:
    """What a case gives that the reference does not; nothing if all is well."""
    prepared = Prepared.of(case.case)
    op, desc = case.case.op, case.case.desc
    refused = prepared.expected if isinstance(prepared.expected, type) else None
    if refused is gp.IndexOutOfRange:  # reported, and computed as if they were skipped
        skipping = dataclasses.replace(desc, bounds=Bounds.SKIP)
        prepared = Prepared.of(dataclasses.replace(case.case, desc=skipping))
    expected = prepared.expected
    tensors, outputs = _placed(case, prepared)
    kept = {name: x.tobytes() for name, x in tensors.items() if name not in outputs}
    errors = np.zeros(WORDS, np.int64)
    with case.chosen():
        program = families()[0][op.name](desc, {n: layout_of(x) for n, x in tensors.items()})
    run_program(
        program,
        tensors,
        errors=errors,
        binaries=binaries,
        warp_by_warp=case.warp_by_warp,
        backwards=case.backwards,
    )
    found = []
    if program.workspace_size > families()[1][op.name](desc):
        found.append("more workspace than the plan says")
    complaint = offence(errors.tolist(), "", 0)
    if (type(complaint) if complaint else None) is not refused:
        found.append(f"reported {complaint!r}, expected {refused}")
    for name, placed in outputs.items():
        if isinstance(expected, dict):
            difference = first_difference(placed.array, _as(expected[name], name, case))
            found += [f"{name}{difference}"] if difference else []
        if not placed.only_itself_written():
            found.append(f"{name}: memory beside the output was written")
    changed = [name for name, before in kept.items() if tensors[name].tobytes() != before]
    if not case.in_place:
        found += [f"{name}: an input was changed" for name in changed]
    return [f"{case}: {what}" for what in found]


def _as(wanted: bytes, name: str, case: GpuCase) -> bytes:
    """What the reference gives, in the type of the output: positions have two."""
    operand = next(o for o in case.case.op.operands(case.case.desc) if o.name == name)
    if len(operand.kinds) == 1:
        return wanted
    return (
        np.frombuffer(wanted, operand.kinds[0].dtype).astype(_kind(case, operand).dtype).tobytes()
    )


def _placed(case: GpuCase, prepared: Prepared) -> tuple[dict[str, Array], dict[str, Placed]]:
    """All tensors of a call, and the outputs among them."""
    tensors, outputs = dict(prepared.inputs), {}
    for operand in case.case.op.operands(case.case.desc):
        if operand.is_input or operand.name == case.left_out:
            continue
        kind, before = _kind(case, operand), prepared.before[operand.name]
        placed = LAYOUTS[case.case.outputs](operand.shape, kind.dtype)
        if operand.role.value == "inout":
            placed.put(before)
        if case.in_place and operand.inplace and tensors[operand.inplace[0]].size:
            shared = operand.inplace[0]
            if all(tensors[shared] is not p.array for p in outputs.values()):
                placed.put(tensors[shared])
                tensors[shared] = placed.array
        outputs[operand.name] = placed
        tensors[operand.name] = placed.array
    return tensors, outputs


def many_keys(op: Op, function: Function) -> GpuCase:
    """So many ids that their sorting takes all of its kernels; in few rows, so in one pass."""
    choice: dict[str, Any] = {name: values[0] for name, values in _factors(op, function).items()}
    choice |= {index_axis(op): 4096 * 64 + 9, table_axis(op): 5, "order": "any"}
    choice |= {"bounds": Bounds.SKIP, "element": gp.ElementKind.F32}
    return _candidate(op, function, choice, 1)


def all_of(op: Op, function: Function, element: gp.ElementKind) -> list[GpuCase]:
    return [c for c in gpu_cases(op, function) if c.case.desc.element is element]
