"""logcumsumexp and its gradient on `[rows, n]` arrays in forward order."""

from __future__ import annotations

import numpy as np

from .arithmetic import Array, before
from .elementary import exp, log
from .prefix import maximum, scan_rows
from .recurrence import BLOCK, multiply_add, recurrence


def difference(a: Array, b: Array) -> Array:
    """`a - b`, and 0 for equal values, infinities included."""
    return np.where(a == b, 0.0, a - b)


def logcumsumexp_rows(x: Array) -> Array:
    top = scan_rows(x, maximum)
    top_before = before(top, 0)
    e = exp(-np.abs(difference(x, top_before)))
    one = np.ones_like(x)
    rises = x > top_before
    b = np.where(rises, one, e)
    b[:, :1] = 1

    def span(first: int, last: int, base: Array, carry: Array) -> Array:
        # Inner blocks are whole, so the last one ends where the next begins.
        into, out = top[:, first * BLOCK - 1], top[:, (last + 1) * BLOCK - 1]
        return multiply_add(base, exp(difference(into, out)), carry)

    total = recurrence(b, np.where(rises, e, one), extend=multiply_add, span=span)
    y: Array = top + log(total)
    return y


def logcumsumexp_backward_rows(dy: Array, x: Array, y: Array) -> Array:
    from_end = y[:, ::-1]

    def decay(later: Array, earlier: Array) -> Array:
        """exp(later - earlier) along q; what has no mass (-inf) takes nothing in."""
        return np.where(later == -np.inf, 0.0, exp(difference(later, earlier)))

    def span(first: int, last: int, base: Array, carry: Array) -> Array:
        into, out = from_end[:, first * BLOCK - 1], from_end[:, (last + 1) * BLOCK - 1]
        return multiply_add(base, decay(out, into), carry)

    a = decay(from_end, before(from_end, 0))
    t = recurrence(dy[:, ::-1], a, extend=multiply_add, span=span)[:, ::-1]
    return np.where(x == -np.inf, 0.0, t * exp(difference(x, y)))
