"""Sums over segments of rows, and their gradient.

    output[s, :]  = sum over n with segment_ids[n] == s of input[n, :]
    d_input[n, :] = d_output[segment_ids[n], :]

Members are added in ascending n, in blocks of 256 (docs/numerics.md); an empty segment is 0. Ids
outside of [0, num_segments) are skipped (they add nothing, and their d_input is 0) or raise.
"""

from __future__ import annotations

from typing import Annotated, Any

from gradplan.declaration import (
    Arithmetic,
    Descriptor,
    Features,
    Figure,
    Function,
    Gradient,
    Like,
    Op,
    Peer,
    Rows,
    Tensor,
    reads,
    reads_indices,
    writes,
)
from gradplan.vocabulary import Bounds, ElementKind, OpCategory


class _SegmentFields(Descriptor):
    num_inputs: Annotated[Rows, "the number of rows"]
    embedding_dim: Annotated[Features, "the number of elements in a row"]
    num_segments: Annotated[Rows, "the number of segments"]
    element: Annotated[ElementKind, "the element type"]
    bounds: Annotated[Bounds, "skip ids outside of [0, num_segments), or raise"] = Bounds.SKIP


class SegmentSumDescriptor(_SegmentFields):
    """Sums of the rows of each segment; the ids must ascend."""


class UnsortedSegmentSumDescriptor(_SegmentFields):
    """Sums of the rows of each segment; ids in any order."""


class SegmentSumBackwardDescriptor(_SegmentFields):
    """The gradient of either segment sum."""


def _ids(ascending: bool = False) -> Tensor:
    return reads_indices(
        "segment_ids",
        "num_inputs",
        into="num_segments",
        doc="the segment of each row",
        ascending=ascending,
    )


def _sum_tensors(ascending: bool) -> tuple[Tensor, ...]:
    return (
        reads("input", "num_inputs", "embedding_dim", doc="the rows", called="x"),
        _ids(ascending),
        writes("output", "num_segments", "embedding_dim", doc="the sum of each segment"),
    )


_GRADIENT = Gradient(
    "segment_sum_backward", cotangents={"d_output": "output"}, grads={"d_input": "input"}
)


def _torch_sum(torch: Any, v: Any, out: Any) -> Any:
    if out is not None:
        return lambda: out.zero_().index_add_(0, v.segment_ids, v.x)
    return lambda: v.x.new_zeros((v.num_segments, *v.x.shape[1:])).index_add(0, v.segment_ids, v.x)


def _jax_sum(in_order: bool) -> Any:
    return lambda jax, v, out: (
        lambda: jax.ops.segment_sum(v.x, v.segment_ids, v.num_segments, indices_are_sorted=in_order)
    )


def _other_elements(
    torch: Any, x: Any, segment_ids: Any, num_segments: int, sorted: bool, bounds: str
) -> Any:
    """Integers, whose sums have no rounding to agree about."""
    if x.dtype.is_complex:
        return NotImplemented
    if bounds != "raise":
        kept = (segment_ids >= 0) & (segment_ids < num_segments)
        x, segment_ids = x[kept], segment_ids[kept]
    return x.new_zeros((num_segments, *x.shape[1:])).index_add(0, segment_ids, x)


SEGMENT_SUM = Op(
    SegmentSumDescriptor,
    OpCategory.SEGMENT,
    "Sums of consecutive rows with the same id; ids must not descend.",
    tensors=_sum_tensors(ascending=True),
    functions=(
        Function(
            "segment_sum",
            """Sums of the rows with the same id; ids must be sorted (`unsorted_segment_sum` else).

            >>> x = np.float32([[1, 10], [2, 20], [3, 30]])
            >>> gp.segment_sum(x, np.array([0, 0, 2]), 3)
            array([[ 3., 30.],
                   [ 0.,  0.],
                   [ 3., 30.]], dtype=float32)
            """,
            torch=None,
            jax=None,
            peers=(
                Peer("torch", "x.new_zeros(shape).index_add(0, segment_ids, x)", _torch_sum),
                Peer("jax", "jax.ops.segment_sum", _jax_sum(in_order=True)),
            ),
            figures=(Figure("rows", 0.60, "torch", 1.5),),
        ),
    ),
    gradient=_GRADIENT,
)

