"""Misuse is refused by name before anything is written; memory is never left.

What `run` says about each kind of wrong tensor is in contract/test_plan.py, for one op. Here every
tensor of every op is broken in every way, and memory itself is watched.
"""

from __future__ import annotations

import itertools
import math
import mmap
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from layouts import POISON, Array, words
from matrix import FUNCTIONS, Case, Prepared, cases, num_threads
from processes import run_python
from samples import (
    all_elements,
    all_ops,
    sample_descriptor,
    sample_descriptors,
    sample_inputs,
)

import gradplan as gp
from gradplan.cases import axis_sizes
from gradplan.declaration import AxisRole, Descriptor, Op, Operand
from gradplan.engines import cpu
from gradplan.plan import Plan, plan_class

pytestmark = pytest.mark.skipif(not cpu.supported_isas(), reason="no build for this CPU here")


# Every tensor of every op, broken in every way


def poisoned(operand: Operand) -> Array:
    x = np.empty(operand.shape, operand.kinds[0].dtype)
    words(x)[...] = ~words(x).dtype.type(0)
    return x


def _other_dtype(x: Array) -> Array:
    wrong = np.float64 if x.dtype == np.float32 else np.float32
    return np.zeros(x.shape, wrong)


def _misaligned(x: Array) -> Array:
    room = np.zeros(x.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 8 + 1
    return room[start : start + x.nbytes].view(x.dtype).reshape(x.shape)


def _odd_strides(x: Array) -> Array:
    packed = np.zeros(len(x), dtype=[("pad", "i1"), ("x", x.dtype, x.shape[1:])])
    return packed["x"]


def _repeated(x: Array) -> Array:
    return np.lib.stride_tricks.as_strided(x, x.shape, (0,) * x.ndim)


def _read_only(x: Array) -> Array:
    x.flags.writeable = False
    return x


Breaker = Callable[[Array], Any]
BROKEN: dict[str, tuple[Breaker, type[Exception], str]] = {
    "too few": (lambda x: x[:-1], gp.BufferTooSmall, "shape"),
    "too many": (lambda x: np.concatenate([x, x]), gp.InvalidProblem, "shape"),
    "one axis more": (lambda x: x[None], gp.InvalidProblem, "shape"),
    "one axis less": (lambda x: np.zeros(x.size + 1, x.dtype), gp.InvalidProblem, "shape"),
    "empty": (lambda x: x[:0], gp.BufferTooSmall, "shape"),
    "element type": (_other_dtype, gp.InvalidProblem, "element type"),
    "big endian": (lambda x: x.astype(x.dtype.newbyteorder()), gp.InvalidProblem, "element type"),
    "bytes": (lambda x: x.view(np.uint8), gp.InvalidProblem, "element type"),
    "bool": (lambda x: np.zeros(x.shape, bool), gp.InvalidProblem, "element type"),
    "complex": (lambda x: np.zeros(x.shape, np.complex64), gp.InvalidProblem, "element type"),
    "objects": (lambda x: np.zeros(x.shape, object), gp.InvalidProblem, "element type"),
    "misaligned": (_misaligned, gp.MisalignedOperand, "address"),
    "odd strides": (_odd_strides, gp.MisalignedOperand, "strides"),
    "list": (lambda x: x.tolist(), gp.InvalidProblem, "a tensor"),
    "scalar": (lambda x: 1.5, gp.InvalidProblem, "a tensor"),
    "string": (lambda x: "x", gp.InvalidProblem, "a tensor"),
}
BROKEN_OUTPUT: dict[str, tuple[Breaker, type[Exception], str]] = {
    "repeated": (_repeated, gp.InvalidProblem, "an output whose elements"),
    "read-only": (_read_only, gp.InvalidProblem, "can be written"),
}


@all_ops
def test_every_broken_tensor_is_named_and_nothing_is_written(op: Op) -> None:
    for desc in sample_descriptors(op):
        plan = plan_class(op).select(desc)
        operands = op.operands(desc)
        for operand in operands:
            breakers = BROKEN if operand.is_input else {**BROKEN, **BROKEN_OUTPUT}
            for name, (broken, error, what) in breakers.items():
                if name == "big endian" and operand.kinds[0].dtype.name == "bfloat16":
                    continue
                check_refusal(plan, desc, operand, broken, error, what, name)


def check_refusal(
    plan: Plan[Any],
    desc: Descriptor,
    operand: Operand,
    broken: Breaker,
    error: type[Exception],
    what: str,
    name: str,
) -> None:
    op = plan.op
    tensors = sample_inputs(op, desc)
    tensors |= {o.name: poisoned(o) for o in op.operands(desc) if not o.is_input}
    tensors[operand.name] = broken(tensors[operand.name].copy())
    before = {n: x.tobytes() for n, x in tensors.items() if isinstance(x, np.ndarray)}
    with pytest.raises(gp.Error) as caught:
        plan.run(**tensors)
    message = str(caught.value)
    assert type(caught.value) is error, (name, operand.name, message)
    for part in (op.plan_name, f"'{operand.name}'", "expected", "got", what):
        assert part in message, (name, part, message)
    after = {n: x.tobytes() for n, x in tensors.items() if isinstance(x, np.ndarray)}
    assert after == before, (name, operand.name)


@all_ops
def test_tensors_without_memory_are_refused(op: Op) -> None:
    torch = pytest.importorskip("torch")
    for desc in sample_descriptors(op):
        plan = plan_class(op).select(desc)
        operands = op.operands(desc)
        inputs = sample_inputs(op, desc)
        for operand in operands:
            tensors = {n: torch.from_numpy(x) for n, x in inputs.items()}
            outputs = {o.name: torch.full(o.shape, 7.0) for o in operands if not o.is_input}
            tensors |= outputs
            kind = torch.int64 if len(operand.kinds) > 1 else torch.float32
            tensors[operand.name] = torch.zeros(operand.shape, dtype=kind, device="meta")
            with pytest.raises(gp.Unsupported, match=f"{op.plan_name}.*'{operand.name}'.*expected"):
                plan.run(**tensors)
            assert all((x == 7).all() for n, x in outputs.items() if n != operand.name)


# Values of indices


def index_plans() -> list[Op]:
    """Those with `bounds`: pointers have their own tests (numerics/test_segment_csr.py)."""
    ops = (plan.op for plan in _plans())
    return [op for op in ops if op.reads_indices and "bounds" in op.field_named]


def _plans() -> list[type[Plan[Any]]]:
    return [getattr(gp, name) for name in gp.__all__ if name.endswith("Plan") and name != "Plan"]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("op", index_plans(), ids=lambda op: op.name)
def test_the_first_index_outside_is_named_and_nothing_is_written(op: Op, dtype: Any) -> None:
    """Behind thousands of right ones as well, where threads look for it."""
    for (n, bad), function in itertools.product(((5, 3), (40_000, 37_123)), op.functions):
        desc = sample_descriptor(op, **function.fixed, **index_sizes(op, n, 6), bounds="raise")
        plan = plan_class(op).select(desc)
        for value in (-1, 6, np.iinfo(dtype).min, np.iinfo(dtype).max):
            tensors: dict[str, Any] = {}
            for operand in op.operands(desc):
                if len(operand.kinds) > 1 and operand.is_input:
                    ids = np.empty(operand.shape, dtype)
                    flat = ids.reshape(-1)
                    flat[:] = np.sort(np.arange(ids.size) % 6)
                    first = ids.size - n + bad  # in the last line, if each has indices of its own
                    if value < 0 and _ascending(op):
                        first = 0
                        flat[:2] = value
                    else:
                        flat[first:] = value
                    position = ", ".join(map(str, np.unravel_index(first, ids.shape)))
                    tensors[operand.name] = ids
                else:
                    tensors[operand.name] = poisoned(operand)
            before = {name: x.tobytes() for name, x in tensors.items()}
            with pytest.raises(gp.IndexOutOfRange) as caught:
                plan.run(**tensors)
            assert isinstance(caught.value, IndexError)
            assert f"[{position}] = {value}" in str(caught.value)
            assert op.plan_name in str(caught.value)
            assert {name: x.tobytes() for name, x in tensors.items()} == before


def index_sizes(op: Op, count: int, extent: int) -> dict[str, Any]:
    """Fields of a problem with so many indices in a line, that choose from `extent`."""
    if op.shape_field is None:
        return axis_sizes(op, count, extent, 3)
    sizes = dict.fromkeys(op.sizes_with_role(AxisRole.ALONG), extent)
    return {op.shape_field: (2, count), **sizes}


def _ascending(op: Op) -> bool:
    return any(t.ascending for t in op.tensors)


@pytest.mark.parametrize("n", [2, 4098, 40_000])
@pytest.mark.parametrize("bounds", ["skip", "raise"])
def test_ids_that_descend_are_refused(n: int, bounds: str) -> None:
    desc = gp.SegmentSumDescriptor(
        num_inputs=n, embedding_dim=2, num_segments=9, element="f32", bounds=bounds
    )
    ids = np.full(n, 5)
    ids[n - 1] = 4
    output = np.full((9, 2), np.nan, np.float32)
    with pytest.raises(gp.InvalidProblem, match=rf"SegmentSumPlan.*segment_ids\[{n - 1}\] = 4"):
        gp.SegmentSumPlan.select(desc).run(
            input=np.ones((n, 2), np.float32), segment_ids=ids, output=output
        )
    assert np.isnan(output).all()


# Overlap


def test_partial_overlap_is_refused_in_every_direction() -> None:
    memory = np.zeros(4096, np.float32)
    plan = gp.ScanPlan.select(
        gp.ScanDescriptor(kind="cumsum", input_shape=(10, 20), scan_axis=1, element="f32")
    )

    def view(start: int, strides: tuple[int, int]) -> Array:
        base = memory[start:]
        return np.lib.stride_tricks.as_strided(base, (10, 20), tuple(4 * s for s in strides))

    x = view(1000, (20, 1))
    for start in (801, 999, 1001, 1199):
        with pytest.raises(gp.InvalidProblem, match="'y': expected memory apart from 'x'"):
            plan.run(x=x, y=view(start, (20, 1)))
    for start in (800, 1200):
        plan.run(x=x, y=view(start, (20, 1)))
    # The same elements in another order are not the same memory.
    with pytest.raises(gp.InvalidProblem, match="exactly the same"):
        plan.run(x=x, y=x[::-1])
    square = memory[:400].reshape(20, 20)
    turned = gp.ScanPlan.select(
        gp.ScanDescriptor(kind="cumsum", input_shape=(20, 20), scan_axis=1, element="f32")
    )
    with pytest.raises(gp.InvalidProblem, match="exactly the same"):
        turned.run(x=square, y=square.T)


@pytest.mark.parametrize("gap", [1, 2, 5])
def test_interleaved_views_are_apart(gap: int) -> None:
    """Even and odd columns, rows between rows: near each other, but no element is shared."""
    rng = np.random.default_rng(gap)
    shape = (6, 8)
    plan = gp.ScanPlan.select(
        gp.ScanDescriptor(kind="cumsum", input_shape=shape, scan_axis=1, element="f32")
    )
    values = rng.standard_normal(shape).astype(np.float32)
    expected = plan.run(x=values).tobytes()
    wide = np.zeros((6, 8 * (gap + 1)), np.float32)
    tall = np.zeros((6 * (gap + 1), 8), np.float32)
    for x, y in (
        (wide[:, :: gap + 1], wide[:, gap :: gap + 1]),
        (tall[:: gap + 1], tall[gap :: gap + 1][::-1]),
    ):
        x[...] = values
        assert plan.run(x=x, y=y) is y
        assert y.tobytes() == expected
        assert x.tobytes() == values.tobytes()


@all_elements
@all_ops
def test_in_place_has_the_bits_of_apart(op: Op, element: gp.ElementKind) -> None:
    """Where it is declared, for layouts and sizes of the matrix."""
    checked = 0
    for function in op.functions:
        for case in cases(op, function)[::2]:
            if case.desc.element is not element or case.inputs.startswith("stride 0"):
                continue
            prepared = Prepared.of(case)
            if isinstance(prepared.expected, type):
                continue
            plan = plan_class(op).select(case.desc)
            for out in (o for o in op.operands(case.desc) if not o.is_input):
                for name in out.inplace:
                    if name not in prepared.inputs:
                        continue
                    shared = prepared.inputs[name]
                    saved = shared.copy()
                    with num_threads(case.threads):
                        plan.run(**prepared.inputs, **{out.name: shared})
                    assert shared.tobytes() == prepared.expected[out.name], (case, name)
                    words(shared)[...] = words(saved)
                    checked += 1
    assert checked or not any(t.inplace for t in op.tensors)


def test_two_outputs_must_be_apart() -> None:
    desc = gp.BinaryParamBackwardDescriptor(kind="lerp", shape=(8,), element="f32", param=0.3)
    plan = gp.BinaryParamBackwardPlan.select(desc)
    both = np.full(12, 7, np.float32)
    dy = np.ones(8, np.float32)
    for da, db in ((both[:8], both[:8]), (both[:8], both[4:])):
        with pytest.raises(gp.InvalidProblem, match="expected memory apart from"):
            plan.run(dy=dy, da=da, db=db)
    assert (both == 7).all()


def test_indices_may_not_lie_in_an_output() -> None:
    desc = gp.EmbeddingDescriptor(num_embeddings=4, embedding_dim=2, num_indices=3, element="f32")
    memory = np.zeros(64, np.uint8)
    indices = memory[:24].view(np.int64)
    output = memory[20:44].view(np.float32).reshape(3, 2)
    with pytest.raises(gp.InvalidProblem, match="'output': expected memory apart from 'indices'"):
        gp.EmbeddingPlan.select(desc).run(
            weight=np.ones((4, 2), np.float32), indices=indices, output=output
        )
    assert not memory.any()


# The workspace


def workspace_problem() -> tuple[Plan[Any], dict[str, Any]]:
    n = 5000
    desc = gp.UnsortedSegmentSumDescriptor(
        num_inputs=n, embedding_dim=3, num_segments=7, element="f32"
    )
    rng = np.random.default_rng(3)
    return gp.UnsortedSegmentSumPlan.select(desc), {
        "input": rng.standard_normal((n, 3)).astype(np.float32),
        "segment_ids": rng.integers(0, 7, n),
    }


def test_a_workspace_that_is_given_is_used_and_not_exceeded() -> None:
    plan, inputs = workspace_problem()
    expected = plan.run(**inputs).tobytes()
    assert plan.workspace_size > 0
    for extra in (0, 1, 1000):
        for shift in (0, 1, 7, 63):
            memory = np.full(plan.workspace_size + extra + 256, POISON, np.uint8)
            end = shift + plan.workspace_size + extra
            workspace = memory[shift:end]
            assert plan.run(**inputs, workspace=workspace).tobytes() == expected
            assert (workspace != POISON).any(), "not used"
            assert (memory[:shift] == POISON).all() and (memory[end:] == POISON).all()


@pytest.mark.parametrize(
    ("op", "function"), FUNCTIONS, ids=[function.name for _, function in FUNCTIONS]
)
def test_a_workspace_one_byte_short_is_refused(op: Op, function: Any) -> None:
    for case in cases(op, function)[::20]:
        plan = plan_class(op).select(case.desc)
        if plan.workspace_size == 0:
            continue
        prepared = Prepared.of(case)
        outputs = {n: x.copy() for n, x in prepared.before.items()}
        before = {n: x.tobytes() for n, x in outputs.items()}
        with pytest.raises(gp.WorkspaceTooSmall) as caught:
            plan.run(
                **prepared.inputs, **outputs, workspace=np.zeros(plan.workspace_size - 1, np.uint8)
            )
        assert str(plan.workspace_size) in str(caught.value)
        assert str(plan.workspace_size - 1) in str(caught.value)
        assert op.plan_name in str(caught.value)
        assert {n: x.tobytes() for n, x in outputs.items()} == before


def bad_workspaces(size: int) -> dict[str, Any]:
    read_only = np.zeros(size, np.uint8)
    read_only.flags.writeable = False
    return {
        "not contiguous": np.zeros(2 * size, np.uint8)[::2],
        "backwards": np.zeros(size, np.uint8)[::-1],
        "repeated": np.broadcast_to(np.zeros(1, np.uint8), (size,)),
        "read-only": read_only,
        "bytes": bytes(size),
        "list": [0] * size,
        "number": size,
        "string": "x" * size,
        "objects": np.zeros(size, object),
    }


@pytest.mark.parametrize("name", [*bad_workspaces(1), "meta"])
def test_a_bad_workspace_is_refused(name: str) -> None:
    plan, inputs = workspace_problem()
    if name == "meta":
        workspace = pytest.importorskip("torch").zeros(plan.workspace_size, device="meta")
    else:
        workspace = bad_workspaces(plan.workspace_size)[name]
    output = np.full((7, 3), 7, np.float32)
    with pytest.raises((gp.InvalidProblem, gp.Unsupported), match=r"UnsortedSegmentSum.*workspace"):
        plan.run(**inputs, output=output, workspace=workspace)
    assert (output == 7).all()


@pytest.mark.parametrize("other", ["output", "input", "segment_ids"])
def test_a_workspace_that_is_also_a_tensor_is_refused(other: str) -> None:
    plan, inputs = workspace_problem()
    room = np.zeros(plan.workspace_size + 200_000, np.uint8)
    output = np.zeros((7, 3), np.float32)
    tensors = {**inputs, "output": output}
    x = tensors[other]
    inside = room[64 : 64 + x.nbytes].view(x.dtype).reshape(x.shape)
    inside[...] = x
    tensors[other] = inside
    before = {name: t.tobytes() for name, t in tensors.items()}
    with pytest.raises(gp.InvalidProblem, match="workspace"):
        plan.run(**tensors, workspace=room)
    assert {name: t.tobytes() for name, t in tensors.items()} == before


# Memory


def test_memory_that_cannot_be_had_is_a_memory_error() -> None:
    """A workspace of many gigabytes, for inputs that repeat one element."""
    n = 1 << 40
    desc = gp.UnsortedSegmentSumDescriptor(
        num_inputs=n, embedding_dim=2, num_segments=4, element="f64"
    )
    plan = gp.UnsortedSegmentSumPlan.select(desc)
    assert plan.workspace_size > n
    output = np.full((4, 2), 7.0)
    with pytest.raises(MemoryError):
        plan.run(
            input=np.broadcast_to(np.float64(1), (n, 2)),
            segment_ids=np.broadcast_to(np.int64(1), (n,)),
            output=output,
        )
    assert (output == 7).all()
    # And nothing is broken afterwards.
    assert gp.unsorted_segment_sum(np.float32([1, 2]), np.array([0, 0]), 1).tolist() == [3]


def test_memory_limits_of_the_process_give_memory_errors() -> None:
    resource = pytest.importorskip("resource")
    assert resource
    code = """
import resource, numpy as np, gradplan as gp
rng = np.random.default_rng(0)
n = 1 << 22
x, ids = np.ones((n, 2), np.float64), rng.integers(0, 1000, n)
out = np.full((1000, 2), 7.0)
plan = gp.UnsortedSegmentSumPlan.select(gp.UnsortedSegmentSumDescriptor(
    num_inputs=n, embedding_dim=2, num_segments=1000, element="f64"))
small = gp.unsorted_segment_sum(x[:9], ids[:9], 1000)
gp.cumsum(np.ones((600, 600), np.float32))  # the team is there before memory is short
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), -1))
try:
    plan.run(input=x, segment_ids=ids, output=out)
except MemoryError as error:
    assert (out == 7).all()
    print("MemoryError", plan.workspace_size > (16 << 20))
try:
    gp.cumsum(np.broadcast_to(np.float32(1), (1 << 26,)))
except MemoryError as error:
    print("MemoryError")
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
assert plan.run(input=x, segment_ids=ids, output=out) is out
assert out.sum() == x.size
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["MemoryError", "True", "MemoryError"]


# Walls: pages that must not be touched, right before and right behind every tensor

WALLS = """
import ctypes, math, mmap, sys
import numpy as np
import layouts, matrix
from gradplan.engines import cpu

libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE

def walled(nbytes, at_end):
    "Memory that ends (or begins) at a page that cannot even be read."
    pages = max(1, -(-nbytes // PAGE))
    area = mmap.mmap(-1, (pages + 2) * PAGE)
    whole = np.frombuffer(area, np.uint8)
    base = whole.ctypes.data
    for wall in (base, base + (pages + 1) * PAGE):
        assert libc.mprotect(ctypes.c_void_p(wall), PAGE, 0) == 0
    inside = whole[PAGE : (pages + 1) * PAGE]
    inside[...] = layouts.POISON
    return inside[inside.size - nbytes :] if at_end else inside[:nbytes]

def place(x, at_end):
    raw = walled(x.nbytes, at_end).view(x.dtype).reshape(x.shape)
    layouts.words(raw)[...] = layouts.words(x)
    return raw

def columns(x, at_end):
    return place(x.T.copy(), at_end).T  # ascontiguousarray would give a scalar an axis

count = 0
for op, function in matrix.FUNCTIONS:
    for case in matrix.cases(op, function)[::4]:
        if sum(math.prod(o.shape) for o in op.operands(case.desc)) > 100_000:
            continue
        prepared = matrix.Prepared.of(matrix.dataclasses.replace(case, inputs="contiguous"))
        plan = matrix.plan_class(op)(case.desc, cpu.CpuEngine(BUILD), matrix.gp.PlanPreference())
        for make in (place, columns):
            for at_end in (True, False):
                inputs = {n: make(x, at_end) for n, x in prepared.inputs.items()}
                outputs = {n: make(x, at_end) for n, x in prepared.before.items()}
                workspace = walled(plan.workspace_size, at_end)
                print(prepared.case, make.__name__, at_end, file=sys.stderr, flush=True)
                try:
                    plan.run(**inputs, **outputs, workspace=workspace)
                    got = {n: y.tobytes() for n, y in outputs.items()}
                except matrix.gp.Error as error:
                    got = type(error)
                assert got == prepared.expected, prepared.case
                count += 1
print(count)
"""


@pytest.mark.slow
@pytest.mark.parametrize("build", cpu.supported_isas())
def test_nothing_outside_of_the_tensors_is_even_read(build: str) -> None:
    """In another process: reading a wall kills it. The last line then says what it was doing."""
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        pytest.skip("no anonymous memory here")
    result = run_python(f"BUILD = {build!r}\n" + WALLS, timeout=300)
    assert result.returncode == 0, f"killed at: {result.stderr.strip().splitlines()[-8:]}"
    assert int(result.stdout) > 1000


# Sizes


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(gp.InvalidProblem, match=r"2\^63"):
        gp.ScanPlan.select(
            gp.ScanDescriptor(
                kind="cumsum", input_shape=(1 << 40, 1 << 40), scan_axis=0, element="f32"
            )
        )
    for bad in (-1, 1.5, "3", None, 1 << 63):
        with pytest.raises(gp.InvalidProblem, match="ScanDescriptor: input_shape"):
            gp.ScanDescriptor(kind="cumsum", input_shape=(bad,), scan_axis=0, element="f32")  # type: ignore[arg-type]
    # An extent of 0 beside a huge one is fine: there is nothing to do.
    empty = gp.ScanPlan.select(
        gp.ScanDescriptor(kind="cumsum", input_shape=(1 << 40, 0), scan_axis=0, element="f32")
    )
    assert empty.run(x=np.empty((1 << 40, 0), np.float32)).shape == (1 << 40, 0)


@all_ops
def test_empty_problems_do_nothing(op: Op) -> None:
    for function in op.functions:
        for case in cases(op, function):
            operands = op.operands(case.desc)
            if all(math.prod(o.shape) for o in operands):
                continue
            assert Prepared.of(case).run(cpu.CpuEngine()) == []


def test_ranks_beyond_eight_work() -> None:
    shape = (2,) * 12
    x = np.arange(2**12, dtype=np.float32).reshape(shape)
    for axis in (0, 5, 11):
        assert gp.cumsum(x, axis=axis).tobytes() == np.cumsum(x, axis=axis).tobytes()
        view = x.transpose(np.roll(np.arange(12), 3))
        assert gp.cumsum(view, axis=axis).tobytes() == np.cumsum(view, axis=axis).tobytes()


def test_a_case_prints_what_makes_it() -> None:
    """Failure messages of the matrix name everything that is needed to repeat them."""
    op, function = FUNCTIONS[0]
    text = repr(Case(op, cases(op, function)[0].desc, seed=3, style="ties"))
    assert all(part in text for part in ("Descriptor(", "seed=3", "style='ties'", "threads=1"))
