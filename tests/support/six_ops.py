"""Six ops that a declaration must be able to say: a declaration and a reference each, no kernel.

An index output; optional weights and pointers; three index tensors in one op; a row statistic of
the compute type and a sum over the batch; a target of any rank and a loss without an axis; an
optional input that is missing an axis. `with declared(...)` makes them for a while.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np

from gradplan.declaration import (
    OPS,
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
    one_more,
    reads,
    reads_indices,
    withdraw,
    without,
    writes,
)
from gradplan.reference import FUNCTIONS, operation
from gradplan.vocabulary import ElementKind, OpCategory

Array = Any


@contextlib.contextmanager
def declared(*make: Callable[[], object]) -> Iterator[None]:
    """Ops and references that exist inside of the context only."""
    ops, references = dict(OPS), dict(FUNCTIONS)
    try:
        for declare in make:
            declare()
        yield
    finally:
        for op in [op for name, op in OPS.items() if name not in ops]:
            withdraw(op)
        FUNCTIONS.clear()
        FUNCTIONS.update(references)


class _AlongFields(Descriptor):
    input_shape: Annotated[Shape, "the shape"]
    axis: Annotated[int, AxisOf("input_shape"), "the axis"]
    element: Annotated[ElementKind, "the element type"]


def _rows(x: Array, axis: int) -> Array:
    """The axis last, in float64; a scalar is a row of one. NumPy's sums depend on the layout."""
    return np.ascontiguousarray(np.moveaxis(np.atleast_1d(np.float64(x)), axis, -1))


def _back(rows: Array, like: Array, axis: int, dtype: Any = None) -> Array:
    rows = np.where(np.isnan(rows), np.nan, rows)  # one NaN, without a sign or a payload
    with np.errstate(all="ignore"):
        return np.moveaxis(rows, -1, axis).reshape(like.shape).astype(dtype or like.dtype)


def _wide(dtype: Any) -> Any:
    return np.float64 if dtype == np.float64 else np.float32


# An index output ------------------------------------------------------------------------------


class RunningMaxDescriptor(_AlongFields):
    """A running maximum, and where it came from."""


def running_max() -> None:
    @operation
    def running_max(x: Array, *, axis: int) -> tuple[Array, Array]:
        rows = np.nan_to_num(_rows(x, axis), posinf=9.0, neginf=-9.0)
        best = np.maximum.accumulate(rows, axis=-1)
        place = np.broadcast_to(np.arange(rows.shape[-1]), rows.shape)
        fresh = np.diff(best, axis=-1, prepend=-np.inf) > 0
        position = np.maximum.accumulate(np.where(fresh, place, 0), axis=-1)
        return _back(best, x, axis), _back(position, x, axis, np.int64)

    Op(
        RunningMaxDescriptor,
        OpCategory.SCAN,
        "A running maximum with positions.",
        tensors=(
            reads("x", "input_shape", doc="the values"),
            writes("y", "input_shape", doc="the maxima"),
            writes("position", "input_shape", kind=Kind.INDEX, into="axis", doc="their places"),
        ),
        functions=(Function("running_max", "Running maximum and its positions."),),
    )


# Pointers and optional weights ----------------------------------------------------------------


class PooledRowsDescriptor(Descriptor):
    """Sums of consecutive rows, weighted or not."""

    num_inputs: Annotated[Rows, "the number of rows"]
    dim: Annotated[Features, "the elements of a row"]
    num_segments: Annotated[Rows, "the number of segments"]
    element: Annotated[ElementKind, "the element type"]


def pooled_rows() -> None:
    @operation
    def pooled_rows(input: Array, indptr: Array, weights: Array | None = None) -> Array:
        factor = np.ones(len(input)) if weights is None else np.float64(weights)
        rows = np.float64(input) * factor[:, None]
        parts = [rows[a:b].sum(0) for a, b in itertools.pairwise(indptr)]
        return np.array(parts).reshape(len(parts), input.shape[1]).astype(input.dtype)

    Op(
        PooledRowsDescriptor,
        OpCategory.SEGMENT,
        "Sums of consecutive rows.",
        tensors=(
            reads("input", "num_inputs", "dim", doc="the rows"),
            reads_indices(
                "indptr",
                one_more("num_segments"),
                into="num_inputs",
                doc="where segments begin",
                ascending=True,
            ),
            reads("weights", "num_inputs", optional=True, doc="a weight for each row"),
            writes("output", "num_segments", "dim", doc="the sums"),
        ),
        functions=(Function("pooled_rows", "Sums of consecutive rows."),),
    )


