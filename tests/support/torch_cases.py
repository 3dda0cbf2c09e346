"""Calls of every function of gradplan.torch, beside PyTorch's own, for the tests of the bridge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from peers import peer_of
from torch.utils._python_dispatch import TorchDispatchMode

import gradplan as gp
from gradplan import torch as gpt


@dataclass(frozen=True)
class Case:
    """A function of float tensors: ours, PyTorch's (or a formula), and the function layer's."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    plain: Callable[..., Any]
    zeros: bool = field(default=False)
    """Put zeros into the input: where formulas divide."""
    formula: Callable[..., Any] | None = None
    """The same as `theirs`, where PyTorch's forward mode of that is wrong."""

    def inputs(self, dtype: Any = torch.float64, grad: bool = False, seed: int = 0) -> list[Any]:
        generator = torch.Generator().manual_seed(seed)
        made = [torch.randn(s, generator=generator, dtype=torch.float64) for s in self.shapes]
        for x in made:
            if self.zeros and x.numel() > 4:
                x.view(-1)[1::3] = 0
        return [x.to(dtype).requires_grad_(grad) for x in made]

    def __str__(self) -> str:
        return f"{self.name}-{'-'.join('x'.join(map(str, s)) or '0d' for s in self.shapes)}"


SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")


def scan_of(name: str) -> Callable[..., Any]:
    """gradplan.torch's scan: its values, where it gives indices as well."""
    scan = getattr(gpt, name)

    def values(*args: Any, **options: Any) -> Any:
        result = scan(*args, **options)
        return result if isinstance(result, torch.Tensor) else result.values

    return values


def _scan(name: str, shape: tuple[int, ...], dim: int, reverse: bool) -> Case:
    return Case(
        f"{name}{'-reverse' if reverse else ''}-dim{dim}",
        (shape,),
        lambda x: scan_of(name)(x, dim, reverse),
        peer_of("torch", name, axis=dim, reverse=reverse),
        lambda x: getattr(gp, name)(x, dim, reverse),
        zeros=name == "cumprod",
    )


def sparsemax(x: Any, dim: int) -> Any:
    """By sorting, as the paper does."""
    if x.ndim == 0:
        return sparsemax(x[None], 0)[0]
    z = x.sort(dim, descending=True).values
    k = torch.arange(1, x.shape[dim] + 1, dtype=x.dtype)
    k = k.view([-1 if i == dim % x.ndim else 1 for i in range(x.ndim)])
    total = z.cumsum(dim) - 1
    support = (k * z > total).sum(dim, keepdim=True)
    return (x - total.gather(dim, support - 1) / support).clamp(min=0)


IDS = torch.tensor([2, 0, 2, 1, 2])
SORTED_IDS = torch.tensor([0, 0, 2, 2, 3])
INDICES = torch.tensor([[2, 0], [2, 1], [3, 2]], dtype=torch.int32)


def _segment(shape: tuple[int, ...], in_order: bool) -> Case:
    ids = SORTED_IDS if in_order else IDS
    function = "segment_sum" if in_order else "unsorted_segment_sum"
    return Case(
        f"segment_sum{'-sorted' if in_order else ''}",
        (shape,),
        lambda x: gpt.segment_sum(x, ids, 4, in_order),
        peer_of("torch", function, segment_ids=ids, num_segments=4),
        lambda x: getattr(gp, function)(x, ids, 4),
    )


REDUCTIONS = ("mean", "max", "min", "prod", "logsumexp", "softmax", "log_softmax")
FULL_IDS = torch.tensor([2, 0, 2, 1, 3, 2])  # no segment is empty: its infinity has no derivative


def _products(ids: Any, segments: int) -> Callable[..., Any]:
    """Segment by segment. PyTorch's jvp of `scatter_reduce` is 0 for products that leave out what
    was there before, which finite differences contradict; that of `prod` is right."""
    return lambda x: torch.stack([x[ids == s].prod(0) for s in range(segments)])


