"""Problems with more than 2^31 elements: offsets of 32 bits would wrap around.

Inputs repeat elements (stride 0) where that saves gigabytes. Where memory is short these tests are
skipped, and say how much they would need.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest

import gradplan as gp
from gradplan.engines import cpu

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not cpu.supported_isas(), reason="no build for this CPU here"),
]
HUGE = (1 << 31) + 4099
GIB = 1 << 30
BF16 = gp.ElementKind.BF16.dtype


def available() -> int:
    """Bytes that can be had without swapping."""
    try:
        with open("/proc/meminfo") as info:
            return next(int(line.split()[1]) * 1024 for line in info if "MemAvailable" in line)
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def need(gib: float) -> None:
    have = available() / GIB
    if have < gib + 2:
        pytest.skip(f"SKIPPED FOR LACK OF MEMORY: needs {gib + 2:.0f} GiB, {have:.1f} available")


@pytest.fixture(scope="module")
def room() -> Any:
    """One piece of memory for all the outputs here: touching it first takes longer than kernels."""
    need(4.1)
    return np.empty((1 << 31) + (1 << 22), np.uint16)


def all_words(x: Any, expected: int) -> bool:
    """Whether every element has these bits. NumPy compares integers ten times faster than f16."""
    raw = x.view(np.uint16)
    return all((raw[i : i + (1 << 26)] == expected).all() for i in range(0, len(raw), 1 << 26))


def spots(n: int) -> list[int]:
    """Where offsets that wrap would go wrong, and the ends."""
    return [0, 1, n // 2, (1 << 31) - 1, 1 << 31, (1 << 31) + 17, n - 2, n - 1]


def test_a_scan_of_one_row(room: Any) -> None:
    """cummax of a row that rises at a few places: every element of the output is known."""
    steps = [0, 5, (1 << 31) - 3, 1 << 31, HUGE - 2, HUGE]
    x = room[:HUGE].view(np.float16)
    room[:HUGE] = 0
    for level, at in enumerate(steps[:-1]):
        x[at] = level + 1
    assert gp.cummax(x, out=x) is x  # in place: 4 GiB and not 8
    for level, (begin, end) in enumerate(itertools.pairwise(steps)):
        assert all_words(x[begin:end], int(np.float16(level + 1).view(np.uint16)))


def test_a_scan_of_many_rows(room: Any) -> None:
    """Rows are the same, so each must equal the first one, wherever it lies."""
    rows, n = (1 << 21) + 5, 1025
    row = np.random.default_rng(0).standard_normal(n).astype(BF16)
    x = np.broadcast_to(row, (rows, n))
    out = room[: rows * n].view(BF16).reshape(rows, n)
    assert out.size > 1 << 31
    expected = gp.cumsum(row).tobytes()
    gp.cumsum(x, axis=1, out=out)
    for k in (0, 1, rows // 2, (1 << 31) // n, (1 << 31) // n + 1, rows - 2, rows - 1):
        assert out[k].tobytes() == expected


def test_a_scan_across_rows_that_lie_far_apart(room: Any) -> None:
    """Few columns of a matrix whose last row starts beyond 2^31 elements."""
    n, step = 2049, 1 << 20
    out = room[: n * step].view(np.float16).reshape(n, step)[:, :40]
    x = np.ones((n, 40), np.float16)
    assert gp.cumsum(x, axis=0, out=out) is out
    assert out.tobytes() == gp.cumsum(x, axis=0).tobytes()
    assert gp.cumsum(out[::-1], axis=0).tobytes() == gp.cumsum(out[::-1].copy(), axis=0).tobytes()


def test_lerp(room: Any) -> None:
    a, b = (np.broadcast_to(np.float16(v), (HUGE,)) for v in (1, 3))
    y = gp.lerp(a, b, 0.25, out=room[:HUGE].view(np.float16))
    assert all_words(y, int(np.float16(1.5).view(np.uint16)))


def test_a_table_and_its_gradient() -> None:
    """Rows beyond 2^31 elements are read and written; most of the table is never touched."""
    need(5)
    width = 1024
    rows = HUGE // width + 1
    table = np.zeros((rows, width), BF16)  # pages that nobody writes cost nothing
    chosen = np.array([0, rows - 1, rows // 2, rows - 2, (1 << 31) // width, rows - 1])
    values = np.random.default_rng(1).standard_normal((len(chosen), width)).astype(BF16)
    table[chosen] = values
    assert gp.embedding(table, chosen).tobytes() == table[chosen].tobytes()
    desc: Any = gp.EmbeddingBackwardDescriptor(
        num_embeddings=rows,
        embedding_dim=width,
        num_indices=len(chosen),
        element="bf16",
        accumulate=True,  # rows without members are left alone: nothing else is written
    )
    gp.EmbeddingBackwardPlan.select(desc).run(dout=values, indices=chosen, dweight=table)
    small = gp.embedding_backward(values, np.array([0, 1, 2, 3, 4, 1]), 5)
    kept = np.stack([values[0], values[5], values[2], values[3], values[4]])
    expected = (kept.astype(np.float32) + 0).astype(BF16)
    sums = gp.embedding_backward(
        values, np.array([0, 1, 2, 3, 4, 1]), 5, accumulate=True, out=expected
    )
    assert small.shape == sums.shape
    assert table[[0, rows - 1, rows // 2, rows - 2, (1 << 31) // width]].tobytes() == sums.tobytes()


def test_a_segment_sum_and_its_gradient(room: Any) -> None:
    """The rows repeat one; the ids are real, and sorted."""
    ids = np.zeros(HUGE // 1024, np.int32)
    ids[-3:] = 1
    x = np.broadcast_to(np.float16(1), (len(ids), 1030))
    assert x.size > 1 << 31
    total = gp.segment_sum(x, ids, 2)
    # 2^21 ones: far beyond f16's largest number, so the sum is rounded to infinity at the store.
    assert np.isinf(total[0]).all() and (total[1] == 3).all()
    back = room[:HUGE].view(np.float16).reshape(HUGE, 1)
    gp.segment_sum_backward(np.float16([[2], [5]]), np.broadcast_to(np.int32(1), (HUGE,)), out=back)
    assert [float(back[i, 0]) for i in spots(HUGE)] == [5] * 8


def test_sparsemax_of_many_rows(room: Any) -> None:
    rows, n = (1 << 21) + 3, 1025
    row = np.random.default_rng(2).standard_normal(n).astype(BF16)
    y = room[: rows * n].view(BF16).reshape(rows, n)
    gp.sparsemax(np.broadcast_to(row, (rows, n)), out=y)
    expected = gp.sparsemax(row).tobytes()
    for k in (0, (1 << 31) // n - 1, (1 << 31) // n, (1 << 31) // n + 1, rows - 1):
        assert y[k].tobytes() == expected
