"""Launches of the scan family.

Every layout has a general form (kernels/scan_lines.py, recurrence_lines.py): a thread takes a line,
or, where lines are too few to fill a GPU, a block of one, and then there are launches between for
the carries of blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from gradplan.declaration import Descriptor
from gradplan.engines.cuda.launches import exclusive
from gradplan.engines.cuda.launches.exclusive import End, Exclusive
from gradplan.engines.cuda.launches.layouts import Space, element, simplified
from gradplan.engines.cuda.launches.lines import (
    Lines,
    is_whole,
    parts,
    rows_of,
    rows_suffix,
    vector_of,
    words_of,
    workspace,
)
from gradplan.engines.cuda.program import I32, I64, Launch, Layout, Pointer, Program
from gradplan.reference.scan import IDENTITY
from gradplan.vocabulary import ElementKind, ScanKind, Ties

Arrays = Mapping[str, Pointer]


def extents(desc: Any) -> tuple[int, int]:
    """Lines, and their length."""
    shape = desc.input_shape or (1,)
    return math.prod((*shape[: desc.scan_axis], *shape[desc.scan_axis + 1 :])), shape[
        desc.scan_axis
    ]


def _is_cummin(desc: Any) -> I32:
    """Signs are turned for cummin, which makes it cummax."""
    return I32(int(desc.kind.value == ScanKind.CUMMIN.value))


def _is_last(desc: Any) -> I32:
    return I32(int(desc.ties is Ties.LAST))


class Work:
    """One call: its lines, its element type and its place in the workspace."""

    def __init__(
        self, desc: Any, space: Space, arrays: Arrays, per_line: Collection[str] = ()
    ) -> None:
        self.desc = desc
        self.element: ElementKind = desc.element
        self.compute = desc.element.compute
        self.arrays = arrays
        width = 16 // self.element.itemsize
        self.lines = Lines(space, extents(desc)[0], vector_of(space, width, per_line))

    def array(self, name: str) -> Pointer:
        """Of an array that this form has no use for: any address."""
        return self.arrays.get(name) or self.lines.space.pointer(
            next(iter(self.lines.space.offsets))
        )

    def all(self, *names: str) -> tuple[Pointer, ...]:
        return tuple(self.array(name) for name in names)

    # Running extremes and plain scans

    def scan(self, kind: str, flip: I32, phase: str, x: str, y: str) -> Launch:
        w = self.lines
        return Launch(
            f"scan_lines/{kind}/{self.element}/{phase}/{w.form}",
            w.grid,
            (
                w.pointer(x),
                w.pointer(y),
                *self.all("block", "chunk"),
                *w.sizes,
                flip,
                *w.strides(x, y),
            ),
        )

    def rows(self, kind: str, flip: I32, phase: str, x: str, y: str) -> Launch:
        w = self.lines
        pieces = w.count * (1 if phase == "whole" else w.chunks)
        rows = rows_of(w.form)
        _, e1, e0, n = w.space.extents
        return Launch(
            f"scan_rows/{kind}/{self.element}/{phase}/{w.form}{rows_suffix(rows)}",
            (-(-pieces // rows), 1, 1),
            (
                w.pointer(x),
                w.pointer(y),
                self.array("chunk"),
                *(I32(v) for v in (w.count, e0, e1)),
                I64(n),
                I32(w.chunks),
                flip,
                *w.strides(x, y),
            ),
        )

    def chain(self, kind: str) -> Launch:
        """Totals of chunks become C3."""
        w = self.lines
        order = (I32(v) for v in w.order(w.chunks))
        return Launch(
            f"scan_chain/{kind}/{self.compute}",
            w.programs(1),
            (self.array("chunk"), I32(w.count), I32(w.chunks), *order),
        )

    def between(self, kind: str, *, from_end: bool = False) -> Iterator[Launch]:
        """Totals of blocks become C2 and C3; `from_end`: the first block is the last."""
        w = self.lines
        across, along = w.order(w.blocks)
        block = self.array("block")
        if from_end:
            last = (w.blocks - 1) * along * self.compute.itemsize
            block, along = Pointer(block.name, block.offset + last), -along
        chunk = tuple(I32(v) for v in w.order(w.chunks))
        sizes = (I32(w.count), I32(w.blocks), I32(w.chunks), I32(across), I32(along), *chunk)
        yield Launch(
            f"scan_compose/{kind}/{self.compute}",
            w.programs(w.chunks),
            (block, self.array("chunk"), *sizes),
        )
        yield self.chain(kind)

    def indices(self, phase: str, index: str) -> Launch:
        w, desc = self.lines, self.desc
        origin, sign = (w.n - 1, -1) if desc.reverse else (0, 1)
        return Launch(
            f"index_lines/{self.element}/{index}/{phase}/{w.form}",
            w.grid,
            (
                w.pointer("x"),
                w.pointer("indices"),
                *self.all("block", "block_at", "chunk", "chunk_at"),
                *w.sizes,
                _is_cummin(desc),
                _is_last(desc),
                I64(origin),
                I64(sign),
                *w.strides("x", "indices"),
            ),
        )

    def indices_between(self) -> Iterator[Launch]:
        w, last = self.lines, _is_last(self.desc)
        chunk = tuple(I32(v) for v in w.order(w.chunks))
        yield Launch(
            f"index_compose/{self.compute}",
            w.programs(w.chunks),
            (
                *self.all("block", "block_at", "chunk", "chunk_at"),
                *(I32(v) for v in (w.count, w.blocks, w.chunks)),
                *w.numbers,
                last,
            ),
        )
        yield Launch(
            f"index_chain/{self.compute}",
            w.programs(1),
            (*self.all("chunk", "chunk_at"), I32(w.count), I32(w.chunks), *chunk, last),
        )

    # Recurrences

    def carries(self, kind: str, given: I32 | None = None) -> Iterator[Launch]:
        """L of blocks becomes L2 and T2; `given`: whether a line may have a carry to begin with."""
        w = self.lines
        blocks = self.all("last", "edge", "power")
        yield Launch(
            f"compose/{kind}/{self.compute}",
            w.programs(w.chunks),
            (*blocks, *(I32(v) for v in (w.count, w.blocks, w.chunks)), *w.numbers),
        )
        numbers = (I32(w.count), I32(w.chunks), *w.numbers)
        yield Launch(
            f"chain/{'linear' if given else kind}/{self.compute}",
            w.programs(1),
            (*blocks, self.array("carry"), *numbers, *((given,) if given else ())),
        )

    def log(self, phase: str) -> Launch:
        w = self.lines
        return Launch(
            f"log_lines/{self.element}/{phase}/{w.form}",
            w.grid,
            (
                w.pointer("x"),
                w.pointer("y"),
                *self.all("block", "chunk", "last", "edge", "carry"),
                *w.sizes,
                *w.strides("x", "y"),
            ),
        )

    def gradient(self, kind: str, phase: str) -> Launch:
        w = self.lines
        x, y = w.pointer("dy"), w.pointer("dy")
        x_strides = y_strides = w.strides("dy")
        if kind == "extreme":
            x, x_strides = self.array("words"), self._word_strides
        else:
            x, y = w.pointer("x"), w.pointer("y")
            x_strides, y_strides = w.strides("x"), w.strides("y")
        return Launch(
            f"gradient_lines/{kind}/{self.element}/{phase}/{w.form}",
            w.grid,
            (
                w.pointer("dy"),
                x,
                y,
                w.pointer("dx"),
                *self.all("last", "edge", "power", "carry"),
                *w.sizes,
                *w.strides("dy"),
                *x_strides,
                *y_strides,
                *w.strides("dx"),
            ),
        )

    @property
    def _word_strides(self) -> tuple[I64, ...]:
        """Of the records' words, which lie as the pieces are numbered."""
        w = self.lines
        across, along = w.order(words_of(w.n))
        _, e1, e0, _ = w.space.extents
        return I64(along), I64(across), I64(across * e0), I64(across * e0 * e1)

    def records(self, phase: str) -> Launch:
        w = self.lines
        return Launch(
            f"records/{self.element}/{phase}/{w.form}",
            w.grid,
            (
                w.pointer("x"),
                *self.all("words", "block", "chunk"),
                *w.sizes,
                _is_cummin(self.desc),
                _is_last(self.desc),
                *w.strides("x"),
                *self._word_strides,
            ),
        )


