"""The arithmetic of the bit contract, in Triton: what every family's kernels compute with.

Operations are IEEE, rounded once each; fusion is off (compiler.py), division is `divide`, and exp
and log are the reference's sequences with the reference's coefficients. bf16 travels as u16: loads
shift, stores round with integers. What multiplies by hand here multiplies once per `*`.
"""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from gradplan.reference.elementary import CONSTANTS, LOG_LEAST, Constants

_SINGLE = CONSTANTS[np.dtype(np.float32)]
_DOUBLE = CONSTANTS[np.dtype(np.float64)]

EXP32 = tl.constexpr(tuple(float(c) for c in _SINGLE.exp_terms))
EXP64 = tl.constexpr(tuple(float(c) for c in _DOUBLE.exp_terms))
LOG32 = tl.constexpr(tuple(float(c) for c in _SINGLE.log_terms))
LOG64 = tl.constexpr(tuple(float(c) for c in _DOUBLE.log_terms))


def _rest(c: Constants) -> tuple[float, ...]:
    """log2 e, the two parts of log 2, and where exp is 0 and infinite."""
    return tuple(float(v) for v in (c.log2e, c.ln2_high, c.ln2_low, c.exp_zero, c.exp_inf))


REST32 = tl.constexpr(_rest(_SINGLE))
REST64 = tl.constexpr(_rest(_DOUBLE))
MAGIC32 = tl.constexpr(float(3 * 2 ** (_SINGLE.mantissa_bits - 1) + 2 * _SINGLE.bias))
MAGIC64 = tl.constexpr(float(3 * 2 ** (_DOUBLE.mantissa_bits - 1) + 2 * _DOUBLE.bias))
LEAST32 = tl.constexpr(int(np.float32(LOG_LEAST).view(np.uint32)))
LEAST64 = tl.constexpr(int(np.float64(LOG_LEAST).view(np.uint64)))
TINY32 = tl.constexpr(float(np.finfo(np.float32).tiny))
TINY64 = tl.constexpr(float(np.finfo(np.float64).tiny))


# Element types --------------------------------------------------------------------------------


