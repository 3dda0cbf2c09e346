"""The plain scans of rows: elements of a line are neighbours in memory, and a warp takes a line.

A step is 512 elements of a row, 32 groups of 16, one for each lane. A lane's 16 elements are 16
values, so that the order of every operation is the one that is written here, whatever layout the
compiler picks. Carries of groups go from lane to lane by shuffles, those of blocks and chunks are
values of the loop. No shared memory and no barrier if vectors are loaded; lines that are not
aligned go through shared memory once on each way, to be read and written side by side.

Few long rows are three launches: `totals` of the chunks of 4096, scan_chain, and `apply`.

Bytes: each element is read and written once, the least possible; long rows are read twice, 3/2 of it.
PTX instructions per element, f32, executed (vectors / any): cumsum 16 / 23, cumprod 36 / 43, cummax
31 / 37; `totals` (vectors) 9, 17, 16.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import down, neutral, op, up
from .lanes import columns, lane, together
from .lines import BLOCK, CHUNK, GROUP, compute_type, in_order, my_piece, start_of
from .scan_lines import turned

ROW_CHUNK = tl.constexpr(BLOCK.value * CHUNK.value)
STEP = tl.constexpr(32 * GROUP.value)


@triton.jit
def places(p, step, i, V: tl.constexpr, UNIT: tl.constexpr):
    """Addresses of V elements from i [R, 32] on."""
    k = tl.arange(0, V)[None, None, :]
    if UNIT:  # within a chunk: 32 bits do
        return (p[:, None] + i * step.to(tl.int32))[:, :, None] + k
    else:
        return p[:, None, None] + (i[:, :, None] + k) * step


@triton.jit
def inside(i, live, left, V: tl.constexpr, UNIT: tl.constexpr):
    if UNIT:  # all of a vector or nothing
        return (live & (i < left))[:, :, None]
    else:
        return live[:, :, None] & (i[:, :, None] + tl.arange(0, V)[None, None, :] < left)


@triton.jit
def load_group(p, step, i, live, left, V: tl.constexpr, UNIT: tl.constexpr):
    """The 16 elements of each lane, from i on, as a tuple of [R, 32]."""
    for j in tl.static_range(0, GROUP // V):
        at = i + j * V
        here = inside(at, live, left, V, UNIT)
        c = columns(up(tl.load(places(p, step, at, V, UNIT), mask=here, other=0)), V)
        if UNIT:
            c = in_order(c, step, V)
        if j == 0:
            out = c
        else:
            out = out + c
    return out


@triton.jit
def store_group(p, step, i, live, left, values, V: tl.constexpr, UNIT: tl.constexpr):
    for j in tl.static_range(0, GROUP // V):
        at = i + j * V
        c = values[j * V : j * V + V]
        if UNIT:
            c = in_order(c, step, V)
        out = down(together(c, V), p.dtype.element_ty)
        tl.store(places(p, step, at, V, UNIT), out, mask=inside(at, live, left, V, UNIT))


@triton.jit
def groups_before(last, g, KIND: tl.constexpr):
    """C1: what comes into each group from the groups of its block before it. [R, 32]."""
    c1 = neutral(last.shape, last.dtype, KIND)
    for k in tl.static_range(0, GROUP - 1):
        v = tl.gather(last, (g & GROUP) + k, 1)
        c1 = tl.where(k < (g & (GROUP - 1)), op(c1, v, KIND), c1)
    return c1


@triton.jit
def scan_chunk(
    x,
    y,
    xs,
    ys,
    live,
    left,
    count,
    c3,
    flip,
    g,
    KIND: tl.constexpr,
    APPLY: tl.constexpr,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    """A chunk of each row, from `x` to `y` if APPLY. Returns its total without any carry."""
    c2 = neutral(g.shape, c3.dtype, KIND)
    for start in range(0, count, STEP):
        i = start + g * GROUP
        v = load_group(x, xs, i, live, left, V, UNIT)
        for k in tl.static_range(0, GROUP):
            e = v[k]
            if KIND == "cummax":
                e = turned(e, flip)
            if k == 0:
                t = e
                local = (t,)
            else:
                t = op(t, e, KIND)
                local = local + (t,)
        c1 = groups_before(t, g, KIND)
        total = op(c1, t, KIND)  # in the last lane of a block, that of the block
        middle = op(c2, lane(total, GROUP - 1), KIND)
        if APPLY:
            mine = tl.where(g < GROUP, c2, middle)
            for k in tl.static_range(0, GROUP):
                o = op(c3, op(mine, op(c1, local[k], KIND), KIND), KIND)
                if KIND == "cummax":
                    o = turned(o, flip)
                if k == 0:
                    out = (o,)
                else:
                    out = out + (o,)
            store_group(y, ys, i, live, left, out, V, UNIT)
        c2 = op(middle, lane(total, 2 * GROUP - 1), KIND)
    return c2


@triton.jit
def scan_rows(
    x_ptr,
    y_ptr,
    chunk_ptr,
    lines,
    e0,
    e1,
    n,
    chunks,
    flip,
    xs,
    x0,
    x1,
    x2,
    ys,
    y0,
    y1,
    y2,
    R: tl.constexpr,
    KIND: tl.constexpr,
    PHASE: tl.constexpr,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    """PHASE "whole": a warp a row. "totals": a warp a chunk, whose total goes to chunk_ptr.
    "apply": a warp a chunk, with C3 from there. If not UNIT, V is 16 and steps are any."""
    dtype: tl.constexpr = compute_type(x_ptr.dtype.element_ty)
    each: tl.constexpr = V if UNIT else 1
    pieces = chunks if PHASE != "whole" else 1
    p, line, chunk, here = my_piece(lines, pieces, pieces, 1, R)
    x = x_ptr + start_of(line, e0, e1, x0 * each, x1 * each, x2 * each)
    y = y_ptr + start_of(line, e0, e1, y0 * each, y1 * each, y2 * each)
    live = tl.broadcast_to(here[:, None], [R, 32])
    g = tl.broadcast_to(tl.arange(0, 32)[None, :], [R, 32])
    c3 = neutral([R, 32], dtype, KIND)
    if PHASE == "whole":
        for c in range(0, chunks):
            first = c.to(tl.int64) * ROW_CHUNK
            left = tl.minimum(n - first, ROW_CHUNK).to(tl.int32)
            c2 = scan_chunk(
                x + first * xs,
                y + first * ys,
                xs,
                ys,
                live,
                left,
                left,
                c3,
                flip,
                g,
                KIND,
                True,
                V,
                UNIT,
            )
            c3 = op(c3, c2, KIND)
    else:
        first = chunk.to(tl.int64) * ROW_CHUNK
        left = tl.minimum(n - first, ROW_CHUNK).to(tl.int32)[:, None]
        count = tl.minimum(n, ROW_CHUNK).to(tl.int32)
        if UNIT:
            left2 = left
        else:
            left2 = left[:, :, None]
        if PHASE == "apply":
            carry = tl.load(chunk_ptr + p, mask=here, other=0)
            c3 = tl.broadcast_to(carry[:, None], [R, 32])
        c2 = scan_chunk(
            x + first * xs,
            y + first * ys,
            xs,
            ys,
            live,
            left2,
            count,
            c3,
            flip,
            g,
            KIND,
            PHASE == "apply",
            V,
            UNIT,
        )
        if PHASE == "totals":
            at = tl.broadcast_to(p[:, None], [R, 32])
            tl.store(chunk_ptr + at, c2, mask=live & (g == 0))
