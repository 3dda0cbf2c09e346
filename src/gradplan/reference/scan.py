"""scan and scan_backward: rows in, the definition of the kind, rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gradplan.vocabulary import InvalidProblem, ScanKind, Ties

from .arithmetic import Array, from_rows, quiet, to_rows
from .logcumsumexp import logcumsumexp_backward_rows, logcumsumexp_rows
from .operations import operation
from .prefix import OPERATIONS, scan_rows
from .scan_backward import cumprod_backward_rows, cumsum_backward_rows, extreme_backward_rows

_FORWARD: Mapping[ScanKind, Callable[[Array], Array]] = {
    **{kind: partial(scan_rows, operation=operation) for kind, operation in OPERATIONS.items()},
    ScanKind.LOGCUMSUMEXP: logcumsumexp_rows,
}


@operation
@quiet
def scan(x: Array, *, kind: str, scan_axis: int, reverse: bool = False) -> Array:
    """Cumulative sum, product, maximum, minimum or log-sum-exp along one axis.

    >>> import numpy as np
    >>> scan(np.float32([1, 2, 3]), kind="cumsum", scan_axis=0).tolist()
    [1.0, 3.0, 6.0]
    >>> scan(np.float32([1, 2, 3]), kind="cumprod", scan_axis=0, reverse=True).tolist()
    [6.0, 6.0, 3.0]
    """
    rows = _FORWARD[ScanKind.parse(kind)](to_rows(x, scan_axis, reverse))
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
    """

    def rows(name: str, tensor: Array | None) -> Array:
        if tensor is None:
            raise InvalidProblem(f"scan_backward: kind = {kind!r} needs {name}")
        return to_rows(tensor, scan_axis, reverse)

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
    return from_rows(dx, dy, scan_axis, reverse)
