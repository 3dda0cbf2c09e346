"""scatter_reduce and its gradients: reductions of segments, of which every line has its own."""

from __future__ import annotations

import numpy as np

from gradplan.vocabulary import ScatterKind, SegmentKind, SegmentTies

from .arithmetic import Array, load, multiply, quiet, store
from .gather import back, checked, lines_of
from .members import Members
from .operations import operation
from .segment_reduce import EXTREMES, chosen, matching, reduced

_KINDS = {
    ScatterKind.MEAN: SegmentKind.MEAN,
    ScatterKind.PROD: SegmentKind.PROD,
    ScatterKind.AMAX: SegmentKind.MAX,
    ScatterKind.AMIN: SegmentKind.MIN,
}


class _Lines:
    """The members of every place; a place of a line is a segment."""

    def __init__(self, indices: Array, size: int, axis: int, bounds: str) -> None:
        inside = lines_of(checked(indices, size, bounds), axis)
        ids = lines_of(indices, axis)
        first = np.arange(len(ids))[:, None] * size
        self.axis = axis
        self.members = Members((ids + first).reshape(-1), inside.reshape(-1), len(ids) * size)
        self.empty = self.members.count == 0

    def values(self, x: Array) -> Array:
        """The members' values."""
        return self.members.take(lines_of(x, self.axis).reshape(-1))

    def places(self, table: Array) -> Array:
        return load(lines_of(table, self.axis).reshape(-1))

    def table(self, places: Array, like: Array, size: int) -> Array:
        """The inverse of `places`: as long as `like` but along the axis."""
        shape = list(like.shape) or [1]
        shape[self.axis] = size
        count = int(np.prod([n for d, n in enumerate(shape) if d != self.axis], dtype=np.int64))
        stored = store(places, like.dtype).reshape(count, size)
        return back(stored, tuple(shape), self.axis)

    def line(self, values: Array, like: Array) -> Array:
        """The inverse of `values`."""
        found = self.members.back(values)
        moved = lines_of(like, self.axis).shape
        return back(store(found, like.dtype).reshape(moved), like.shape or (1,), self.axis).reshape(
            like.shape
        )


def _total(members: Members, x: Array, kind: ScatterKind) -> Array:
    """The reduction of the members alone."""
    if kind is ScatterKind.SUM:
        return members.reduce(x, np.add, 0.0)
    return reduced(members, x, _KINDS[kind], None)


@operation
@quiet
def scatter_reduce(
    x: Array,
    indices: Array,
    initial: Array | None = None,
    *,
    size: int,
    axis: int,
    reduce: str = "sum",
    include_self: bool = True,
    bounds: str = "skip",
) -> Array:
    """Reductions of the elements with the same index along an axis, and what they start from.

    >>> x, indices, start = np.float32([1, 2, 4]), np.array([1, 0, 1]), np.float32([3, 3, 3])
    >>> scatter_reduce(x, indices, start, size=3, axis=0, reduce="prod").tolist()
    [6.0, 12.0, 3.0]
    >>> scatter_reduce(x, indices, size=3, axis=0, reduce="mean").tolist()
    [2.0, 2.5, 0.0]
    """
    kind = ScatterKind.parse(reduce)
    lines = _Lines(indices, size, axis, bounds)
    members, values = lines.members, lines.values(x)
    result = _total(members, values, kind)
    if initial is not None:
        start = lines.places(initial)
        if include_self:
            if kind is ScatterKind.MEAN:
                total = start + members.reduce(values, np.add, 0.0)
                result = total / (members.count + 1).astype(total.dtype)
            elif kind is ScatterKind.SUM:
                result = start + result
            elif kind is ScatterKind.PROD:
                result = multiply(start, result)
            else:
                result = EXTREMES[_KINDS[kind]](start, result)
        result = np.where(lines.empty, start, result)
    return lines.table(result, x, size)


@operation
@quiet
def scatter_reduce_backward(
    d_output: Array,
    x: Array,
    output: Array,
    indices: Array,
    initial: Array | None = None,
    *,
    axis: int,
    reduce: str = "sum",
    include_self: bool = True,
    ties: str = "first",
    bounds: str = "skip",
) -> tuple[Array, Array]:
    """The gradients of the values and of `initial`.

    >>> x, indices, dy = np.float32([3, 0, 5]), np.array([0, 0, 0]), np.float32([2])
    >>> dx, _ = scatter_reduce_backward(dy, x, x[1:2], indices, axis=0, reduce="prod")
    >>> dx.tolist()
    [0.0, 30.0, 0.0]
    """
    kind, tie = ScatterKind.parse(reduce), SegmentTies.parse(ties)
    size = np.atleast_1d(output).shape[axis]
    lines = _Lines(indices, size, axis, bounds)
    members, values, dy = lines.members, lines.values(x), lines.places(d_output)
    start = None if initial is None else lines.places(initial)
    own = start if include_self else None  # what takes part
    g = members.spread(dy)
    to_start = dy
    if kind is ScatterKind.MEAN:
        count = (members.count + (own is not None)).astype(dy.dtype)
        g, to_start = g / members.spread(count), dy / count
    elif kind is ScatterKind.PROD:
        rest = members.products_of_others(values)
        if own is not None:
            rest = multiply(members.spread(own), rest)
        g, to_start = multiply(g, rest), multiply(dy, _total(members, values, kind))
    elif kind is not ScatterKind.SUM:
        y = lines.places(output)
        matches = matching(values, members.spread(y))
        is_extreme = np.zeros(y.shape, bool) if own is None else matching(own, y)
        if tie is SegmentTies.SHARE:
            number = members.reduce(matches.astype(dy.dtype), np.add, 0.0)
            number = number + is_extreme.astype(dy.dtype)
            g = np.where(matches, g / members.spread(number), 0.0)
            to_start = np.where(is_extreme, dy / number, 0.0)
        else:
            if tie is SegmentTies.FIRST:
                matches &= ~members.spread(is_extreme)
            else:
                is_extreme &= members.reduce(matches.astype(np.int8), np.maximum, 0) == 0
            g = np.where(chosen(members, matches, tie), g, 0.0)
            to_start = np.where(is_extreme, dy, 0.0)
    if start is None:
        to_start = np.zeros_like(dy)
    elif not include_self:
        to_start = np.where(lines.empty, dy, 0.0)
    dtype = dy.dtype
    return (
        lines.line(g.astype(dtype), x),
        lines.table(to_start.astype(dtype), x, size),
    )
