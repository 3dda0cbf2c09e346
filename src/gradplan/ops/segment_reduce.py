"""Means, maxima, minima, products and log-sum-exps over segments of rows, and their gradients.

With n running over the rows whose id is s, g = d_output[s], y = output:

    mean       output[s] = sum of input[n] / count           d_input[n] = g / count
    max, min   output[s] = the extreme of input[n]           d_input[n] = g where input[n] is it
    prod       output[s] = product of input[n]               d_input[n] = g times the others
    logsumexp  output[s] = log of the sum of exp(input[n])   d_input[n] = g exp(input[n] - y[s])

Members are combined in ascending n, in blocks of 256 (docs/numerics.md). An empty segment is 0
(mean), 1 (prod) or `fill`. Ids outside of [0, num_segments) are skipped (their d_input is 0) or
raise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from gradplan.declaration import (
    Descriptor,
    Features,
    Figure,
    Fill,
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
from gradplan.vocabulary import Bounds, ElementKind, OpCategory, SegmentKind, SegmentTies

_EXTREMES = {SegmentKind.MAX, SegmentKind.MIN}
_FILLED = Only(kind={*_EXTREMES, SegmentKind.LOGSUMEXP})
_NEEDS_X = Only(kind=set(SegmentKind) - {SegmentKind.MEAN})
_NEEDS_Y = _FILLED
_FILL = Fill(
    "kind",
    {
        SegmentKind.MAX: -math.inf,
        SegmentKind.MIN: math.inf,
        SegmentKind.LOGSUMEXP: -math.inf,
    },
)


class _ReduceFields(Descriptor):
    kind: Annotated[SegmentKind, "the reduction"]
    num_inputs: Annotated[Rows, "the number of rows"]
    embedding_dim: Annotated[Features, "the number of elements in a row"]
    num_segments: Annotated[Rows, "the number of segments"]
    element: Annotated[ElementKind, "the element type"]


class _ForwardFields(_ReduceFields):
    fill: Annotated[
        float | None,
        _FILL,
        "what an empty segment is; by default the reduction of nothing, -inf or inf",
        _FILLED,
    ] = None
    bounds: Annotated[Bounds, "skip ids outside of [0, num_segments), or raise"] = Bounds.SKIP


class SegmentReduceDescriptor(_ForwardFields):
    """A reduction of the rows of each segment; the ids must ascend."""


class UnsortedSegmentReduceDescriptor(_ForwardFields):
    """A reduction of the rows of each segment; ids in any order."""


class SegmentReduceBackwardDescriptor(_ReduceFields):
    """The gradient of either reduction. `ties` says which of equal extremes receives it."""

    ties: Annotated[
        SegmentTies,
        "which of several equal extremes receives the gradient, or all of them a share",
        Only(kind=_EXTREMES),
    ] = SegmentTies.FIRST
    bounds: Annotated[Bounds, "skip ids outside of [0, num_segments), or raise"] = Bounds.SKIP


# Derivatives of the gradients ------------------------------------------------------------------


def sum_of(xp: Namespace, v: Values, rows: Any) -> Any:
    """The sum of each segment."""
    return xp.call("unsorted_segment_sum", **{**v, "input": rows})


def spread(xp: Namespace, v: Values, table: Any) -> Any:
    """What each row's segment has in a table."""
    return xp.call("segment_sum_backward", **{**v, "d_output": table})


class _Weighted(Rule):
    """d_input = d_output times weights, which are the gradient for d_output = 1."""

    def __init__(self, backward: str) -> None:
        self.backward = backward

    def weights(self, xp: Namespace, v: Values, like: Any) -> Any:
        """`like` has a row for each row of the input."""
        ones = xp.full_like(sum_of(xp, v, like), 1.0)
        return xp.call(self.backward, **{**v, "d_output": ones})

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        return sum_of(xp, v, t["input"] * self.weights(xp, v, t["input"]))


