"""Launches of lerp and its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradplan.declaration import Descriptor
from gradplan.engines.cuda.program import (
    F32,
    F64,
    I32,
    I64,
    Argument,
    Launch,
    Layout,
    Program,
)
from gradplan.ops.binary import BinaryParamBackwardDescriptor, BinaryParamDescriptor
from gradplan.vocabulary import ElementKind

from .layouts import Space, simplified
from .tiles import FLAT, TILE

_VECTOR = 16  # what the contiguous form's elements come in multiples of
_OUTER = 3  # axes of the strided form, beside the last


def _weights(param: float, kind: ElementKind) -> tuple[Argument, Argument, bool]:
    """w and 1 - w as the reference rounds them, and whether |w| < 0.5."""
    with np.errstate(all="ignore"):
        compute: Any = kind.compute.dtype.type
        w = compute(param)
        rest = compute(1) - w
    typed = F64 if kind is ElementKind.F64 else F32
    return typed(float(w)), typed(float(rest)), bool(abs(w) < 0.5)


def _launches(
    name: str, kind: ElementKind, layouts: Mapping[str, Layout], numbers: Sequence[Argument]
) -> Iterator[Launch]:
    """One elementwise kernel over tensors of one shape, given in the kernel's order."""
    space = simplified(layouts)
    if not space.size:
        return
    key = f"{name}/{kind.value}"
    if space.rank == 1 and all(space.unit(n) and space.aligned(n) for n in layouts):
        whole = space.size // _VECTOR * _VECTOR
        if whole:
            pointers = [space.pointer(n) for n in layouts]
            yield Launch(
                f"{key}/contiguous", (-(-whole // FLAT), 1, 1), (*pointers, I64(whole), *numbers)
            )
        if whole == space.size:
            return
        space = space.behind(whole)
    for piece in space.pieces(_OUTER + 1):
        yield _strided(key, piece, layouts, numbers)


def _strided(
    key: str, space: Space, names: Mapping[str, Layout], numbers: Sequence[Argument]
) -> Launch:
    *outer, columns = space.extents
    rows = math.prod(outer)
    form = "rows" if rows == outer[-1] else "strided"
    parts = -(-columns // TILE[1])
    return Launch(
        f"{key}/{form}",
        (-(-rows // TILE[0]) * parts, 1, 1),
        (
            *(space.pointer(n) for n in names),
            I32(rows),
            I64(columns),
            I32(parts),
            I32(outer[1]),
            I32(outer[2]),
            *(I64(stride) for n in names for stride in space.strides[n]),
            *numbers,
        ),
    )


def lerp(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    assert isinstance(desc, BinaryParamDescriptor)
    w, rest, near = _weights(desc.param, desc.element)
    tensors = {name: layouts[name] for name in ("a", "b", "y")}
    return Program(tuple(_launches("lerp", desc.element, tensors, (w, rest, I32(near)))))


def lerp_backward(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    """Both gradients in one launch; one that is left out is not computed."""
    assert isinstance(desc, BinaryParamBackwardDescriptor)
    w, rest, _ = _weights(desc.param, desc.element)
    factors = {name: f for name, f in (("da", rest), ("db", w)) if name in layouts}
    tensors = {name: layouts[name] for name in ("dy", *factors)}
    kernel, numbers = "scale", tuple(factors.values())
    if len(factors) == 2:
        kernel, numbers = "lerp_backward", (w, rest)
    return Program(tuple(_launches(kernel, desc.element, tensors, numbers)) if factors else ())


def _no_workspace(desc: Descriptor) -> int:
    return 0


PROGRAMS: dict[str, Callable[[Descriptor, Mapping[str, Layout]], Program]] = {
    "binary_param": lerp,
    "binary_param_backward": lerp_backward,
}
WORKSPACE: dict[str, Callable[[Descriptor], int]] = dict.fromkeys(PROGRAMS, _no_workspace)
