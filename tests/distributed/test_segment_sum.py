"""Segment sums of rows on several ranks: sums and gradients have the bits of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ranks import on_ranks, same_bits  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Shard, distribute_tensor  # noqa: E402

from gradplan import torch as gpt  # noqa: E402
from gradplan.torch import distributed as gpd  # noqa: E402
from gradplan.torch.distributed.members import RowShards  # noqa: E402

CASES = [(40, (5,), 9000), (3, (2, 3), 4001), (5000, (), 3000), (2, (4,), 1), (6, (3,), 0)]


def problem(rows: int, shape: tuple[int, ...], count: int, dtype: Any) -> tuple[Any, ...]:
    g = np.random.default_rng(rows)
    x = torch.from_numpy(g.standard_normal((count, *shape))).to(dtype)
    ids = torch.from_numpy(g.integers(0, rows, count))
    dy = torch.from_numpy(g.standard_normal((rows, *shape))).to(dtype)
    one = x.clone().requires_grad_()
    y = gpt.segment_sum(one, ids, rows)
    y.backward(dy)
    return x, ids, dy, y, one.grad


def equal_to_one_process(rank: int, world: int) -> None:
    mesh = init_device_mesh("cpu", (world,))
    for rows, shape, count in CASES:
        for dtype in (torch.float32, torch.float16, torch.float64):
            x, ids, dy, y, dx = problem(rows, shape, count, dtype)
            own = RowShards(rows, world).of(rank)
            # Plain parts, of very different sizes: the first rank has a tenth.
            cuts = [0, *(count * (r * r + r // 2 + 1) // (world * world + 1) for r in range(world))]
            me = slice(cuts[rank], cuts[rank + 1] if rank < world - 1 else count)
            mine = x[me].clone().requires_grad_()
            sums = gpd.segment_sum(mine, ids[me], rows, mesh=mesh)
            sums.to_local().backward(dy[own])
            what = world, rank, rows, dtype
            assert sums.placements == (Shard(0),) and sums.shape == y.shape
            assert same_bits(sums.to_local(), y[own]), what
            assert same_bits(mine.grad, dx[me]), what
            # DTensors
            d = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
            sums = gpd.segment_sum(d, distribute_tensor(ids, mesh, [Shard(0)]), rows)
            sums.backward(distribute_tensor(dy, mesh, [Shard(0)]))
            assert same_bits(sums.to_local(), y[own]), what
            assert same_bits(d.grad.to_local(), dx[RowShards(count, world).of(rank)]), what


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_equal_to_one_process(world: int) -> None:
    on_ranks(equal_to_one_process, world)
