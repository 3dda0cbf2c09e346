"""Weighted sums and means of segments, and their gradients."""

from __future__ import annotations

import numpy as np

from gradplan.vocabulary import WeightedKind

from .arithmetic import Array, load, quiet, store
from .indices import check_sorted, selected
from .members import Members
from .operations import operation
from .sparsemax import row_sums


def totals(members: Members, weights: Array) -> Array:
    """The sum of each segment's weights, `[segments, 1]`."""
    return members.reduce(members.take(weights)[:, None], np.add, 0.0)


def _unless_nothing(total: Array, values: Array) -> Array:
    """`values / total`; 0 where the total is."""
    result: Array = np.where(total == 0, np.zeros_like(values), values / total)
    return result


@operation
@quiet
def unsorted_segment_weighted(
    input: Array,
    weights: Array,
    segment_ids: Array,
    *,
    kind: str,
    num_segments: int,
    bounds: str = "skip",
) -> Array:
    """Row s of the result is the weighted sum or mean of the rows of `input` whose id is s.

    >>> x, w, ids = np.float32([[1], [2], [5]]), np.float32([1, 3, 1]), np.array([1, 0, 1])
    >>> unsorted_segment_weighted(x, w, ids, kind="sum", num_segments=3).tolist()
    [[6.0], [6.0], [0.0]]
    >>> unsorted_segment_weighted(x, w, ids, kind="mean", num_segments=3).tolist()
    [[2.0], [3.0], [0.0]]
    """
    mask = selected(segment_ids, num_segments, name="segment_ids", bounds=bounds)
    members = Members(segment_ids, mask, num_segments)
    products = members.take(input) * members.take(weights)[:, None]
    result = members.reduce(products, np.add, 0.0)
    if WeightedKind.parse(kind) is WeightedKind.MEAN:
        result = _unless_nothing(totals(members, weights), result)
    return store(result, input.dtype)


@operation
def segment_weighted(
    input: Array,
    weights: Array,
    segment_ids: Array,
    *,
    kind: str,
    num_segments: int,
    bounds: str = "skip",
) -> Array:
    """`unsorted_segment_weighted` of ids in ascending order; others are refused.

    >>> x, w = np.float32([[1], [2]]), np.float32([2, 2])
    >>> segment_weighted(x, w, np.array([0, 1]), kind="sum", num_segments=2).tolist()
    [[2.0], [4.0]]
    """
    check_sorted(segment_ids, name="segment_ids")
    result: Array = unsorted_segment_weighted(
        input, weights, segment_ids, kind=kind, num_segments=num_segments, bounds=bounds
    )
    return result


@operation
@quiet
def segment_weighted_backward(
    d_output: Array,
    input: Array,
    weights: Array,
    output: Array | None = None,
    segment_ids: Array | None = None,
    *,
    kind: str,
    bounds: str = "skip",
) -> tuple[Array, Array]:
    """The gradients of either, of the rows and of the weights; ids of any order.

    >>> x, w, ids = np.float32([[1], [2]]), np.float32([3, 4]), np.array([0, 0])
    >>> dx, dw = segment_weighted_backward(np.float32([[1]]), x, w, None, ids, kind="sum")
    >>> dx.tolist(), dw.tolist()
    ([[3.0], [4.0]], [1.0, 2.0])
    """
    assert segment_ids is not None
    mask = selected(segment_ids, len(d_output), name="segment_ids", bounds=bounds)
    members = Members(segment_ids, mask, len(d_output))
    g, x, w = load(d_output), members.take(input), members.take(weights)
    if WeightedKind.parse(kind) is WeightedKind.MEAN:
        assert output is not None
        g = _unless_nothing(totals(members, weights), g)
        x = x - members.spread(load(output))
    g = members.spread(g)
    dots = row_sums(g * x) if x.shape[1] else np.zeros(len(x), x.dtype)
    dx, dw = members.back(w[:, None] * g), members.back(dots)
    return store(dx, d_output.dtype), store(dw, weights.dtype)
