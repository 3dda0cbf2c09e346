"""Sums over segments of rows, and their gradient.

    output[s, :]  = sum over n with segment_ids[n] == s of input[n, :]
    d_input[n, :] = d_output[segment_ids[n], :]

Members are added in ascending n, in blocks of 256 (docs/numerics.md); an empty segment is 0. Ids
outside of [0, num_segments) are skipped: they add nothing, and their d_input is 0.
"""

from __future__ import annotations

from typing import Annotated

from gradplan.descriptor import Descriptor, Pack, Size
from gradplan.spec import Arithmetic, Function, Gradient, Op, Tensor, reads, reads_indices, writes
from gradplan.vocabulary import Bounds, ElementKind, OpCategory


class _SegmentFields(Descriptor):
    num_inputs: Annotated[Size, "the number of rows"]
    embedding_dim: Annotated[Pack, "the number of elements in a row"]
    num_segments: Annotated[Size, "the number of segments"]
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
        "segment_ids", "num_inputs", doc="the segment of each row", ascending=ascending
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

            >>> gp.segment_sum_backward(np.float32([1, 2]), np.array([1, 0, 1, -1]))
            array([2., 1., 2., 0.], dtype=float32)
            """,
        ),
    ),
    arithmetic=Arithmetic.COPY,
)
