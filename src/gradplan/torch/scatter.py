"""The functions of torch_scatter 2.1 under their names: replace the import.

    from gradplan.torch.scatter import scatter, scatter_max, scatter_softmax, segment_csr

Argument order, defaults and return values are torch_scatter's; `index` is broadcast as there. What
is computed is `gradplan.torch`'s: the same bits for every number of threads, derivatives of any
order, torch.compile and vmap (with `dim_size`: without it the size is the largest index plus one,
which only the values tell). Integers go to PyTorch's own functions.

What differs: an index out of range raises, and so does one that descends where it must not; NaN is
the minimum or maximum wherever there is one; -inf and inf are values like any other; the gradient
of a product is right with zeros, and that of a standard deviation of 0 is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from gradplan.hints import did_you_mean
from gradplan.public import public
from gradplan.torch import functions, private
from gradplan.vocabulary import IndexOutOfRange, InvalidProblem, ScatterKind

Pair = tuple[Tensor, Tensor]


class _Reduction(NamedTuple):
    """What torch_scatter's word for a reduction stands for."""

    rows: str
    """The function for rows that share their index."""
    word: ScatterKind
    """What PyTorch's `scatter_reduce` calls it."""
    empty: int = 0
    """What there is where no index points to."""
    options: Mapping[str, Any] = MappingProxyType({})
    """Of `rows`."""


_EXTREME = {"fill": 0.0, "ties": "first"}
_REDUCTIONS = {
    "sum": _Reduction("segment_sum", ScatterKind.SUM),
    "add": _Reduction("segment_sum", ScatterKind.SUM),
    "mul": _Reduction("segment_prod", ScatterKind.PROD, 1),
    "mean": _Reduction("segment_mean", ScatterKind.MEAN),
    "min": _Reduction("segment_min", ScatterKind.AMIN, options=_EXTREME),
    "max": _Reduction("segment_max", ScatterKind.AMAX, options=_EXTREME),
}


_EXTREMES = ("min", "max")


# Indices ---------------------------------------------------------------------------------------


