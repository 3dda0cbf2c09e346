"""Sums over segments of rows that stand on several ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

import gradplan as gp
from gradplan.torch.distributed.agreement import agree, refusal
from gradplan.torch.distributed.embedding import check_gradient, check_ids, flat_ids
from gradplan.torch.distributed.members import Members
from gradplan.torch.distributed.owner_sums import sum_at_owners
from gradplan.torch.distributed.ranks import Ranks
from gradplan.vocabulary import FLOATS, InvalidProblem, Unsupported

_ELEMENTS = tuple(getattr(torch, kind.dtype_name) for kind in FLOATS)


def _check(x: Any, ids: Any, segments: int) -> None:
    if x.dtype not in _ELEMENTS:
        known = ", ".join(map(str, _ELEMENTS))
        raise InvalidProblem(f"x: expected one of {known}; got {x.dtype}")
    check_ids("segment_ids", ids, segments)
    if ids.shape != x.shape[:1]:
        raise InvalidProblem(
            f"segment_ids: expected one for each of {x.shape[0] if x.ndim else 0} rows; "
            f"got {list(ids.shape)}"
        )


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, ids: Any, segments: int, group: Any) -> Any:
        error = refusal(lambda: _check(x, ids, segments))
        members = Members(
            Ranks(group, "segment_sum"),
            flat_ids(ids, error),
            segments,
            element=x.dtype,
            shape=x.shape[1:],
            error=error,
        )
        members.answer()
        ctx.members = members
        return sum_at_owners(members, x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        members = ctx.members
        ranks = members.ranks
        ranks.what = "segment_sum backward"
        error = refusal(lambda: check_gradient(members, gradient))
        shape = (members.shards.rows, *members.shape)
        agree(ranks, gradient.dtype, shape, error=error, device=gradient.device)
        rows = gp.embedding(gradient.contiguous(), members.asked_rows)
        (got,) = ranks.exchange([rows.split(members.asked)], [members.wanted])
        return gp.embedding(torch.cat(got), members.inverse), None, None, None


def segment_sum(
    x: torch.Tensor,
    segment_ids: torch.Tensor,
    num_segments: int,
    *,
    mesh: DeviceMesh | None = None,
) -> DTensor:
    """Sums of rows with the same id, rows and ids cut over ranks: `[num_segments, ...]`, Shard(0).

    `x` and `segment_ids` are DTensors with `Shard(0)`, or this rank's parts, of any sizes, and a
    `mesh` of one dimension. The result and the gradient of x have the bits of one process.
    """
    if isinstance(x, DTensor):
        if x.device_mesh.ndim != 1 or tuple(x.placements) != (Shard(0),):
            raise Unsupported(
                "segment_sum: x: expected Shard(0) on a mesh of one dimension; got "
                f"{list(x.placements)} on {x.device_mesh.ndim} dimensions"
            )
        mesh = x.device_mesh
        x = x.to_local(grad_placements=[Shard(0)])
    if isinstance(segment_ids, DTensor):
        segment_ids = segment_ids.redistribute(placements=[Shard(0)]).to_local()
    if mesh is None or mesh.ndim != 1:
        raise InvalidProblem(
            "segment_sum: mesh: expected one of one dimension, where x is no DTensor; "
            f"got {'none' if mesh is None else f'{mesh.ndim} dimensions'}"
        )
    own = _SegmentSum.apply(x, segment_ids, num_segments, mesh.get_group())
    whole = torch.empty(num_segments, *x.shape[1:], device="meta")
    return DTensor.from_local(
        own, mesh, [Shard(0)], shape=whole.shape, stride=whole.stride(), run_check=False
    )
