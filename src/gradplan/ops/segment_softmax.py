"""Softmax over the members of each segment, its logarithm, and their gradients.

With M the maximum of the rows whose id is that of row n, S the sum of their exp(input - M), and
g = d_output:

    softmax      output[n] = exp(input[n] - M) / S     d_input = output (g - sum of output g)
    log_softmax  output[n] = (input[n] - M) - log(S)   d_input = g - exp(output) sum of g

A row of -inf has no share (0, or -inf), also where its segment has nothing else. Rows whose id is
skipped are 0, and so is their gradient.
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
from gradplan.ops.segment_reduce import _torch_reduced, spread, sum_of
from gradplan.vocabulary import Bounds, ElementKind, OpCategory, SoftmaxKind


class _SoftmaxFields(Descriptor):
    kind: Annotated[SoftmaxKind, "the shares, or their logarithms"]
    num_inputs: Annotated[Rows, "the number of rows"]
    embedding_dim: Annotated[Features, "the number of elements in a row"]
    num_segments: Annotated[Rows, "the number of segments"]
    element: Annotated[ElementKind, "the element type"]
    bounds: Annotated[Bounds, "skip ids outside of [0, num_segments), or raise"] = Bounds.SKIP


class SegmentSoftmaxDescriptor(_SoftmaxFields):
    """A softmax over the rows of each segment; the ids must ascend."""


class UnsortedSegmentSoftmaxDescriptor(_SoftmaxFields):
    """A softmax over the rows of each segment; ids in any order."""


class SegmentSoftmaxBackwardDescriptor(_SoftmaxFields):
    """The gradient of either softmax of segments."""


class _Softmax(Rule):
    """d_input = y (d_output - spread(sum(y d_output))): J is its own transpose."""

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        return xp.call("segment_softmax_backward", **{**v, "d_output": t["input"]})

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        dy, y, g = v["d_output"], v["output"], c["input"]
        centred = dy - spread(xp, v, sum_of(xp, v, y * dy))
        return {"output": g * centred - dy * spread(xp, v, sum_of(xp, v, g * y))}

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        dy, y, change = v["d_output"], v["output"], t["output"]
        centred = dy - spread(xp, v, sum_of(xp, v, y * dy))
        return change * centred - y * spread(xp, v, sum_of(xp, v, change * dy))


class _LogSoftmax(Rule):
    """d_input = d_output - exp(y) spread(sum(d_output))."""

    def _exp(self, xp: Namespace, v: Values) -> Any:
        """exp(y): the gradient of a log-sum-exp of 0."""
        y = v["output"]
        zero = xp.full_like(sum_of(xp, v, y), 0.0)
        given = {**v, "d_output": zero + 1.0, "input": y, "output": zero}
        return xp.call("segment_logsumexp_backward", **given)

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        total = sum_of(xp, v, self._exp(xp, v) * t["input"])
        belongs = spread(xp, v, xp.full_like(total, 1.0))  # 0 where an id was skipped
        return t["input"] * belongs - spread(xp, v, total)

    def _change(self, xp: Namespace, v: Values, c: Any) -> Any:
        return -c * self._exp(xp, v) * spread(xp, v, sum_of(xp, v, v["d_output"]))

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        return {"output": self._change(xp, v, c["input"])}

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        return self._change(xp, v, t["output"])


RULES = {SoftmaxKind.SOFTMAX: _Softmax, SoftmaxKind.LOG_SOFTMAX: _LogSoftmax}


def _torch_peer(kind: SoftmaxKind) -> Peer:
    def softmax(torch: Any, x: Any, ids: Any, segments: int) -> Any:
        top = _torch_reduced(torch, x.detach(), ids, segments, "max")
        d = x - top[ids]
        e = d.exp()
        total = torch.zeros_like(top).index_add(0, ids, e)
        return e / total[ids] if kind is SoftmaxKind.SOFTMAX else d - total.log()[ids]

    def bind(torch: Any, v: Any, out: Any) -> Any:
        return lambda: softmax(torch, v.x, v.segment_ids, v.num_segments)

    return Peer("torch", "scatter_reduce, exp and index_add", bind)


def _jax_peer(kind: SoftmaxKind, in_order: bool) -> Peer:
    def bind(jax: Any, v: Any, out: Any) -> Any:
        options = {"num_segments": v.num_segments, "indices_are_sorted": in_order}
        ids, np = v.segment_ids, jax.numpy

        def taken(table: Any) -> Any:
            return np.take(table, ids, axis=0, mode="clip")

        def call() -> Any:
            top = jax.lax.stop_gradient(jax.ops.segment_max(v.x, ids, **options))
            d = v.x - taken(top)
            total = jax.ops.segment_sum(np.exp(d), ids, **options)
            softmax = kind is SoftmaxKind.SOFTMAX
            return np.exp(d) / taken(total) if softmax else d - taken(np.log(total))

        return call

    return Peer("jax", "jax.ops.segment_max, exp and segment_sum", bind)


def _function(kind: SoftmaxKind, in_order: bool, figures: tuple[Figure, ...]) -> Function:
    name = f"segment_{kind}"
    what = "Softmax" if kind is SoftmaxKind.SOFTMAX else "Logarithm of the softmax"
    softmax = kind is SoftmaxKind.SOFTMAX
    values = "0.5000, 0.5000, 1.0000" if softmax else "-0.6931, -0.6931,  0.0000"
    plain = "0.5, 0.5, 1. " if softmax else "-0.6931472, -0.6931472,  0.       "
    torch, jax = None, None
    if not in_order:
        torch = Like(
            _torch_peer(kind).name,
            name=name,
            arguments="x, segment_ids, num_segments, sorted=False, *, bounds='raise'",
            chooses={"sorted": name},
            doc=f"""{what} of x [N, ...] over the rows with the same id.

                `sorted` promises that the ids do not descend, which is faster. A row of -inf has no
                share, also in a segment of nothing else. An id outside of [0, num_segments)
                raises; with `bounds="skip"` its row is 0.

                >>> {name}(torch.tensor([1.0, 1.0, 6.0]), torch.tensor([0, 0, 2]), 3)
                tensor([{values}])
                """,
        )
        jax = Like(
            _jax_peer(kind, False).name,
            name=name,
            arguments="data, segment_ids, num_segments=None, indices_are_sorted=False, "
            "*, bounds='skip'",
            names={"data": "x"},
            chooses={"indices_are_sorted": name},
            inferred={"num_segments": "segment_ids"},
            doc=f"""{what} over rows with the same id; ids out of range are dropped, as in JAX.

                Their rows are 0. A row of -inf has no share, also in a segment of nothing else.
                `num_segments` must be given inside of `jit`; by default it is the largest id plus
                one.

                >>> {name}(jnp.float32([1, 1, 6]), jnp.array([0, 0, 2]), 3)
                Array([{plain}], dtype=float32)
                """,
            differs="ids that are said to be sorted and are not raise",
        )
    full = name if in_order else f"unsorted_{name}"
    order = "ids must be sorted" if in_order else "ids in any order"
    return Function(
        full,
        f"""{what} over the rows with the same id; {order}.

            A row of -inf has no share, also in a segment of nothing else.

            >>> gp.{full}(np.float32([1, 1, 6]), np.array([0, 0, 2]), 3)
            array([{plain}], dtype=float32)
            """,
        fixed={"kind": kind},
        rule=RULES[kind](),
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


def _tensors(ascending: bool) -> tuple[Tensor, ...]:
    return (
        reads("input", "num_inputs", "embedding_dim", doc="the rows", called="x"),
        _ids(ascending),
        writes("output", "num_inputs", "embedding_dim", doc="the share of each row"),
    )


_GRADIENT = Gradient(
    "segment_softmax_backward", cotangents={"d_output": "output"}, grads={"d_input": "input"}
)

# The one that takes ids in any order stands first: what a gradient saves can always come from it.
UNSORTED_SEGMENT_SOFTMAX = Op(
    UnsortedSegmentSoftmaxDescriptor,
    OpCategory.SEGMENT,
    "Softmax, or its logarithm, over the rows with the same id.",
    tensors=_tensors(ascending=False),
    functions=tuple(
        _function(kind, False, tuple(Figure(p, None, "torch", 2) for p in ("rows", "narrow")))
        for kind in SoftmaxKind
    ),
    gradient=_GRADIENT,
)

SEGMENT_SOFTMAX = Op(
    SegmentSoftmaxDescriptor,
    OpCategory.SEGMENT,
    "Softmax, or its logarithm, over consecutive rows with the same id; ids must not descend.",
    tensors=_tensors(ascending=True),
    functions=tuple(
        _function(kind, True, (Figure("rows", None, "torch", 2),)) for kind in SoftmaxKind
    ),
    gradient=_GRADIENT,
)

_EXAMPLES = {
    SoftmaxKind.SOFTMAX: """Gradient of `segment_softmax`.

            >>> y, ids = np.float32([0.5, 0.5]), np.array([0, 0])
            >>> gp.segment_softmax_backward(np.float32([1, 0]), y, ids, 1)
            array([ 0.25, -0.25], dtype=float32)
            """,
    SoftmaxKind.LOG_SOFTMAX: """Gradient of `segment_log_softmax`.

            >>> y, ids = np.float32([0, -np.inf]), np.array([0, 0])
            >>> gp.segment_log_softmax_backward(np.float32([1, 2]), y, ids, 1)
            array([-2.,  2.], dtype=float32)
            """,
}

SEGMENT_SOFTMAX_BACKWARD = Op(
    SegmentSoftmaxBackwardDescriptor,
    OpCategory.SEGMENT,
    "The gradient of a softmax of segments with respect to the rows.",
    tensors=(
        reads("d_output", "num_inputs", "embedding_dim", doc="the gradient of each share"),
        reads("output", "num_inputs", "embedding_dim", doc="the forward's result"),
        _ids(),
        writes("d_input", "num_inputs", "embedding_dim", doc="the gradient of each row"),
    ),
    functions=tuple(
        Function(
            f"segment_{kind}_backward",
            _EXAMPLES[kind],
            fixed={"kind": kind},
            figures=(Figure("rows", None, "torch", 2),),
        )
        for kind in SoftmaxKind
    ),
)
