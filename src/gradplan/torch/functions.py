"""The functions, with PyTorch's names, argument order and conventions.

Each is an operator (operators.py) behind a PyTorch-like signature. Element types that gradplan has
no kernels for, integers above all, go to PyTorch's own function, whose integer arithmetic is exact;
it promotes or refuses as it always does.
"""

from __future__ import annotations

import operator as _operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

import gradplan.torch.autograd
import gradplan.torch.batching  # noqa: F401  (both register)
from gradplan.torch.operators import OPERATORS
from gradplan.vocabulary import FLOATS, Bounds, IndexOutOfRange, InvalidProblem, Unsupported

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "embedding",
    "lerp",
    "logcumsumexp",
    "segment_sum",
    "sparsemax",
]

_ELEMENTS = frozenset(getattr(torch, kind.dtype_name) for kind in FLOATS)


def _axis(function: str, x: Any, dim: Any) -> int:
    """`dim` as a plain integer; what PyTorch calls an IndexError is one here."""
    rank = x.ndim or 1
    if type(dim) is int and -rank <= dim < rank:
        return dim
    try:
        axis = _operator.index(dim)
    except TypeError:
        raise InvalidProblem(f"{function}: dim: expected an integer; got {dim!r}") from None
    if not -rank <= axis < rank:
        raise IndexOutOfRange(
            f"{function}: dim: expected {-rank} to {rank - 1} for a tensor of rank {x.ndim}; "
            f"got {axis}"
        )
    return axis


def _as_float32(x: Any) -> Any:
    """What PyTorch's autocast does on a GPU, and not on a CPU, for its own cumsum and softmax."""
    half = x.dtype in (torch.float16, torch.bfloat16)
    return x.float() if half and torch.is_autocast_enabled("cuda") else x


def _refuse(function: str, x: Any) -> Any:
    known = ", ".join(sorted(str(dtype) for dtype in _ELEMENTS))
    raise Unsupported(f"{function}: expected one of {known}; got {x.dtype}")


def _pytorch_scan(scan: Callable[..., Any], x: Any, dim: int, reverse: bool) -> Any:
    """PyTorch's own; for integers, whose sums have no rounding to agree about."""
    if x.dtype.is_complex:
        _refuse(scan.__name__, x)
    if not reverse or x.ndim == 0:
        result = scan(x, dim)
        return result if isinstance(result, torch.Tensor) else result.values
    return _pytorch_scan(scan, x.flip(dim), dim, False).flip(dim)


def cumsum(x: Any, dim: int, reverse: bool = False, *, dtype: Any = None) -> Any:
    """Running sum along `dim`; from the end with `reverse`. Replaces `torch.cumsum`.

    >>> cumsum(torch.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    >>> cumsum(torch.tensor([1, 2, 3]), 0, reverse=True)
    tensor([6, 5, 3])
    """
    if dtype is None and (known := _fast_cumsum(x, dim, reverse)) is not None:
        return known
    if dtype is not None:
        x = x.to(dtype)
    elif x.is_cuda:
        x = _as_float32(x)
    if x.dtype not in _ELEMENTS:
        return _pytorch_scan(torch.cumsum, x, dim, reverse)
    return _cumsum(x, _axis("cumsum", x, dim), reverse)


def cumprod(x: Any, dim: int, reverse: bool = False, *, dtype: Any = None) -> Any:
    """Running product along `dim`; gradients of any order are right with zeros in x.

    Replaces `torch.cumprod`.

    >>> x = torch.tensor([2.0, 0.0, 5.0], requires_grad=True)
    >>> cumprod(x, 0).sum().backward()
    >>> x.grad
    tensor([ 1., 12.,  0.])
    """
    if dtype is None and (known := _fast_cumprod(x, dim, reverse)) is not None:
        return known
    if dtype is not None:
        x = x.to(dtype)
    elif x.is_cuda:
        x = _as_float32(x)
    if x.dtype not in _ELEMENTS:
        return _pytorch_scan(torch.cumprod, x, dim, reverse)
    return _cumprod(x, _axis("cumprod", x, dim), reverse)


def cummax(x: Any, dim: int, reverse: bool = False) -> Any:
    """Running maximum along `dim`: the values of `torch.cummax`, with its gradients.

    >>> cummax(torch.tensor([1.0, 3.0, 2.0, 4.0]), 0)
    tensor([1., 3., 3., 4.])
    """
    if (known := _fast_cummax(x, dim, reverse)) is not None:
        return known
    if x.dtype not in _ELEMENTS:
        return _pytorch_scan(torch.cummax, x, dim, reverse)
    return _cummax(x, _axis("cummax", x, dim), reverse)


def cummin(x: Any, dim: int, reverse: bool = False) -> Any:
    """Running minimum along `dim`: the values of `torch.cummin`, with its gradients.

    >>> cummin(torch.tensor([3.0, 1.0, 2.0, 0.0]), 0)
    tensor([3., 1., 1., 0.])
    """
    if (known := _fast_cummin(x, dim, reverse)) is not None:
        return known
    if x.dtype not in _ELEMENTS:
        return _pytorch_scan(torch.cummin, x, dim, reverse)
    return _cummin(x, _axis("cummin", x, dim), reverse)


def logcumsumexp(x: Any, dim: int, reverse: bool = False) -> Any:
    """Logarithm of the running sum of exponentials along `dim`. Replaces `torch.logcumsumexp`.

    >>> logcumsumexp(torch.tensor([-torch.inf, 1000.0, -torch.inf]), 0)
    tensor([ -inf, 1000., 1000.])
    """
    if (known := _fast_logcumsumexp(x, dim, reverse)) is not None:
        return known
    if x.dtype not in _ELEMENTS:
        return _pytorch_scan(torch.logcumsumexp, x, dim, reverse)
    return _logcumsumexp(x, _axis("logcumsumexp", x, dim), reverse)


