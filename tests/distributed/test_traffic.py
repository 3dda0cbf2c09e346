"""What ranks send, counted: the formulas of docs/distributed.md, for 1 to 8 processes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from ranks import on_ranks  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh  # noqa: E402
from torch.distributed.tensor import Shard, distribute_tensor  # noqa: E402

from gradplan.torch import distributed as gpd  # noqa: E402
from gradplan.torch.distributed import costs  # noqa: E402
from gradplan.torch.distributed.costs import Counts  # noqa: E402
from gradplan.torch.distributed.members import BLOCK, RowShards  # noqa: E402

WORLDS = range(1, 9)
ROWS, COLUMNS, EACH = 1000, 8, 3000
PADDING = 4
ELEMENTS = {torch.float32: (4, 4), torch.bfloat16: (2, 4)}

Ids = list[np.ndarray[Any, Any]]


def members_of(world: int, seed: int) -> Ids:
    """The ids of each rank; the second seed has some that are named thousands of times."""
    g = np.random.default_rng(seed)
    if seed:
        return [np.minimum(g.zipf(1.5, EACH) - 1, ROWS - 1) for _ in range(world)]
    return [g.integers(0, ROWS, EACH) for _ in range(world)]


def counts_of(rank: int, world: int, ids: Ids, padding: int | None = None) -> Counts:
    """What the formulas are about, counted one by one."""
    starts = RowShards(ROWS, world).starts

    def owner(rows: Any) -> Any:
        return np.searchsorted(starts[1:], rows, side="right")

    distinct = [np.unique(x, return_counts=True) for x in ids]
    mine, count = distinct[rank]
    others = [(d, c) for r, (d, c) in enumerate(distinct) if r != rank]
    members = blocks = 0
    for row, n in zip(mine, count, strict=True):
        if owner(row) == rank or row == padding:
            continue
        before = sum(int((ids[r] == row).sum()) for r in range(rank))
        members += int(n)
        blocks += (n - min(-before % BLOCK, n)) // BLOCK
    return Counts(
        named=int((owner(mine) != rank).sum()),
        asked=sum(int((owner(d) == rank).sum()) for d, _ in others),
        asked_often=sum(
            int(((owner(d) == rank) & (c >= BLOCK) & (d != padding)).sum()) for d, c in others
        ),
        members=members,
        blocks=blocks,
    )


def counted(rank: int, world: int) -> dict[int, list[Any]]:
    """Meshes of 1 to 8 ranks, one after the other, the ranks behind them idle."""
    found: dict[int, list[Any]] = {}
    for size in WORLDS:
        mesh = DeviceMesh("cpu", list(range(size)))  # which all have to make
        dist.barrier()
        if rank >= size:
            continue
        found[size] = []
        for seed, padding, dtype in (
            (0, None, torch.float32),
            (1, None, torch.float32),
            (1, PADDING, torch.bfloat16),
        ):
            ids = members_of(size, seed)
            n = counts_of(rank, size, ids, padding)
            row = costs.Row.of(COLUMNS, *ELEMENTS[dtype])
            table = distribute_tensor(torch.ones(ROWS, COLUMNS, dtype=dtype), mesh, [Shard(0)])
            table.requires_grad_()
            mine = torch.from_numpy(ids[rank])
            with gpd.count_traffic() as forward:
                y = gpd.embedding(mine, table, padding)
            with gpd.count_traffic() as backward:
                y.sum().backward()
            what = size, rank, seed, padding, dtype
            assert forward == costs.lookup(size, row, n), what
            assert backward == costs.lookup_gradient(size, row, n), what
            rows = costs.lookup_gradient(size, row, dataclasses.replace(n, blocks=0))
            found[size].append((forward.bytes, backward.bytes, rows.bytes))
            if padding is not None:
                continue
            x = torch.ones(EACH, COLUMNS, dtype=dtype, requires_grad=True)
            with gpd.count_traffic() as forward:
                sums = gpd.segment_sum(x, mine, ROWS, mesh=mesh)
            with gpd.count_traffic() as backward:
                sums.to_local().sum().backward()
            assert forward == costs.segment_sum(size, row, n), what
            assert backward == costs.segment_sum_gradient(size, row, n), what
    return found


def test_ranks_send_what_the_formulas_say() -> None:
    found = on_ranks(counted, max(WORLDS))
    assert found[0][1] == [(0, 0, 0)] * 3
    assert [len(of_rank) for of_rank in found] == [8, 7, 6, 5, 4, 3, 2, 1]
    _, sent, rows = found[1][2][1]
    assert sent < 0.7 * rows  # whole blocks travel instead of their members


def norm_counted(rank: int, world: int) -> tuple[int, int]:
    module = gpd.ShardedEmbedding(ROWS, COLUMNS)
    module(torch.arange(9)).sum().backward()
    with gpd.count_traffic() as traffic:
        gpd.clip_grad_norm_(module.parameters(), 1.0)
    return traffic.bytes, traffic.messages


def test_a_norm_sends_a_few_numbers() -> None:
    for world in (2, 4):
        each = [costs.all_reduce(world, size) for size in (2 * 8, 3 * 8)]
        assert on_ranks(norm_counted, world) == [(sum(each), 4 * (world - 1))] * world


@pytest.mark.parametrize("zipf", [0.0, 0.8, 1.05, 1.4])
def test_expectations_are_what_comes(zipf: float) -> None:
    """Of a table that can be counted: rows in bins, and ranks that draw their ids."""
    ranks, rows, members = 4, 200_000, 100_000
    p, count = costs.popularity(rows, zipf)
    assert count.sum() == rows and (p @ count) == pytest.approx(1)
    exact = np.arange(1, rows + 1.0) ** -zipf
    assert p[0] == pytest.approx(exact[0] / exact.sum(), 1e-3)
    g = np.random.default_rng(0)
    owner = g.integers(0, ranks, rows)
    named = np.stack([g.multinomial(members, exact / exact.sum()) for _ in range(ranks)])
    before = np.cumsum(named, 0) - named
    blocks = np.maximum(named - np.minimum(-before % BLOCK, named), 0) // BLOCK
    remote = owner != np.arange(ranks)[:, None]
    expected = costs.expected_counts(ranks, rows, members, zipf)
    of_one = expected.asked_often, expected.blocks, expected.named, expected.members
    drawn = [(x * remote).sum() / ranks for x in (named >= BLOCK, blocks, named > 0, named)]
    # A few rows take much, and it is chance which rank owns them: those are not near each other.
    near = (0.5, 0.5, 0.05, 0.5) if zipf > 1 else (0.2, 0.1, 0.02, 0.02)
    for mine, seen, within in zip(of_one, drawn, near, strict=True):
        assert mine == pytest.approx(float(seen), within, abs=3)
