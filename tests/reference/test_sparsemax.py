"""Sparsemax in the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from oracle import assert_close
from reference_cases import INF, NAN, assert_same_bits, each_element, f32, random

from gradplan import reference


def test_row_reduction_order() -> None:
    rng = random("lanes")
    y = rng.choice([0, 0.1], 1000).astype(np.float32)
    dy = rng.standard_normal(1000).astype(np.float32)
    lanes = [np.float32(-0.0)] * 16
    for i in range(1000):
        lanes[i % 16] += dy[i] if y[i] > 0 else np.float32(-0.0)
    for half in (8, 4, 2, 1):
        lanes = [lanes[i] + lanes[i + half] for i in range(half)]
    mean = lanes[0] / np.float32((y > 0).sum())
    got = reference.sparsemax_backward(dy, y, softmax_axis=0)
    assert_same_bits(got, np.where(y > 0, dy - mean, np.float32(0)))


@each_element
@pytest.mark.parametrize("spread", [1e-3, 0.3, 3.0])
def test_sparsemax_integers(dtype: np.dtype[Any], spread: float) -> None:
    """The support from a sort of the exact integers, instead of a shrinking set."""
    compute = oracle.compute_dtype(dtype).type
    for n in (1, 2, 9, 1000):
        x = (spread * random(dtype, spread, n).standard_normal(n)).astype(dtype)
        v = x.astype(compute) - x.astype(compute).max()
        unit = 2 ** (60 if compute is np.float64 else 30)
        q = [int(value * compute(unit)) for value in v if value > -1]  # int() truncates
        total = k = 0
        for value in sorted(q, reverse=True):
            if unit + (k + 1) * value > total + value:
                total, k = total + value, k + 1
        threshold, rest = divmod(total - unit, k)
        tau = compute((float(threshold) + float(rest) / float(k)) * (1 / unit))
        want = np.where(v > tau, v - tau, compute(0)).astype(dtype)
        assert_same_bits(reference.sparsemax(x, softmax_axis=0), want)


@each_element
@pytest.mark.parametrize("n", [0, 1, 2, 16, 300, 4097])
def test_sparsemax_is_accurate(dtype: np.dtype[Any], n: int) -> None:
    rng = random("sparsemax", dtype, n)
    for spread in (1e-4, 0.1, 3):
        for shape, axis in (((3, n), -1), ((n, 2), 0)):
            x = (spread * rng.standard_normal(shape)).astype(dtype)
            y = reference.sparsemax(x, softmax_axis=axis)
            # The integers resolve 2^-30 of the 2^-24 (2^-60 of the 2^-53) that f32 (f64) does.
            assert_close(y, oracle.along(oracle.sparsemax, x, axis=axis), 4)
            dy = rng.standard_normal(shape).astype(dtype)
            exact = oracle.along(oracle.sparsemax_backward, dy, y, axis=axis)
            dx = reference.sparsemax_backward(dy, y, softmax_axis=axis)
            assert_close(dx, exact, oracle.lane_depth(n) + 2)


def test_sparsemax_of_masked_and_undefined_rows() -> None:
    def row(*x: float) -> Any:
        return reference.sparsemax(f32(x), softmax_axis=0).tolist()

    assert row(1, -INF, 1, -INF) == [0.5, 0, 0.5, 0]
    assert row(-INF, -3e38) == [0, 1]
    assert row(3e38, -3e38) == [1, 0]
    for undefined in ([1, NAN], [INF, 1], [-INF, -INF], [INF, -INF], [NAN, INF]):
        assert np.isnan(row(*undefined)).all()
    batch = f32([[1, NAN], [0, 5], [-INF, -INF], [2, 2]])
    got = reference.sparsemax(batch, softmax_axis=1)
    np.testing.assert_array_equal(got, [[NAN, NAN], [0, 1], [NAN, NAN], [0.5, 0.5]])


def test_sparsemax_backward_off_the_support() -> None:
    dy = f32([[5, 1, 7], [INF, 1, 3], [1, 2, 3]])
    y = f32([[0.5, 0.5, 0], [0, 0.25, 0.75], [NAN, NAN, NAN]])
    dx = reference.sparsemax_backward(dy, y, softmax_axis=1)
    assert_same_bits(dx, f32([[2, -2, 0], [0, -1, 1], [0, 0, 0]]))


def test_sparsemax_scalar() -> None:
    one = np.array(7.0, np.float32)
    assert_same_bits(reference.sparsemax(one, softmax_axis=0), np.array(1, np.float32))
    assert_same_bits(
        reference.sparsemax_backward(one, one, softmax_axis=-1), np.array(0, np.float32)
    )
