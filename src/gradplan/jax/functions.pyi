# Written by tools/stubs.py from the declarations; do not edit.
from typing import Literal, SupportsFloat, SupportsIndex

from jax import Array
from jax.typing import ArrayLike

from gradplan.offers import Offers
from gradplan.vocabulary import Bounds, ScanKind, ScatterKind, SegmentTies, Ties

OFFERS: Offers
__all__ = [
    "cumlogsumexp",
    "cummax",
    "cummax_indices",
    "cummax_with_indices",
    "cummin",
    "cummin_indices",
    "cummin_with_indices",
    "cumprod",
    "cumsum",
    "embedding",
    "index_add",
    "index_select",
    "lerp",
    "linear_scan",
    "logcumsumexp",
    "scan_part",
    "scan_part_fold",
    "scan_part_gradient",
    "scan_part_gradient_total",
    "scan_part_total",
    "scatter_add",
    "scatter_reduce",
    "segment_log_softmax",
    "segment_log_softmax_csr",
    "segment_logsumexp",
    "segment_logsumexp_csr",
    "segment_max",
    "segment_max_csr",
    "segment_max_with_indices",
    "segment_mean",
    "segment_mean_csr",
    "segment_min",
    "segment_min_csr",
    "segment_min_with_indices",
    "segment_prod",
    "segment_prod_csr",
    "segment_softmax",
    "segment_softmax_csr",
    "segment_sum",
    "segment_sum_csr",
    "segment_weighted_mean",
    "segment_weighted_sum",
    "sparsemax",
    "take_along_axis",
]

def lerp(a: ArrayLike, b: ArrayLike, weight: SupportsFloat) -> Array:
    """Linear interpolation from a (weight 0) to b (weight 1), exact at both ends.

    a and b broadcast. The weight is a number, not an array: it is part of the problem.

    Args:
        a: the result for weight 0
        b: the result for weight 1
        weight: the scalar; the weight of b in lerp

    Returns:
        the interpolation

    >>> lerp(jnp.float32([0, 10]), jnp.float32([4, 20]), 0.25)
    Array([ 1. , 12.5], dtype=float32)
    """