# Three index tensors --------------------------------------------------------------------------


class BagDescriptor(Descriptor):
    """Sums of rows of a table, by bag."""

    num_embeddings: Annotated[Rows, "the rows of the table"]
    dim: Annotated[Features, "the elements of a row"]
    num_indices: Annotated[Rows, "the number of indices"]
    num_bags: Annotated[Rows, "the number of bags"]
    element: Annotated[ElementKind, "the element type"]


def bag() -> None:
    @operation
    def bag(
        weight: Array, indices: Array, kept: Array, offsets: Array, factors: Array | None = None
    ) -> Array:
        rows = (
            np.float64(weight[indices]) * (kept > 0)[:, None]
            if len(weight)
            else np.zeros((len(indices), weight.shape[1]))
        )
        if factors is not None:
            rows = rows * np.float64(factors)[:, None]
        parts = [rows[a:b].sum(0) for a, b in itertools.pairwise(offsets)]
        return np.array(parts).reshape(len(parts), weight.shape[1]).astype(weight.dtype)

    Op(
        BagDescriptor,
        OpCategory.EMBEDDING,
        "Sums of rows of a table.",
        tensors=(
            reads("weight", "num_embeddings", "dim", doc="the table"),
            reads_indices("indices", "num_indices", into="num_embeddings", doc="which rows"),
            reads_indices("kept", "num_indices", into="num_embeddings", doc="0: left out"),
            reads_indices(
                "offsets", one_more("num_bags"), into="num_indices", doc="the bags", ascending=True
            ),
            reads("factors", "num_indices", optional=True, doc="a factor for each index"),
            writes("output", "num_bags", "dim", doc="the sums"),
        ),
        functions=(Function("bag", "Sums of rows of a table by bag."),),
    )


# A statistic of the compute type, a sum over the batch ----------------------------------------


class RmsNormDescriptor(_AlongFields):
    """x divided by its root mean square, times a scale."""


class RmsNormBackwardDescriptor(_AlongFields):
    """The gradients of x and of the scale."""


class _RmsRule(Rule):
    """With u = x rstd: y = u s, and the tangent of u is rstd (t - u mean(u t))."""

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        raise NotImplementedError("of no use to the tests that need this op")


def rms_norm() -> None:
    @operation
    def rms_norm(x: Array, scale: Array, *, axis: int) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            rows = _rows(x, axis)
            rstd = 1 / np.sqrt(np.square(rows).sum(-1) / max(rows.shape[-1], 1) + 1e-6)
            y = rows * rstd[..., None] * np.float64(scale)
        shape = np.delete(x.shape, axis) if x.ndim else ()
        rstd = np.where(np.isnan(rstd), np.nan, rstd)
        return _back(y, x, axis), rstd.reshape(shape).astype(_wide(x.dtype))

    @operation
    def rms_norm_backward(
        dy: Array, x: Array, scale: Array, rstd: Array, *, axis: int
    ) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            g, rows = _rows(dy, axis), _rows(x, axis)
            r = np.float64(rstd).reshape(rows.shape[:-1])[..., None]
            unit = rows * r
            weighted = g * np.float64(scale)
            dx = r * (
                weighted - unit * (weighted * unit).sum(-1, keepdims=True) / max(rows.shape[-1], 1)
            )
            dscale = (g * unit).sum(tuple(range(rows.ndim - 1)))
            dscale = np.where(np.isnan(dscale), np.nan, dscale)
        return _back(dx, x, axis), dscale.astype(scale.dtype)

    Op(
        RmsNormDescriptor,
        OpCategory.SOFTMAX,
        "Root mean square normalisation.",
        tensors=(
            reads("x", "input_shape", doc="the values"),
            reads("scale", along("axis"), doc="a factor for each place"),
            writes("y", "input_shape", doc="the result"),
            writes(
                "rstd",
                without("axis"),
                kind=Kind.COMPUTE,
                differentiable=False,
                doc="one over the root mean square",
            ),
        ),
        functions=(Function("rms_norm", "Root mean square normalisation.", rule=_RmsRule()),),
        gradient=Gradient("rms_norm_backward", {"dy": "y"}, {"dx": "x", "dscale": "scale"}),
    )
    Op(
        RmsNormBackwardDescriptor,
        OpCategory.SOFTMAX,
        "The gradients of root mean square normalisation.",
        tensors=(
            reads("dy", "input_shape", doc="the gradient of y"),
            reads("x", "input_shape", doc="the values"),
            reads("scale", along("axis"), doc="a factor for each place"),
            reads("rstd", without("axis"), kind=Kind.COMPUTE, doc="from the forward"),
            writes("dx", "input_shape", doc="the gradient of x"),
            writes("dscale", along("axis"), doc="the gradient of the scale"),
        ),
        functions=(Function("rms_norm_backward", "Gradients of `rms_norm`."),),
    )


