"""scan and scan_backward: rows in, the definition of the kind, rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from gradplan.vocabulary import InvalidProblem, ScanKind, Ties

from .arithmetic import Array, before, from_rows, padded, quiet, to_rows
from .logcumsumexp import logcumsumexp_backward_rows, logcumsumexp_rows
from .operations import operation
from .prefix import OPERATIONS, scan_rows
from .scan_backward import cumprod_backward_rows, cumsum_backward_rows, extreme_backward_rows

_FORWARD: Mapping[ScanKind, Callable[[Array], Array]] = {
    **{kind: partial(scan_rows, operation=operation) for kind, operation in OPERATIONS.items()},
    ScanKind.LOGCUMSUMEXP: logcumsumexp_rows,
}


IDENTITY: Mapping[ScanKind, float] = {
    ScanKind.CUMSUM: 0.0,
    ScanKind.CUMPROD: 1.0,
    ScanKind.CUMMAX: -np.inf,
    ScanKind.CUMMIN: np.inf,
    ScanKind.LOGCUMSUMEXP: -np.inf,
}
"""The first result of an exclusive scan."""


@operation
@quiet
def scan(
    x: Array, *, kind: str, scan_axis: int, reverse: bool = False, exclusive: bool = False
) -> Array:
    """Cumulative sum, product, maximum, minimum or log-sum-exp along one axis.

    >>> import numpy as np
    >>> scan(np.float32([1, 2, 3]), kind="cumsum", scan_axis=0).tolist()
    [1.0, 3.0, 6.0]
    >>> scan(np.float32([1, 2, 3]), kind="cumprod", scan_axis=0, reverse=True).tolist()
    [6.0, 6.0, 3.0]
    >>> scan(np.float32([1, 2, 3]), kind="cummax", scan_axis=0, exclusive=True).tolist()
    [-inf, 1.0, 2.0]
    """
    which = ScanKind.parse(kind)
    rows = _FORWARD[which](to_rows(x, scan_axis, reverse))
    if exclusive:
        rows = before(rows, IDENTITY[which])
    return from_rows(rows, x, scan_axis, reverse)


@operation
@quiet
def scan_backward(
    dy: Array,
    x: Array | None = None,
    y: Array | None = None,
    *,
    kind: str,
    scan_axis: int,
    reverse: bool = False,
    ties: str = "first",
    exclusive: bool = False,
) -> Array:
    """The gradient of `scan` with respect to x; `ties` matters to cummax and cummin only.

    cumprod and logcumsumexp need x and y, cummax and cummin need x, cumsum needs neither.

    >>> import numpy as np
    >>> dy, x = np.float32([1, 2, 4]), np.float32([3, 3, 1])
    >>> scan_backward(dy, kind="cumsum", scan_axis=0).tolist()
    [7.0, 6.0, 4.0]
    >>> scan_backward(dy, x, kind="cummax", scan_axis=0).tolist()
    [7.0, 0.0, 0.0]
    >>> scan_backward(dy, x, kind="cummax", scan_axis=0, ties="last").tolist()
    [1.0, 6.0, 0.0]
    >>> scan_backward(dy, kind="cumsum", scan_axis=0, exclusive=True).tolist()
    [6.0, 4.0, 0.0]
    """

    def rows(name: str, tensor: Array | None) -> Array:
        if tensor is None:
            raise InvalidProblem(f"scan_backward: kind = {kind!r} needs {name}")
        whole = to_rows(tensor, scan_axis, reverse)
        if not exclusive:
            return whole
        # The last element goes into nothing, and the first result comes from nothing.
        return whole[:, :-1] if name == "x" else whole[:, 1:]

    which, tie = ScanKind.parse(kind), Ties.parse(ties)
    g = rows("dy", dy)
    if which is ScanKind.CUMSUM:
        dx = cumsum_backward_rows(g)
    elif which is ScanKind.CUMPROD:
        dx = cumprod_backward_rows(g, rows("x", x), rows("y", y))
    elif which is ScanKind.LOGCUMSUMEXP:
        dx = logcumsumexp_backward_rows(g, rows("x", x), rows("y", y))
    else:
        dx = extreme_backward_rows(g, rows("x", x), kind=which, ties=tie)
    if exclusive:
        dx = padded(dx, to_rows(dy, scan_axis).shape[1])
    return from_rows(dx, dy, scan_axis, reverse)
