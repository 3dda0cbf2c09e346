"""The order of a first-order recurrence, `t[q] = b[q] + a[q] t[q-1]`, and its long products."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .arithmetic import Array, multiply

BLOCK = 256  # elements evaluated serially
CHUNK = 16  # blocks composed before the row's carry comes in


def by_step(rows: Array) -> Array:
    """`[rows, n]` as `[step, block, row]`, zero behind the end."""
    count, n = rows.shape
    width = min(n, BLOCK)
    blocks = -(-n // width) if n else 0
    padded = np.zeros((count, blocks * width), rows.dtype)
    padded[:, :n] = rows
    return np.ascontiguousarray(padded.reshape(count, blocks, width).transpose(2, 1, 0))


def multiply_add(b: Array, a: Array, t: Array) -> Array:
    """`b + a t`, rounded twice."""
    total: Array = b + a * t
    return total


def recurrence(
    b: Array,
    a: Array,
    *,
    extend: Callable[[Array, Array, Array], Array],
    span: Callable[[int, int, Array, Array], Array],
) -> Array:
    """Evaluate the recurrence along each row of `b` and `a`, both `[rows, n]`.

    `extend(b, a, t)` is `b + a t` for single elements. `span(first, last, base, carry)` is
    `base + A carry` with A the coefficient of the blocks first..last together. The first element
    has no predecessor, so `a[:, 0]` does not matter.
    """
    b_steps, a_steps = by_step(b), by_step(a)
    width, blocks, count = b_steps.shape

    def serial(carry: Array | None) -> Array:
        t = b_steps.copy()
        if carry is not None:  # block 0 has none
            t[0, 1:] = extend(b_steps[0, 1:], a_steps[0, 1:], carry)
        for q in range(1, width):
            t[q] = extend(b_steps[q], a_steps[q], t[q - 1])
        return t

    carry = _carries(serial(None)[-1], span) if blocks > 1 else None
    t = serial(carry)
    return t.transpose(2, 1, 0).reshape(count, blocks * width)[:, : b.shape[1]]


def _carries(local: Array, span: Callable[[int, int, Array, Array], Array]) -> Array:
    """The carry that comes into each block but the first; `local` is L, `[block, row]`."""
    carries: list[Array] = []
    inside = local[0]  # L2
    for k in range(len(local) - 1):
        start = k - k % CHUNK
        inside = local[k] if k == start else span(k, k, local[k], inside)
        carries.append(span(start, k, inside, carries[start - 1]) if start else inside)
    return np.stack(carries)


class Scaled(NamedTuple):
    """`mantissa * 2**exponent` with a range that no product of a chunk can leave."""

    mantissa: Array
    exponent: Array


def split(v: Array) -> Scaled:
    """`v` with the mantissa in [0.5, 1); zero, infinities and NaN have exponent 0."""
    mantissa, exponent = np.frexp(v)
    return Scaled(mantissa, np.where(np.isfinite(v) & (v != 0), exponent, 0))


def times(p: Scaled, q: Scaled) -> Scaled:
    """The product, 0 if a factor is; only the mantissas' multiplication rounds."""
    zero = (p.mantissa == 0) | (q.mantissa == 0)
    mantissa, exponent = split(np.where(zero, 0.0, p.mantissa * q.mantissa))
    return Scaled(mantissa, p.exponent + q.exponent + exponent)


def apply(p: Scaled, v: Array) -> Array:
    """`p v` in the type of `v`.

    The power of two is two factors, so that neither leaves the type's range; beyond the clamp
    every result is an infinity or zero already. Both multiplications are exact unless the result
    is subnormal, where the second one rounds. Zero times an infinity is 0.
    """
    q = split(v)
    limit = 2000 if v.dtype == np.float64 else 250
    exponent = np.clip(p.exponent + q.exponent, -limit, limit)
    half = exponent >> 1
    one = np.ones_like(v)
    product = multiply(p.mantissa, q.mantissa)
    value: Array = product * np.ldexp(one, half) * np.ldexp(one, exponent - half)
    return value
