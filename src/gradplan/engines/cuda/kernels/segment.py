"""Sums of the rows of each segment, in the contract's order and without atomics.

The ids are sorted by now (radix.py), or ascend anyway. The first member of each segment is found by
binary search. Sums of blocks of 256 members are serial, a column to a lane. A segment of up to 256
members is one block; the blocks of larger ones are summed by programs of their own, and added
serially by the program of the segment. -0.0 is the number that adds nothing: sums begin with it and
members that are not there are it, so that the loops need no selects.

Bytes: each row is read once and each sum written once, which is the least; 8 bytes per id and the
searches' log2(n) reads per segment (from the cache) come on top. Sums of the blocks of huge
segments are 1/128 of their rows, written and read. About 9 PTX instructions per element.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.engines.cuda.launches.tiles import STARTS, SUMMED, UNDERWAY, vector_columns
from gradplan.reference.segment import BLOCK
from gradplan.vocabulary import FLOATS

from .arithmetic import down, up
from .kernel import Kernel
from .types import POINTERS, signature

SLOT = tl.constexpr(BLOCK)  # members that are summed serially


@triton.jit
def minus_zero(p):
    """-0.0 of the type that `p` points to, as what a masked load leaves there."""
    if p.dtype.element_ty == tl.uint16:
        return 0x8000
    else:
        return -0.0


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
    """For each line the sum of `count` rows from sorted position `first`, U of them underway."""
    dtype: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    total = tl.full([first.shape[0], c.shape[0]], -0.0, dtype)
    across = (c < width)[None, :]
    column = (c if UNIT else c * x_step)[None, :]
    for k in range(0, tl.max(count, 0), U):
        for u in tl.static_range(0, U):
            ok = k + u < count
            if ASCENDING:
                row = (first + (k + u)).to(tl.int64)
            else:
                row = tl.load(pos_ptr + first + (k + u), mask=ok, other=0).to(tl.int64)
            v = tl.load(
                x_ptr + (row * x_row)[:, None] + column,
                mask=ok[:, None] & across,
                other=minus_zero(x_ptr),
            )
            if u == 0:
                values = (up(v),)
            else:
                values = values + (up(v),)
        for u in tl.static_range(0, U):
            total = total + values[u]
    return total


@triton.jit
def huge_blocks(
    x_ptr, key_ptr, pos_ptr, start_ptr, part_ptr, n, segments, width, parts, x_row, x_step,
    ASCENDING: tl.constexpr, UNIT: tl.constexpr,
    S: tl.constexpr, C: tl.constexpr, U: tl.constexpr,
):  # fmt: skip
    """The sums of the blocks of segments with more than 256 members.

    Blocks of a segment begin 256 apart, so a slot of 256 sorted positions holds the beginning of at
    most two blocks of huge segments: one of the segment that owns the slot's first position, and
    the first block of a segment that begins inside of the slot, and then owns its last position. So
    two rows per slot hold all sums, and nothing needs to be counted or listed first.
    """
    pid = tl.program_id(0)
    half = (pid // parts).to(tl.int64) * S + tl.arange(0, S)
    c = (pid % parts).to(tl.int64) * C + tl.arange(0, C)
    exists = (half >> 1) <= (n - 1) // SLOT
    low = ((half >> 1) * SLOT).to(tl.int32)
    second = (half & 1) != 0
    owner = tl.where(second, tl.minimum(low, n - SLOT) + (SLOT - 1), low)
    s = tl.load(key_ptr + owner, mask=exists, other=-1).to(tl.int64)
    real = (s >= 0) & (s < segments)
    begin = tl.load(start_ptr + s, mask=real, other=0)
    end = tl.load(start_ptr + s + 1, mask=real, other=0)
    inside = (low - begin) & (SLOT - 1)
    first = tl.where(second, begin, tl.where(inside == 0, low, low + (SLOT - inside)))
    mine = real & (end - begin > SLOT) & tl.where(second, begin > low, first - low < SLOT)
    mine = mine & (first < end) & (first >= begin)
    count = tl.where(mine, tl.minimum(end - first, SLOT), 0)
    total = serial_sums(x_ptr, pos_ptr, first, count, c, width, x_row, x_step, U, ASCENDING, UNIT)
    to = part_ptr + (half * width)[:, None] + c[None, :]
    tl.store(to, total, mask=mine[:, None] & (c < width)[None, :])


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
    blocks = tl.where(members > SLOT, (members - 1) // SLOT + 1, 0)
    slot = (begin // SLOT).to(tl.int64)
    between = begin % SLOT != 0  # the segment begins inside of a slot
    for b in range(0, tl.max(blocks, 0), U):
        for u in tl.static_range(0, U):
            # Block 0 is the second of its slot's halves then. Block b begins inside of slot + b,
            # whose first position belongs to the segment as well.
            half = (slot + (b + u)) * 2 + (between & (b + u == 0)).to(tl.int64)
            v = tl.load(
                part_ptr + (half * width)[:, None] + c[None, :],
                mask=(b + u < blocks)[:, None] & across,
                other=-0.0,
            )
            if u == 0:
                values = (v,)
            else:
                values = values + (v,)
        for u in tl.static_range(0, U):
            total = total + values[u]
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
