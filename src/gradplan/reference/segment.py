"""Segment sums, and the gather that is their gradient."""

from __future__ import annotations

import numpy as np

from .arithmetic import Array, quiet, store
from .indices import check_sorted, selected
from .members import BLOCK as BLOCK
from .members import Members
from .operations import operation


def sums(values: Array, ids: Array, mask: Array, count: int) -> tuple[Array, Array]:
    """Sum the masked rows of `values` by id, in the compute type.

    Returns the sums, `[count, ...]` and +0 where empty, and the number of members of each.
    """
    members = Members(ids, mask, count)
    return members.reduce(members.take(values), np.add, 0.0), members.count


def gather(rows: Array, indices: Array, mask: Array) -> Array:
    """Copy `rows[indices]` bit for bit; +0 where the mask is off."""
    out = np.zeros((len(indices), *rows.shape[1:]), rows.dtype)
    out[mask] = rows[indices[mask]]
    return out


@operation
@quiet
def unsorted_segment_sum(
    input: Array, segment_ids: Array, *, num_segments: int, bounds: str = "skip"
) -> Array:
    """Row s of the result is the sum of the rows of `input` whose id is s.

    >>> unsorted_segment_sum(np.float32([[1], [2], [4]]), np.array([1, 0, 1]),
    ...                      num_segments=3).tolist()
    [[2.0], [5.0], [0.0]]
    """
    mask = selected(segment_ids, num_segments, name="segment_ids", bounds=bounds)
    return store(sums(input, segment_ids, mask, num_segments)[0], input.dtype)


@operation
def segment_sum(
    input: Array, segment_ids: Array, *, num_segments: int, bounds: str = "skip"
) -> Array:
    """`unsorted_segment_sum` of ids in ascending order; others are refused.

    >>> segment_sum(np.float32([[1], [2]]), np.array([1, 0]), num_segments=2)
    Traceback (most recent call last):
    gradplan.InvalidProblem: segment_ids[1] = 0 after segment_ids[0] = 1: expected ascending ids
    """
    check_sorted(segment_ids, name="segment_ids")
    return unsorted_segment_sum(input, segment_ids, num_segments=num_segments, bounds=bounds)


@operation
def segment_sum_backward(d_output: Array, segment_ids: Array, *, bounds: str = "skip") -> Array:
    """Row i of the result is row `segment_ids[i]` of `d_output`; ids of any order.

    >>> segment_sum_backward(np.float32([[1], [2]]), np.array([1, 0, 7])).tolist()
    [[2.0], [1.0], [0.0]]
    """
    mask = selected(segment_ids, len(d_output), name="segment_ids", bounds=bounds)
    return gather(d_output, segment_ids, mask)
