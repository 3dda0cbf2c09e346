"""Gradients of scans in the reference: zeros, overflow and ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from oracle import Array, assert_close
from reference_cases import INF, NAN, assert_same_bits, each_extreme, each_ties, f32, random

from gradplan import reference


def cumprod_gradient(dy: Array, x: Array) -> Array:
    with np.errstate(all="ignore"):
        y = np.multiply.accumulate(x)
    return reference.scan_backward(dy, x, y, kind="cumprod", scan_axis=0)


@pytest.mark.parametrize("n", [5, 300, 4500])
@pytest.mark.parametrize("zeros", [1, 2, 3])
def test_cumprod_backward_with_zeros(n: int, zeros: int) -> None:
    rng = random("zeros", n, zeros)
    x = (np.exp(0.02 * rng.standard_normal(n))).astype(np.float32)
    at = np.sort(rng.choice(n, zeros, replace=False))
    x[at] = 0
    dy = rng.standard_normal(n).astype(np.float32)
    dx = cumprod_gradient(dy, x)
    assert_close(dx, oracle.along(oracle.cumprod_backward, dy, x, axis=0), 3 * n)
    assert_same_bits(dx[at[0] + 1 :], np.zeros(n - at[0] - 1, np.float32))


@pytest.mark.parametrize("n", [40, 300, 9000])
def test_a_zero_in_cumprod_survives_overflow(n: int) -> None:
    """No finite row gives NaN, and gradients in front of a zero do not see what is behind it."""
    rng = random("overflow", n)
    x = f32(rng.uniform(1, 1e4, n))
    x[:5] = rng.uniform(1, 2, 5)
    x[5] = x[7] = 0
    dy = f32(rng.standard_normal(n))
    y = reference.scan(x, kind="cumprod", scan_axis=0)
    assert_same_bits(y[5:], np.zeros(n - 5, np.float32))
    dx = reference.scan_backward(dy, x, y, kind="cumprod", scan_axis=0)
    exact, magnitude = oracle.along(oracle.cumprod_backward, dy[:8], x[:8], axis=0)
    assert_close(dx[:8], (exact, magnitude), 30)  # behind two zeros nothing comes through
    assert_same_bits(dx[6:], np.zeros(n - 6, np.float32))


def test_cumprod_backward_is_zero_behind_a_zero_whatever_overflows() -> None:
    x = f32([2, 0, 3e38, 3e38, 2])
    for dy in ([1, 1, 1, 1, 1], [1, 1, 1, INF, 1], [1, 1, 1, 1, NAN]):
        dx = cumprod_gradient(f32(dy), x)
        assert_same_bits(dx[2:], np.zeros(3, np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cumprod_backward_of_long_rows_stays_finite(dtype: str) -> None:
    """Block products far outside the type's range meet carries that bring them back."""
    tiny = float(np.finfo(dtype).smallest_subnormal)
    bits_per_block = 256 if dtype == "float32" else 2048
    factor = 2.0 ** (bits_per_block // 256)

    # Zero gradients behind blocks whose products overflow: 0 * inf must not appear.
    x = np.full(6000, factor, dtype)
    x[:3000] = 1 / factor
    dy = np.zeros(6000, dtype)
    dy[0] = 1
    assert_same_bits(cumprod_gradient(dy, x), dy)

    # One subnormal gradient that grows through a block and shrinks again through the next ones.
    x = np.ones(6000, dtype)
    dy = np.zeros(6000, dtype)
    dy[-1] = tiny
    x[-300:-44] = factor  # t = tiny * factor^256 is in range, factor^256 is not
    x[-812:-556] = 1 / factor
    dx = cumprod_gradient(dy, x)
    assert np.isfinite(dx).all()
    assert (dx[:5000] == tiny).all()

    # Products that vanish in the middle of a chunk and come back are still there at its end.
    x = np.ones(9000, dtype)
    x[6000:6512] = 1 / factor
    x[5000:5512] = factor
    dy = np.zeros(9000, dtype)
    dy[-1] = 1
    t_start = cumprod_gradient(dy, x)[0]
    assert np.isfinite(t_start)


@each_extreme
def test_ties(kind: str) -> None:
    sign = 1 if kind == "cummax" else -1
    x = sign * f32([1, 3, 3, 2, 3, 5, NAN, 7, NAN])
    dy = f32([1, 2, 4, 8, 16, 32, 64, 128, 256])

    def gradient(ties: str, reverse: bool = False) -> Any:
        dx = reference.scan_backward(dy, x, kind=kind, scan_axis=0, ties=ties, reverse=reverse)
        return dx.tolist()

    assert gradient("first") == [1, 30, 0, 0, 0, 32, 448, 0, 0]
    assert gradient("last") == [1, 2, 12, 0, 16, 32, 192, 0, 256]
    assert gradient("first", reverse=True) == [0, 0, 0, 0, 0, 0, 0, 0, 511]
    assert gradient("last", reverse=True) == [0, 0, 0, 0, 0, 0, 127, 0, 384]


@each_extreme
@each_ties
def test_every_gradient_of_an_extreme_arrives(kind: str, ties: str) -> None:
    rng = random("arrives", kind, ties)
    x = np.round(rng.standard_normal((3, 5000))).astype(np.float32)
    x[1, 2500] = NAN
    x[2, ::700] = NAN
    dy = rng.integers(-9, 10, (3, 5000)).astype(np.float32)  # sums are exact
    dx = reference.scan_backward(dy, x, kind=kind, scan_axis=1, ties=ties)
    np.testing.assert_array_equal(dx.sum(axis=1), dy.sum(axis=1))