def _reduction(kind: str, shape: tuple[int, ...], in_order: bool) -> Case:
    ids = FULL_IDS.sort().values if in_order else FULL_IDS
    function = f"segment_{kind}" if in_order else f"unsorted_segment_{kind}"
    return Case(
        f"segment_{kind}{'-sorted' if in_order else ''}",
        (shape,),
        lambda x: getattr(gpt, f"segment_{kind}")(x, ids, 4, in_order),
        peer_of("torch", function, segment_ids=ids, num_segments=4),
        lambda x: getattr(gp, function)(x, ids, 4),
        zeros=kind == "prod",
        formula=_products(ids, 4) if kind == "prod" else None,
    )


def _lerp(a: tuple[int, ...], b: tuple[int, ...], weight: float) -> Case:
    return Case(
        f"lerp-{weight}",
        (a, b),
        lambda a, b: gpt.lerp(a, b, weight),
        peer_of("torch", "lerp", weight=weight),
        lambda a, b: gp.lerp(a, b, weight),
    )


def _sparsemax(shape: tuple[int, ...], dim: int) -> Case:
    return Case(
        f"sparsemax-dim{dim}",
        (shape,),
        lambda x: gpt.sparsemax(x, dim),
        lambda x: sparsemax(x, dim),
        lambda x: gp.sparsemax(x, dim),
    )


def _linear_scan(shape: tuple[int, ...], dim: int, reverse: bool, initial: bool) -> Case:
    """With and without a state before the first, which has no axis `dim`."""
    rest = () if not shape else (*shape[:dim], *shape[dim + 1 :])
    given = (lambda i: i) if initial else (lambda i: [None])
    return Case(
        f"linear_scan{'-reverse' if reverse else ''}{'-initial' if initial else ''}-dim{dim}",
        (shape, shape, rest) if initial else (shape, shape),
        lambda a, b, *i: gpt.linear_scan(a, b, *i, dim=dim, reverse=reverse),
        lambda a, b, *i: peer_of("torch", "linear_scan", axis=dim, reverse=reverse)(
            a, b, *given(i)
        ),
        lambda a, b, *i: gp.linear_scan(a, b, *i, axis=dim, reverse=reverse),
        zeros=True,
    )


CASES = [
    *(
        _scan(name, (3, 5), dim, reverse)
        for name in SCANS
        for dim, reverse in ((1, False), (0, True))
    ),
    *(_scan(name, (), -1, False) for name in SCANS),
    *(_scan(name, (2, 0, 3), 1, True) for name in SCANS),
    _segment((5, 3), in_order=False),
    _segment((5, 2, 2), in_order=True),
    _segment((5,), in_order=False),
    *(_reduction(kind, (6, 2), in_order=False) for kind in REDUCTIONS),
    *(_reduction(kind, (6,), in_order=True) for kind in REDUCTIONS),
    Case(
        "embedding",
        ((4, 3),),
        lambda w: gpt.embedding(INDICES, w),
        peer_of("torch", "embedding", indices=INDICES),
        lambda w: gp.embedding(w, INDICES),
    ),
    _linear_scan((3, 5), 1, reverse=False, initial=True),
    _linear_scan((5, 2, 3), 0, reverse=True, initial=True),
    _linear_scan((3, 5), 0, reverse=False, initial=False),
    _linear_scan((), 0, reverse=True, initial=True),
    _linear_scan((2, 0, 3), 1, reverse=False, initial=False),
    _lerp((3, 4), (3, 4), 0.25),
    _lerp((3, 1), (2, 1, 4), 0.75),
    _lerp((), (3,), -0.5),
    _sparsemax((3, 5), 1),
    _sparsemax((4, 3), 0),
    _sparsemax((), 0),
]


class Listener(TorchDispatchMode):
    """Changes nothing, and remembers the operators that come by: not those on the fast path."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.heard.append(str(func))
        return func(*args, **(kwargs or {}))
