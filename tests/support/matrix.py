"""The test matrix: problems of every op, made from the declarations, and their comparison.

Nothing here knows an op. Descriptor fields, tensors, gradients and index axes come from
`gradplan.declaration.OPS`, so a new op is covered by declaring it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from layouts import INPUT_LAYOUTS, LAYOUTS, POISON, Array, words
from samples import ELEMENTS, REFERENCE, sample_descriptor

import gradplan as gp
from gradplan.cases import axis_sizes, forward_of, pointers
from gradplan.declaration import OPS, AxisRole, Descriptor, Function, Op, Operand
from gradplan.declaration.fields import (
    IndexInto,
)
from gradplan.engines import Engine
from gradplan.plan import plan_class
from gradplan.vocabulary import INDICES

# Around every step of the contract's orders (16, 256, 4096) and of the engine's strategies (512).
LENGTHS = (0, 1, 15, 16, 17, 255, 256, 257, 511, 513, 4095, 4096, 4097, 65537)
WIDTHS = (0, 1, 2, 3, 7, 8, 16, 17, 31, 33, 64, 129, 1030)
TABLE_ROWS = (0, 1, 2, 5, 300, 2500)
# Where the axis of the awkward length (None) stands among others.
FRAMES: tuple[tuple[int | None, ...], ...] = (
    (None,),
    (1, None),
    (3, None),
    (17, None),
    (None, 3),
    (None, 37),
    (2, None, 3),
    (3, 2, None),
    (None, 2, 2),
    (1, 2, None, 1, 2),
    (None, 0),
    (0, None),
)
WEIGHTS = (0.25, 0.5, 0.75, -0.0, 1.0, -3.5, 1e-40, 0.1, 1e300)
STYLES = ("plain", "special", "ties", "any bits")


# Pairs ----------------------------------------------------------------------------------------


def pairwise(factors: Mapping[str, Sequence[Any]], seed: int = 0) -> list[dict[str, Any]]:
    """Few combinations in which every pair of values of two factors occurs."""
    rng = random.Random(seed)
    names = list(factors)
    missing = {
        (a, i, b, j)
        for a, b in itertools.combinations(range(len(names)), 2)
        for i in range(len(factors[names[a]]))
        for j in range(len(factors[names[b]]))
    }
    sizes = [len(factors[name]) for name in names]
    chosen = []
    while missing:
        a, i, b, j = min(missing)  # deterministic, and the large factors come first
        best: tuple[int, tuple[int, ...]] = (-1, ())
        for _ in range(12):
            row = [rng.randrange(size) for size in sizes]
            row[a], row[b] = i, j
            gain = sum((c, row[c], d, row[d]) in missing for c, d in _pairs(len(row)))
            best = max(best, (gain, tuple(row)))
        row = list(best[1])
        missing -= {(c, row[c], d, row[d]) for c, d in _pairs(len(row))}
        chosen.append({name: factors[name][k] for name, k in zip(names, row, strict=True)})
    return chosen


@functools.cache
def _pairs(n: int) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(n), 2))


# Problems -------------------------------------------------------------------------------------


def _sizes(op: Op) -> dict[str, int]:
    """Which sizes count members (1), groups or rows of a table (2), and features (3)."""
    return axis_sizes(op, 1, 2, 3) if op.has_indices and op.shape_field is None else {}


def index_axis(op: Op) -> str | None:
    """The field that counts the members which an op's indices name or its pointers cut."""
    return next((name for name, what in _sizes(op).items() if what == 1), None)


def table_axis(op: Op) -> str | None:
    """The field that says what an op's indices choose from."""
    return next((name for name, what in _sizes(op).items() if what == 2), None)


def saved_outputs(op: Op, desc: Descriptor) -> list[str]:
    """The inputs of a backward op that are outputs of the forward."""
    forward = forward_of(op)
    results = {t.name for t in forward.outputs} if forward else set()
    return [o.name for o in op.operands(desc) if o.is_input and o.name in results]


