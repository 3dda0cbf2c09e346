"""Launches that reduce segments, and that go through rows beside what their segments have."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradplan.engines.cuda.program import F32, F64, I32, I64, Argument, Launch, Layout, Pointer
from gradplan.reference.segment import BLOCK
from gradplan.vocabulary import ElementKind

from .arena import Arena
from .indices import NOTHING, ascending_check, bounds_check
from .layouts import element
from .sums import is_vector, refuse_large, row_strides, sort, starts_of
from .tiles import (
    LANES,
    RESULTS,
    ROW_LANES,
    VECTOR_LINES,
    side_by_side,
    vector_columns,
)


@dataclasses.dataclass(frozen=True)
class Table:
    """A tensor, or a piece of the workspace that lies like one."""

    pointer: Pointer
    layout: Layout

    @property
    def strides(self) -> tuple[I64, I64]:
        row, step = row_strides(self.layout)
        return I64(row), I64(step)


@dataclasses.dataclass(frozen=True)
class Members:
    """Where the members of segments are, once what finds them has run."""

    keys: Pointer
    """The segments of rows, in order."""
    positions: Pointer | None
    """Which rows those are; None: all rows as they are."""
    starts: Pointer
    rows: int
    segments: int

    @property
    def huge(self) -> bool:
        """Whether a segment can have several blocks."""
        return self.rows > BLOCK

    @property
    def halves(self) -> int:
        """Rows of a table that has all blocks of huge segments."""
        return 2 * -(-self.rows // BLOCK) if self.huge else 0

    @property
    def places(self) -> Pointer:
        return self.positions or self.keys  # not read then


def table_of(layouts: Mapping[str, Layout], name: str) -> Table:
    return Table(Pointer(name), layouts[name])


def room(arena: Arena, kind: ElementKind, rows: int, width: int) -> Table:
    """Rows in the workspace."""
    layout = Layout(kind.dtype_name, (rows, width), (width, 1), aligned=True)
    return Table(arena.take(rows * width * kind.itemsize), layout)


def find_members(
    name: str, ids: Layout, segments: int, arena: Arena, *, ascending: bool, bounds: bool
) -> tuple[Members, list[Launch]]:
    """With `bounds` they are checked, and where they have to ascend that is, too."""
    (rows,) = ids.shape
    refuse_large(rows, segments)
    launches: list[Launch] = []
    positions = None
    if ascending:
        keys, launches = ascending_check(name, ids, segments, arena, bounds=bounds)
    else:
        if bounds:
            launches += bounds_check(name, ids, segments, arena)
        keys, positions, sorting = sort(name, ids, segments, NOTHING, arena)
        launches += sorting
    starts, launch = starts_of(keys, rows, segments, arena)
    return Members(keys, positions, starts, rows, segments), [*launches, launch]


def tiles(lanes: int, lines: int, width: int) -> tuple[tuple[int, int, int], I32, I32]:
    """The grid, the parts of a row, and how many columns of it are side by side."""
    shift = side_by_side(width)
    parts = -(-width // (1 << shift))
    return (-(-lines // (lanes >> shift)) * parts, 1, 1), I32(parts), I32(shift)


@dataclasses.dataclass(frozen=True)
class Reduction:
    """What is reduced. `beside`: a row for each row or segment, if members are looked at beside it;
    for `option` see kernels/members.py."""

    x: Table
    members: Members
    beside: Table | None = None
    option: int = 0

    @property
    def kind(self) -> ElementKind:
        return element(self.x.layout.dtype)

    @property
    def width(self) -> int:
        return self.x.layout.shape[1]

    def to(self, result: str, y: Table, arena: Arena, fill: float = 0.0) -> list[Launch]:
        """A result for each segment, `fill` for empty ones: see launches/tiles.py."""
        if not self.members.segments:
            return []
        form = "any"
        if self.beside is None and self.width >= vector_columns(self.kind.itemsize):
            form = "vector" if all(is_vector(each.layout) for each in (self.x, y)) else "any"
        members = self.members
        partial, launches = self.blocks(RESULTS[result], arena, form)
        grid, parts, shift = self._grid(form, members.segments)
        tables = (*self._rows, members.places, members.starts, partial, y.pointer)
        sizes = (I64(members.segments), I64(self.width), parts, shift)
        rest = (*self._rest, *y.strides, number(fill, self.kind))
        key = f"segment_results/{result}/{self.kind.value}/{form}"
        return [*launches, Launch(key, grid, (*tables, *sizes, *rest))]

    def blocks(self, name: str, arena: Arena, form: str = "any") -> tuple[Pointer, list[Launch]]:
        """The blocks of huge segments, in halves."""
        members = self.members
        if not members.halves:
            return members.keys, []  # not read then
        partial = arena.take(members.halves * self.width * self.kind.compute.itemsize)
        grid, parts, shift = self._grid(form, members.halves)
        tables = (*self._rows, members.keys, members.places, members.starts, partial)
        sizes = (I32(members.rows), I64(members.segments), I64(self.width), parts, shift)
        key = f"segment_blocks/{name}/{self.kind.value}/{form}"
        return partial, [Launch(key, grid, (*tables, *sizes, *self._rest))]

    @property
    def _rows(self) -> tuple[Pointer, Pointer]:
        return self.x.pointer, (self.beside or self.x).pointer

    @property
    def _rest(self) -> tuple[Argument, ...]:
        ascending, w = self.members.positions is None, self.beside or self.x
        return I32(ascending), I32(self.option), *self.x.strides, *w.strides

    def _grid(self, form: str, lines: int) -> tuple[tuple[int, int, int], I32, I32]:
        if form == "any":
            return tiles(LANES, lines, self.width)
        parts = -(-self.width // vector_columns(self.kind.itemsize))
        return (-(-lines // VECTOR_LINES) * parts, 1, 1), I32(parts), I32(0)


def maxima(x: Table, members: Members, arena: Arena) -> tuple[Table, list[Launch]]:
    """The maximum of each segment, in the workspace."""
    top = room(arena, element(x.layout.dtype), members.segments, x.layout.shape[1])
    return top, Reduction(x, members).to("max", top, arena, -math.inf)


def number(value: float, kind: ElementKind) -> Argument:
    """Rounded to the compute type, as the reference does."""
    with np.errstate(all="ignore"):
        compute: Any = kind.compute.dtype.type
        rounded = float(compute(value))
    return F64(rounded) if kind is ElementKind.F64 else F32(rounded)


def row_keys(
    name: str, ids: Layout, segments: int, arena: Arena, *, bounds: bool
) -> tuple[Pointer, list[Launch]]:
    """The segments of rows as they are; they need not ascend."""
    refuse_large(ids.shape[0], segments)
    return ascending_check(name, ids, segments, arena, bounds=bounds, order=False)


def row_by_row(
    kind: str,
    keys: Pointer,
    y: Table,
    segments: int,
    *,
    x: Table | None = None,
    beside: Table | None = None,
    g: Table | None = None,
    table: Pointer | None = None,
    option: int = 0,
) -> Launch:
    """Rows of y, from what `kind` takes of the rest: see kernels/segment_reduce.py."""
    rows, width = y.layout.shape
    grid, parts, shift = tiles(ROW_LANES, rows, width)
    tensors = [each or y for each in (x, beside, g)]  # what is not there is not read
    return Launch(
        f"segment_rows/{kind}/{element(y.layout.dtype).value}",
        grid,
        (
            *(each.pointer for each in tensors),
            *(table or keys, keys, y.pointer),
            *(I64(rows), I64(segments), I64(width), parts, shift, I32(option)),
            *(stride for each in (*tensors, y) for stride in each.strides),
        ),
    )