class _Places:
    """Which place along `dim` each element belongs to.

    `index` has the rank of the elements' tensor; where its extent is 1 the elements share it.
    """

    def __init__(self, name: str, src: Tensor, index: Tensor, dim: int, ascending: bool) -> None:
        extents = [(index.shape[d], n) for d, n in enumerate(src.shape)]
        if any(m not in (1, n) for m, n in extents):
            raise InvalidProblem(
                f"{name}: index: expected a shape that broadcasts to src's {list(src.shape)}; "
                f"got {list(index.shape)}"
            )
        along = list(index.shape)
        along[dim] = src.shape[dim]
        self.index = index.expand(along)
        self.dim, self.ascending = dim, ascending
        self.shared = all(m == 1 or d == dim for d, (m, _) in enumerate(extents))
        self.extent = src.shape[dim]

    def size(self, dim_size: int | None) -> int:
        if dim_size is not None:
            return dim_size
        if self.index.numel() == 0:
            return 0
        return 1 + int(self.index.max())

    def expanded(self, src: Tensor) -> Tensor:
        return self.index.expand(src.shape)

    def rows(self, src: Tensor, function: str, size: int, **options: Any) -> Tensor:
        """A function of the segments of rows; of elements, if each has an index of its own."""
        call: Callable[..., Tensor] = getattr(functions, function)
        if self.shared:
            ids = self.index.reshape(-1)
            result = call(src.movedim(self.dim, 0), ids, size, sorted=self.ascending, **options)
            return result.movedim(0, self.dim)
        # Every line along `dim` has segments of its own.
        ids = self.expanded(src).movedim(self.dim, -1)
        moved = src.movedim(self.dim, -1)
        lines = moved.numel() // max(self.extent, 1)
        first = torch.arange(lines, device=ids.device).mul(size).reshape(*moved.shape[:-1], 1)
        ids = torch.where((ids < 0) | (ids >= size), -1, ids + first)
        made = call(moved.reshape(-1), ids.reshape(-1), lines * size, **options)
        along = size if len(made) == lines * size else self.extent
        return made.reshape(*moved.shape[:-1], along).movedim(-1, self.dim)

    def reduce(self, src: Tensor, kind: str, size: int, start: Tensor | None = None) -> Tensor:
        """The reduction of the elements of each place, and of what it starts from."""
        rows, word, empty, options = _REDUCTIONS[kind]
        if start is None and self.shared:
            return self.rows(src, rows, size, **options)
        own = start is not None
        if start is None:
            shape = list(src.shape)
            shape[self.dim] = size
            start = src.new_full(shape, empty)
        index = self.expanded(src)
        return functions.scatter_reduce(
            start,
            self.dim,
            index if src.is_floating_point() else index.long(),
            src,
            word,
            include_self=own,
            ties="first",
        )

    def counts(self, src: Tensor, size: int) -> Tensor:
        """How many elements each place has, in the shape of the index."""
        index = self.index.long()
        shape = list(index.shape)
        shape[self.dim] = size
        counts = index.new_zeros(shape).scatter_add(self.dim, index, torch.ones_like(index))
        return counts.to(src.dtype)

    def positions(self, src: Tensor, found: Tensor, start: Tensor | None) -> Tensor:
        """Where the extremes that were found are along `dim`; its extent if they are nowhere."""
        src, found = src.detach(), found.detach()
        index = self.expanded(src).long()
        among = _same(src, found.gather(self.dim, index))
        shape = [1] * src.ndim
        shape[self.dim] = self.extent
        place = torch.arange(self.extent, device=src.device).reshape(shape)
        nowhere = torch.full_like(found, self.extent, dtype=torch.int64)
        place = torch.where(among, place, self.extent)
        first = nowhere.scatter_reduce(self.dim, index, place, "amin")
        return first if start is None else torch.where(_same(start, found), self.extent, first)


def _same(x: Tensor, y: Tensor) -> Tensor:
    return (x == y) | ((x != x) & (y != y))


def _axis(name: str, src: Tensor, dim: int) -> int:
    if not -src.ndim <= dim < src.ndim:
        raise IndexOutOfRange(
            f"{name}: dim: expected {-src.ndim} to {src.ndim - 1} for a tensor of rank {src.ndim}; "
            f"got {dim}"
        )
    axis: int = dim % src.ndim
    return axis


def _check_rank(name: str, what: str, src: Tensor, index: Tensor) -> None:
    if not 1 <= index.ndim <= src.ndim:
        raise InvalidProblem(
            f"{name}: {what}: expected 1 to {src.ndim} dimensions, as many as src has at most; "
            f"got {index.ndim}"
        )


def _by_index(name: str, src: Tensor, index: Tensor, dim: int) -> _Places:
    """`scatter`'s index: of one dimension along `dim`, or like the first dimensions of src."""
    dim = _axis(name, src, dim)
    _check_rank(name, "index", src, index)
    before = dim if index.ndim == 1 else 0
    shape = (1,) * before + tuple(index.shape)
    index = index.reshape(shape + (1,) * (src.ndim - len(shape)))
    return _Places(name, src, index, dim, ascending=False)


def _by_sorted(name: str, src: Tensor, index: Tensor) -> _Places:
    """`segment_coo`'s index: like the first dimensions of src, the last of them being reduced."""
    _check_rank(name, "index", src, index)
    dim = index.ndim - 1
    index = index.reshape(index.shape + (1,) * (src.ndim - index.ndim))
    return _Places(name, src, index, dim, ascending=True)


def _ranges_of(name: str, indptr: Tensor, extent: int) -> Tensor:
    """Which range of pointers each of `extent` positions is in, counted from 1; 0 is before all."""
    known = not torch.compiler.is_compiling() and not private.is_transforming()
    if known and (indptr.diff(dim=-1) < 0).any():
        raise InvalidProblem(f"{name}: indptr: expected ascending pointers; they descend")
    place = torch.arange(extent, device=indptr.device, dtype=indptr.dtype)
    place = place.expand(*indptr.shape[:-1], extent).contiguous()
    return torch.searchsorted(indptr.contiguous(), place, right=True)