def field_choices(op: Op, function: Function) -> dict[str, Sequence[Any]]:
    """Values to try for each field of a descriptor; sizes and axes excepted."""
    choices: dict[str, Sequence[Any]] = {}
    for info in op.fields:
        field = info.field
        if info.name in function.fixed:
            continue
        if info.when is not None and not info.when.allows(function.fixed):
            continue
        if info.name == op.shape_field:
            choices |= {"length": LENGTHS, "frame": FRAMES}
        elif info.name == "element":
            choices[info.name] = ELEMENTS
        elif info.name in _sizes(op):
            choices[info.name] = (LENGTHS, TABLE_ROWS, WIDTHS)[_sizes(op)[info.name] - 1]
        elif info.name in op.sizes_with_role(AxisRole.ALONG):
            choices[info.name] = TABLE_ROWS
        elif isinstance(field, IndexInto):
            choices[info.name] = ["none", "first", "last"]
        elif field.variants({}):
            choices[info.name] = field.variants({})
        elif field.series:
            choices[info.name] = WEIGHTS
    return choices


@dataclasses.dataclass(frozen=True)
class Case:
    """One problem with its tensors, reproducible from what is printed."""

    op: Op
    desc: Descriptor
    seed: int
    style: str = "plain"
    inputs: str = "contiguous"
    outputs: str = "contiguous"
    saved: str = "forward"
    index: gp.ElementKind = INDICES[-1]
    order: str = "sorted"
    threads: int = 1
    workspace: bool = True
    optional: bool = True
    """Whether what a call may do without is there."""

    def __repr__(self) -> str:
        rest = ", ".join(
            f"{f.name}={getattr(self, f.name)!r}"
            for f in dataclasses.fields(self)
            if f.name not in ("op", "desc")
        )
        return f"{self.desc} with {rest}"


def describe(op: Op, choice: Mapping[str, Any], **fixed: Any) -> Descriptor:
    """The descriptor for one choice of `field_choices`."""
    values: dict[str, Any] = dict(fixed)
    counted = index_axis(op)
    for info in op.fields:
        field = info.field
        if info.name in _sizes(op) and info.name != counted and choice[counted] > 1000:
            # Not everything long at once: the reference takes its time.
            most = 300 if info.name == table_axis(op) else 16 if choice[counted] > 5000 else 129
            values[info.name] = min(choice[info.name], most)
        elif info.name == op.shape_field:
            n = choice["length"]
            frame = choice["frame"]
            values[info.name] = tuple(
                n if d is None else d if n < 5000 else min(d, 1) for d in frame
            )
        elif info.name == op.axis_field:
            values[info.name] = choice["frame"].index(None)
        elif isinstance(field, IndexInto):
            size = values[field.size]
            place = choice.get(info.name, "none")
            valid = place != "none" and size > 0
            values[info.name] = (0 if place == "first" else size - 1) if valid else None
        elif info.name in choice:
            values[info.name] = choice[info.name]
    return op.descriptor(**values)


def cases(op: Op, function: Function) -> tuple[Case, ...]:
    """The cases of one function of the function layer: every pair of choices at least once."""
    factors: dict[str, Sequence[Any]] = field_choices(op, function)
    factors |= {
        "inputs": list(INPUT_LAYOUTS),
        "outputs": list(LAYOUTS),
        "style": STYLES,
        "threads": (1, 2, 3, 7),
        "workspace": (False, True),
    }
    if any(t.optional for t in op.inputs):
        factors |= {"optional": (False, True)}
    if op.has_indices:
        factors |= {"index": INDICES, "order": ("sorted", "hot", "any")}
    else:
        factors |= {"saved": ("forward", "any")}
    made = []
    for seed, choice in enumerate(pairwise(factors)):
        options = {f.name: choice[f.name] for f in dataclasses.fields(Case) if f.name in choice}
        made.append(Case(op, describe(op, choice, **function.fixed), seed, **options))
    return tuple(made)


FUNCTIONS = [(op, function) for op in OPS.values() for function in op.functions]


# Values ---------------------------------------------------------------------------------------


def special_values(kind: gp.ElementKind) -> Array:
    """Zeros, infinities, subnormals, the largest numbers, NaN with payloads, of both signs."""
    bits = kind.itemsize * 8
    fraction = kind.significand_bits - 1  # without the implicit one
    exponent = ((1 << (bits - 1 - fraction)) - 1) << fraction
    positive = [
        0,
        1,
        (1 << fraction) - 1,  # the largest subnormal
        1 << fraction,
        exponent - 1,  # the largest number
        exponent,
        exponent | (1 << (fraction - 1)),  # the canonical NaN
        exponent | 1,  # a signalling one
        exponent | (1 << (fraction - 1)) | 0x2A,
    ]
    both = positive + [p | (1 << (bits - 1)) for p in positive]
    return np.array(both, np.dtype(f"u{kind.itemsize}")).view(kind.dtype)