class _Product(_Weighted):
    """The weights are products of the others; their own derivatives leave out one more."""

    def _change(self, xp: Namespace, v: Values, c: Any) -> Any:
        """The derivative of the weights in the direction c, by recurrences along the members.

        What is before a member and what is behind it are products that start anew with every
        segment: linear recurrences whose factor is 0 there. Nothing is divided.
        """
        ids, axis = v["segment_ids"], {"scan_axis": 0, "initial": None}
        order = xp.order(ids)
        ids, x, c = (xp.rows(z, order) for z in (ids, v["input"], c))
        sides = []
        for reverse in (False, True):
            by = -1 if reverse else 1
            # -3 is no segment's id, so that it begins one.
            first = xp.shift(ids, 0, by, -3.0) != ids
            first = first.reshape((-1,) + (1,) * (x.ndim - 1))
            factor = xp.where(first, 0.0, xp.shift(x, 0, by, 0.0))
            one = xp.where(first, xp.full_like(x, 1.0), 0.0)
            product = xp.call("linear_scan", a=factor, b=one, reverse=reverse, **axis)
            moved = xp.shift(c * product, 0, by, 0.0)
            change = xp.call(
                "linear_scan",
                a=factor,
                b=xp.where(first, 0.0, moved),
                reverse=reverse,
                **axis,
            )
            sides.append((product, change))
        (before, d_before), (behind, d_behind) = sides
        return xp.rows(d_before * behind + before * d_behind, xp.order(order))

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        return {"input": spread(xp, v, v["d_output"]) * self._change(xp, v, c["input"])}

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        return spread(xp, v, v["d_output"]) * self._change(xp, v, t["input"])


class _LogSumExp(_Weighted):
    """The weights are exp(input - output)."""

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        return {
            "input": c["input"] * xp.call(self.backward, **v),
            "output": -v["d_output"] * tangent,
        }

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        from_output = xp.call(self.backward, **{**v, "d_output": -v["d_output"] * t["output"]})
        return t["input"] * xp.call(self.backward, **v) + from_output


RULES: dict[SegmentKind, Callable[[str], Rule]] = {
    SegmentKind.MAX: _Weighted,
    SegmentKind.MIN: _Weighted,
    SegmentKind.PROD: _Product,
    SegmentKind.LOGSUMEXP: _LogSumExp,
}

# What others call them -------------------------------------------------------------------------

