"""gather, scatter_add, index_select, index_add and their gradients: by lines along the axis."""

from __future__ import annotations

import numpy as np

from gradplan.vocabulary import Bounds, IndexOutOfRange

from .arithmetic import Array, quiet, store
from .operations import operation
from .segment import sums


def checked(indices: Array, size: int, bounds: str) -> Array:
    """A mask of the indices inside [0, size); bounds="raise" refuses the first one outside."""
    inside = (indices >= 0) & (indices < size)
    if Bounds.parse(bounds) is Bounds.RAISE and not inside.all():
        at = tuple(int(i) for i in np.argwhere(~inside)[0])
        where = ", ".join(map(str, at))
        raise IndexOutOfRange(
            f"indices[{where}] = {int(indices[at])}: expected an index in [0, {size})"
        )
    return inside


def lines_of(x: Array, axis: int) -> Array:
    """The lines along an axis as a `[lines, n]` array of the same elements."""
    moved = np.moveaxis(np.atleast_1d(x), axis, -1)
    count = int(np.prod(moved.shape[:-1], dtype=np.int64))
    return np.ascontiguousarray(moved).reshape(count, moved.shape[-1])


def back(lines: Array, shape: tuple[int, ...], axis: int) -> Array:
    """The inverse of `lines_of`: an array of that shape."""
    moved = [n for d, n in enumerate(shape) if d != axis]
    whole = lines.reshape(*moved, lines.shape[1])
    return np.moveaxis(whole, -1, axis).reshape(shape)


def _everywhere(indices: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Indices along the axis that all lines share, for each of them."""
    along = [1] * len(shape)
    along[axis] = -1
    return np.broadcast_to(indices.reshape(along), shape)


def pick(x: Array, indices: Array, axis: int, bounds: str) -> Array:
    size = np.atleast_1d(x).shape[axis]
    inside = lines_of(checked(indices, size, bounds), axis)
    table, ids = lines_of(x, axis), lines_of(indices, axis)
    out = np.zeros(ids.shape, x.dtype)
    line, at = np.nonzero(inside)
    out[line, at] = table[line, ids[line, at]]
    return back(out, indices.shape or (), axis) if indices.ndim else out.reshape(())


def add(x: Array, indices: Array, size: int, axis: int, bounds: str) -> Array:
    inside = lines_of(checked(indices, size, bounds), axis)
    values, ids = lines_of(x, axis), lines_of(indices, axis)
    count = len(values)
    # Every line is a range of segments of its own.
    first = np.arange(count)[:, None] * size
    total, _ = sums(values.reshape(-1), (ids + first).reshape(-1), inside.reshape(-1), count * size)
    shape = list(x.shape) or [1]
    shape[axis] = size
    return back(store(total, x.dtype).reshape(count, size), tuple(shape), axis)


@operation
def gather(x: Array, indices: Array, *, axis: int, bounds: str = "skip") -> Array:
    """Elements by index along an axis; +0 where an index is outside.

    >>> gather(np.float32([[1, 2, 3]]), np.array([[2, 0, 7]]), axis=1).tolist()
    [[3.0, 1.0, 0.0]]
    """
    return pick(x, indices, axis, bounds)


@operation
def scatter_add_backward(
    d_output: Array, indices: Array, *, axis: int, bounds: str = "skip"
) -> Array:
    """What each element was added to: `gather`."""
    return pick(d_output, indices, axis, bounds)


@operation
@quiet
def scatter_add(x: Array, indices: Array, *, size: int, axis: int, bounds: str = "skip") -> Array:
    """Sums of the elements with the same index along an axis.

    >>> scatter_add(np.float32([1, 2, 4]), np.array([1, 0, 1]), size=3, axis=0).tolist()
    [2.0, 5.0, 0.0]
    """
    return add(x, indices, size, axis, bounds)


@operation
@quiet
def gather_backward(
    d_output: Array, indices: Array, *, size: int, axis: int, bounds: str = "skip"
) -> Array:
    """What was picked from each element: `scatter_add`."""
    return add(d_output, indices, size, axis, bounds)


def _select(x: Array, indices: Array, axis: int, bounds: str) -> Array:
    checked(indices, x.shape[axis], bounds)
    shape = (*x.shape[:axis], len(indices), *x.shape[axis + 1 :])
    return pick(x, _everywhere(indices, shape, axis), axis, "skip")


@operation
def index_select(x: Array, indices: Array, *, axis: int, bounds: str = "skip") -> Array:
    """Slices by index along an axis; +0 where an index is outside.

    >>> index_select(np.float32([[1, 2, 3]]), np.array([2, 0, 7]), axis=1).tolist()
    [[3.0, 1.0, 0.0]]
    """
    return _select(x, indices, axis, bounds)


@operation
def index_add_backward(
    d_output: Array, indices: Array, *, axis: int, bounds: str = "skip"
) -> Array:
    """What each slice was added to: `index_select`."""
    return _select(d_output, indices, axis, bounds)


def _add_slices(x: Array, indices: Array, size: int, axis: int, bounds: str) -> Array:
    checked(indices, size, bounds)
    lines = np.atleast_1d(x)
    return add(lines, _everywhere(indices, lines.shape, axis), size, axis, "skip")


@operation
@quiet
def index_add(x: Array, indices: Array, *, size: int, axis: int, bounds: str = "skip") -> Array:
    """Sums of the slices with the same index along an axis.

    >>> index_add(np.float32([[1, 2, 4]]), np.array([1, 0, 1]), size=3, axis=1).tolist()
    [[2.0, 5.0, 0.0]]
    """
    return _add_slices(x, indices, size, axis, bounds)


@operation
@quiet
def index_select_backward(
    d_output: Array, indices: Array, *, size: int, axis: int, bounds: str = "skip"
) -> Array:
    """What was picked from each slice: `index_add`."""
    return _add_slices(d_output, indices, size, axis, bounds)
