"""The members of segments, and how they are combined: what all kernels over segments are made of.

A reduction has an operation (OP: one of a plain scan, or "least" of whole numbers) and says what
counts of a member (VALUE). Members are combined serially in blocks of 256 from the segment's own
start. What is not there counts as what changes no bit ("nothing"), so loops need no selects where
that can be loaded.

A program has a tile of lines (segments, or blocks of them) and columns. In the form "any" each lane
has a line and a column of its own: as many columns side by side as the power of two that covers a
row, 32 at the most. In the form "vector" a lane has 16 bytes of neighbouring columns.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.reference.segment import BLOCK

from .arithmetic import exp, infinity, neutral, op, up
from .recurrence_lines import difference

SLOT = tl.constexpr(BLOCK)  # members that are combined serially
NOWHERE = tl.constexpr(2**31 - 1)  # a place behind all others


@triton.jit
def tile(width, parts, shift, S: tl.constexpr, C: tl.constexpr):
    """Lines of this program [S], and their columns: of all [1, C], or of each [S, 1] if C is 0."""
    pid = tl.program_id(0)
    group = (pid // parts).to(tl.int64)
    part = (pid % parts).to(tl.int64)
    i = tl.arange(0, S)
    if C == 0:
        lane = i >> shift
        column = (part << shift) + (i - (lane << shift))
        return group * (S >> shift) + lane, column[:, None]
    else:
        return group * S + i, (part * C + tl.arange(0, C))[None, :]


# What is combined -----------------------------------------------------------------------------


@triton.jit
def one(p):
    """1 of the type that `p` points to, as what a masked load leaves there."""
    return 0x3F80 if p.dtype.element_ty == tl.uint16 else 1.0


@triton.jit
def nothing(p, OP: tl.constexpr):
    """What changes no bit of what it is combined with, likewise."""
    if OP == "cumsum":
        return 0x8000 if p.dtype.element_ty == tl.uint16 else -0.0
    elif OP == "cumprod":
        return one(p)
    elif OP == "least":
        return NOWHERE
    else:
        return infinity(p, OP == "cummax")


@triton.jit
def start(shape: tl.constexpr, dtype: tl.constexpr, OP: tl.constexpr):
    if OP == "least":
        return tl.full(shape, NOWHERE, dtype)
    else:
        return neutral(shape, dtype, OP)


@triton.jit
def combine(a, b, OP: tl.constexpr):
    if OP == "least":
        return tl.minimum(a, b)
    else:
        return op(a, b, OP)


@triton.jit
def same(x, y):
    """Whether a member is the extreme of its segment, NaN included."""
    return (x == y) | ((x != x) & (y != y))


@triton.jit
def weight(x, top):
    """exp(x - top), 0 where x = -inf."""
    return tl.where(x == float("-inf"), tl.zeros_like(x), exp(difference(x, top)))


@triton.jit
def row_of(pos_ptr, at, ok, ascending):
    """The row at a sorted position; ascending: rows are in that order themselves."""
    pos = tl.load(pos_ptr + at, mask=ok & (ascending == 0), other=0)
    return tl.where(ascending != 0, at, pos).to(tl.int64)


@triton.jit
def across_rows(c, step, UNIT: tl.constexpr):
    """Offsets of columns. UNIT: step is 1."""
    return c if UNIT else c * step


@triton.jit
def value(
    x_ptr, w_ptr, own, row, live, c, x_row, x_step, w_row, w_step, option,
    UNIT: tl.constexpr, VALUE: tl.constexpr, OP: tl.constexpr,
):  # fmt: skip
    """What counts of a member.

    itself    the element
    weight    exp of its distance from the segment's own maximum
    product   times that of another tensor, where option is not 0
    match     1 where it is the segment's own extreme
    place     the row where it is that, or if option is -1 what is smaller for larger rows
    """
    at = x_ptr + (row * x_row)[:, None] + across_rows(c, x_step, UNIT)
    if VALUE == "weight":
        return weight(up(tl.load(at, mask=live, other=infinity(x_ptr, True))), own)
    elif VALUE == "match":
        found = live & same(up(tl.load(at, mask=live, other=0)), own)
        return tl.where(found, tl.full(own.shape, 1.0, own.dtype), tl.zeros_like(own))
    elif VALUE == "place":
        found = live & same(up(tl.load(at, mask=live, other=0)), own)
        return tl.where(found, (row.to(tl.int32) ^ option)[:, None], NOWHERE)
    else:
        v = up(tl.load(at, mask=live, other=nothing(x_ptr, OP)))
        if VALUE == "product":
            w = w_ptr + (row * w_row)[:, None] + across_rows(c, w_step, UNIT)
            v = v * up(tl.load(w, mask=live & (option != 0), other=one(w_ptr)))
        return v


@triton.jit
def serial(
    x_ptr, w_ptr, own, pos_ptr, first, count, c, width, x_row, x_step, w_row, w_step,
    ascending, option,
    UNIT: tl.constexpr, U: tl.constexpr, VALUE: tl.constexpr, OP: tl.constexpr,
):  # fmt: skip
    """For each line `count` members from sorted position `first`, U of them underway."""
    real: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    dtype: tl.constexpr = tl.int32 if OP == "least" else real
    total = start((first.shape[0], c.shape[1]), dtype, OP)
    across = c < width
    for k in range(0, tl.max(count, 0), U):
        for u in tl.static_range(0, U):
            ok = k + u < count
            row = row_of(pos_ptr, first + (k + u), ok, ascending)
            v = value(
                x_ptr, w_ptr, own, row, ok[:, None] & across, c, x_row, x_step, w_row, w_step,
                option, UNIT, VALUE, OP,
            )  # fmt: skip
            if u == 0:
                values = (v,)
            else:
                values = values + (v,)
        for u in tl.static_range(0, U):
            total = combine(total, values[u], OP)
    return total


# Blocks of huge segments ----------------------------------------------------------------------


@triton.jit
def block_of(half, key_ptr, start_ptr, n, segments):
    """The segment, and the sorted positions, of a block of a segment with more than 256 members.

    Blocks of a segment begin 256 apart, so a slot of 256 sorted positions holds the beginning of at
    most two blocks of huge segments: one of the segment that owns the slot's first position, and
    the first block of a segment that begins inside of the slot, and then owns its last position. So
    two halves per slot hold all blocks, and nothing needs to be counted or listed first. A half
    without a block has a count of 0.
    """
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
    return s, first, tl.where(mine, tl.minimum(end - first, SLOT), 0)


@triton.jit
def half_of(begin, b):
    """The half that has block b of a huge segment that begins at this sorted position.

    Block 0 is the second one of its slot if the segment begins inside of that. Block b begins in
    slot + b, whose first position belongs to the segment as well.
    """
    between = (begin % SLOT != 0) & (b == 0)
    return ((begin // SLOT).to(tl.int64) + b) * 2 + between.to(tl.int64)


@triton.jit
def block_count(members):
    """Of a huge segment; 0 for others."""
    return tl.where(members > SLOT, (members - 1) // SLOT + 1, 0)


@triton.jit
def with_blocks(total, part_ptr, begin, blocks, c, width, U: tl.constexpr, OP: tl.constexpr):
    """The blocks of each line's segment, combined serially behind `total`."""
    across = c < width
    for b in range(0, tl.max(blocks, 0), U):
        for u in tl.static_range(0, U):
            v = tl.load(
                part_ptr + (half_of(begin, b + u) * width)[:, None] + c,
                mask=(b + u < blocks)[:, None] & across,
                other=nothing(part_ptr, OP),
            )
            if u == 0:
                values = (v,)
            else:
                values = values + (v,)
        for u in tl.static_range(0, U):
            total = combine(total, values[u], OP)
    return total
