"""Extremes of segments, and where they come from."""

from __future__ import annotations

import numpy as np

from gradplan.vocabulary import SegmentTies

from .arithmetic import Array, quiet, store
from .indices import check_sorted, selected
from .members import Members
from .operations import operation
from .segment_reduce import chosen, matching, reduced


@operation
@quiet
def unsorted_segment_with_indices(
    input: Array,
    segment_ids: Array,
    *,
    kind: str,
    num_segments: int,
    fill: float | None = None,
    ties: str = "first",
    bounds: str = "skip",
) -> tuple[Array, Array]:
    """Row s is the extreme of the rows whose id is s, and the row of `input` that it comes from.

    >>> x, ids = np.float32([[1], [2], [2]]), np.array([1, 1, 1])
    >>> y, indices = unsorted_segment_with_indices(x, ids, kind="max", num_segments=2)
    >>> y.tolist(), indices.tolist()
    ([[-inf], [2.0]], [[3], [1]])
    """
    mask = selected(segment_ids, num_segments, name="segment_ids", bounds=bounds)
    members = Members(segment_ids, mask, num_segments)
    x = members.take(input)
    y = reduced(members, x, str(kind), fill)
    is_it = chosen(members, matching(x, members.spread(y)), SegmentTies.parse(str(ties)))
    member, column = np.nonzero(is_it)
    indices = np.full(y.shape, len(input), np.int64)
    indices[members.segment[member], column] = members.order[member]
    return store(y, input.dtype), indices


@operation
def segment_with_indices(
    input: Array,
    segment_ids: Array,
    *,
    kind: str,
    num_segments: int,
    fill: float | None = None,
    ties: str = "first",
    bounds: str = "skip",
) -> tuple[Array, Array]:
    """`unsorted_segment_with_indices` of ids in ascending order; others are refused.

    >>> x = np.float32([[3], [5], [5]])
    >>> segment_with_indices(x, np.array([0, 1, 1]), kind="min", num_segments=2)[1].tolist()
    [[0], [1]]
    """
    check_sorted(segment_ids, name="segment_ids")
    result: tuple[Array, Array] = unsorted_segment_with_indices(
        input,
        segment_ids,
        kind=kind,
        num_segments=num_segments,
        fill=fill,
        ties=ties,
        bounds=bounds,
    )
    return result