def embedding(
    weight: ArrayLike,
    indices: ArrayLike,
    padding_idx: SupportsIndex | None = None,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Rows of a table by index; one outside of the table gives zeros, as in JAX.

    With `bounds="raise"` it is an error, inside of `jit` as well. Negative indices are
    outside. `padding_idx` gives zeros; what gives zeros receives no gradient. The
    gradient of the table is deterministic.

    Replaces `jnp.take(weight, indices, axis=0)`; negative indices are out of range, and those
    give zeros, not NaN.

    Args:
        weight: the table [num_embeddings, ...]
        indices: which row each output row is [...], int32 or int64
        padding_idx: an index that is skipped as well
        bounds: skip indices outside of the table, or raise

    Returns:
        the rows

    >>> embedding(jnp.float32([[1, 2], [3, 4]]), jnp.array([1, 0, 7]))
    Array([[3., 4.],
           [1., 2.],
           [0., 0.]], dtype=float32)
    """

def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: SupportsIndex = -1,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Elements by index, as in JAX; what is out of range gives zeros.

    Replaces `jnp.take_along_axis`; what is out of range gives 0, not NaN.

    Args:
        arr: the values [... with size along axis]
        indices: positions along the axis, int32 or int64
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise

    Returns:
        what is picked, 0 where an index is skipped

    >>> take_along_axis(jnp.float32([[1, 2, 3]]), jnp.array([[2, -3]]), axis=1)
    Array([[3., 1.]], dtype=float32)
    """

def scatter_add(
    operand: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    axis: SupportsIndex = -1,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """operand, with updates added by index, as in JAX; one out of range is dropped.

    Replaces `operand.at[indices].add(updates)`.

    Args:
        operand: what the sums are added to
        indices: positions along the axis, int32 or int64
        updates: the values
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise

    Returns:
        the sums

    >>> scatter_add(jnp.zeros(3), jnp.array([1, 0, -2]), jnp.ones(3))
    Array([1., 2., 0.], dtype=float32)
    """

def index_select(
    x: ArrayLike,
    indices: ArrayLike,
    axis: SupportsIndex = -1,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Slices by index along an axis, as in JAX; one out of range gives zeros.

    Replaces `jnp.take(x, indices, axis)`; negative indices are out of range, and those give
    zeros, not NaN.

    Args:
        x: the values [... with size along axis]
        indices: positions along the axis [along axis], int32 or int64
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise

    Returns:
        what is picked, 0 where an index is skipped

    >>> index_select(jnp.float32([[1, 2, 3]]), jnp.array([2, 0]))
    Array([[3., 1.]], dtype=float32)
    """

def index_add(
    x: ArrayLike,
    indices: ArrayLike,
    size: SupportsIndex,
    axis: SupportsIndex = -1,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Sums of slices with the same index; one out of range is dropped, as in JAX.

    Args:
        x: the values
        indices: positions along the axis [along axis], int32 or int64
        size: how many there are along the axis to point to
        axis: the axis that indices are along
        bounds: skip indices outside of [0, size), or raise

    Returns:
        the sums

    >>> index_add(jnp.float32([[1, 2, 4]]), jnp.array([1, 0, 1]), 2)
    Array([[2., 5.]], dtype=float32)
    """

def linear_scan(
    a: ArrayLike,
    b: ArrayLike,
    initial: ArrayLike | None = None,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
) -> Array:
    """Linear recurrence h[t] = a[t] h[t-1] + b[t] along an axis.

    `initial` is the state before the first element and has no such axis. Gradients of
    any order for a, b and initial, right with zeros in a.

    Args:
        a: what the state before is multiplied by
        b: what is added
        initial: the state before the first [... without scan_axis]
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself

    Returns:
        the states

    >>> a, b = jnp.float32([0.5, 0.5, 0, 0.5]), jnp.float32([1, 1, 1, 1])
    >>> linear_scan(a, b, jnp.float32(8))
    Array([5. , 3.5, 1. , 1.5], dtype=float32)
    """

def cumsum(
    operand: ArrayLike,
    axis: SupportsIndex = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
) -> Array:
    """Running sum along an axis, as `jax.lax.cumsum`.

    Args:
        operand: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself

    Returns:
        the running result

    >>> cumsum(jnp.float32([1, 2, 3]), reverse=True)
    Array([6., 5., 3.], dtype=float32)
    """

def cumprod(
    operand: ArrayLike,
    axis: SupportsIndex = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
) -> Array:
    """Running product, as `jax.lax.cumprod`. Gradients are right with zeros.

    Args:
        operand: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself

    Returns:
        the running result

    >>> cumprod(jnp.float32([[1, 2], [3, 4]]))
    Array([[1., 2.],
           [3., 8.]], dtype=float32)
    """

def cummax(
    operand: ArrayLike,
    axis: SupportsIndex = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
) -> Array:
    """Running maximum along an axis, as `jax.lax.cummax`.

    Of equal maxima the first one (or the last, as `ties` says) receives the whole gradient;
    JAX shares it out.

    Args:
        operand: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        ties: which of several equal extremes receives the gradient

    Returns:
        the running result

    >>> cummax(jnp.float32([1, 3, 2, 4]))
    Array([1., 3., 3., 4.], dtype=float32)
    >>> jax.grad(lambda x: cummax(x).sum())(jnp.float32([1, 3, 3, 2]))
    Array([1., 3., 0., 0.], dtype=float32)
    """

def cummin(
    operand: ArrayLike,
    axis: SupportsIndex = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
) -> Array:
    """Running minimum along an axis, as `jax.lax.cummin`; `ties` as for `cummax`.

    Args:
        operand: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        ties: which of several equal extremes receives the gradient

    Returns:
        the running result

    >>> cummin(jnp.float32([3, 1, 2, 0]))
    Array([3., 1., 1., 0.], dtype=float32)
    """

def cumlogsumexp(
    operand: ArrayLike,
    axis: SupportsIndex = 0,
    reverse: bool = False,
    *,
    exclusive: bool = False,
) -> Array:
    """Logarithm of the running sum of exponentials, as `jax.lax.cumlogsumexp`.

    Args:
        operand: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself

    Returns:
        the running result

    >>> cumlogsumexp(jnp.float32([-jnp.inf, 1000, -jnp.inf]))
    Array([ -inf, 1000., 1000.], dtype=float32)
    """

logcumsumexp = cumlogsumexp

def cummax_indices(
    x: ArrayLike,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
) -> Array:
    """Where the running maximum comes from, along an axis; `ties` as in its gradient.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes it is

    Returns:
        positions along the axis, counted from its beginning
    """

def cummin_indices(
    x: ArrayLike,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
) -> Array:
    """Where the running minimum comes from, along an axis; `ties` as in its gradient.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes it is

    Returns:
        positions along the axis, counted from its beginning
    """

def cummax_with_indices(
    x: ArrayLike,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
) -> tuple[Array, Array]:
    """Running maximum along an axis, and where it comes from: `cummax`, `cummax_indices`.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes it is

    Returns:
        the running extreme; positions along the axis, counted from its beginning
    """

def cummin_with_indices(
    x: ArrayLike,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
) -> tuple[Array, Array]:
    """Running minimum along an axis, and where it comes from: `cummin`, `cummin_indices`.

    Args:
        x: what is scanned
        axis: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes it is

    Returns:
        the running extreme; positions along the axis, counted from its beginning
    """

def scan_part(
    x: ArrayLike,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: ArrayLike | None = None,
    carry: ArrayLike | None = None,
    axis: SupportsIndex = -1,
    reverse: bool = False,
) -> Array:
    """A scan of a part of each row, given what comes out of the part before.

    Args:
        x: what is scanned
        kind: the running operation
        before: logcumsumexp: the running maximum that comes in [... without scan_axis]
        carry: what comes in [... without scan_axis]
        axis: the axis to scan along
        reverse: scan from the last element to the first

    Returns:
        the running result
    """

def scan_part_total(
    x: ArrayLike,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: ArrayLike | None = None,
    axis: SupportsIndex = -1,
    reverse: bool = False,
) -> tuple[Array, Array]:
    """What a part of each row hands on: the total, and the gain of what comes in.

    Args:
        x: what is scanned
        kind: the running operation
        before: logcumsumexp: the running maximum that comes in [... without scan_axis]
        axis: the axis to scan along
        reverse: scan from the last element to the first

    Returns:
        what comes out where nothing comes in; the factor of what comes in
    """

def scan_part_gradient(
    dy: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: ArrayLike | None = None,
    behind: ArrayLike | None = None,
    carry: ArrayLike | None = None,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
) -> Array:
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

    Returns:
        the gradient of x
    """

def scan_part_gradient_total(
    dy: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: ArrayLike | None = None,
    axis: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
) -> tuple[Array, Array, Array]:
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

    Returns:
        what comes out where nothing comes in; the factor of what comes in; its exponent, of cumprod
    """

def scan_part_fold(
    total: ArrayLike,
    gain: ArrayLike,
    exponent: ArrayLike,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    axis: SupportsIndex = -1,
    reverse: bool = False,
    backward: bool = False,
) -> Array:
    """What comes out of each of several parts, one after the other along the axis.

    Args:
        total: what comes out where nothing comes in
        gain: the factor of what comes in
        exponent: its exponent, of cumprod's gradient
        kind: the running operation
        axis: the axis to scan along
        reverse: scan from the last element to the first
        backward: whether these are parts of a gradient

    Returns:
        what comes out of each part
    """

def scatter_reduce(
    operand: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    axis: SupportsIndex = -1,
    reduce: ScatterKind | Literal["sum", "mean", "prod", "amax", "amin"] = "sum",
    *,
    include_self: bool = True,
    ties: SegmentTies | Literal["first", "last", "share"] = "share",
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Reductions by index, as in JAX; what has an index out of range is dropped.

    `reduce` is "sum", "mean", "prod", "amax" or "amin".
    Of equal extremes all get the same share of the gradient; `ties` may say which one.

    Replaces `operand.at[indices].max(updates)`.

    Args:
        operand: what the reductions start from
        indices: positions along the axis, int32 or int64
        updates: the values
        axis: the axis that indices are along
        reduce: the reduction
        include_self: whether `initial` counts where there are members as well
        ties: which of several equal extremes receives the gradient, or all of them a share
        bounds: skip indices outside of [0, size), or raise

    Returns:
        the reductions

    >>> indices, updates = jnp.array([1, 0, -2]), jnp.float32([1, 2, 5])
    >>> scatter_reduce(jnp.zeros(3), indices, updates, reduce="amax")
    Array([2., 5., 0.], dtype=float32)
    """

def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Sums of the rows with the same id; ids out of range are dropped, as in JAX.

    With `bounds="raise"` they are an error, inside of `jit` as well. `num_segments`
    must be given inside of `jit`; by default it is the largest id plus one. Ids that
    are said to be sorted and are not: an error.

    Replaces `jax.ops.segment_sum`; ids that are said to be sorted and are not raise.

    Args:
        data: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_sum` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the sum of each segment

    >>> segment_sum(jnp.float32([1, 2, 3]), jnp.array([1, 0, 1]))
    Array([2., 4.], dtype=float32)
    """

def segment_mean(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Means of the rows with the same id; ids out of range are dropped, as in JAX.

    An empty segment is 0. `num_segments` must be given inside of `jit`; by default it is the
    largest id plus one.

    Replaces `jax.ops.segment_sum of rows and of ones`; ids that are said to be sorted and are
    not raise.

    Args:
        data: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_mean` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the reduction of each segment

    >>> segment_mean(jnp.float32([1, 2, 6]), jnp.array([0, 0, 2]), 3)
    Array([1.5, 0. , 6. ], dtype=float32)
    """

def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
    ties: SegmentTies | Literal["first", "last", "share"] = "share",
) -> Array:
    """Maxima of the rows with the same id; ids out of range are dropped, as in JAX.

    An empty segment is `fill`. `num_segments` must be given inside of `jit`; by default it is the
    largest id plus one.

    Of equal extremes all get the same share of the gradient; `ties="first"` or
    `"last"` gives it to one.

    Replaces `jax.ops.segment_max`; ids that are said to be sorted and are not raise.

    Args:
        data: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_max` does it
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        ties: which of several equal extremes receives the gradient, or all of them a share

    Returns:
        the reduction of each segment

    >>> segment_max(jnp.float32([1, 2, 6]), jnp.array([0, 0, 2]), 3)
    Array([  2., -inf,   6.], dtype=float32)
    """

def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
    ties: SegmentTies | Literal["first", "last", "share"] = "share",
) -> Array:
    """Minima of the rows with the same id; ids out of range are dropped, as in JAX.

    An empty segment is `fill`. `num_segments` must be given inside of `jit`; by default it is the
    largest id plus one.

    Of equal extremes all get the same share of the gradient; `ties="first"` or
    `"last"` gives it to one.

    Replaces `jax.ops.segment_min`; ids that are said to be sorted and are not raise.

    Args:
        data: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_min` does it
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        ties: which of several equal extremes receives the gradient, or all of them a share

    Returns:
        the reduction of each segment

    >>> segment_min(jnp.float32([1, 2, 6]), jnp.array([0, 0, 2]), 3)
    Array([ 1., inf,  6.], dtype=float32)
    """

def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Products of the rows with the same id; ids out of range are dropped, as in JAX.

    An empty segment is 1. `num_segments` must be given inside of `jit`; by default it is the
    largest id plus one.

    Replaces `jax.ops.segment_prod`; ids that are said to be sorted and are not raise.

    Args:
        data: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_prod` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the reduction of each segment

    >>> segment_prod(jnp.float32([1, 2, 6]), jnp.array([0, 0, 2]), 3)
    Array([2., 1., 6.], dtype=float32)
    """

def segment_logsumexp(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Log-sum-exps of the rows with the same id; ids out of range are dropped, as in JAX.

    An empty segment is `fill`. `num_segments` must be given inside of `jit`; by default it is the
    largest id plus one.

    Replaces `jax.ops.segment_max and segment_sum`; ids that are said to be sorted and are not
    raise.

    Args:
        data: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_logsumexp` does it
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the reduction of each segment

    >>> segment_logsumexp(jnp.float32([1, 2, 6]), jnp.array([0, 0, 2]), 3)
    Array([2.3132617,      -inf, 6.       ], dtype=float32)
    """

def segment_softmax(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Softmax over rows with the same id; ids out of range are dropped, as in JAX.

    Their rows are 0. A row of -inf has no share, also in a segment of nothing else.
    `num_segments` must be given inside of `jit`; by default it is the largest id plus
    one.

    Replaces `jax.ops.segment_max, exp and segment_sum`; ids that are said to be sorted and are
    not raise.

    Args:
        data: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_softmax` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the share of each row

    >>> segment_softmax(jnp.float32([1, 1, 6]), jnp.array([0, 0, 2]), 3)
    Array([0.5, 0.5, 1. ], dtype=float32)
    """

def segment_log_softmax(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Logarithm of the softmax over rows with the same id; ids out of range are dropped, as in JAX.

    Their rows are 0. A row of -inf has no share, also in a segment of nothing else.
    `num_segments` must be given inside of `jit`; by default it is the largest id plus
    one.

    Replaces `jax.ops.segment_max, exp and segment_sum`; ids that are said to be sorted and are
    not raise.

    Args:
        data: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_log_softmax` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the share of each row

    >>> segment_log_softmax(jnp.float32([1, 1, 6]), jnp.array([0, 0, 2]), 3)
    Array([-0.6931472, -0.6931472,  0.       ], dtype=float32)
    """

def segment_sum_csr(x: ArrayLike, indptr: ArrayLike) -> Array:
    """Sums of the rows between pointers: from x[indptr[s]] up to x[indptr[s + 1]].

    An empty segment is 0. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64

    Returns:
        the reduction of each segment

    >>> segment_sum_csr(jnp.float32([1, 2, 6]), jnp.array([0, 2, 2, 3]))
    Array([3., 0., 6.], dtype=float32)
    """

def segment_mean_csr(x: ArrayLike, indptr: ArrayLike) -> Array:
    """Means of the rows between pointers: from x[indptr[s]] up to x[indptr[s + 1]].

    An empty segment is 0. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64

    Returns:
        the reduction of each segment

    >>> segment_mean_csr(jnp.float32([1, 2, 6]), jnp.array([0, 2, 2, 3]))
    Array([1.5, 0. , 6. ], dtype=float32)
    """

def segment_max_csr(
    x: ArrayLike,
    indptr: ArrayLike,
    *,
    fill: SupportsFloat | None = None,
    ties: SegmentTies | Literal["first", "last", "share"] = "share",
) -> Array:
    """Maxima of the rows between pointers: from x[indptr[s]] up to x[indptr[s + 1]].

    An empty segment is `fill`. Pointers that descend or point beyond x raise.

    Of equal extremes all get the same share of the gradient; `ties="first"` or
    `"last"` gives it to one.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        ties: which of several equal extremes receives the gradient, or all of them a share

    Returns:
        the reduction of each segment

    >>> segment_max_csr(jnp.float32([1, 2, 6]), jnp.array([0, 2, 2, 3]))
    Array([  2., -inf,   6.], dtype=float32)
    """

def segment_min_csr(
    x: ArrayLike,
    indptr: ArrayLike,
    *,
    fill: SupportsFloat | None = None,
    ties: SegmentTies | Literal["first", "last", "share"] = "share",
) -> Array:
    """Minima of the rows between pointers: from x[indptr[s]] up to x[indptr[s + 1]].

    An empty segment is `fill`. Pointers that descend or point beyond x raise.

    Of equal extremes all get the same share of the gradient; `ties="first"` or
    `"last"` gives it to one.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        ties: which of several equal extremes receives the gradient, or all of them a share

    Returns:
        the reduction of each segment

    >>> segment_min_csr(jnp.float32([1, 2, 6]), jnp.array([0, 2, 2, 3]))
    Array([ 1., inf,  6.], dtype=float32)
    """

def segment_prod_csr(x: ArrayLike, indptr: ArrayLike) -> Array:
    """Products of the rows between pointers: from x[indptr[s]] up to x[indptr[s + 1]].

    An empty segment is 1. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64

    Returns:
        the reduction of each segment

    >>> segment_prod_csr(jnp.float32([1, 2, 6]), jnp.array([0, 2, 2, 3]))
    Array([2., 1., 6.], dtype=float32)
    """

def segment_logsumexp_csr(
    x: ArrayLike,
    indptr: ArrayLike,
    *,
    fill: SupportsFloat | None = None,
) -> Array:
    """Log-sum-exps of the rows between pointers: from x[indptr[s]] up to x[indptr[s + 1]].

    An empty segment is `fill`. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf

    Returns:
        the reduction of each segment

    >>> segment_logsumexp_csr(jnp.float32([1, 2, 6]), jnp.array([0, 2, 2, 3]))
    Array([2.3132617,      -inf, 6.       ], dtype=float32)
    """

def segment_softmax_csr(x: ArrayLike, indptr: ArrayLike) -> Array:
    """Softmax over the rows between pointers.

    A row of -inf has no share, also in a segment of nothing else. Rows in no segment
    are 0. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64

    Returns:
        the share of each row

    >>> segment_softmax_csr(jnp.float32([1, 1, 6]), jnp.array([0, 2, 3]))
    Array([0.5, 0.5, 1. ], dtype=float32)
    """

def segment_log_softmax_csr(x: ArrayLike, indptr: ArrayLike) -> Array:
    """Logarithm of the softmax over the rows between pointers.

    A row of -inf has no share, also in a segment of nothing else. Rows in no segment
    are 0. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64

    Returns:
        the share of each row

    >>> segment_log_softmax_csr(jnp.float32([1, 1, 6]), jnp.array([0, 2, 3]))
    Array([-0.6931472, -0.6931472,  0.       ], dtype=float32)
    """

def segment_weighted_sum(
    data: ArrayLike,
    weights: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Weighted sums of the rows with the same id; ids out of range are dropped, as in JAX.

    Of each row times its weight; an empty segment is 0.

    `weights` [N] are of the type of the rows, and have gradients as well.
    `num_segments` must be given inside of `jit`; by default it is the largest id plus
    one.

    Replaces `jax.ops.segment_sum of x * weights[:, None]`; ids that are said to be sorted and
    are not raise.

    Args:
        data: the rows [num_inputs, ...]
        weights: the weight of each row [num_inputs]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_weighted_sum` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the sum or mean of each segment

    >>> x, weights = jnp.float32([1, 2, 6]), jnp.float32([3, 1, 2])
    >>> segment_weighted_sum(x, weights, jnp.array([0, 0, 2]), 3)
    Array([ 5.,  0., 12.], dtype=float32)
    """

def segment_weighted_mean(
    data: ArrayLike,
    weights: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
) -> Array:
    """Weighted means of the rows with the same id; ids out of range are dropped, as in JAX.

    The sum of weight times row, divided by the sum of the weights; 0 where that is 0.

    `weights` [N] are of the type of the rows, and have gradients as well.
    `num_segments` must be given inside of `jit`; by default it is the largest id plus
    one.

    Replaces `jax.ops.segment_sum of x * weights[:, None]`; ids that are said to be sorted and
    are not raise.

    Args:
        data: the rows [num_inputs, ...]
        weights: the weight of each row [num_inputs]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_weighted_mean` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the sum or mean of each segment

    >>> x, weights = jnp.float32([1, 2, 6]), jnp.float32([3, 1, 2])
    >>> segment_weighted_mean(x, weights, jnp.array([0, 0, 2]), 3)
    Array([1.25, 0.  , 6.  ], dtype=float32)
    """

def segment_max_with_indices(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
    ties: Ties | Literal["first", "last"] = "first",
) -> tuple[Array, Array]:
    """Maxima of segments, and where; ids out of range are dropped, as in JAX.

    An empty segment is `fill`, and its index is the number of rows.
    Of equal ones the first counts, also for the gradient; with `ties="last"` the last.
    `num_segments` must be given inside of `jit`; by default it is the largest id plus
    one.

    Args:
        data: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_max_with_indices` does it
        fill: what an empty segment is; by default the extreme of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        ties: which of several equal extremes it is

    Returns:
        the extreme of each segment; the row that it comes from, or the number of rows

    >>> y, indices = segment_max_with_indices(jnp.float32([1, 2, 6]), jnp.array([0, 0, 2]), 3)
    >>> indices.tolist()
    [1, 3, 2]
    """

def segment_min_with_indices(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    *,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "skip",
    ties: Ties | Literal["first", "last"] = "first",
) -> tuple[Array, Array]:
    """Minima of segments, and where; ids out of range are dropped, as in JAX.

    An empty segment is `fill`, and its index is the number of rows.
    Of equal ones the first counts, also for the gradient; with `ties="last"` the last.
    `num_segments` must be given inside of `jit`; by default it is the largest id plus
    one.

    Args:
        data: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments; by default the largest of segment_ids plus one
        indices_are_sorted: as `gradplan.segment_min_with_indices` does it
        fill: what an empty segment is; by default the extreme of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        ties: which of several equal extremes it is

    Returns:
        the extreme of each segment; the row that it comes from, or the number of rows

    >>> y, indices = segment_min_with_indices(jnp.float32([1, 2, 6]), jnp.array([0, 0, 2]), 3)
    >>> indices.tolist()
    [0, 3, 2]
    """

def sparsemax(operand: ArrayLike, axis: SupportsIndex = -1) -> Array:
    """Sparse alternative to `jax.nn.softmax`: the nearest probability distribution.

    Args:
        operand: the scores
        axis: the axis of the distribution

    Returns:
        the probabilities

    >>> sparsemax(jnp.float32([1.0, 0.5, -1.0]))
    Array([0.75, 0.25, 0.  ], dtype=float32)
    """
