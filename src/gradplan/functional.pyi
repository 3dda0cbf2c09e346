# Written by tools/stubs.py from the declarations; do not edit.
from typing import Any, Literal, Protocol, SupportsFloat, SupportsIndex, TypeVar

from gradplan.signatures import Signature
from gradplan.vocabulary import Bounds, ScanKind, ScatterKind, SegmentTies, Ties

class SupportsDLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

T = TypeVar("T", bound=SupportsDLPack)
SIGNATURES: dict[str, Signature]
__all__ = [
    "cummax",
    "cummax_backward",
    "cummax_indices",
    "cummax_with_indices",
    "cummin",
    "cummin_backward",
    "cummin_indices",
    "cummin_with_indices",
    "cumprod",
    "cumprod_backward",
    "cumsum",
    "cumsum_backward",
    "embedding",
    "embedding_backward",
    "gather",
    "gather_backward",
    "index_add",
    "index_add_backward",
    "index_select",
    "index_select_backward",
    "lerp",
    "lerp_backward",
    "linear_scan",
    "linear_scan_backward",
    "logcumsumexp",
    "logcumsumexp_backward",
    "scan_part",
    "scan_part_fold",
    "scan_part_gradient",
    "scan_part_gradient_total",
    "scan_part_total",
    "scatter_add",
    "scatter_add_backward",
    "scatter_reduce",
    "scatter_reduce_backward",
    "segment_log_softmax",
    "segment_log_softmax_backward",
    "segment_log_softmax_csr",
    "segment_log_softmax_csr_backward",
    "segment_logsumexp",
    "segment_logsumexp_backward",
    "segment_logsumexp_csr",
    "segment_logsumexp_csr_backward",
    "segment_max",
    "segment_max_backward",
    "segment_max_csr",
    "segment_max_csr_backward",
    "segment_max_with_indices",
    "segment_mean",
    "segment_mean_backward",
    "segment_mean_csr",
    "segment_mean_csr_backward",
    "segment_min",
    "segment_min_backward",
    "segment_min_csr",
    "segment_min_csr_backward",
    "segment_min_with_indices",
    "segment_prod",
    "segment_prod_backward",
    "segment_prod_csr",
    "segment_prod_csr_backward",
    "segment_softmax",
    "segment_softmax_backward",
    "segment_softmax_csr",
    "segment_softmax_csr_backward",
    "segment_sum",
    "segment_sum_backward",
    "segment_sum_csr",
    "segment_sum_csr_backward",
    "segment_weighted_mean",
    "segment_weighted_mean_backward",
    "segment_weighted_sum",
    "segment_weighted_sum_backward",
    "sparsemax",
    "sparsemax_backward",
    "unsorted_segment_log_softmax",
    "unsorted_segment_logsumexp",
    "unsorted_segment_max",
    "unsorted_segment_max_with_indices",
    "unsorted_segment_mean",
    "unsorted_segment_min",
    "unsorted_segment_min_with_indices",
    "unsorted_segment_prod",
    "unsorted_segment_softmax",
    "unsorted_segment_sum",
    "unsorted_segment_weighted_mean",
    "unsorted_segment_weighted_sum",
]

def lerp(a: T, b: T, weight: SupportsFloat, *, out: T | None = None) -> T:
    """Linear interpolation from a (weight 0) to b (weight 1); a and b broadcast.

    Args:
        a: the result for weight 0
        b: the result for weight 1
        weight: the scalar; the weight of b in lerp
        out: a tensor to write instead of a new one

    Returns:
        the interpolation

    >>> gp.lerp(np.float32([0, 10]), np.float32([4, 20]), 0.25)
    array([ 1. , 12.5], dtype=float32)
    """

def lerp_backward(
    dy: T,
    weight: SupportsFloat,
    *,
    out: tuple[T, T] | None = None,
) -> tuple[T, T]:
    """Gradients of `lerp` with respect to a and b.

    Args:
        dy: the gradient of the interpolation
        weight: the scalar; the weight of b in lerp
        out: a tuple (da, db) of tensors to write instead of a new one

    Returns:
        the gradient of a; the gradient of b

    >>> gp.lerp_backward(np.float32([8, 16]), 0.25)
    (array([ 6., 12.], dtype=float32), array([2., 4.], dtype=float32))
    """

