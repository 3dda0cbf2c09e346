"""Weighted sums and means over segments of rows, and their gradients.

With n running over the rows whose id is s, W = sum of weights[n], g = d_output, y = output:

    sum   output[s] = sum of weights[n] input[n]
          d_input[n] = weights[n] g[s]          d_weights[n] = <g[s], input[n]>
    mean  output[s] = sum of weights[n] input[n] / W
          d_input[n] = weights[n] (g[s] / W)    d_weights[n] = <g[s] / W, input[n] - y[s]>

<a, b> is the sum of products over the features. A mean whose W is 0 is 0, and so are its gradients:
weights of 0 and 1 are masks, and a segment that is masked out is one without rows. Members are
added in ascending n, in blocks of 256 (docs/numerics.md). Ids outside of [0, num_segments) are
skipped (their gradients are 0) or raise.
"""

from __future__ import annotations

from typing import Annotated, Any

from gradplan.declaration import (
    Descriptor,
    Features,
    Figure,
    Function,
    Gradient,
    Like,
    Namespace,
    Only,
    Op,
    Peer,
    Rows,
    Rule,
    Tensor,
    Values,
    reads,
    reads_indices,
    writes,
)
from gradplan.ops.segment_reduce import spread, sum_of
from gradplan.vocabulary import Bounds, ElementKind, OpCategory, WeightedKind

_NEEDS_Y = Only(kind={WeightedKind.MEAN})


class _WeightedFields(Descriptor):
    kind: Annotated[WeightedKind, "the sum, or the mean: the sum divided by that of the weights"]
    num_inputs: Annotated[Rows, "the number of rows"]
    embedding_dim: Annotated[Features, "the number of elements in a row"]
    num_segments: Annotated[Rows, "the number of segments"]
    element: Annotated[ElementKind, "the element type"]
    bounds: Annotated[Bounds, "skip ids outside of [0, num_segments), or raise"] = Bounds.SKIP


class SegmentWeightedDescriptor(_WeightedFields):
    """A weighted sum or mean of the rows of each segment; the ids must ascend."""


class UnsortedSegmentWeightedDescriptor(_WeightedFields):
    """A weighted sum or mean of the rows of each segment; ids in any order."""


class SegmentWeightedBackwardDescriptor(_WeightedFields):
    """The gradients of either, of the rows and of the weights."""


# Derivatives of the gradients ------------------------------------------------------------------


class _WeightedSum(Rule):
    """Linear in the rows and in the weights."""

    def _sum(self, xp: Namespace, v: Values, rows: Any, weights: Any) -> Any:
        given = {**v, "input": rows, "weights": weights}
        return xp.call("unsorted_segment_weighted_sum", **given)

    def _gradients(self, xp: Namespace, v: Values, dy: Any, rows: Any, weights: Any) -> Any:
        given = {**v, "d_output": dy, "input": rows, "weights": weights}
        return xp.call("segment_weighted_sum_backward", **given)

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        of_rows = self._sum(xp, v, t["input"], v["weights"])
        return of_rows + self._sum(xp, v, v["input"], t["weights"])

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        rows, weights = self._gradients(xp, v, v["d_output"], c["input"], c["weights"])
        return {"input": rows, "weights": weights}

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        rows, weights = self._gradients(xp, v, v["d_output"], t["input"], t["weights"])
        return {"input": rows, "weights": weights}


class _WeightedMean(_WeightedSum):
    """With r = 1 / W and u = r g: d_input = weights u, d_weights = <u, input - y>."""

    def _total(self, xp: Namespace, v: Values, weights: Any) -> Any:
        """The sum of each segment, with axes of length 1 for the features."""
        total = sum_of(xp, v, weights.reshape((-1, 1)))
        return total.reshape((-1,) + (1,) * (v["input"].ndim - 1))

    def _inverse(self, xp: Namespace, v: Values) -> Any:
        """r, and 0 where W is 0."""
        total = self._total(xp, v, v["weights"])
        nothing = total == 0
        return xp.where(nothing, 0.0, 1.0 / xp.where(nothing, 1.0, total))

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        change = v["output"] * self._total(xp, v, t["weights"])
        return (super().tangent(xp, v, t) - change) * self._inverse(xp, v)

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        u = v["d_output"] * self._inverse(xp, v)
        moved = c["input"] - spread(xp, v, tangent)
        rows, weights = self._gradients(xp, v, u, moved, c["weights"])
        change = -u * self._total(xp, v, c["weights"])
        return {"input": rows, "weights": weights, "output": change}

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        inverse = self._inverse(xp, v)
        u = v["d_output"] * inverse
        moved = t["input"] - spread(xp, v, t["output"])
        rows, weights = self._gradients(xp, v, u, moved, t["weights"])
        change = -u * inverse * self._total(xp, v, t["weights"])
        centred = v["input"] - spread(xp, v, v["output"])
        more_rows, more_weights = self._gradients(xp, v, change, centred, v["weights"])
        return {"input": rows + more_rows, "weights": weights + more_weights}


