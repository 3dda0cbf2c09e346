"""The same values in different places: strides, gaps and alignments for arrays of any shape.

Memory around an array is filled with 0xff bytes (a NaN in every element type), so that what a
kernel writes beside its output can be found afterwards.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
POISON = 0xFF
LINE = 64


def words(x: Array) -> Array:
    """The same memory as unsigned integers: moving them around keeps every bit."""
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


@dataclasses.dataclass(frozen=True)
class Placed:
    """An array and all the memory around it."""

    array: Array
    memory: Array

    def put(self, values: Array) -> Placed:
        words(self.array)[...] = words(np.asarray(values))
        return self

    def only_itself_written(self) -> bool:
        """Whether everything but the array's own elements is still poison. Destroys those."""
        words(self.array)[...] = ~words(self.array).dtype.type(0)
        return bool((self.memory == POISON).all())


Layout: TypeAlias = Callable[[tuple[int, ...], Any], Placed]


def _placed(
    shape: tuple[int, ...],
    dtype: Any,
    *,
    offset: int = 0,
    step: int = 1,
    backwards: bool = False,
    order: Callable[[int], list[int]] = lambda rank: list(range(rank)),
) -> Placed:
    """Poison, with room for `shape`: `offset` elements behind a cache line, axes in `order`."""
    dtype = np.dtype(dtype)
    axes = order(len(shape))
    block_shape = [shape[a] * step for a in axes]
    size = math.prod(block_shape) * dtype.itemsize
    memory = np.full(size + 4 * LINE, POISON, np.uint8)
    start = -memory.ctypes.data % LINE + LINE + offset * dtype.itemsize
    block = memory[start : start + size].view(dtype).reshape(block_shape)
    stride = -step if backwards else step
    view = block[(*(slice(None, None, stride) for _ in shape), ...)]
    return Placed(view.transpose(np.argsort(axes)) if axes else view, memory)


def _reversed(rank: int) -> list[int]:
    return list(range(rank))[::-1]


def _rotated(rank: int) -> list[int]:
    return [*range(1, rank), *range(min(rank, 1))]


LAYOUTS: dict[str, Layout] = {
    "contiguous": _placed,
    "offset": functools.partial(_placed, offset=1),
    "transposed": functools.partial(_placed, order=_reversed),
    "backwards": functools.partial(_placed, backwards=True, offset=3),
    "stepped": functools.partial(_placed, step=2),
    "tangled": functools.partial(_placed, step=3, backwards=True, order=_rotated, offset=1),
}


def _broadcast(shape: tuple[int, ...], dtype: Any, axis: int) -> Placed:
    """One element along `axis`, repeated with stride 0."""
    if not shape or 0 in shape:
        return _placed(shape, dtype)
    axis %= len(shape)
    single = _placed(tuple(1 if a == axis else n for a, n in enumerate(shape)), dtype)
    return Placed(np.broadcast_to(single.array, shape), single.memory)


def _fill_broadcast(axis: int, values: Array) -> Array:
    placed = _broadcast(values.shape, values.dtype, axis)
    if placed.array.flags.writeable:
        return placed.put(values).array
    axis %= values.ndim
    base = placed.array[
        tuple(slice(0, 1) if a == axis else slice(None) for a in range(values.ndim))
    ]
    base.flags.writeable = True
    words(base)[...] = words(values.take([0], axis))
    return placed.array


INPUT_LAYOUTS: dict[str, Callable[[Array], Array]] = {
    **{
        name: lambda x, make=make: make(x.shape, x.dtype).put(x).array
        for name, make in LAYOUTS.items()
    },
    "stride 0 first": functools.partial(_fill_broadcast, 0),
    "stride 0 last": functools.partial(_fill_broadcast, -1),
}
"""Inputs may repeat elements: the last two keep only some of the values that they are given."""
