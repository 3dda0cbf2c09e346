"""Scans of parts of rows: with what comes in, and what a part hands on."""

from __future__ import annotations

import numpy as np

from gradplan.vocabulary import ScanKind, Ties

from .arithmetic import (
    Array,
    compute_type,
    from_rows,
    load,
    multiply,
    quiet,
    store,
    to_rows,
)
from .arithmetic import before as shifted
from .elementary import exp, log
from .logcumsumexp import difference
from .operations import operation
from .prefix import OPERATIONS, scan_rows
from .recurrence import (
    BLOCK,
    Scaled,
    linear_join,
    linear_recurrence,
    linear_total,
    multiply_add,
    recurrence,
    recurrence_total,
)
from .scan_backward import beats

_NOTHING = {ScanKind.CUMSUM: -0.0, ScanKind.CUMPROD: 1.0, ScanKind.CUMMAX: -np.inf}
_NOTHING[ScanKind.CUMMIN] = np.inf
"""Totals of rows without elements: they change nothing."""


def _rows(values: Array | None) -> Array | None:
    """One value for each row, in the order of `to_rows`."""
    return None if values is None else load(values).reshape(-1)


def _of_rows(values: Array, like: Array, axis: int) -> Array:
    shape = np.moveaxis(np.atleast_1d(like), axis, -1).shape[:-1]
    return store(values.reshape(shape), compute_type(like.dtype))


class _Exponentials:
    """logcumsumexp as a recurrence, with the running maximum that comes in."""

    def __init__(self, x: Array, level: Array | None) -> None:
        top = scan_rows(x, OPERATIONS[ScanKind.CUMMAX], level)
        self.top, self.top_before = top, shifted(top, -np.inf)
        if level is not None:
            self.top_before[:, 0] = level
        e = exp(-np.abs(difference(x, self.top_before)))
        one, rises = np.ones_like(x), x > self.top_before
        self.a, self.b = np.where(rises, e, one), np.where(rises, one, e)

    def gain(self, first: int, last: int) -> Array:
        out = self.top[:, min((last + 1) * BLOCK, self.top.shape[1]) - 1]
        return exp(difference(self.top_before[:, first * BLOCK], out))

    def span(self, first: int, last: int, base: Array, carry: Array) -> Array:
        return multiply_add(base, self.gain(first, last), carry)


@operation
@quiet
def scan_part(
    x: Array,
    before: Array | None = None,
    carry: Array | None = None,
    *,
    kind: str,
    scan_axis: int,
    reverse: bool = False,
) -> Array:
    """A scan of a part of each row: `carry` is C3 or T2, `before` logcumsumexp's M before it.

    >>> scan_part(np.float32([1, 2]), carry=np.float32(5), kind="cumsum", scan_axis=0).tolist()
    [6.0, 8.0]
    """
    which, rows, start = ScanKind.parse(kind), to_rows(x, scan_axis, reverse), _rows(carry)
    if which is not ScanKind.LOGCUMSUMEXP:
        y = scan_rows(rows, OPERATIONS[which], start)
    elif rows.shape[1] == 0:
        y = rows
    else:
        terms = _Exponentials(rows, _rows(before))
        s = recurrence(terms.b, terms.a, extend=multiply_add, span=terms.span, initial=start)
        y = terms.top + log(s)
    return from_rows(y, x, scan_axis, reverse)