# Forms by op: the arrays in the workspace, and the launches -------------------------------------


def _arrays(op: str, desc: Any) -> tuple[str, ...]:
    whole = is_whole(*extents(desc))
    if op == "scan_backward" and desc.kind in (ScanKind.CUMMAX, ScanKind.CUMMIN):
        return ("words",) if whole else ("words", "block", "chunk", "last", "power", "carry")
    if whole:
        return ()
    if op == "scan_indices":
        return ("block", "chunk", "block_at", "chunk_at")
    if desc.kind is ScanKind.LOGCUMSUMEXP:
        return (
            ("block", "chunk", "last", "edge", "carry")
            if op == "scan"
            else ("last", "edge", "carry")
        )
    if op == "scan_backward" and desc.kind is ScanKind.CUMPROD:
        return ("last", "edge", "power", "carry")
    return ("block", "chunk")


def _scan(w: Work, layouts: Mapping[str, Layout]) -> Iterator[Launch]:
    if w.desc.kind is not ScanKind.LOGCUMSUMEXP:
        yield from _plain(w, "x", "y")
    elif w.lines.whole:
        yield w.log("whole")
    else:
        yield w.scan("cummax", I32(0), "totals", "x", "y")
        yield from w.between("cummax")
        yield w.log("local")
        yield from w.carries("log")
        yield w.log("apply")


