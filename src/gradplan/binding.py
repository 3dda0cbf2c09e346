"""From the tensors and options of a call to its descriptor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradplan.declaration import Descriptor, Op, Tensor
from gradplan.declaration.tensors import DerivedAxes, Replaced, sizes_of
from gradplan.signatures import Signature, expected_axes
from gradplan.tensors import TORCH, dtype_name_of, framework_of
from gradplan.vocabulary import ElementKind, Error, InvalidProblem, Unsupported

Shape = tuple[int, ...]


def bind_axes(
    name: str,
    op: Op,
    shapes: Sequence[tuple[Tensor, Shape]],
    options: Mapping[str, Any] | None = None,
) -> dict[str, Shape]:
    """The extents of every axis that the inputs have; a pack has any number of them.

    Axes that follow from others are left to `check_derived`, which knows the descriptor. `options`
    say which axis it is that a tensor has another extent of.
    """
    bound: dict[str, Shape] = {}
    sources: dict[str, Tensor] = {}
    declared = [tensor for tensor, _ in shapes]
    # A tensor with two packs (dout [..., ...]) waits until another one (indices) has bound one, and
    # what is optional has to fit the rest.
    waiting = sorted(
        shapes, key=lambda item: (item[0].optional, len(op.packs.intersection(item[0].axes)))
    )
    for tensor, shape in waiting:
        where = f"{name}: {tensor.function_name}"
        if tensor.axes == (op.shape_field,):
            whole = bound.setdefault(tensor.axes[0], shape)
            if whole != shape:
                raise InvalidProblem(
                    f"{where}: expected shape {list(whole)} as in the other tensors; "
                    f"got {list(shape)}"
                )
        elif not any(isinstance(axis, DerivedAxes) for axis in tensor.axes):
            _bind_sizes(name, op, tensor, shape, bound, sources, declared)
        elif tensor.pointers:
            _bind_pointers(where, tensor, shape, bound)
            sources.setdefault(tensor.axes[0].field, tensor)  # type: ignore[attr-defined]
    for tensor, shape in shapes:
        if not tensor.optional and isinstance(tensor.axes[0], Replaced):
            _bind_replaced(tensor.axes[0], shape, shapes, bound, options or {})
    return bound


def _bind_replaced(
    axes: Replaced,
    shape: Shape,
    shapes: Sequence[tuple[Tensor, Shape]],
    bound: dict[str, Shape],
    options: Mapping[str, Any],
) -> None:
    """What a tensor tells whose shape has another extent along the axis that is worked along."""
    axis, rank = options.get(axes.field, -1), len(shape)
    inside = isinstance(axis, int) and -rank <= axis < rank
    if axes.shape not in bound:  # no tensor has it: indices along the axis say the rest
        members = next(
            (s for t, s in shapes if t.index and t.axes != (axes,) and len(s) == 1), (1,)
        )
        at = axis % rank if inside else rank
        bound[axes.shape] = (*shape[:at], *members, *shape[at + 1 :])
    # Of a shape that does not fit `check_derived` says so.
    bound[axes.size] = (shape[axis] if inside else 0,)


def _bind_sizes(
    name: str,
    op: Op,
    tensor: Tensor,
    shape: Shape,
    bound: dict[str, Shape],
    sources: dict[str, Tensor],
    declared: Sequence[Tensor],
) -> None:
    """Adds the axes of a tensor to those that are `bound`, which `sources` has the tensors of."""
    open_packs = [a for a in tensor.axes if a in op.packs and a not in bound]
    taken = sum(len(bound[a]) if a in bound else 1 for a in tensor.axes if a not in open_packs)
    spare = len(shape) - taken
    if spare < 0 or (spare > 0 and not open_packs):
        expected = expected_axes(op, tensor)
        raise InvalidProblem(
            f"{name}: {tensor.function_name}: expected shape {expected}; got {list(shape)}"
        )
    at = 0
    for axis in tensor.axes:
        rank = spare if axis in open_packs else len(bound.get(axis, (0,)))
        extent = shape[at : at + rank]
        at += rank
        source = sources.setdefault(axis, tensor)
        if bound.setdefault(axis, extent) != extent:
            # The order of binding is ours: for the caller the first argument comes first.
            right, wrong = (source, bound[axis]), (tensor, extent)
            if declared.index(source) > declared.index(tensor):
                right, wrong = wrong, right
            raise InvalidProblem(
                f"{name}: {wrong[0].function_name}: expected {axis} {_extent(right[1])} as in "
                f"{right[0].function_name}; got {_extent(wrong[1])}"
            )


def _bind_pointers(where: str, tensor: Tensor, shape: Shape, bound: dict[str, Shape]) -> None:
    (axis,) = tensor.axes
    assert isinstance(axis, DerivedAxes)
    if len(shape) != 1 or shape[0] < 1:
        raise InvalidProblem(f"{where}: expected shape [{axis}]; got {list(shape)}")
    extent = (shape[0] - 1,)
    if bound.setdefault(axis.field, extent) != extent:
        raise InvalidProblem(
            f"{where}: expected {_extent(bound[axis.field])} + 1 elements; got {shape[0]}"
        )


def _extent(extent: Shape) -> str:
    return str(extent[0]) if len(extent) == 1 else str(list(extent))


def check_derived(name: str, desc: Descriptor, shapes: Sequence[tuple[Tensor, Shape]]) -> None:
    """Raises for tensors whose axes follow from others and that have a different shape."""
    for tensor, shape in shapes:
        if any(isinstance(axis, DerivedAxes) for axis in tensor.axes):
            expected = tensor.shape(desc)
            if shape != expected:
                raise InvalidProblem(
                    f"{name}: {tensor.function_name}: expected shape {list(expected)}; "
                    f"got {list(shape)}"
                )


def broadcast_shape(name: str, inputs: Sequence[tuple[Tensor, Shape]]) -> Shape:
    try:
        return np.broadcast_shapes(*(shape for _, shape in inputs))
    except ValueError:
        got = ", ".join(f"{t.function_name} {list(shape)}" for t, shape in inputs)
        raise InvalidProblem(f"{name}: expected shapes that broadcast; got {got}") from None


def element_of(name: str, op: Op, tensor: Tensor, x: Any) -> ElementKind:
    where = f"{name}: {tensor.function_name}"
    dtype = dtype_name_of(x, where)
    kind = ElementKind.from_dtype_name(dtype)
    if kind is None or kind not in op.descriptor.elements:
        known = [k.dtype_name for k in ElementKind if k in op.descriptor.elements]
        whole = dtype.startswith(("int", "uint", "bool"))
        hint = f"; convert it with {_conversion(x)}" if whole else ""
        raise Unsupported(f"{where}: expected one of {', '.join(known)}; got {dtype}{hint}")
    return kind


def _conversion(x: Any) -> str:
    """How a framework's tensors become numbers that kernels compute with."""
    return "x.float()" if framework_of(x) is TORCH else "x.astype('float32')"


