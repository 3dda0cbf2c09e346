"""Scans along an axis that is cut over ranks: results and gradients have the bits of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ranks import on_ranks, results, same_bits  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402

import gradplan as gp  # noqa: E402
from gradplan import torch as gpt  # noqa: E402
from gradplan.torch import distributed as gpd  # noqa: E402
from gradplan.torch.distributed.agreement import HEADER_BYTES  # noqa: E402
from gradplan.vocabulary import ScanKind  # noqa: E402

CHUNK = 4096
EXTREMES = (ScanKind.CUMMAX, ScanKind.CUMMIN)


def values(flavour: str, shape: tuple[int, ...], dtype: Any) -> Any:
    g = np.random.default_rng(len(flavour) + sum(shape))
    x = g.standard_normal(shape)
    if flavour == "near one":
        x = 1 + 0.02 * x
    elif flavour == "hard":  # zeros, ties, infinities, NaN, and what overflows
        x = np.round(3 * x)
        x[..., ::1500] *= 1e30
        x[0, ..., x.shape[-1] // 2] = np.inf
        x[-1, ..., x.shape[-1] * 2 // 3] = np.nan
        x[-1, ..., -x.shape[-1] // 3 :: 997] = -np.inf
    elif flavour == "minus zero":
        x = np.full(shape, -0.0)
    return torch.from_numpy(x).to(dtype)


def cuts(n: int, world: int, how: str) -> list[int]:
    """Where shards begin, and the end."""
    inner = {
        "chunks": [min(n, -(-n // (CHUNK * world)) * CHUNK * r) for r in range(1, world)],
        "even": [-(-n // world) * r for r in range(1, world)],
        "first": [n - 5 * (world - r) for r in range(1, world)],
        "last": [min(n, 4000 * r) for r in range(1, world)],
        "empty": [0, n, n][: world - 1],
    }[how]
    return [0, *inner, n]


CASES = [
    # n, dtype, values, cuts
    (5 * CHUNK + 1, "float32", "hard", "chunks"),
    (6 * CHUNK + 300, "float32", "near one", "even"),
    (37000, "float64", "hard", "even"),
    (9 * CHUNK - 1, "bfloat16", "near one", "last"),
    (4 * CHUNK, "float16", "hard", "first"),
    (3 * CHUNK, "float32", "minus zero", "empty"),
    (700, "float32", "hard", "even"),
]


def one_process(kind: ScanKind, x: Any, dy: Any, reverse: bool) -> tuple[Any, Any]:
    x = x.clone().requires_grad_()
    more = {"return_indices": False} if kind in EXTREMES else {}
    y = getattr(gpt, kind)(x, -1, reverse, **more)
    y.backward(dy)
    return y, x.grad


def equal_to_one_process(rank: int, world: int) -> int:
    compared = 0
    for n, dtype, flavour, how in CASES:
        x = values(flavour, (3, n), getattr(torch, dtype))
        dy = values("plain", (3, n), getattr(torch, dtype))
        at = cuts(n, world, how)
        me = slice(at[rank], at[rank + 1])
        for kind in ScanKind:
            for reverse in (False, True):
                y, dx = one_process(kind, x, dy, reverse)
                mine = x[:, me].clone().requires_grad_()
                got = getattr(gpd, kind)(mine, -1, reverse)
                got.backward(dy[:, me])
                what = world, rank, kind, reverse, n, dtype, flavour, how
                assert same_bits(got, y[:, me]), what
                assert same_bits(mine.grad, dx[:, me]), ("gradient", *what)
                compared += 2
    return compared


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_equal_to_one_process(world: int) -> None:
    assert set(on_ranks(equal_to_one_process, world)) == {len(CASES) * 20}