def _plain(w: Work, x: str, y: str) -> Iterator[Launch]:
    flip = _is_cummin(w.desc)
    kind = "cummax" if flip.value else str(w.desc.kind)
    rows = w.lines.rows
    if rows == "whole":
        yield w.rows(kind, flip, "whole", x, y)
    elif rows:
        yield w.rows(kind, flip, "totals", x, y)
        yield w.chain(kind)
        yield w.rows(kind, flip, "apply", x, y)
    elif w.lines.whole:
        yield w.scan(kind, flip, "whole", x, y)
    else:
        yield w.scan(kind, flip, "totals", x, y)
        yield from w.between(kind)
        yield w.scan(kind, flip, "apply", x, y)


def _scan_backward(w: Work, layouts: Mapping[str, Layout]) -> Iterator[Launch]:
    kind = w.desc.kind
    if kind is ScanKind.CUMSUM:
        yield from _plain(w, "dy", "dx")
        return
    name = {ScanKind.CUMPROD: "cumprod", ScanKind.LOGCUMSUMEXP: "log_backward"}.get(kind, "extreme")
    whole = w.lines.whole
    if name == "extreme":
        if not whole:
            yield w.scan("cummax", _is_cummin(w.desc), "totals", "x", "dx")
            yield from w.between("cummax", from_end=True)
        yield w.records("whole" if whole else "apply")
    if whole:
        yield w.gradient(name, "whole")
    else:
        yield w.gradient(name, "local")
        yield from w.carries(name)
        yield w.gradient(name, "apply")


def _scan_indices(w: Work, layouts: Mapping[str, Layout]) -> Iterator[Launch]:
    index = str(element(layouts["indices"].dtype))
    if w.lines.whole:
        yield w.indices("whole", index)
    else:
        yield w.indices("totals", "i64")
        yield from w.indices_between()
        yield w.indices("apply", index)


def _program(
    op: str, launches: Callable[[Work, Mapping[str, Layout]], Iterator[Launch]]
) -> Callable[[Descriptor, Mapping[str, Layout]], Program]:
    def program(desc: Any, layouts: Mapping[str, Layout]) -> Program:
        lines, n = extents(desc)
        if lines * n == 0:
            return Program(())
        arrays, size = workspace(_arrays(op, desc), lines, n, desc.element.compute.itemsize)
        # A gradient runs from the scan's end.
        reverse = desc.reverse != (op == "scan_backward")
        space = simplified(layouts, desc.scan_axis, reverse)
        works = (Work(desc, part, arrays) for part in parts(space))
        return Program(tuple(launch for w in works for launch in launches(w, layouts)), size)

    return program


def _workspace(op: str) -> Callable[[Descriptor], int]:
    def size(desc: Any) -> int:
        lines, n = extents(desc)
        compute = desc.element.compute.itemsize
        return workspace(_arrays(op, desc), lines, n, compute)[1] if lines * n else 0

    return size


_LAUNCHES = {"scan": _scan, "scan_backward": _scan_backward, "scan_indices": _scan_indices}
_INCLUSIVE = {op: _program(op, launches) for op, launches in _LAUNCHES.items()}
_SIZES = {op: _workspace(op) for op in _LAUNCHES}
_EXCLUSIVE = {
    "scan": Exclusive(("y",), lambda desc: (End("y", value=IDENTITY[desc.kind]),)),
    "scan_backward": Exclusive(("dy", "y"), lambda desc: (End("dx", last=True),)),
}


def _scan_with_indices(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    """Two programs: positions first, since the values may take the place of x."""
    at = _INCLUSIVE["scan_indices"](desc, {name: layouts[name] for name in ("x", "indices")})
    values = _INCLUSIVE["scan"](desc, {name: layouts[name] for name in ("x", "y")})
    size = max(at.workspace_size, values.workspace_size)
    return Program((*at.launches, *values.launches), size)


PROGRAMS = {
    **_INCLUSIVE,
    **{op: exclusive.program(_INCLUSIVE[op], how) for op, how in _EXCLUSIVE.items()},
    "scan_with_indices": _scan_with_indices,
}
WORKSPACE = {
    **_SIZES,
    **{op: exclusive.workspace(_SIZES[op]) for op in _EXCLUSIVE},
    "scan_with_indices": _SIZES["scan_indices"],  # more than the scan needs
}
