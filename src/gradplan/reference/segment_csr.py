"""Segments by pointers: the functions of segments by ids, for ids that the pointers say."""

from __future__ import annotations

import numpy as np

from gradplan.vocabulary import CsrKind, IndexOutOfRange, InvalidProblem

from .arithmetic import Array
from .operations import operation
from .segment import segment_sum, segment_sum_backward
from .segment_reduce import segment_reduce, segment_reduce_backward
from .segment_softmax import segment_softmax, segment_softmax_backward


def ids_of(indptr: Array, rows: int) -> Array:
    """The segment of each row; -1 before the first pointer, and one too many behind the last.

    >>> ids_of(np.array([1, 3, 3, 4]), 5).tolist()
    [-1, 0, 0, 2, 3]
    >>> ids_of(np.array([0, 3, 2]), 5)
    Traceback (most recent call last):
    gradplan.InvalidProblem: indptr[2] = 2 after indptr[1] = 3: expected pointers in ascending order
    """
    wrong = indptr[1:] < indptr[:-1]
    if wrong.any():
        at = int(wrong.argmax()) + 1
        raise InvalidProblem(
            f"indptr[{at}] = {int(indptr[at])} after indptr[{at - 1}] = {int(indptr[at - 1])}: "
            "expected pointers in ascending order"
        )
    outside = (indptr < 0) | (indptr > rows)
    if outside.any():
        at = int(outside.argmax())
        raise IndexOutOfRange(
            f"indptr[{at}] = {int(indptr[at])}: expected a pointer in [0, {rows}]"
        )
    return np.searchsorted(indptr, np.arange(rows), side="right") - 1


@operation
def segment_csr(input: Array, indptr: Array, *, kind: str, fill: float | None = None) -> Array:
    """Row s of the result is the reduction of the rows from indptr[s] up to indptr[s + 1].

    >>> segment_csr(np.float32([[1], [2], [4]]), np.array([0, 1, 1, 3]), kind="sum").tolist()
    [[1.0], [0.0], [6.0]]
    """
    ids, count = ids_of(indptr, len(input)), len(indptr) - 1
    result: Array
    if CsrKind.parse(kind) is CsrKind.SUM:
        result = segment_sum(input, ids, num_segments=count)
    else:
        result = segment_reduce(input, ids, kind=str(kind), num_segments=count, fill=fill)
    return result


@operation
def segment_csr_backward(
    d_output: Array,
    input: Array | None = None,
    output: Array | None = None,
    indptr: Array | None = None,
    *,
    kind: str,
    num_inputs: int,
    ties: str = "first",
) -> Array:
    """The gradient of `segment_csr`.

    >>> dy, indptr = np.float32([[1], [2]]), np.array([0, 1, 3])
    >>> segment_csr_backward(dy, None, None, indptr, kind="mean", num_inputs=3).tolist()
    [[1.0], [1.0], [1.0]]
    """
    assert indptr is not None
    ids = ids_of(indptr, num_inputs)
    result: Array
    if CsrKind.parse(kind) is CsrKind.SUM:
        result = segment_sum_backward(d_output, ids)
    else:
        result = segment_reduce_backward(d_output, input, output, ids, kind=str(kind), ties=ties)
    return result


@operation
def segment_csr_softmax(input: Array, indptr: Array, *, kind: str) -> Array:
    """Row n of the result is the share that row n of `input` has in its segment.

    >>> x = np.float32([[0], [7], [7]])
    >>> segment_csr_softmax(x, np.array([0, 1, 3]), kind="softmax").tolist()
    [[1.0], [0.5], [0.5]]
    """
    ids = ids_of(indptr, len(input))
    result: Array = segment_softmax(input, ids, kind=kind, num_segments=len(indptr) - 1)
    return result


@operation
def segment_csr_softmax_backward(
    d_output: Array, output: Array, indptr: Array, *, kind: str
) -> Array:
    """The gradient of `segment_csr_softmax`.

    >>> dy, y = np.float32([[1], [0]]), np.float32([[0.5], [0.5]])
    >>> segment_csr_softmax_backward(dy, y, np.array([0, 2]), kind="softmax").tolist()
    [[0.25], [-0.25]]
    """
    ids, count = ids_of(indptr, len(output)), len(indptr) - 1
    result: Array = segment_softmax_backward(d_output, output, ids, kind=kind, num_segments=count)
    return result
