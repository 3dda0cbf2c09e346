"""What ranks send, counted: the formulas of docs/distributed.md, for 1 to 8 processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ranks import on_ranks  # noqa: E402

from gradplan.torch import distributed as gpd  # noqa: E402
from gradplan.torch.distributed.agreement import HEADER_BYTES  # noqa: E402
from gradplan.torch.distributed.members import BLOCK, RowShards  # noqa: E402

ROWS, COLUMNS, EACH = 1000, 8, 3000
ROW = 4 * COLUMNS


def members_of(world: int, seed: int) -> list[np.ndarray[Any, Any]]:
    """The ids of each rank; the second seed has some that are named thousands of times."""
    g = np.random.default_rng(seed)
    if seed:
        return [np.minimum(g.zipf(1.5, EACH) - 1, ROWS - 1) for _ in range(world)]
    return [g.integers(0, ROWS, EACH) for _ in range(world)]


def expected(rank: int, world: int, ids: list[np.ndarray[Any, Any]]) -> tuple[int, int]:
    """Bytes of the forward and of the backward, by the formulas."""
    starts = RowShards(ROWS, world).starts
    owner = lambda rows: np.searchsorted(starts[1:], rows, side="right")  # noqa: E731
    distinct = [np.unique(x, return_counts=True) for x in ids]
    mine, count = distinct[rank]
    asked = sum(int((owner(d) == rank).sum()) for r, (d, _) in enumerate(distinct) if r != rank)
    many = sum(
        int(((owner(d) == rank) & (c >= BLOCK)).sum())
        for r, (d, c) in enumerate(distinct)
        if r != rank
    )
    remote = owner(mine) != rank
    headers = HEADER_BYTES * (world - 1)
    forward = headers + 8 * int(remote.sum()) + asked * ROW + 8 * many
    backward = headers
    for row, n in zip(mine[remote], count[remote], strict=True):
        before = sum(int((ids[r] == row).sum()) for r in range(rank))
        lead = min(-before % BLOCK, n)
        blocks = (n - lead) // BLOCK
        backward += int(n - (BLOCK - 1) * blocks) * (8 + ROW)
    return forward, backward


def counted(rank: int, world: int) -> list[Any]:
    found = []
    for seed in (0, 1):
        ids = members_of(world, seed)
        module = gpd.ShardedEmbedding(ROWS, COLUMNS)
        with gpd.count_traffic() as forward:
            y = module(torch.from_numpy(ids[rank]))
        with gpd.count_traffic() as backward:
            y.sum().backward()
        assert (forward.bytes, backward.bytes) == expected(rank, world, ids), (world, rank, seed)
        assert (forward.messages, backward.messages) == (3 * (world - 1), 2 * (world - 1))
        found.append((forward.bytes, backward.bytes))
    return found


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
def test_an_embedding_sends_what_the_formulas_say(world: int) -> None:
    found = on_ranks(counted, world)
    if world == 1:
        assert found == [[(0, 0), (0, 0)]]
    else:  # whole blocks travel instead of their members
        plain = EACH * (world - 1) / world * (8 + ROW)
        assert any(hot[1] < plain / 2 for _, hot in found)


def segment_counted(rank: int, world: int) -> None:
    ids = members_of(world, 1)
    mesh = gpd.ShardedEmbedding(world, 1).weight.device_mesh
    x = torch.ones(EACH, COLUMNS, requires_grad=True)
    with gpd.count_traffic() as forward:
        y = gpd.segment_sum(x, torch.from_numpy(ids[rank]), ROWS, mesh=mesh)
    with gpd.count_traffic() as backward:
        y.to_local().sum().backward()
    lookup, sums = expected(rank, world, ids)
    # The sum sends ids and rows, the gradient brings rows back: the same, the other way round.
    assert forward.bytes + backward.bytes == lookup + sums + HEADER_BYTES * (world - 1)
    assert forward.messages == 5 * (world - 1)
    assert backward.messages == 2 * (world - 1)


def test_a_segment_sum_sends_what_the_formulas_say() -> None:
    on_ranks(segment_counted, 3)