_RULES = {WeightedKind.SUM: _WeightedSum, WeightedKind.MEAN: _WeightedMean}

# What others would write -----------------------------------------------------------------------


def _spread_out(weights: Any, x: Any) -> Any:
    return weights.reshape((-1,) + (1,) * (x.ndim - 1))


def _torch_peer(kind: WeightedKind) -> Peer:
    def bind(torch: Any, v: Any, out: Any) -> Any:
        def total(rows: Any) -> Any:
            empty = rows.new_zeros((v.num_segments, *rows.shape[1:]))
            return empty.index_add(0, v.segment_ids, rows)

        def call() -> Any:
            result = total(v.x * _spread_out(v.weights, v.x))
            if kind is WeightedKind.SUM:
                return result
            whole = _spread_out(total(v.weights), v.x)
            return torch.where(whole == 0, 0, result / torch.where(whole == 0, 1, whole))

        return call

    return Peer("torch", "index_add of x * weights[:, None]", bind)


def _jax_peer(kind: WeightedKind, in_order: bool) -> Peer:
    def bind(jax: Any, v: Any, out: Any) -> Any:
        np = jax.numpy

        def total(rows: Any) -> Any:
            return jax.ops.segment_sum(
                rows, v.segment_ids, v.num_segments, indices_are_sorted=in_order
            )

        def call() -> Any:
            result = total(v.x * _spread_out(v.weights, v.x))
            if kind is WeightedKind.SUM:
                return result
            whole = _spread_out(total(v.weights), v.x)
            return np.where(whole == 0, 0, result / np.where(whole == 0, 1, whole))

        return call

    return Peer("jax", "jax.ops.segment_sum of x * weights[:, None]", bind)


_WHAT = {
    WeightedKind.SUM: "Weighted sums of the rows with the same id",
    WeightedKind.MEAN: "Weighted means of the rows with the same id",
}
_MORE = {
    WeightedKind.SUM: "Of each row times its weight; an empty segment is 0.",
    WeightedKind.MEAN: "The sum of weight times row, divided by the sum of the weights; 0 where "
    "that is 0.",
}
_RESULTS = {  # of [[1], [2], [6]] with the weights [3, 1, 2] in the segments 0, 0, 2
    WeightedKind.SUM: " 5.,  0., 12.",
    WeightedKind.MEAN: "1.25, 0.  , 6.  ",
}
_RESULTS_TORCH = {
    WeightedKind.SUM: " 5.,  0., 12.",
    WeightedKind.MEAN: "1.2500, 0.0000, 6.0000",
}


def _function(kind: WeightedKind, in_order: bool, figures: tuple[Figure, ...]) -> Function:
    """A reduction; the bridges offer the one for any order, which chooses the other."""
    name, what, more = f"segment_weighted_{kind}", _WHAT[kind], _MORE[kind]
    torch, jax = None, None
    if not in_order:
        torch = Like(
            _torch_peer(kind).name,
            name=name,
            arguments="x, weights, segment_ids, num_segments, sorted=False, *, bounds='raise'",
            chooses={"sorted": name},
            doc=f"""{what}: [num_segments, ...].

                {more}

                `weights` [N] are of the type of x, and have gradients as well. `sorted` promises
                that the ids do not descend, which is faster. An id outside of [0, num_segments)
                raises; with `bounds="skip"` its row is left out.

                >>> x, weights = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([3.0, 1.0, 2.0])
                >>> {name}(x, weights, torch.tensor([0, 0, 2]), 3)
                tensor([{_RESULTS_TORCH[kind]}])
                """,
        )
        jax = Like(
            _jax_peer(kind, False).name,
            name=name,
            arguments="data, weights, segment_ids, num_segments=None, indices_are_sorted=False, "
            "*, bounds='skip'",
            names={"data": "x"},
            chooses={"indices_are_sorted": name},
            inferred={"num_segments": "segment_ids"},
            doc=f"""{what}; ids out of range are dropped, as in JAX.

                {more}

                `weights` [N] are of the type of the rows, and have gradients as well.
                `num_segments` must be given inside of `jit`; by default it is the largest id plus
                one.

                >>> x, weights = jnp.float32([1, 2, 6]), jnp.float32([3, 1, 2])
                >>> {name}(x, weights, jnp.array([0, 0, 2]), 3)
                Array([{_RESULTS[kind]}], dtype=float32)
                """,
            differs="ids that are said to be sorted and are not raise",
        )
    full = name if in_order else f"unsorted_{name}"
    order = "ids must be sorted" if in_order else "ids in any order"
    return Function(
        full,
        f"""{what}; {order}.

            {more}

            >>> x, weights = np.float32([1, 2, 6]), np.float32([3, 1, 2])
            >>> gp.{full}(x, weights, np.array([0, 0, 2]), 3)
            array([{_RESULTS[kind]}], dtype=float32)
            """,
        fixed={"kind": kind},
        rule=_RULES[kind](),
        torch=torch,
        jax=jax,
        peers=(_torch_peer(kind), _jax_peer(kind, in_order)),
        figures=figures,
    )


