"""As many rows as keys can count: the last programs of launches that are too large to run whole.

Memory is that of sparse files, of which only what is written exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from layouts import Array
from ptx.machine import _lanes
from ptx.memory import Memory
from ptx.run import _bits, executable, kernels, layout_of
from row_calls import launches_of, same

from gradplan.cases import floats, hashed
from gradplan.engines.cuda.launches import segment, segment_reduce
from gradplan.engines.cuda.launches.sums import MOST_ROWS
from gradplan.engines.cuda.launches.tiles import DIGIT, LANES, SORTED, STARTS, SUMMED
from gradplan.engines.cuda.program import WORKSPACE, Launch, Pointer
from gradplan.ops.segment import SegmentSumDescriptor, UnsortedSegmentSumDescriptor
from gradplan.ops.segment_reduce import SegmentReduceBackwardDescriptor
from gradplan.reference import FUNCTIONS
from gradplan.reference.segment import BLOCK
from gradplan.vocabulary import ElementKind

LAST = 500  # the id of the last rows; all others have 0
ROWS = 300  # how many they are: two blocks
SEGMENTS = 600


class Sparse:
    """Arrays of any size, zero where nothing was written."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.count = 0

    def array(self, shape: tuple[int, ...], dtype: object) -> Array:
        self.count += 1
        return np.memmap(self.place / f"{self.count}", np.dtype(dtype), "w+", shape=shape)  # type: ignore[call-overload]


def _run(launch: Launch, programs: Sequence[int], tensors: dict[str, Array]) -> None:
    """Some programs of a launch."""
    addresses = {name: x.ctypes.data for name, x in tensors.items()}
    memory = Memory.of_addresses((a, a + tensors[name].nbytes) for name, a in addresses.items())
    kernel = executable(kernels()[launch.kernel])
    bits = [_bits(a, addresses) for a in launch.arguments]
    names = [p.name for p in kernel.module.parameters]
    values = dict.fromkeys(names, 0) | dict(zip(names, bits, strict=False))
    kernel._run(_lanes(kernel, launch.grid, np.array(programs), values, memory), False)


