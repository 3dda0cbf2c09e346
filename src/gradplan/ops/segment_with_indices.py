"""Maxima and minima over segments of rows, and where they come from.

    output[s, d]  = the extreme of input[n, d] over the rows n with segment_ids[n] == s
    indices[s, d] = the first such n that has it, or the last, as `ties` says

The index is the row that receives the gradient. An empty segment is `fill`, and its index is the
number of rows, which is none of them. NaN wins, as in `segment_max`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from gradplan.declaration import (
    Descriptor,
    Features,
    Figure,
    Fill,
    Function,
    Gradient,
    Kind,
    Like,
    Op,
    Peer,
    Rows,
    Tensor,
    reads,
    reads_indices,
    writes,
)
from gradplan.ops.segment_reduce import RULES
from gradplan.vocabulary import (
    Bounds,
    ElementKind,
    OpCategory,
    SegmentExtremeKind,
    SegmentKind,
    Ties,
)


class _ExtremeFields(Descriptor):
    kind: Annotated[SegmentExtremeKind, "the maximum or the minimum"]
    num_inputs: Annotated[Rows, "the number of rows"]
    embedding_dim: Annotated[Features, "the number of elements in a row"]
    num_segments: Annotated[Rows, "the number of segments"]
    element: Annotated[ElementKind, "the element type"]
    fill: Annotated[
        float | None,
        Fill("kind", {SegmentExtremeKind.MAX: -math.inf, SegmentExtremeKind.MIN: math.inf}),
        "what an empty segment is; by default the extreme of nothing, -inf or inf",
    ] = None
    ties: Annotated[Ties, "which of several equal extremes it is"] = Ties.FIRST
    bounds: Annotated[Bounds, "skip ids outside of [0, num_segments), or raise"] = Bounds.SKIP


class SegmentWithIndicesDescriptor(_ExtremeFields):
    """Extremes of the rows of each segment, and where they are; the ids must ascend."""


class UnsortedSegmentWithIndicesDescriptor(_ExtremeFields):
    """Extremes of the rows of each segment, and where they are; ids in any order."""


_EMPTY = {SegmentExtremeKind.MAX: -math.inf, SegmentExtremeKind.MIN: math.inf}
_WHAT = {SegmentExtremeKind.MAX: "Maxima", SegmentExtremeKind.MIN: "Minima"}
_RESULTS = {  # of [1, 2, 6] in the segments 0, 0, 2
    SegmentExtremeKind.MAX: ("  2., -inf,   6.", "2., -inf, 6.", "1, 3, 2"),
    SegmentExtremeKind.MIN: (" 1., inf,  6.", "1., inf, 6.", "0, 3, 2"),
}


def _torch_peer(kind: SegmentExtremeKind) -> Peer:
    """By PyTorch's functions: the first row that equals the extreme, for rows without NaN."""

    def bind(torch: Any, v: Any, out: Any) -> Any:
        def call() -> Any:
            x, rows = v.x, len(v.x)
            ids = v.segment_ids.long().reshape((-1,) + (1,) * (x.ndim - 1)).expand(x.shape)
            start = x.new_full((v.num_segments, *x.shape[1:]), _EMPTY[kind])
            y = start.scatter_reduce(0, ids, x, f"a{kind}")
            place = torch.arange(rows).reshape((-1,) + (1,) * (x.ndim - 1)).expand(x.shape)
            place = torch.where(x == y[v.segment_ids], place, rows)
            nowhere = torch.full(y.shape, rows)
            return y, nowhere.scatter_reduce(0, ids, place, "amin")

        return call

    return Peer("torch", f"scatter_reduce(..., 'a{kind}'), and of the places", bind)


_FIGURES = (Figure("rows", None, "torch", 2),)


def _function(kind: SegmentExtremeKind, in_order: bool) -> Function:
    """A pair of results; the bridges offer the one for any order, which chooses the other."""
    name = f"segment_{kind}_with_indices"
    plain, shown, places = _RESULTS[kind]
    what = f"{_WHAT[kind]} of the rows with the same id, and where they are"
    empty = "An empty segment is `fill`, and its index is the number of rows."
    ties = 'Of equal ones the first counts, also for the gradient; with `ties="last"` the last.'
    torch, jax = None, None
    if not in_order:
        torch = Like(
            _torch_peer(kind).name,
            name=name,
            arguments="x, segment_ids, num_segments, sorted=False, *, fill=None, "
            "bounds='raise', ties='first'",
            chooses={"sorted": name},
            doc=f"""{what}.

                {empty}
                {ties}
                `sorted` promises that the ids do not descend, which is faster. An id outside of
                [0, num_segments) raises; with `bounds="skip"` its row is left out.

                >>> {name}(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 0, 2]), 3)
                (tensor([{shown}]), tensor([{places}]))
                """,
        )
        jax = Like(
            name=name,
            arguments="data, segment_ids, num_segments=None, indices_are_sorted=False, *, "
            "fill=None, bounds='skip', ties='first'",
            names={"data": "x"},
            chooses={"indices_are_sorted": name},
            inferred={"num_segments": "segment_ids"},
            doc=f"""{_WHAT[kind]} of segments, and where; ids out of range are dropped, as in JAX.

                {empty}
                {ties}
                `num_segments` must be given inside of `jit`; by default it is the largest id plus
                one.

                >>> y, indices = {name}(jnp.float32([1, 2, 6]), jnp.array([0, 0, 2]), 3)
                >>> indices.tolist()
                [{places}]
                """,
        )
    full = name if in_order else f"unsorted_{name}"
    order = "ids must be sorted" if in_order else "ids in any order"
    return Function(
        full,
        f"""{what}; {order}.

            {empty}

            >>> gp.{full}(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
            (array([{plain}], dtype=float32), array([{places}]))
            """,
        fixed={"kind": kind},
        rule=RULES[SegmentKind(kind.value)](f"segment_{kind}_backward"),
        torch=torch,
        jax=jax,
        peers=(_torch_peer(kind),),
        figures=_FIGURES if kind is SegmentExtremeKind.MAX else (),
    )


def _tensors(ascending: bool) -> tuple[Tensor, ...]:
    return (
        reads("input", "num_inputs", "embedding_dim", doc="the rows", called="x"),
        reads_indices(
            "segment_ids",
            "num_inputs",
            into="num_segments",
            doc="the segment of each row",
            ascending=ascending,
        ),
        writes("output", "num_segments", "embedding_dim", doc="the extreme of each segment"),
        writes(
            "indices",
            "num_segments",
            "embedding_dim",
            kind=Kind.INDEX,
            into="num_inputs",
            doc="the row that it comes from, or the number of rows",
        ),
    )


_GRADIENT = Gradient(
    "segment_reduce_backward", cotangents={"d_output": "output"}, grads={"d_input": "input"}
)

UNSORTED_SEGMENT_WITH_INDICES = Op(
    UnsortedSegmentWithIndicesDescriptor,
    OpCategory.SEGMENT,
    "Extremes of the rows with the same id, and where they come from.",
    tensors=_tensors(ascending=False),
    functions=tuple(_function(kind, in_order=False) for kind in SegmentExtremeKind),
    gradient=_GRADIENT,
)

SEGMENT_WITH_INDICES = Op(
    SegmentWithIndicesDescriptor,
    OpCategory.SEGMENT,
    "Extremes of consecutive rows with the same id, and where they come from.",
    tensors=_tensors(ascending=True),
    functions=tuple(_function(kind, in_order=True) for kind in SegmentExtremeKind),
    gradient=_GRADIENT,
)