def _ids(ascending: bool = False) -> Tensor:
    return reads_indices(
        "segment_ids",
        "num_inputs",
        into="num_segments",
        doc="the segment of each row",
        ascending=ascending,
    )


_ROWS = reads("input", "num_inputs", "embedding_dim", doc="the rows", called="x")
_WEIGHTS = reads("weights", "num_inputs", doc="the weight of each row")


def _tensors(ascending: bool) -> tuple[Tensor, ...]:
    return (
        _ROWS,
        _WEIGHTS,
        _ids(ascending),
        writes("output", "num_segments", "embedding_dim", doc="the sum or mean of each segment"),
    )


_GRADIENT = Gradient(
    "segment_weighted_backward",
    cotangents={"d_output": "output"},
    grads={"d_input": "input", "d_weights": "weights"},
)

# The one that takes ids in any order stands first: what a gradient saves can always come from it.
UNSORTED_SEGMENT_WEIGHTED = Op(
    UnsortedSegmentWeightedDescriptor,
    OpCategory.SEGMENT,
    "A weighted sum or mean of the rows with the same id, in ascending row order.",
    tensors=_tensors(ascending=False),
    functions=tuple(
        _function(kind, False, tuple(Figure(p, None, "torch", 2) for p in ("rows", "narrow")))
        for kind in WeightedKind
    ),
    gradient=_GRADIENT,
)

SEGMENT_WEIGHTED = Op(
    SegmentWeightedDescriptor,
    OpCategory.SEGMENT,
    "A weighted sum or mean of consecutive rows with the same id; ids must not descend.",
    tensors=_tensors(ascending=True),
    functions=tuple(
        _function(kind, True, (Figure("rows", None, "torch", 2),)) for kind in WeightedKind
    ),
    gradient=_GRADIENT,
)

_EXAMPLES = {
    WeightedKind.SUM: """Gradients of `segment_weighted_sum`: of the rows and of the weights.

            >>> x, weights = np.float32([1, 2, 6]), np.float32([3, 1, 2])
            >>> dy = np.float32([10, 0, 1])
            >>> gp.segment_weighted_sum_backward(dy, x, weights, np.array([0, 0, 2]))
            (array([30., 10.,  2.], dtype=float32), array([10., 20.,  6.], dtype=float32))
            """,
    WeightedKind.MEAN: """Gradients of `segment_weighted_mean`: of the rows and of the weights.

            >>> x, weights, ids = np.float32([1, 2]), np.float32([3, 1]), np.array([0, 0])
            >>> y = gp.segment_weighted_mean(x, weights, ids, 1)
            >>> gp.segment_weighted_mean_backward(np.float32([16]), x, weights, y, ids)
            (array([12.,  4.], dtype=float32), array([-1.,  3.], dtype=float32))
            """,
}

SEGMENT_WEIGHTED_BACKWARD = Op(
    SegmentWeightedBackwardDescriptor,
    OpCategory.SEGMENT,
    "The gradients of a weighted sum or mean of segments.",
    tensors=(
        reads("d_output", "num_segments", "embedding_dim", doc="the gradient of each segment"),
        _ROWS,
        _WEIGHTS,
        reads("output", "num_segments", "embedding_dim", doc="the forward's result", when=_NEEDS_Y),
        _ids(),
        writes("d_input", "num_inputs", "embedding_dim", doc="the gradient of each row"),
        writes("d_weights", "num_inputs", doc="the gradient of each weight"),
    ),
    functions=tuple(
        Function(
            f"segment_weighted_{kind}_backward",
            _EXAMPLES[kind],
            fixed={"kind": kind},
            figures=(Figure("rows", None, "torch", 2),),
        )
        for kind in WeightedKind
    ),
)
