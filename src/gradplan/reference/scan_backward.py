"""Gradients of cumsum, cumprod, cummax and cummin on `[rows, n]` arrays in forward order.

Inside, q counts from the end of the forward scan: rows are flipped on the way in and out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradplan.vocabulary import ScanKind, Ties

from .arithmetic import Array, before, multiply
from .prefix import OPERATIONS, scan_rows
from .recurrence import BLOCK, CHUNK, Scaled, apply, by_step, recurrence, split, times

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
    a = before(x[:, ::-1], 1)
    blocks, prefixes = _products(by_step(a))

    def span(first: int, last: int, base: Array, carry: Array) -> Array:
        product = blocks[last] if first == last else prefixes[last]
        return np.where(product.mantissa == 0, base, _join(base, apply(product, carry)))

    def extend(b: Array, a: Array, t: Array) -> Array:
        return np.where(a == 0, b, b + multiply(a, t))

    t = recurrence(dy[:, ::-1], a, extend=extend, span=span)[:, ::-1]
    y_before = before(y, 1)
    return np.where(y_before == 0, 0.0, multiply(y_before, t))


def _join(base: Array, passed: Array) -> Array:
    """The sum of what blocks hold and of what passed them; of opposite infinities the latter,
    which has been infinite since before these blocks, as one step after the other finds it."""
    total = base + passed
    return np.where(np.isnan(total) & ~np.isnan(base) & ~np.isnan(passed), passed, total)


def _products(steps: Array) -> tuple[list[Scaled], list[Scaled]]:
    """The product of each block, and of its chunk's blocks up to and including it."""
    width, count, _ = steps.shape
    if count <= 1:
        return [], []
    every = split(steps[0])
    for q in range(1, width):
        every = times(every, split(steps[q]))
    blocks = [Scaled(every.mantissa[k], every.exponent[k]) for k in range(count)]
    prefixes: list[Scaled] = []
    for k, block in enumerate(blocks):
        prefixes.append(times(block, prefixes[-1]) if k % CHUNK else block)
    return blocks, prefixes


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
    extreme = before(scan_rows(x, OPERATIONS[kind]), 0)
    # The first NaN takes over; ties="last" lets every later NaN tie with it.
    takes_over = np.isnan(x) if ties is Ties.LAST else np.isnan(x) & ~np.isnan(extreme)
    record: Array = _BEATS[kind, ties](x, extreme) | takes_over
    record[:, :1] = True
    return record
