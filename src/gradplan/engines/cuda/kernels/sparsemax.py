"""Sparsemax with exact integers, and its gradient.

Lines of up to 4096 elements stay in registers: they are read once and written once, which is the
least possible. Longer ones are visited again for each step to the fixed point (usually 3 to 8),
from the cache as long as a line fits there. "across" is for lines whose neighbours in memory are
those of the next line. Steps are PTX instructions per element: f32 about 14 each, f64 24.

The gradient reads dy and y twice (the second time from the cache) and writes once; 31 instructions
per element. Its 16 serial sums are the contract's, so a line is never split over programs.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.engines.cuda.launches.tiles import (
    ACROSS,
    LONG,
    REDUCED,
    REDUCED_ACROSS,
    UNDERWAY,
    VECTOR_LINES,
    WHOLE,
    WHOLE_ACROSS,
)
from gradplan.reference.sparsemax import LANES
from gradplan.vocabulary import FLOATS, ElementKind

from .arithmetic import divide, down, infinity, up
from .kernel import Kernel
from .places import place
from .types import POINTERS, signature

SUMS = tl.constexpr(LANES)


# Forward --------------------------------------------------------------------------------------


@triton.jit
def floor_division(a, b):
    """Quotient and remainder for b > 0; Triton's `//` truncates."""
    q = a // b
    q = q - tl.where(q * b > a, 1, 0).to(a.dtype)
    return q, a - q * b


@triton.jit
def threshold(high, low, k, F: tl.constexpr):
    """floor((sum - 2^F) / k) and the remainder, where the sum is high * 2^32 + low; k < 2^47.

    For F = 30 all of it is in `low`, and 64 bits are enough.
    """
    if F == 30:
        return floor_division(low - (1 << F), k)
    else:
        high = high + (low >> 32) - (1 << (F - 32))
        q, rest = floor_division(high, k)
        rest = (rest << 16) + ((low >> 16) & 0xFFFF)
        q1 = rest // k
        rest = ((rest - q1 * k) << 16) + (low & 0xFFFF)
        q2 = rest // k
        return (q << 32) + (q1 << 16) + q2, rest - q2 * k


@triton.jit
def scaled(v, F: tl.constexpr):
    """trunc(v * 2^F) of -1 < v <= 0; other v give 0."""
    v = tl.where(v > -1.0, v, tl.zeros_like(v)) * (2.0**F)
    if F == 30:
        return v.to(tl.int32)
    else:
        return v.to(tl.int64)


@triton.jit
def along(vector, AXIS: tl.constexpr):
    """One value per line, as it stands beside a tile whose lines go along AXIS."""
    return tl.expand_dims(vector, AXIS)


@triton.jit
def load_line(
    x_ptr, at, live, k, n, x_step, B: tl.constexpr, AXIS: tl.constexpr, UNIT: tl.constexpr
):
    """Elements [k B, k B + B) of each line, -inf behind its end."""
    i = k.to(tl.int64) * B + tl.arange(0, B)
    offsets = along(at, AXIS) + along(i if UNIT else i * x_step, 1 - AXIS)
    mask = along(live, AXIS) & along(i < n, 1 - AXIS)
    return up(tl.load(x_ptr + offsets, mask=mask, other=infinity(x_ptr, True))), i


@triton.jit
def members(x, top, bound, F: tl.constexpr, AXIS: tl.constexpr):
    """Of the elements above `bound`: their number, and the sum as high and low parts."""
    v = x - along(top, AXIS)
    q = scaled(v, F)
    inside = (v > -1.0) & (q > along(bound, AXIS))
    q = tl.where(inside, q, tl.zeros_like(q)).to(tl.int64)
    count = tl.sum(inside.to(tl.int32), AXIS).to(tl.int64)
    if F == 30:
        low = tl.sum(q, AXIS)
        return count, tl.zeros_like(low), low
    else:
        return count, tl.sum(q >> 32, AXIS), tl.sum(q & 0xFFFFFFFF, AXIS)


@triton.jit
def extremes(x, AXIS: tl.constexpr):
    """The largest element that is a number, and whether one is not."""
    missing = x != x
    x = tl.where(missing, tl.full(x.shape, float("-inf"), x.dtype), x)
    return tl.max(x, AXIS), tl.max(missing.to(tl.int32), AXIS)


