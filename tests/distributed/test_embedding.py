"""ShardedEmbedding: outputs and gradients of any number of ranks have the bits of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ranks import on_ranks, same_bits  # noqa: E402

import gradplan as gp  # noqa: E402
from gradplan import torch as gpt  # noqa: E402
from gradplan.torch import distributed as gpd  # noqa: E402
from gradplan.torch.distributed.members import RowShards  # noqa: E402

WORLDS = (1, 2, 3, 4)
CASES = [
    # rows, columns, members
    (1000, 8, 15001),
    (7, 3, 2755),
    (50000, 16, 4000),
    (5, 4, 3050),
    (3, 2, 100),
    (2, 1, 200000),  # more than 256 blocks of a row
    (10, 4, 0),
]


def zipf(g: Any, count: int, rows: int, power: float = 1.1) -> Any:
    p = 1 / np.arange(1, rows + 1) ** power
    return torch.from_numpy(g.permutation(rows)[g.choice(rows, count, p=p / p.sum())])


def part(g: Any, count: int, rank: int, world: int) -> slice:
    """This rank's part of the batch, any size; the whole batch is the same for all worlds."""
    cuts = [0, *sorted(int(c) for c in g.integers(0, count + 1, world - 1)), count]
    return slice(cuts[rank], cuts[rank + 1])


def table(rows: int, columns: int, dtype: Any, g: Any) -> Any:
    return torch.from_numpy(g.standard_normal((rows, columns))).to(dtype)


def equal_to_one_process(rank: int, world: int) -> int:
    checked = 0
    for seed, (rows, columns, count) in enumerate(CASES):
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            for padding in (None, 2 % rows):
                g = np.random.default_rng(seed)
                ids = zipf(g, count, rows)
                weight = table(rows, columns, dtype, g)
                cotangent = table(count, columns, dtype, g)
                me = part(g, count, rank, world)
                module = gpd.ShardedEmbedding(rows, columns, padding, dtype=dtype)
                module.load_state_dict({"weight": weight})
                ids_type = torch.int32 if seed % 2 else torch.int64
                y = module(ids[me].to(ids_type))
                y.backward(cotangent[me])
                one = weight.clone().requires_grad_()
                expected = gpt.embedding(ids, one, padding)
                expected.backward(cotangent)
                own = RowShards(rows, world).of(rank)
                what = (world, rank, rows, dtype, padding)
                assert same_bits(y, expected[me]), what
                assert same_bits(module.weight.grad.to_local(), one.grad[own]), what
                checked += 1
    return checked


@pytest.mark.parametrize("world", WORLDS)
def test_equal_to_one_process(world: int) -> None:
    assert on_ranks(equal_to_one_process, world) == [len(CASES) * 6] * world


def special_values(rank: int, world: int) -> None:
    """Infinities, NaN and zeros of both signs keep their places in whole blocks too."""
    g = np.random.default_rng(5)
    count = 5000
    rows = torch.from_numpy(g.choice([-0.0, 0.0, 1.5, -np.inf, np.nan], (count, 6))).float()
    rows[:, :2] = -0.0
    rows[2000:, 2] = torch.inf
    ids = torch.from_numpy(g.integers(0, 3, count))
    me = part(g, count, rank, world)
    weight = gpd.ShardedEmbedding(4, 6).weight
    gpd.embedding(ids[me], weight).backward(rows[me])
    expected = gp.embedding_backward(rows, ids, 4)
    assert same_bits(weight.grad.to_local(), expected[RowShards(4, world).of(rank)])


def test_special_values() -> None:
    on_ranks(special_values, 3)


# Wrong orders are seen -------------------------------------------------------------------------


def gradient_with(rank: int, world: int, mistake: str) -> bool:
    """Whether the gradient is right, with a mistake in the order of the sums."""
    from gradplan.torch.distributed import members, ranks

    exchange, finished = ranks.Ranks.exchange, members.Finished.of
    if mistake == "ranks reversed":  # the owner takes what came in the opposite order

        def reversed_exchange(self: Any, parts: Any, got: Any) -> Any:
            made = exchange(self, parts, got)
            return [part[::-1] for part in made] if len(parts) == 4 else made

        ranks.Ranks.exchange = reversed_exchange  # type: ignore[method-assign]
    if mistake == "blocks from each rank's start":
        members.Finished.of = lambda before, count: finished(0 * before, count)  # type: ignore
    g = np.random.default_rng(1)
    count, rows = 9000, 12 if mistake != "ranks reversed" else 3000
    ids, cotangent = zipf(g, count, rows), table(count, 8, torch.float32, g)
    me = slice(count * rank // world, count * (rank + 1) // world)
    weight = gpd.ShardedEmbedding(rows, 8).weight
    gpd.embedding(ids[me], weight).backward(cotangent[me])
    expected = gp.embedding_backward(cotangent, ids, rows)
    return same_bits(weight.grad.to_local(), expected[RowShards(rows, world).of(rank)])


def test_wrong_orders_are_noticed() -> None:
    assert on_ranks(gradient_with, 2, "none") == [True, True]
    assert on_ranks(gradient_with, 2, "ranks reversed") == [False, False]
    assert not all(on_ranks(gradient_with, 2, "blocks from each rank's start"))
