"""A sharded table against what PyTorch has for it: `python -m gradplan.bench.distributed`.

A step is a forward and a backward of the lookup on every rank, from a barrier until the last one is
done. Contenders take turns in the same processes, with one thread each. Ratios only: how many times
as long as ours theirs takes.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from rich.console import Console
from rich.table import Table
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import gradplan as gp
from gradplan.torch import distributed as gpd
from gradplan.torch.distributed import costs

WORLDS = (2, 4)
IDS = 16_384


@dataclasses.dataclass(frozen=True)
class Problem:
    """A table of f32, and how many ids each rank has."""

    rows: int
    columns: int
    zipf: float = 0.0
    ids: int = IDS

    def __str__(self) -> str:
        popular = f", Zipf({self.zipf:g})" if self.zipf else ""
        return f"{self.rows} x {self.columns}{popular}"

    def tensors(self, rank: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The table, and this rank's ids and gradient."""
        shared, own = np.random.default_rng(0), np.random.default_rng(rank + 1)
        table = shared.standard_normal((self.rows, self.columns), np.float32)
        p = np.arange(1, self.rows + 1) ** -self.zipf
        ids = shared.permutation(self.rows)[own.choice(self.rows, self.ids, p=p / p.sum())]
        gradient = own.standard_normal((self.ids, self.columns), np.float32)
        return torch.from_numpy(table), torch.from_numpy(ids), torch.from_numpy(gradient)


PROBLEMS = (
    Problem(100_000, 128),
    Problem(100_000, 128, 1.2),
    Problem(1_000_000, 32),
)


class Contender:
    """A lookup; `weight.grad` is there after a step."""

    name = ""
    weight: torch.Tensor

    def lookup(self, ids: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def finish(self) -> None:
        """What a step needs besides autograd."""

    def step(self, ids: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        self.weight.grad = None
        rows = self.lookup(ids)
        rows.backward(gradient)
        self.finish()
        return rows


class Ours(Contender):
    name = "gradplan"

    def __init__(self, table: torch.Tensor, mesh: DeviceMesh) -> None:
        self.weight = distribute_tensor(table, mesh, [Shard(0)]).requires_grad_()

    def lookup(self, ids: torch.Tensor) -> torch.Tensor:
        assert isinstance(self.weight, DTensor)
        return gpd.embedding(ids, self.weight)


class RowwiseDTensor(Contender):
    """As `torch.distributed.tensor.parallel.RowwiseParallel` does it, batch and table cut."""

    name = "DTensor"

    def __init__(self, table: torch.Tensor, mesh: DeviceMesh) -> None:
        self.mesh = mesh
        self.weight = distribute_tensor(table, mesh, [Shard(0)]).requires_grad_()

    def lookup(self, ids: torch.Tensor) -> torch.Tensor:
        every = DTensor.from_local(ids, self.mesh, [Shard(0)]).redistribute(
            placements=[Replicate()]
        )
        rows: Any = torch.nn.functional.embedding(every, self.weight)
        made: torch.Tensor = rows.redistribute(placements=[Shard(0)]).to_local()
        return made


class AllReduce(Contender):
    """As DDP does it: every rank has the table, and gradients of all of it are added up."""

    name = "all-reduce"

    def __init__(self, table: torch.Tensor, mesh: DeviceMesh) -> None:
        self.group = mesh.get_group()
        self.weight = table.clone().requires_grad_()

    def lookup(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(ids, self.weight)

    def finish(self) -> None:
        assert self.weight.grad is not None
        dist.all_reduce(self.weight.grad, group=self.group)


CONTENDERS = (Ours, RowwiseDTensor, AllReduce)


def measured(problem: Problem, rank: int, mesh: DeviceMesh, rounds: int) -> dict[str, float]:
    """The best time of each contender, of the slowest rank; and the bytes that this rank sends."""
    table, ids, gradient = problem.tensors(rank)
    contenders = [kind(table, mesh) for kind in CONTENDERS]
    best = {contender.name: float("inf") for contender in contenders}
    for turn in range(rounds + 1):  # the first one is to get ready
        for contender in contenders:
            dist.barrier()
            began = time.perf_counter()
            contender.step(ids, gradient)
            seconds = torch.tensor(time.perf_counter() - began)
            dist.all_reduce(seconds, dist.ReduceOp.MAX)
            if turn:
                best[contender.name] = min(best[contender.name], seconds.item())
    with gpd.count_traffic() as traffic:
        contenders[0].step(ids, gradient)
    return {**best, "bytes": float(traffic.bytes)}


def _work(rank: int, world: int, store: str, rounds: int, answers: Any) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    gp.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    for problem in PROBLEMS:
        made = measured(problem, rank, mesh, rounds)
        if rank == 0:
            answers.put(made)
    dist.destroy_process_group()


def row_of(problem: Problem, world: int, made: dict[str, float]) -> list[str]:
    """A line of the table: ratios of times, megabytes of rank 0."""
    row = costs.Row.of(problem.columns)
    size = problem.rows * row.element
    sent = made["bytes"], costs.dtensor(world, row, problem.ids), costs.all_reduce(world, size)
    ratios = [made[kind.name] / made[Ours.name] for kind in CONTENDERS[1:]]
    return [
        str(world),
        str(problem),
        *(f"{ratio:.2f}" for ratio in ratios),
        " / ".join(f"{each / 1e6:.1f}" for each in sent),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="gradplan.bench.distributed", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="turns, of which the best counts")
    options = parser.parse_args(arguments)
    out = Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("ranks", "table", "x DTensor", "x all-reduce", "MB sent by each"):
        table.add_column(head, no_wrap=True, justify="left" if head == "table" else "right")
    for world in WORLDS:
        out.print(f"measuring on {world} processes, {len(os.sched_getaffinity(0))} CPUs ...")
        answers = mp.get_context("fork").SimpleQueue()
        with tempfile.TemporaryDirectory() as folder:
            given = (world, str(Path(folder) / "store"), options.rounds, answers)
            mp.start_processes(_work, given, nprocs=world, start_method="fork")
        for problem in PROBLEMS:
            table.add_row(*row_of(problem, world, answers.get()))
    out.print(table)
    out.print(f"{IDS} ids on each rank; MB: " + " / ".join(kind.name for kind in CONTENDERS))


if __name__ == "__main__":
    main()