@operation
@quiet
def scan_part_total(
    x: Array, before: Array | None = None, *, kind: str, scan_axis: int, reverse: bool = False
) -> tuple[Array, Array]:
    """What a part hands on where nothing comes in, and the factor of what comes in.

    >>> [float(v) for v in scan_part_total(np.float32([1, 2]), kind="cumsum", scan_axis=0)]
    [3.0, 1.0]
    """
    which, rows = ScanKind.parse(kind), to_rows(x, scan_axis, reverse)
    total, gain = np.full(len(rows), -0.0, rows.dtype), np.ones(len(rows), rows.dtype)
    if which is not ScanKind.LOGCUMSUMEXP:
        total[:] = _NOTHING[which]
        if rows.shape[1]:
            total = scan_rows(rows, OPERATIONS[which])[:, -1]
    elif rows.shape[1]:
        terms = _Exponentials(rows, _rows(before))
        total = recurrence_total(terms.b, terms.a, extend=multiply_add, span=terms.span)
        gain = terms.gain(0, (rows.shape[1] - 1) // BLOCK)
    return _of_rows(total, x, scan_axis), _of_rows(gain, x, scan_axis)


class _Decays:
    """The gradient of logcumsumexp as a recurrence, from the end; `level` is y where it begins."""

    def __init__(self, dy: Array, x: Array, y: Array, level: Array | None) -> None:
        self.b, self.y = dy[:, ::-1], y[:, ::-1]
        self.y_before = shifted(self.y, 0)
        if level is not None:
            self.y_before[:, 0] = level
        self.a = self._decay(self.y, self.y_before)
        self.weight = np.where(x == -np.inf, 0.0, exp(difference(x, y)))
        self.masked = x == -np.inf

    def _decay(self, later: Array, earlier: Array) -> Array:
        return np.where(later == -np.inf, 0.0, exp(difference(later, earlier)))

    def gain(self, first: int, last: int) -> Array:
        out = self.y[:, min((last + 1) * BLOCK, self.y.shape[1]) - 1]
        return self._decay(out, self.y_before[:, first * BLOCK])

    def span(self, first: int, last: int, base: Array, carry: Array) -> Array:
        return multiply_add(base, self.gain(first, last), carry)


class _Passages:
    """The gradient of an extreme, from the end. What has met a record is missing behind it."""

    def __init__(
        self, dy: Array, x: Array, extreme: Array | None, kind: ScanKind, ties: Ties
    ) -> None:
        top = shifted(scan_rows(x, OPERATIONS[kind], extreme), 0)
        if extreme is not None:
            top[:, 0] = extreme
        self.record = beats(x, top, kind, ties)
        if extreme is None:
            self.record[:, :1] = True
        self.b, self.a = dy[:, ::-1], shifted(~self.record[:, ::-1], True)

    def span(self, first: int, last: int, base: Array, carry: Array) -> Array:
        through = self.a[:, first * BLOCK : (last + 1) * BLOCK].all(axis=1)
        return np.where(through, base + carry, base)


def _pass(b: Array, a: Array, t: Array) -> Array:
    return np.where(a, b + t, b)


@operation
@quiet
def scan_part_gradient(
    dy: Array,
    x: Array,
    y: Array,
    before: Array | None = None,
    behind: Array | None = None,
    carry: Array | None = None,
    *,
    kind: str,
    scan_axis: int,
    reverse: bool = False,
    ties: str = "first",
) -> Array:
    """The gradient of a part: `carry` is C3 or T2 of the recurrence from the end.

    >>> ones = np.ones(2, np.float32)
    >>> scan_part_gradient(
    ...     ones, ones, ones, carry=np.float32(5), kind="cumsum", scan_axis=0
    ... ).tolist()
    [7.0, 6.0]
    """
    which, start, edge = ScanKind.parse(kind), _rows(carry), _rows(before)
    g, v, w = (to_rows(t, scan_axis, reverse) for t in (dy, x, y))
    if g.shape[1] == 0:
        dx = g
    elif which is ScanKind.CUMSUM:
        dx = scan_rows(g[:, ::-1], OPERATIONS[which], start)[:, ::-1]
    elif which is ScanKind.CUMPROD:
        t = linear_recurrence(g[:, ::-1], _factors(v, edge), start)[:, ::-1]
        y_before, first = shifted(w, 1), _rows(behind)
        if first is not None:
            y_before[:, 0] = first
        dx = np.where(y_before == 0, 0.0, multiply(y_before, t))
    elif which is ScanKind.LOGCUMSUMEXP:
        decays = _Decays(g, v, w, edge)
        t = recurrence(decays.b, decays.a, extend=multiply_add, span=decays.span, initial=start)
        dx = np.where(decays.masked, 0.0, t[:, ::-1] * decays.weight)
    else:
        passages = _Passages(g, v, edge, which, Ties.parse(ties))
        t = recurrence(passages.b, passages.a, extend=_pass, span=passages.span, initial=start)
        dx = np.where(passages.record, t[:, ::-1], 0.0)
    return from_rows(dx, dy, scan_axis, reverse)


def _factors(x: Array, edge: Array | None) -> Array:
    """The factors of cumprod's gradient from the end: x one position before."""
    a = shifted(x[:, ::-1], 0)
    if edge is not None:
        a[:, 0] = edge
    return a


@operation
@quiet
def scan_part_gradient_total(
    dy: Array,
    x: Array,
    y: Array,
    before: Array | None = None,
    *,
    kind: str,
    scan_axis: int,
    reverse: bool = False,
    ties: str = "first",
) -> tuple[Array, Array, Array]:
    """What the gradient of a part hands on where nothing comes in, and the factor of what does.

    >>> ones = np.ones(2, np.float32)
    >>> results = scan_part_gradient_total(ones, ones, ones, kind="cumsum", scan_axis=0)
    >>> [float(v) for v in results]
    [2.0, 1.0, 0.0]
    """
    which, edge = ScanKind.parse(kind), _rows(before)
    g, v, w = (to_rows(t, scan_axis, reverse) for t in (dy, x, y))
    total, gain = np.full(len(g), -0.0, g.dtype), np.ones(len(g), g.dtype)
    exponent = np.zeros_like(gain)
    if g.shape[1] == 0:
        pass
    elif which is ScanKind.CUMSUM:
        total = scan_rows(g[:, ::-1], OPERATIONS[which])[:, -1]
    elif which is ScanKind.CUMPROD:
        total, product = linear_total(g[:, ::-1], _factors(v, edge))
        gain = product.mantissa
        ordinary = np.isfinite(gain) & (gain != 0)
        exponent = np.where(ordinary, product.exponent, 0).astype(g.dtype)
    elif which is ScanKind.LOGCUMSUMEXP:
        decays = _Decays(g, v, w, edge)
        total = recurrence_total(decays.b, decays.a, extend=multiply_add, span=decays.span)
        gain = decays.gain(0, (g.shape[1] - 1) // BLOCK)
    else:
        passages = _Passages(g, v, edge, which, Ties.parse(ties))
        total = recurrence_total(passages.b, passages.a, extend=_pass, span=passages.span)
        total = np.where(passages.record[:, 0], -0.0, total)
        gain = np.where(passages.record.any(axis=1), 0.0, 1.0)
    return (
        _of_rows(total, dy, scan_axis),
        _of_rows(gain, dy, scan_axis),
        _of_rows(exponent, dy, scan_axis),
    )


@operation
@quiet
def scan_part_fold(
    total: Array,
    gain: Array,
    exponent: Array,
    *,
    kind: str,
    scan_axis: int,
    reverse: bool = False,
    backward: bool = False,
) -> Array:
    """What comes out of each part, one after the other along the axis.

    >>> total, one = np.float32([6, 1, 2]), np.ones(3, np.float32)
    >>> scan_part_fold(total, one, one, kind="cumsum", scan_axis=0).tolist()
    [6.0, 7.0, 9.0]
    """
    which = ScanKind.parse(kind)
    totals, gains, exponents = (to_rows(t, scan_axis, reverse) for t in (total, gain, exponent))
    most = float(1 << 24)
    powers = np.trunc(np.clip(np.where(np.isnan(exponents), 0, exponents), -most, most))
    for k in range(1, totals.shape[1]):
        own, factor, carry = totals[:, k], gains[:, k], totals[:, k - 1]
        if which is ScanKind.LOGCUMSUMEXP:
            totals[:, k] = multiply_add(own, factor, carry)
        elif which is ScanKind.CUMSUM or not backward:
            totals[:, k] = OPERATIONS[which](carry, own)
        elif which is ScanKind.CUMPROD:
            scaled = Scaled(factor, powers[:, k].astype(np.int64))
            totals[:, k] = linear_join(own, scaled, carry)
        else:
            totals[:, k] = own + np.where(factor != 0, carry, -0.0)
    return from_rows(totals, total, scan_axis, reverse)
