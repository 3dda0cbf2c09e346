"""The benchmark of sharded tables: contenders compute the same, and what it says they send."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from ranks import on_ranks  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torch.distributed.tensor.debug import CommDebugMode  # noqa: E402

PROBLEM = (300, 8, 1.2, 500)


def compared(rank: int, world: int) -> list[str]:
    from gradplan.bench import distributed as bench

    mesh, problem = init_device_mesh("cpu", (world,)), bench.Problem(*PROBLEM)
    table, ids, gradient = problem.tensors(rank)
    made = []
    for kind in bench.CONTENDERS:
        contender = kind(table, mesh)
        assert torch.equal(contender.step(ids, gradient), table[ids]), kind.name
        grad = contender.weight.grad
        made.append(grad.full_tensor() if isinstance(grad, DTensor) else grad)
    for other in made[1:]:
        torch.testing.assert_close(other, made[0])
    with CommDebugMode() as talk:
        bench.RowwiseDTensor(table, mesh).step(ids, gradient)
    # Ids and gradients go to everybody, rows are added up: what `costs.dtensor` counts; and the
    # table, to begin with.
    counts = {str(packet): count for packet, count in talk.get_comm_counts().items()}
    gathered = sum(n for name, n in counts.items() if "all_gather" in name)
    reduced = sum(n for name, n in counts.items() if "reduce_scatter" in name)
    assert (gathered, reduced) == (2, 1), counts
    times = bench.measured(problem, rank, mesh, 2)
    assert all(0 < times[kind.name] < 60 for kind in bench.CONTENDERS)
    return bench.row_of(problem, world, times)


def test_contenders_compute_the_same() -> None:
    row, _ = on_ranks(compared, 2)
    assert row[:2] == ["2", "300 x 8, Zipf(1.2)"] and len(row) == 5
