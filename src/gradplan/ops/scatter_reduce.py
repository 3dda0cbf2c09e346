"""Sums, means, products and extremes of the elements with the same index along an axis.

    output[.., s, ..] = reduction over i with indices[.., i, ..] == s of x[.., i, ..]

With `initial` a place starts from its element of that: it is one more member, which stands before
the others. With include_self=False it stands only where there are no others. Without `initial` a
place without members is 0 (sum, mean), 1 (prod), -inf (amax) or inf (amin). For a gradient g of a
place with k members, `initial` included where it takes part:

    sum         g
    mean        g / k
    prod        g times the product of the others; nothing is divided
    amax, amin  g to the extreme; of equal ones to the first, to the last, or a share to each

Members are combined in ascending i, in blocks of 256 (docs/numerics.md). Indices outside of
[0, size) raise or are skipped, as `bounds` says.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from gradplan.declaration import (
    AxisOf,
    Descriptor,
    Extent,
    Figure,
    Function,
    Gradient,
    Like,
    Namespace,
    Op,
    Peer,
    Rule,
    Shape,
    Tensor,
    Values,
    WordInTurn,
    reads,
    reads_indices,
    replaced,
    writes,
)
from gradplan.ops.gather import axis_of, check_smaller, cut, from_start, line, others
from gradplan.vocabulary import Bounds, ElementKind, OpCategory, ScatterKind, SegmentTies


class _Fields(Descriptor):
    shape: Annotated[Shape, "the shape of what is reduced"]
    axis: Annotated[int, AxisOf("shape"), "the axis that indices are along"]
    size: Annotated[Extent, "how many there are along the axis to point to"]
    element: Annotated[ElementKind, "the element type"]
    reduce: Annotated[ScatterKind, WordInTurn(ScatterKind), "the reduction"] = ScatterKind.SUM
    include_self: Annotated[bool, "whether `initial` counts where there are members as well"] = True


class ScatterReduceDescriptor(_Fields):
    """A reduction of the elements with the same index along an axis."""

    bounds: Annotated[Bounds, "skip indices outside of [0, size), or raise"] = Bounds.SKIP


class ScatterReduceBackwardDescriptor(_Fields):
    """The gradients of scatter_reduce. `ties` says which of equal extremes receives it."""

    ties: Annotated[
        SegmentTies, "which of several equal extremes receives the gradient, or all of them a share"
    ] = SegmentTies.FIRST
    bounds: Annotated[Bounds, "skip indices outside of [0, size), or raise"] = Bounds.SKIP


_TABLE = replaced("axis", "size")


# Derivatives of the gradients ------------------------------------------------------------------


class _Weighted(Rule):
    """A gradient is d_output times weights, which are the gradient for d_output = 1.

    Weights depend on the values for products alone: there their own derivatives leave out one more.
    """

    def _sum(self, xp: Namespace, v: Values, x: Any) -> Any:
        return xp.call("scatter_add", **{**v, "x": x})

    def _spread(self, xp: Namespace, v: Values, table: Any) -> Any:
        return xp.call("scatter_add_backward", **{**v, "d_output": table})

    def _weights(self, xp: Namespace, v: Values) -> Any:
        ones = xp.full_like(v["output"], 1.0)
        return xp.call("scatter_reduce_backward", **{**v, "d_output": ones})

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        weights, of_initial = self._weights(xp, v)
        total = self._sum(xp, v, t["x"] * weights)
        start = t.get("initial")
        return total if v["initial"] is None or start is None else total + of_initial * start

    def _change(self, xp: Namespace, v: Values, c: Any) -> Any:
        """The derivative of the products of the others in the direction c.

        By recurrences along the members of a line, which start anew with every place: linear scans
        whose factor is 0 there. Nothing is divided.
        """
        shape, axis = c.shape, v["axis"]
        scan: dict[str, Any] = {"scan_axis": max(c.ndim, 1) - 1, "initial": None}
        last = scan["scan_axis"]

        def lines(z: Any) -> Any:
            return z.swapaxes(axis, last) if z.ndim else z.reshape((1,))

        ids = lines(v["indices"])
        order = xp.order(ids)
        ids, x, c = (xp.take_along(lines(z), order, last) for z in (v["indices"], v["x"], c))
        sides = []
        for reverse in (False, True):
            by = -1 if reverse else 1
            # -3 is no place, so that it begins one.
            first = xp.shift(ids, last, by, -3.0) != ids
            factor = xp.where(first, 0.0, xp.shift(x, last, by, 0.0))
            one = xp.where(first, xp.full_like(x, 1.0), 0.0)
            product = xp.call("linear_scan", a=factor, b=one, reverse=reverse, **scan)
            moved = xp.where(first, 0.0, xp.shift(c * product, last, by, 0.0))
            change = xp.call("linear_scan", a=factor, b=moved, reverse=reverse, **scan)
            sides.append((product, change))
        (before, d_before), (behind, d_behind) = sides
        found = d_before * behind + before * d_behind
        found = xp.take_along(found, xp.order(order), last)
        return found.swapaxes(axis, last) if shape else found.reshape(())

    def _second(self, xp: Namespace, v: Values, c: Values) -> dict[str, Any]:
        """The second derivative of the products in the direction c, times d_output.

        It is its own transpose. With P the product of the members and i the element that it starts
        from, the product is i P.
        """
        g, start = v["d_output"], v["initial"]
        if start is None or not v["include_self"]:
            return {"x": self._spread(xp, v, g) * self._change(xp, v, c["x"])}
        weights, _ = self._weights(xp, {**v, "initial": None})
        found = self._spread(xp, v, g * start) * self._change(xp, v, c["x"])
        if c.get("initial") is not None:
            found = found + self._spread(xp, v, g * c["initial"]) * weights
        return {"x": found, "initial": g * self._sum(xp, v, weights * c["x"])}

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        return self._second(xp, v, c) if v["reduce"] == ScatterKind.PROD else {}

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        return self._second(xp, v, t) if v["reduce"] == ScatterKind.PROD else None


# What others call them -------------------------------------------------------------------------

_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}


def _bind_torch(torch: Any, v: Any, out: Any) -> Any:
    axis = v.axis % max(v.x.ndim, 1)
    x, ids = (z if z.ndim else z[None] for z in (v.x, v.indices.long()))
    shape = list(x.shape)
    shape[axis] = v.size
    start = v.initial
    own = v.include_self and start is not None
    if start is None:
        start = x.new_full(shape, _EMPTY[str(v.reduce)])
    return lambda: start.scatter_reduce(axis, ids, x, str(v.reduce), include_self=own)


def _torch_scatter_reduce(
    torch: Any,
    scatter: Any,
    input: Any,
    dim: Any,
    index: Any,
    src: Any,
    reduce: Any,
    include_self: bool,
    ties: str,
    bounds: str,
) -> Any:
    name = "scatter_reduce"
    axis = axis_of(name, dim, input.ndim)
    start, ids, values = (line(x) for x in (input, index, src))
    check_smaller(name, [("input", start)], ids, axis)
    check_smaller(name, [("src", values)], ids, None)
    if not input.is_floating_point():
        return torch.scatter_reduce(input, dim, index, src, reduce, include_self=include_self)
    found = scatter(
        x=cut(values, ids, -1),
        indices=ids,
        initial=cut(start, ids, axis),
        size=start.shape[axis],
        axis=axis,
        reduce=reduce,
        include_self=include_self,
        bounds=bounds,
        ties=ties,
    )
    # What lies beyond the indices stays as it is.
    for d, n in others(start.shape, ids, axis):
        rest = start.narrow(d, n, start.shape[d] - n)
        for other, most in others(start.shape, ids, axis):
            rest = rest.narrow(other, 0, most) if other > d else rest
        found = torch.cat([found, rest], d)
    return found.reshape(input.shape)


def _jax_scatter_reduce(
    jax: Any, scatter: Any, operand: Any, indices: Any, updates: Any, axis: int, **rest: Any
) -> Any:
    jnp = jax.numpy
    operand = jnp.asarray(operand)
    size = operand.shape[axis_of("scatter_reduce", axis, operand.ndim)]
    ids = from_start(jnp, indices, size)
    return scatter(x=updates, indices=ids, initial=operand, size=size, axis=axis, **rest)


# Functions -------------------------------------------------------------------------------------


def _initial() -> Tensor:
    return reads("initial", _TABLE, optional=True, last=True, doc="what the places start from")


_INDICES = reads_indices("indices", "shape", into="size", doc="positions along the axis")
_TIES = "Of equal extremes all get the same share of the gradient; `ties` may say which one."

SCATTER_REDUCE = Op(
    ScatterReduceDescriptor,
    OpCategory.SEGMENT,
    "A reduction of the elements with the same index along an axis.",
    tensors=(
        reads("x", "shape", doc="the values"),
        _INDICES,
        _initial(),
        writes("output", _TABLE, doc="the reductions"),
    ),
    functions=(
        Function(
            "scatter_reduce",
            """Sums, means, products or extremes of the elements with the same index along an axis.

            `initial` is what the places start from; with include_self=False it only stands where no
            index points to.

            >>> x, indices = np.float32([[1, 2, 4], [8, 16, 30]]), np.array([[1, 0, 1], [0, 0, 0]])
            >>> gp.scatter_reduce(x, indices, 2, reduce="mean")
            array([[ 2. ,  2.5],
                   [18. ,  0. ]], dtype=float32)
            >>> gp.scatter_reduce(x, indices, 2, reduce="amax", initial=np.zeros((2, 2), "f4"))
            array([[ 2.,  4.],
                   [30.,  0.]], dtype=float32)
            """,
            rule=_Weighted(),
            torch=Like(
                "torch.scatter_reduce",
                arguments="input, dim, index, src, reduce, *, include_self=True, ties='share', "
                "bounds='raise'",
                names={"index": "indices", "src": "x"},
                takes={"input": "what the reductions start from"},
                adapts=_torch_scatter_reduce,
                doc=f"""Reductions of `input` and the elements of `src` where `index` says.

                `reduce` is "sum", "mean", "prod", "amax" or "amin". With include_self=False `input`
                stands only where `index` does not point to.
                {_TIES}

                >>> start, index = torch.zeros(3), torch.tensor([1, 0, 1])
                >>> src = torch.tensor([1.0, 2.0, 5.0])
                >>> scatter_reduce(start, 0, index, src, "amax", include_self=False)
                tensor([2., 5., 0.])
                >>> scatter_reduce(start, 0, index, src, "mean")
                tensor([1., 2., 0.])
                """,
            ),
            jax=Like(
                "operand.at[indices].max(updates)",
                arguments="operand, indices, updates, axis=-1, reduce='sum', *, "
                "include_self=True, ties='share', bounds='skip'",
                names={"updates": "x"},
                takes={"operand": "what the reductions start from"},
                adapts=_jax_scatter_reduce,
                doc=f"""Reductions by index, as in JAX; what has an index out of range is dropped.

                `reduce` is "sum", "mean", "prod", "amax" or "amin".
                {_TIES}

                >>> indices, updates = jnp.array([1, 0, -2]), jnp.float32([1, 2, 5])
                >>> scatter_reduce(jnp.zeros(3), indices, updates, reduce="amax")
                Array([2., 5., 0.], dtype=float32)
                """,
            ),
            peers=(Peer("torch", "torch.scatter_reduce", _bind_torch),),
            figures=(Figure("square", None, "torch", 1), Figure("columns", None, "torch", 1)),
            near_one=True,
        ),
    ),
    gradient=Gradient(
        "scatter_reduce_backward",
        cotangents={"d_output": "output"},
        grads={"dx": "x", "d_initial": "initial"},
    ),
)

SCATTER_REDUCE_BACKWARD = Op(
    ScatterReduceBackwardDescriptor,
    OpCategory.SEGMENT,
    "The gradients of scatter_reduce.",
    tensors=(
        reads("d_output", _TABLE, doc="the gradient of the output"),
        reads("x", "shape", doc="the values"),
        reads("output", _TABLE, doc="the forward's result"),
        _INDICES,
        _initial(),
        writes("dx", "shape", doc="the gradient of the values"),
        writes("d_initial", _TABLE, optional=True, doc="the gradient of initial"),
    ),
    functions=(
        Function(
            "scatter_reduce_backward",
            """Gradients of `scatter_reduce` with respect to the values and to `initial`.

            >>> x, indices = np.float32([3, 0, 5]), np.array([0, 0, 0])
            >>> y = gp.scatter_reduce(x, indices, 1, reduce="prod")
            >>> gp.scatter_reduce_backward(np.float32([2]), x, y, indices, reduce="prod")[0]
            array([ 0., 30.,  0.], dtype=float32)
            """,
            figures=(Figure("square", None, "torch", 1),),
            near_one=True,
        ),
    ),
)
