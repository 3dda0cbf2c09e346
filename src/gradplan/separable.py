"""Along which axes an op may be cut into parts that know nothing of each other.

This follows from the declaration alone: from the roles of the axes, from what indices choose of,
and from which results have an axis. Bridges keep such axes apart where a program runs on many
devices; every other axis is whole on each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradplan.declaration import Arithmetic, AxisRole, Descriptor, Op, Tensor, TensorAxis

_APART = (AxisRole.BATCH, AxisRole.FEATURES)


def separable_axes(
    op: Op, desc: Descriptor, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> frozenset[TensorAxis]:
    """The axes that may be cut, of a call with these tensors.

    Every result must have such an axis: what has not is a sum over it, or worse. Inputs that have
    it are cut, and those that have not are the same for all parts.
    """
    tensors = {t.name: set(op.axes_of(t, desc)) for t in (*inputs, *outputs)}
    chosen = {t.into for t in (*inputs, *outputs) if t.index}
    common = set.intersection(*(tensors[t.name] for t in outputs)) if outputs else set()
    return frozenset(
        axis
        for axis in common
        if axis.field not in chosen
        and axis.field in op.field_named  # not one more than a size
        and (axis.role in _APART or _looked_up(op, axis, tensors, inputs, outputs))
    )


def _looked_up(
    op: Op, axis: TensorAxis, tensors: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> bool:
    """Whether each place of an axis of rows is a copy out of a table that the place's own index
    chooses: then the places are independent."""
    run_along = [t for t in inputs if axis in tensors[t.name]]
    return (
        axis.role is AxisRole.ROWS
        and op.arithmetic is Arithmetic.COPY
        and bool(run_along)
        and all(t.index and not t.pointers for t in run_along)
        and not any(t.index for t in outputs)
        and not any(t.pointers for t in inputs)
    )


def extents_of(
    op: Op, desc: Descriptor, tensors: Sequence[Tensor], shapes: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """The fields of `desc` that hold sizes, for tensors of other shapes along some of the axes.

    Axes that no tensor has keep their extents.
    """
    found: dict[str, Any] = {}
    for tensor, shape in zip(tensors, shapes, strict=True):
        for axis, extent in zip(op.axes_of(tensor, desc), shape, strict=True):
            if axis.field not in op.field_named:
                continue
            if axis.field == op.shape_field:
                whole = list(found.get(axis.field, getattr(desc, axis.field)))
                whole[axis.number] = extent
                found[axis.field] = tuple(whole)
            else:
                found[axis.field] = extent
    return found
