"""A rank that dies, or comes with something else: an error on every rank, and nothing written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ranks import Lost, on_ranks, results, same_bits  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Shard  # noqa: E402

import gradplan as gp  # noqa: E402
from gradplan.torch import distributed as gpd  # noqa: E402

WORLD = 3
TIMEOUT = 4


class Step:
    """A table and an optimizer, to see that a step which failed has left them alone."""

    def __init__(self) -> None:
        self.module = gpd.ShardedEmbedding(20, 4)
        self.optimizer = torch.optim.Adam(self.module.parameters())
        self.before = self.module.weight.to_local().clone()

    def __call__(self, ids: Any, factor: Any = 1.0) -> None:
        (self.module(ids) * factor).sum().backward()
        self.optimizer.step()

    def is_untouched(self) -> bool:
        return (
            same_bits(self.module.weight.to_local(), self.before)
            and self.module.weight.grad is None
            and not self.optimizer.state
        )


def refused(run: Any) -> tuple[str, str]:
    try:
        run()
    except gp.Error as error:
        return type(error).__name__, str(error)
    return "", "nothing was raised"


def other_tables(wrong: bool) -> list[Any]:
    """DTensors that have been made without looking at other ranks'."""
    mesh = init_device_mesh("cpu", (WORLD,))
    made = []
    for columns, dtype in ((3, torch.float32), (4, torch.bfloat16)):
        mine = (columns, dtype) if wrong else (4, torch.float32)
        local = torch.ones(7, mine[0], dtype=mine[1])
        made.append(DTensor.from_local(local, mesh, [Shard(0)], run_check=False))
    return made


def wrong_arguments(rank: int, world: int) -> list[Any]:
    found = []
    wrong = rank == 1
    good = torch.arange(6)
    step = Step()
    ids: Any
    for ids in (good.float(), good + 16, -good, [1, 2], good.bool()):
        found.append(refused(lambda ids=ids: step(ids if wrong else good)))
        assert step.is_untouched()
    # Another table, element type, or function.
    other = [
        lambda: gpd.ShardedEmbedding(21 if wrong else 20, 4),
        lambda: gpd.ShardedEmbedding(20, 4, dtype=torch.float64 if wrong else torch.float32),
        lambda: gpd.ShardedEmbedding(20, 3 if wrong else 4),
    ]
    found += [refused(run) for run in other]
    found += [refused(lambda t=t: gpd.embedding(good, t)) for t in other_tables(wrong)]
    mesh = step.module.weight.device_mesh
    x = torch.ones(6, 4)
    sums = [
        lambda: gpd.segment_sum(x.double() if wrong else x, good, 9, mesh=mesh),
        lambda: gpd.segment_sum(x[:, :3] if wrong else x, good, 9, mesh=mesh),
        lambda: gpd.segment_sum(x[:, None] if wrong else x, good, 9, mesh=mesh),
        lambda: gpd.segment_sum(x[:2] if wrong else x, good, 9, mesh=mesh),
        lambda: gpd.segment_sum(x, good, 10 if wrong else 9, mesh=mesh),
        lambda: step(good) if wrong else gpd.segment_sum(x, good, 20, mesh=mesh),
    ]
    found += [refused(run) for run in sums]
    assert step.is_untouched()
    step(good)  # the group still works
    assert not step.is_untouched()
    return found