@triton.jit
def up(x):
    """To the compute type, exactly."""
    if x.dtype == tl.uint16:
        return (x.to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    elif x.dtype == tl.float16:
        return x.to(tl.float32)
    else:
        return x


@triton.jit
def down(y, to: tl.constexpr):
    """One rounding to nearest even; a NaN becomes the canonical one."""
    if to == tl.uint16:
        b = y.to(tl.uint32, bitcast=True)
        r = ((b + (((b >> 16) & 1) + 0x7FFF)) >> 16).to(tl.uint16)
        return tl.where(y == y, r, tl.full(r.shape, 0x7FC0, tl.uint16))
    elif to == tl.float16:
        h = y.to(tl.float16).to(tl.uint16, bitcast=True)
        h = tl.where(y == y, h, tl.full(h.shape, 0x7E00, tl.uint16))
        return h.to(tl.float16, bitcast=True)
    elif to == tl.float64:
        b = y.to(tl.uint64, bitcast=True)
        b = tl.where(y == y, b, tl.full(b.shape, 0x7FF8000000000000, tl.uint64))
        return b.to(tl.float64, bitcast=True)
    else:
        b = y.to(tl.uint32, bitcast=True)
        b = tl.where(y == y, b, tl.full(b.shape, 0x7FC00000, tl.uint32))
        return b.to(tl.float32, bitcast=True)


@triton.jit
def infinity(p, NEGATIVE: tl.constexpr):
    """An infinity of the type that `p` points to, as what a masked load leaves there."""
    if p.dtype.element_ty == tl.uint16:
        return 0xFF80 if NEGATIVE else 0x7F80
    else:
        return float("-inf") if NEGATIVE else float("inf")


# Operations -----------------------------------------------------------------------------------


@triton.jit
def multiply(a, b):
    """The product where factors are multiplied along a row: zero times an infinity is +0."""
    p = a * b
    return tl.where((p != p) & (a == a) & (b == b), tl.zeros_like(p), p)


@triton.jit
def op(a, b, KIND: tl.constexpr):
    """The operation of a plain scan; an extreme keeps a NaN, and of equal values the first."""
    if KIND == "cumsum":
        return a + b
    elif KIND == "cumprod":
        return multiply(a, b)
    elif KIND == "cummax":
        return tl.where((a != a) | (b <= a), a, b)
    else:
        tl.static_assert(KIND == "cummin")
        return tl.where((a != a) | (b >= a), a, b)


@triton.jit
def neutral(shape: tl.constexpr, dtype: tl.constexpr, KIND: tl.constexpr):
    """A carry that changes no bit of what it is applied to: it stands for a missing one."""
    if KIND == "cumsum":
        return tl.full(shape, -0.0, dtype)
    elif KIND == "cumprod":
        return tl.full(shape, 1.0, dtype)
    elif KIND == "cummax":
        return tl.full(shape, float("-inf"), dtype)
    else:
        tl.static_assert(KIND == "cummin")
        return tl.full(shape, float("inf"), dtype)


@triton.jit
def divide(a, b):
    """Rounded to nearest; a plain `/` of f32 would be an approximation."""
    if a.dtype == tl.float64:
        return a / b
    else:
        return tl.div_rn(a, b)


# exp and log ----------------------------------------------------------------------------------


@triton.jit
def exp(v):
    if v.dtype == tl.float64:
        shifted = v * REST64[0] + MAGIC64
        n = shifted - MAGIC64
        high = v - n * REST64[1]
        low = n * REST64[2]
        r = high - low
        r2 = r * r
        q = EXP64[8] + EXP64[9] * r
        for i in tl.static_range(6, -1, -2):
            q = (EXP64[i] + EXP64[i + 1] * r) + r2 * q
        y = 1.0 + (high + (r2 * q - low))
        e = shifted.to(tl.uint64, bitcast=True)
        half = e >> 1
        y = y * (half << 52).to(tl.float64, bitcast=True)
        y = y * ((e - half) << 52).to(tl.float64, bitcast=True)
        y = tl.where(v < REST64[3], 0.0, y)
        y = tl.where(v > REST64[4], float("inf"), y)
    else:
        shifted = v * REST32[0] + MAGIC32
        n = shifted - MAGIC32
        high = v - n * REST32[1]
        low = n * REST32[2]
        r = high - low
        r2 = r * r
        q = (EXP32[2] + EXP32[3] * r) + r2 * EXP32[4]
        q = (EXP32[0] + EXP32[1] * r) + r2 * q
        y = 1.0 + (high + (r2 * q - low))
        e = shifted.to(tl.uint32, bitcast=True)
        half = e >> 1
        y = y * (half << 23).to(tl.float32, bitcast=True)
        y = y * ((e - half) << 23).to(tl.float32, bitcast=True)
        y = tl.where(v < REST32[3], 0.0, y)
        y = tl.where(v > REST32[4], float("inf"), y)
    return tl.where(v == v, y, float("nan"))


@triton.jit
def log(v):
    if v.dtype == tl.float64:
        tiny = v < TINY64
        lifted = tl.where(tiny, v * 4503599627370496.0, v)
        lift = tl.where(tiny, tl.full(v.shape, 52.0, tl.float64), tl.zeros_like(v))
        k = lifted.to(tl.int64, bitcast=True) - LEAST64
        e = (k >> 52).to(tl.float64) - lift
        m = ((k & 0xFFFFFFFFFFFFF) + LEAST64).to(tl.float64, bitcast=True)
        f = m - 1.0
        s = f / (m + 1.0)
        s2 = s * s
        x2 = s2 * s2
        q = (LOG64[4] + LOG64[5] * s2) + x2 * LOG64[6]
        q = (LOG64[2] + LOG64[3] * s2) + x2 * q
        q = (LOG64[0] + LOG64[1] * s2) + x2 * q
        high = e * REST64[1]
        low = e * REST64[2]
    else:
        tiny = v < TINY32
        lifted = tl.where(tiny, v * 8388608.0, v)
        lift = tl.where(tiny, tl.full(v.shape, 23.0, tl.float32), tl.zeros_like(v))
        k = lifted.to(tl.int32, bitcast=True) - LEAST32
        e = (k >> 23).to(tl.float32) - lift
        m = ((k & 0x7FFFFF) + LEAST32).to(tl.float32, bitcast=True)
        f = m - 1.0
        s = tl.div_rn(f, m + 1.0)
        s2 = s * s
        q = LOG32[0] + s2 * (LOG32[1] + s2 * LOG32[2])
        high = e * REST32[1]
        low = e * REST32[2]
    rest = s * (s2 * q - f)
    total = high + f
    y = total + (rest + ((f - (total - high)) + low))
    y = tl.where(v == float("inf"), float("inf"), y)
    outside = tl.where(
        v == 0.0, tl.full(v.shape, float("-inf"), v.dtype), tl.full(v.shape, float("nan"), v.dtype)
    )
    return tl.where(v > 0.0, y, outside)


# A product whose exponent has no limits ---------------------------------------------------------


@triton.jit
def split(v):
    """(m, e) with m in [0.5, 1); zero, infinities and NaN keep themselves with e = 0.

    Integers do it, but for the exact scaling of a subnormal.
    """
    if v.dtype == tl.float64:
        tiny = tl.abs(v) < TINY64
        b = tl.where(tiny, v * 4503599627370496.0, v).to(tl.int64, bitcast=True)
        e = ((b >> 52) & 0x7FF).to(tl.int32)
        m = ((b & -9218868437227405313) | 0x3FE0000000000000).to(tl.float64, bitcast=True)
        plain = (v != 0.0) & (e != 0x7FF)
        return tl.where(plain, m, v), tl.where(plain, e - 1022 - tl.where(tiny, 52, 0), 0)
    else:
        tiny = tl.abs(v) < TINY32
        b = tl.where(tiny, v * 8388608.0, v).to(tl.int32, bitcast=True)
        e = (b >> 23) & 0xFF
        m = ((b & -2139095041) | 0x3F000000).to(tl.float32, bitcast=True)
        plain = (v != 0.0) & (e != 0xFF)
        return tl.where(plain, m, v), tl.where(plain, e - 126 - tl.where(tiny, 23, 0), 0)


@triton.jit
def times(m, e, m2, e2):
    """The product of two such numbers, 0 if a factor is; only the mantissas' product rounds."""
    p = tl.where((m == 0.0) | (m2 == 0.0), tl.zeros_like(m), m * m2)
    r, k = split(p)
    return r, e + e2 + k


@triton.jit
def two_to(e, dtype: tl.constexpr):
    """A power of two within the type's normal range."""
    if dtype == tl.float64:
        return ((e.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)
    else:
        return ((e + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def apply(m, e, v):
    """The product of such a number and `v`, in the type of `v`."""
    vm, ve = split(v)
    limit: tl.constexpr = 2000 if v.dtype == tl.float64 else 250
    k = tl.minimum(tl.maximum(e + ve, -limit), limit)
    half = k >> 1
    return (multiply(m, vm) * two_to(half, v.dtype)) * two_to(k - half, v.dtype)
