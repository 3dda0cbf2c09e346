"""Sums of the rows of each segment, in the contract's order and without atomics.

The ids are sorted by now (radix.py), or ascend anyway. The first member of each segment is found by
binary search. Sums of blocks of 256 members are serial, a column to a lane. A segment of up to 256
members is one block; the blocks of larger ones are summed by programs of their own, and added
serially by the program of the segment (members.py).

Bytes: each row is read once and each sum written once, which is the least; 8 bytes per id and the
searches' log2(n) reads per segment (from the cache) come on top. Sums of the blocks of huge
segments are 1/128 of their rows, written and read. PTX instructions per element, f32, 32 members a
segment: 8 in the vector form, 23 to 36 in the others, more for fewer members.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.engines.cuda.launches.tiles import STARTS, SUMMED, UNDERWAY, vector_columns
from gradplan.vocabulary import FLOATS

from .arithmetic import down, up
from .kernel import Kernel
from .members import SLOT, block_count, block_of, serial, with_blocks
from .types import POINTERS, signature


@triton.jit
def segment_starts(key_ptr, start_ptr, n, segments, steps, COUNT: tl.constexpr):
    """start[s]: how many keys are less than s, for s in 0..segments; 2^steps > n."""
    s = tl.program_id(0).to(tl.int64) * COUNT + tl.arange(0, COUNT)
    low = tl.zeros([COUNT], tl.int32)
    high = tl.zeros([COUNT], tl.int32) + n
    for _ in range(steps):
        open_ = low < high
        middle = low + ((high - low) >> 1)
        below = tl.load(key_ptr + middle, mask=open_, other=0) < s
        low, high = (
            tl.where(open_ & below, middle + 1, low),
            tl.where(open_ & (below == 0), middle, high),
        )
    tl.store(start_ptr + s, low, mask=s <= segments)


@triton.jit
def serial_sums(
    x_ptr, pos_ptr, first, count, c, width, x_row, x_step,
    U: tl.constexpr, ASCENDING: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    return serial(
        x_ptr, x_ptr, 0.0, pos_ptr, first, count, c[None, :], width, x_row, x_step, 0, 0,
        ASCENDING, 0, UNIT, U, "itself", "cumsum",
    )  # fmt: skip


@triton.jit
def huge_blocks(
    x_ptr, key_ptr, pos_ptr, start_ptr, part_ptr, n, segments, width, parts, x_row, x_step,
    ASCENDING: tl.constexpr, UNIT: tl.constexpr,
    S: tl.constexpr, C: tl.constexpr, U: tl.constexpr,
):  # fmt: skip
    """The sums of the blocks of segments with more than 256 members."""
    pid = tl.program_id(0)
    half = (pid // parts).to(tl.int64) * S + tl.arange(0, S)
    c = (pid % parts).to(tl.int64) * C + tl.arange(0, C)
    _, first, count = block_of(half, key_ptr, start_ptr, n, segments)
    total = serial_sums(x_ptr, pos_ptr, first, count, c, width, x_row, x_step, U, ASCENDING, UNIT)
    to = part_ptr + (half * width)[:, None] + c[None, :]
    tl.store(to, total, mask=(count > 0)[:, None] & (c < width)[None, :])


@triton.jit
def segment_sums(
    x_ptr, pos_ptr, start_ptr, part_ptr, y_ptr, segments, width, parts, accumulate,
    x_row, x_step, y_row, y_step,
    ASCENDING: tl.constexpr, UNIT: tl.constexpr,
    S: tl.constexpr, C: tl.constexpr, U: tl.constexpr,
):  # fmt: skip
    """Small segments from their rows, huge ones from the sums of their blocks."""
    pid = tl.program_id(0)
    s = (pid // parts).to(tl.int64) * S + tl.arange(0, S)
    c = (pid % parts).to(tl.int64) * C + tl.arange(0, C)
    across = (c < width)[None, :]
    begin = tl.load(start_ptr + s, mask=s < segments, other=0)
    members = tl.load(start_ptr + s + 1, mask=s < segments, other=0) - begin
    few = tl.where(members > SLOT, 0, members)
    total = serial_sums(x_ptr, pos_ptr, begin, few, c, width, x_row, x_step, U, ASCENDING, UNIT)
    blocks = block_count(members)
    total = with_blocks(total, part_ptr, begin, blocks, c[None, :], width, U, "cumsum")
    y = y_ptr + (s * y_row)[:, None] + (c if UNIT else c * y_step)[None, :]
    live = (s < segments)[:, None] & across
    some = (members > 0)[:, None]
    if accumulate != 0:
        held = up(tl.load(y, mask=live & some, other=0))
        # Rows without members stay as they are, bit for bit.
        tl.store(y, down(held + total, y_ptr.dtype.element_ty), mask=live & some)
    else:
        total = tl.where(some, total, tl.zeros_like(total))
        tl.store(y, down(total, y_ptr.dtype.element_ty), mask=live)


def _kernels() -> dict[str, Kernel]:
    types = dict.fromkeys(("key_ptr", "pos_ptr", "start_ptr"), "*i32")
    types |= dict.fromkeys(("n", "parts", "steps", "accumulate"), "i32")
    kernels = {
        "segment_starts": Kernel(
            segment_starts, signature(segment_starts, types), {"COUNT": STARTS}
        )
    }
    for kind in FLOATS:
        floats = {"x_ptr": POINTERS[kind], "y_ptr": POINTERS[kind]}
        floats["part_ptr"] = POINTERS[kind.compute]
        forms = {**SUMMED, "vector": (SUMMED["wide"][0], vector_columns(kind.itemsize))}
        for function in (huge_blocks, segment_sums):
            for order in ("ascending", "sorted"):
                for form, (lines, columns) in forms.items():
                    constants = {
                        "ASCENDING": order == "ascending",
                        "UNIT": form == "vector",
                        "S": lines,
                        "C": columns,
                        "U": UNDERWAY,
                    }
                    aligned = ("x_ptr", "part_ptr", "y_ptr", "width", "x_row", "y_row")
                    kernels[f"{function.__name__}/{kind.value}/{order}/{form}"] = Kernel(
                        function,
                        signature(function, types | floats),
                        constants,
                        tuple(n for n in aligned if n in function.arg_names)
                        if form == "vector"
                        else (),
                    )
    return kernels


KERNELS = _kernels()
