"""linear_scan and its gradients: the first-order recurrence on tensors."""

from __future__ import annotations

import numpy as np

from .arithmetic import Array, before, from_rows, load, multiply, padded, quiet, store, to_rows
from .operations import operation
from .recurrence import linear_recurrence


def _of_rows(initial: Array | None) -> Array | None:
    """One value for each row, in the order of `to_rows`."""
    return None if initial is None else load(initial).reshape(-1)


@operation
@quiet
def linear_scan(
    a: Array,
    b: Array,
    initial: Array | None = None,
    *,
    scan_axis: int,
    reverse: bool = False,
    exclusive: bool = False,
) -> Array:
    """`h[t] = a[t] h[t-1] + b[t]` along one axis; h is `initial` before the first element.

    >>> a, b = np.float32([9, 2, 0, 2]), np.float32([1, 1, 1, 1])
    >>> linear_scan(a, b, scan_axis=0).tolist()
    [1.0, 3.0, 1.0, 3.0]
    >>> linear_scan(a, b, np.float32(1), scan_axis=0).tolist()
    [10.0, 21.0, 1.0, 3.0]
    >>> linear_scan(a, b, np.float32(1), scan_axis=0, exclusive=True).tolist()
    [1.0, 10.0, 21.0, 1.0]
    """
    factors, terms = (to_rows(x, scan_axis, reverse) for x in (a, b))
    start = _of_rows(initial)
    h = linear_recurrence(terms, factors, start)
    if exclusive:
        h = before(h, 0)
        if start is not None:
            h[:, :1] = start[:, None]
    return from_rows(h, a, scan_axis, reverse)


@operation
@quiet
def linear_scan_backward(
    dh: Array,
    a: Array,
    h: Array,
    initial: Array | None = None,
    *,
    scan_axis: int,
    reverse: bool = False,
    exclusive: bool = False,
) -> tuple[Array, Array, Array]:
    """The gradients of `linear_scan` with respect to a, b and initial.

    >>> a, b = np.float32([9, 2, 0, 2]), np.float32([1, 1, 1, 1])
    >>> h, dh = linear_scan(a, b, scan_axis=0), np.float32([1, 1, 1, 1])
    >>> [x.tolist() for x in linear_scan_backward(dh, a, h, scan_axis=0)]
    [[0.0, 1.0, 9.0, 1.0], [3.0, 1.0, 3.0, 1.0], 27.0]
    """
    g, factors, states = (to_rows(x, scan_axis, reverse) for x in (dh, a, h))
    n = g.shape[1]
    first_g = g[:, :1]
    if exclusive:
        g, factors, states = g[:, 1:], factors[:, :-1], states[:, 1:]
    t = linear_recurrence(g[:, ::-1], before(factors[:, ::-1], 1))[:, ::-1]
    h_before = before(states, 0)
    start = _of_rows(initial)
    if start is not None:
        h_before[:, :1] = start[:, None]
    da = np.where(h_before == 0, 0.0, multiply(h_before, t))
    d_initial = np.zeros(len(t), t.dtype)
    if t.shape[1]:
        first = factors[:, 0]
        d_initial = np.where(first == 0, 0.0, multiply(first, t[:, 0]))
    if exclusive and n:  # it is the first state as well
        d_initial = load(store(d_initial, a.dtype)) + first_g[:, 0]
    rest = np.moveaxis(np.atleast_1d(a), scan_axis, -1).shape[:-1]
    return (
        from_rows(padded(da, n), a, scan_axis, reverse),
        from_rows(padded(t, n), a, scan_axis, reverse),
        store(d_initial.reshape(rest), a.dtype),
    )
