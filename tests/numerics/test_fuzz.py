"""Random problems, layouts, values and mistakes.

Whatever comes, a call either gives the reference's bits or raises a named error and leaves the
outputs as they were; and both engines, whose checks are written twice, agree on which.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from layouts import POISON, Array, words
from matrix import Case, saved_from_forward, special_values
from samples import ELEMENTS, REFERENCE, sample_descriptors, sample_inputs

import gradplan as gp
from gradplan.declaration import OPS, Descriptor, Op, Operand
from gradplan.declaration.fields import (
    AxisOf,
    Element,
    Flag,
    IndexInto,
    Real,
    ShapeField,
    SizeField,
    Word,
)
from gradplan.engines import cpu
from gradplan.plan import plan_class
from gradplan.vocabulary import INDICES

pytestmark = pytest.mark.skipif(not cpu.supported_isas(), reason="no build for this CPU here")

# Deterministic, so that a run in CI can be repeated; `--hypothesis-seed` explores further.
fuzz = settings(
    deadline=None,
    derandomize=True,
    max_examples=25,
    phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes; the problems are small
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
per_op = pytest.mark.parametrize("name", list(OPS))
extents = st.one_of(
    st.integers(0, 5), st.integers(0, 40), st.sampled_from([15, 16, 17, 255, 256, 257, 513, 600])
)


# Problems


@st.composite
def descriptors(draw: Any, op: Op) -> Descriptor:
    """A valid problem, from the declaration."""
    values: dict[str, Any] = {}
    for info in op.fields:
        field = info.field
        if isinstance(field, Element):
            values[info.name] = draw(st.sampled_from(ELEMENTS))
        elif isinstance(field, SizeField):
            values[info.name] = draw(extents)
        elif isinstance(field, ShapeField):
            shape = draw(st.lists(extents, max_size=4))
            while np.prod(shape) > 20_000:
                shape.remove(max(shape))
            values[info.name] = tuple(shape)
        elif isinstance(field, AxisOf):
            rank = max(len(values[field.shape]), 1)
            values[info.name] = draw(st.integers(-rank, rank - 1))
        elif isinstance(field, IndexInto):
            size = values[field.size]
            values[info.name] = draw(st.none() | st.integers(0, size - 1)) if size else None
        elif isinstance(field, Word):
            values[info.name] = draw(st.sampled_from(list(field.kind)))
        elif isinstance(field, Flag):
            values[info.name] = draw(st.booleans())
        elif isinstance(field, Real):
            values[info.name] = draw(st.floats(-4, 4) | st.floats())
    return op.descriptor(**values)


@st.composite
def layouts(draw: Any, operand: Operand, dtype: np.dtype[Any], *, repeat: bool) -> Array:
    """Poisoned memory seen through random strides: any order, gaps, signs; zeros if `repeat`."""
    shape = operand.shape
    order = draw(st.permutations(range(len(shape))))
    strides = [0] * len(shape)
    reach = 1
    for axis in order:
        if repeat and draw(st.integers(0, 9)) == 0:
            continue  # stride 0
        strides[axis] = reach + draw(st.sampled_from([0, 0, 0, 1, 3]))
        reach += strides[axis] * max(shape[axis] - 1, 0)
    offset = draw(st.integers(0, 17))
    assume(reach < 500_000)
    memory = np.full((reach + offset + 1) * dtype.itemsize + 64, POISON, np.uint8)
    start = -memory.ctypes.data % 64 + offset * dtype.itemsize
    flat = memory[start : start + (len(memory) - start) // dtype.itemsize * dtype.itemsize]
    bytes_ = tuple(s * dtype.itemsize for s in strides)
    view = np.lib.stride_tricks.as_strided(flat.view(dtype), shape, bytes_)
    flips = tuple(slice(None, None, -1 if draw(st.booleans()) else 1) for _ in shape)
    return view[(*flips, ...)]


@st.composite
def tensors(draw: Any, op: Op, desc: Descriptor) -> dict[str, Array]:
    """Tensors that fit, with values of all kinds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    made: dict[str, Array] = {}
    for operand in op.operands(desc):
        kind = draw(st.sampled_from(operand.kinds))
        x = draw(layouts(operand, kind.dtype, repeat=operand.is_input))
        made[operand.name] = x
        if not operand.is_input and operand.role.value == "out":
            continue
        if kind in INDICES:
            rows = op.choices_of(op.tensor_named[operand.name], desc)
            margin = draw(st.sampled_from([0, 1, 5]))
            ids = rng.integers(-margin, rows + margin + 1, x.shape).astype(kind.dtype)
            x[...] = np.sort(ids) if draw(st.booleans()) and x.ndim else ids
            if draw(st.booleans()) and x.ndim and 0 not in x.strides:
                x[...] = np.sort(x)
        else:
            scale = 2.0 ** draw(st.integers(-20, 20))
            x[...] = (rng.standard_normal(x.shape) * scale).astype(kind.dtype)
            if x.size and draw(st.booleans()):
                specials = special_values(kind)
                at = rng.integers(0, x.size, 1 + x.size // 50)
                spots = np.unravel_index(at, x.shape) if x.ndim else ...
                which = rng.integers(0, len(specials), at.size if x.ndim else ())
                words(x)[spots] = words(specials)[which]
    if draw(st.booleans()) and not op.has_indices:
        inputs = {o.name: made[o.name] for o in op.operands(desc) if o.is_input}
        for name, x in saved_from_forward(Case(op, desc, 1), inputs).items():
            if x is not made[name] and 0 not in made[name].strides:
                words(made[name])[...] = words(x)
    return made


def outcome(op: Op, desc: Descriptor, given: dict[str, Any], prefer: gp.PlanPreference) -> Any:
    """The outputs' bits and the error's class, with everything else as it was."""
    outputs = [o.name for o in op.operands(desc) if not o.is_input]
    inputs = {n: x.tobytes() for n, x in given.items() if n not in outputs and _is_array(x)}
    before = {n: given[n].tobytes() for n in outputs if _is_array(given[n])}
    try:
        plan_class(op).select(desc, prefer).run(**given)
        error = None
    except (gp.Error, MemoryError) as raised:
        error = type(raised)
        assert op.plan_name in str(raised)
    after = {n: given[n].tobytes() for n in outputs if _is_array(given[n])}
    if error is not None:
        assert after == before, "an output was written although the call was refused"
    assert inputs == {n: x.tobytes() for n, x in given.items() if n in inputs}
    return error or after


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype != object


def compare(op: Op, desc: Descriptor, given: dict[str, Any]) -> None:
    names = [o.name for o in op.operands(desc) if not o.is_input]
    saved = {n: given[n].copy() for n in names if _is_array(given[n])}
    expected = outcome(op, desc, given, REFERENCE)
    if not isinstance(expected, type):
        for name, x in saved.items():
            words(given[name])[...] = words(x)
    got = outcome(op, desc, given, gp.PlanPreference(engine="cpu"))
    described = [x if isinstance(x, type) else "bits" for x in (got, expected)]
    assert got == expected, (desc, described, {n: _describe(x) for n, x in given.items()})


def _describe(x: Any) -> Any:
    return (x.dtype.name, x.shape, x.strides) if isinstance(x, np.ndarray) else x


@per_op
@fuzz
@given(data=st.data())
def test_any_problem_has_the_bits_of_the_reference(name: str, data: Any) -> None:
    op = OPS[name]
    desc = data.draw(descriptors(op))
    given = data.draw(tensors(op, desc))
    compare(op, desc, given)


# Mistakes


def _shift(x: Array, by: int) -> Array:
    raw = np.zeros(x.nbytes + 16, np.uint8)
    return raw[by : by + x.nbytes].view(x.dtype).reshape(x.shape)


MUTATIONS: dict[str, Any] = {
    "transpose": lambda x: x.T,
    "flatten": lambda x: x.reshape(-1),
    "drop": lambda x: x[:-1] if x.ndim else x,
    "add axis": lambda x: x[..., None],
    "repeat": lambda x: np.concatenate([x, x]) if x.ndim else x,
    "float32": lambda x: x.astype(np.float32),
    "float64": lambda x: x.astype(np.float64),
    "int16": lambda x: np.zeros(x.shape, np.int16),
    "uint64": lambda x: np.zeros(x.shape, np.uint64),
    "bool": lambda x: np.zeros(x.shape, bool),
    "big endian": lambda x: np.zeros(x.shape, ">f4"),
    "objects": lambda x: np.full(x.shape, None),
    "misaligned": lambda x: _shift(x, 1),
    "elsewhere": lambda x: _shift(x, 8),
    "stride 0": lambda x: np.broadcast_to(np.zeros((1,) * x.ndim, x.dtype), x.shape),
    "overlapping": lambda x: np.lib.stride_tricks.as_strided(
        np.zeros(x.size + 64, x.dtype), x.shape, (x.itemsize,) * x.ndim
    ),
    "none": lambda x: None,
    "list": lambda x: [1.0],
    "scalar": lambda x: 3,
    "bytes": lambda x: bytes(8),
    "masked": lambda x: np.ma.masked_array(np.zeros(x.shape, x.dtype)),
}


@per_op
@fuzz
@given(data=st.data())
def test_any_mistake_is_refused_by_name_or_harmless(name: str, data: Any) -> None:
    op = OPS[name]
    desc = data.draw(descriptors(op))
    given = data.draw(tensors(op, desc))
    names = list(given)
    for _ in range(data.draw(st.integers(1, 2))):
        broken = data.draw(st.sampled_from(names))
        x = given[broken]
        mutate = data.draw(st.sampled_from(list(MUTATIONS)))
        if isinstance(x, np.ndarray) and x.dtype != object:  # which cannot be broken further
            with np.errstate(all="ignore"):
                given[broken] = MUTATIONS[mutate](x)
    outputs = {o.name for o in op.operands(desc) if not o.is_input}
    # An output that is left out is no mistake, and has its own tests.
    assume(all(given[n] is not None for n in outputs))
    compare(op, desc, given)


@per_op
@fuzz
@given(data=st.data())
def test_tensors_that_share_memory(name: str, data: Any) -> None:
    """Windows on one buffer, at any distance: the engines agree on what overlaps."""
    op = OPS[name]
    desc = data.draw(descriptors(op))
    operands = op.operands(desc)
    size = sum(int(np.prod(o.shape)) * 8 for o in operands) + 256
    assume(size < 200_000)
    memory = np.zeros(size, np.uint8)
    memory[...] = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 60, size)
    memory[1::2] = 0  # small numbers, and indices that are not all out of range
    base = -memory.ctypes.data % 64
    given = {}
    for operand in operands:
        kind = data.draw(st.sampled_from(operand.kinds))
        count = int(np.prod(operand.shape))
        room = (size - base) // kind.itemsize - count
        start = base + kind.itemsize * min(data.draw(st.integers(0, 40)), room)
        flat = memory[start : start + count * kind.itemsize]
        given[operand.name] = flat.view(kind.dtype).reshape(operand.shape)
    whole = memory.copy()
    results = []
    for prefer in (REFERENCE, gp.PlanPreference(engine="cpu")):
        memory[...] = whole
        error = None
        try:
            plan_class(op).select(desc, prefer).run(**given)
        except gp.Error as raised:
            error = type(raised)
            assert memory.tobytes() == whole.tobytes()
        results.append((error, memory.tobytes()))
    assert results[0] == results[1]


