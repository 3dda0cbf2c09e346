"""sparsemax in exact integers, and its gradient."""

from __future__ import annotations

import numpy as np

from .arithmetic import Array, from_rows, quiet, to_rows
from .operations import operation
from .order import LANES as LANES

_WORD = 32  # bits of the low half of an integer sum


@operation
@quiet
def sparsemax(x: Array, *, softmax_axis: int) -> Array:
    """The Euclidean projection of each line of `x` onto the probability simplex.

    >>> sparsemax(np.float32([1, 1, 0.5, -2]), softmax_axis=0).tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    return from_rows(_sparsemax_rows(to_rows(x, softmax_axis)), x, softmax_axis)


@operation
@quiet
def sparsemax_backward(dy: Array, y: Array, *, softmax_axis: int) -> Array:
    """The gradient with respect to x: dy minus its mean over the support, 0 elsewhere.

    >>> sparsemax_backward(np.float32([3, 1, 7]), np.float32([0.5, 0.5, 0]),
    ...                    softmax_axis=0).tolist()
    [1.0, -1.0, 0.0]
    """
    dx = _sparsemax_backward_rows(to_rows(dy, softmax_axis), to_rows(y, softmax_axis))
    return from_rows(dx, dy, softmax_axis)


def _sparsemax_rows(x: Array) -> Array:
    bits = 60 if x.dtype == np.float64 else 30
    top = x.max(axis=1, keepdims=True, initial=-np.inf)
    v = x - top
    support = v > -1
    q = np.trunc(np.where(support, v, 0.0) * 2.0**bits).astype(np.int64)
    while True:
        # Rows of NaN have no support; any k will do for them.
        k = np.maximum(support.sum(axis=1), 1).astype(object)
        excess = _exact_sums(np.where(support, q, 0)) - 2**bits
        threshold = excess // k
        shrunk = support & (q > threshold.astype(np.int64)[:, None])
        if (shrunk == support).all():
            break
        support = shrunk
    rest = (excess - threshold * k).astype(np.float64) / k.astype(np.float64)
    tau = ((threshold.astype(np.float64) + rest) * 2.0**-bits).astype(x.dtype)[:, None]
    y = np.where(v > tau, v - tau, 0.0)
    return np.where(np.isfinite(top), y, np.nan)


def _exact_sums(q: Array) -> Array:
    """Row sums as Python integers: a row of 60-bit numbers overflows 64 bits at the eighth."""
    high, low = q >> _WORD, q & (2**_WORD - 1)
    total: Array = high.sum(axis=1).astype(object) * 2**_WORD + low.sum(axis=1).astype(object)
    return total


def _sparsemax_backward_rows(dy: Array, y: Array) -> Array:
    support = y > 0
    k = np.maximum(support.sum(axis=1), 1).astype(dy.dtype)
    mean = row_sums(np.where(support, dy, -0.0)) / k
    return np.where(support, dy - mean[:, None], 0.0)


def row_sums(rows: Array) -> Array:
    """16 serial lanes, then a halving tree; -0.0 is the number that adds nothing."""
    count, n = rows.shape
    padded = np.full((count, -(-n // LANES) * LANES), -0.0, rows.dtype)
    padded[:, :n] = rows
    lanes = np.full((count, LANES), -0.0, rows.dtype)
    for start in range(0, n, LANES):
        lanes = lanes + padded[:, start : start + LANES]
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]