def _piece(launch: Launch, number: int, tensors: dict[str, Array], dtype: object) -> Array:
    """The workspace that an argument points to, from there on."""
    pointer = launch.arguments[number]
    assert isinstance(pointer, Pointer) and pointer.name == WORKSPACE
    rest = tensors[WORKSPACE][pointer.offset :]
    return rest[: rest.size // 8 * 8].view(np.dtype(dtype))  # type: ignore[no-any-return,call-overload]


@pytest.fixture
def sparse(tmp_path: Path) -> Sparse:
    return Sparse(tmp_path)


@pytest.mark.slow
def test_sums_of_the_last_rows(sparse: Sparse) -> None:
    kind = ElementKind.F16
    desc = SegmentSumDescriptor(
        num_inputs=MOST_ROWS, embedding_dim=1, num_segments=SEGMENTS, element=kind
    )
    tensors = {
        "input": sparse.array((MOST_ROWS, 1), np.float16),
        "segment_ids": sparse.array((MOST_ROWS,), np.int32),
        "output": sparse.array((SEGMENTS, 1), np.float16),
    }
    tail = floats("x", (ROWS, 1), kind, "wide")
    tensors["input"][-ROWS:] = tail
    made = segment.segment_sum(desc, {name: layout_of(x) for name, x in tensors.items()})
    tensors[WORKSPACE] = sparse.array((made.workspace_size,), np.uint8)
    (starts,) = launches_of(made, "segment_starts")
    (blocks,) = launches_of(made, "huge_blocks")
    (totals,) = launches_of(made, "segment_sums")
    _piece(starts, 0, tensors, np.int32)[MOST_ROWS - ROWS : MOST_ROWS] = LAST

    _run(starts, range(starts.grid[0]), tensors)
    found = _piece(starts, 1, tensors, np.int32)[: SEGMENTS + 1]
    want = np.full(SEGMENTS + 1, MOST_ROWS)
    want[0], want[1 : LAST + 1] = 0, MOST_ROWS - ROWS
    assert (found == want).all()
    assert starts.grid[0] == -(-(SEGMENTS + 1) // STARTS)

    # The first blocks of the large segment are of no interest: those before the last segment's.
    _run(blocks, [blocks.grid[0] - 1], tensors)
    _run(totals, [LAST // SUMMED["narrow"][0]], tensors)
    sums = FUNCTIONS["unsorted_segment_sum"](tail, np.zeros(ROWS, int), num_segments=1)
    assert same(np.asarray(tensors["output"][LAST]), sums[0])


def test_moves_of_the_last_keys(sparse: Sparse) -> None:
    desc = UnsortedSegmentSumDescriptor(
        num_inputs=MOST_ROWS, embedding_dim=1, num_segments=SEGMENTS, element="f16"
    )
    tensors = {
        "input": sparse.array((MOST_ROWS, 1), np.float16),
        "segment_ids": sparse.array((MOST_ROWS,), np.int32),
        "output": sparse.array((SEGMENTS, 1), np.float16),
    }
    made = segment.unsorted_segment_sum(desc, {n: layout_of(x) for n, x in tensors.items()})
    tensors[WORKSPACE] = sparse.array((made.workspace_size,), np.uint8)
    tiles = -(-MOST_ROWS // SORTED)
    first = (tiles - 1) * SORTED
    size = MOST_ROWS - first
    ids = (hashed("ids", size) % np.uint64(SEGMENTS + 2)).astype(np.int32) - 1
    tensors["segment_ids"][first:] = ids
    keys = np.where((ids >= 0) & (ids < SEGMENTS), ids, SEGMENTS)
    digits = keys % 2**DIGIT

    count, move = launches_of(made, "radix_count/i32")[0], launches_of(made, "radix_move/i32")[0]
    _run(count, [tiles - 1], tensors)
    counts = _piece(count, 1, tensors, np.int32)[: tiles * 2**DIGIT].reshape(-1, tiles)
    members = np.bincount(digits, minlength=2**DIGIT)
    assert (counts[:, -1] == members).all()

    # As if all keys before had been smaller.
    counts[:, -1] = first + np.cumsum(members) - members
    _run(move, [tiles - 1], tensors)
    order = np.argsort(digits, kind="stable")
    assert (_piece(move, 3, tensors, np.int32)[first:MOST_ROWS] == keys[order]).all()
    assert (_piece(move, 4, tensors, np.int32)[first:MOST_ROWS] == first + order).all()


FEW = 200
"""As many of the last rows as are one block."""


@pytest.mark.parametrize("kind", ["max", "prod"])
@pytest.mark.slow
def test_gradients_of_the_last_rows(kind: str, sparse: Sparse) -> None:
    """The largest places that are compared, and the last rows that are multiplied."""
    desc = SegmentReduceBackwardDescriptor(
        kind=kind,
        num_inputs=MOST_ROWS,
        embedding_dim=1,
        num_segments=SEGMENTS,
        element="f16",
        ties="last" if kind == "max" else "first",
    )
    tensors = {
        "d_output": sparse.array((SEGMENTS, 1), np.float16),
        "input": sparse.array((MOST_ROWS, 1), np.float16),
        "segment_ids": sparse.array((MOST_ROWS,), np.int32),
        "d_input": sparse.array((MOST_ROWS, 1), np.float16),
    }
    tail = floats("x", (FEW, 1), ElementKind.F16, "ties")
    own = {"d_output": np.float16([[3]]), "input": tail}
    if kind == "max":
        own["output"] = tail.max(0, keepdims=True)
        tensors["output"] = sparse.array((SEGMENTS, 1), np.float16)
        tensors["output"][LAST] = own["output"][0]
    tensors["input"][-FEW:] = tail
    tensors["d_output"][LAST] = 3
    layouts = {name: layout_of(x) for name, x in tensors.items()}
    made = segment_reduce.segment_reduce_backward(desc, layouts)
    tensors[WORKSPACE] = sparse.array((made.workspace_size,), np.uint8)
    (starts,) = launches_of(made, "segment_starts")
    begin = _piece(starts, 1, tensors, np.int32)
    begin[1 : LAST + 1], begin[LAST + 1 : SEGMENTS + 1] = MOST_ROWS - FEW, MOST_ROWS
    last = slice(MOST_ROWS - FEW, MOST_ROWS)
    if kind == "max":
        (results,) = launches_of(made, "segment_results")
        (rows,) = launches_of(made, "segment_rows")
        _piece(results, 2, tensors, np.int32)[last] = np.arange(last.start, last.stop)
        _run(results, [LAST // LANES], tensors)
        _piece(rows, 4, tensors, np.int32)[last] = LAST
        _run(rows, [rows.grid[0] - 1], tensors)
    else:
        (others,) = launches_of(made, "segment_others")
        _piece(others, 3, tensors, np.int32)[last] = np.arange(last.start, last.stop)
        halves = 2 * -(-MOST_ROWS // BLOCK)
        _run(others, [(halves + LAST) // LANES], tensors)
    ids = np.zeros(FEW, int)
    want = FUNCTIONS["segment_reduce_backward"](
        **own, segment_ids=ids, kind=kind, ties=desc.ties.value
    )
    assert same(np.asarray(tensors["d_input"][-FEW:]), want)
