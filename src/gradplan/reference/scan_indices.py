"""scan_indices, scan_with_indices: where running extremes come from."""

from __future__ import annotations

import numpy as np

from gradplan.vocabulary import ExtremeKind, ScanKind, Ties

from .arithmetic import Array, from_rows, quiet, to_rows
from .operations import operation
from .scan import scan
from .scan_backward import records


@operation
@quiet
def scan_indices(
    x: Array, *, kind: str, scan_axis: int, reverse: bool = False, ties: str = "first"
) -> Array:
    """The position of the record that holds at each element, counted along the axis.

    >>> import numpy as np
    >>> scan_indices(np.float32([1, 3, 2, 3]), kind="cummax", scan_axis=0).tolist()
    [0, 1, 1, 1]
    >>> x = np.float32([1, 3, 2, 3])
    >>> scan_indices(x, kind="cummax", scan_axis=0, reverse=True, ties="last").tolist()
    [1, 1, 3, 3]
    """
    rows = to_rows(x, scan_axis, reverse)
    record = records(rows, ScanKind(ExtremeKind.parse(kind).value), Ties.parse(ties))
    place = np.arange(rows.shape[1])
    latest = np.maximum.accumulate(np.where(record, place, 0), axis=1)
    position = rows.shape[1] - 1 - latest if reverse else latest
    return from_rows(position, np.empty(x.shape, np.int64), scan_axis, reverse)


@operation
def scan_with_indices(
    x: Array, *, kind: str, scan_axis: int, reverse: bool = False, ties: str = "first"
) -> tuple[Array, Array]:
    """A running extreme and its positions, which are those of two functions.

    >>> import numpy as np
    >>> y, at = scan_with_indices(np.float32([1, 3, 2]), kind="cummin", scan_axis=0, reverse=True)
    >>> y.tolist(), at.tolist()
    ([1.0, 2.0, 2.0], [0, 2, 2])
    """
    extreme = ScanKind(ExtremeKind.parse(kind).value)
    y = scan(x, kind=extreme, scan_axis=scan_axis, reverse=reverse)
    return y, scan_indices(x, kind=kind, scan_axis=scan_axis, reverse=reverse, ties=ties)
