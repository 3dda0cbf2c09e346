"""Launches of sparsemax and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from gradplan.declaration import Descriptor
from gradplan.engines.cuda.program import I32, I64, Launch, Layout, Program
from gradplan.ops.sparsemax import SparsemaxBackwardDescriptor, SparsemaxDescriptor
from gradplan.reference.sparsemax import LANES

from .choices import chosen
from .layouts import Space, simplified
from .tiles import (
    REDUCED,
    REDUCED_ACROSS,
    SHORT,
    SPARSEMAX,
    UNDERWAY,
    VECTOR,
    sparsemax_form,
)

_OUTER = 3  # axes of lines that a kernel knows


def _is_across(space: Space) -> bool:
    """Whether neighbours in memory belong to neighbouring lines, of which there are enough."""
    *_, lines, n = space.extents
    steps = [abs(s[-1]) for s in space.strides.values()]
    hops = [abs(s[-2]) for s in space.strides.values()]
    return n > 1 and lines >= REDUCED_ACROSS // 2 and sum(hops) < sum(steps)


def _is_vector(space: Space, name: str) -> bool:
    """Whether lines are contiguous, and each begins at a multiple of 16 elements."""
    *outer, n = space.extents
    *strides, step = space.strides[name]
    apart = [s for s, extent in zip(strides, outer, strict=True) if extent > 1]
    return step == 1 and space.aligned(name) and all(s % VECTOR == 0 for s in (n, *apart))


def _launch(kernel: str, names: tuple[str, ...], space: Space, lines: int, elements: int) -> Launch:
    """`lines` per program, `elements` of them at a time."""
    *outer, n = space.extents
    count = math.prod(outer)
    return Launch(
        kernel,
        (-(-count // lines), 1, 1),
        (
            *(space.pointer(name) for name in names),
            *(I32(count), I64(n), I32(-(-n // elements)), I32(outer[1]), I32(outer[2])),
            *(I64(stride) for name in names for stride in space.strides[name]),
        ),
    )


def _pieces(layouts: Mapping[str, Layout], names: tuple[str, ...], axis: int) -> list[Space]:
    space = simplified({name: layouts[name] for name in names}, axis)
    return list(space.pieces(_OUTER + 1)) if space.size else []


def sparsemax(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    assert isinstance(desc, SparsemaxDescriptor)
    names = ("x", "y")
    launches = []
    for space in _pieces(layouts, names, desc.softmax_axis):
        vector = all(_is_vector(space, name) for name in names)
        held = chosen("sparsemax.held")
        form = sparsemax_form(space.extents[-1], held, across=_is_across(space), vector=vector)
        lines, elements, _ = SPARSEMAX[form]
        kernel = f"sparsemax/{desc.element.value}/{form}"
        launches.append(_launch(kernel, names, space, lines, elements))
    return Program(tuple(launches))


def sparsemax_backward(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    assert isinstance(desc, SparsemaxBackwardDescriptor)
    names = ("dy", "y", "dx")
    launches = []
    for space in _pieces(layouts, names, desc.softmax_axis):
        if _is_across(space):
            form, lines, elements = "across", REDUCED_ACROSS, LANES
        elif space.extents[-1] <= SHORT:
            form, lines, elements = "short", REDUCED, LANES
        else:
            form, lines, elements = "along", REDUCED, LANES * UNDERWAY
        kernel = f"sparsemax_backward/{desc.element.value}/{form}"
        launches.append(_launch(kernel, names, space, lines, elements))
    return Program(tuple(launches))


def _no_workspace(desc: Descriptor) -> int:
    return 0


PROGRAMS: dict[str, Callable[[Descriptor, Mapping[str, Layout]], Program]] = {
    "sparsemax": sparsemax,
    "sparsemax_backward": sparsemax_backward,
}
WORKSPACE: dict[str, Callable[[Descriptor], int]] = dict.fromkeys(PROGRAMS, _no_workspace)
