"""Lines of tensors as work for threads: how many, how numbered, with what carries between blocks.

The counterpart of kernels/lines.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gradplan.engines.cuda.launches.choices import CHOICES, chosen
from gradplan.engines.cuda.launches.layouts import Space
from gradplan.engines.cuda.program import I32, I64, WORKSPACE, Argument, Layout, Pointer
from gradplan.reference.prefix import FAN
from gradplan.reference.recurrence import BLOCK, CHUNK

THREADS = 64
"""Of a program of the general kernels: small programs spread few lines over a device."""
MOST_LINES = 2**30
"""Of one launch: kernels count lines in 32 bits."""
AXES = 4
"""Axes that a general kernel knows: that of the scan and three others."""


def rows_of(form: str) -> int:
    """Rows of a program where a warp takes one."""
    choice = "scan.rows"
    return chosen(choice) if form == "unit" else CHOICES[choice].default


def rows_suffix(rows: int) -> str:
    """Of the key of a kernel whose programs take so many rows, if not as many as by default."""
    return "" if rows == CHOICES["scan.rows"].default else f"/{rows}"


def along_lines(layout: Layout, desc: Any) -> Layout:
    """A tensor of one element a line, with the axis of the scan, along which elements repeat."""
    axis = desc.scan_axis
    strides = (*layout.strides[:axis], 0, *layout.strides[axis:])[: len(desc.input_shape)]
    return Layout(layout.dtype, desc.input_shape, strides, layout.aligned)


def parts(space: Space) -> Iterator[Space]:
    """Spaces of AXES axes and at most MOST_LINES lines; one, but for strange or huge layouts."""
    for piece in space.pieces(AXES):
        yield from _halved(piece)


def _halved(space: Space) -> Iterator[Space]:
    *outer, n = space.extents
    if math.prod(outer) <= MOST_LINES:
        yield space
        return
    axis = outer.index(max(outer))
    half = outer[axis] // 2
    for first, count in ((0, half), (half, outer[axis] - half)):
        yield from _halved(
            dataclasses.replace(
                space,
                extents=(*outer[:axis], count, *outer[axis + 1 :], n),
                offsets={
                    name: at + first * space.strides[name][axis]
                    for name, at in space.offsets.items()
                },
            )
        )


def blocks_of(n: int) -> int:
    return -(-n // BLOCK)


def chunks_of(n: int) -> int:
    return -(-n // (BLOCK * CHUNK))


def words_of(n: int) -> int:
    """Words of a line's records, a bit an element."""
    return -(-n // FAN)


def is_whole(lines: int, n: int) -> bool:
    """Whether a thread takes a line: there is no more than a block of it, or lines are many."""
    return n <= BLOCK or lines >= chosen("scan.many")


# What a call keeps in its workspace, by name: how many a line, and of how many bytes (0: as many as
# the compute type has).
_ARRAYS = {
    "block": (blocks_of, 0),
    "chunk": (chunks_of, 0),
    "block_at": (blocks_of, 8),
    "chunk_at": (chunks_of, 8),
    "last": (blocks_of, 0),
    "edge": (blocks_of, 0),
    "power": (blocks_of, 4),
    "carry": (chunks_of, 0),
    "words": (words_of, 2),
}


def workspace(
    names: tuple[str, ...], lines: int, n: int, compute: int
) -> tuple[Mapping[str, Pointer], int]:
    """Where arrays are, one behind the other at multiples of 256 bytes; and their size in all."""
    at, pointers = 0, {}
    for name in names:
        count, itemsize = _ARRAYS[name]
        pointers[name] = Pointer(WORKSPACE, at)
        at += -(-lines * count(n) * (itemsize or compute) // 256) * 256
    return pointers, at


def vector_of(space: Space, width: int, per_line: Collection[str] = ()) -> int:
    """`width` if every line is made of aligned vectors of as many elements, else 0.

    All tensors are walked in the same direction: from a line's upper end, vectors end there. Those
    that have one element a line (`per_line`) do not matter.
    """
    walked = {name: s for name, s in space.strides.items() if name not in per_line}
    steps = {strides[-1] for strides in walked.values()}
    if steps not in ({1}, {-1}) or space.extents[-1] % width or not chosen("scan.vectors"):
        return 0
    lower = 0 if steps == {1} else width - 1
    for name, strides in walked.items():
        begins = (space.offsets[name] - lower) * space.itemsizes[name] % 16 == 0
        outer = zip(space.extents[:-1], strides[:-1], strict=True)
        apart = all(extent == 1 or stride % width == 0 for extent, stride in outer)
        if not (space.aligned_addresses[name] and begins and apart):
            return 0
    return width


@dataclasses.dataclass(frozen=True)
class Lines:
    """The lines of one launch, and how their pieces are numbered."""

    space: Space
    total: int
    """Lines of all launches together: what decides about forms."""
    vector: int = 0
    """Elements of a load in the form for aligned lines of neighbours; 0: the one for any layout."""

    @property
    def whole(self) -> bool:
        return is_whole(self.total, self.n)

    @property
    def unit(self) -> bool:
        """Neighbours along a line are neighbours in memory: its blocks are numbered first."""
        return all(abs(s[-1]) <= 1 for s in self.space.strides.values())

    @property
    def form(self) -> str:
        return "unit" if self.vector else "any"

    def pointer(self, name: str) -> Pointer:
        """Where lines begin: in the vector form, the lower end of the first vector."""
        at = self.space.pointer(name)
        if not self.vector or self.space.strides[name][-1] > 0:
            return at
        return Pointer(name, at.offset - (self.vector - 1) * self.space.itemsizes[name])

    @property
    def count(self) -> int:
        return math.prod(self.space.extents[:-1])

    @property
    def n(self) -> int:
        return self.space.extents[-1]

    @property
    def blocks(self) -> int:
        return blocks_of(self.n)

    @property
    def chunks(self) -> int:
        return chunks_of(self.n)

    def order(self, each: int) -> tuple[int, int]:
        """From line to line, and from one of `each` in a line to the next."""
        return (each, 1) if self.unit else (1, self.count)

    @property
    def numbers(self) -> tuple[Argument, ...]:
        """The orders of blocks and of chunks."""
        return tuple(I32(v) for v in (*self.order(self.blocks), *self.order(self.chunks)))

    @property
    def sizes(self) -> tuple[Argument, ...]:
        """Lines and two of their axes, the length of a line, pieces and their numbers."""
        _, e1, e0, n = self.space.extents
        axes = (I32(self.count), I32(e0), I32(e1), I64(n))
        if self.whole:
            return *axes, I32(1), I32(1), I32(self.count), I32(1), I32(self.count)
        return *axes, I32(self.blocks), *self.numbers

    def strides(self, *names: str) -> tuple[Argument, ...]:
        """Of each tensor along a line, then across them, the fastest axis first."""
        each = self.vector or 1
        strides = (self.space.strides[name][::-1] for name in names)
        return tuple(
            I64(v) for along, *rest in strides for v in (along, *(s // each for s in rest))
        )

    def strides_across(self, name: str) -> tuple[Argument, ...]:
        """The same of a tensor that has one element a line."""
        return tuple(I64(s) for s in self.space.strides[name][-2::-1])

    @property
    def grid(self) -> tuple[int, int, int]:
        """Programs for all pieces."""
        return self.programs(1 if self.whole else self.blocks)

    @property
    def rows(self) -> str:
        """How warps take rows: "" not at all, "whole", or "split" into chunks."""
        few = not self.vector or self.total < chosen("scan.many")
        short = chosen("scan.short") if few else BLOCK
        if not self.unit or self.n <= short:
            return ""
        # Whole lines have no workspace for chunks, whoever takes them.
        many = self.whole or self.total >= chosen("scan.many_rows")
        return "whole" if self.chunks == 1 or many else "split"

    def programs(self, each: int) -> tuple[int, int, int]:
        """Programs for `each` threads a line."""
        return -(-self.count * each // THREADS), 1, 1