_TORCH_NAMES = {"mean": "mean", "max": "amax", "min": "amin", "prod": "prod"}
_EMPTY = {"mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}


def _torch_reduced(torch: Any, x: Any, ids: Any, segments: int, kind: str) -> Any:
    like = ids.long().reshape((-1,) + (1,) * (x.ndim - 1)).expand(x.shape)
    start = x.new_full((segments, *x.shape[1:]), _EMPTY[kind])
    return start.scatter_reduce(0, like, x, _TORCH_NAMES[kind], include_self=False)


def _torch_peer(kind: SegmentKind) -> Peer:
    def logsumexp(torch: Any, x: Any, ids: Any, segments: int) -> Any:
        top = _torch_reduced(torch, x.detach(), ids, segments, "max")
        e = (x - top[ids]).exp()
        return top + torch.zeros_like(top).index_add(0, ids, e).log()

    def bind(torch: Any, v: Any, out: Any) -> Any:
        given = v.x, v.segment_ids, v.num_segments
        if kind is SegmentKind.LOGSUMEXP:
            return lambda: logsumexp(torch, *given)
        return lambda: _torch_reduced(torch, *given, kind.value)

    name = "scatter_reduce, index_add and log"
    if kind is not SegmentKind.LOGSUMEXP:
        name = f"torch.scatter_reduce(..., {_TORCH_NAMES[kind.value]!r})"
    return Peer("torch", name, bind)


def _jax_peer(kind: SegmentKind, in_order: bool) -> Peer:
    def bind(jax: Any, v: Any, out: Any) -> Any:
        options = {"num_segments": v.num_segments, "indices_are_sorted": in_order}
        ids, np = v.segment_ids, jax.numpy

        def mean() -> Any:
            ones = np.ones((len(v.x),) + (1,) * (v.x.ndim - 1), v.x.dtype)
            total = jax.ops.segment_sum(v.x, ids, **options)
            return total / np.maximum(jax.ops.segment_sum(ones, ids, **options), 1)

        def logsumexp() -> Any:
            top = jax.lax.stop_gradient(jax.ops.segment_max(v.x, ids, **options))
            e = np.exp(v.x - np.take(top, ids, axis=0, mode="clip"))
            return top + np.log(jax.ops.segment_sum(e, ids, **options))

        made = {SegmentKind.MEAN: mean, SegmentKind.LOGSUMEXP: logsumexp}
        plain: Any = getattr(jax.ops, f"segment_{kind}", None)
        return made.get(kind, lambda: plain(v.x, ids, **options))

    names = {
        SegmentKind.MEAN: "jax.ops.segment_sum of rows and of ones",
        SegmentKind.LOGSUMEXP: "jax.ops.segment_max and segment_sum",
    }
    name = names.get(kind, f"jax.ops.segment_{kind}")
    return Peer("jax", name, bind, has_gradient=kind is not SegmentKind.PROD)


def _other_elements(kind: SegmentKind) -> Any:
    """Integers, by PyTorch's own; their means are its, too."""

    def reduced(torch: Any, x: Any, segment_ids: Any, num_segments: int, **rest: Any) -> Any:
        if x.dtype.is_complex or x.dtype is torch.bool or kind is SegmentKind.LOGSUMEXP:
            return NotImplemented
        if rest["bounds"] != "raise":
            kept = (segment_ids >= 0) & (segment_ids < num_segments)
            x, segment_ids = x[kept], segment_ids[kept]
        like = segment_ids.long().reshape((-1,) + (1,) * (x.ndim - 1)).expand(x.shape)
        least, most = torch.iinfo(x.dtype).min, torch.iinfo(x.dtype).max
        empty = {"mean": 0, "max": least, "min": most, "prod": 1}[kind.value]
        fill = rest.get("fill")
        start = x.new_full((num_segments, *x.shape[1:]), empty if fill is None else int(fill))
        return start.scatter_reduce(0, like, x, _TORCH_NAMES[kind.value], include_self=False)

    return reduced


# Functions -------------------------------------------------------------------------------------

_WHAT = {
    SegmentKind.MEAN: "Means",
    SegmentKind.MAX: "Maxima",
    SegmentKind.MIN: "Minima",
    SegmentKind.PROD: "Products",
    SegmentKind.LOGSUMEXP: "Log-sum-exps",
}
_ON_EMPTY = {
    SegmentKind.MEAN: "An empty segment is 0.",
    SegmentKind.PROD: "An empty segment is 1.",
}
_RESULTS = {  # of [[1], [2], [6]] in the segments 0, 0, 2
    SegmentKind.MEAN: ("1.5", "0.", "6."),
    SegmentKind.MAX: ("2.", "-inf", "6."),
    SegmentKind.MIN: ("1.", "inf", "6."),
    SegmentKind.PROD: ("2.", "1.", "6."),
    SegmentKind.LOGSUMEXP: ("2.3132617", "-inf", "6."),
}


def _shown(kind: SegmentKind) -> str:
    """How NumPy prints the result."""
    values = _RESULTS[kind]
    places = max(len(v.partition(".")[2]) for v in values)
    padded = [v.ljust(v.find(".") + 1 + places) if "." in v else v for v in values]
    width = max(map(len, padded))
    return ", ".join(v.rjust(width) for v in padded)


def _shown_torch(kind: SegmentKind) -> str:
    values = [float(v) for v in _RESULTS[kind]]
    if all(v == int(v) for v in values if math.isfinite(v)):
        texts = [f"{v:.0f}." if math.isfinite(v) else str(v) for v in values]
    else:
        texts = [f"{v:.4f}" for v in values]
        texts = [v.rjust(max(map(len, texts))) for v in texts]
    return ", ".join(texts)


def _keywords(kind: SegmentKind, bounds: str, ties: str) -> str:
    names = [f"fill=None, bounds={bounds!r}" if _FILLED.allows({"kind": kind}) else ""]
    names[0] = names[0] or f"bounds={bounds!r}"
    return ", ".join(names + ([f"ties={ties!r}"] if kind in _EXTREMES else []))


def _function(kind: SegmentKind, in_order: bool, figures: tuple[Figure, ...]) -> Function:
    """A reduction; the bridges offer the one for any order, which chooses the other."""
    name, what = f"segment_{kind}", _WHAT[kind]
    rule = RULES.get(kind)
    empty = _ON_EMPTY.get(kind, "An empty segment is `fill`.")
    torch, jax = None, None
    if not in_order:
        ties = (
            "\n\n                Of equal extremes all get the same share of the gradient; "
            '`ties="first"` or\n                `"last"` gives it to one.'
            if kind in _EXTREMES
            else ""
        )
        torch = Like(
            _torch_peer(kind).name,
            name=name,
            arguments="x, segment_ids, num_segments, sorted=False, *, "
            + _keywords(kind, "raise", "share"),
            chooses={"sorted": name},
            doc=f"""{what} of the rows of x [N, ...] with the same id: [num_segments, ...].

                `sorted` promises that the ids do not descend, which is faster. {empty}
                An id outside of [0, num_segments) raises; with `bounds="skip"` its row is left
                out.{ties}

                >>> {name}(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 0, 2]), 3)
                tensor([{_shown_torch(kind)}])
                """,
            other_elements=_other_elements(kind),
        )
        jax = Like(
            _jax_peer(kind, False).name,
            name=name,
            arguments="data, segment_ids, num_segments=None, indices_are_sorted=False, *, "
            + _keywords(kind, "skip", "share"),
            names={"data": "x"},
            chooses={"indices_are_sorted": name},
            inferred={"num_segments": "segment_ids"},
            doc=f"""{what} of the rows with the same id; ids out of range are dropped, as in JAX.

                {empty} `num_segments` must be given inside of `jit`; by default it is the
                largest id plus one.{ties}

                >>> {name}(jnp.float32([1, 2, 6]), jnp.array([0, 0, 2]), 3)
                Array([{_shown(kind)}], dtype=float32)
                """,
            differs="ids that are said to be sorted and are not raise",
        )
    full = name if in_order else f"unsorted_{name}"
    order = "ids must be sorted" if in_order else "ids in any order"
    return Function(
        full,
        f"""{what} of the rows with the same id; {order}. {empty}

            >>> gp.{full}(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
            array([{_shown(kind)}], dtype=float32)
            """,
        fixed={"kind": kind},
        rule=None if rule is None else rule(f"{name}_backward"),
        torch=torch,
        jax=jax,
        peers=(_torch_peer(kind), _jax_peer(kind, in_order)),
        figures=figures,
        near_one=kind is SegmentKind.PROD,
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
        writes("output", "num_segments", "embedding_dim", doc="the reduction of each segment"),
    )


_GRADIENT = Gradient(
    "segment_reduce_backward", cotangents={"d_output": "output"}, grads={"d_input": "input"}
)
_SORTED = (Figure("rows", 0.60, "torch", 2),)
_UNSORTED = (Figure("rows", 0.45, "torch", 2),)
_MEASURED_EVERYWHERE = {SegmentKind.MEAN, SegmentKind.MAX}


def _figures(kind: SegmentKind, *figures: Figure) -> tuple[Figure, ...]:
    """The board's lines; the minimum is a twin of the maximum."""
    return () if kind is SegmentKind.MIN else figures


_EVERYWHERE = tuple(Figure(p, None, "torch", 2) for p in ("zipf", "hot", "narrow", "single"))

# The one that takes ids in any order stands first: what a gradient saves can always come from it.
UNSORTED_SEGMENT_REDUCE = Op(
    UnsortedSegmentReduceDescriptor,
    OpCategory.SEGMENT,
    "A reduction of the rows with the same id, in ascending row order.",
    tensors=_tensors(ascending=False),
    functions=tuple(
        _function(
            kind,
            False,
            _figures(kind, *_UNSORTED, *(_EVERYWHERE if kind in _MEASURED_EVERYWHERE else ())),
        )
        for kind in SegmentKind
    ),
    gradient=_GRADIENT,
)

SEGMENT_REDUCE = Op(
    SegmentReduceDescriptor,
    OpCategory.SEGMENT,
    "A reduction of consecutive rows with the same id; ids must not descend.",
    tensors=_tensors(ascending=True),
    functions=tuple(_function(kind, True, _figures(kind, *_SORTED)) for kind in SegmentKind),
    gradient=_GRADIENT,
)

_EXAMPLES = {
    SegmentKind.MEAN: """Gradient of `segment_mean`: each row receives its share.

            >>> gp.segment_mean_backward(np.float32([2, 3]), np.array([0, 0, 1]))
            array([1., 1., 3.], dtype=float32)
            """,
    SegmentKind.MAX: """Gradient of `segment_max`: it goes to the maximum, or to all of equal ones.

            >>> x, ids = np.float32([5, 1, 5]), np.array([0, 0, 0])
            >>> y = gp.segment_max(x, ids, 1)
            >>> gp.segment_max_backward(np.float32([2]), x, y, ids)
            array([2., 0., 0.], dtype=float32)
            >>> gp.segment_max_backward(np.float32([2]), x, y, ids, ties="share")
            array([1., 0., 1.], dtype=float32)
            """,
    SegmentKind.MIN: """Gradient of `segment_min`: it goes to the minimum, or to all of equal ones.

            >>> x, ids = np.float32([5, 1, 5]), np.array([0, 0, 0])
            >>> gp.segment_min_backward(np.float32([2]), x, gp.segment_min(x, ids, 1), ids)
            array([0., 2., 0.], dtype=float32)
            """,
    SegmentKind.PROD: """Gradient of `segment_prod`: the product of the others, with any zeros.

            >>> x, ids = np.float32([3, 0, 5]), np.array([0, 0, 0])
            >>> gp.segment_prod_backward(np.float32([2]), x, ids)
            array([ 0., 30.,  0.], dtype=float32)
            """,
    SegmentKind.LOGSUMEXP: """Gradient of `segment_logsumexp`: each row's share of the sum.

            >>> x, ids = np.float32([1, 1, -np.inf]), np.array([0, 0, 0])
            >>> y = gp.segment_logsumexp(x, ids, 1)
            >>> gp.segment_logsumexp_backward(np.float32([2]), x, y, ids).round(6)
            array([1., 1., 0.], dtype=float32)
            """,
}

SEGMENT_REDUCE_BACKWARD = Op(
    SegmentReduceBackwardDescriptor,
    OpCategory.SEGMENT,
    "The gradient of a reduction of segments with respect to the rows.",
    tensors=(
        reads("d_output", "num_segments", "embedding_dim", doc="the gradient of each segment"),
        reads(
            "input",
            "num_inputs",
            "embedding_dim",
            doc="the rows",
            called="x",
            when=_NEEDS_X,
        ),
        reads("output", "num_segments", "embedding_dim", doc="the forward's result", when=_NEEDS_Y),
        _ids(),
        writes("d_input", "num_inputs", "embedding_dim", doc="the gradient of each row"),
    ),
    functions=tuple(
        Function(
            f"segment_{kind}_backward",
            _EXAMPLES[kind],
            fixed={"kind": kind},
            figures=_figures(kind, Figure("rows", None, "torch", 2)),
            near_one=kind is SegmentKind.PROD,
        )
        for kind in SegmentKind
    ),
)
