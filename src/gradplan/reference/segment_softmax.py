"""Softmax and its logarithm over the members of each segment, and their gradients."""

from __future__ import annotations

import numpy as np

from gradplan.vocabulary import SoftmaxKind

from .arithmetic import Array, quiet, store
from .elementary import exp, log
from .indices import check_sorted, selected
from .logcumsumexp import difference
from .members import Members
from .operations import operation
from .prefix import maximum


@operation
@quiet
def unsorted_segment_softmax(
    input: Array, segment_ids: Array, *, kind: str, num_segments: int, bounds: str = "skip"
) -> Array:
    """Row n of the result is the share that row n of `input` has in its segment.

    >>> x, ids = np.float32([[0], [7], [0], [-np.inf]]), np.array([1, 0, 1, 1])
    >>> unsorted_segment_softmax(x, ids, kind="softmax", num_segments=2).tolist()
    [[0.5], [1.0], [0.5], [0.0]]
    """
    mask = selected(segment_ids, num_segments, name="segment_ids", bounds=bounds)
    members = Members(segment_ids, mask, num_segments)
    x = members.take(input)
    top = members.spread(members.reduce(x, maximum, -np.inf))
    d = difference(x, top)
    e = np.where(x == -np.inf, np.zeros_like(x), exp(d))  # where all are -inf, there is no share
    total = members.spread(members.reduce(e, np.add, 0.0))
    if SoftmaxKind.parse(kind) is SoftmaxKind.SOFTMAX:
        y = np.where(total == 0, 0.0, e / total)
    else:
        y = np.where(total == 0, -np.inf, d - log(total))
    return store(members.back(y.astype(x.dtype)), input.dtype)


@operation
def segment_softmax(
    input: Array, segment_ids: Array, *, kind: str, num_segments: int, bounds: str = "skip"
) -> Array:
    """`unsorted_segment_softmax` of ids in ascending order; others are refused.

    >>> x = np.float64([[-np.inf], [-np.inf], [2]])
    >>> segment_softmax(x, np.array([0, 0, 1]), kind="log_softmax", num_segments=2).tolist()
    [[-inf], [-inf], [0.0]]
    """
    check_sorted(segment_ids, name="segment_ids")
    result: Array = unsorted_segment_softmax(
        input, segment_ids, kind=kind, num_segments=num_segments, bounds=bounds
    )
    return result


@operation
@quiet
def segment_softmax_backward(
    d_output: Array,
    output: Array,
    segment_ids: Array,
    *,
    kind: str,
    num_segments: int,
    bounds: str = "skip",
) -> Array:
    """The gradient of either softmax of segments; ids of any order.

    >>> y, ids = np.float32([[0.5], [0.5]]), np.array([0, 0])
    >>> segment_softmax_backward(
    ...     np.float32([[1], [0]]), y, ids, kind="softmax", num_segments=1).tolist()
    [[0.25], [-0.25]]
    """
    mask = selected(segment_ids, num_segments, name="segment_ids", bounds=bounds)
    members = Members(segment_ids, mask, num_segments)
    dy, y = members.take(d_output), members.take(output)
    if SoftmaxKind.parse(kind) is SoftmaxKind.SOFTMAX:
        dx = y * (dy - members.spread(members.reduce(y * dy, np.add, 0.0)))
    else:
        dx = dy - exp(y) * members.spread(members.reduce(dy, np.add, 0.0))
    return store(members.back(dx), d_output.dtype)
