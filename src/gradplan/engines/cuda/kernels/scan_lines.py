"""The plain scans, and positions of running extremes, for every layout.

A thread takes a block of 256, or a line from its first element to its last, with 16 loads ahead.
Long lines are four launches: `totals` of the blocks, `compose` within each chunk, `chain` along the
line, and the scan itself (`apply`) with the carries that these left in the workspace.

cummin is cummax of what has its sign turned, bit for bit (`flip`), so extremes are one kernel.

Bytes: `whole` reads and writes every element once, the least possible; the four launches read it
twice, 3/2 of the least. Neighbouring threads read neighbouring elements where lines lie side by side
(columns), and vectors of 16 bytes where a line's elements do.

PTX instructions per element, f32, executed (any layout / vectors): cumsum 19 / 17, cumprod 35 / 34,
cummax 30 / 29, and `totals` 10, 14, 15; positions 31 / 38, their `totals` 26 / 24.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import neutral, op
from .lines import (
    BLOCK,
    CHUNK,
    GROUP,
    ahead,
    blocks_of,
    compute_type,
    fetch,
    my_piece,
    put,
    start_of,
)


@triton.jit
def turned(v, flip):
    """With the sign turned if `flip` is 1."""
    if v.dtype == tl.float64:
        return (v.to(tl.uint64, bitcast=True) ^ (flip.to(tl.uint64) << 63)).to(
            tl.float64, bitcast=True
        )
    else:
        return (v.to(tl.uint32, bitcast=True) ^ (flip.to(tl.uint32) << 31)).to(
            tl.float32, bitcast=True
        )


@triton.jit
def scan_block(
    x,
    y,
    xs,
    ys,
    live,
    left,
    count,
    c2,
    c3,
    flip,
    KIND: tl.constexpr,
    APPLY: tl.constexpr,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    """A block of each line, from `x` to `y` if APPLY. Returns its total without any carry."""
    dtype: tl.constexpr = compute_type(x.dtype.element_ty)
    c1 = neutral(x.shape, dtype, KIND)
    for i in range(0, count, GROUP):
        v = fetch(x, xs, i, live, left, GROUP, V, UNIT)
        t = c1
        for k in tl.static_range(0, GROUP):
            e = v[k]
            if KIND == "cummax":
                e = turned(e, flip)
                if not APPLY:  # what is behind the end may be in the middle of a line from its end
                    e = tl.where(i + k < left, e, float("-inf"))
            if k == 0:
                t = e
            else:
                t = op(t, e, KIND)
            if APPLY:
                o = op(c3, op(c2, op(c1, t, KIND), KIND), KIND)
                if KIND == "cummax":
                    o = turned(o, flip)
                if k == 0:
                    out = (o,)
                else:
                    out = out + (o,)
        if APPLY:
            put(y, ys, i, live, left, out, GROUP, V, UNIT)
        c1 = op(c1, t, KIND)
    return c1


@triton.jit
def scan_lines(
    x_ptr,
    y_ptr,
    block_ptr,
    chunk_ptr,
    lines,
    e0,
    e1,
    n,
    blocks,
    across,
    along,
    chunk_across,
    chunk_along,
    flip,
    xs,
    x0,
    x1,
    x2,
    ys,
    y0,
    y1,
    y2,
    C: tl.constexpr,
    KIND: tl.constexpr,
    PHASE: tl.constexpr,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    """PHASE "whole": a thread a line. "totals": a thread a piece, whose total goes to block_ptr.
    "apply": a thread a piece, with C2 from block_ptr and C3 from chunk_ptr."""
    dtype: tl.constexpr = compute_type(x_ptr.dtype.element_ty)
    p, line, block, live = my_piece(lines, blocks, across, along, C)
    x = x_ptr + start_of(line, e0, e1, x0 * V, x1 * V, x2 * V)
    y = y_ptr + start_of(line, e0, e1, y0 * V, y1 * V, y2 * V)
    c2 = neutral([C], dtype, KIND)
    c3 = neutral([C], dtype, KIND)
    if PHASE == "whole":
        for b in range(0, blocks_of(n)):
            fresh = (b & (CHUNK - 1)) == 0
            c3 = tl.where(fresh, op(c3, c2, KIND), c3)
            c2 = tl.where(fresh, neutral([C], dtype, KIND), c2)
            first = b.to(tl.int64) * BLOCK
            left = tl.minimum(n - first, BLOCK).to(tl.int32)
            total = scan_block(
                x + first * xs,
                y + first * ys,
                xs,
                ys,
                live,
                left,
                left,
                c2,
                c3,
                flip,
                KIND,
                True,
                V,
                UNIT,
            )
            c2 = op(c2, total, KIND)
    else:
        first = block.to(tl.int64) * BLOCK
        left = tl.minimum(n - first, BLOCK).to(tl.int32)
        count = tl.minimum(n, BLOCK).to(tl.int32)
        if PHASE == "apply":
            c2 = tl.load(block_ptr + p, mask=live, other=0)
            at = line * chunk_across + (block // CHUNK) * chunk_along
            c3 = tl.load(chunk_ptr + at, mask=live, other=0)
        total = scan_block(
            x + first * xs,
            y + first * ys,
            xs,
            ys,
            live,
            left,
            count,
            c2,
            c3,
            flip,
            KIND,
            PHASE == "apply",
            V,
            UNIT,
        )
        if PHASE == "totals":
            tl.store(block_ptr + p, total, mask=live)


@triton.jit
def scan_compose(
    block_ptr,
    chunk_ptr,
    lines,
    blocks,
    chunks,
    across,
    along,
    chunk_across,
    chunk_along,
    C: tl.constexpr,
    KIND: tl.constexpr,
):
    """In place: totals of blocks -> C2; and the total of each chunk."""
    p, line, chunk, live = my_piece(lines, chunks, chunk_across, chunk_along, C)
    c2 = neutral([C], block_ptr.dtype.element_ty, KIND)
    at = block_ptr + (line.to(tl.int64) * across + chunk.to(tl.int64) * CHUNK * along)
    for k in tl.static_range(0, CHUNK):
        here = live & (chunk * CHUNK + k < blocks)
        total = tl.load(at + k * along.to(tl.int64), mask=here, other=0)
        tl.store(at + k * along.to(tl.int64), c2, mask=here)
        c2 = tl.where(here, op(c2, total, KIND), c2)
    tl.store(chunk_ptr + p, c2, mask=live)


@triton.jit
def scan_chain(
    chunk_ptr,
    lines,
    chunks,
    chunk_across,
    chunk_along,
    C: tl.constexpr,
    KIND: tl.constexpr,
):
    """In place: totals of chunks -> C3. Serial by definition, with 16 loads ahead."""
    line = tl.program_id(0) * C + tl.arange(0, C)
    live = line < lines
    c3 = neutral([C], chunk_ptr.dtype.element_ty, KIND)
    step = chunk_along.to(tl.int64)
    for i in range(0, chunks, 16):
        at = chunk_ptr + line.to(tl.int64) * chunk_across + i * step
        total = ahead(at, step, live, chunks - i, 16)
        for k in tl.static_range(0, 16):
            tl.store(at + k * step, c3, mask=live & (i + k < chunks))
            c3 = op(c3, total[k], KIND)


# Positions ------------------------------------------------------------------------------------


@triton.jit
def is_record(x, extreme, last):
    """Whether x takes over from the running maximum before it; `last`: equal ones do, too."""
    nan = x != x
    return (
        (x > extreme)
        | ((x == extreme) & (last != 0))
        | (nan & ((last != 0) | (extreme == extreme)))
    )


@triton.jit
def later(v, at, v2, at2, last):
    """Maximum and position of a stretch and of the one that follows it; of nothing, -1."""
    takes = (at2 >= 0) & ((at < 0) | is_record(v2, v, last))
    return tl.where(takes, v2, v), tl.where(takes, at2, at)


@triton.jit
def index_block(
    x,
    y,
    xs,
    ys,
    live,
    first,
    left,
    count,
    v,
    at,
    origin,
    sign,
    flip,
    last,
    APPLY: tl.constexpr,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    for i in range(0, count, GROUP):
        e = fetch(x, xs, i, live, left, GROUP, V, UNIT)
        for k in tl.static_range(0, GROUP):
            here = tl.where(i + k < left, first + (i + k), -1)
            v, at = later(v, at, turned(e[k], flip), here, last)
            o = origin + sign * at
            if k == 0:
                out = (o,)
            else:
                out = out + (o,)
        if APPLY:
            put(y, ys, i, live, left, out, GROUP, V, UNIT)
    return v, at


@triton.jit
def index_lines(
    x_ptr,
    y_ptr,
    block_ptr,
    block_at_ptr,
    chunk_ptr,
    chunk_at_ptr,
    lines,
    e0,
    e1,
    n,
    blocks,
    across,
    along,
    chunk_across,
    chunk_along,
    flip,
    last,
    origin,
    sign,
    xs,
    x0,
    x1,
    x2,
    ys,
    y0,
    y1,
    y2,
    C: tl.constexpr,
    PHASE: tl.constexpr,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Phases as in scan_lines. Positions count along the scan; origin + sign * at is stored."""
    dtype: tl.constexpr = compute_type(x_ptr.dtype.element_ty)
    p, line, block, live = my_piece(lines, blocks, across, along, C)
    x = x_ptr + start_of(line, e0, e1, x0 * V, x1 * V, x2 * V)
    y = y_ptr + start_of(line, e0, e1, y0 * V, y1 * V, y2 * V)
    v = neutral([C], dtype, "cummax")
    at = tl.full([C], -1, tl.int64)
    if PHASE == "whole":
        for b in range(0, blocks_of(n)):
            first = b.to(tl.int64) * BLOCK
            left = tl.minimum(n - first, BLOCK).to(tl.int32)
            v, at = index_block(
                x + first * xs,
                y + first * ys,
                xs,
                ys,
                live,
                first,
                left,
                left,
                v,
                at,
                origin,
                sign,
                flip,
                last,
                True,
                V,
                UNIT,
            )
    else:
        first = block.to(tl.int64) * BLOCK
        left = tl.minimum(n - first, BLOCK).to(tl.int32)
        count = tl.minimum(n, BLOCK).to(tl.int32)
        if PHASE == "apply":
            c = line * chunk_across + (block // CHUNK) * chunk_along
            v = tl.load(chunk_ptr + c, mask=live, other=0)
            at = tl.load(chunk_at_ptr + c, mask=live, other=0)
            v2 = tl.load(block_ptr + p, mask=live, other=0)
            at2 = tl.load(block_at_ptr + p, mask=live, other=0)
            v, at = later(v, at, v2, at2, last)
        v, at = index_block(
            x + first * xs,
            y + first * ys,
            xs,
            ys,
            live,
            first,
            left,
            count,
            v,
            at,
            origin,
            sign,
            flip,
            last,
            PHASE == "apply",
            V,
            UNIT,
        )
        if PHASE == "totals":
            tl.store(block_ptr + p, v, mask=live)
            tl.store(block_at_ptr + p, at, mask=live)


@triton.jit
def index_compose(
    block_ptr,
    block_at_ptr,
    chunk_ptr,
    chunk_at_ptr,
    lines,
    blocks,
    chunks,
    across,
    along,
    chunk_across,
    chunk_along,
    last,
    C: tl.constexpr,
):
    """As scan_compose."""
    p, line, chunk, live = my_piece(lines, chunks, chunk_across, chunk_along, C)
    v = neutral([C], block_ptr.dtype.element_ty, "cummax")
    at = tl.full([C], -1, tl.int64)
    here = line.to(tl.int64) * across + chunk.to(tl.int64) * CHUNK * along
    for k in tl.static_range(0, CHUNK):
        ok = live & (chunk * CHUNK + k < blocks)
        q = here + k * along.to(tl.int64)
        v2 = tl.load(block_ptr + q, mask=ok, other=0)
        at2 = tl.load(block_at_ptr + q, mask=ok, other=-1)
        tl.store(block_ptr + q, v, mask=ok)
        tl.store(block_at_ptr + q, at, mask=ok)
        v, at = later(v, at, v2, at2, last)
    tl.store(chunk_ptr + p, v, mask=live)
    tl.store(chunk_at_ptr + p, at, mask=live)


@triton.jit
def index_chain(
    chunk_ptr,
    chunk_at_ptr,
    lines,
    chunks,
    chunk_across,
    chunk_along,
    last,
    C: tl.constexpr,
):
    """As scan_chain."""
    line = tl.program_id(0) * C + tl.arange(0, C)
    live = line < lines
    v = neutral([C], chunk_ptr.dtype.element_ty, "cummax")
    at = tl.full([C], -1, tl.int64)
    step = chunk_along.to(tl.int64)
    for i in range(0, chunks, 8):
        here = line.to(tl.int64) * chunk_across + i * step
        values = ahead(chunk_ptr + here, step, live, chunks - i, 8)
        places = ahead(chunk_at_ptr + here, step, live, chunks - i, 8)
        for k in tl.static_range(0, 8):
            tl.store(chunk_ptr + here + k * step, v, mask=live & (i + k < chunks))
            tl.store(chunk_at_ptr + here + k * step, at, mask=live & (i + k < chunks))
            v, at = later(v, at, values[k], places[k], last)
