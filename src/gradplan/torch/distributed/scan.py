"""Scans along an axis that is cut over ranks, and their gradients.

Ranks whose shards begin at multiples of 4096 tell each other what each of their chunks hands on,
fold that in the contract's order, and finish their own part. Other shards are first moved to the
nearest such cuts, and results back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard

import gradplan as gp
from gradplan.torch import functions
from gradplan.torch.distributed.agreement import agree, refusal
from gradplan.torch.distributed.ranks import Ranks
from gradplan.torch.distributed.shards import CHUNK, AxisShards, Intervals, move
from gradplan.vocabulary import FLOATS, ElementKind, InvalidProblem, ScanKind, Ties, Unsupported

_ELEMENTS = tuple(getattr(torch, kind.dtype_name) for kind in ElementKind if kind in FLOATS)
_EXTREMES = (ScanKind.CUMMAX, ScanKind.CUMMIN)
_TIES = Ties.LAST  # PyTorch's rule


def _fields(kind: ScanKind, backward: bool) -> int:
    """How many values a chunk hands on: its total; the gain of what passes; its exponent."""
    if kind is ScanKind.CUMSUM or (kind is not ScanKind.LOGCUMSUMEXP and not backward):
        return 1
    return 3 if kind is ScanKind.CUMPROD else 2


class _Part:
    """This rank's part of the axis, with cuts at multiples of a chunk from where a scan begins."""

    def __init__(self, ranks: Ranks, shards: AxisShards, axis: int, from_end: bool) -> None:
        self.ranks, self.axis, self.from_end = ranks, axis, from_end
        self.given, self.shards = shards, shards.whole_chunks(from_end=from_end)
        first, last = self.shards.intervals[ranks.rank]
        self.length, self.chunks = last - first, (last - first) // CHUNK
        self.every = [(b - a) // CHUNK for a, b in self.shards.intervals]
        self.number = sum(self.every[: ranks.rank])  # of its first chunk
        # What is left over is where the scan ends.
        self.skip = self.length - self.chunks * CHUNK if from_end else 0

    def whole(self, x: torch.Tensor) -> torch.Tensor:
        """The whole chunks of a part, along an axis of their own."""
        chunks = x.narrow(self.axis, self.skip, self.chunks * CHUNK)
        return chunks.unflatten(self.axis, (self.chunks, CHUNK))

    def gather(self, values: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """Values of every rank's chunks, along the axis."""
        most = max(self.every)
        shape = list(values[0].shape)
        shape[self.axis] = most
        mine = values[0].new_zeros(len(values), *shape)
        for to, value in zip(mine, values, strict=True):
            to.narrow(self.axis, 0, self.chunks).copy_(value)
        came = self.ranks.all_gather(mine)
        return [
            torch.cat(
                [came[r, k].narrow(self.axis, 0, count) for r, count in enumerate(self.every)],
                self.axis,
            )
            for k in range(len(values))
        ]

    def fold(
        self, kind: ScanKind, values: tuple[torch.Tensor, ...], *, backward: bool = False
    ) -> torch.Tensor:
        """What comes out of every chunk, those of other ranks included."""
        every = self.gather(values[: _fields(kind, backward)])
        total, gain, exponent = (every + [every[0]] * 2)[:3]
        folded: torch.Tensor = gp.scan_part_fold(
            total,
            gain,
            exponent,
            kind=kind,
            axis=self.axis,
            reverse=self.from_end,
            backward=backward,
        )
        return folded

    def into(self, folded: torch.Tensor) -> torch.Tensor | None:
        """What comes into the part, of what comes out of every chunk."""
        place = self.number + self.chunks if self.from_end else self.number - 1
        if not 0 <= place < folded.shape[self.axis]:
            return None
        return folded.select(self.axis, place)

    def into_chunks(self, folded: torch.Tensor, nothing: float) -> torch.Tensor:
        """What comes into each of the part's chunks; `nothing` at the start of the row."""
        start = folded.new_full(
            [n if d != self.axis else 1 for d, n in enumerate(folded.shape)], nothing
        )
        ordered = [folded, start] if self.from_end else [start, folded]
        first = self.number + self.from_end
        return torch.cat(ordered, self.axis).narrow(self.axis, first, self.chunks)

    def beside_chunks(self, x: torch.Tensor, edge: torch.Tensor, *, behind: bool) -> torch.Tensor:
        """The element in front of or behind each chunk; `edge` is that of the part."""
        chunks = self.whole(x)
        if edge.shape[self.axis] == 0:  # at an end of the row, where nobody asks
            edge = edge.new_zeros([n if d != self.axis else 1 for d, n in enumerate(edge.shape)])
        ends = chunks.select(self.axis + 1, 0 if behind else CHUNK - 1)
        inner = ends.narrow(self.axis, min(int(behind), self.chunks), max(self.chunks - 1, 0))
        ordered = [inner, edge] if behind else [edge, inner]
        return torch.cat(ordered, self.axis).narrow(self.axis, 0, self.chunks)


def _compute(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype is torch.float64 else x.to(torch.float32)


def _forward(part: _Part, x: torch.Tensor, kind: ScanKind) -> Any:
    scan: dict[str, Any] = {"axis": part.axis, "reverse": part.from_end}
    if part.ranks.size == 1:
        return gp.scan_part(x, kind=kind, **scan)
    chunks: dict[str, Any] = {**scan, "x": part.whole(x), "axis": part.axis + 1}
    level = None
    if kind is ScanKind.LOGCUMSUMEXP:  # every exponential is relative to the running maximum
        maxima = part.fold(ScanKind.CUMMAX, gp.scan_part_total(kind=ScanKind.CUMMAX, **chunks))
        level = part.into(maxima)
        chunks["before"] = part.into_chunks(maxima, -math.inf)
    folded = part.fold(kind, gp.scan_part_total(kind=kind, **chunks))
    return gp.scan_part(x, before=level, carry=part.into(folded), kind=kind, **scan)


class _Backward:
    """What the gradient of each kind reads, and which of it one place beside the part."""

    def __init__(self, kind: ScanKind, part: _Part) -> None:
        self.kind, self.part = kind, part
        # In memory: where the gradient comes from, and where the forward does.
        self.from_behind = part.from_end
        self.reads = () if kind is ScanKind.CUMSUM else ("x", "y")
        self.before = ""
        if kind is ScanKind.CUMPROD:
            self.before, self.before_is_behind = "x", self.from_behind
        elif kind is ScanKind.LOGCUMSUMEXP:
            self.before, self.before_is_behind = "y", self.from_behind
        elif kind in _EXTREMES:
            self.before, self.before_is_behind = "y", not self.from_behind

    def wanted(self, given: dict[str, torch.Tensor]) -> list[tuple[torch.Tensor, Intervals]]:
        """dy, x and y of the part, what stands before it, and y where the forward comes from."""
        shards, own = self.part.given, self.part.shards.intervals
        found: list[tuple[torch.Tensor, Intervals]] = [(x, own) for x in given.values()]
        if self.before:
            beside = shards.neighbours(self.part.shards, behind=self.before_is_behind)
            found.append((given[self.before], beside))
        if self.kind is ScanKind.CUMPROD:
            beside = shards.neighbours(self.part.shards, behind=not self.from_behind)
            found.append((given["y"], beside))
        return found

    def __call__(self, given: dict[str, torch.Tensor], edges: list[torch.Tensor]) -> Any:
        part, kind = self.part, self.kind
        options: dict[str, Any] = {"kind": kind, "reverse": not part.from_end, "ties": _TIES}
        names = dict(zip(("before", "behind"), edges, strict=False))
        values: dict[str, Any] = {
            name: _compute(edge).select(part.axis, 0) if edge.shape[part.axis] else None
            for name, edge in names.items()
        }
        tensors = {name: given.get(name, given["dy"]) for name in ("dy", "x", "y")}
        carry = None
        if part.ranks.size > 1:
            chunks = {name: part.whole(x) for name, x in tensors.items()}
            if self.before:
                each = part.beside_chunks(
                    given[self.before], edges[0], behind=self.before_is_behind
                )
                chunks["before"] = _compute(each)
            totals = gp.scan_part_gradient_total(**chunks, axis=part.axis + 1, **options)
            carry = part.into(part.fold(kind, totals, backward=True))
        return gp.scan_part_gradient(**tensors, **values, carry=carry, axis=part.axis, **options)


def _check(x: Any, axis: int) -> None:
    if not isinstance(x, torch.Tensor):
        raise InvalidProblem(f"x: expected a torch.Tensor; got {type(x).__name__}")
    if x.dtype not in _ELEMENTS:
        known = ", ".join(map(str, _ELEMENTS))
        raise InvalidProblem(f"x: expected one of {known}; got {x.dtype}")
    if not -x.ndim <= axis < x.ndim:
        raise InvalidProblem(f"dim: expected {-x.ndim} to {x.ndim - 1}; got {axis}")


def _check_gradient(gradient: torch.Tensor, y: torch.Tensor) -> None:
    if gradient.shape != y.shape or gradient.dtype != y.dtype:
        raise InvalidProblem(
            f"gradient: expected {list(y.shape)} of {y.dtype}; "
            f"got {list(gradient.shape)} of {gradient.dtype}"
        )


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, kind: ScanKind, dim: int, reverse: bool, group: Any) -> Any:
        ranks = Ranks(group, f"{kind} along {dim}" + (" from the end" if reverse else ""))
        error = refusal(lambda: _check(x, dim))
        if error is not None:
            agree(ranks, torch.float32, (), counts=[[0] * ranks.size], error=error)
        axis = dim % x.ndim
        others = [0 if d == axis else n for d, n in enumerate(x.shape)]
        told = [[x.shape[axis]] * ranks.size]
        (sizes,) = agree(ranks, x.dtype, others, counts=told, device=x.device)
        part = _Part(ranks, AxisShards.of_sizes(sizes), axis, reverse)
        (own,) = move(ranks, axis, part.given, [(x.detach(), part.shards.intervals)])
        (y,) = move(ranks, axis, part.shards, [(_forward(part, own, kind), part.given.intervals)])
        ctx.part, ctx.kind, ctx.others = part, kind, others
        ctx.like = y.detach().to("meta")
        ctx.save_for_backward(*(() if kind is ScanKind.CUMSUM else (x, y)))
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        forward, kind = ctx.part, ctx.kind
        ranks, axis, shards = forward.ranks, forward.axis, forward.given
        ranks.what += " backward"
        error = refusal(lambda: _check_gradient(gradient, ctx.like))
        agree(ranks, gradient.dtype, ctx.others, error=error, device=gradient.device)
        part = _Part(ranks, shards, axis, not forward.from_end)
        of_kind = _Backward(kind, part)
        given = {"dy": gradient}
        if of_kind.reads:
            given.update(zip(of_kind.reads, ctx.saved_tensors, strict=True))
        came = move(ranks, axis, shards, of_kind.wanted(given))
        own = dict(zip(given, came, strict=False))
        (dx,) = move(ranks, axis, part.shards, [(of_kind(own, came[len(own) :]), shards.intervals)])
        return dx, None, None, None, None


def _scan(
    x: torch.Tensor, kind: ScanKind, dim: int, reverse: bool, group: dist.ProcessGroup | None
) -> torch.Tensor:
    if not isinstance(x, DTensor):
        made: torch.Tensor = _Scan.apply(x, kind, dim, reverse, group)
        return made
    if not -x.ndim <= dim < x.ndim:
        raise InvalidProblem(f"{kind}: dim: expected {-x.ndim} to {x.ndim - 1}; got {dim}")
    placements = [Replicate() if p.is_partial() else p for p in x.placements]
    x = x.redistribute(placements=placements)
    over = [d for d, p in enumerate(placements) if p.is_shard(dim % x.ndim)]
    if len(over) > 1 or any(type(placements[d]) is not Shard for d in over):
        raise Unsupported(
            f"{kind}: x: expected the axis {dim} on one dimension of the mesh; got {placements}"
        )
    local = x.to_local(grad_placements=placements)
    if over:
        y = _Scan.apply(local, kind, dim, reverse, x.device_mesh.get_group(over[0]))
    else:
        more = {"return_indices": False} if kind in _EXTREMES else {}
        y = getattr(functions, kind.value)(local, dim, reverse, **more)
    whole = torch.empty(x.shape, device="meta")
    return DTensor.from_local(
        y, x.device_mesh, placements, shape=whole.shape, stride=whole.stride(), run_check=False
    )


def _function(kind: ScanKind) -> Callable[..., torch.Tensor]:
    def scan(
        x: torch.Tensor,
        dim: int,
        reverse: bool = False,
        *,
        group: dist.ProcessGroup | None = None,
    ) -> torch.Tensor:
        return _scan(x, kind, dim, reverse, group)

    scan.__name__ = scan.__qualname__ = kind.value
    scan.__doc__ = f"""`gradplan.torch.{kind}` along an axis that may be cut over ranks.

    `x` is a DTensor, of which any axes are sharded, or this rank's part of one that is cut along
    `dim` over the ranks of `group`, parts being of any sizes. The result is like x. It and the
    gradient of x have the bits of one process; of equal extremes the last one gets the gradient.
    """
    return scan


cumsum, cumprod, cummax, cummin, logcumsumexp = map(_function, ScanKind)
