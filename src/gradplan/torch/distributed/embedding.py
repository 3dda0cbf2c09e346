"""An embedding whose table is cut over ranks by rows."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import gradplan as gp
from gradplan.torch.distributed.agreement import agree, refusal
from gradplan.torch.distributed.members import Members, RowShards
from gradplan.torch.distributed.owner_sums import sum_at_owners
from gradplan.torch.distributed.ranks import Ranks
from gradplan.vocabulary import IndexOutOfRange, InvalidProblem, Unsupported

INDEX_TYPES = (torch.int32, torch.int64)


def check_ids(name: str, ids: Any, rows: int) -> None:
    """Raises for what are no ids of `rows` rows."""
    if not isinstance(ids, torch.Tensor):
        raise InvalidProblem(f"{name}: expected a torch.Tensor; got {type(ids).__name__}")
    if isinstance(ids, DTensor):
        raise InvalidProblem(f"{name}: expected this rank's part, a plain tensor; got a DTensor")
    if ids.dtype not in INDEX_TYPES:
        raise InvalidProblem(f"{name}: expected torch.int32 or torch.int64; got {ids.dtype}")
    outside = (ids < 0) | (ids >= rows)
    if bool(outside.any()):
        at = torch.nonzero(outside.reshape(-1))[0].item()
        raise IndexOutOfRange(
            f"{name}: expected 0 to {rows - 1}; got {ids.reshape(-1)[at].item()} at {at} "
            f"({int(outside.sum())} in all)"
        )


def flat_ids(ids: Any, error: BaseException | None) -> torch.Tensor:
    if error is not None:
        return torch.empty(0, dtype=torch.int64)
    made: torch.Tensor = ids.detach().reshape(-1).to(torch.int64)
    return made


def check_gradient(members: Members, gradient: torch.Tensor) -> None:
    if gradient.dtype != members.element:
        raise InvalidProblem(
            f"gradient: expected {members.element}, as the forward had; got {gradient.dtype}"
        )


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Any, ids: Any, rows: int, padding: int | None, group: Any) -> Any:
        error = refusal(lambda: check_ids("ids", ids, rows))
        ranks = Ranks(group, "ShardedEmbedding")
        members = Members(
            ranks,
            flat_ids(ids, error),
            rows,
            element=weight.dtype,
            shape=weight.shape[1:],
            skipped=padding,
            error=error,
        )
        named = gp.embedding(weight, members.asked_rows)
        got = torch.cat(members.answer(named))
        ctx.members = members
        return gp.embedding(got, members.inverse).reshape(*ids.shape, *weight.shape[1:])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        members = ctx.members
        error = refusal(lambda: check_gradient(members, gradient))
        rows = gradient.reshape(len(members.ids), *members.shape)
        members.ranks.what = "ShardedEmbedding backward"
        return sum_at_owners(members, rows, error), None, None, None, None


def embedding(ids: torch.Tensor, weight: DTensor, padding_idx: int | None = None) -> torch.Tensor:
    """Rows of a table that is cut over ranks, `[rows, columns]` with `Shard(0)`.

    `ids` is this rank's part of the batch, of any shape: the whole batch is the parts of all ranks
    in order, of any sizes. All ranks of the table's mesh have to call it, and the backward as well.
    The gradient of the table has the bits of one process with the whole batch. The row
    `padding_idx` receives none.
    """
    if not isinstance(weight, DTensor) or weight.ndim != 2:
        raise InvalidProblem(
            "embedding: weight: expected a DTensor [rows, columns]; got "
            f"{type(weight).__name__} of {getattr(weight, 'ndim', 'no')} axes"
        )
    mesh = weight.device_mesh
    if mesh.ndim != 1 or tuple(weight.placements) != (Shard(0),):
        raise Unsupported(
            "embedding: weight: expected Shard(0) on a mesh of one dimension; got "
            f"{list(weight.placements)} on {mesh.ndim} dimensions"
        )
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise InvalidProblem(
                f"embedding: padding_idx: expected None or {-rows} to {rows - 1}; got {padding_idx}"
            )
        padding_idx %= rows
    # What comes back is the whole gradient of this rank's rows: nothing is left to reduce.
    local = weight.to_local(grad_placements=[Shard(0)])
    made: torch.Tensor = _Lookup.apply(local, ids, rows, padding_idx, mesh.get_group())
    return made


class ShardedEmbedding(torch.nn.Module):
    """`torch.nn.Embedding` with its rows on the ranks of a mesh.

    Each rank calls it with its part of the batch (`embedding` says more). The weight is a DTensor:
    optimizers, state dicts and torch.distributed.checkpoint know it. Without a `mesh` it is on all
    ranks. The first values are normal, the same for any number of ranks and a seed of rank 0's. A
    state dict of `torch.nn.Embedding` can be loaded, of which each rank keeps its rows.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> table = ShardedEmbedding(10, 3)
    >>> table(torch.tensor([[1, 0, 9]])).shape
    torch.Size([1, 3, 3])
    >>> dist.destroy_process_group()
    """

    _START_ROWS = 1024  # that have one seed

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        mesh: DeviceMesh | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if mesh is None:
            kind = torch.device(device).type if device is not None else "cpu"
            mesh = init_device_mesh(kind, (torch.distributed.get_world_size(),))
        if mesh.ndim != 1:
            raise Unsupported(
                f"ShardedEmbedding: mesh: expected one dimension; got {mesh.ndim} (take one of "
                'them: mesh["name"])'
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise InvalidProblem(
                f"ShardedEmbedding: padding_idx: expected None or {-num_embeddings} to "
                f"{num_embeddings - 1}; got {padding_idx}"
            )
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self._mesh = mesh
        own = self._own_rows()
        local = torch.empty(own.stop - own.start, embedding_dim, device=device, dtype=dtype)
        self.weight = torch.nn.Parameter(self._as_dtensor(local))
        self.reset_parameters()

    def _own_rows(self) -> slice:
        shards = RowShards(self.num_embeddings, self._mesh.size())
        return shards.of(self._mesh.get_local_rank())

    def _as_dtensor(self, local: torch.Tensor) -> DTensor:
        shape = (self.num_embeddings, self.embedding_dim)
        return DTensor.from_local(
            local,
            self._mesh,
            [Shard(0)],
            shape=torch.Size(shape),
            stride=(self.embedding_dim, 1),
            run_check=False,
        )

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Normal values, by blocks of rows that have a seed each: no rank needs all of them."""
        ranks = Ranks(self._mesh.get_group(), "ShardedEmbedding")
        local, own = self.weight.to_local(), self._own_rows()
        agree(ranks, local.dtype, self.weight.shape, device=local.device)
        seed = int(ranks.all_gather(torch.randint(1 << 40, (1,)).to(local.device))[0])
        size = self._START_ROWS
        for block in range(own.start // size, -(-own.stop // size) if len(local) else 0):
            generator = torch.Generator().manual_seed(seed + block)
            values = torch.empty(size, self.embedding_dim).normal_(generator=generator)
            first, last = max(own.start, block * size), min(own.stop, (block + 1) * size)
            rows = values[first - block * size : last - block * size]
            local[first - own.start : last - own.start] = rows.to(local)
        if self.padding_idx is not None and own.start <= self.padding_idx < own.stop:
            local[self.padding_idx - own.start] = 0

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        weight = state_dict.get(prefix + "weight")
        is_whole = isinstance(weight, torch.Tensor) and not isinstance(weight, DTensor)
        if is_whole and weight.shape == self.weight.shape:
            local = weight[self._own_rows()].to(self.weight.to_local())
            state_dict = {**state_dict, prefix + "weight": self._as_dtensor(local)}
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @torch.compiler.disable  # ranks would leave the graph in different places, and wait
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return embedding(ids, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}, ranks={self._mesh.size()}"
