"""Optimizers, clipping, state dicts and checkpoints of a table on several ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.distributed.checkpoint as checkpoint  # noqa: E402
from ranks import on_ranks, same_bits  # noqa: E402
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict  # noqa: E402
from torch.distributed.tensor import DTensor, Shard, distribute_tensor  # noqa: E402

from gradplan import torch as gpt  # noqa: E402
from gradplan.torch import distributed as gpd  # noqa: E402
from gradplan.torch.distributed.members import RowShards  # noqa: E402

ROWS, COLUMNS, COUNT = 1001, 8, 4000
OPTIMIZERS = {"SGD": {"momentum": 0.9}, "Adam": {}, "AdamW": {"weight_decay": 0.1}}


def values(seed: int, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float()


def start() -> Any:
    return values(99, ROWS, COLUMNS)


def train(module: Any, optimizer: Any, steps: range, me: slice, clip: bool) -> list[float]:
    norms = []
    for step in steps:
        ids = torch.from_numpy(np.random.default_rng(step).zipf(1.3, COUNT) % ROWS)
        optimizer.zero_grad()
        (module(ids[me]) * values(step, COUNT, COLUMNS)[me]).sum().backward()
        if clip:
            norms.append(float(gpd.clip_grad_norm_(module.parameters(), 1.0)))
        optimizer.step()
    return norms


def one_process(name: str, steps: range, clip: bool) -> tuple[Any, list[float]]:
    module = gpt.nn.Embedding(ROWS, COLUMNS, padding_idx=3)
    module.load_state_dict({"weight": start()})
    optimizer = getattr(torch.optim, name)(module.parameters(), lr=0.01, **OPTIMIZERS[name])
    norms = train(module, optimizer, steps, slice(None), clip)
    return module.weight.detach(), norms


def on_this_rank(rank: int, world: int, name: str) -> tuple[Any, Any, slice]:
    module = gpd.ShardedEmbedding(ROWS, COLUMNS, padding_idx=3)
    module.load_state_dict({"weight": start()})  # that of torch.nn.Embedding
    optimizer = getattr(torch.optim, name)(module.parameters(), lr=0.01, **OPTIMIZERS[name])
    cuts = [COUNT * r // world + (7 if 0 < r < world else 0) for r in range(world + 1)]
    return module, optimizer, slice(cuts[rank], cuts[rank + 1])


def assert_same(module: Any, rank: int, world: int, whole: Any) -> None:
    own = RowShards(ROWS, world).of(rank)
    assert same_bits(module.weight.to_local(), whole[own])


def trained(rank: int, world: int) -> None:
    for name in OPTIMIZERS:
        for clip in (False, True):
            module, optimizer, me = on_this_rank(rank, world, name)
            norms = train(module, optimizer, range(3), me, clip)
            whole, expected = one_process(name, range(3), clip)
            assert_same(module, rank, world, whole)
            assert norms == expected


@pytest.mark.parametrize("world", [1, 3, 4])
def test_optimizers_and_clipping(world: int) -> None:
    on_ranks(trained, world)


def saved(rank: int, world: int, folder: str) -> None:
    module, optimizer, me = on_this_rank(rank, world, "Adam")
    train(module, optimizer, range(3), me, False)
    model, state = get_state_dict(module, optimizer)
    checkpoint.save({"model": model, "optimizer": state}, checkpoint_id=folder)


def loaded(rank: int, world: int, folder: str) -> None:
    module, optimizer, me = on_this_rank(rank, world, "Adam")
    model, state = get_state_dict(module, optimizer)
    checkpoint.load({"model": model, "optimizer": state}, checkpoint_id=folder)
    set_state_dict(module, optimizer, model_state_dict=model, optim_state_dict=state)
    train(module, optimizer, range(3, 5), me, False)
    whole, _ = one_process("Adam", range(5), False)
    assert_same(module, rank, world, whole)


def test_a_checkpoint_of_two_ranks_loads_into_any_number(tmp_path: Path) -> None:
    on_ranks(saved, 2, str(tmp_path))
    for world in (1, 3):
        on_ranks(loaded, world, str(tmp_path))


def first_values(rank: int, world: int) -> Any:
    torch.manual_seed(5 if rank == 0 else rank)  # that of rank 0 counts
    module = gpd.ShardedEmbedding(2500, 3, padding_idx=-1)
    assert isinstance(module.state_dict()["weight"], DTensor)
    return module.weight.full_tensor().detach().numpy()


def test_first_values_do_not_depend_on_the_number_of_ranks() -> None:
    one, three = on_ranks(first_values, 1)[0], on_ranks(first_values, 3)[2]
    assert np.array_equal(one, three)
    assert 0.98 < one.std() < 1.02 and not one[-1].any() and one[-2].all()


def norms(rank: int, world: int) -> list[Any]:
    """Of a sharded and of a common parameter, with hard values."""
    found = []
    mesh = gpd.ShardedEmbedding(1, 1).weight.device_mesh
    for scale in (1.0, 1e-42, 1e30, np.inf, np.nan):
        sharded = distribute_tensor(values(1, 50, 7), mesh, [Shard(0)]).requires_grad_()
        sharded.grad = distribute_tensor(values(2, 50, 7) * scale, mesh, [Shard(0)])
        common = torch.zeros(9, requires_grad=True)
        common.grad = values(3, 9)
        found.append(float(gpd.grad_norm([sharded, common])))
    return found


def test_the_norm_is_right_and_the_same_for_any_number_of_ranks() -> None:
    one = on_ranks(norms, 1)[0]
    for world in (2, 4):
        assert [list(map(repr, found)) for found in on_ranks(norms, world)] == [
            list(map(repr, one))
        ] * world
    a, b = values(2, 50, 7).double(), values(3, 9).double()
    for scale, norm in zip((1.0, 1e-42, 1e30), one, strict=False):
        scaled = (a.float() * scale).double()
        assert norm == pytest.approx(
            float((scaled.square().sum() + b.square().sum()).sqrt()), 1e-13
        )
    assert np.isinf(one[3]) or np.isnan(one[3])
    assert np.isnan(one[4])
