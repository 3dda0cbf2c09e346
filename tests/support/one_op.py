"""An op with its gradient: a declaration and a reference, and nothing else."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from gradplan.declaration import (
    AxisOf,
    Descriptor,
    Function,
    Gradient,
    Like,
    Module,
    Namespace,
    Op,
    Rule,
    Shape,
    Values,
    reads,
    writes,
)
from gradplan.reference import operation
from gradplan.reference.arithmetic import from_rows, to_rows
from gradplan.vocabulary import ElementKind, OpCategory


class _Fields(Descriptor):
    input_shape: Annotated[Shape, "the shape of every tensor"]
    axis: Annotated[int, AxisOf("input_shape"), "the axis"]
    element: Annotated[ElementKind, "the element type"]


class NeighbourProductDescriptor(_Fields):
    """Each element times the one before it along an axis, the first times itself."""


class NeighbourProductBackwardDescriptor(_Fields):
    """The gradient of x."""


def _before(xp: Namespace, x: Any, v: Values) -> Any:
    """x[i - 1] at i, 0 at the first."""
    return xp.shift(x, v["axis"], 1, 0.0)


def _after(xp: Namespace, x: Any, v: Values) -> Any:
    return xp.shift(x, v["axis"], -1, 0.0)


class _Rule(Rule):
    """y[i] = x[i] x[i-1], with x[0] for x[-1]; `first` is 1 at the first place and 0 elsewhere."""

    def _partner(self, xp: Namespace, x: Any, v: Values) -> Any:
        one = xp.full_like(x, 1.0)
        first = one - _before(xp, one, v)
        return _before(xp, x, v) + first * x

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        return t["x"] * self._partner(xp, v["x"], v) + v["x"] * self._partner(xp, t["x"], v)

    def _twisted(self, xp: Namespace, v: Values, a: Any, b: Any) -> Any:
        """The backward with x replaced: bilinear in dy and x, so this is a derivative as well."""
        return xp.call("neighbour_product_backward", **{**v, "dy": a, "x": b})

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        # The sum of c dx is that of dy times the tangent for c, which is symmetric in c and x.
        return {"x": self._twisted(xp, v, v["dy"], c["x"])}

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        return self._twisted(xp, v, v["dy"], t["x"])


def declare() -> tuple[Op, Op]:
    @operation
    def neighbour_product(x: Any, *, axis: int) -> Any:
        rows = to_rows(x, axis, False)
        before = np.concatenate([rows[:, :1], rows[:, :-1]], axis=1)
        return from_rows(rows * before, x, axis, False)

    @operation
    def neighbour_product_backward(dy: Any, x: Any, *, axis: int) -> Any:
        g, rows = to_rows(dy, axis, False), to_rows(x, axis, False)
        before = np.concatenate([rows[:, :1], rows[:, :-1]], axis=1)
        dx = g * before
        dx[:, :-1] += g[:, 1:] * rows[:, 1:]
        dx[:, :1] += g[:, :1] * rows[:, :1]
        return from_rows(dx, dy, axis, False)

    backward = Op(
        NeighbourProductBackwardDescriptor,
        OpCategory.SCAN,
        "The gradient of products of neighbours.",
        tensors=(
            reads("dy", "input_shape", doc="the gradient of y"),
            reads("x", "input_shape", doc="the values"),
            writes("dx", "input_shape", doc="the gradient of x"),
        ),
        functions=(Function("neighbour_product_backward", "Gradient of `neighbour_product`."),),
    )
    forward = Op(
        NeighbourProductDescriptor,
        OpCategory.SCAN,
        "Products of neighbours along an axis.",
        tensors=(
            reads("x", "input_shape", doc="the values"),
            writes("y", "input_shape", doc="the products"),
        ),
        functions=(
            Function(
                "neighbour_product",
                "Products of neighbours.",
                rule=_Rule(),
                torch=Like(module=Module("NeighbourProduct", "`neighbour_product` as a layer.")),
            ),
        ),
        gradient=Gradient("neighbour_product_backward", cotangents={"dy": "y"}, grads={"dx": "x"}),
    )
    return forward, backward
