"""Launches of gather, scatter_add, index_select, index_add and their gradients.

Copies by index are one launch, of rows where that is what slices are. Sums are those of the rows
of a table (sums.py): where all lines have the same indices, a slice is a row; where each has its
own, an element is, and a line's places are a range of segments. Tensors that do not lie like such a
table are copied to the workspace and from there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gradplan.declaration import OPS, Descriptor, Op
from gradplan.engines.cuda.program import (
    ERRORS,
    I32,
    I64,
    Argument,
    Launch,
    Layout,
    Pointer,
    Program,
    moved,
)
from gradplan.vocabulary import Bounds, OpCategory

from .arena import Arena
from .gather import gather
from .indices import NOTHING, bounds_check
from .layouts import Space, element, itemsize, simplified
from .sums import MOST_ROWS, MOST_SEGMENTS, refuse_large, sort, sums
from .tiles import TILE
from .workspace import contiguous

_IDS = "indices"
_RANK = 4  # axes of a kernel
_POSITION = "position"
"""In place of a tensor: where an element is in C order."""


@dataclasses.dataclass(frozen=True)
class _Problem:
    """What the ops of this family have in common."""

    shape: tuple[int, ...]
    axis: int
    size: int
    members: str
    """The tensor of the problem's shape, beside the indices."""
    table: str
    """The tensor with another extent along the axis."""
    layouts: Mapping[str, Layout]
    raises: bool
    copies: bool
    """As if no tensor lay like a table."""

    @classmethod
    def of(cls, op: Op, desc: Any, layouts: Mapping[str, Layout], copies: bool = False) -> _Problem:
        """A scalar is a line of one element."""
        floats = [t.name for t in op.tensors if not t.index]
        picks = op.category is OpCategory.EMBEDDING
        table, members = floats if picks else floats[::-1]
        lines = {
            name: x if x.shape else dataclasses.replace(x, shape=(1,), strides=(1,))
            for name, x in layouts.items()
        }
        raises = desc.bounds is Bounds.RAISE
        shape = tuple(desc.shape)
        axis = desc.axis if shape else 0
        return cls(shape or (1,), axis, desc.size, members, table, lines, raises, copies)

    @property
    def n(self) -> int:
        return self.shape[self.axis]

    @property
    def ids(self) -> Layout:
        return self.layouts[_IDS]

    @property
    def dtype(self) -> str:
        return self.layouts[self.members].dtype

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return itemsize(self.dtype)

    def step(self, name: str) -> int:
        """Along the axis."""
        return self.layouts[name].strides[self.axis]

    def still(self, name: str) -> Layout:
        """A tensor of the problem's shape that does not move along the axis."""
        x = self.layouts[name]
        strides = (*x.strides[: self.axis], 0, *x.strides[self.axis + 1 :])
        return dataclasses.replace(x, shape=self.shape, strides=strides)

    def slices(self) -> Space:
        """What a slice is in both tensors."""

        def without(t: tuple[int, ...]) -> tuple[int, ...]:
            return (*t[: self.axis], *t[self.axis + 1 :])

        both = {name: self.layouts[name] for name in (self.members, self.table)}
        return simplified(
            {
                name: dataclasses.replace(x, shape=without(x.shape), strides=without(x.strides))
                for name, x in both.items()
            }
        )

    def rows(self, space: Space, name: str) -> Layout:
        """A tensor as rows, where slices have one axis."""
        x = self.layouts[name]
        aligned = x.aligned and space.offsets[name] * self.width % 16 == 0
        count = x.shape[self.axis]
        strides = (self.step(name), space.strides[name][0])
        return Layout(x.dtype, (count, space.size), strides, aligned)


# Tiles ------------------------------------------------------------------------------------------


