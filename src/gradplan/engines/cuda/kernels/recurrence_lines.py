"""First-order recurrences for every layout: logcumsumexp, linear_scan, gradients but cumsum's.

A thread takes a line, or a block of 256 of it. In a whole line two recurrences run side by side in
a block, `t` from the block's carry and `last` (the contract's L) without one: what they share
(loads, exp, splitting into mantissa and exponent) is done once. Long lines are four launches:
`local` leaves L of each block and what its coefficient A comes from, `compose` makes L2 (and A2) of
them within each chunk, `chain` the carries T2 of chunks, and `apply` runs the blocks from theirs.

What A comes from (`edge`, and `power` where it takes an integer, too), by KIND:

    cumprod       mantissa and exponent of the product of the block's coefficients; A2 in its place;
                  so for linear and linear_backward, which are linear_scan and its gradients
    logs, forward the running maximum at the block's end: A = exp(M_in - M_out)
    logs          y of the block's last element: A = exp(y_last - y_in)
    extreme       power: whether a record stops the carry (A = 0)

Tensors are walked in the order of the recurrence: those of a gradient from the scan's end. What
linear_scan has and others do not is an initial value, one a line: the carry into the first block.

Bytes, against the least (every tensor once): `whole` as many; gradients of extremes read and write
an eighth of a byte per element more. The four launches read some tensors twice and logcumsumexp's x
three times: 6/4 for the gradients of cumprod and logcumsumexp, 5/3 for those of extremes and for
linear_scan, 7/5 for its gradients, 4/2 for logcumsumexp.

PTX instructions per element, f32, executed (any layout / vectors): logcumsumexp `whole` 100 / 103,
`local` 56 / 51, `apply` 98 / 92; gradients of cumprod 87 / 92, 58 / 51, 46 / 36; of logcumsumexp
106 / 108, 55 / 48, 105 / 95; of extremes 26 / 26, 15 / 10, 24 / 17, and `records` 30 / 30.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.engines.cuda.launches.tiles import D_INITIAL_WANTED as _D_INITIAL_WANTED
from gradplan.engines.cuda.launches.tiles import DA_WANTED as _DA_WANTED
from gradplan.engines.cuda.launches.tiles import DB_WANTED as _DB_WANTED
from gradplan.engines.cuda.launches.tiles import INITIAL_GIVEN as _INITIAL_GIVEN

from .arithmetic import apply, down, exp, log, multiply, neutral, op, split, times, up
from .lines import (
    BLOCK,
    CHUNK,
    GROUP,
    ahead,
    blocks_of,
    compute_type,
    element,
    fetch,
    my_piece,
    put,
    start_of,
)
from .scan_lines import is_record, turned

GIVEN = tl.constexpr(_INITIAL_GIVEN)
WANTED_DX = tl.constexpr(_DA_WANTED)
WANTED_DB = tl.constexpr(_DB_WANTED)
WANTED_INITIAL = tl.constexpr(_D_INITIAL_WANTED)

# Coefficients ---------------------------------------------------------------------------------


@triton.jit
def difference(a, b):
    """a - b, and 0 for equal values, infinities included."""
    return tl.where(a == b, tl.zeros_like(a), a - b)


@triton.jit
def decay(later, earlier):
    """exp(later - earlier); what has no mass (-inf) takes nothing in."""
    return tl.where(later == float("-inf"), tl.zeros_like(later), exp(difference(later, earlier)))


@triton.jit
def extend(b, a, t):
    """b + a t of cumprod's gradient, for single elements."""
    return tl.where(a == 0.0, b, b + multiply(a, t))


@triton.jit
def coefficient(into, out, KIND: tl.constexpr):
    """A of the blocks between two edges, for the logs."""
    if KIND == "log":
        return exp(difference(into, out))
    else:
        return decay(out, into)


@triton.jit
def joined(base, m, e, carry, KIND: tl.constexpr):
    """base + A carry, where there is a carry."""
    if KIND == "cumprod":
        passed = apply(m, e, carry)
        total = base + passed
        # Opposite infinities: the one that passed was infinite before these blocks.
        total = tl.where((total != total) & (base == base) & (passed == passed), passed, total)
        return tl.where(m == 0.0, base, total)
    elif KIND == "extreme":
        return tl.where(e != 0, base, base + carry)
    else:
        return base + m * carry


