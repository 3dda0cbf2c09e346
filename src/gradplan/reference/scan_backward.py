"""Gradients of cumsum, cumprod, cummax and cummin on `[rows, n]` arrays in forward order.

Inside, q counts from the end of the forward scan: rows are flipped on the way in and out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradplan.vocabulary import ScanKind, Ties

from .arithmetic import Array, before, multiply
from .prefix import OPERATIONS, scan_rows
from .recurrence import BLOCK, linear_recurrence, recurrence

# What makes an element beat the extreme before it.
_BEATS: Mapping[tuple[ScanKind, Ties], np.ufunc] = {
    (ScanKind.CUMMAX, Ties.FIRST): np.greater,
    (ScanKind.CUMMAX, Ties.LAST): np.greater_equal,
    (ScanKind.CUMMIN, Ties.FIRST): np.less,
    (ScanKind.CUMMIN, Ties.LAST): np.less_equal,
}


def cumsum_backward_rows(dy: Array) -> Array:
    return scan_rows(dy[:, ::-1], OPERATIONS[ScanKind.CUMSUM])[:, ::-1]


def cumprod_backward_rows(dy: Array, x: Array, y: Array) -> Array:
    t = linear_recurrence(dy[:, ::-1], before(x[:, ::-1], 1))[:, ::-1]
    y_before = before(y, 1)
    return np.where(y_before == 0, 0.0, multiply(y_before, t))


def extreme_backward_rows(dy: Array, x: Array, *, kind: ScanKind, ties: Ties) -> Array:
    record = records(x, kind, ties)
    # Whether t takes in what comes from behind: not across the record that starts its run.
    passes = before(~record[:, ::-1], True)

    def span(first: int, last: int, base: Array, carry: Array) -> Array:
        through = passes[:, first * BLOCK : (last + 1) * BLOCK].all(axis=1)
        return np.where(through, base + carry, base)

    def extend(b: Array, a: Array, t: Array) -> Array:
        return np.where(a, b + t, b)

    t = recurrence(dy[:, ::-1], passes, extend=extend, span=span)[:, ::-1]
    return np.where(record, t, 0.0)


def records(x: Array, kind: ScanKind, ties: Ties) -> Array:
    """Where the running extreme comes from: the elements that receive a gradient."""
    record = beats(x, before(scan_rows(x, OPERATIONS[kind]), 0), kind, ties)
    record[:, :1] = True
    return record


def beats(x: Array, extreme: Array, kind: ScanKind, ties: Ties) -> Array:
    """Which elements are the extreme from now on, given the one before each."""
    # The first NaN takes over; ties="last" lets every later NaN tie with it.
    takes_over = np.isnan(x) if ties is Ties.LAST else np.isnan(x) & ~np.isnan(extreme)
    record: Array = _BEATS[kind, ties](x, extreme) | takes_over
    return record