@triton.jit
def sparsemax(
    x_ptr, y_ptr, lines, n, steps, e1, e2, x0, x1, x2, x_step, y0, y1, y2, y_step,
    F: tl.constexpr, WHOLE: tl.constexpr, AXIS: tl.constexpr, UNIT: tl.constexpr,
    R: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """AXIS 1: tiles of [R lines, B elements]; AXIS 0: [B elements, R lines].

    WHOLE: a line is one tile. UNIT: steps are 1. A line with +inf or NaN or without a number has no
    members, because its maximum counts as +inf, and NaN is written.
    """
    line = tl.program_id(0) * R + tl.arange(0, R)
    live = line < lines
    x_at = place(line, e1, e2, x0, x1, x2)
    y_at = place(line, e1, e2, y0, y1, y2)
    dtype: tl.constexpr = tl.float64 if F == 60 else tl.float32
    zero = tl.program_id(0) * 0

    top = tl.full([R], float("-inf"), dtype)
    nans = tl.zeros([R], tl.int32)
    if WHOLE:
        x, i = load_line(x_ptr, x_at, live, zero, n, x_step, B, AXIS, UNIT)
        top, nans = extremes(x, AXIS)
    else:
        for k in range(steps):
            x, i = load_line(x_ptr, x_at, live, k, n, x_step, B, AXIS, UNIT)
            some, missing = extremes(x, AXIS)
            top = tl.maximum(top, some)
            nans = nans | missing
    none = (nans != 0) | (tl.abs(top) == float("inf"))
    top = tl.where(none, tl.full([R], float("inf"), dtype), top)

    bound = tl.full([R], -(1 << F), tl.int64)
    rest = tl.zeros([R], tl.int64)
    number = tl.full([R], 1, tl.int64)
    changed = zero == 0
    while changed:
        before = number
        if WHOLE:
            number, high, low = members(x, top, bound, F, AXIS)
        else:
            number = tl.zeros([R], tl.int64)
            high = tl.zeros([R], tl.int64)
            low = tl.zeros([R], tl.int64)
            for k in range(steps):
                t, i = load_line(x_ptr, x_at, live, k, n, x_step, B, AXIS, UNIT)
                some, some_high, some_low = members(t, top, bound, F, AXIS)
                number += some
                high += some_high
                low += some_low
        number = tl.maximum(number, 1)
        bound, rest = threshold(high, low, number, F)
        # Members only become fewer. A single one stays the only one, from the first step on.
        changed = tl.max((number != before).to(tl.int32), 0) != 0

    tau = (bound.to(tl.float64) + rest.to(tl.float64) / number.to(tl.float64)) * (2.0**-F)
    tau = along(tau.to(dtype), AXIS)
    for k in range(steps):
        if WHOLE:
            t = x
        else:
            t, i = load_line(x_ptr, x_at, live, k, n, x_step, B, AXIS, UNIT)
        v = t - along(top, AXIS)
        y = tl.where(v > tau, v - tau, tl.zeros_like(v))
        y = tl.where(along(none, AXIS), tl.full(y.shape, float("nan"), dtype), y)
        to = y_ptr + (along(y_at, AXIS) + along(i if UNIT else i * y_step, 1 - AXIS))
        mask = along(live, AXIS) & along(i < n, 1 - AXIS)
        tl.store(to, down(y, y_ptr.dtype.element_ty), mask=mask)


# Gradient -------------------------------------------------------------------------------------


@triton.jit
def sparsemax_backward(
    dy_ptr, y_ptr, dx_ptr, lines, n, steps, e1, e2,
    g0, g1, g2, g_step, y0, y1, y2, y_step, d0, d1, d2, d_step,
    R: tl.constexpr, U: tl.constexpr,
):  # fmt: skip
    """A lane for each of the 16 sums of a line; U times 16 elements are underway."""
    line = tl.program_id(0) * R + tl.arange(0, R)
    lane = tl.broadcast_to(tl.arange(0, SUMS)[None, :], [R, SUMS])
    live = tl.broadcast_to((line < lines)[:, None], [R, SUMS])
    g_at = dy_ptr + (place(line, e1, e2, g0, g1, g2)[:, None] + lane * g_step)
    y_at = y_ptr + (place(line, e1, e2, y0, y1, y2)[:, None] + lane * y_step)
    d_at = dx_ptr + (place(line, e1, e2, d0, d1, d2)[:, None] + lane * d_step)
    dtype: tl.constexpr = tl.float64 if dy_ptr.dtype.element_ty == tl.float64 else tl.float32
    nil = tl.full([R, SUMS], -0.0, dtype)
    total = nil
    count = tl.zeros([R, SUMS], tl.int32)
    for k in range(steps):
        for u in tl.static_range(0, U):
            i = (tl.cast(k, tl.int64) * U + u) * SUMS
            ok = (lane < n - i) & live
            inside = up(tl.load(y_at + i * y_step, mask=ok, other=0)) > 0.0
            v = tl.where(inside, up(tl.load(g_at + i * g_step, mask=ok, other=0)), nil)
            count += inside.to(tl.int32)
            if u == 0:
                values = (v,)
            else:
                values = values + (v,)
        for u in tl.static_range(0, U):
            total = total + values[u]
    # The tree as a butterfly: a + b is b + a, so every lane ends with the same bits.
    number = count.to(tl.int64)
    for level in tl.static_range(0, 4):
        other = lane ^ (8 >> level)
        total = total + tl.gather(total, other, 1)
        number = number + tl.gather(number, other, 1)
    mean = divide(total, tl.maximum(number, 1).to(dtype))
    for k in range(steps):
        for u in tl.static_range(0, U):
            i = (tl.cast(k, tl.int64) * U + u) * SUMS
            ok = (lane < n - i) & live
            inside = up(tl.load(y_at + i * y_step, mask=ok, other=0)) > 0.0
            v = up(tl.load(g_at + i * g_step, mask=ok, other=0)) - mean
            v = tl.where(inside, v, tl.zeros_like(v))
            tl.store(d_at + i * d_step, down(v, dx_ptr.dtype.element_ty), mask=ok)


@triton.jit
def load_sixteen(p, i, n, step, live):
    """Elements i to i + 15 of each line, as a tuple; 0 behind its end."""
    values = (up(tl.load(p + i * step, mask=live & (i < n), other=0)),)
    for k in tl.static_range(1, SUMS):
        values = values + (up(tl.load(p + (i + k) * step, mask=live & (i + k < n), other=0)),)
    return values


@triton.jit
def sparsemax_backward_across(
    dy_ptr, y_ptr, dx_ptr, lines, n, steps, e1, e2,
    g0, g1, g2, g_step, y0, y1, y2, y_step, d0, d1, d2, d_step,
    R: tl.constexpr,
):  # fmt: skip
    """A lane for each line: the 16 sums are registers of it, and so is the tree."""
    line = tl.program_id(0) * R + tl.arange(0, R)
    live = line < lines
    g_at = dy_ptr + place(line, e1, e2, g0, g1, g2)
    y_at = y_ptr + place(line, e1, e2, y0, y1, y2)
    d_at = dx_ptr + place(line, e1, e2, d0, d1, d2)
    dtype: tl.constexpr = tl.float64 if dy_ptr.dtype.element_ty == tl.float64 else tl.float32
    nil = tl.full([R], -0.0, dtype)
    sums = (nil,)
    for _ in tl.static_range(1, SUMS):
        sums = sums + (nil,)
    number = tl.zeros([R], tl.int64)
    for s in range(steps):
        i = tl.cast(s, tl.int64) * SUMS
        g = load_sixteen(g_at, i, n, g_step, live)
        y = load_sixteen(y_at, i, n, y_step, live)
        for k in tl.static_range(0, SUMS):
            v = sums[k] + tl.where(y[k] > 0.0, g[k], nil)
            number += (y[k] > 0.0).to(tl.int64)
            if k == 0:
                new = (v,)
            else:
                new = new + (v,)
        sums = new
    for level in tl.static_range(0, 4):
        for k in tl.static_range(0, 8 >> level):
            v = sums[k] + sums[k + (8 >> level)]
            if k == 0:
                new = (v,)
            else:
                new = new + (v,)
        sums = new
    mean = divide(sums[0], tl.maximum(number, 1).to(dtype))
    for s in range(steps):
        i = tl.cast(s, tl.int64) * SUMS
        g = load_sixteen(g_at, i, n, g_step, live)
        y = load_sixteen(y_at, i, n, y_step, live)
        for k in tl.static_range(0, SUMS):
            d = tl.where(y[k] > 0.0, g[k] - mean, tl.zeros_like(mean))
            to = d_at + (i + k) * d_step
            tl.store(to, down(d, dx_ptr.dtype.element_ty), mask=live & (i + k < n))


# Table ----------------------------------------------------------------------------------------


def _kernels() -> dict[str, Kernel]:
    kernels = {}
    for kind in FLOATS:
        pointers = dict.fromkeys(("x_ptr", "y_ptr", "dy_ptr", "dx_ptr"), POINTERS[kind])
        types = pointers | dict.fromkeys(("lines", "steps", "e1", "e2"), "i32")
        bits = 60 if kind is ElementKind.F64 else 30
        forms: dict[str, tuple[bool, int, tuple[int, int], int]] = {
            form: (True, 1, (lines, elements), warps)
            for form, (lines, elements, warps) in WHOLE.items()
        }
        forms["long"] = (False, 1, LONG, 8)
        forms["across"] = (False, 0, ACROSS, 4)
        for form, (lines, elements, warps) in WHOLE_ACROSS.items():
            forms[f"across/{form}"] = (True, 0, (lines, elements), warps)
        for form, (whole, axis, (lines, elements), warps) in forms.items():
            for unit in (False, True) if axis == 1 else (False,):
                constants = {"F": bits, "WHOLE": whole, "AXIS": axis, "UNIT": unit}
                strides = ("x0", "x1", "x2", "y0", "y1", "y2")
                kernels[f"sparsemax/{kind.value}/{form}{'/vector' if unit else ''}"] = Kernel(
                    sparsemax,
                    signature(sparsemax, types),
                    {
                        **constants,
                        "R": VECTOR_LINES.get(form, lines) if unit else lines,
                        "B": elements,
                    },
                    ("x_ptr", "y_ptr", "n", *strides) if unit else (),
                    warps=warps,
                )
        kernels[f"sparsemax_backward/{kind.value}/along"] = Kernel(
            sparsemax_backward,
            signature(sparsemax_backward, types),
            {"R": REDUCED, "U": UNDERWAY},
        )
        kernels[f"sparsemax_backward/{kind.value}/across"] = Kernel(
            sparsemax_backward_across,
            signature(sparsemax_backward_across, types),
            {"R": REDUCED_ACROSS},
            warps=1,
        )
    return kernels


KERNELS = _kernels()