@triton.jit
def chained(m, e, m2, e2, KIND: tl.constexpr):
    """A of two stretches, where it is not computed from their edges."""
    if KIND == "cumprod":
        return times(m, e, m2, e2)
    else:
        return m, e | e2


@triton.jit
def term(x, top):
    """(a, b) of logcumsumexp for an element behind the running maximum `top`."""
    e = exp(-tl.abs(difference(x, top)))
    rises = x > top
    one = tl.full(x.shape, 1.0, x.dtype)
    return tl.where(rises, e, one), tl.where(rises, one, e)


# Between blocks -------------------------------------------------------------------------------


@triton.jit
def compose(
    last_ptr,
    edge_ptr,
    power_ptr,
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
    """In place: L of blocks -> L2 behind them; and A2 likewise, where it has no edges."""
    _, line, chunk, live = my_piece(lines, chunks, chunk_across, chunk_along, C)
    step = along.to(tl.int64)
    at = line.to(tl.int64) * across + chunk.to(tl.int64) * CHUNK * step
    logs: tl.constexpr = KIND == "log" or KIND == "log_backward"
    inside = tl.load(last_ptr + at, mask=live, other=0)
    m = tl.zeros_like(inside)
    e = tl.zeros([C], tl.int32)
    if KIND != "extreme":
        m = tl.load(edge_ptr + at, mask=live, other=0)
    if not logs:
        e = tl.load(power_ptr + at, mask=live, other=0)
    for k in range(1, CHUNK):
        here = live & (chunk * CHUNK + k < blocks)
        q = at + k * step
        last = tl.load(last_ptr + q, mask=here, other=0)
        if logs:
            out = tl.load(edge_ptr + q, mask=here, other=0)
            inside = joined(last, coefficient(m, out, KIND), e, inside, KIND)
            m = out
        else:
            m1 = tl.zeros_like(inside)
            if KIND == "cumprod":
                m1 = tl.load(edge_ptr + q, mask=here, other=0)
            e1 = tl.load(power_ptr + q, mask=here, other=0)
            inside = joined(last, m1, e1, inside, KIND)
            m, e = chained(m1, e1, m, e, KIND)
            if KIND == "cumprod":
                tl.store(edge_ptr + q, m, mask=here)
            tl.store(power_ptr + q, e, mask=here)
        tl.store(last_ptr + q, inside, mask=here)


@triton.jit
def chain(
    last_ptr,
    edge_ptr,
    power_ptr,
    carry_ptr,
    lines,
    chunks,
    across,
    along,
    chunk_across,
    chunk_along,
    given,
    C: tl.constexpr,
    KIND: tl.constexpr,
):
    """T2: what comes into each chunk but the first. Serial by definition, with 8 loads ahead. If
    `given`, something comes into the first one as well, and is there."""
    line = tl.program_id(0) * C + tl.arange(0, C)
    live = line < lines
    block = along.to(tl.int64)
    row = line.to(tl.int64) * across + (CHUNK - 1) * block  # the last block of the first chunk
    logs: tl.constexpr = KIND == "log" or KIND == "log_backward"
    dtype: tl.constexpr = last_ptr.dtype.element_ty
    t2 = tl.zeros([C], dtype)
    if given is not None:
        initial = carry_ptr + line.to(tl.int64) * chunk_across
        t2 = tl.load(initial, mask=live & (given != 0), other=0)
    into = tl.zeros([C], dtype)
    for i in range(0, chunks - 1, 8):
        at = row + i.to(tl.int64) * CHUNK * block
        left = chunks - 1 - i
        inside = ahead(last_ptr + at, CHUNK * block, live, left, 8)
        edge = inside
        power = inside
        if KIND != "extreme":
            edge = ahead(edge_ptr + at, CHUNK * block, live, left, 8)
        if not logs:
            power = ahead(power_ptr + at, CHUNK * block, live, left, 8)
        for k in tl.static_range(0, 8):
            m = edge[k]
            e = power[k]
            if logs:
                m = coefficient(into, edge[k], KIND)
                into = edge[k]
            alone = i + k == 0
            if given is not None:
                alone = alone & (given == 0)
            t2 = tl.where(alone, inside[k], joined(inside[k], m, e, t2, KIND))
            to = line.to(tl.int64) * chunk_across + (i + k + 1).to(tl.int64) * chunk_along
            tl.store(carry_ptr + to, t2, mask=live & (k < left))


@triton.jit
def carry_into(
    last_ptr,
    edge_ptr,
    power_ptr,
    carry_ptr,
    line,
    block,
    live,
    across,
    along,
    chunk_across,
    chunk_along,
    given,
    KIND: tl.constexpr,
):
    """T of each block; of the first of its line, if `given`."""
    logs: tl.constexpr = KIND == "log" or KIND == "log_backward"
    step = along.to(tl.int64)
    row = line.to(tl.int64) * across
    chunk = block // CHUNK
    inner = live & ((block & (CHUNK - 1)) != 0)
    before = row + (block - 1).to(tl.int64) * step
    t2_at = line.to(tl.int64) * chunk_across + chunk.to(tl.int64) * chunk_along
    behind = chunk > 0
    if given is not None:
        behind = behind | (given != 0)
    t2 = tl.load(carry_ptr + t2_at, mask=live & behind, other=0)
    l2 = tl.load(last_ptr + before, mask=inner, other=0)
    m = tl.zeros_like(l2)
    e = tl.zeros(l2.shape, tl.int32)
    if KIND != "extreme":
        m = tl.load(edge_ptr + before, mask=inner, other=0)
    if logs:
        start = row + (chunk * CHUNK - 1).to(tl.int64) * step
        into = tl.load(edge_ptr + start, mask=inner & (chunk > 0), other=0)
        m = coefficient(into, m, KIND)
    else:
        e = tl.load(power_ptr + before, mask=inner, other=0)
    t = tl.where(behind, joined(l2, m, e, t2, KIND), l2)
    return tl.where((block & (CHUNK - 1)) == 0, t2, t)


# logcumsumexp ---------------------------------------------------------------------------------


@triton.jit
def log_block(
    x,
    y,
    xs,
    ys,
    live,
    left,
    count,
    top,
    t,
    last,
    APPLY: tl.constexpr,
    U: tl.constexpr,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    """A missing running maximum is -inf and a missing carry 0: they give the first element b = 1
    and leave sums alone, because S and every coefficient are in [0, n] or the result is NaN."""
    for i in range(0, count, U):
        v = fetch(x, xs, i, live, left, U, V, UNIT)
        for k in tl.static_range(0, U):
            a, b = term(v[k], top)
            t = b + a * t
            last = b + a * last
            top = op(top, v[k], "cummax")
            if APPLY:
                o = top + log(t)
                if k == 0:
                    out = (o,)
                else:
                    out = out + (o,)
        if APPLY:
            put(y, ys, i, live, left, out, U, V, UNIT)
    return top, t, last


@triton.jit
def log_lines(
    x_ptr,
    y_ptr,
    top_ptr,
    chunk_top_ptr,
    last_ptr,
    edge_ptr,
    carry_ptr,
    lines,
    e0,
    e1,
    n,
    blocks,
    across,
    along,
    chunk_across,
    chunk_along,
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
    U: tl.constexpr,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    """The running maximum before blocks is what scan_lines, scan_compose and scan_chain left."""
    dtype: tl.constexpr = compute_type(x_ptr.dtype.element_ty)
    p, line, block, live = my_piece(lines, blocks, across, along, C)
    x = x_ptr + start_of(line, e0, e1, x0 * V, x1 * V, x2 * V)
    y = y_ptr + start_of(line, e0, e1, y0 * V, y1 * V, y2 * V)
    zero = tl.zeros([C], dtype)
    top = neutral([C], dtype, "cummax")
    if PHASE == "whole":
        t2 = zero
        carry = zero
        inside = zero
        chunk_top = top
        for b in range(0, blocks_of(n)):
            fresh = (b & (CHUNK - 1)) == 0
            t2 = tl.where(fresh, carry, t2)
            inside = tl.where(fresh, zero, inside)
            chunk_top = tl.where(fresh, top, chunk_top)
            first = b.to(tl.int64) * BLOCK
            left = tl.minimum(n - first, BLOCK).to(tl.int32)
            into = top
            top, t, last = log_block(
                x + first * xs,
                y + first * ys,
                xs,
                ys,
                live,
                left,
                left,
                top,
                carry,
                zero,
                True,
                U,
                V,
                UNIT,
            )
            inside = last + exp(difference(into, top)) * inside
            carry = inside + exp(difference(chunk_top, top)) * t2
    else:
        first = block.to(tl.int64) * BLOCK
        left = tl.minimum(n - first, BLOCK).to(tl.int32)
        count = tl.minimum(n, BLOCK).to(tl.int32)
        chunk = line * chunk_across + (block // CHUNK) * chunk_along
        top = op(
            tl.load(chunk_top_ptr + chunk, mask=live, other=0),
            tl.load(top_ptr + p, mask=live, other=0),
            "cummax",
        )
        t = zero
        if PHASE == "apply":
            t = carry_into(
                last_ptr,
                edge_ptr,
                edge_ptr,
                carry_ptr,
                line,
                block,
                live,
                across,
                along,
                chunk_across,
                chunk_along,
                None,
                "log",
            )
            t = tl.where(block == 0, zero, t)
        top, t, last = log_block(
            x + first * xs,
            y + first * ys,
            xs,
            ys,
            live,
            left,
            count,
            top,
            t,
            zero,
            PHASE == "apply",
            U,
            V,
            UNIT,
        )
        if PHASE == "local":
            tl.store(last_ptr + p, last, mask=live)
            tl.store(edge_ptr + p, top, mask=live)


# Gradients, and linear_scan -------------------------------------------------------------------


@triton.jit
def block_recurrence(
    dy,
    x,
    y,
    dx,
    db,
    dys,
    xs,
    ys,
    dxs,
    dbs,
    live,
    left,
    count,
    start,
    end,
    before,
    t,
    outer,
    wanted,
    KIND: tl.constexpr,
    APPLY: tl.constexpr,
    U: tl.constexpr,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    """A block of each line. `start`, `end`: whether it is the line's first, its last. `before`:
    what the element before the block holds, of x for cumprod, of y for the logs, and for extremes
    if it is a record. `outer`: what stands for y where there is none. Returns the last `before`, t
    and L, mantissa and exponent of A as KIND has them, and t at the last element that there is."""
    dtype: tl.constexpr = compute_type(dy.dtype.element_ty)
    last = tl.zeros(dy.shape, dtype)
    zero = tl.zeros(dy.shape, dtype)
    ending = zero
    m = tl.full(dy.shape, 0.5, dtype)
    linear: tl.constexpr = KIND == "cumprod" or KIND == "linear" or KIND == "linear_backward"
    reads: tl.constexpr = KIND == "cumprod" or KIND == "linear_backward"
    if KIND == "linear_backward":
        to_dx = live & ((wanted & WANTED_DX) != 0)
        to_db = live & ((wanted & WANTED_DB) != 0)
    else:
        to_dx = live
    e = tl.full(dy.shape, 1, tl.int32)
    if KIND == "extreme":
        e = tl.zeros(dy.shape, tl.int32)
    for i in range(0, count, U):
        b = fetch(dy, dys, i, live, left, U, V, UNIT)
        if linear:
            xv = fetch(x, xs, i, live, left, U, V, UNIT)
            if APPLY and reads:  # one more: what counts is one position earlier in the scan
                yv = fetch(y, ys, i, to_dx, left, U, V, UNIT)
                more = (i + U < left) | ((i + U == left) & (end == 0))
                beyond = tl.load(element(y, ys, i + U, V, UNIT), mask=to_dx & more, other=0)
                yv = yv + (up(beyond),)
        elif KIND == "log_backward":
            yv = fetch(y, ys, i, live, left, U, V, UNIT)
            if APPLY:
                xv = fetch(x, xs, i, live, left, U, V, UNIT)
        else:
            word = tl.load(x + (i // 16) * xs, mask=live & (i < left), other=0).to(tl.int32)
            stops = (word << 1) | before
            before = word >> 15
            e = e | (stops & 0xFFFF)
        for k in tl.static_range(0, U):
            if linear:
                if KIND == "linear":
                    before = xv[k]
                new = extend(b[k], before, t)
                alone = extend(b[k], before, last)
                am, ae = split(before)
                m, e = times(m, e, am, ae)
                before = xv[k]
            elif KIND == "log_backward":
                a = decay(yv[k], before)
                new = b[k] + a * t
                alone = b[k] + a * last
                before = yv[k]
            else:
                stop = (stops & (1 << k)) != 0
                new = tl.where(stop, b[k], b[k] + t)
                alone = tl.where(stop, b[k], b[k] + last)
            if k == 0:
                t = tl.where(start & (i == 0), b[0], new)
                last = tl.where(i == 0, b[0], alone)
            else:
                t = new
                last = alone
            if APPLY:
                if reads:
                    yb = tl.where((end != 0) & (i + k == left - 1), outer, yv[k + 1])
                    d = tl.where(yb == 0.0, zero, multiply(yb, t))
                elif KIND == "linear":
                    d = t
                elif KIND == "log_backward":
                    d = t * exp(difference(xv[k], yv[k]))
                    d = tl.where(xv[k] == float("-inf"), zero, d)
                else:
                    d = tl.where((word & (1 << k)) != 0, t, zero)
                if k == 0:
                    out = (d,)
                    ts = (t,)
                else:
                    out = out + (d,)
                    ts = ts + (t,)
                if KIND == "linear_backward":
                    ending = tl.where(i + k == left - 1, t, ending)
        if APPLY:
            put(dx, dxs, i, to_dx, left, out, U, V, UNIT)
            if KIND == "linear_backward":
                put(db, dbs, i, to_db, left, ts, U, V, UNIT)
    return before, t, last, m, e, ending


@triton.jit
def lines_recurrence(
    dy_ptr,
    x_ptr,
    y_ptr,
    dx_ptr,
    db_ptr,
    initial_ptr,
    d_initial_ptr,
    last_ptr,
    edge_ptr,
    power_ptr,
    carry_ptr,
    lines,
    e0,
    e1,
    n,
    blocks,
    across,
    along,
    chunk_across,
    chunk_along,
    wanted,
    dys,
    dy0,
    dy1,
    dy2,
    xs,
    x0,
    x1,
    x2,
    ys,
    y0,
    y1,
    y2,
    dxs,
    dx0,
    dx1,
    dx2,
    dbs,
    db0,
    db1,
    db2,
    i0,
    i1,
    i2,
    di0,
    di1,
    di2,
    C: tl.constexpr,
    KIND: tl.constexpr,
    PHASE: tl.constexpr,
    U: tl.constexpr,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    """For extremes x is the words of `records`, one for 16 elements, and y is not looked at. In
    linear_scan dy is b, x is a, and dx is h; its gradients have h for y, and da for dx. What only
    they have is None for the others."""
    dtype: tl.constexpr = compute_type(dy_ptr.dtype.element_ty)
    p, line, block, live = my_piece(lines, blocks, across, along, C)
    dy = dy_ptr + start_of(line, e0, e1, dy0 * V, dy1 * V, dy2 * V)
    if KIND == "extreme":
        x = x_ptr + start_of(line, e0, e1, x0, x1, x2)
    else:
        x = x_ptr + start_of(line, e0, e1, x0 * V, x1 * V, x2 * V)
    y = y_ptr + start_of(line, e0, e1, y0 * V, y1 * V, y2 * V)
    dx = dx_ptr + start_of(line, e0, e1, dx0 * V, dx1 * V, dx2 * V)
    per: tl.constexpr = 16 if KIND == "extreme" else 1
    linear: tl.constexpr = KIND == "linear" or KIND == "linear_backward"
    BETWEEN: tl.constexpr = "cumprod" if linear else KIND
    zero = tl.zeros([C], dtype)
    power = tl.zeros([C], tl.int32)
    db = dx
    outer = tl.full([C], 1.0, dtype)
    if linear:
        given = (wanted & GIVEN) != 0
        at = start_of(line, e0, e1, i0, i1, i2)
        outer = up(tl.load(initial_ptr + at, mask=live & given, other=0))
    if KIND == "linear_backward":
        db = db_ptr + start_of(line, e0, e1, db0 * V, db1 * V, db2 * V)
    ending = zero
    if PHASE == "whole":
        before = zero
        if KIND == "extreme":
            before = power
        t2 = zero
        carry = zero
        if KIND == "linear":
            carry = outer
        inside = zero
        m2 = zero
        e2 = power
        edge = zero
        total = blocks_of(n)
        for b in range(0, total):
            fresh = (b & (CHUNK - 1)) == 0
            t2 = tl.where(fresh, carry, t2)
            into = before
            if KIND == "log_backward":
                edge = tl.where(fresh, before, edge)
            first = b.to(tl.int64) * BLOCK
            left = tl.minimum(n - first, BLOCK).to(tl.int32)
            start = b == 0
            alone = b < CHUNK
            if KIND == "linear":
                start = start & (given == 0)
                alone = alone & (given == 0)
            before, t, last, m, e, ending = block_recurrence(
                dy + first * dys,
                x + (first // per) * xs,
                y + first * ys,
                dx + first * dxs,
                db + first * dbs if KIND == "linear_backward" else dx,
                dys,
                xs,
                ys,
                dxs,
                dbs,
                live,
                left,
                left,
                start,
                b == total - 1,
                before,
                carry,
                outer,
                wanted,
                KIND,
                True,
                U,
                V,
                UNIT,
            )
            if KIND == "log_backward":
                m = decay(before, into)
                m2 = decay(before, edge)
            else:
                nm, ne = chained(m, e, m2, e2, BETWEEN)
                m2 = tl.where(fresh, m, nm)
                e2 = tl.where(fresh, e, ne)
            inside = tl.where(fresh, last, joined(last, m, e, inside, BETWEEN))
            carry = tl.where(alone, inside, joined(inside, m2, e2, t2, BETWEEN))
        ends = live
    else:
        first = block.to(tl.int64) * BLOCK
        left = tl.minimum(n - first, BLOCK).to(tl.int32)
        count = tl.minimum(n, BLOCK).to(tl.int32)
        behind = live & (block > 0)
        if BETWEEN == "cumprod":
            before = up(tl.load(element(x, xs, first - 1, V, UNIT), mask=behind, other=0))
        elif KIND == "log_backward":
            before = up(tl.load(element(y, ys, first - 1, V, UNIT), mask=behind, other=0))
        else:
            before = tl.load(x + (first // per - 1) * xs, mask=behind, other=0).to(tl.int32) >> 15
        t = zero
        if PHASE == "apply":
            t = carry_into(
                last_ptr,
                edge_ptr,
                power_ptr,
                carry_ptr,
                line,
                block,
                live,
                across,
                along,
                chunk_across,
                chunk_along,
                wanted & GIVEN if KIND == "linear" else None,
                BETWEEN,
            )
        start = block == 0
        if KIND == "linear":
            start = start & (given == 0)
        before, t, last, m, e, ending = block_recurrence(
            dy + first * dys,
            x + (first // per) * xs,
            y + first * ys,
            dx + first * dxs,
            db + first * dbs if KIND == "linear_backward" else dx,
            dys,
            xs,
            ys,
            dxs,
            dbs,
            live,
            left,
            count,
            start,
            block == blocks - 1,
            before,
            t,
            outer,
            wanted,
            KIND,
            PHASE == "apply",
            U,
            V,
            UNIT,
        )
        if PHASE == "local":
            tl.store(last_ptr + p, last, mask=live)
            if BETWEEN == "cumprod":
                tl.store(edge_ptr + p, m, mask=live)
            if KIND == "linear":  # where `chain` and `apply` look for it
                at = line.to(tl.int64) * chunk_across
                tl.store(carry_ptr + at, outer, mask=live & given & (block == 0))
            if KIND == "log_backward":
                tl.store(edge_ptr + p, before, mask=live)
            if KIND != "log_backward":
                tl.store(power_ptr + p, e, mask=live)
        ends = live & (block == blocks - 1)
    if KIND == "linear_backward" and PHASE != "local":
        a = up(tl.load(element(x, xs, n - 1, V, UNIT), mask=ends & (n > 0), other=0))
        d = tl.where(a == 0.0, zero, multiply(a, ending))
        at = d_initial_ptr + start_of(line, e0, e1, di0, di1, di2)
        to_initial = ends & ((wanted & WANTED_INITIAL) != 0)
        tl.store(at, down(d, d_initial_ptr.dtype.element_ty), mask=to_initial)


# Records --------------------------------------------------------------------------------------


@triton.jit
def record_block(
    x,
    words,
    xs,
    ws,
    live,
    left,
    count,
    first,
    n,
    extreme,
    flip,
    last,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    """The words of a block, from its end: that is the order of the scan."""
    for i in range(0, count, 16):
        at = ((count - 1) // 16) * 16 - i
        v = fetch(x, xs, at, live, left, GROUP, V, UNIT)
        word = tl.zeros(x.shape, tl.int32)
        for j in tl.static_range(15, -1, -1):
            here = at + j < left
            e = turned(v[j], flip)
            yes = is_record(e, extreme, last) | (first + (at + j) == n - 1)
            word = word | tl.where(here & yes, 1 << j, 0)
            extreme = tl.where(here, op(extreme, e, "cummax"), extreme)
        tl.store(words + (at // 16) * ws, word.to(tl.uint16), mask=live & (at < left))
    return extreme


@triton.jit
def records(
    x_ptr,
    words_ptr,
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
    last,
    xs,
    x0,
    x1,
    x2,
    ws,
    w0,
    w1,
    w2,
    C: tl.constexpr,
    PHASE: tl.constexpr,
    V: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Bit k of word w of a line: whether the element 16 w + k, counted from the scan's end, is a
    record. The line is walked from there, too, so that words and blocks are those of the gradient;
    a running extreme is the same in any order but for the sign of a zero, which no record sees.

    PHASE "apply": block_ptr and chunk_ptr have the extremes before each block and each chunk, which
    are numbered from the scan's beginning."""
    dtype: tl.constexpr = compute_type(x_ptr.dtype.element_ty)
    p, line, block, live = my_piece(lines, blocks, across, along, C)
    x = x_ptr + start_of(line, e0, e1, x0 * V, x1 * V, x2 * V)
    words = words_ptr + start_of(line, e0, e1, w0, w1, w2)
    extreme = neutral([C], dtype, "cummax")
    if PHASE == "whole":
        total = blocks_of(n)
        for i in range(0, total):
            b = total - 1 - i
            first = b.to(tl.int64) * BLOCK
            left = tl.minimum(n - first, BLOCK).to(tl.int32)
            extreme = record_block(
                x + first * xs,
                words + (first // 16) * ws,
                xs,
                ws,
                live,
                left,
                left,
                first,
                n,
                extreme,
                flip,
                last,
                V,
                UNIT,
            )
    else:
        first = block.to(tl.int64) * BLOCK
        left = tl.minimum(n - first, BLOCK).to(tl.int32)
        count = tl.minimum(n, BLOCK).to(tl.int32)
        chunk = line * chunk_across + ((blocks - 1 - block) // CHUNK) * chunk_along
        extreme = op(
            tl.load(chunk_ptr + chunk, mask=live, other=0),
            tl.load(block_ptr + p, mask=live, other=0),
            "cummax",
        )
        extreme = record_block(
            x + first * xs,
            words + (first // 16) * ws,
            xs,
            ws,
            live,
            left,
            count,
            first,
            n,
            extreme,
            flip,
            last,
            V,
            UNIT,
        )