UNSORTED_SEGMENT_SUM = Op(
    UnsortedSegmentSumDescriptor,
    OpCategory.SEGMENT,
    "Sums of the rows with the same id, in ascending row order.",
    tensors=_sum_tensors(ascending=False),
    functions=(
        Function(
            "unsorted_segment_sum",
            """Sums of the rows with the same id; ids in any order.

            >>> gp.unsorted_segment_sum(np.float32([1, 2, 3]), np.array([1, 0, 1]), 2)
            array([2., 4.], dtype=float32)
            """,
            torch=Like(
                "x.new_zeros(shape).index_add(0, segment_ids, x)",
                name="segment_sum",
                arguments="x, segment_ids, num_segments, sorted=False, *, bounds='raise'",
                chooses={"sorted": "segment_sum"},
                doc="""Sums of the rows of x [N, ...] with the same id: [num_segments, ...].

                `sorted` promises that the ids do not descend, which is faster. An id outside of
                [0, num_segments) raises; with `bounds="skip"` its row is left out.

                >>> segment_sum(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1, 0, 1]), 2)
                tensor([2., 4.])
                """,
                other_elements=_other_elements,
            ),
            jax=Like(
                "jax.ops.segment_sum",
                name="segment_sum",
                arguments="data, segment_ids, num_segments=None, indices_are_sorted=False, "
                "*, bounds='skip'",
                names={"data": "x"},
                chooses={"indices_are_sorted": "segment_sum"},
                inferred={"num_segments": "segment_ids"},
                doc="""Sums of the rows with the same id; ids out of range are dropped, as in JAX.

                With `bounds="raise"` they are an error, inside of `jit` as well. `num_segments`
                must be given inside of `jit`; by default it is the largest id plus one. Ids that
                are said to be sorted and are not: an error.

                >>> segment_sum(jnp.float32([1, 2, 3]), jnp.array([1, 0, 1]))
                Array([2., 4.], dtype=float32)
                """,
                differs="ids that are said to be sorted and are not raise",
            ),
            peers=(
                Peer("torch", "x.new_zeros(shape).index_add(0, segment_ids, x)", _torch_sum),
                Peer("jax", "jax.ops.segment_sum", _jax_sum(in_order=False)),
            ),
            figures=(Figure("rows", 0.45, "torch", 1.2),),
        ),
    ),
    gradient=_GRADIENT,
)

SEGMENT_SUM_BACKWARD = Op(
    SegmentSumBackwardDescriptor,
    OpCategory.SEGMENT,
    "Each row receives the gradient of its segment.",
    tensors=(
        reads("d_output", "num_segments", "embedding_dim", doc="the gradient of each sum"),
        _ids(),
        writes("d_input", "num_inputs", "embedding_dim", doc="the gradient of each row"),
    ),
    functions=(
        Function(
            "segment_sum_backward",
            """Gradient of `segment_sum` and `unsorted_segment_sum`; zero where an id was skipped.

            >>> gp.segment_sum_backward(np.float32([1, 2]), np.array([1, 0, 1, -1]), bounds="skip")
            array([2., 1., 2., 0.], dtype=float32)
            """,
            peers=(
                Peer(
                    "torch",
                    "torch.index_select",
                    lambda torch, v, out: (
                        lambda: torch.index_select(v.d_output, 0, v.segment_ids, out=out)
                    ),
                ),
                Peer(
                    "jax",
                    "jnp.take",
                    lambda jax, v, out: (
                        lambda: jax.numpy.take(v.d_output, v.segment_ids, axis=0, mode="clip")
                    ),
                ),
            ),
            figures=(Figure("rows", 0.65, "torch", 1),),
        ),
    ),
    arithmetic=Arithmetic.COPY,
)
