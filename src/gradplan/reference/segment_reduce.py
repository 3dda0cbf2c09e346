"""Reductions of segments other than the sum, and their gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradplan.vocabulary import SegmentKind, SegmentTies

from .arithmetic import Array, compute_type, load, multiply, quiet, store
from .elementary import exp, log
from .indices import check_sorted, selected
from .logcumsumexp import difference
from .members import Members
from .operations import operation
from .prefix import maximum, minimum

EXTREMES: dict[str, Callable[[Array, Array], Array]] = {
    SegmentKind.MAX: maximum,
    SegmentKind.MIN: minimum,
}
_NATURAL = {SegmentKind.MAX: -np.inf, SegmentKind.MIN: np.inf, SegmentKind.LOGSUMEXP: -np.inf}


def shares(members: Members, x: Array) -> tuple[Array, Array, Array]:
    """With M the maximum of each segment and d = x - M: M, d, and the sum S of exp(d)."""
    top = members.reduce(x, maximum, -np.inf)
    d = difference(x, members.spread(top))
    return top, d, members.reduce(exp(d), np.add, 0.0)


def reduced(members: Members, x: Array, kind: str, fill: float | None) -> Array:
    """The reduction `kind` of the members' values x, `[segments, ...]`."""
    kind = SegmentKind.parse(kind)
    result: Array
    empty = _NATURAL.get(kind, 0.0) if fill is None else fill
    with np.errstate(all="ignore"):
        empty = x.dtype.type(empty)
    if kind is SegmentKind.PROD:
        return members.reduce(x, multiply, 1.0)
    if kind in EXTREMES:
        return members.reduce(x, EXTREMES[kind], empty)
    if kind is SegmentKind.MEAN:
        total = members.reduce(x, np.add, 0.0)
        result = np.where(members.counts_like(total) == 0, 0, total / members.counts_like(total))
        return result
    top, _, total = shares(members, x)
    result = np.where(members.counts_like(top) == 0, empty, top + log(total))
    return result


def matching(x: Array, extreme: Array) -> Array:
    """Where a member is the extreme of its segment, NaN included."""
    same: Array = (x == extreme) | (np.isnan(x) & np.isnan(extreme))
    return same


def chosen(members: Members, matches: Array, ties: SegmentTies) -> Array:
    """Of the matches of a segment the first or the last."""
    place = members.rank.reshape(-1, *[1] * (matches.ndim - 1)) + np.zeros(matches.shape, np.int64)
    if ties is SegmentTies.LAST:
        best = members.reduce(np.where(matches, place, -1), np.maximum, -1)
    else:
        best = members.reduce(np.where(matches, place, members.rows), np.minimum, members.rows)
    found: Array = matches & (place == members.spread(best))
    return found


def pulled(
    members: Members, dy: Array, x: Array | None, y: Array | None, kind: str, ties: str
) -> Array:
    """The gradient of the members' values for the gradient dy of each segment's."""
    kind = SegmentKind.parse(kind)
    g = members.spread(dy)
    if kind is SegmentKind.MEAN:
        return g / members.spread(members.counts_like(dy))
    assert x is not None
    if kind is SegmentKind.PROD:
        return multiply(g, members.products_of_others(x))
    assert y is not None
    own = members.spread(y)
    if kind is SegmentKind.LOGSUMEXP:
        return np.where(x == -np.inf, 0.0, g * exp(difference(x, own)))
    matches = matching(x, own)
    if SegmentTies.parse(ties) is SegmentTies.SHARE:
        number = members.reduce(matches.astype(x.dtype), np.add, 0.0)
        return np.where(matches, g / members.spread(number), 0.0)
    return np.where(chosen(members, matches, SegmentTies.parse(ties)), g, 0.0)


@operation
@quiet
def unsorted_segment_reduce(
    input: Array,
    segment_ids: Array,
    *,
    kind: str,
    num_segments: int,
    fill: float | None = None,
    bounds: str = "skip",
) -> Array:
    """Row s of the result is the reduction of the rows of `input` whose id is s.

    >>> x, ids = np.float32([[1], [2], [4]]), np.array([1, 0, 1])
    >>> unsorted_segment_reduce(x, ids, kind="mean", num_segments=3).tolist()
    [[2.0], [2.5], [0.0]]
    >>> unsorted_segment_reduce(x, ids, kind="max", num_segments=3, fill=-1.0).tolist()
    [[2.0], [4.0], [-1.0]]
    """
    mask = selected(segment_ids, num_segments, name="segment_ids", bounds=bounds)
    members = Members(segment_ids, mask, num_segments)
    return store(reduced(members, members.take(input), kind, fill), input.dtype)


@operation
def segment_reduce(
    input: Array,
    segment_ids: Array,
    *,
    kind: str,
    num_segments: int,
    fill: float | None = None,
    bounds: str = "skip",
) -> Array:
    """`unsorted_segment_reduce` of ids in ascending order; others are refused.

    >>> x = np.float32([[0], [3], [5]])
    >>> segment_reduce(x, np.array([0, 1, 1]), kind="prod", num_segments=3).tolist()
    [[0.0], [15.0], [1.0]]
    """
    check_sorted(segment_ids, name="segment_ids")
    result: Array = unsorted_segment_reduce(
        input, segment_ids, kind=kind, num_segments=num_segments, fill=fill, bounds=bounds
    )
    return result


@operation
@quiet
def segment_reduce_backward(
    d_output: Array,
    input: Array | None = None,
    output: Array | None = None,
    segment_ids: Array | None = None,
    *,
    kind: str,
    ties: str = "first",
    bounds: str = "skip",
) -> Array:
    """The gradient of either segment reduction; ids of any order.

    >>> x, ids = np.float32([[3], [0], [5]]), np.array([0, 0, 0])
    >>> y = unsorted_segment_reduce(x, ids, kind="prod", num_segments=1)
    >>> segment_reduce_backward(np.float32([[2]]), x, y, ids, kind="prod").tolist()
    [[0.0], [30.0], [0.0]]
    """
    assert segment_ids is not None
    mask = selected(segment_ids, len(d_output), name="segment_ids", bounds=bounds)
    members = Members(segment_ids, mask, len(d_output))
    x = None if input is None else members.take(input)
    y = None if output is None else load(output)
    dx = pulled(members, load(d_output), x, y, kind, ties)
    return store(members.back(dx.astype(compute_type(d_output.dtype))), d_output.dtype)
