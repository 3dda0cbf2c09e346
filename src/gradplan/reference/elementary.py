"""exp and log of the bit contract, operation by operation.

The sequences of ``csrc/lanes/exp_log.h``: IEEE +, -, x, /, integer operations and selects, no libm.
``docs/numerics.md`` ("The two functions") states them as formulas, with their measured errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Float = TypeVar("Float", np.float32, np.float64)


@dataclass(frozen=True)
class Constants:
    """What the sequences need for one element type; see csrc/lanes/exp_log.h."""

    unsigned: np.dtype[Any]
    signed: np.dtype[Any]
    mantissa_bits: int
    bias: int
    log2e: np.floating[Any]
    ln2_high: np.floating[Any]
    ln2_low: np.floating[Any]
    exp_zero: np.floating[Any]
    exp_inf: np.floating[Any]
    exp_terms: tuple[np.floating[Any], ...]
    log_terms: tuple[np.floating[Any], ...]


LOG_LEAST = float.fromhex("0x1.62p-1")

CONSTANTS = {
    np.dtype(np.float32): Constants(
        unsigned=np.dtype(np.uint32),
        signed=np.dtype(np.int32),
        mantissa_bits=23,
        bias=127,
        log2e=np.float32(float.fromhex("0x1.715476p+0")),
        ln2_high=np.float32(float.fromhex("0x1.62e4p-1")),
        ln2_low=np.float32(float.fromhex("0x1.7f7d1cp-20")),
        exp_zero=np.float32(-104.0),
        exp_inf=np.float32(89.0),
        exp_terms=tuple(
            np.float32(float.fromhex(term))
            for term in (
                "0x1.fffffcp-2",
                "0x1.55545ap-3",
                "0x1.55592cp-5",
                "0x1.125684p-7",
                "0x1.6999ep-10",
            )
        ),
        log_terms=tuple(
            np.float32(float.fromhex(term))
            for term in ("0x1.555628p-1", "0x1.98dd1cp-2", "0x1.3cb7c4p-2")
        ),
    ),
    np.dtype(np.float64): Constants(
        unsigned=np.dtype(np.uint64),
        signed=np.dtype(np.int64),
        mantissa_bits=52,
        bias=1023,
        log2e=np.float64(float.fromhex("0x1.71547652b82fep+0")),
        ln2_high=np.float64(float.fromhex("0x1.62e42fefa38p-1")),
        ln2_low=np.float64(float.fromhex("0x1.ef35793c7673p-45")),
        exp_zero=np.float64(-746.0),
        exp_inf=np.float64(710.0),
        exp_terms=tuple(
            np.float64(float.fromhex(term))
            for term in (
                "0x1.000000000000ap-1",
                "0x1.55555555554fap-3",
                "0x1.555555555088dp-5",
                "0x1.1111111127b9dp-7",
                "0x1.6c16c184264a9p-10",
                "0x1.a01a012a68a14p-13",
                "0x1.a0199a1737aaap-16",
                "0x1.71df253d52c06p-19",
                "0x1.28ad685b22167p-22",
                "0x1.ad7f759264423p-26",
            )
        ),
        log_terms=tuple(
            np.float64(float.fromhex(term))
            for term in (
                "0x1.55555555555e7p-1",
                "0x1.999999996327p-2",
                "0x1.2492495b85cf3p-2",
                "0x1.c71c3d4266683p-3",
                "0x1.746a7b4b73058p-3",
                "0x1.393599a720472p-3",
                "0x1.3337969c7dcc2p-3",
            )
        ),
    ),
}


def _constants(x: NDArray[Any]) -> Constants:
    try:
        return CONSTANTS[x.dtype]
    except KeyError:
        raise TypeError(f"expected a float32 or float64 array, got {x.dtype}") from None


def _polynomial(
    x: NDArray[Any], x2: NDArray[Any], terms: tuple[np.floating[Any], ...]
) -> NDArray[Any]:
    """The sum of terms[i] x^i; x2 is x^2."""
    if len(terms) <= 3:
        y: NDArray[Any] = np.full_like(x, terms[-1])
        for term in terms[-2::-1]:
            y = term + x * y
        return y
    # Pairs of terms, then Horner's rule in x^2.
    top = (len(terms) - 1) // 2 * 2
    y = np.full_like(x, terms[top])
    if len(terms) % 2 == 0:
        y = y + terms[top + 1] * x
    for i in range(top - 2, -1, -2):
        y = (terms[i] + terms[i + 1] * x) + x2 * y
    return y


def exp(x: NDArray[Float]) -> NDArray[Float]:
    """e to the power of x, for float32 (error below 1 ulp) and float64 (below 2 ulp).

    >>> exp(np.array([-np.inf, 0.0, 1.0, 1000.0], dtype=np.float32)).tolist()
    [0.0, 1.0, 2.7182817459106445, inf]
    """
    c = _constants(x)
    scalar = x.dtype.type
    bits = c.unsigned.type
    # One dimension and contiguous, because the sums' bits are looked at.
    v: NDArray[Any] = np.ascontiguousarray(x).reshape(-1)
    with np.errstate(all="ignore"):
        magic = scalar(3 * 2 ** (c.mantissa_bits - 1) + 2 * c.bias)
        shifted = v * c.log2e + magic
        n = shifted - magic
        high = v - n * c.ln2_high
        low = n * c.ln2_low
        r = high - low
        r2 = r * r
        q = _polynomial(r, r2, c.exp_terms)
        significand = scalar(1) + (high + (r2 * q - low))

        exponent = shifted.view(c.unsigned)
        half = exponent >> bits(1)
        scale1 = (half << bits(c.mantissa_bits)).view(x.dtype)
        scale2 = ((exponent - half) << bits(c.mantissa_bits)).view(x.dtype)
        y = (significand * scale1) * scale2
        y = np.where(v < c.exp_zero, scalar(0), y)
        y = np.where(v > c.exp_inf, scalar(np.inf), y)
        y = np.where(v == v, y, scalar(np.nan))
    return y.reshape(x.shape)


def log(x: NDArray[Float]) -> NDArray[Float]:
    """The natural logarithm of x, for float32 (error below 1 ulp) and float64 (below 2 ulp).

    >>> log(np.array([-1.0, 0.0, 1.0, 10.0], dtype=np.float32)).tolist()
    [nan, -inf, 0.0, 2.3025851249694824]
    """
    c = _constants(x)
    scalar = x.dtype.type
    bits = c.unsigned.type
    v: NDArray[Any] = np.ascontiguousarray(x).reshape(-1)
    with np.errstate(all="ignore"):
        subnormal = v < np.finfo(x.dtype).tiny
        lifted = np.where(subnormal, v * scalar(2**c.mantissa_bits), v)
        lift = np.where(subnormal, scalar(c.mantissa_bits), scalar(0))

        # lifted = 2^e m with m in [LOG_LEAST, 2 LOG_LEAST)
        least = scalar(LOG_LEAST).view(c.unsigned)
        k = lifted.view(c.unsigned) - least
        e = (k.view(c.signed) >> c.signed.type(c.mantissa_bits)).astype(x.dtype) - lift
        m = ((k & bits(2**c.mantissa_bits - 1)) + least).view(x.dtype)

        f = m - scalar(1)
        s = f / (m + scalar(1))
        s2 = s * s
        q = _polynomial(s2, s2 * s2, c.log_terms)
        rest = s * (s2 * q - f)

        high = e * c.ln2_high
        total = high + f
        error = f - (total - high)
        y = total + (rest + (error + e * c.ln2_low))

        y = np.where(v == scalar(np.inf), scalar(np.inf), y)
        outside = np.where(v == scalar(0), scalar(-np.inf), scalar(np.nan))
        y = np.where(v > scalar(0), y, outside)
    return y.reshape(x.shape)
