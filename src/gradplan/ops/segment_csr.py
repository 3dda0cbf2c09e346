"""Reductions and softmax over segments by pointers, and their gradients.

Segment s has the rows from indptr[s] up to indptr[s + 1]: ids that ascend, in compressed form
(CSR). The functions are those of segments by ids, bit for bit. Rows before the first pointer and
behind the last are in no segment: they add nothing, and their gradient is 0.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from gradplan.declaration import (
    Descriptor,
    Features,
    Fill,
    Function,
    Gradient,
    Like,
    Namespace,
    Only,
    Op,
    Rows,
    Rule,
    Tensor,
    Values,
    one_more,
    reads,
    reads_indices,
    writes,
)
from gradplan.ops import segment_reduce, segment_softmax
from gradplan.vocabulary import (
    CsrKind,
    ElementKind,
    OpCategory,
    SegmentKind,
    SegmentTies,
    SoftmaxKind,
)

_EXTREMES = {CsrKind.MAX, CsrKind.MIN}
_FILLED = Only(kind={*_EXTREMES, CsrKind.LOGSUMEXP})
_NEEDS_X = Only(kind=set(CsrKind) - {CsrKind.SUM, CsrKind.MEAN})


class _RowFields(Descriptor):
    num_inputs: Annotated[Rows, "the number of rows"]
    embedding_dim: Annotated[Features, "the number of elements in a row"]
    num_segments: Annotated[Rows, "the number of segments"]
    element: Annotated[ElementKind, "the element type"]


class SegmentCsrDescriptor(_RowFields):
    """A reduction of the rows between pointers."""

    kind: Annotated[CsrKind, "the reduction"]
    fill: Annotated[
        float | None,
        Fill("kind", {CsrKind.MAX: -math.inf, CsrKind.MIN: math.inf, CsrKind.LOGSUMEXP: -math.inf}),
        "what an empty segment is; by default the reduction of nothing, -inf or inf",
        _FILLED,
    ] = None


class SegmentCsrBackwardDescriptor(_RowFields):
    """The gradient of a reduction of the rows between pointers."""

    kind: Annotated[CsrKind, "the reduction"]
    ties: Annotated[
        SegmentTies,
        "which of several equal extremes receives the gradient, or all of them a share",
        Only(kind=_EXTREMES),
    ] = SegmentTies.FIRST


class SegmentCsrSoftmaxDescriptor(_RowFields):
    """A softmax over the rows between pointers."""

    kind: Annotated[SoftmaxKind, "the shares, or their logarithms"]


class SegmentCsrSoftmaxBackwardDescriptor(_RowFields):
    """The gradient of a softmax over the rows between pointers."""

    kind: Annotated[SoftmaxKind, "the shares, or their logarithms"]


class _ByPointers(Rule):
    """The rule of the function by ids, which computes with functions by ids."""

    def __init__(self, by_ids: Rule) -> None:
        self.by_ids = by_ids

    def _with_ids(self, xp: Namespace, v: Values) -> dict[str, Any]:
        of_rows = v["input"] if "input" in v else v["output"]
        ids = xp.segment_ids(v["indptr"], of_rows.shape[0])
        count = v["indptr"].shape[0] - 1
        return {**v, "segment_ids": ids, "num_segments": count, "bounds": "skip"}

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        return self.by_ids.tangent(xp, self._with_ids(xp, v), t)

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        return self.by_ids.pull_saved(xp, self._with_ids(xp, v), c, tangent)

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        return self.by_ids.push_saved(xp, self._with_ids(xp, v), t)


_WHAT = {
    CsrKind.SUM: "Sums",
    CsrKind.MEAN: "Means",
    CsrKind.MAX: "Maxima",
    CsrKind.MIN: "Minima",
    CsrKind.PROD: "Products",
    CsrKind.LOGSUMEXP: "Log-sum-exps",
}
_EMPTY = {CsrKind.SUM: "0", CsrKind.MEAN: "0", CsrKind.PROD: "1"}
_RESULTS = {  # of [[1], [2], [6]] between the pointers 0, 2, 2, 3
    CsrKind.SUM: ("3., 0., 6.", "3., 0., 6."),
    CsrKind.MEAN: ("1.5, 0. , 6. ", "1.5000, 0.0000, 6.0000"),
    CsrKind.MAX: ("  2., -inf,   6.", "2., -inf, 6."),
    CsrKind.MIN: (" 1., inf,  6.", "1., inf, 6."),
    CsrKind.PROD: ("2., 1., 6.", "2., 1., 6."),
    CsrKind.LOGSUMEXP: ("2.3132617,      -inf, 6.       ", "2.3133,   -inf, 6.0000"),
}


def _rule(kind: CsrKind) -> Rule | None:
    if kind in (CsrKind.SUM, CsrKind.MEAN):
        return None
    by_ids = SegmentKind(kind.value)
    return _ByPointers(segment_reduce.RULES[by_ids](f"segment_{kind}_backward"))


def _function(kind: CsrKind) -> Function:
    name, plain, torch = f"segment_{kind}_csr", *_RESULTS[kind]
    what = f"{_WHAT[kind]} of the rows between pointers"
    empty = f"An empty segment is {_EMPTY.get(kind, '`fill`')}."
    keywords = ["*"] if _FILLED.allows({"kind": kind}) else []
    keywords += ["fill=None"] * len(keywords) + ["ties='share'"] * (kind in _EXTREMES)
    arguments = ", ".join(["x, indptr", *keywords])
    ties = ""
    if kind in _EXTREMES:
        ties = (
            "\n\n                Of equal extremes all get the same share of the gradient; "
            '`ties="first"` or\n                `"last"` gives it to one.'
        )

    def like(array: str, shown: str) -> Like:
        return Like(
            name=name,
            arguments=arguments,
            doc=f"""{what}: from x[indptr[s]] up to x[indptr[s + 1]].

                {empty} Pointers that descend or point beyond x raise.{ties}

                >>> {name}({array})
                {shown}
                """,
        )

    return Function(
        name,
        f"""{what}. {empty}

            Segment s has the rows from x[indptr[s]] up to x[indptr[s + 1]].

            >>> gp.{name}(np.float32([1, 2, 6]), np.array([0, 2, 2, 3]))
            array([{plain}], dtype=float32)
            """,
        fixed={"kind": kind},
        rule=_rule(kind),
        torch=like(
            "torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 2, 2, 3])", f"tensor([{torch}])"
        ),
        jax=like(
            "jnp.float32([1, 2, 6]), jnp.array([0, 2, 2, 3])", f"Array([{plain}], dtype=float32)"
        ),
        near_one=kind is CsrKind.PROD,
    )


_INDPTR: Tensor = reads_indices(
    "indptr",
    one_more("num_segments"),
    into="num_inputs",
    doc="where each segment begins, and the end",
    ascending=True,
)
_ROWS = reads("input", "num_inputs", "embedding_dim", doc="the rows", called="x")
_D_ROWS = writes("d_input", "num_inputs", "embedding_dim", doc="the gradient of each row")

SEGMENT_CSR = Op(
    SegmentCsrDescriptor,
    OpCategory.SEGMENT,
    "A reduction of the rows between pointers.",
    tensors=(
        _ROWS,
        _INDPTR,
        writes("output", "num_segments", "embedding_dim", doc="the reduction of each segment"),
    ),
    functions=tuple(map(_function, CsrKind)),
    gradient=Gradient(
        "segment_csr_backward", cotangents={"d_output": "output"}, grads={"d_input": "input"}
    ),
)

_GRADIENTS = {
    CsrKind.SUM: ("np.array([0, 2, 3]), 3", "2., 2., 3."),
    CsrKind.MEAN: ("np.array([0, 2, 3]), 3", "1., 1., 3."),
    CsrKind.MAX: ("x, np.float32([2, 6]), np.array([0, 2, 3])", "0., 2., 3."),
    CsrKind.MIN: ("x, np.float32([1, 6]), np.array([0, 2, 3])", "2., 0., 3."),
    CsrKind.PROD: ("x, np.array([0, 2, 3])", "4., 2., 3."),
    CsrKind.LOGSUMEXP: ("x, np.float32([1, 2]), np.array([0, 1, 2])", "2., 3., 0."),
}


def _gradient(kind: CsrKind) -> Function:
    arguments, shown = _GRADIENTS[kind]
    name = f"segment_{kind}_csr"
    return Function(
        f"{name}_backward",
        f"""Gradient of `{name}`.

            >>> x, dy = np.float32([1, 2, 6]), np.float32([2, 3])
            >>> gp.{name}_backward(dy, {arguments})
            array([{shown}], dtype=float32)
            """,
        fixed={"kind": kind},
        near_one=kind is CsrKind.PROD,
    )


SEGMENT_CSR_BACKWARD = Op(
    SegmentCsrBackwardDescriptor,
    OpCategory.SEGMENT,
    "The gradient of a reduction of the rows between pointers.",
    tensors=(
        reads("d_output", "num_segments", "embedding_dim", doc="the gradient of each segment"),
        reads("input", "num_inputs", "embedding_dim", doc="the rows", called="x", when=_NEEDS_X),
        reads("output", "num_segments", "embedding_dim", doc="the forward's result", when=_FILLED),
        _INDPTR,
        _D_ROWS,
    ),
    functions=tuple(map(_gradient, CsrKind)),
)


def _softmax(kind: SoftmaxKind) -> Function:
    name = f"segment_{kind}_csr"
    softmax = kind is SoftmaxKind.SOFTMAX
    what = (
        "Softmax" if softmax else "Logarithm of the softmax"
    ) + " over the rows between pointers"
    values = "0.5000, 0.5000, 1.0000" if softmax else "-0.6931, -0.6931,  0.0000"
    plain = "0.5, 0.5, 1. " if softmax else "-0.6931472, -0.6931472,  0.       "

    def like(array: str, shown: str) -> Like:
        return Like(
            name=name,
            arguments="x, indptr",
            doc=f"""{what}.

                A row of -inf has no share, also in a segment of nothing else. Rows in no segment
                are 0. Pointers that descend or point beyond x raise.

                >>> {name}({array})
                {shown}
                """,
        )

    return Function(
        name,
        f"""{what}. Rows in no segment are 0.

            >>> gp.{name}(np.float32([1, 1, 6]), np.array([0, 2, 3]))
            array([{plain}], dtype=float32)
            """,
        fixed={"kind": kind},
        rule=_ByPointers(segment_softmax.RULES[kind]()),
        torch=like("torch.tensor([1.0, 1.0, 6.0]), torch.tensor([0, 2, 3])", f"tensor([{values}])"),
        jax=like(
            "jnp.float32([1, 1, 6]), jnp.array([0, 2, 3])", f"Array([{plain}], dtype=float32)"
        ),
    )


SEGMENT_CSR_SOFTMAX = Op(
    SegmentCsrSoftmaxDescriptor,
    OpCategory.SEGMENT,
    "Softmax, or its logarithm, over the rows between pointers.",
    tensors=(
        _ROWS,
        _INDPTR,
        writes("output", "num_inputs", "embedding_dim", doc="the share of each row"),
    ),
    functions=tuple(map(_softmax, SoftmaxKind)),
    gradient=Gradient(
        "segment_csr_softmax_backward",
        cotangents={"d_output": "output"},
        grads={"d_input": "input"},
    ),
)

_SHARES = {
    SoftmaxKind.SOFTMAX: ("0.5, 0.5", " 0.25, -0.25"),
    SoftmaxKind.LOG_SOFTMAX: ("0, -np.inf", "0., 0."),
}

SEGMENT_CSR_SOFTMAX_BACKWARD = Op(
    SegmentCsrSoftmaxBackwardDescriptor,
    OpCategory.SEGMENT,
    "The gradient of a softmax over the rows between pointers.",
    tensors=(
        reads("d_output", "num_inputs", "embedding_dim", doc="the gradient of each share"),
        reads("output", "num_inputs", "embedding_dim", doc="the forward's result"),
        _INDPTR,
        _D_ROWS,
    ),
    functions=tuple(
        Function(
            f"segment_{kind}_csr_backward",
            f"""Gradient of `segment_{kind}_csr`.

            >>> dy, y, indptr = np.float32([1, 0]), np.float32([{shares}]), np.array([0, 2])
            >>> gp.segment_{kind}_csr_backward(dy, y, indptr)
            array([{shown}], dtype=float32)
            """,
            fixed={"kind": kind},
        )
        for kind, (shares, shown) in _SHARES.items()
    ),
)