# Reductions ------------------------------------------------------------------------------------


def _given(out: Tensor | None) -> Tensor | None:
    """What a result starts from; `out` itself is written in the end, and a gradient may need it."""
    return None if out is None else out.clone()


def _into(out: Tensor | None, result: Tensor) -> Tensor:
    return result if out is None else out.copy_(result)


def _reduce(
    places: _Places,
    src: Tensor,
    out: Tensor | None,
    dim_size: int | None,
    kind: str,
    rounding: str = "floor",
) -> Tensor:
    size = places.size(dim_size) if out is None else out.shape[places.dim]
    start = _given(out)
    whole = not src.is_floating_point()
    if kind != "mean" or (start is None and not whole):
        return _into(out, places.reduce(src, kind, size, start))
    total = places.reduce(src, "sum", size, start)
    count = places.counts(src, size).clamp(min=1)
    return _into(out, total.div(count, rounding_mode=rounding if whole else None))


def _extreme(
    places: _Places, src: Tensor, out: Tensor | None, dim_size: int | None, kind: str
) -> Pair:
    size = places.size(dim_size) if out is None else out.shape[places.dim]
    start = _given(out)
    found = places.reduce(src, kind, size, start)
    positions = places.positions(src, found, start)
    return _into(out, found), positions


def _ranges(
    name: str, src: Tensor, indptr: Tensor, out: Tensor | None, kind: str
) -> tuple[Tensor, Tensor | None]:
    """Of consecutive elements; what is before the first pointer or behind the last is left out."""
    _check_rank(name, "indptr", src, indptr)
    dim = indptr.ndim - 1
    count = indptr.shape[-1] - 1
    if count < 0:
        raise InvalidProblem(f"{name}: indptr: expected at least one pointer; got none")
    # Two places more than there are, for what is before them and what is behind.
    places = _by_sorted(name, src, _ranges_of(name, indptr, src.shape[dim]))
    positions = None
    if kind in _EXTREMES:
        result, positions = _extreme(places, src, None, count + 2, kind)
        positions = positions.narrow(dim, 1, count)
    else:
        result = _reduce(places, src, None, count + 2, kind, "trunc")
    result = result.narrow(dim, 1, count)
    if out is not None and out.shape != result.shape:
        raise InvalidProblem(
            f"{name}: out: expected the shape {list(result.shape)}; got {list(out.shape)}"
        )
    return _into(out, result), positions


def _checked(name: str, kind: str, kinds: list[str]) -> str:
    if kind not in kinds:
        expected = ", ".join(map(repr, kinds))
        raise InvalidProblem(
            f"{name}: reduce: expected one of {expected}; got {kind!r}{did_you_mean(kind, kinds)}"
        )
    return kind


_SCATTERED = list(_REDUCTIONS)
_SEGMENTED = [kind for kind in _REDUCTIONS if kind != "mul"]


def scatter(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
    reduce: str = "sum",
) -> Tensor:
    """The elements of `src` with the same index along `dim`, reduced to one.

    `reduce` is "sum" (or "add"), "mul", "mean", "min" or "max". `index` has one dimension, or is
    like the first dimensions of `src`. `out` is what the result starts from and is written to;
    without it there are `dim_size` places, or as many as the largest index asks for, and those
    without elements are 0 (1 for "mul").

    >>> scatter(torch.tensor([[1.0, 2.0, 6.0]]), torch.tensor([0, 0, 2]), reduce="mean")
    tensor([[1.5000, 0.0000, 6.0000]])
    """
    kind = _checked("scatter", reduce, _SCATTERED)
    return _reduce(_by_index("scatter", src, index, dim), src, out, dim_size, kind)


