"""Launches of linear_scan and its gradients: the recurrence of cumprod's gradient.

`initial` and its gradient have one element a line. They are seen as tensors of the full shape whose
elements repeat along the scan, so that lines are numbered alike in all tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gradplan.declaration import Descriptor
from gradplan.engines.cuda.launches import exclusive
from gradplan.engines.cuda.launches.exclusive import End, Exclusive
from gradplan.engines.cuda.launches.layouts import simplified
from gradplan.engines.cuda.launches.lines import along_lines, is_whole, parts, workspace
from gradplan.engines.cuda.launches.scan import Work, extents
from gradplan.engines.cuda.launches.tiles import (
    D_INITIAL_WANTED,
    DA_WANTED,
    DB_WANTED,
    INITIAL_GIVEN,
)
from gradplan.engines.cuda.program import I32, I64, Argument, Launch, Layout, Pointer, Program

_PER_LINE = ("initial", "d_initial")
_BITS = {
    "initial": INITIAL_GIVEN,
    "da": DA_WANTED,
    "db": DB_WANTED,
    "d_initial": D_INITIAL_WANTED,
}
_ARRAYS = ("last", "edge", "power", "carry")


class _Linear(Work):
    @property
    def told(self) -> I32:
        return I32(sum(bit for name, bit in _BITS.items() if name in self.lines.space.offsets))

    def _there(self, name: str, other: str) -> str:
        """A tensor, or another one for its address and strides if it was left out."""
        return name if name in self.lines.space.offsets else other

    def _per_line(self, name: str) -> tuple[Pointer, tuple[Argument, ...]]:
        space = self.lines.space
        if name in space.offsets:
            return space.pointer(name), self.lines.strides_across(name)
        return self.lines.pointer("a"), (I64(0),) * 3

    def forward(self, phase: str) -> Launch:
        w = self.lines
        initial, initial_strides = self._per_line("initial")
        return Launch(
            f"linear_lines/{self.element}/{phase}/{w.form}",
            w.grid,
            (
                *(w.pointer(name) for name in ("b", "a", "b", "h")),
                initial,
                *self.all(*_ARRAYS),
                *w.sizes,
                self.told,
                *w.strides("b", "a", "b", "h"),
                *initial_strides,
            ),
        )

    def backward(self, phase: str) -> Launch:
        w = self.lines
        tensors = ("dh", "a", "h", self._there("da", "dh"), self._there("db", "dh"))
        initial, initial_strides = self._per_line("initial")
        d_initial, d_initial_strides = self._per_line("d_initial")
        return Launch(
            f"linear_gradient_lines/{self.element}/{phase}/{w.form}",
            w.grid,
            (
                *(w.pointer(name) for name in tensors),
                initial,
                d_initial,
                *self.all(*_ARRAYS),
                *w.sizes,
                self.told,
                *w.strides(*tensors),
                *initial_strides,
                *d_initial_strides,
            ),
        )


def _forward(w: _Linear) -> Iterator[Launch]:
    if w.lines.whole:
        yield w.forward("whole")
    else:
        yield w.forward("local")
        yield from w.carries("cumprod", I32(w.told.value & INITIAL_GIVEN))
        yield w.forward("apply")


def _backward(w: _Linear) -> Iterator[Launch]:
    if w.lines.whole:
        yield w.backward("whole")
    else:
        yield w.backward("local")
        yield from w.carries("cumprod")
        yield w.backward("apply")


def _program(
    launches: Callable[[_Linear], Iterator[Launch]], *, from_end: bool
) -> Callable[[Descriptor, Mapping[str, Layout]], Program]:
    def program(desc: Any, layouts: Mapping[str, Layout]) -> Program:
        lines, n = extents(desc)
        # Lines without elements have a gradient of `initial`, too.
        if not lines or (not n and "d_initial" not in layouts):
            return Program(())
        arrays, size = workspace(_arrays(desc), lines, n, desc.element.compute.itemsize)
        full = {
            name: along_lines(layout, desc) if name in _PER_LINE else layout
            for name, layout in layouts.items()
        }
        space = simplified(full, desc.scan_axis, desc.reverse != from_end)
        works = (_Linear(desc, part, arrays, _PER_LINE) for part in parts(space))
        return Program(tuple(launch for w in works for launch in launches(w)), size)

    return program


def _arrays(desc: Any) -> tuple[str, ...]:
    return () if is_whole(*extents(desc)) else _ARRAYS


def _workspace(desc: Any) -> int:
    lines, n = extents(desc)
    return workspace(_arrays(desc), lines, n, desc.element.compute.itemsize)[1]


_EXCLUSIVE = {
    "linear_scan": Exclusive(("h",), lambda desc: (End("h", source="initial"),), _PER_LINE),
    "linear_scan_backward": Exclusive(
        ("dh", "h"),
        lambda desc: (
            End("da", last=True),
            End("db", last=True),
            End("d_initial", source="dh", adds=True),  # the first result is `initial`
        ),
        _PER_LINE,
    ),
}
_INCLUSIVE = {
    "linear_scan": _program(_forward, from_end=False),
    "linear_scan_backward": _program(_backward, from_end=True),
}
PROGRAMS = {op: exclusive.program(made, _EXCLUSIVE[op]) for op, made in _INCLUSIVE.items()}
WORKSPACE = dict.fromkeys(PROGRAMS, exclusive.workspace(_workspace))