def float_values(kind: gp.ElementKind, shape: tuple[int, ...], style: str, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if style == "any bits":  # all magnitudes, but finite: one NaN would drown a whole row
        raw = rng.integers(0, 256, (*shape, kind.itemsize), np.uint8).view(kind.dtype)[..., 0]
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(raw), raw, kind.dtype.type(1.5))
    if style == "ties":
        small = rng.integers(-2, 3, shape).astype(kind.dtype)
        return np.where(rng.random(shape) < 0.1, kind.dtype.type(-0.0), small)
    if style == "rare":  # rows of ordinary values that a few others come into
        x = (1 + rng.standard_normal(shape) / 8).astype(kind.dtype)
        values = words(special_values(kind))
        for row in words(x).reshape(-1, shape[-1]):
            count = int(rng.integers(0, 4))
            row[rng.integers(0, len(row), count)] = values[rng.integers(0, len(values), count)]
        return x
    x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 3, shape)).astype(kind.dtype)
    if style == "special" and x.size:
        values = special_values(kind)
        count = int(rng.integers(1, 5 + x.size // 64))
        where = rng.integers(0, x.size, count)
        words(x).reshape(-1)[where] = words(values)[rng.integers(0, len(values), count)]
    return x


def index_values(kind: gp.ElementKind, count: int, rows: int, order: str, seed: int) -> Array:
    """Indices, some of them outside of [0, rows): far outside as well."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, max(rows, 1), count)
    if order == "hot":  # a third goes to one row, so that its members need many blocks
        ids[rng.random(count) < 0.33] = rows // 2
    limits = np.iinfo(kind.dtype)
    if seed % 3 and count:
        outside = [-1, rows, rows + 1, limits.min, limits.max]
        ids[rng.integers(0, count, 1 + count // 50)] = outside[seed % len(outside)]
    ids = ids.astype(kind.dtype)
    return np.sort(ids) if order == "sorted" else ids


def values_for(case: Case) -> dict[str, Array]:
    """Values of the inputs, and of the outputs that are read."""
    op, desc = case.op, case.desc
    values = {}
    for position, operand in enumerate(op.operands(desc)):
        if operand.is_input and operand.optional and not case.optional:
            continue
        seed = 100 * case.seed + position
        tensor = op.tensor_named[operand.name]
        if tensor.pointers:
            ends = pointers(str(seed), operand.shape[0] - 1, op.choices_of(tensor, desc))
            values[operand.name] = ends.astype(case.index.dtype)
        elif tensor.index:
            rows, count = op.choices_of(tensor, desc), math.prod(operand.shape)
            ids = index_values(case.index, count, rows, case.order, seed)
            values[operand.name] = ids.reshape(operand.shape)
        else:
            values[operand.name] = float_values(operand.kinds[0], operand.shape, case.style, seed)
    return values


def saved_from_forward(case: Case, values: dict[str, Array]) -> dict[str, Array]:
    """Replaces what the forward saved by what it really gives for these inputs."""
    names = saved_outputs(case.op, case.desc)
    forward = forward_of(case.op)
    if not names or forward is None:
        return values
    fields = {i.name: getattr(case.desc, i.name, i.default) for i in forward.fields}
    desc = forward.descriptor(**fields)
    missing = {
        o.name: float_values(o.kinds[0], o.shape, case.style, case.seed)
        for o in forward.operands(desc)
        if o.is_required and o.name not in values
    }
    known = {**missing, **values}
    inputs = {
        o.name: known[o.name] for o in forward.operands(desc) if o.is_input and o.name in known
    }
    try:
        results = plan_class(forward).select(desc, REFERENCE).run(**inputs)
    except gp.IndexOutOfRange:  # which the backward will say as well
        return values
    results = results if isinstance(results, tuple) else (results,)
    made = dict(zip((t.name for t in forward.outputs), results, strict=True))
    return {**values, **{name: made[name] for name in names}}


# Comparison -----------------------------------------------------------------------------------

Outcome = dict[str, bytes] | type[Exception]
"""The bits of every output, or what was raised."""


@dataclasses.dataclass
class Prepared:
    """A case with its tensors in place and the reference's outcome."""

    case: Case
    inputs: dict[str, Array]
    before: dict[str, Array]
    """What the outputs hold before the call: poison, unless they are read."""
    expected: Outcome

    @classmethod
    def of(cls, case: Case) -> Prepared:
        operands = case.op.operands(case.desc)
        values = values_for(case)
        place = INPUT_LAYOUTS[case.inputs]
        inputs = {
            o.name: place(values[o.name]) for o in operands if o.is_input and o.name in values
        }
        if case.saved == "forward":
            for name, x in saved_from_forward(case, inputs).items():
                if x is not inputs[name]:
                    # Repeating elements of it would make it another tensor.
                    inputs[name] = (
                        LAYOUTS.get(case.inputs, LAYOUTS["offset"])(x.shape, x.dtype).put(x).array
                    )
        before = {
            o.name: values[o.name] if _is_read(o) else _poison(o)
            for o in operands
            if not o.is_input
        }
        plan = plan_class(case.op).select(case.desc, REFERENCE)
        outputs = {name: x.copy() for name, x in before.items()}
        try:
            plan.run(**{name: x.copy() for name, x in inputs.items()}, **outputs)
            expected: Outcome = {name: x.tobytes() for name, x in outputs.items()}
        except gp.Error as error:
            expected = type(error)
        return cls(case, inputs, before, expected)

    def run(self, engine: Engine, threads: int | None = None) -> list[str]:
        """What is wrong with the engine's result; nothing if it has the reference's bits."""
        with num_threads(threads or self.case.threads):
            return self.run_as_is(engine)

    def run_as_is(self, engine: Engine) -> list[str]:
        """`run` with as many threads as are set already."""
        case = self.case
        plan = plan_class(case.op)(case.desc, engine, gp.PlanPreference())
        outputs = {
            name: LAYOUTS[case.outputs](x.shape, x.dtype).put(x) for name, x in self.before.items()
        }
        scratch = np.full(plan.workspace_size + 64, POISON, np.uint8)
        workspace = scratch[: plan.workspace_size] if case.workspace else None
        kept = {name: x.tobytes() for name, x in self.inputs.items()}
        raised = None
        try:
            plan.run(
                **self.inputs,
                **{name: placed.array for name, placed in outputs.items()},
                workspace=workspace,
            )
        except gp.Error as error:
            raised = type(error)
        wrong = []
        want = self.expected
        if isinstance(want, type) or raised is not None:
            if raised is not want:
                wrong.append(
                    f"raised {raised}, expected {want if isinstance(want, type) else None}"
                )
            want = {name: x.tobytes() for name, x in self.before.items()}
        for name, placed in outputs.items():
            difference = first_difference(placed.array, want[name])
            if difference:
                wrong.append(f"{name}{difference}")
            if not placed.only_itself_written():
                wrong.append(f"{name}: memory beside the output was written")
        if (scratch[plan.workspace_size :] != POISON).any():
            wrong.append("memory behind the workspace was written")
        if kept != {name: x.tobytes() for name, x in self.inputs.items()}:
            wrong.append("an input was changed")
        return [f"{case}: {what}" for what in wrong]


def _is_read(operand: Operand) -> bool:
    return operand.role.value == "inout"


def _poison(operand: Operand) -> Array:
    dtype = operand.kinds[0].dtype
    return np.full((*operand.shape, dtype.itemsize), POISON, np.uint8).view(dtype)[..., 0]


def first_difference(got: Array, want: bytes) -> str:
    """Where two tensors differ first, with both bit patterns; empty if they do not."""
    if got.tobytes() == want:
        return ""
    mine = words(np.ascontiguousarray(got)).reshape(-1)
    theirs = np.frombuffer(want, mine.dtype)
    at = np.flatnonzero(mine != theirs)
    position = [int(i) for i in np.unravel_index(at[0], got.shape)]
    digits = 2 * mine.dtype.itemsize
    return (
        f"{position} is {mine[at[0]]:0{digits}x}, expected {theirs[at[0]]:0{digits}x}; "
        f"{at.size} of {mine.size} differ"
    )


class num_threads:
    """Sets the number of threads for a while."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __enter__(self) -> None:
        self.before = gp.get_num_threads()
        gp.set_num_threads(self.n)

    def __exit__(self, *exc: object) -> None:
        gp.set_num_threads(self.before)


def mismatches(engines: Iterable[Engine], problems: Iterable[Case]) -> Iterator[str]:
    """Compares engines with the reference."""
    engines = list(engines)
    for case in problems:
        prepared = Prepared.of(case)
        for engine in engines:
            yield from prepared.run(engine)


def simple_case(op: Op, function: Function, **options: Any) -> Case:
    """A small ordinary case of a function."""
    return Case(op, sample_descriptor(op, **function.fixed), seed=1, **options)