def make_descriptor(
    signature: Signature, bound: Mapping[str, Shape], options: Mapping[str, Any]
) -> Descriptor:
    """The descriptor; its errors speak of the function and its parameters."""
    op, function = signature.op, signature.function
    values: dict[str, Any] = {**function.fixed, **options}
    for name, extent in bound.items():
        values[name] = extent if name == op.shape_field else math.prod(extent)
    try:
        return op.descriptor(**values)
    except Error as error:
        message = str(error)
        for parameter in signature.parameters:
            prefix = f"{op.descriptor.__name__}: {parameter.info.name}:"
            if message.startswith(prefix):
                message = f"{function.name}: {parameter.name}:{message[len(prefix) :]}"
        raise type(error)(message) from None


def bind(
    signature: Signature,
    shapes: Sequence[tuple[Tensor, Shape]],
    element: ElementKind,
    options: Mapping[str, Any],
) -> tuple[Descriptor, dict[str, Shape]]:
    """The descriptor of a call, and the extents of its axes as the caller has them.

    `shapes` are those of the inputs that were given; `options` go by the descriptor's names.
    """
    op, name = signature.op, signature.function.name
    if op.broadcasts:
        bound = {shapes[0][0].axes[0]: broadcast_shape(name, shapes)}
    else:
        bound = bind_axes(name, op, shapes, options)
    desc = make_descriptor(signature, bound, {**options, "element": element})
    check_derived(name, desc, shapes)
    return desc, bound


def unpacked_shape(tensor: Tensor, bound: Mapping[str, Shape], desc: Descriptor) -> Shape:
    """The shape of an output for the caller, packs spelt out."""
    return tuple(
        size
        for axis in tensor.axes
        for size in (bound[axis] if axis in bound else sizes_of(axis, desc))
    )