def segment_coo(
    src: Tensor,
    index: Tensor,
    out: Tensor | None = None,
    dim_size: int | None = None,
    reduce: str = "sum",
) -> Tensor:
    """The elements of `src` with the same index, which must ascend, reduced to one.

    `index` is like the first dimensions of `src` (an extent of 1 stands for any), and the last of
    those is reduced. `reduce` is "sum" (or "add"), "mean", "min" or "max".

    >>> segment_coo(torch.tensor([[1.0, 2.0, 6.0]]), torch.tensor([[0, 0, 2]]), reduce="max")
    tensor([[2., 0., 6.]])
    """
    kind = _checked("segment_coo", reduce, _SEGMENTED)
    return _reduce(_by_sorted("segment_coo", src, index), src, out, dim_size, kind, "trunc")


def segment_csr(
    src: Tensor, indptr: Tensor, out: Tensor | None = None, reduce: str = "sum"
) -> Tensor:
    """Consecutive elements of `src`, from each pointer to the next, reduced to one.

    `indptr` is like the first dimensions of `src` (an extent of 1 stands for any), and the last of
    those is reduced. `out` is written to. `reduce` is "sum" (or "add"), "mean", "min" or "max".

    >>> segment_csr(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 2, 2, 3]))
    tensor([3., 0., 6.])
    """
    return _ranges("segment_csr", src, indptr, out, _checked("segment_csr", reduce, _SEGMENTED))[0]