def embedding(
    weight: T,
    indices: SupportsDLPack,
    padding_idx: SupportsIndex | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Rows of a table; zeros where an index is skipped. Indices may have any shape.

    Args:
        weight: the table [num_embeddings, ...]
        indices: which row each output row is [...], int32 or int64
        padding_idx: an index that is skipped as well
        bounds: skip indices outside of the table, or raise
        out: a tensor to write instead of a new one

    Returns:
        the rows

    >>> weight = np.float32([[1, 2], [3, 4]])
    >>> gp.embedding(weight, np.array([1, 0, 7]), bounds="skip")
    array([[3., 4.],
           [1., 2.],
           [0., 0.]], dtype=float32)
    """

def embedding_backward(
    dout: T,
    indices: SupportsDLPack,
    num_embeddings: SupportsIndex,
    padding_idx: SupportsIndex | None = None,
    accumulate: bool = False,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `embedding` with respect to the table.

    Args:
        dout: the gradient of the looked-up rows [..., ...]
        indices: which row each output row is [...], int32 or int64
        num_embeddings: the number of rows of the table
        padding_idx: an index that is skipped as well
        accumulate: add to what the output holds instead of overwriting it
        bounds: skip indices outside of the table, or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of the table

    >>> gp.embedding_backward(np.float32([[1], [2], [4]]), np.array([1, 0, 1]), 3)
    array([[2.],
           [5.],
           [0.]], dtype=float32)
    """

def gather(
    x: T,
    indices: SupportsDLPack,
    axis: SupportsIndex = -1,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Elements by index along an axis, as `np.take_along_axis`.

    Args:
        x: the values [... with size along axis]
        indices: positions along the axis, int32 or int64
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise
        out: a tensor to write instead of a new one

    Returns:
        what is picked, 0 where an index is skipped

    >>> x = np.float32([[1, 2, 3], [4, 5, 6]])
    >>> gp.gather(x, np.array([[2, 0], [1, 1]]))
    array([[3., 1.],
           [5., 5.]], dtype=float32)
    """

def gather_backward(
    d_output: T,
    indices: SupportsDLPack,
    size: SupportsIndex,
    axis: SupportsIndex = -1,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `gather`: the sum of what was picked from each element.

    Args:
        d_output: the gradient of the output
        indices: positions along the axis, int32 or int64
        size: how many there are along the axis to point to
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of the values

    >>> gp.gather_backward(np.float32([1, 2, 4]), np.array([1, 0, 1]), 3)
    array([2., 5., 0.], dtype=float32)
    """

def scatter_add(
    x: T,
    indices: SupportsDLPack,
    size: SupportsIndex,
    axis: SupportsIndex = -1,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Sums of the elements with the same index along an axis.

    Args:
        x: the values
        indices: positions along the axis, int32 or int64
        size: how many there are along the axis to point to
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise
        out: a tensor to write instead of a new one

    Returns:
        the sums

    >>> x = np.float32([[1, 2, 4], [8, 16, 32]])
    >>> gp.scatter_add(x, np.array([[1, 0, 1], [0, 0, 0]]), 2)
    array([[ 2.,  5.],
           [56.,  0.]], dtype=float32)
    """

def scatter_add_backward(
    d_output: T,
    indices: SupportsDLPack,
    axis: SupportsIndex = -1,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `scatter_add`: that of the sum which each element went into.

    Args:
        d_output: the gradient of the output [... with size along axis]
        indices: positions along the axis, int32 or int64
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of the values

    >>> gp.scatter_add_backward(np.float32([1, 2]), np.array([1, 0, 1]))
    array([2., 1., 2.], dtype=float32)
    """

def index_select(
    x: T,
    indices: SupportsDLPack,
    axis: SupportsIndex = -1,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Slices by index along an axis.

    Args:
        x: the values [... with size along axis]
        indices: positions along the axis [along axis], int32 or int64
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise
        out: a tensor to write instead of a new one

    Returns:
        what is picked, 0 where an index is skipped

    >>> x = np.float32([[1, 2, 3], [4, 5, 6]])
    >>> gp.index_select(x, np.array([2, 0]))
    array([[3., 1.],
           [6., 4.]], dtype=float32)
    """

def index_select_backward(
    d_output: T,
    indices: SupportsDLPack,
    size: SupportsIndex,
    axis: SupportsIndex = -1,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `index_select`: the sum of what was picked from each slice.

    Args:
        d_output: the gradient of the output
        indices: positions along the axis [along axis], int32 or int64
        size: how many there are along the axis to point to
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of the values

    >>> gp.index_select_backward(np.float32([[1, 2, 4]]), np.array([1, 0, 1]), 3)
    array([[2., 5., 0.]], dtype=float32)
    """

def index_add(
    x: T,
    indices: SupportsDLPack,
    size: SupportsIndex,
    axis: SupportsIndex = -1,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Sums of the slices with the same index along an axis.

    Args:
        x: the values
        indices: positions along the axis [along axis], int32 or int64
        size: how many there are along the axis to point to
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise
        out: a tensor to write instead of a new one

    Returns:
        the sums

    >>> gp.index_add(np.float32([[1, 2, 4], [8, 16, 32]]), np.array([1, 0, 1]), 2)
    array([[ 2.,  5.],
           [16., 40.]], dtype=float32)
    """

def index_add_backward(
    d_output: T,
    indices: SupportsDLPack,
    axis: SupportsIndex = -1,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `index_add`: that of the sum which each slice went into.

    Args:
        d_output: the gradient of the output [... with size along axis]
        indices: positions along the axis [along axis], int32 or int64
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of the values

    >>> gp.index_add_backward(np.float32([[1, 2]]), np.array([1, 0, 1]))
    array([[2., 1., 2.]], dtype=float32)
    """

def linear_scan(
    a: T,
    b: T,
    initial: T | None = None,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    out: T | None = None,
) -> T:
    """Linear recurrence h[t] = a[t] h[t-1] + b[t] along an axis.

    Args:
        a: what the state before is multiplied by
        b: what is added
        initial: the state before the first [... without scan_axis]
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        out: a tensor to write instead of a new one

    Returns:
        the states

    `initial` is the state before the first element and has no such axis; without it the
    first state is b[0]. A zero in a starts anew, whatever came before it.

    >>> a, b = np.float32([0.5, 0.5, 0, 0.5]), np.float32([1, 1, 1, 1])
    >>> gp.linear_scan(a, b)
    array([1. , 1.5, 1. , 1.5], dtype=float32)
    >>> gp.linear_scan(a, b, np.float32(8))
    array([5. , 3.5, 1. , 1.5], dtype=float32)
    """

def linear_scan_backward(
    dh: T,
    a: T,
    h: T,
    initial: T | None = None,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    out: tuple[T, T, T] | None = None,
) -> tuple[T, T, T]:
    """Gradients of `linear_scan` with respect to a, b and initial.

    Args:
        dh: the gradient of the states
        a: the factors
        h: the states
        initial: the state before the first [... without scan_axis]
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        out: a tuple (da, db, d_initial) of tensors to write instead of a new one

    Returns:
        the gradient of a; the gradient of b; the gradient of initial

    >>> a, b = np.float32([0.5, 0.5, 0, 0.5]), np.float32([1, 1, 1, 1])
    >>> h = gp.linear_scan(a, b)
    >>> gp.linear_scan_backward(b, a, h)[0]
    array([0.  , 1.  , 2.25, 1.  ], dtype=float32)
    >>> gp.linear_scan_backward(b, a, h)[1]
    array([1.5, 1. , 1.5, 1. ], dtype=float32)
    """

def cumsum(
    x: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    out: T | None = None,
) -> T:
    """Running sum along an axis.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        out: a tensor to write instead of a new one

    Returns:
        the running result

    >>> gp.cumsum(np.float32([1, 2, 3]))
    array([1., 3., 6.], dtype=float32)
    >>> gp.cumsum(np.float32([1, 2, 3]), reverse=True)
    array([6., 5., 3.], dtype=float32)
    >>> gp.cumsum(np.float32([1, 2, 3]), exclusive=True)
    array([0., 1., 3.], dtype=float32)
    """

def cumprod(
    x: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    out: T | None = None,
) -> T:
    """Running product along an axis.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        out: a tensor to write instead of a new one

    Returns:
        the running result

    >>> gp.cumprod(np.float32([[1, 2], [3, 4]]), axis=0)
    array([[1., 2.],
           [3., 8.]], dtype=float32)
    """

def cummax(
    x: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    out: T | None = None,
) -> T:
    """Running maximum along an axis. NaN sticks once seen.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        out: a tensor to write instead of a new one

    Returns:
        the running result

    >>> gp.cummax(np.float32([1, 3, 2, 4]))
    array([1., 3., 3., 4.], dtype=float32)
    """

def cummin(
    x: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    out: T | None = None,
) -> T:
    """Running minimum along an axis. NaN sticks once seen.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        out: a tensor to write instead of a new one

    Returns:
        the running result

    >>> gp.cummin(np.float32([3, 1, 2, 0]))
    array([3., 1., 1., 0.], dtype=float32)
    """

def logcumsumexp(
    x: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    out: T | None = None,
) -> T:
    """Logarithm of the running sum of exponentials, without overflow.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        out: a tensor to write instead of a new one

    Returns:
        the running result

    >>> gp.logcumsumexp(np.float64([-np.inf, 1000.0, -np.inf]))
    array([ -inf, 1000., 1000.])
    """

def cumsum_backward(
    dy: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    out: T | None = None,
) -> T:
    """Gradient of `cumsum`: the sum of dy in the other direction.

    Args:
        dy: the gradient of the scan's output
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        out: a tensor to write instead of a new one

    Returns:
        the gradient of the scan's input

    >>> gp.cumsum_backward(np.float32([1, 2, 3]))
    array([6., 5., 3.], dtype=float32)
    """

def cumprod_backward(
    dy: T,
    x: T,
    y: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    out: T | None = None,
) -> T:
    """Gradient of `cumprod`; right with zeros in x, and no NaN where y overflows.

    Args:
        dy: the gradient of the scan's output
        x: the scan's input
        y: the scan's output
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        out: a tensor to write instead of a new one

    Returns:
        the gradient of the scan's input

    >>> x = np.float32([2, 0, 5])
    >>> gp.cumprod_backward(np.ones_like(x), x, gp.cumprod(x))
    array([ 1., 12.,  0.], dtype=float32)
    """

def cummax_backward(
    dy: T,
    x: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
    exclusive: bool = False,
    *,
    out: T | None = None,
) -> T:
    """Gradient of `cummax`: dy goes to the element that was the maximum.

    Args:
        dy: the gradient of the scan's output
        x: the scan's input
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes receives the gradient
        exclusive: give what is before each element, without itself
        out: a tensor to write instead of a new one

    Returns:
        the gradient of the scan's input

    >>> x = np.float32([1, 3, 3, 2])
    >>> gp.cummax_backward(np.float32([1, 1, 1, 1]), x)
    array([1., 3., 0., 0.], dtype=float32)
    >>> gp.cummax_backward(np.float32([1, 1, 1, 1]), x, ties="last")
    array([1., 1., 2., 0.], dtype=float32)
    """

def cummin_backward(
    dy: T,
    x: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
    exclusive: bool = False,
    *,
    out: T | None = None,
) -> T:
    """Gradient of `cummin`: dy goes to the element that was the minimum.

    Args:
        dy: the gradient of the scan's output
        x: the scan's input
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes receives the gradient
        exclusive: give what is before each element, without itself
        out: a tensor to write instead of a new one

    Returns:
        the gradient of the scan's input

    >>> gp.cummin_backward(np.float32([1, 1, 1]), np.float32([2, 1, 3]))
    array([1., 2., 0.], dtype=float32)
    """

def logcumsumexp_backward(
    dy: T,
    x: T,
    y: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    out: T | None = None,
) -> T:
    """Gradient of `logcumsumexp`.

    Args:
        dy: the gradient of the scan's output
        x: the scan's input
        y: the scan's output
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        out: a tensor to write instead of a new one

    Returns:
        the gradient of the scan's input

    >>> x = np.float64([0, 0])
    >>> gp.logcumsumexp_backward(np.float64([0, 1]), x, gp.logcumsumexp(x))
    array([0.5, 0.5])
    """

def cummax_indices(
    x: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
    *,
    out: T | None = None,
) -> T:
    """Where the running maximum comes from, along an axis; `ties` as in its gradient.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes it is
        out: a tensor to write instead of a new one

    Returns:
        positions along the axis, counted from its beginning

    >>> x = np.float32([1, 3, 2, 3])
    >>> gp.cummax_indices(x)
    array([0, 1, 1, 1])
    >>> gp.cummax_indices(x, ties="last")
    array([0, 1, 1, 3])
    """

def cummin_indices(
    x: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
    *,
    out: T | None = None,
) -> T:
    """Where the running minimum comes from, along an axis; `ties` as in its gradient.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes it is
        out: a tensor to write instead of a new one

    Returns:
        positions along the axis, counted from its beginning

    >>> gp.cummin_indices(np.float32([3, 1, 2, 0]), reverse=True)
    array([3, 3, 3, 3])
    """

def cummax_with_indices(
    x: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
    *,
    out: tuple[T, T] | None = None,
) -> tuple[T, T]:
    """Running maximum along an axis, and where it comes from: `cummax`, `cummax_indices`.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes it is
        out: a tuple (y, indices) of tensors to write instead of a new one

    Returns:
        the running extreme; positions along the axis, counted from its beginning

    >>> gp.cummax_with_indices(np.float32([1, 3, 2, 3]))
    (array([1., 3., 3., 3.], dtype=float32), array([0, 1, 1, 1]))
    """

def cummin_with_indices(
    x: T,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
    *,
    out: tuple[T, T] | None = None,
) -> tuple[T, T]:
    """Running minimum along an axis, and where it comes from: `cummin`, `cummin_indices`.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes it is
        out: a tuple (y, indices) of tensors to write instead of a new one

    Returns:
        the running extreme; positions along the axis, counted from its beginning

    >>> gp.cummin_with_indices(np.float32([3, 1, 2, 0]))
    (array([3., 1., 1., 0.], dtype=float32), array([0, 1, 1, 3]))
    """

def scan_part(
    x: T,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: T | None = None,
    carry: T | None = None,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    *,
    out: T | None = None,
) -> T:
    """A scan of a part of each row, given what comes out of the part before.

    Args:
        x: what is scanned
        kind: the running operation
        before: logcumsumexp: the running maximum that comes in [... without scan_axis]
        carry: what comes in [... without scan_axis]
        axis: the axis to scan along
        reverse: scan from the last element to the first
        out: a tensor to write instead of a new one

    Returns:
        the running result

    >>> x = np.float32([1, 2, 3])
    >>> gp.scan_part(x, carry=np.float32(10), kind="cumsum")
    array([11., 13., 16.], dtype=float32)
    """

def scan_part_total(
    x: T,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: T | None = None,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    *,
    out: tuple[T, T] | None = None,
) -> tuple[T, T]:
    """What a part of each row hands on: the total, and the gain of what comes in.

    Args:
        x: what is scanned
        kind: the running operation
        before: logcumsumexp: the running maximum that comes in [... without scan_axis]
        axis: the axis to scan along
        reverse: scan from the last element to the first
        out: a tuple (total, gain) of tensors to write instead of a new one

    Returns:
        what comes out where nothing comes in; the factor of what comes in

    >>> gp.scan_part_total(np.float32([1, 2, 3]), kind="cumsum")[0]
    array(6., dtype=float32)
    """

def scan_part_gradient(
    dy: T,
    x: T,
    y: T,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: T | None = None,
    behind: T | None = None,
    carry: T | None = None,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
    *,
    out: T | None = None,
) -> T:
    """The gradient of a scan of a part of each row, given what comes from behind it.

    Args:
        dy: the gradient of the results
        x: what was scanned
        y: the running result
        kind: the running operation
        before: x or y behind the part, or the extreme before it [... without scan_axis]
        behind: cumprod: y before the part, if there is one [... without scan_axis]
        carry: what comes in [... without scan_axis]
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes receives the gradient
        out: a tensor to write instead of a new one

    Returns:
        the gradient of x

    >>> dy = x = y = np.float32([1, 2, 3])
    >>> gp.scan_part_gradient(dy, x, y, carry=np.float32(10), kind="cumsum")
    array([16., 15., 13.], dtype=float32)
    """

def scan_part_gradient_total(
    dy: T,
    x: T,
    y: T,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: T | None = None,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
    *,
    out: tuple[T, T, T] | None = None,
) -> tuple[T, T, T]:
    """What the gradient of a part hands on: the total, and the gain of what comes in.

    Args:
        dy: the gradient of the results
        x: what was scanned
        y: the running result
        kind: the running operation
        before: x or y behind the part, or the extreme before it [... without scan_axis]
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes receives the gradient
        out: a tuple (total, gain, exponent) of tensors to write instead of a new one

    Returns:
        what comes out where nothing comes in; the factor of what comes in; its exponent, of cumprod

    >>> dy = x = y = np.float32([1, 2, 3])
    >>> gp.scan_part_gradient_total(dy, x, y, kind="cumsum")[0]
    array(6., dtype=float32)
    """

def scan_part_fold(
    total: T,
    gain: T,
    exponent: T,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    axis: SupportsIndex = -1,
    reverse: bool = False,
    backward: bool = False,
    *,
    out: T | None = None,
) -> T:
    """What comes out of each of several parts, one after the other along the axis.

    Args:
        total: what comes out where nothing comes in
        gain: the factor of what comes in
        exponent: its exponent, of cumprod's gradient
        kind: the running operation
        axis: the axis to scan along
        reverse: scan from the last element to the first
        backward: whether these are parts of a gradient
        out: a tensor to write instead of a new one

    Returns:
        what comes out of each part

    >>> total, one = np.float32([6, 1, 2]), np.ones(3, np.float32)
    >>> gp.scan_part_fold(total, one, one, kind="cumsum")
    array([6., 7., 9.], dtype=float32)
    """

def scatter_reduce(
    x: T,
    indices: SupportsDLPack,
    size: SupportsIndex,
    axis: SupportsIndex = -1,
    reduce: ScatterKind | Literal["sum", "mean", "prod", "amax", "amin"] = "sum",
    include_self: bool = True,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    initial: T | None = None,
    *,
    out: T | None = None,
) -> T:
    """Sums, means, products or extremes of the elements with the same index along an axis.

    Args:
        x: the values
        indices: positions along the axis, int32 or int64
        size: how many there are along the axis to point to
        axis: the axis that indices are along
        reduce: the reduction
        include_self: whether `initial` counts where there are members as well
        bounds: skip indices outside of [0, size), or raise
        initial: what the places start from [... with size along axis]
        out: a tensor to write instead of a new one

    Returns:
        the reductions

    `initial` is what the places start from; with include_self=False it only stands where no
    index points to.

    >>> x, indices = np.float32([[1, 2, 4], [8, 16, 30]]), np.array([[1, 0, 1], [0, 0, 0]])
    >>> gp.scatter_reduce(x, indices, 2, reduce="mean")
    array([[ 2. ,  2.5],
           [18. ,  0. ]], dtype=float32)
    >>> gp.scatter_reduce(x, indices, 2, reduce="amax", initial=np.zeros((2, 2), "f4"))
    array([[ 2.,  4.],
           [30.,  0.]], dtype=float32)
    """

def scatter_reduce_backward(
    d_output: T,
    x: T,
    output: T,
    indices: SupportsDLPack,
    axis: SupportsIndex = -1,
    reduce: ScatterKind | Literal["sum", "mean", "prod", "amax", "amin"] = "sum",
    include_self: bool = True,
    ties: SegmentTies | Literal["first", "last", "share"] = "first",
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    initial: T | None = None,
    *,
    out: tuple[T, T] | None = None,
) -> tuple[T, T]:
    """Gradients of `scatter_reduce` with respect to the values and to `initial`.

    Args:
        d_output: the gradient of the output [... with size along axis]
        x: the values
        output: the forward's result [... with size along axis]
        indices: positions along the axis, int32 or int64
        axis: the axis that indices are along
        reduce: the reduction
        include_self: whether `initial` counts where there are members as well
        ties: which of several equal extremes receives the gradient, or all of them a share
        bounds: skip indices outside of [0, size), or raise
        initial: what the places start from [... with size along axis]
        out: a tuple (dx, d_initial) of tensors to write instead of a new one

    Returns:
        the gradient of the values; the gradient of initial

    >>> x, indices = np.float32([3, 0, 5]), np.array([0, 0, 0])
    >>> y = gp.scatter_reduce(x, indices, 1, reduce="prod")
    >>> gp.scatter_reduce_backward(np.float32([2]), x, y, indices, reduce="prod")[0]
    array([ 0., 30.,  0.], dtype=float32)
    """

def segment_sum(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Sums of the rows with the same id; ids must be sorted (`unsorted_segment_sum` else).

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the sum of each segment

    >>> x = np.float32([[1, 10], [2, 20], [3, 30]])
    >>> gp.segment_sum(x, np.array([0, 0, 2]), 3)
    array([[ 3., 30.],
           [ 0.,  0.],
           [ 3., 30.]], dtype=float32)
    """

def unsorted_segment_sum(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Sums of the rows with the same id; ids in any order.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the sum of each segment

    >>> gp.unsorted_segment_sum(np.float32([1, 2, 3]), np.array([1, 0, 1]), 2)
    array([2., 4.], dtype=float32)
    """

def segment_sum_backward(
    d_output: T,
    segment_ids: SupportsDLPack,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_sum` and `unsorted_segment_sum`; zero where an id was skipped.

    Args:
        d_output: the gradient of each sum [num_segments, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> gp.segment_sum_backward(np.float32([1, 2]), np.array([1, 0, 1, -1]), bounds="skip")
    array([2., 1., 2., 0.], dtype=float32)
    """

def unsorted_segment_mean(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Means of the rows with the same id; ids in any order. An empty segment is 0.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    >>> gp.unsorted_segment_mean(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    array([1.5, 0. , 6. ], dtype=float32)
    """

def unsorted_segment_max(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Maxima of the rows with the same id; ids in any order. An empty segment is `fill`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    >>> gp.unsorted_segment_max(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    array([  2., -inf,   6.], dtype=float32)
    """

def unsorted_segment_min(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Minima of the rows with the same id; ids in any order. An empty segment is `fill`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    >>> gp.unsorted_segment_min(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    array([ 1., inf,  6.], dtype=float32)
    """

def unsorted_segment_prod(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Products of the rows with the same id; ids in any order. An empty segment is 1.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    >>> gp.unsorted_segment_prod(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    array([2., 1., 6.], dtype=float32)
    """

def unsorted_segment_logsumexp(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Log-sum-exps of the rows with the same id; ids in any order. An empty segment is `fill`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    >>> gp.unsorted_segment_logsumexp(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    array([2.3132617,      -inf, 6.       ], dtype=float32)
    """

def segment_mean(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Means of the rows with the same id; ids must be sorted. An empty segment is 0.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    >>> gp.segment_mean(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    array([1.5, 0. , 6. ], dtype=float32)
    """

def segment_max(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Maxima of the rows with the same id; ids must be sorted. An empty segment is `fill`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    >>> gp.segment_max(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    array([  2., -inf,   6.], dtype=float32)
    """

def segment_min(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Minima of the rows with the same id; ids must be sorted. An empty segment is `fill`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    >>> gp.segment_min(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    array([ 1., inf,  6.], dtype=float32)
    """

def segment_prod(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Products of the rows with the same id; ids must be sorted. An empty segment is 1.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    >>> gp.segment_prod(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    array([2., 1., 6.], dtype=float32)
    """

def segment_logsumexp(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Log-sum-exps of the rows with the same id; ids must be sorted. An empty segment is `fill`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    >>> gp.segment_logsumexp(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    array([2.3132617,      -inf, 6.       ], dtype=float32)
    """

def segment_mean_backward(
    d_output: T,
    segment_ids: SupportsDLPack,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_mean`: each row receives its share.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> gp.segment_mean_backward(np.float32([2, 3]), np.array([0, 0, 1]))
    array([1., 1., 3.], dtype=float32)
    """

def segment_max_backward(
    d_output: T,
    x: T,
    output: T,
    segment_ids: SupportsDLPack,
    ties: SegmentTies | Literal["first", "last", "share"] = "first",
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_max`: it goes to the maximum, or to all of equal ones.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        x: the rows [num_inputs, ...]
        output: the forward's result [num_segments, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        ties: which of several equal extremes receives the gradient, or all of them a share
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> x, ids = np.float32([5, 1, 5]), np.array([0, 0, 0])
    >>> y = gp.segment_max(x, ids, 1)
    >>> gp.segment_max_backward(np.float32([2]), x, y, ids)
    array([2., 0., 0.], dtype=float32)
    >>> gp.segment_max_backward(np.float32([2]), x, y, ids, ties="share")
    array([1., 0., 1.], dtype=float32)
    """

def segment_min_backward(
    d_output: T,
    x: T,
    output: T,
    segment_ids: SupportsDLPack,
    ties: SegmentTies | Literal["first", "last", "share"] = "first",
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_min`: it goes to the minimum, or to all of equal ones.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        x: the rows [num_inputs, ...]
        output: the forward's result [num_segments, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        ties: which of several equal extremes receives the gradient, or all of them a share
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> x, ids = np.float32([5, 1, 5]), np.array([0, 0, 0])
    >>> gp.segment_min_backward(np.float32([2]), x, gp.segment_min(x, ids, 1), ids)
    array([0., 2., 0.], dtype=float32)
    """

def segment_prod_backward(
    d_output: T,
    x: T,
    segment_ids: SupportsDLPack,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_prod`: the product of the others, with any zeros.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> x, ids = np.float32([3, 0, 5]), np.array([0, 0, 0])
    >>> gp.segment_prod_backward(np.float32([2]), x, ids)
    array([ 0., 30.,  0.], dtype=float32)
    """

def segment_logsumexp_backward(
    d_output: T,
    x: T,
    output: T,
    segment_ids: SupportsDLPack,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_logsumexp`: each row's share of the sum.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        x: the rows [num_inputs, ...]
        output: the forward's result [num_segments, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> x, ids = np.float32([1, 1, -np.inf]), np.array([0, 0, 0])
    >>> y = gp.segment_logsumexp(x, ids, 1)
    >>> gp.segment_logsumexp_backward(np.float32([2]), x, y, ids).round(6)
    array([1., 1., 0.], dtype=float32)
    """

def unsorted_segment_softmax(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Softmax over the rows with the same id; ids in any order.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the share of each row

    A row of -inf has no share, also in a segment of nothing else.

    >>> gp.unsorted_segment_softmax(np.float32([1, 1, 6]), np.array([0, 0, 2]), 3)
    array([0.5, 0.5, 1. ], dtype=float32)
    """

def unsorted_segment_log_softmax(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Logarithm of the softmax over the rows with the same id; ids in any order.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the share of each row

    A row of -inf has no share, also in a segment of nothing else.

    >>> gp.unsorted_segment_log_softmax(np.float32([1, 1, 6]), np.array([0, 0, 2]), 3)
    array([-0.6931472, -0.6931472,  0.       ], dtype=float32)
    """

def segment_softmax(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Softmax over the rows with the same id; ids must be sorted.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the share of each row

    A row of -inf has no share, also in a segment of nothing else.

    >>> gp.segment_softmax(np.float32([1, 1, 6]), np.array([0, 0, 2]), 3)
    array([0.5, 0.5, 1. ], dtype=float32)
    """

def segment_log_softmax(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Logarithm of the softmax over the rows with the same id; ids must be sorted.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the share of each row

    A row of -inf has no share, also in a segment of nothing else.

    >>> gp.segment_log_softmax(np.float32([1, 1, 6]), np.array([0, 0, 2]), 3)
    array([-0.6931472, -0.6931472,  0.       ], dtype=float32)
    """

def segment_softmax_backward(
    d_output: T,
    output: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_softmax`.

    Args:
        d_output: the gradient of each share [num_inputs, ...]
        output: the forward's result [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> y, ids = np.float32([0.5, 0.5]), np.array([0, 0])
    >>> gp.segment_softmax_backward(np.float32([1, 0]), y, ids, 1)
    array([ 0.25, -0.25], dtype=float32)
    """

def segment_log_softmax_backward(
    d_output: T,
    output: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_log_softmax`.

    Args:
        d_output: the gradient of each share [num_inputs, ...]
        output: the forward's result [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> y, ids = np.float32([0, -np.inf]), np.array([0, 0])
    >>> gp.segment_log_softmax_backward(np.float32([1, 2]), y, ids, 1)
    array([-2.,  2.], dtype=float32)
    """

def segment_sum_csr(x: T, indptr: SupportsDLPack, *, out: T | None = None) -> T:
    """Sums of the rows between pointers. An empty segment is 0.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    Segment s has the rows from x[indptr[s]] up to x[indptr[s + 1]].

    >>> gp.segment_sum_csr(np.float32([1, 2, 6]), np.array([0, 2, 2, 3]))
    array([3., 0., 6.], dtype=float32)
    """

def segment_mean_csr(x: T, indptr: SupportsDLPack, *, out: T | None = None) -> T:
    """Means of the rows between pointers. An empty segment is 0.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    Segment s has the rows from x[indptr[s]] up to x[indptr[s + 1]].

    >>> gp.segment_mean_csr(np.float32([1, 2, 6]), np.array([0, 2, 2, 3]))
    array([1.5, 0. , 6. ], dtype=float32)
    """

def segment_max_csr(
    x: T,
    indptr: SupportsDLPack,
    fill: SupportsFloat | None = None,
    *,
    out: T | None = None,
) -> T:
    """Maxima of the rows between pointers. An empty segment is `fill`.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    Segment s has the rows from x[indptr[s]] up to x[indptr[s + 1]].

    >>> gp.segment_max_csr(np.float32([1, 2, 6]), np.array([0, 2, 2, 3]))
    array([  2., -inf,   6.], dtype=float32)
    """

def segment_min_csr(
    x: T,
    indptr: SupportsDLPack,
    fill: SupportsFloat | None = None,
    *,
    out: T | None = None,
) -> T:
    """Minima of the rows between pointers. An empty segment is `fill`.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    Segment s has the rows from x[indptr[s]] up to x[indptr[s + 1]].

    >>> gp.segment_min_csr(np.float32([1, 2, 6]), np.array([0, 2, 2, 3]))
    array([ 1., inf,  6.], dtype=float32)
    """

def segment_prod_csr(x: T, indptr: SupportsDLPack, *, out: T | None = None) -> T:
    """Products of the rows between pointers. An empty segment is 1.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    Segment s has the rows from x[indptr[s]] up to x[indptr[s + 1]].

    >>> gp.segment_prod_csr(np.float32([1, 2, 6]), np.array([0, 2, 2, 3]))
    array([2., 1., 6.], dtype=float32)
    """

def segment_logsumexp_csr(
    x: T,
    indptr: SupportsDLPack,
    fill: SupportsFloat | None = None,
    *,
    out: T | None = None,
) -> T:
    """Log-sum-exps of the rows between pointers. An empty segment is `fill`.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        out: a tensor to write instead of a new one

    Returns:
        the reduction of each segment

    Segment s has the rows from x[indptr[s]] up to x[indptr[s + 1]].

    >>> gp.segment_logsumexp_csr(np.float32([1, 2, 6]), np.array([0, 2, 2, 3]))
    array([2.3132617,      -inf, 6.       ], dtype=float32)
    """

def segment_sum_csr_backward(
    d_output: T,
    indptr: SupportsDLPack,
    num_inputs: SupportsIndex,
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_sum_csr`.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        num_inputs: the number of rows
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> x, dy = np.float32([1, 2, 6]), np.float32([2, 3])
    >>> gp.segment_sum_csr_backward(dy, np.array([0, 2, 3]), 3)
    array([2., 2., 3.], dtype=float32)
    """

def segment_mean_csr_backward(
    d_output: T,
    indptr: SupportsDLPack,
    num_inputs: SupportsIndex,
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_mean_csr`.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        num_inputs: the number of rows
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> x, dy = np.float32([1, 2, 6]), np.float32([2, 3])
    >>> gp.segment_mean_csr_backward(dy, np.array([0, 2, 3]), 3)
    array([1., 1., 3.], dtype=float32)
    """

def segment_max_csr_backward(
    d_output: T,
    x: T,
    output: T,
    indptr: SupportsDLPack,
    ties: SegmentTies | Literal["first", "last", "share"] = "first",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_max_csr`.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        x: the rows [num_inputs, ...]
        output: the forward's result [num_segments, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        ties: which of several equal extremes receives the gradient, or all of them a share
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> x, dy = np.float32([1, 2, 6]), np.float32([2, 3])
    >>> gp.segment_max_csr_backward(dy, x, np.float32([2, 6]), np.array([0, 2, 3]))
    array([0., 2., 3.], dtype=float32)
    """

def segment_min_csr_backward(
    d_output: T,
    x: T,
    output: T,
    indptr: SupportsDLPack,
    ties: SegmentTies | Literal["first", "last", "share"] = "first",
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_min_csr`.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        x: the rows [num_inputs, ...]
        output: the forward's result [num_segments, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        ties: which of several equal extremes receives the gradient, or all of them a share
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> x, dy = np.float32([1, 2, 6]), np.float32([2, 3])
    >>> gp.segment_min_csr_backward(dy, x, np.float32([1, 6]), np.array([0, 2, 3]))
    array([2., 0., 3.], dtype=float32)
    """

def segment_prod_csr_backward(
    d_output: T,
    x: T,
    indptr: SupportsDLPack,
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_prod_csr`.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> x, dy = np.float32([1, 2, 6]), np.float32([2, 3])
    >>> gp.segment_prod_csr_backward(dy, x, np.array([0, 2, 3]))
    array([4., 2., 3.], dtype=float32)
    """

def segment_logsumexp_csr_backward(
    d_output: T,
    x: T,
    output: T,
    indptr: SupportsDLPack,
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_logsumexp_csr`.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        x: the rows [num_inputs, ...]
        output: the forward's result [num_segments, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> x, dy = np.float32([1, 2, 6]), np.float32([2, 3])
    >>> gp.segment_logsumexp_csr_backward(dy, x, np.float32([1, 2]), np.array([0, 1, 2]))
    array([2., 3., 0.], dtype=float32)
    """

def segment_softmax_csr(x: T, indptr: SupportsDLPack, *, out: T | None = None) -> T:
    """Softmax over the rows between pointers. Rows in no segment are 0.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        out: a tensor to write instead of a new one

    Returns:
        the share of each row

    >>> gp.segment_softmax_csr(np.float32([1, 1, 6]), np.array([0, 2, 3]))
    array([0.5, 0.5, 1. ], dtype=float32)
    """

def segment_log_softmax_csr(x: T, indptr: SupportsDLPack, *, out: T | None = None) -> T:
    """Logarithm of the softmax over the rows between pointers. Rows in no segment are 0.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        out: a tensor to write instead of a new one

    Returns:
        the share of each row

    >>> gp.segment_log_softmax_csr(np.float32([1, 1, 6]), np.array([0, 2, 3]))
    array([-0.6931472, -0.6931472,  0.       ], dtype=float32)
    """

def segment_softmax_csr_backward(
    d_output: T,
    output: T,
    indptr: SupportsDLPack,
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_softmax_csr`.

    Args:
        d_output: the gradient of each share [num_inputs, ...]
        output: the forward's result [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> dy, y, indptr = np.float32([1, 0]), np.float32([0.5, 0.5]), np.array([0, 2])
    >>> gp.segment_softmax_csr_backward(dy, y, indptr)
    array([ 0.25, -0.25], dtype=float32)
    """

def segment_log_softmax_csr_backward(
    d_output: T,
    output: T,
    indptr: SupportsDLPack,
    *,
    out: T | None = None,
) -> T:
    """Gradient of `segment_log_softmax_csr`.

    Args:
        d_output: the gradient of each share [num_inputs, ...]
        output: the forward's result [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        out: a tensor to write instead of a new one

    Returns:
        the gradient of each row

    >>> dy, y, indptr = np.float32([1, 0]), np.float32([0, -np.inf]), np.array([0, 2])
    >>> gp.segment_log_softmax_csr_backward(dy, y, indptr)
    array([0., 0.], dtype=float32)
    """

def unsorted_segment_weighted_sum(
    x: T,
    weights: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Weighted sums of the rows with the same id; ids in any order.

    Args:
        x: the rows [num_inputs, ...]
        weights: the weight of each row [num_inputs]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the sum or mean of each segment

    Of each row times its weight; an empty segment is 0.

    >>> x, weights = np.float32([1, 2, 6]), np.float32([3, 1, 2])
    >>> gp.unsorted_segment_weighted_sum(x, weights, np.array([0, 0, 2]), 3)
    array([ 5.,  0., 12.], dtype=float32)
    """

def unsorted_segment_weighted_mean(
    x: T,
    weights: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Weighted means of the rows with the same id; ids in any order.

    Args:
        x: the rows [num_inputs, ...]
        weights: the weight of each row [num_inputs]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the sum or mean of each segment

    The sum of weight times row, divided by the sum of the weights; 0 where that is 0.

    >>> x, weights = np.float32([1, 2, 6]), np.float32([3, 1, 2])
    >>> gp.unsorted_segment_weighted_mean(x, weights, np.array([0, 0, 2]), 3)
    array([1.25, 0.  , 6.  ], dtype=float32)
    """

def segment_weighted_sum(
    x: T,
    weights: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Weighted sums of the rows with the same id; ids must be sorted.

    Args:
        x: the rows [num_inputs, ...]
        weights: the weight of each row [num_inputs]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the sum or mean of each segment

    Of each row times its weight; an empty segment is 0.

    >>> x, weights = np.float32([1, 2, 6]), np.float32([3, 1, 2])
    >>> gp.segment_weighted_sum(x, weights, np.array([0, 0, 2]), 3)
    array([ 5.,  0., 12.], dtype=float32)
    """

def segment_weighted_mean(
    x: T,
    weights: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: T | None = None,
) -> T:
    """Weighted means of the rows with the same id; ids must be sorted.

    Args:
        x: the rows [num_inputs, ...]
        weights: the weight of each row [num_inputs]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tensor to write instead of a new one

    Returns:
        the sum or mean of each segment

    The sum of weight times row, divided by the sum of the weights; 0 where that is 0.

    >>> x, weights = np.float32([1, 2, 6]), np.float32([3, 1, 2])
    >>> gp.segment_weighted_mean(x, weights, np.array([0, 0, 2]), 3)
    array([1.25, 0.  , 6.  ], dtype=float32)
    """

def segment_weighted_sum_backward(
    d_output: T,
    x: T,
    weights: T,
    segment_ids: SupportsDLPack,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: tuple[T, T] | None = None,
) -> tuple[T, T]:
    """Gradients of `segment_weighted_sum`: of the rows and of the weights.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        x: the rows [num_inputs, ...]
        weights: the weight of each row [num_inputs]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tuple (d_input, d_weights) of tensors to write instead of a new one

    Returns:
        the gradient of each row; the gradient of each weight

    >>> x, weights = np.float32([1, 2, 6]), np.float32([3, 1, 2])
    >>> dy = np.float32([10, 0, 1])
    >>> gp.segment_weighted_sum_backward(dy, x, weights, np.array([0, 0, 2]))
    (array([30., 10.,  2.], dtype=float32), array([10., 20.,  6.], dtype=float32))
    """

def segment_weighted_mean_backward(
    d_output: T,
    x: T,
    weights: T,
    output: T,
    segment_ids: SupportsDLPack,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: tuple[T, T] | None = None,
) -> tuple[T, T]:
    """Gradients of `segment_weighted_mean`: of the rows and of the weights.

    Args:
        d_output: the gradient of each segment [num_segments, ...]
        x: the rows [num_inputs, ...]
        weights: the weight of each row [num_inputs]
        output: the forward's result [num_segments, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tuple (d_input, d_weights) of tensors to write instead of a new one

    Returns:
        the gradient of each row; the gradient of each weight

    >>> x, weights, ids = np.float32([1, 2]), np.float32([3, 1]), np.array([0, 0])
    >>> y = gp.segment_weighted_mean(x, weights, ids, 1)
    >>> gp.segment_weighted_mean_backward(np.float32([16]), x, weights, y, ids)
    (array([12.,  4.], dtype=float32), array([-1.,  3.], dtype=float32))
    """

def unsorted_segment_max_with_indices(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    fill: SupportsFloat | None = None,
    ties: Ties | Literal["first", "last"] = "first",
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: tuple[T, T] | None = None,
) -> tuple[T, T]:
    """Maxima of the rows with the same id, and where they are; ids in any order.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        fill: what an empty segment is; by default the extreme of nothing, -inf or inf
        ties: which of several equal extremes it is
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tuple (output, indices) of tensors to write instead of a new one

    Returns:
        the extreme of each segment; the row that it comes from, or the number of rows

    An empty segment is `fill`, and its index is the number of rows.

    >>> gp.unsorted_segment_max_with_indices(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    (array([  2., -inf,   6.], dtype=float32), array([1, 3, 2]))
    """

def unsorted_segment_min_with_indices(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    fill: SupportsFloat | None = None,
    ties: Ties | Literal["first", "last"] = "first",
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: tuple[T, T] | None = None,
) -> tuple[T, T]:
    """Minima of the rows with the same id, and where they are; ids in any order.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        fill: what an empty segment is; by default the extreme of nothing, -inf or inf
        ties: which of several equal extremes it is
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tuple (output, indices) of tensors to write instead of a new one

    Returns:
        the extreme of each segment; the row that it comes from, or the number of rows

    An empty segment is `fill`, and its index is the number of rows.

    >>> gp.unsorted_segment_min_with_indices(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    (array([ 1., inf,  6.], dtype=float32), array([0, 3, 2]))
    """

def segment_max_with_indices(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    fill: SupportsFloat | None = None,
    ties: Ties | Literal["first", "last"] = "first",
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: tuple[T, T] | None = None,
) -> tuple[T, T]:
    """Maxima of the rows with the same id, and where they are; ids must be sorted.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        fill: what an empty segment is; by default the extreme of nothing, -inf or inf
        ties: which of several equal extremes it is
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tuple (output, indices) of tensors to write instead of a new one

    Returns:
        the extreme of each segment; the row that it comes from, or the number of rows

    An empty segment is `fill`, and its index is the number of rows.

    >>> gp.segment_max_with_indices(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    (array([  2., -inf,   6.], dtype=float32), array([1, 3, 2]))
    """

def segment_min_with_indices(
    x: T,
    segment_ids: SupportsDLPack,
    num_segments: SupportsIndex,
    fill: SupportsFloat | None = None,
    ties: Ties | Literal["first", "last"] = "first",
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    *,
    out: tuple[T, T] | None = None,
) -> tuple[T, T]:
    """Minima of the rows with the same id, and where they are; ids must be sorted.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        fill: what an empty segment is; by default the extreme of nothing, -inf or inf
        ties: which of several equal extremes it is
        bounds: skip ids outside of [0, num_segments), or raise
        out: a tuple (output, indices) of tensors to write instead of a new one

    Returns:
        the extreme of each segment; the row that it comes from, or the number of rows

    An empty segment is `fill`, and its index is the number of rows.

    >>> gp.segment_min_with_indices(np.float32([1, 2, 6]), np.array([0, 0, 2]), 3)
    (array([ 1., inf,  6.], dtype=float32), array([0, 3, 2]))
    """

def sparsemax(x: T, axis: SupportsIndex = -1, *, out: T | None = None) -> T:
    """Sparse alternative to softmax: the nearest probability distribution.

    Args:
        x: the scores
        axis: the axis of the distribution
        out: a tensor to write instead of a new one

    Returns:
        the probabilities

    >>> gp.sparsemax(np.float32([1.0, 0.5, -1.0]))
    array([0.75, 0.25, 0.  ], dtype=float32)
    """

def sparsemax_backward(dy: T, y: T, axis: SupportsIndex = -1, *, out: T | None = None) -> T:
    """Gradient of `sparsemax`, from its output.

    Args:
        dy: the gradient of the probabilities
        y: the probabilities
        axis: the axis of the distribution
        out: a tensor to write instead of a new one

    Returns:
        the gradient of the scores

    >>> gp.sparsemax_backward(np.float32([1, 3, 5]), np.float32([0.75, 0.25, 0]))
    array([-1.,  1.,  0.], dtype=float32)
    """