# Descriptors


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=4),
    st.lists(st.integers(-2, 9) | st.floats(), max_size=3),
    st.tuples(st.integers(-2, 2**40), st.integers(-2, 2**40)),
    st.sampled_from([*gp.ElementKind, *gp.ScanKind, np.int64(3), np.float32(2), b"f32", object()]),
)


@per_op
@fuzz
@given(data=st.data())
def test_any_descriptor_is_valid_or_refused_by_name(name: str, data: Any) -> None:
    op = OPS[name]
    good = data.draw(descriptors(op))
    fields = {i.name: getattr(good, i.name) for i in op.fields}
    fields[data.draw(st.sampled_from(list(fields)))] = data.draw(anything)
    try:
        desc = op.descriptor(**fields)
        hash(desc)
        plan_class(op).select(desc)
    except (gp.InvalidProblem, gp.Unsupported) as error:
        assert op.title in str(error)


@per_op
def test_index_axes_are_found(name: str) -> None:
    """The strategies above find out what indices choose from in the declarations."""
    op = OPS[name]
    for desc in sample_descriptors(op) if op.reads_indices else ():
        if "bounds" in op.field_named:
            desc = dataclasses.replace(desc, bounds="raise")
        inputs = sample_inputs(op, desc)
        plan = plan_class(op).select(desc, REFERENCE)
        for tensor in (t for t in op.inputs if t.index):
            # The last pointer may be behind the last row.
            choices = op.choices_of(tensor, desc) + tensor.pointers
            for last in (choices - 1, choices):
                given = inputs[tensor.name].copy()
                given[(-1,) * given.ndim] = last
                if last < choices:
                    plan.run(**{**inputs, tensor.name: given})
                    continue
                with pytest.raises(gp.IndexOutOfRange, match=f"{tensor.name}.* = {choices}"):
                    plan.run(**{**inputs, tensor.name: given})