def _tiled(
    kernel: str,
    space: Space,
    pointers: tuple[Pointer, ...],
    names: tuple[str, ...],
    *rest: Argument,
) -> Launch:
    """A launch over a space of four axes; `names` are those whose strides it takes."""
    *outer, columns = space.extents
    rows, parts = math.prod(outer), -(-columns // TILE[1])
    sizes = (I32(rows), I64(columns), I32(parts), I32(outer[1]), I32(outer[2]))
    strides = (I64(stride) for name in names for stride in space.strides[name])
    grid = (-(-rows // TILE[0]) * parts, 1, 1)
    return Launch(kernel, grid, (*pointers, *sizes, *rest, *strides))


def _arranged(space: Space, names: tuple[str, ...]) -> Space:
    """With the axes in the order in which these tensors lie in memory."""

    def step(axis: int) -> int:
        return sum(abs(space.strides[name][axis]) for name in names)

    order = sorted(range(space.rank), key=lambda i: (space.extents[i] > 1, -step(i)))
    return dataclasses.replace(
        space,
        extents=tuple(space.extents[i] for i in order),
        strides={name: tuple(s[i] for i in order) for name, s in space.strides.items()},
    )


def _with(space: Space, **strides: tuple[int, ...]) -> Space:
    return dataclasses.replace(space, strides={**space.strides, **strides})


def _copied(p: _Problem, space: Space, source: Pointer, target: Pointer) -> Iterator[Launch]:
    """From the strides of "source" to those of "target"."""
    if space.size:
        tiles = _arranged(space, ("source", "target"))
        yield _tiled(f"copy/{8 * p.width}", tiles, (source, target), ("source", "target"))


# Indices of every line --------------------------------------------------------------------------


def _in_c_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _positions(p: _Problem) -> dict[str, Layout]:
    """The indices, and where each is among them."""
    return {_IDS: p.ids, _POSITION: Layout("int64", p.shape, _in_c_order(p.shape), aligned=False)}


def _keyed(p: _Problem, space: Space, keys: Pointer | None, arena: Arena) -> Iterator[Launch]:
    """The keys of all indices, line by line, if they are wanted; and the check of bounds."""
    if not space.size:
        return
    *outer, n = space.extents
    lines = _in_c_order(tuple(outer))
    tiles = _arranged(
        _with(space, keys=(*(i * n for i in lines), 1), before=(*(i * p.size for i in lines), 0)),
        (_IDS,),
    )
    firsts = arena.take(16 * (space.size // 4 + 2))  # enough for tiles of any shape
    launch = _tiled(
        f"index_keys/{element(p.ids.dtype).value}",
        tiles,
        (space.pointer(_IDS), keys or firsts, firsts),
        (_IDS, "keys", "before", _POSITION),
        I64(p.size),
        I32(keys is not None),
        I64(math.prod(outer) * p.size),
        I64(space.offsets[_POSITION]),
    )
    yield launch
    if p.raises:
        programs = I32(launch.grid[0])
        yield Launch("report_first", (1, 1, 1), (firsts, Pointer(ERRORS), programs))


def _checked(p: _Problem, arena: Arena) -> Iterator[Launch]:
    if not p.raises:
        return
    if len(p.ids.shape) == 1:
        yield from bounds_check(_IDS, p.ids, p.size, arena)
        return
    for part in simplified(_positions(p)).pieces(_RANK):
        arena.used = 0
        yield from _keyed(p, part, None, arena)


# Copies -----------------------------------------------------------------------------------------


def _copies(p: _Problem, shared: bool, arena: Arena) -> Iterator[Launch]:
    yield from _checked(p, arena)
    slices = p.slices()
    both = (p.table, p.members)
    if shared and slices.rank == 1 and all(slices.unit(name) for name in both):
        table, out = (p.rows(slices, name) for name in both)
        offsets = {name: slices.pointer(name) for name in both}
        for launch in gather((p.table, _IDS, p.members), table, p.ids, out, NOTHING):
            yield moved(launch, offsets)
        return
    ids = p.ids
    if shared:
        strides = tuple(ids.strides[0] if i == p.axis else 0 for i in range(len(p.shape)))
        ids = dataclasses.replace(ids, shape=p.shape, strides=strides)
    space = simplified({p.table: p.still(p.table), _IDS: ids, p.members: p.layouts[p.members]})
    names = (p.table, _IDS, p.members)
    for part in space.pieces(_RANK) if space.size else ():
        tiles = _arranged(part, (p.members,))
        yield _tiled(
            f"pick/{8 * p.width}/{element(ids.dtype).value}",
            tiles,
            tuple(part.pointer(name) for name in names),
            names,
            I64(p.size),
            I64(p.step(p.table)),
        )


# Sums -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Table:
    """A tensor as rows, or what stands for it in the workspace."""

    layout: Layout
    at: Pointer
    strides: tuple[int, ...] | None = None
    """Of the lines and along the axis, if it is a copy."""


def _sums_of(
    p: _Problem,
    part: Space,
    x: _Table,
    y: _Table,
    keys: Pointer,
    positions: Pointer,
    arena: Arena,
) -> Iterator[Launch]:
    names = (p.members, p.table)
    if x.strides is not None:
        both = _with(part, source=part.strides[p.members], target=x.strides)
        yield from _copied(p, both, part.pointer(p.members), x.at)
    for launch in sums(names, x.layout, y.layout, keys, positions, arena):
        yield moved(launch, {p.members: x.at, p.table: y.at})
    if y.strides is not None:
        places = dataclasses.replace(part, extents=(*part.extents[:-1], p.size))
        both = _with(places, source=y.strides, target=part.strides[p.table])
        yield from _copied(p, both, y.at, part.pointer(p.table))


def _lines(p: _Problem, more: Mapping[str, Layout]) -> Space:
    """Lines of both tensors; the extent of the axis is that of the members."""
    table = dataclasses.replace(p.layouts[p.table], shape=p.shape)
    return simplified({p.members: p.layouts[p.members], p.table: table, **more}, p.axis)


def _sums_of_slices(p: _Problem, arena: Arena) -> Iterator[Launch]:
    """All lines have the same indices, which are sorted once."""
    yield from _checked(p, arena)
    refuse_large(p.n, p.size)
    if not math.prod(p.layouts[p.table].shape):
        return
    keys, positions, launches = sort(_IDS, p.ids, p.size, NOTHING, arena)
    yield from launches
    slices = p.slices()
    if slices.rank == 1 and not p.copies:
        x, y = (_Table(p.rows(slices, t), slices.pointer(t)) for t in (p.members, p.table))
        yield from _sums_of(p, slices, x, y, keys, positions, arena)
        return
    used = arena.used
    for part in _lines(p, {}).pieces(_RANK):
        arena.used = used
        outer = part.extents[:-1]
        width = math.prod(outer)
        strides = (*_in_c_order(outer), width)

        def table(count: int, width: int = width, strides: Any = strides) -> _Table:
            layout = Layout(p.dtype, (count, width), (width, 1), aligned=True)
            return _Table(layout, arena.take(count * width * p.width), strides)

        yield from _sums_of(p, part, table(p.n), table(p.size), keys, positions, arena)


def _one_step(space: Space, name: str, length: int) -> int | None:
    """From element to element of all lines of such a length, if it is the same everywhere."""
    axes = zip((*space.extents[:-1], length)[::-1], space.strides[name][::-1], strict=True)
    step, before = None, 1
    for extent, stride in axes:
        if extent == 1:
            continue
        step = stride if step is None else step
        if stride != step * before:
            return None
        before *= extent
    return step or 0


def _sums_of_lines(p: _Problem, arena: Arena) -> Iterator[Launch]:
    """Every line has its own indices: its places are as many segments behind those before."""
    refuse_large(p.n, p.size)
    most = min(MOST_ROWS // max(p.n, 1), MOST_SEGMENTS // max(p.size, 1))
    for part in _lines(p, _positions(p)).pieces(_RANK, most):
        arena.used = 0
        lines = math.prod(part.extents[:-1])
        keys = arena.take(4 * lines * p.n)
        yield from _keyed(p, part, keys, arena)
        if not lines * p.size:
            continue
        ids = Layout("int32", (lines * p.n,), (1,), aligned=True)
        order, positions, launches = sort(_IDS, ids, lines * p.size, NOTHING, arena)
        yield from (moved(launch, {_IDS: keys}) for launch in launches)
        x, y = (
            _rows_of_one(p, part, name, length, arena)
            for name, length in ((p.members, p.n), (p.table, p.size))
        )
        yield from _sums_of(p, part, x, y, order, positions, arena)


def _rows_of_one(p: _Problem, part: Space, name: str, length: int, arena: Arena) -> _Table:
    lines = math.prod(part.extents[:-1])
    step = _one_step(part, name, length)
    if step is not None and not (p.copies and lines > 1):
        layout = Layout(p.dtype, (lines * length, 1), (step, 1), aligned=False)
        return _Table(layout, part.pointer(name))
    layout = Layout(p.dtype, (lines * length, 1), (1, 1), aligned=True)
    strides = _in_c_order((*part.extents[:-1], length))
    return _Table(layout, arena.take(lines * length * p.width), strides)


# By op ------------------------------------------------------------------------------------------


def _launches(op: Op, desc: Any, layouts: Mapping[str, Layout], arena: Arena, copies: bool) -> Any:
    p = _Problem.of(op, desc, layouts, copies)
    shared = op.tensor_named[_IDS].axes != op.tensor_named[p.members].axes
    if op.category is OpCategory.EMBEDDING:
        return _copies(p, shared, arena)
    return _sums_of_slices(p, arena) if shared else _sums_of_lines(p, arena)


def _program(op: Op) -> Callable[[Descriptor, Mapping[str, Layout]], Program]:
    def program(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
        arena = Arena()
        launches = tuple(_launches(op, desc, layouts, arena, copies=False))
        return Program(launches, arena.size)

    return program


def _workspace(op: Op) -> Callable[[Descriptor], int]:
    """The most that any layout needs: for lines in one piece, of which copies are made."""

    def size(desc: Any) -> int:
        shape = tuple(desc.shape) or (1,)
        n = shape[desc.axis]
        lines = math.prod((*shape[: desc.axis], *shape[desc.axis + 1 :]))
        rows = dataclasses.replace(desc, shape=(lines, n), axis=1)
        arena = Arena()
        for _ in _launches(op, rows, contiguous(op, rows), arena, copies=lines > 1):
            pass
        return arena.size

    return size


_OPS = [op for op in OPS.values() if op.descriptor.__module__ == "gradplan.ops.gather"]
PROGRAMS = {op.name: _program(op) for op in _OPS}
WORKSPACE = {op.name: _workspace(op) for op in _OPS}
