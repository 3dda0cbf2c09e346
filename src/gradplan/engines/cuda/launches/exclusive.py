"""Launches of exclusive scans: the inclusive scan of all elements but the last, a place further on.

They are those of the inclusive scan, on tensors that lack one place of the axis, and one for what
is left, an end of every line (kernels/ends.py). Tensors that lack their first element mostly begin
at no multiple of 16 bytes, so rows take the form for any alignment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gradplan.declaration import Descriptor
from gradplan.engines.cuda.program import (
    F32,
    F64,
    I32,
    Argument,
    Launch,
    Layout,
    Pointer,
    Program,
    moved,
)
from gradplan.vocabulary import ElementKind

from .layouts import itemsize, simplified
from .lines import Lines, along_lines, parts
from .tiles import HELD, READ

_NOTHING = -0.0
"""What can be added to everything."""


@dataclasses.dataclass(frozen=True)
class End:
    """What goes into one element of every line of a tensor: the first, or the `last`, in the order
    of the scan; or the only one. It is `value`, or the first element of the tensor `source`."""

    tensor: str
    value: float = 0.0
    last: bool = False
    source: str = ""
    adds: bool = False
    """To what is there already."""


@dataclasses.dataclass(frozen=True)
class Exclusive:
    """What an exclusive scan does with its tensors."""

    results: tuple[str, ...]
    """Those that are one place behind: they lack the first, all others lack the last."""
    ends: Callable[[Any], tuple[End, ...]]
    """For a descriptor; those of tensors that were left out do not count."""
    per_line: tuple[str, ...] = ()
    """Tensors that have no axis of the scan."""


def _shorter(desc: Any) -> Any:
    """The inclusive scan of a problem whose tensors are not scalars."""
    shape = list(desc.input_shape)
    shape[desc.scan_axis] = max(shape[desc.scan_axis] - 1, 0)
    return dataclasses.replace(desc, input_shape=tuple(shape), exclusive=False)


def _with_an_axis(desc: Any) -> Any:
    """A scalar is a line of one element."""
    return desc if desc.input_shape else dataclasses.replace(desc, input_shape=(1,), scan_axis=0)


def _first(layout: Layout, desc: Any, *, last: bool = False) -> int:
    """Where, in bytes, the scan's first (or last) place of a tensor is."""
    axis = desc.scan_axis
    at = layout.shape[axis] - 1 if desc.reverse != last else 0
    offset: int = at * layout.strides[axis] * itemsize(layout.dtype)
    return offset


def _cut(layout: Layout, desc: Any, count: int, offset: int) -> Layout:
    """With so many places of the axis, the first of them `offset` bytes further on."""
    shape = list(layout.shape)
    shape[desc.scan_axis] = count
    aligned = layout.aligned and offset % 16 == 0
    return dataclasses.replace(layout, shape=tuple(shape), aligned=aligned)


def program(
    inclusive: Callable[[Descriptor, Mapping[str, Layout]], Program], how: Exclusive
) -> Callable[[Descriptor, Mapping[str, Layout]], Program]:
    """For scans of both kinds, from the program of an inclusive one."""

    def made(desc: Any, layouts: Mapping[str, Layout]) -> Program:
        if not desc.exclusive:
            return inclusive(desc, layouts)
        if not desc.input_shape:
            layouts = {
                name: each
                if name in how.per_line
                else dataclasses.replace(each, shape=(1,), strides=(1,))
                for name, each in layouts.items()
            }
            desc = _with_an_axis(desc)
        n = desc.input_shape[desc.scan_axis]
        if not n:  # neither a first element nor a last one
            return inclusive(_shorter(desc), layouts)
        cut, places = {}, {}
        for name, layout in layouts.items():
            if name in how.per_line:
                cut[name] = layout
                continue
            # Walked from the end, the first place is the one with the highest address.
            drops_lowest = (name in how.results) != desc.reverse
            step = layout.strides[desc.scan_axis] * itemsize(layout.dtype)
            places[name] = Pointer(name, step if drops_lowest else 0)
            cut[name] = _cut(layout, desc, n - 1, places[name].offset)
        scan = inclusive(_shorter(desc), cut)
        launches = [moved(launch, places) for launch in scan.launches]
        for end in how.ends(desc):
            if end.tensor in layouts:
                launches += _end(desc, layouts, end, how.per_line)
        return dataclasses.replace(scan, launches=tuple(launches))

    return made


def _end(
    desc: Any, layouts: Mapping[str, Layout], end: End, per_line: tuple[str, ...]
) -> Iterator[Launch]:
    lines, places = {}, {}
    reads = end.source in layouts
    for name in (end.tensor, end.source) if reads else (end.tensor,):
        layout = layouts[name]
        if name in per_line:
            layout, offset = along_lines(layout, desc), 0
        else:
            offset = _first(layout, desc, last=end.last)
        places[name] = Pointer(name, offset)
        lines[name] = _cut(layout, desc, 1, offset)
    element: ElementKind = desc.element
    number = F64 if element is ElementKind.F64 else F32
    told = I32(READ * reads + HELD * end.adds)
    value = number(_NOTHING if reads else end.value)
    x = end.source if reads else end.tensor
    space = simplified(lines, desc.scan_axis)
    for part in parts(space):
        if not part.size:
            continue
        w = Lines(part, part.size)
        _, e1, e0, _ = part.extents
        arguments: tuple[Argument, ...] = (
            w.pointer(end.tensor),
            w.pointer(x),
            *(I32(v) for v in (w.count, e0, e1)),
            told,
            value,
            *w.strides_across(end.tensor),
            *w.strides_across(x),
        )
        yield moved(Launch(f"ends/{element}", w.programs(1), arguments), places)


def workspace(size: Callable[[Descriptor], int]) -> Callable[[Descriptor], int]:
    """That of the inclusive scan which is launched."""

    def made(desc: Any) -> int:
        return size(_shorter(_with_an_axis(desc)) if desc.exclusive else desc)

    return made