def sparsemax(x: Any, dim: int = -1) -> Any:
    """Sparse alternative to softmax along `dim`. Replaces `entmax.sparsemax`.

    >>> sparsemax(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.7500, 0.2500, 0.0000])
    """
    if (known := _fast_sparsemax(x, dim)) is not None:
        return known
    if x.is_cuda:
        x = _as_float32(x)
    if x.dtype not in _ELEMENTS:
        _refuse("sparsemax", x)
    return _sparsemax(x, _axis("sparsemax", x, dim))


def segment_sum(
    x: Any, segment_ids: Any, num_segments: int, sorted: bool = False, *, bounds: str = "raise"
) -> Any:
    """Sums of the rows of x [N, ...] with the same id, as a tensor [num_segments, ...].

    `sorted` promises that the ids do not descend, which is faster. An id outside of
    [0, num_segments) raises; with `bounds="skip"` its row is left out.

    >>> segment_sum(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1, 0, 1]), 2)
    tensor([2., 4.])
    """
    fast, run = _sorted_segment_sum if sorted else _segment_sum
    if (known := fast(x, segment_ids, num_segments, bounds)) is not None:
        return known
    if isinstance(num_segments, torch.Tensor):
        num_segments = int(num_segments)
    if x.dtype not in _ELEMENTS:
        if x.dtype.is_complex:
            _refuse("segment_sum", x)
        if bounds != "raise":
            kept = (segment_ids >= 0) & (segment_ids < num_segments)
            x, segment_ids = x[kept], segment_ids[kept]
        return x.new_zeros((num_segments, *x.shape[1:])).index_add(0, segment_ids, x)
    return run(x, segment_ids, num_segments, bounds)


def embedding(
    indices: Any, weight: Any, padding_idx: int | None = None, *, bounds: str = "raise"
) -> Any:
    """Rows of `weight` by index. Replaces `torch.nn.functional.embedding`.

    The row `padding_idx` receives no gradient. An index outside of the table raises; with
    `bounds="skip"` it gives zeros.

    >>> embedding(torch.tensor([[1, 0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[[3., 4.],
             [1., 2.]]])
    """
    if (known := _fast_embedding(weight, indices, padding_idx, bounds)) is not None:
        return known
    if weight.ndim != 2:
        raise InvalidProblem(
            f"embedding: weight: expected [num_embeddings, embedding_dim]; got {list(weight.shape)}"
        )
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise InvalidProblem(
                f"embedding: padding_idx: expected None or {-rows} to {rows - 1}; got {padding_idx}"
            )
        padding_idx %= rows
    if weight.dtype not in _ELEMENTS:
        return torch.nn.functional.embedding(indices, weight, padding_idx)
    return _embedding(weight, indices, padding_idx, bounds)


def lerp(a: Any, b: Any, weight: float) -> Any:
    """Linear interpolation from a (weight 0) to b (weight 1), exact at both. Replaces `torch.lerp`.

    a and b broadcast; the weight is a number.

    >>> lerp(torch.tensor([0.0, 10.0]), torch.tensor([4.0, 20.0]), 0.25)
    tensor([ 1.0000, 12.5000])
    """
    if (known := _fast_lerp(a, b, weight)) is not None:
        return known
    if isinstance(weight, torch.Tensor):
        raise Unsupported("lerp: weight: expected a number; got a tensor (use torch.lerp)")
    if type(weight) is not float:
        weight = float(weight)
    if a.dtype not in _ELEMENTS:
        return torch.lerp(a, b, weight)
    if a.shape != b.shape:
        shape = torch.broadcast_shapes(a.shape, b.shape)
        a, b = _expanded(a, shape), _expanded(b, shape)
    return _lerp(a, b, weight)


def _expanded(x: Any, shape: Sequence[int]) -> Any:
    """`x.expand(shape)`; where a gradient will be summed over copies, with an order for the sum.

    PyTorch's sums depend on the number of threads. Here a copy is the transpose of a segment sum.
    """
    if x.shape == shape or not x.requires_grad:
        return x.expand(shape)
    x = x.reshape([1] * (len(shape) - x.ndim) + list(x.shape))
    new = [i for i, n in enumerate(shape) if x.shape[i] == 1 and n != 1]
    old = [i for i in range(len(shape)) if i not in new]
    rows = x.permute(*new, *old).reshape(1, *(x.shape[i] for i in old))
    copies = 1
    for i in new:
        copies *= shape[i]
    ids = torch.zeros(copies, dtype=torch.int64, device=x.device)
    made = _copy_rows(rows, ids, Bounds.SKIP.value)
    order = new + old
    back = [order.index(i) for i in range(len(shape))]
    return made.reshape([shape[i] for i in order]).permute(back)


def _ways(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The operator's fast path, which all functions above ask first, and the operator itself.

    The former knows calls as there have been: what was checked then still holds. It gives None for
    others, whatever their arguments are.
    """
    ways = OPERATORS[name].ways
    return ways.fast, ways.call


_fast_cumsum, _cumsum = _ways("cumsum")
_fast_cumprod, _cumprod = _ways("cumprod")
_fast_cummax, _cummax = _ways("cummax")
_fast_cummin, _cummin = _ways("cummin")
_fast_logcumsumexp, _logcumsumexp = _ways("logcumsumexp")
_fast_sparsemax, _sparsemax = _ways("sparsemax")
_sorted_segment_sum, _segment_sum = _ways("segment_sum"), _ways("unsorted_segment_sum")
_fast_embedding, _embedding = _ways("embedding_with_padding")
_fast_lerp, _lerp = _ways("lerp")
_copy_rows = OPERATORS["segment_sum_backward"].call
