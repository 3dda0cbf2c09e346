"""Binary operations with a scalar parameter: linear interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradplan.vocabulary import BinaryKind

from .arithmetic import Array, compute_type, load, quiet, store
from .operations import operation


def _weights(param: float, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """w and 1 - w, each rounded to the compute type."""
    compute = compute_type(dtype).type
    w = compute(param)
    return w, compute(1) - w


def _overflows(span: Array, start: Array, end: Array) -> Array:
    """Where the difference of finite numbers is infinite."""
    return np.isinf(span) & np.isfinite(start) & np.isfinite(end)


@operation
@quiet
def binary_param(a: Array, b: Array, *, kind: str = "lerp", param: float) -> Array:
    """Linear interpolation from a (param = 0) to b (param = 1), exact at both ends.

    Where the difference of finite a and b overflows, the two are weighted on their own.

    >>> binary_param(np.float32([0, 2]), np.float32([4, 4]), param=0.25).tolist()
    [1.0, 2.5]
    """
    BinaryKind.parse(kind)
    w, rest = _weights(param, a.dtype)
    start, end = load(a), load(b)
    span = end - start
    value = start + w * span if abs(w) < 0.5 else end - span * rest
    return store(np.where(_overflows(span, start, end), start * rest + end * w, value), a.dtype)


@operation
@quiet
def binary_param_backward(dy: Array, *, kind: str = "lerp", param: float) -> tuple[Array, Array]:
    """The gradients with respect to a and b.

    >>> da, db = binary_param_backward(np.float32([4]), param=0.25)
    >>> da.tolist(), db.tolist()
    ([3.0], [1.0])
    """
    BinaryKind.parse(kind)
    w, rest = _weights(param, dy.dtype)
    g = load(dy)
    return store(rest * g, dy.dtype), store(w * g, dy.dtype)
