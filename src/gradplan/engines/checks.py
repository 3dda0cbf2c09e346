"""The per-call checks, in Python: for the reference engine and for `Plan.can_implement`.

The CPU engine makes the same ones in C++ (csrc/contract.cc), where they cost less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradplan.declaration import Operand
from gradplan.tensors import CPU_DEVICE, View, tensor_name, view_of
from gradplan.vocabulary import (
    BufferTooSmall,
    ElementKind,
    InvalidProblem,
    MisalignedOperand,
    Unsupported,
)

Array = np.ndarray[Any, Any]

# Effort for the exact overlap test, which is hard in the worst case; undecided counts as overlap.
_OVERLAP_EFFORT: Any = 4096  # NumPy's stubs know only two special values


def checked(plan: str, operands: Sequence[Operand], tensors: Sequence[Any]) -> list[Array | None]:
    """The tensors as ndarrays on their own memory; raises unless all of them fit the operands.

    A tensor may be None (an output that is not there yet) and then is None in the result.
    """
    views = [
        None if x is None else _check(plan, operand, x)
        for operand, x in zip(operands, tensors, strict=True)
    ]
    arrays = [None if view is None else view.array(_kind(view).dtype) for view in views]
    for i, out in enumerate(operands):
        if out.is_input or arrays[i] is None:
            continue
        for j, other in enumerate(operands):
            if j == i or arrays[j] is None or (j < i and not other.is_input):
                continue
            _check_overlap(plan, out, other, views[i], views[j], arrays[i], arrays[j])
    return arrays


def _kind(view: View) -> ElementKind:
    kind = ElementKind.from_dtype_name(view.dtype_name)
    assert kind is not None  # checked before
    return kind


def _check(plan: str, operand: Operand, x: Any) -> View:
    what = tensor_name(plan, operand.name)
    view = view_of(x, what, operand.dtype_names)
    if view.device_type != CPU_DEVICE:
        raise Unsupported(
            f"{what}: expected a CPU tensor (this plan runs on the CPU), "
            f"got one on DLPack device type {view.device_type}"
        )
    if view.dtype_name not in operand.dtype_names:
        raise InvalidProblem(
            f"{what}: expected element type {' or '.join(operand.dtype_names)}, "
            f"got {view.dtype_name}"
        )
    if view.shape != operand.shape:
        small = math.prod(view.shape) < math.prod(operand.shape)
        error = BufferTooSmall if small else InvalidProblem
        raise error(f"{what}: expected shape {list(operand.shape)}, got shape {list(view.shape)}")
    itemsize = _kind(view).itemsize
    if view.address % itemsize:
        raise MisalignedOperand(
            f"{what}: expected an address divisible by {itemsize}, "
            f"got address ending in {view.address % 64} of 64"
        )
    if not operand.is_input:
        if view.readonly:
            raise InvalidProblem(
                f"{what}: expected an array that can be written, got a read-only one"
            )
        if _overlaps_itself(view):
            raise InvalidProblem(
                f"{what}: expected an output whose elements have addresses of their own, "
                f"got strides {list(view.strides)} that overlap"
            )
    return view


def _overlaps_itself(view: View) -> bool:
    if 0 in view.shape:
        return False
    inner = 1
    for stride, extent in sorted(
        (abs(s), n) for s, n in zip(view.strides, view.shape, strict=True)
    ):
        if extent > 1:
            if stride < inner:
                return True
            inner += stride * (extent - 1)
    return False


def _same_memory(a: View, b: View) -> bool:
    return (a.address, a.dtype_name, a.shape) == (b.address, b.dtype_name, b.shape) and all(
        s == t or n <= 1 for s, t, n in zip(a.strides, b.strides, a.shape, strict=True)
    )


def _check_overlap(plan: str, out: Operand, other: Operand, u: Any, v: Any, a: Any, b: Any) -> None:
    if other.name in out.inplace and _same_memory(u, v):
        return
    try:
        overlap = np.shares_memory(a, b, max_work=_OVERLAP_EFFORT)
    except np.exceptions.TooHardError:
        overlap = True
    if overlap:
        inplace = ", or exactly the same (in place)" if other.name in out.inplace else ""
        raise InvalidProblem(
            f"{tensor_name(plan, out.name)}: expected memory apart from '{other.name}'{inplace}, "
            "got memory that overlaps it"
        )