def test_wrong_arguments_are_refused_on_every_rank() -> None:
    first, *others = on_ranks(wrong_arguments, WORLD, timeout=TIMEOUT)
    said = [f"{kind}: {text}" for kind, text in first]
    expected = [
        "InvalidProblem: ShardedEmbedding: rank 1: ids: expected torch.int32 or torch.int64; "
        "got torch.float32",
        "IndexOutOfRange: ShardedEmbedding: rank 1: ids: expected 0 to 19; got 20 at 4 (2 in all)",
        "IndexOutOfRange: ShardedEmbedding: rank 1: ids: expected 0 to 19; got -1 at 1 (5 in all)",
        "InvalidProblem: ShardedEmbedding: rank 1: ids: expected a torch.Tensor; got list",
        "InvalidProblem: ShardedEmbedding: rank 1: ids: expected torch.int32 or torch.int64; "
        "got torch.bool",
        "extent 0: expected the same on every rank; rank 0 has 20, rank 1 has 21",
        "element type: expected the same on every rank; rank 0 has torch.float32, rank 1 has "
        "torch.float64",
        "extent 1: expected the same on every rank; rank 0 has 4, rank 1 has 3",
        "ShardedEmbedding: extent 1: expected the same on every rank; rank 0 has 4, rank 1 has 3",
        "element type: expected the same on every rank; rank 0 has torch.float32, rank 1 has "
        "torch.bfloat16",
        "element type: expected the same on every rank; rank 0 has torch.float32, rank 1 has "
        "torch.float64",
        "extent 1: expected the same on every rank; rank 0 has 4, rank 1 has 3",
        "number of axes: expected the same on every rank; rank 0 has 2, rank 1 has 3",
        "segment_ids: expected one for each of 2 rows; got [6]",
        "extent 0: expected the same on every rank; rank 0 has 9, rank 1 has 10",
        "operation: expected the same on every rank; rank 0 has segment_sum, rank 1 has "
        "ShardedEmbedding",
    ]
    assert len(said) == len(expected)
    for text, part in zip(said, expected, strict=True):
        assert part in text
    for other in others:
        assert [kind for kind, _ in other] == [kind for kind, _ in first]


def a_rank_goes(rank: int, world: int, how: str, when: str) -> Any:
    step = Step()
    ids = torch.arange(6)
    step.module(ids).sum().backward()
    step.module.weight.grad = None
    began = time.monotonic()

    def leave() -> None:
        if rank == 1:
            if how == "stops":
                wake = f"sleep {TIMEOUT + 2}; kill -CONT {os.getpid()}"
                subprocess.Popen(["sh", "-c", wake])
                os.kill(os.getpid(), signal.SIGSTOP)
            elif how == "dies":
                os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        if when == "forward":
            leave()
        y = step.module(ids)
        if when == "backward":
            leave()
        y.sum().backward()
        step.optimizer.step()

    said = refused(run)
    return said, time.monotonic() - began, step.is_untouched()


@pytest.mark.parametrize(
    ("how", "when"), [("dies", "forward"), ("dies", "backward"), ("stops", "backward")]
)
def test_a_rank_that_goes_is_noticed(how: str, when: str) -> None:
    found = results(a_rank_goes, WORLD, how, when, timeout=TIMEOUT, seconds=60)
    if how == "dies":
        assert isinstance(found.pop(1), Lost)
    for (kind, said), seconds, untouched in found:  # of the one that was stopped as well
        assert kind == "RankLost"
        assert re.search("rank [012] of 3: another rank did not take part", said)
        assert "nothing was written" in said
        assert untouched
        # Not a question of speed: the group's timeout is what ends the waiting.
        assert seconds < 60


def another_way(rank: int, world: int, dies: bool) -> Any:
    """Rank 1 dies before gradients are clipped, or clips them while others look rows up."""
    step = Step()
    step.module(torch.arange(6)).sum().backward()
    gradient = step.module.weight.grad.to_local()
    before = gradient.clone()
    if dies and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if dies or rank == 1:
        kind, said = refused(lambda: gpd.clip_grad_norm_(step.module.parameters(), 0.1))
    else:
        kind, said = refused(lambda: step(torch.arange(6)))
    weight = step.module.weight.to_local()
    return kind, said, same_bits(gradient, before) and same_bits(weight, step.before)


@pytest.mark.parametrize("dies", [True, False])
def test_clipping_alone(dies: bool) -> None:
    found = results(another_way, WORLD, dies, timeout=TIMEOUT, seconds=60)
    if dies:
        assert isinstance(found.pop(1), Lost)
    for kind, said, untouched in found:
        assert kind == "RankLost" and "another rank did not take part" in said
        assert untouched
