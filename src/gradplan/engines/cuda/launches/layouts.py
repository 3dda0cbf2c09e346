"""Layouts made simple: what a kernel has to know about strides, and no more.

A kernel visits the same index space in several tensors. Which axis comes first is of no account to
it (but for the axis that it works along), so axes of extent 1 are dropped, the others are sorted by
stride, and neighbours that lie like one axis in every tensor become one. Contiguous tensors of any
rank are then one axis, their lines along the last axis two, and the lines along another axis three.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping

from gradplan.engines.cuda.program import Layout, Pointer
from gradplan.vocabulary import ElementKind

MOST_LINES = 2**30
"""Of a launch: they are numbered in 32 bits, and a few numbers behind the last one fit as well."""


@dataclasses.dataclass(frozen=True)
class Space:
    """An index space and how several tensors lie in it; strides and offsets count elements."""

    extents: tuple[int, ...]
    strides: Mapping[str, tuple[int, ...]]
    offsets: Mapping[str, int]
    """Where index 0 of the space is, from the tensor's own first element."""
    itemsizes: Mapping[str, int]
    aligned_addresses: Mapping[str, bool]

    @property
    def size(self) -> int:
        return math.prod(self.extents)

    @property
    def rank(self) -> int:
        return len(self.extents)

    def pointer(self, name: str) -> Pointer:
        """The address of index 0."""
        return Pointer(name, self.offsets[name] * self.itemsizes[name])

    def unit(self, name: str) -> bool:
        """Whether neighbours along the last axis are neighbours in memory."""
        return self.strides[name][-1] == 1

    def aligned(self, name: str) -> bool:
        """Whether every line along the last axis starts at a multiple of 16 bytes."""
        itemsize = self.itemsizes[name]
        starts = (self.offsets[name], *self._outer_strides(name))
        return self.aligned_addresses[name] and all(s * itemsize % 16 == 0 for s in starts)

    def _outer_strides(self, name: str) -> Iterator[int]:
        outer = zip(self.extents[:-1], self.strides[name][:-1], strict=True)
        return (stride for extent, stride in outer if extent > 1)

    def padded(self, rank: int) -> Space:
        """The same with leading axes of extent 1 and stride 0, for kernels of a fixed rank."""
        more = rank - self.rank
        if more < 0:
            raise ValueError(f"{self.rank} axes do not fit in {rank}")
        return dataclasses.replace(
            self,
            extents=(1,) * more + self.extents,
            strides={name: (0,) * more + s for name, s in self.strides.items()},
        )

    def behind(self, count: int) -> Space:
        """Of a space of one axis, what follows the first `count` elements."""
        (extent,) = self.extents
        return dataclasses.replace(
            self,
            extents=(extent - count,),
            offsets={n: first + count * self.strides[n][0] for n, first in self.offsets.items()},
        )

    def pieces(self, rank: int, most: int = MOST_LINES) -> Iterator[Space]:
        """Spaces of exactly `rank` axes that make up this one; one, unless it has more axes.

        The last axis stays. Of the others, those of the smallest extents become pieces: only
        strange layouts have so many that do not merge. A piece has at most `most` lines.
        """
        more = self.rank - rank
        if more <= 0:
            yield from self.padded(rank)._cut(most)
            return
        outer = range(self.rank - 1)
        apart = sorted(sorted(outer, key=lambda i: self.extents[i])[:more])
        kept = [i for i in range(self.rank) if i not in apart]
        for index in itertools.product(*(range(self.extents[i]) for i in apart)):
            at = list(zip(index, apart, strict=True))
            piece = dataclasses.replace(
                self,
                extents=tuple(self.extents[i] for i in kept),
                strides={name: tuple(s[i] for i in kept) for name, s in self.strides.items()},
                offsets={
                    name: first + sum(k * self.strides[name][i] for k, i in at)
                    for name, first in self.offsets.items()
                },
            )
            yield from piece._cut(most)

    def _cut(self, most: int) -> Iterator[Space]:
        """Parts of at most so many lines, along the longest of the outer axes."""
        most = min(most, MOST_LINES)
        outer = self.extents[:-1]
        if math.prod(outer) <= most:
            yield self
            return
        axis = max(range(len(outer)), key=lambda i: outer[i])
        step = max(most // (math.prod(outer) // outer[axis]), 1)
        for start in range(0, outer[axis], step):
            part = min(step, outer[axis] - start)
            yield from dataclasses.replace(
                self,
                extents=(*self.extents[:axis], part, *self.extents[axis + 1 :]),
                offsets={n: o + start * self.strides[n][axis] for n, o in self.offsets.items()},
            )._cut(most)


def simplified(
    layouts: Mapping[str, Layout], axis: int | None = None, reverse: bool = False
) -> Space:
    """The index space of tensors that have one shape.

    With an `axis` that one is the last of the space, whatever its extent, walked from its end if
    `reverse`; so the direction is gone, too. Without one every axis is free, and the last one has
    the smallest strides. A 0-d tensor is one line of length 1.

    >>> x = Layout("float32", (2, 1, 3, 4), (12, 7, 4, 1), aligned=True)
    >>> simplified({"x": x}).extents, simplified({"x": x}, axis=2).extents
    ((24,), (2, 4, 3))
    >>> simplified({"x": x}, axis=2, reverse=True).strides["x"]
    (12, 1, -4)
    """
    shapes = {layout.shape for layout in layouts.values()}
    if len(shapes) != 1:
        raise ValueError(f"expected tensors of one shape, got {sorted(shapes)}")
    shape = shapes.pop() or (1,)
    strides = {name: layout.strides or (1,) for name, layout in layouts.items()}
    offsets = dict.fromkeys(layouts, 0)

    def steps(i: int) -> dict[str, int]:
        return {name: s[i] for name, s in strides.items()}

    def flipped(extent: int, along: dict[str, int]) -> dict[str, int]:
        if extent > 0:
            for name, stride in along.items():
                offsets[name] += (extent - 1) * stride
        return {name: -stride for name, stride in along.items()}

    free = []
    last = None if axis is None else axis % len(shape)
    for i, extent in enumerate(shape):
        if i == last or extent == 1:
            continue
        along = steps(i)
        free.append((extent, flipped(extent, along) if sum(along.values()) < 0 else along))
    free.sort(key=lambda each: -sum(map(abs, each[1].values())))

    merged: list[tuple[int, dict[str, int]]] = []
    for extent, along in free:
        if merged and all(merged[-1][1][name] == extent * along[name] for name in layouts):
            extent *= merged.pop()[0]
        merged.append((extent, along))
    if last is not None:
        along = steps(last)
        merged.append((shape[last], flipped(shape[last], along) if reverse else along))
    if not merged:
        merged.append((1, dict.fromkeys(layouts, 1)))

    return Space(
        extents=tuple(extent for extent, _ in merged),
        strides={name: tuple(along[name] for _, along in merged) for name in layouts},
        offsets=offsets,
        itemsizes={name: itemsize(layout.dtype) for name, layout in layouts.items()},
        aligned_addresses={name: layout.aligned for name, layout in layouts.items()},
    )


def itemsize(dtype: str) -> int:
    """Bytes of an element.

    >>> itemsize("bfloat16")
    2
    """
    return element(dtype).itemsize


def element(dtype: str) -> ElementKind:
    """The kind of an element by the name that frameworks use."""
    kind = ElementKind.from_dtype_name(dtype)
    if kind is None:
        raise ValueError(f"{dtype} is no element type of these kernels")
    return kind