class _Scatter(Protocol):
    def __call__(
        self,
        src: Tensor,
        index: Tensor,
        dim: int = -1,
        out: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor: ...


class _ScatterExtreme(Protocol):
    def __call__(
        self,
        src: Tensor,
        index: Tensor,
        dim: int = -1,
        out: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Pair: ...


class _Coo(Protocol):
    def __call__(
        self,
        src: Tensor,
        index: Tensor,
        out: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor: ...


class _CooExtreme(Protocol):
    def __call__(
        self,
        src: Tensor,
        index: Tensor,
        out: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Pair: ...


class _Csr(Protocol):
    def __call__(self, src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor: ...


class _CsrExtreme(Protocol):
    def __call__(self, src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Pair: ...


_WORDS = {
    "sum": "Sums",
    "add": "Sums",
    "mul": "Products",
    "mean": "Means",
    "min": "Minima",
    "max": "Maxima",
}
_PAIR = """

    Also gives the position of each along the axis, the first one of equals; where there is none,
    the extent of the axis, and then the result is 0. The gradient goes to that position."""
_SHOWN = {  # of 4, 1, 3 in the places 0, 0, 2
    "sum": "tensor([5., 0., 3.])",
    "add": "tensor([5., 0., 3.])",
    "mul": "tensor([4., 1., 3.])",
    "mean": "tensor([2.5000, 0.0000, 3.0000])",
    "min": "(tensor([1., 0., 3.]), tensor([1, 3, 2]))",
    "max": "(tensor([4., 0., 3.]), tensor([0, 3, 2]))",
}


def _named(function: Any, family: str, kind: str) -> Any:
    """One of a family: its name, and its text with an example."""
    before, _, behind = family.partition("*")
    name = f"{before}{kind}{behind}"
    pointers = behind == "_csr"
    given = "[0, 2, 2, 3]" if pointers else "[0, 0, 2]"
    which = "with the same index"
    if behind:
        which = "from one pointer to the next" if pointers else f"{which}, which must ascend"
    like = before.rstrip("_") + behind
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{_WORDS[kind]} of the elements {which}; arguments as those of `{like}`.{
        _PAIR if kind in _EXTREMES else ""
    }

    >>> {name}(torch.tensor([4.0, 1.0, 3.0]), torch.tensor({given}))
    {_SHOWN[kind]}
    """
    return function


def _make_scatter(kind: str) -> Any:
    made = _extreme if kind in _EXTREMES else _reduce

    def function(
        src: Tensor,
        index: Tensor,
        dim: int = -1,
        out: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Any:
        return made(_by_index(f"scatter_{kind}", src, index, dim), src, out, dim_size, kind)

    return _named(function, "scatter_*", kind)


def _make_coo(kind: str) -> Any:
    def function(
        src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
    ) -> Any:
        places = _by_sorted(f"segment_{kind}_coo", src, index)
        if kind in _EXTREMES:
            return _extreme(places, src, out, dim_size, kind)
        return _reduce(places, src, out, dim_size, kind, "trunc")

    return _named(function, "segment_*_coo", kind)


def _make_csr(kind: str) -> Any:
    def function(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Any:
        both = _ranges(f"segment_{kind}_csr", src, indptr, out, kind)
        return both if kind in _EXTREMES else both[0]

    return _named(function, "segment_*_csr", kind)


scatter_sum: _Scatter = _make_scatter("sum")
scatter_add: _Scatter = _make_scatter("add")
scatter_mul: _Scatter = _make_scatter("mul")
scatter_mean: _Scatter = _make_scatter("mean")
scatter_min: _ScatterExtreme = _make_scatter("min")
scatter_max: _ScatterExtreme = _make_scatter("max")
segment_sum_coo: _Coo = _make_coo("sum")
segment_add_coo: _Coo = _make_coo("add")
segment_mean_coo: _Coo = _make_coo("mean")
segment_min_coo: _CooExtreme = _make_coo("min")
segment_max_coo: _CooExtreme = _make_coo("max")
segment_sum_csr: _Csr = _make_csr("sum")
segment_add_csr: _Csr = _make_csr("add")
segment_mean_csr: _Csr = _make_csr("mean")
segment_min_csr: _CsrExtreme = _make_csr("min")
segment_max_csr: _CsrExtreme = _make_csr("max")


# Gathering -------------------------------------------------------------------------------------


def _pick(name: str, src: Tensor, index: Tensor, out: Tensor | None) -> Tensor:
    dim = index.ndim - 1
    fits = all(m in (1, n) for m, n in zip(index.shape[:-1], src.shape, strict=False))
    if not fits:
        raise InvalidProblem(
            f"{name}: index: expected the first dimensions of src, {list(src.shape[:dim])}; got "
            f"{list(index.shape[:-1])}"
        )
    if index.shape[-1] == index.numel():
        return _into(out, functions.index_select(src, dim, index.reshape(-1)))
    shape = (*src.shape[:dim], index.shape[-1], *src.shape[dim + 1 :])
    index = index.reshape(index.shape + (1,) * (src.ndim - index.ndim)).expand(shape)
    return _into(out, functions.gather(src, dim, index))


def gather_coo(src: Tensor, index: Tensor, out: Tensor | None = None) -> Tensor:
    """The element of `src` that each index points to: the way back from `segment_coo`.

    >>> gather_coo(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 0, 2]))
    tensor([1., 1., 3.])
    """
    _check_rank("gather_coo", "index", src, index)
    return _pick("gather_coo", src, index, out)


def gather_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """Each element of `src`, from its pointer to the next: the way back from `segment_csr`.

    >>> gather_csr(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 2, 2, 3]))
    tensor([1., 1., 3.])
    """
    _check_rank("gather_csr", "indptr", src, indptr)
    dim = indptr.ndim - 1
    if src.shape[dim] != indptr.shape[-1] - 1:
        raise InvalidProblem(
            f"gather_csr: indptr: expected {src.shape[dim] + 1} pointers, one more than src has "
            f"elements along dimension {dim}; got {indptr.shape[-1]}"
        )
    extent = int(indptr.flatten()[-1]) if out is None else out.shape[dim]
    return _pick("gather_csr", src, _ranges_of("gather_csr", indptr, extent) - 1, out)


# Composed --------------------------------------------------------------------------------------


def _check_floats(name: str, src: Tensor) -> None:
    if not src.is_floating_point():
        raise InvalidProblem(f"{name}: src: expected a floating-point type; got {src.dtype}")


def _softmax(name: str, src: Tensor, index: Tensor, dim: int, dim_size: int | None) -> Tensor:
    _check_floats(name, src)
    places = _by_index(name, src, index, dim)
    return places.rows(src, name.replace("scatter", "segment"), places.size(dim_size))


def scatter_softmax(
    src: Tensor, index: Tensor, dim: int = -1, dim_size: int | None = None
) -> Tensor:
    """The share of each element among those with the same index.

    >>> scatter_softmax(torch.tensor([1.0, 1.0, 5.0]), torch.tensor([0, 0, 1]))
    tensor([0.5000, 0.5000, 1.0000])
    """
    return _softmax("scatter_softmax", src, index, dim, dim_size)


def scatter_log_softmax(
    src: Tensor, index: Tensor, dim: int = -1, eps: float = 1e-12, dim_size: int | None = None
) -> Tensor:
    """The logarithm of each element's share among those with the same index.

    `eps` is not needed: the logarithm is that of a sum of 1 at least.

    >>> scatter_log_softmax(torch.tensor([1.0, 1.0, 5.0]), torch.tensor([0, 0, 1]))
    tensor([-0.6931, -0.6931,  0.0000])
    """
    return _softmax("scatter_log_softmax", src, index, dim, dim_size)


def scatter_logsumexp(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
    eps: float = 1e-12,
) -> Tensor:
    """Logarithms of the sums of exponentials of the elements with the same index.

    Where there are none, 0, or what `out` has, which is one more element of each place. `eps` is
    not needed: the logarithm is that of a sum of 1 at least.

    >>> scatter_logsumexp(torch.tensor([1.0, 1.0, 5.0]), torch.tensor([0, 0, 2]))
    tensor([1.6931, 0.0000, 5.0000])
    """
    _check_floats("scatter_logsumexp", src)
    places = _by_index("scatter_logsumexp", src, index, dim)
    if out is None:
        return places.rows(src, "segment_logsumexp", places.size(dim_size), fill=0.0)
    found = places.rows(src, "segment_logsumexp", out.shape[places.dim])
    return _into(out, torch.logaddexp(out.clone(), found))


def scatter_std(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
    unbiased: bool = True,
) -> Tensor:
    """Standard deviations of the elements with the same index.

    `out` holds squares to begin with, which are added to those of the deviations.

    >>> scatter_std(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 2]))
    tensor([1.4142, 0.0000, 0.0000])
    """
    _check_floats("scatter_std", src)
    places = _by_index("scatter_std", src, index, dim)
    size = places.size(dim_size) if out is None else out.shape[places.dim]
    mean = places.reduce(src, "mean", size)
    own = functions.gather(mean, places.dim, places.expanded(src))
    squares = places.reduce((src - own).square(), "sum", size, _given(out))
    count = places.counts(src, size).clamp(min=1)
    if unbiased:
        count = (count - 1).clamp(min=1)
    variance = squares / (count + 1e-6)  # as there
    some = variance != 0
    return _into(out, torch.where(some, torch.where(some, variance, 1).sqrt(), 0))


__all__ = [
    "gather_coo",
    "gather_csr",
    "scatter",
    "scatter_add",
    "scatter_log_softmax",
    "scatter_logsumexp",
    "scatter_max",
    "scatter_mean",
    "scatter_min",
    "scatter_mul",
    "scatter_softmax",
    "scatter_std",
    "scatter_sum",
    "segment_add_coo",
    "segment_add_csr",
    "segment_coo",
    "segment_csr",
    "segment_max_coo",
    "segment_max_csr",
    "segment_mean_coo",
    "segment_mean_csr",
    "segment_min_coo",
    "segment_min_csr",
    "segment_sum_coo",
    "segment_sum_csr",
]

if not TYPE_CHECKING:  # which would take every name for one of the module's
    __getattr__, __dir__ = public(__name__, __all__)
