"""Ops for the tests of gradplan.jax that have a declaration and a reference, and no kernel.

A saved float; an index output and a statistic of the compute type; an optional input with a
gradient; a linear op with a sum over the batch; segments that mix rows.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from gradplan.declaration import (
    AxisOf,
    Descriptor,
    Features,
    Function,
    Gradient,
    Kind,
    Namespace,
    Op,
    Rows,
    Rule,
    Shape,
    Values,
    along,
    reads,
    reads_indices,
    without,
    writes,
)
from gradplan.reference import operation
from gradplan.vocabulary import ElementKind, OpCategory

Array = Any


class _ShapeFields(Descriptor):
    shape: Annotated[Shape, "the shape"]
    element: Annotated[ElementKind, "the element type"]


class _AxisFields(Descriptor):
    shape: Annotated[Shape, "the shape"]
    axis: Annotated[int, AxisOf("shape"), "the axis"]
    element: Annotated[ElementKind, "the element type"]


def _like(result: Array, x: Array) -> Array:
    return np.asarray(result).astype(x.dtype)


# A saved float --------------------------------------------------------------------------------


class SquareDescriptor(_ShapeFields):
    """x times x."""


class SquareBackwardDescriptor(_ShapeFields):
    """Its gradient."""


class _SquareRule(Rule):
    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        return 2.0 * v["x"] * t["x"]

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        return 2.0 * v["dy"] * t["x"]


def square() -> None:
    _declare_square(_SquareRule())


def square_without_rule() -> None:
    _declare_square(None)


def _declare_square(rule: Rule | None) -> None:
    @operation
    def square(x: Array) -> Array:
        return _like(np.float64(x) ** 2, x)

    @operation
    def square_backward(dy: Array, x: Array) -> Array:
        return _like(2 * np.float64(x) * np.float64(dy), x)

    Op(
        SquareBackwardDescriptor,  # before the forward: either order must do
        OpCategory.BINARY,
        "The gradient of a square.",
        tensors=(
            reads("x", "shape", doc="the values"),  # not where a call has it
            reads("dy", "shape", doc="the gradient of y"),
            writes("dx", "shape", doc="the gradient of x"),
        ),
        functions=(Function("square_backward", "Gradient of `square`."),),
    )
    Op(
        SquareDescriptor,
        OpCategory.BINARY,
        "Squares.",
        tensors=(reads("x", "shape", doc="the values"), writes("y", "shape", doc="the squares")),
        functions=(Function("square", "Squares of everything.", rule=rule),),
        gradient=Gradient("square_backward", {"dy": "y"}, {"dx": "x"}),
    )


# An index output and a statistic --------------------------------------------------------------


class TimesSumDescriptor(_AxisFields):
    """x times its sum along an axis."""


class TimesSumBackwardDescriptor(_AxisFields):
    """Its gradient."""


def _total(xp: Namespace, x: Any, axis: int) -> Any:
    """The sum along an axis, at every place of it."""
    before, after = (xp.call("cumsum", x=x, scan_axis=axis, reverse=r) for r in (False, True))
    return before + after - x


class _TimesSumRule(Rule):
    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        return t["x"] * _total(xp, v["x"], v["axis"]) + v["x"] * _total(xp, t["x"], v["axis"])

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        x, dy, axis = t["x"], v["dy"], v["axis"]
        return dy * _total(xp, x, axis) + _total(xp, dy * x, axis)


def times_sum() -> None:
    @operation
    def times_sum(x: Array, *, axis: int) -> tuple[Array, Array, Array]:
        wide = np.float64(x)
        total = wide.sum(axis, keepdims=True)
        statistic = np.float64 if x.dtype == np.float64 else np.float32
        largest = np.asarray(wide.argmax(axis), np.int64)
        return _like(wide * total, x), largest, total.squeeze(axis).astype(statistic)

    @operation
    def times_sum_backward(dy: Array, x: Array, total: Array, *, axis: int) -> Array:
        g, wide = np.float64(dy), np.float64(x)
        return _like(
            g * np.expand_dims(np.float64(total), axis) + (g * wide).sum(axis, keepdims=True), x
        )

    Op(
        TimesSumDescriptor,
        OpCategory.SOFTMAX,
        "x times its sum.",
        tensors=(
            reads("x", "shape", doc="the values"),
            writes("y", "shape", doc="the products"),
            writes("largest", without("axis"), kind=Kind.INDEX, into="axis", doc="where"),
            writes(
                "total", without("axis"), kind=Kind.COMPUTE, differentiable=False, doc="the sum"
            ),
        ),
        functions=(Function("times_sum", "x times its sum.", rule=_TimesSumRule()),),
        gradient=Gradient("times_sum_backward", {"dy": "y"}, {"dx": "x"}),
    )
    Op(
        TimesSumBackwardDescriptor,
        OpCategory.SOFTMAX,
        "The gradient of x times its sum.",
        tensors=(
            reads("dy", "shape", doc="the gradient of y"),
            reads("x", "shape", doc="the values"),
            reads("total", without("axis"), kind=Kind.COMPUTE, doc="the sum"),
            writes("dx", "shape", doc="the gradient of x"),
        ),
        functions=(Function("times_sum_backward", "Gradient of `times_sum`."),),
    )


# An optional input ----------------------------------------------------------------------------


class GainDescriptor(_ShapeFields):
    """x times a gain, if there is one."""


class GainBackwardDescriptor(_ShapeFields):
    """Its gradients."""


class _GainRule(Rule):
    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        if v["factor"] is None:
            return t["x"]
        return t["x"] * v["factor"] + v["x"] * t["factor"]

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        if v["factor"] is None:
            return None
        return {"x": v["dy"] * t["factor"], "factor": v["dy"] * t["x"]}


def gain() -> None:
    @operation
    def gain(x: Array, factor: Array | None = None) -> Array:
        return x.copy() if factor is None else _like(np.float64(x) * np.float64(factor), x)

    @operation
    def gain_backward(dy: Array, x: Array, factor: Array | None = None) -> tuple[Array, Array]:
        g = np.float64(dy)
        dx = g if factor is None else g * np.float64(factor)
        return _like(dx, x), _like(g * np.float64(x), x)

    Op(
        GainDescriptor,
        OpCategory.BINARY,
        "x times a gain.",
        tensors=(
            reads("x", "shape", doc="the values"),
            reads("factor", "shape", optional=True, doc="the gain"),
            writes("y", "shape", doc="the products"),
        ),
        functions=(Function("gain", "x times a gain.", rule=_GainRule()),),
        gradient=Gradient("gain_backward", {"dy": "y"}, {"dx": "x", "dfactor": "factor"}),
    )
    Op(
        GainBackwardDescriptor,
        OpCategory.BINARY,
        "The gradients of x times a gain.",
        tensors=(
            reads("dy", "shape", doc="the gradient of y"),
            reads("x", "shape", doc="the values"),
            reads("factor", "shape", optional=True, doc="the gain"),
            writes("dx", "shape", doc="the gradient of x"),
            writes("dfactor", "shape", optional=True, doc="the gradient of the gain"),
        ),
        functions=(Function("gain_backward", "Gradients of `gain`."),),
    )


# Linear, with a sum over the batch ------------------------------------------------------------


class BiasDescriptor(_AxisFields):
    """x plus a bias along an axis, if there is one."""


class BiasBackwardDescriptor(_AxisFields):
    """Its gradients."""


def bias() -> None:
    def along_axis(b: Array, like: Array, axis: int) -> Array:
        return np.expand_dims(b, [i for i in range(like.ndim) if i != axis])

    @operation
    def bias(x: Array, b: Array | None = None, *, axis: int) -> Array:
        return x.copy() if b is None else _like(x + along_axis(b, x, axis), x)

    @operation
    def bias_backward(dy: Array, *, axis: int) -> tuple[Array, Array]:
        others = tuple(i for i in range(dy.ndim) if i != axis)
        return dy.copy(), _like(np.float64(dy).sum(others), dy)

    Op(
        BiasDescriptor,
        OpCategory.BINARY,
        "x plus a bias.",
        tensors=(
            reads("x", "shape", doc="the values"),
            reads("b", along("axis"), optional=True, doc="the bias"),
            writes("y", "shape", doc="the sums"),
        ),
        functions=(Function("bias", "x plus a bias."),),
        gradient=Gradient("bias_backward", {"dy": "y"}, {"dx": "x", "db": "b"}),
    )
    Op(
        BiasBackwardDescriptor,
        OpCategory.BINARY,
        "The gradients of x plus a bias.",
        tensors=(
            reads("dy", "shape", doc="the gradient of y"),
            writes("dx", "shape", doc="the gradient of x"),
            writes("db", along("axis"), optional=True, doc="the gradient of the bias"),
        ),
        functions=(Function("bias_backward", "Gradients of `bias`."),),
    )


# Rows that belong together --------------------------------------------------------------------


class ShareDescriptor(Descriptor):
    """Each row minus the sum of its segment, of which no tensor tells how many there are."""

    num_inputs: Annotated[Rows, "the number of rows"]
    dim: Annotated[Features, "the elements of a row"]
    num_segments: Annotated[Rows, "the number of segments"]
    element: Annotated[ElementKind, "the element type"]


def share() -> None:
    @operation
    def share(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
        kept = (segment_ids >= 0) & (segment_ids < num_segments)
        sums = np.zeros((num_segments + 1, x.shape[1]))
        at = np.where(kept, segment_ids, num_segments)
        np.add.at(sums, at, np.float64(x))
        return _like(np.where(kept[:, None], np.float64(x) - sums[at], 0.0), x)

    Op(
        ShareDescriptor,
        OpCategory.SEGMENT,
        "Rows minus the sum of their segment.",
        tensors=(
            reads("x", "num_inputs", "dim", doc="the rows"),
            reads_indices("segment_ids", "num_inputs", into="num_segments", doc="the segments"),
            writes("y", "num_inputs", "dim", doc="the differences"),
        ),
        functions=(Function("share", "Rows minus the sum of their segment."),),
    )


ALL = (square, times_sum, gain, bias, share)