# A target of any rank, a loss without an axis -------------------------------------------------


class CrossEntropyDescriptor(_AlongFields):
    """The cross entropy of logits with the class that each row should have."""


def cross_entropy() -> None:
    @operation
    def cross_entropy(
        logits: Array, target: Array, class_weights: Array | None = None, *, axis: int
    ) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            rows = np.clip(np.nan_to_num(_rows(logits, axis)), -50, 50)
            total = np.log(np.exp(rows).sum(-1))
            at = np.clip(target.reshape(rows.shape[:-1]), 0, max(rows.shape[-1] - 1, 0))
            picked = np.take_along_axis(rows, at[..., None], -1)[..., 0] if rows.size else total
            weight = 1.0 if class_weights is None else np.nan_to_num(np.float64(class_weights))[at]
            loss = (total - picked) * weight if rows.size else total
        wide = _wide(logits.dtype)
        return loss.reshape(target.shape).astype(wide), total.reshape(target.shape).astype(wide)

    Op(
        CrossEntropyDescriptor,
        OpCategory.SOFTMAX,
        "Cross entropy.",
        tensors=(
            reads("logits", "input_shape", doc="the scores"),
            reads_indices("target", without("axis"), into="axis", doc="the right class"),
            reads("class_weights", along("axis"), optional=True, doc="a weight for each class"),
            writes("loss", without("axis"), kind=Kind.COMPUTE, doc="the loss of each row"),
            writes(
                "logsumexp",
                without("axis"),
                kind=Kind.COMPUTE,
                differentiable=False,
                doc="saved for the backward",
            ),
        ),
        functions=(Function("cross_entropy", "Cross entropy of each row."),),
    )


# An optional input without an axis ------------------------------------------------------------


class LeakySumDescriptor(_AlongFields):
    """h[t] = a[t] h[t-1] + b[t]."""


def leaky_sum() -> None:
    @operation
    def leaky_sum(a: Array, b: Array, initial: Array | None = None, *, axis: int) -> Array:
        with np.errstate(all="ignore"):
            factors, terms = _rows(a, axis), _rows(b, axis)
            h = np.zeros(terms.shape)
            last = np.zeros(terms.shape[:-1])
            if initial is not None:
                last = np.float64(initial).reshape(last.shape)
            for i in range(terms.shape[-1]):
                last = h[..., i] = factors[..., i] * last + terms[..., i]
        return _back(h, a, axis)

    Op(
        LeakySumDescriptor,
        OpCategory.SCAN,
        "A sum that forgets.",
        tensors=(
            reads("a", "input_shape", doc="the factors"),
            reads("b", "input_shape", doc="the terms"),
            reads("initial", without("axis"), optional=True, doc="h before the first"),
            writes("h", "input_shape", doc="the states"),
        ),
        functions=(Function("leaky_sum", "A sum that forgets."),),
    )


SIX = (running_max, pooled_rows, bag, rms_norm, cross_entropy, leaky_sum)
