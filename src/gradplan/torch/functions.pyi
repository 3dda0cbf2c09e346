# Written by tools/stubs.py from the declarations; do not edit.
from typing import Any, Literal, NamedTuple, SupportsFloat, SupportsIndex, overload

import torch

from gradplan.offers import Offers
from gradplan.vocabulary import Bounds, ScanKind, ScatterKind, SegmentTies, Ties

OFFERS: Offers
__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "embedding",
    "gather",
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
]

class ValuesAndIndices(NamedTuple):
    values: torch.Tensor
    indices: torch.Tensor

def lerp(a: torch.Tensor, b: torch.Tensor, weight: SupportsFloat) -> torch.Tensor:
    """Linear interpolation from a (weight 0) to b (weight 1), exact at both.

    a and b broadcast; the weight is a number.

    Replaces `torch.lerp`; the weight is a number, not a tensor.

    Args:
        a: the result for weight 0
        b: the result for weight 1
        weight: the scalar; the weight of b in lerp

    Returns:
        the interpolation

    >>> lerp(torch.tensor([0.0, 10.0]), torch.tensor([4.0, 20.0]), 0.25)
    tensor([ 1.0000, 12.5000])
    """

def embedding(
    indices: torch.Tensor,
    weight: torch.Tensor,
    padding_idx: SupportsIndex | None = None,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Rows of `weight` by index.

    The row `padding_idx` receives no gradient. An index outside of the table raises;
    with `bounds="skip"` it gives zeros.

    Replaces `torch.nn.functional.embedding`; `max_norm`, `scale_grad_by_freq` and `sparse` are
    not offered.

    Args:
        indices: which row each output row is [...], int32 or int64
        weight: the table [num_embeddings, ...]
        padding_idx: an index that is skipped as well
        bounds: skip indices outside of the table, or raise

    Returns:
        the rows

    >>> embedding(torch.tensor([[1, 0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[[3., 4.],
             [1., 2.]]])
    """

def gather(
    input: torch.Tensor,
    dim: SupportsIndex,
    index: torch.Tensor,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Elements by index along `dim`; elsewhere the indices may end earlier.

    Replaces `torch.gather`.

    Args:
        input: the values [... with size along axis]
        dim: the axis that indices are along
        index: positions along the axis, int32 or int64
        bounds: skip indices outside of [0, size), or raise

    Returns:
        what is picked, 0 where an index is skipped

    >>> gather(torch.tensor([[1.0, 2.0, 3.0]]), 1, torch.tensor([[2, 0]]))
    tensor([[3., 1.]])
    """

def scatter_add(
    input: torch.Tensor,
    dim: SupportsIndex,
    index: torch.Tensor,
    src: torch.Tensor,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """input, with the elements of `src` added where `index` says along `dim`.

    Replaces `torch.scatter_add`.

    Args:
        input: what the sums are added to
        dim: the axis that indices are along
        index: positions along the axis, int32 or int64
        src: the values
        bounds: skip indices outside of [0, size), or raise

    Returns:
        the sums

    >>> scatter_add(torch.zeros(3), 0, torch.tensor([1, 0, 1]), torch.ones(3))
    tensor([1., 2., 0.])
    """

def index_select(
    input: torch.Tensor,
    dim: SupportsIndex,
    index: torch.Tensor,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Slices by index along `dim`.

    Replaces `torch.index_select`.

    Args:
        input: the values [... with size along axis]
        dim: the axis that indices are along
        index: positions along the axis [along axis], int32 or int64
        bounds: skip indices outside of [0, size), or raise

    Returns:
        what is picked, 0 where an index is skipped

    >>> index_select(torch.tensor([[1.0, 2.0, 3.0]]), 1, torch.tensor([2, 0]))
    tensor([[3., 1.]])
    """

def index_add(
    input: torch.Tensor,
    dim: SupportsIndex,
    index: torch.Tensor,
    source: torch.Tensor,
    *,
    alpha: Any = 1,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """input, with the slices of `source` added where `index` says along `dim`.

    Replaces `torch.index_add`.

    Args:
        input: what the sums are added to
        dim: the axis that indices are along
        index: positions along the axis [along axis], int32 or int64
        source: the values
        alpha: a factor of the sums
        bounds: skip indices outside of [0, size), or raise

    Returns:
        the sums

    >>> index_add(torch.zeros(3), 0, torch.tensor([1, 0, 1]), torch.ones(3))
    tensor([1., 2., 0.])
    """

def linear_scan(
    a: torch.Tensor,
    b: torch.Tensor,
    initial: torch.Tensor | None = None,
    dim: SupportsIndex = -1,
    reverse: bool = False,
    exclusive: bool = False,
) -> torch.Tensor:
    """Linear recurrence h[t] = a[t] h[t-1] + b[t] along `dim`.

    `initial` is the state before the first element and has no such axis. Gradients of
    any order for a, b and initial, right with zeros in a.

    Args:
        a: what the state before is multiplied by
        b: what is added
        initial: the state before the first [... without scan_axis]
        dim: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself

    Returns:
        the states

    >>> a = torch.tensor([0.5, 0.5, 0.0, 0.5], requires_grad=True)
    >>> h = linear_scan(a, torch.ones(4), torch.tensor(8.0))
    >>> h.sum().backward()
    >>> a.grad
    tensor([12.0000,  5.0000,  5.2500,  1.0000])
    """

def cumsum(
    x: torch.Tensor,
    dim: SupportsIndex,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    dtype: Any = None,
) -> torch.Tensor:
    """Running sum along `dim`; from the end with `reverse`.

    Replaces `torch.cumsum`.

    Args:
        x: what is scanned
        dim: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        dtype: an element type to convert to first

    Returns:
        the running result

    >>> cumsum(torch.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    >>> cumsum(torch.tensor([1, 2, 3]), 0, reverse=True)
    tensor([6, 5, 3])
    >>> cumsum(torch.tensor([1.0, 2.0, 3.0]), 0, exclusive=True)
    tensor([0., 1., 3.])
    """

def cumprod(
    x: torch.Tensor,
    dim: SupportsIndex,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    dtype: Any = None,
) -> torch.Tensor:
    """Running product along `dim`; gradients of any order are right with zeros in x.

    Replaces `torch.cumprod`.

    Args:
        x: what is scanned
        dim: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        dtype: an element type to convert to first

    Returns:
        the running result

    >>> x = torch.tensor([2.0, 0.0, 5.0], requires_grad=True)
    >>> cumprod(x, 0).sum().backward()
    >>> x.grad
    tensor([ 1., 12.,  0.])
    """

@overload
def cummax(
    x: torch.Tensor,
    dim: SupportsIndex,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    return_indices: Literal[True] = True,
) -> ValuesAndIndices:
    """Running maximum along `dim`, and where it comes from.

    Replaces `torch.cummax`.

    Args:
        x: what is scanned
        dim: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        return_indices: whether to give a pair of values and indices

    Returns:
        the running result; and indices, as `gradplan.cummax_with_indices`, if return_indices

    >>> values, indices = cummax(torch.tensor([1.0, 3.0, 2.0, 4.0]), 0)
    >>> values, indices
    (tensor([1., 3., 3., 4.]), tensor([0, 1, 1, 3]))
    >>> cummax(torch.tensor([1.0, 3.0, 2.0, 4.0]), 0, return_indices=False)
    tensor([1., 3., 3., 4.])
    """

@overload
def cummax(
    x: torch.Tensor,
    dim: SupportsIndex,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    return_indices: Literal[False],
) -> torch.Tensor: ...
@overload
def cummax(
    x: torch.Tensor,
    dim: SupportsIndex,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    return_indices: bool,
) -> ValuesAndIndices | torch.Tensor: ...
@overload
def cummin(
    x: torch.Tensor,
    dim: SupportsIndex,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    return_indices: Literal[True] = True,
) -> ValuesAndIndices:
    """Running minimum along `dim`, and where it comes from.

    Replaces `torch.cummin`.

    Args:
        x: what is scanned
        dim: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself
        return_indices: whether to give a pair of values and indices

    Returns:
        the running result; and indices, as `gradplan.cummin_with_indices`, if return_indices

    >>> cummin(torch.tensor([3.0, 1.0, 2.0, 0.0]), 0).indices
    tensor([0, 1, 1, 3])
    """

@overload
def cummin(
    x: torch.Tensor,
    dim: SupportsIndex,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    return_indices: Literal[False],
) -> torch.Tensor: ...
@overload
def cummin(
    x: torch.Tensor,
    dim: SupportsIndex,
    reverse: bool = False,
    *,
    exclusive: bool = False,
    return_indices: bool,
) -> ValuesAndIndices | torch.Tensor: ...
def logcumsumexp(
    x: torch.Tensor,
    dim: SupportsIndex,
    reverse: bool = False,
    *,
    exclusive: bool = False,
) -> torch.Tensor:
    """Logarithm of the running sum of exponentials along `dim`.

    Replaces `torch.logcumsumexp`.

    Args:
        x: what is scanned
        dim: the axis to scan along
        reverse: scan from the last element to the first
        exclusive: give what is before each element, without itself

    Returns:
        the running result

    >>> logcumsumexp(torch.tensor([-torch.inf, 1000.0, -torch.inf]), 0)
    tensor([ -inf, 1000., 1000.])
    """

def scan_part(
    x: torch.Tensor,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: torch.Tensor | None = None,
    carry: torch.Tensor | None = None,
    dim: SupportsIndex = -1,
    reverse: bool = False,
) -> torch.Tensor:
    """A scan of a part of each row, given what comes out of the part before.

    Args:
        x: what is scanned
        kind: the running operation
        before: logcumsumexp: the running maximum that comes in [... without scan_axis]
        carry: what comes in [... without scan_axis]
        dim: the axis to scan along
        reverse: scan from the last element to the first

    Returns:
        the running result
    """

def scan_part_total(
    x: torch.Tensor,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: torch.Tensor | None = None,
    dim: SupportsIndex = -1,
    reverse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a part of each row hands on: the total, and the gain of what comes in.

    Args:
        x: what is scanned
        kind: the running operation
        before: logcumsumexp: the running maximum that comes in [... without scan_axis]
        dim: the axis to scan along
        reverse: scan from the last element to the first

    Returns:
        what comes out where nothing comes in; the factor of what comes in
    """

def scan_part_gradient(
    dy: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: torch.Tensor | None = None,
    behind: torch.Tensor | None = None,
    carry: torch.Tensor | None = None,
    dim: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
) -> torch.Tensor:
    """The gradient of a scan of a part of each row, given what comes from behind it.

    Args:
        dy: the gradient of the results
        x: what was scanned
        y: the running result
        kind: the running operation
        before: x or y behind the part, or the extreme before it [... without scan_axis]
        behind: cumprod: y before the part, if there is one [... without scan_axis]
        carry: what comes in [... without scan_axis]
        dim: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes receives the gradient

    Returns:
        the gradient of x
    """

def scan_part_gradient_total(
    dy: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    before: torch.Tensor | None = None,
    dim: SupportsIndex = -1,
    reverse: bool = False,
    ties: Ties | Literal["first", "last"] = "first",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the gradient of a part hands on: the total, and the gain of what comes in.

    Args:
        dy: the gradient of the results
        x: what was scanned
        y: the running result
        kind: the running operation
        before: x or y behind the part, or the extreme before it [... without scan_axis]
        dim: the axis to scan along
        reverse: scan from the last element to the first
        ties: which of several equal extremes receives the gradient

    Returns:
        what comes out where nothing comes in; the factor of what comes in; its exponent, of cumprod
    """

def scan_part_fold(
    total: torch.Tensor,
    gain: torch.Tensor,
    exponent: torch.Tensor,
    kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
    dim: SupportsIndex = -1,
    reverse: bool = False,
    backward: bool = False,
) -> torch.Tensor:
    """What comes out of each of several parts, one after the other along the axis.

    Args:
        total: what comes out where nothing comes in
        gain: the factor of what comes in
        exponent: its exponent, of cumprod's gradient
        kind: the running operation
        dim: the axis to scan along
        reverse: scan from the last element to the first
        backward: whether these are parts of a gradient

    Returns:
        what comes out of each part
    """

def scatter_reduce(
    input: torch.Tensor,
    dim: SupportsIndex,
    index: torch.Tensor,
    src: torch.Tensor,
    reduce: ScatterKind | Literal["sum", "mean", "prod", "amax", "amin"],
    *,
    include_self: bool = True,
    ties: SegmentTies | Literal["first", "last", "share"] = "share",
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Reductions of `input` and the elements of `src` where `index` says.

    `reduce` is "sum", "mean", "prod", "amax" or "amin". With include_self=False `input`
    stands only where `index` does not point to.
    Of equal extremes all get the same share of the gradient; `ties` may say which one.

    Replaces `torch.scatter_reduce`.

    Args:
        input: what the reductions start from
        dim: the axis that indices are along
        index: positions along the axis, int32 or int64
        src: the values
        reduce: the reduction
        include_self: whether `initial` counts where there are members as well
        ties: which of several equal extremes receives the gradient, or all of them a share
        bounds: skip indices outside of [0, size), or raise

    Returns:
        the reductions

    >>> start, index = torch.zeros(3), torch.tensor([1, 0, 1])
    >>> src = torch.tensor([1.0, 2.0, 5.0])
    >>> scatter_reduce(start, 0, index, src, "amax", include_self=False)
    tensor([2., 5., 0.])
    >>> scatter_reduce(start, 0, index, src, "mean")
    tensor([1., 2., 0.])
    """

def segment_sum(
    x: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Sums of the rows of x [N, ...] with the same id: [num_segments, ...].

    `sorted` promises that the ids do not descend, which is faster. An id outside of
    [0, num_segments) raises; with `bounds="skip"` its row is left out.

    Replaces `x.new_zeros(shape).index_add(0, segment_ids, x)`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_sum` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the sum of each segment

    >>> segment_sum(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1, 0, 1]), 2)
    tensor([2., 4.])
    """

def segment_mean(
    x: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Means of the rows of x [N, ...] with the same id: [num_segments, ...].

    `sorted` promises that the ids do not descend, which is faster. An empty segment is 0.
    An id outside of [0, num_segments) raises; with `bounds="skip"` its row is left
    out.

    Replaces `torch.scatter_reduce(..., 'mean')`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_mean` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the reduction of each segment

    >>> segment_mean(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 0, 2]), 3)
    tensor([1.5000, 0.0000, 6.0000])
    """

def segment_max(
    x: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    ties: SegmentTies | Literal["first", "last", "share"] = "share",
) -> torch.Tensor:
    """Maxima of the rows of x [N, ...] with the same id: [num_segments, ...].

    `sorted` promises that the ids do not descend, which is faster. An empty segment is `fill`.
    An id outside of [0, num_segments) raises; with `bounds="skip"` its row is left
    out.

    Of equal extremes all get the same share of the gradient; `ties="first"` or
    `"last"` gives it to one.

    Replaces `torch.scatter_reduce(..., 'amax')`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_max` does it
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        ties: which of several equal extremes receives the gradient, or all of them a share

    Returns:
        the reduction of each segment

    >>> segment_max(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 0, 2]), 3)
    tensor([2., -inf, 6.])
    """

def segment_min(
    x: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    ties: SegmentTies | Literal["first", "last", "share"] = "share",
) -> torch.Tensor:
    """Minima of the rows of x [N, ...] with the same id: [num_segments, ...].

    `sorted` promises that the ids do not descend, which is faster. An empty segment is `fill`.
    An id outside of [0, num_segments) raises; with `bounds="skip"` its row is left
    out.

    Of equal extremes all get the same share of the gradient; `ties="first"` or
    `"last"` gives it to one.

    Replaces `torch.scatter_reduce(..., 'amin')`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_min` does it
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        ties: which of several equal extremes receives the gradient, or all of them a share

    Returns:
        the reduction of each segment

    >>> segment_min(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 0, 2]), 3)
    tensor([1., inf, 6.])
    """

def segment_prod(
    x: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Products of the rows of x [N, ...] with the same id: [num_segments, ...].

    `sorted` promises that the ids do not descend, which is faster. An empty segment is 1.
    An id outside of [0, num_segments) raises; with `bounds="skip"` its row is left
    out.

    Replaces `torch.scatter_reduce(..., 'prod')`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_prod` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the reduction of each segment

    >>> segment_prod(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 0, 2]), 3)
    tensor([2., 1., 6.])
    """

def segment_logsumexp(
    x: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Log-sum-exps of the rows of x [N, ...] with the same id: [num_segments, ...].

    `sorted` promises that the ids do not descend, which is faster. An empty segment is `fill`.
    An id outside of [0, num_segments) raises; with `bounds="skip"` its row is left
    out.

    Replaces `scatter_reduce, index_add and log`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_logsumexp` does it
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the reduction of each segment

    >>> segment_logsumexp(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 0, 2]), 3)
    tensor([2.3133,   -inf, 6.0000])
    """

def segment_softmax(
    x: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Softmax of x [N, ...] over the rows with the same id.

    `sorted` promises that the ids do not descend, which is faster. A row of -inf has no
    share, also in a segment of nothing else. An id outside of [0, num_segments)
    raises; with `bounds="skip"` its row is 0.

    Replaces `scatter_reduce, exp and index_add`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_softmax` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the share of each row

    >>> segment_softmax(torch.tensor([1.0, 1.0, 6.0]), torch.tensor([0, 0, 2]), 3)
    tensor([0.5000, 0.5000, 1.0000])
    """

def segment_log_softmax(
    x: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Logarithm of the softmax of x [N, ...] over the rows with the same id.

    `sorted` promises that the ids do not descend, which is faster. A row of -inf has no
    share, also in a segment of nothing else. An id outside of [0, num_segments)
    raises; with `bounds="skip"` its row is 0.

    Replaces `scatter_reduce, exp and index_add`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_log_softmax` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the share of each row

    >>> segment_log_softmax(torch.tensor([1.0, 1.0, 6.0]), torch.tensor([0, 0, 2]), 3)
    tensor([-0.6931, -0.6931,  0.0000])
    """

def segment_sum_csr(x: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    """Sums of the rows between pointers: from x[indptr[s]] up to x[indptr[s + 1]].

    An empty segment is 0. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64

    Returns:
        the reduction of each segment

    >>> segment_sum_csr(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 2, 2, 3]))
    tensor([3., 0., 6.])
    """

def segment_mean_csr(x: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    """Means of the rows between pointers: from x[indptr[s]] up to x[indptr[s + 1]].

    An empty segment is 0. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64

    Returns:
        the reduction of each segment

    >>> segment_mean_csr(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 2, 2, 3]))
    tensor([1.5000, 0.0000, 6.0000])
    """

def segment_max_csr(
    x: torch.Tensor,
    indptr: torch.Tensor,
    *,
    fill: SupportsFloat | None = None,
    ties: SegmentTies | Literal["first", "last", "share"] = "share",
) -> torch.Tensor:
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

    >>> segment_max_csr(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 2, 2, 3]))
    tensor([2., -inf, 6.])
    """

def segment_min_csr(
    x: torch.Tensor,
    indptr: torch.Tensor,
    *,
    fill: SupportsFloat | None = None,
    ties: SegmentTies | Literal["first", "last", "share"] = "share",
) -> torch.Tensor:
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

    >>> segment_min_csr(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 2, 2, 3]))
    tensor([1., inf, 6.])
    """

def segment_prod_csr(x: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    """Products of the rows between pointers: from x[indptr[s]] up to x[indptr[s + 1]].

    An empty segment is 1. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64

    Returns:
        the reduction of each segment

    >>> segment_prod_csr(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 2, 2, 3]))
    tensor([2., 1., 6.])
    """

def segment_logsumexp_csr(
    x: torch.Tensor,
    indptr: torch.Tensor,
    *,
    fill: SupportsFloat | None = None,
) -> torch.Tensor:
    """Log-sum-exps of the rows between pointers: from x[indptr[s]] up to x[indptr[s + 1]].

    An empty segment is `fill`. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64
        fill: what an empty segment is; by default the reduction of nothing, -inf or inf

    Returns:
        the reduction of each segment

    >>> segment_logsumexp_csr(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 2, 2, 3]))
    tensor([2.3133,   -inf, 6.0000])
    """

def segment_softmax_csr(x: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    """Softmax over the rows between pointers.

    A row of -inf has no share, also in a segment of nothing else. Rows in no segment
    are 0. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64

    Returns:
        the share of each row

    >>> segment_softmax_csr(torch.tensor([1.0, 1.0, 6.0]), torch.tensor([0, 2, 3]))
    tensor([0.5000, 0.5000, 1.0000])
    """

def segment_log_softmax_csr(x: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    """Logarithm of the softmax over the rows between pointers.

    A row of -inf has no share, also in a segment of nothing else. Rows in no segment
    are 0. Pointers that descend or point beyond x raise.

    Args:
        x: the rows [num_inputs, ...]
        indptr: where each segment begins, and the end [num_segments + 1], int32 or int64

    Returns:
        the share of each row

    >>> segment_log_softmax_csr(torch.tensor([1.0, 1.0, 6.0]), torch.tensor([0, 2, 3]))
    tensor([-0.6931, -0.6931,  0.0000])
    """

def segment_weighted_sum(
    x: torch.Tensor,
    weights: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Weighted sums of the rows with the same id: [num_segments, ...].

    Of each row times its weight; an empty segment is 0.

    `weights` [N] are of the type of x, and have gradients as well. `sorted` promises
    that the ids do not descend, which is faster. An id outside of [0, num_segments)
    raises; with `bounds="skip"` its row is left out.

    Replaces `index_add of x * weights[:, None]`.

    Args:
        x: the rows [num_inputs, ...]
        weights: the weight of each row [num_inputs]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_weighted_sum` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the sum or mean of each segment

    >>> x, weights = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([3.0, 1.0, 2.0])
    >>> segment_weighted_sum(x, weights, torch.tensor([0, 0, 2]), 3)
    tensor([ 5.,  0., 12.])
    """

def segment_weighted_mean(
    x: torch.Tensor,
    weights: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
) -> torch.Tensor:
    """Weighted means of the rows with the same id: [num_segments, ...].

    The sum of weight times row, divided by the sum of the weights; 0 where that is 0.

    `weights` [N] are of the type of x, and have gradients as well. `sorted` promises
    that the ids do not descend, which is faster. An id outside of [0, num_segments)
    raises; with `bounds="skip"` its row is left out.

    Replaces `index_add of x * weights[:, None]`.

    Args:
        x: the rows [num_inputs, ...]
        weights: the weight of each row [num_inputs]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_weighted_mean` does it
        bounds: skip ids outside of [0, num_segments), or raise

    Returns:
        the sum or mean of each segment

    >>> x, weights = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([3.0, 1.0, 2.0])
    >>> segment_weighted_mean(x, weights, torch.tensor([0, 0, 2]), 3)
    tensor([1.2500, 0.0000, 6.0000])
    """

def segment_max_with_indices(
    x: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    ties: Ties | Literal["first", "last"] = "first",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Maxima of the rows with the same id, and where they are.

    An empty segment is `fill`, and its index is the number of rows.
    Of equal ones the first counts, also for the gradient; with `ties="last"` the last.
    `sorted` promises that the ids do not descend, which is faster. An id outside of
    [0, num_segments) raises; with `bounds="skip"` its row is left out.

    Replaces `scatter_reduce(..., 'amax'), and of the places`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_max_with_indices` does it
        fill: what an empty segment is; by default the extreme of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        ties: which of several equal extremes it is

    Returns:
        the extreme of each segment; the row that it comes from, or the number of rows

    >>> segment_max_with_indices(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 0, 2]), 3)
    (tensor([2., -inf, 6.]), tensor([1, 3, 2]))
    """

def segment_min_with_indices(
    x: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: SupportsIndex,
    sorted: bool = False,
    *,
    fill: SupportsFloat | None = None,
    bounds: Bounds | Literal["skip", "raise"] = "raise",
    ties: Ties | Literal["first", "last"] = "first",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Minima of the rows with the same id, and where they are.

    An empty segment is `fill`, and its index is the number of rows.
    Of equal ones the first counts, also for the gradient; with `ties="last"` the last.
    `sorted` promises that the ids do not descend, which is faster. An id outside of
    [0, num_segments) raises; with `bounds="skip"` its row is left out.

    Replaces `scatter_reduce(..., 'amin'), and of the places`.

    Args:
        x: the rows [num_inputs, ...]
        segment_ids: the segment of each row [num_inputs], int32 or int64
        num_segments: the number of segments
        sorted: as `gradplan.segment_min_with_indices` does it
        fill: what an empty segment is; by default the extreme of nothing, -inf or inf
        bounds: skip ids outside of [0, num_segments), or raise
        ties: which of several equal extremes it is

    Returns:
        the extreme of each segment; the row that it comes from, or the number of rows

    >>> segment_min_with_indices(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 0, 2]), 3)
    (tensor([1., inf, 6.]), tensor([0, 3, 2]))
    """

def sparsemax(x: torch.Tensor, dim: SupportsIndex = -1) -> torch.Tensor:
    """Sparse alternative to softmax along `dim`.

    Replaces `entmax.sparsemax`.

    Args:
        x: the scores
        dim: the axis of the distribution

    Returns:
        the probabilities

    >>> sparsemax(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.7500, 0.2500, 0.0000])
    """
