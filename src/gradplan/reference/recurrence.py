"""The order of a first-order recurrence, `t[q] = b[q] + a[q] t[q-1]`, and its long products."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from .arithmetic import Array, multiply
from .order import BLOCK as BLOCK
from .order import FAN

CHUNK = FAN  # blocks composed before the row's carry comes in


Extend: TypeAlias = Callable[[Array, Array, Array], Array]
Span: TypeAlias = Callable[[int, int, Array, Array], Array]


def by_step(rows: Array, fill: float = 0) -> Array:
    """`[rows, n]` as `[step, block, row]`, `fill` behind the end."""
    count, n = rows.shape
    width = min(n, BLOCK)
    blocks = -(-n // width) if n else 0
    padded = np.full((count, blocks * width), fill, rows.dtype)
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
    extend: Extend,
    span: Span,
    initial: Array | None = None,
) -> Array:
    """Evaluate the recurrence along each row of `b` and `a`, both `[rows, n]`.

    `extend(b, a, t)` is `b + a t` for single elements. `span(first, last, base, carry)` is
    `base + A carry` with A the coefficient of the blocks first..last together. Without `initial`,
    `[rows]`, the first element has no predecessor, and `a[:, 0]` does not matter.
    """
    b_steps, a_steps = by_step(b), by_step(a)
    width, blocks, count = b_steps.shape

    def serial(carries: list[Array]) -> Array:
        t = b_steps.copy()
        if carries:  # of the last blocks: all of them, or all but the first
            own = slice(blocks - len(carries), None)
            t[0, own] = extend(b_steps[0, own], a_steps[0, own], np.stack(carries))
        for q in range(1, width):
            t[q] = extend(b_steps[q], a_steps[q], t[q - 1])
        return t

    first = [] if initial is None or not blocks else [initial]
    t = serial(first + (_carries(serial([])[-1], span, initial) if blocks > 1 else []))
    return t.transpose(2, 1, 0).reshape(count, blocks * width)[:, : b.shape[1]]


def recurrence_total(b: Array, a: Array, *, extend: Extend, span: Span) -> Array:
    """The last state of each row, `[rows]`, in which nothing has come in."""
    b_steps, a_steps = by_step(b), by_step(a)
    width = len(b_steps)
    t = b_steps.copy()
    for q in range(1, width):
        t[q] = extend(b_steps[q], a_steps[q], t[q - 1])
    local = t[-1]
    local[-1] = t[(b.shape[1] - 1) % width, -1]  # the last block may be short
    behind = np.concatenate([local, local[-1:]])  # as if another block followed
    return _carries(behind, span, None)[-1]


def _carries(local: Array, span: Span, initial: Array | None) -> list[Array]:
    """The carry that comes into each block but the first; `local` is L, `[block, row]`."""
    carries: list[Array] = []
    inside = local[0]  # L2
    for k in range(len(local) - 1):
        start = k - k % CHUNK
        inside = local[k] if k == start else span(k, k, local[k], inside)
        into = carries[start - 1] if start else initial  # T2
        carries.append(inside if into is None else span(start, k, inside, into))
    return carries


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


def linear_recurrence(b: Array, a: Array, initial: Array | None = None) -> Array:
    """`t[q] = b[q] + a[q] t[q-1]` along rows, with factors of any size, zeros among them."""
    span = _linear_span(*_products(by_step(a)))
    return recurrence(b, a, extend=_linear_extend, span=span, initial=initial)


def linear_total(b: Array, a: Array) -> tuple[Array, Scaled]:
    """The last state of each row that nothing comes into, and the product of all factors."""
    blocks, prefixes = _products(by_step(a, 1), every=True)
    total = recurrence_total(b, a, extend=_linear_extend, span=_linear_span(blocks, prefixes))
    ends = [min(k + CHUNK, len(prefixes)) - 1 for k in range(0, len(prefixes), CHUNK)]
    product = prefixes[ends[0]]
    for k in ends[1:]:
        product = times(prefixes[k], product)
    return total, product


def _linear_span(blocks: list[Scaled], prefixes: list[Scaled]) -> Span:
    def span(first: int, last: int, base: Array, carry: Array) -> Array:
        return linear_join(base, blocks[last] if first == last else prefixes[last], carry)

    return span


def linear_join(base: Array, product: Scaled, carry: Array) -> Array:
    """`base + product carry`, where a carry that has passed a zero is missing."""
    return np.where(product.mantissa == 0, base, _join(base, apply(product, carry)))


def _linear_extend(b: Array, a: Array, t: Array) -> Array:
    return np.where(a == 0, b, b + multiply(a, t))


def _join(base: Array, passed: Array) -> Array:
    """The sum of what blocks hold and of what passed them; of opposite infinities the latter,
    which has been infinite since before these blocks, as one step after the other finds it."""
    total = base + passed
    return np.where(np.isnan(total) & ~np.isnan(base) & ~np.isnan(passed), passed, total)


def _products(steps: Array, *, every: bool = False) -> tuple[list[Scaled], list[Scaled]]:
    """The product of each block, and of its chunk's blocks up to and including it."""
    width, count, _ = steps.shape
    if count <= 1 and not every:
        return [], []
    product = split(steps[0])
    for q in range(1, width):
        product = times(product, split(steps[q]))
    blocks = [Scaled(product.mantissa[k], product.exponent[k]) for k in range(count)]
    prefixes: list[Scaled] = []
    for k, block in enumerate(blocks):
        prefixes.append(times(block, prefixes[-1]) if k % CHUNK else block)
    return blocks, prefixes
