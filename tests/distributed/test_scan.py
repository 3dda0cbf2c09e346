"""Scans along an axis that is cut over ranks: results and gradients, the bits of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ranks import on_ranks, same_bits  # noqa: E402
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


def dtensors(rank: int, world: int) -> None:
    n, dim = 3 * CHUNK + 77, 1
    x, dy = values("hard", (5, n, 2), torch.float32), values("plain", (5, n, 2), torch.float32)
    meshes = [((world,), [Shard(dim)]), ((world,), [Shard(0)]), ((world,), [Replicate()])]
    if world == 4:
        meshes += [((2, 2), [Shard(0), Shard(dim)]), ((2, 2), [Shard(dim), Replicate()])]
    for sizes, placements in meshes:
        mesh = init_device_mesh("cpu", sizes)
        for kind in ScanKind:
            y, dx = one_process(kind, x.movedim(dim, -1), dy.movedim(dim, -1), True)
            given = distribute_tensor(x, mesh, placements).requires_grad_()
            got = getattr(gpd, kind)(given, dim, reverse=True)
            got.backward(distribute_tensor(dy, mesh, placements))
            what = rank, kind, placements
            assert list(got.placements) == placements
            assert same_bits(got.full_tensor(), y.movedim(-1, dim)), what
            assert same_bits(given.grad.full_tensor(), dx.movedim(-1, dim)), what


@pytest.mark.parametrize("world", [3, 4])
def test_dtensors(world: int) -> None:
    on_ranks(dtensors, world)


ROWS = 3
SENT = {  # values of a chunk that are sent, forward and backward
    ScanKind.CUMSUM: (1, 1),
    ScanKind.CUMPROD: (1, 3),
    ScanKind.CUMMAX: (1, 2),
    ScanKind.CUMMIN: (1, 2),
    ScanKind.LOGCUMSUMEXP: (1 + 2, 2),
}


def expected(kind: ScanKind, rank: int, world: int, chunks: int) -> list[tuple[int, int]]:
    """Bytes and messages, forward and backward, of shards that begin at multiples of 4096."""
    others, log = world - 1, kind is ScanKind.LOGCUMSUMEXP
    edge = ROWS * 4
    behind, front = edge * (rank > 0), edge * (rank < world - 1)
    edges = {ScanKind.CUMSUM: 0, ScanKind.CUMPROD: behind + front, ScanKind.LOGCUMSUMEXP: behind}
    of_chunks = [others * (HEADER_BYTES + ROWS * chunks * 4 * fields) for fields in SENT[kind]]
    return [
        (of_chunks[0], others * (2 + log)),
        (of_chunks[1] + edges.get(kind, front), others * (2 + (kind is not ScanKind.CUMSUM))),
    ]


def counted(rank: int, world: int) -> list[Any]:
    found = []
    for chunks in (1, 4):  # on each rank
        x = values("near one", (ROWS, chunks * CHUNK), torch.float32).requires_grad_()
        for kind in ScanKind:
            with gpd.count_traffic() as forward:
                y = getattr(gpd, kind)(x, 1)
            with gpd.count_traffic() as backward:
                y.sum().backward()
            sent = [(t.bytes, t.messages) for t in (forward, backward)]
            assert sent == expected(kind, rank, world, chunks), (kind, rank, world, chunks)
    for chunks in (7, 21):  # on each rank, but the cuts are elsewhere
        x = torch.ones(ROWS, chunks * CHUNK + 1000 * (1 - rank), requires_grad=True)
        with gpd.count_traffic() as traffic:
            gpd.cumprod(x, 1).sum().backward()
        found.append(traffic.bytes)
    return found


@pytest.mark.parametrize("world", [1, 3])
def test_bytes_are_those_of_chunks(world: int) -> None:
    found = on_ranks(counted, world)
    if world == 1:
        assert found == [[0, 0]]
    else:  # what is moved to better cuts does not depend on the length
        for short, long in found:
            assert 0 < long - short == (world - 1) * (21 - 7) * ROWS * 4 * (1 + 3)


def test_totals_of_parts_would_be_other_sums() -> None:
    """The negative control: folding one total of each part instead of one of each chunk."""
    x = values("plain", (64, 24 * CHUNK), torch.float32).numpy()
    want = gp.cumsum(x)[:, 16 * CHUNK :]

    def third_part(width: int) -> Any:
        totals, gains = gp.scan_part_total(x.reshape(64, -1, width), kind="cumsum")
        carries = gp.scan_part_fold(totals, gains, gains, kind="cumsum")
        carry = np.ascontiguousarray(carries[:, 16 * CHUNK // width - 1])
        return gp.scan_part(x[:, 16 * CHUNK :], carry=carry, kind="cumsum")

    assert np.array_equal(third_part(CHUNK), want)
    assert not np.array_equal(third_part(8 * CHUNK), want)


def refused(run: Any) -> str:
    try:
        run()
    except gp.Error as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def wrong_arguments(rank: int, world: int) -> list[str]:
    wrong = rank == 1
    x = torch.ones(2, 5)

    def gradient() -> None:
        y = gpd.cumsum(x.clone().requires_grad_(), 1)
        torch.autograd.backward([y], [torch.ones(2, 5)])

    calls = [
        lambda: gpd.cumsum(x.double() if wrong else x, 1),
        lambda: gpd.cumsum(x[:1] if wrong else x, 1),
        lambda: gpd.cumsum(x[None] if wrong else x, 1),
        lambda: gpd.cumsum(x.int() if wrong else x, 1),
        lambda: gpd.cumsum([1.0] if wrong else x, 1),
        lambda: gpd.cumsum(x, 2 if wrong else 1),
        lambda: gpd.cumsum(x, 1, reverse=wrong),
        lambda: gpd.cumprod(x, 1) if wrong else gpd.cumsum(x, 1),
    ]
    found = [refused(call) for call in calls]
    gradient()  # the group still works
    return found


def test_wrong_arguments_are_refused_on_every_rank() -> None:
    expected = [
        "element type: expected the same on every rank; rank 0 has torch.float32, rank 1 has "
        "torch.float64",
        "extent 0: expected the same on every rank; rank 0 has 2, rank 1 has 1",
        "number of axes: expected the same on every rank; rank 0 has 2, rank 1 has 3",
        "rank 1: x: expected one of torch.float16, torch.bfloat16, torch.float32, torch.float64; "
        "got torch.int32",
        "rank 1: x: expected a torch.Tensor; got list",
        "rank 1: dim: expected -2 to 1; got 2",
        "operation: expected the same on every rank; rank 0 has cumsum along 1, rank 1 has",
        "operation: expected the same on every rank; rank 0 has cumsum along 1, rank 1 has",
    ]
    for said in on_ranks(wrong_arguments, 3, timeout=20):
        assert len(said) == len(expected)
        for text, part in zip(said, expected, strict=True):
            assert text.startswith("InvalidProblem: ")
            assert part in text
