"""The order of a scan: groups of 16, blocks of 16 groups, chunks of 16 blocks, then the row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradplan.vocabulary import ScanKind

from .arithmetic import Array, multiply
from .order import FAN as FAN


def maximum(a: Array, b: Array) -> Array:
    """The running maximum: NaN sticks, and of equal values the earlier one (`a`) stays."""
    return np.where(np.isnan(a) | (b <= a), a, b)


def minimum(a: Array, b: Array) -> Array:
    """The running minimum: NaN sticks, and of equal values the earlier one (`a`) stays."""
    return np.where(np.isnan(a) | (b >= a), a, b)


OPERATIONS: dict[ScanKind, Callable[[Array, Array], Array]] = {
    ScanKind.CUMSUM: np.add,
    ScanKind.CUMPROD: multiply,
    ScanKind.CUMMAX: maximum,
    ScanKind.CUMMIN: minimum,
}


def scan_rows(
    x: Array, operation: Callable[[Array, Array], Array], carry: Array | None = None
) -> Array:
    """Scan each row of a `[rows, n]` array in the contract's order; `carry` is C3 of each row.

    Every level does the same thing: member k of a level takes, from the left, the last value of
    member k-1 of that level. So the carry of a level never has to be kept apart.
    """
    rows, n = x.shape
    chunks = -(-n // FAN**3)
    blocks = min(FAN, -(-n // FAN**2))
    groups = min(FAN, -(-n // FAN))
    padded = np.zeros((rows, chunks * blocks * groups * FAN), x.dtype)
    padded[:, :n] = x  # what is behind the end is computed too and never looked at
    levels = padded.reshape(rows, chunks, blocks, groups, FAN)
    for axis in (4, 3, 2, 1):
        members = np.moveaxis(levels, axis, 0)
        last = (..., *(slice(-1, None) for _ in range(axis, 4)))
        if axis == 1 and carry is not None and chunks:
            members[0] = operation(carry[:, None, None, None], members[0])
        for k in range(1, len(members)):
            members[k] = operation(members[k - 1][last], members[k])
    return padded[:, :n]
