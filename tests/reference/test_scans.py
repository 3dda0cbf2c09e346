"""Scans in the reference: accuracy, layouts, special values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import oracle
import pytest
from oracle import Array, assert_close
from reference_cases import (
    ELEMENTS,
    EXTREMES,
    INF,
    NAN,
    assert_same_bits,
    each_element,
    each_extreme,
    each_kind,
    f32,
    random,
    scan_input,
)

from gradplan import reference

SHORT = [0, 1, 15, 16, 17, 255, 256, 257]  # around a group and a block
LONG = [4095, 4096, 4097]  # around a chunk


def scan_depth(kind: str, n: int) -> float:
    return {
        "cumsum": oracle.scan_depth(n),
        "cumprod": n,
        "logcumsumexp": 8 * oracle.recurrence_depth(n) + 8,  # exp, log and two roundings a step
    }.get(kind, 0)


@each_element
@each_kind
@pytest.mark.parametrize("n", SHORT + LONG)
def test_scan_is_accurate(dtype: np.dtype[Any], kind: str, n: int) -> None:
    rng = random(dtype, kind, n)
    for shape, axis, reverse in (((2, n), -1, False), ((n, 2), -2, True), ((1, n, 2), -2, False)):
        x = scan_input(kind, shape, axis, rng).astype(dtype)
        exact = oracle.along(oracle.scan(kind), x, axis=axis, reverse=reverse)
        got = reference.scan(x, kind=kind, scan_axis=axis, reverse=reverse)
        assert got.dtype == dtype
        assert_close(got, exact, scan_depth(kind, n))
        if kind in EXTREMES:
            np.testing.assert_array_equal(got, exact[0].astype(dtype))


# The oracle's quadratic definitions are slow: one long row, of the types that are compute types.
BACKWARD = [(d, n) for d in ELEMENTS for n in [*SHORT, 4097] if n in SHORT or d.itemsize > 2]


@pytest.mark.parametrize(("dtype", "n"), BACKWARD, ids=str)
@each_kind
def test_scan_backward_is_accurate(dtype: np.dtype[Any], kind: str, n: int) -> None:
    rng = random(dtype, kind, n)
    layouts: list[tuple[tuple[int, ...], int, bool]] = [((1, n), -1, n % 2 == 1)]
    if n in SHORT:
        layouts += [((n, 2), -2, True), ((1, n, 2), -2, False)]
    for shape, axis, reverse in layouts:
        dy = rng.standard_normal(shape).astype(dtype)
        x = scan_input(kind, shape, axis, rng).astype(dtype)
        where: dict[str, Any] = {"scan_axis": axis, "reverse": reverse}
        y = reference.scan(x, kind=kind, **where)
        lines: dict[str, Any] = {"axis": axis, "reverse": reverse}
        if kind == "cumsum":
            got = reference.scan_backward(dy, kind=kind, **where)
            assert_close(
                got, oracle.along(oracle.cumsum_backward, dy, **lines), scan_depth(kind, n)
            )
        elif kind == "cumprod":
            got = reference.scan_backward(dy, x, y, kind=kind, **where)
            exact = oracle.along(oracle.cumprod_backward, dy, x, **lines)
            stored_y = oracle.roundoff(dtype) / oracle.roundoff(oracle.compute_dtype(dtype))
            assert_close(got, exact, 3 * n + stored_y)
        elif kind == "logcumsumexp":
            got = reference.scan_backward(dy, x, y, kind=kind, **where)
            exact = oracle.along(oracle.logcumsumexp_backward, dy, x, y, **lines)
            assert_close(got, exact, 8 * oracle.recurrence_depth(n) + 8)
        else:
            for ties in ("first", "last"):
                got = reference.scan_backward(dy, x, kind=kind, ties=ties, **where)

                def gradient(g: Array, v: Array, ties: str = ties) -> oracle.Exact:
                    return oracle.extreme_backward(g, v, kind=kind, ties=ties)

                exact = oracle.along(gradient, dy, x, **lines)
                assert_close(got, exact, oracle.recurrence_depth(n))


@each_element
@each_kind
def test_rows_do_not_depend_on_layout_or_batch(dtype: np.dtype[Any], kind: str) -> None:
    rng = random("layout", dtype, kind)
    x, dy = (scan_input(kind, (3, 300, 2), -2, rng).astype(dtype) for _ in range(2))
    y = reference.scan(x, kind=kind, scan_axis=1)
    dx = reference.scan_backward(dy, x, y, kind=kind, scan_axis=-2)
    for i in range(3):
        for j in range(2):
            alone = [np.ascontiguousarray(tensor[i, :, j]) for tensor in (dy, x, y)]
            assert_same_bits(y[i, :, j], reference.scan(alone[1], kind=kind, scan_axis=0))
            assert_same_bits(dx[i, :, j], reference.scan_backward(*alone, kind=kind, scan_axis=0))
    flipped = [tensor[::-1, ::-1].transpose(2, 0, 1) for tensor in (dy, x, y)]
    got = reference.scan(flipped[1], kind=kind, scan_axis=2, reverse=True)
    assert_same_bits(got, flipped[2])
    got = reference.scan_backward(*flipped, kind=kind, scan_axis=2, reverse=True)
    assert_same_bits(got, dx[::-1, ::-1].transpose(2, 0, 1))


@each_kind
def test_scalars_and_empty_tensors(kind: str) -> None:
    one = np.array(2.0, np.float32)
    for axis in (0, -1):
        assert_same_bits(reference.scan(one, kind=kind, scan_axis=axis), one)
        dx = reference.scan_backward(one, one, one, kind=kind, scan_axis=axis)
        assert_same_bits(dx, one)
    for shape in ((0, 3), (3, 0), (2, 0, 3), (300, 0)):
        empty = np.zeros(shape, np.float16)
        for axis in range(len(shape)):
            assert reference.scan(empty, kind=kind, scan_axis=axis).shape == shape
            dx = reference.scan_backward(empty, empty, empty, kind=kind, scan_axis=axis)
            assert dx.shape == shape and dx.dtype == empty.dtype


@each_element
@pytest.mark.parametrize("n", [17, 4097, 65537])
def test_cumsum_of_non_negative_numbers_never_decreases(dtype: np.dtype[Any], n: int) -> None:
    rng = random("monotone", dtype, n)
    x = np.exp2(rng.integers(-12, 4, (2, n))) * rng.random((2, n))
    y = reference.scan((x / n).astype(dtype), kind="cumsum", scan_axis=1).astype(np.float64)
    assert (np.diff(y) >= 0).all()


def test_a_missing_carry_adds_nothing() -> None:
    """-0.0 survives sums that have no other term, on every level and behind a record."""
    n = 5000
    x = np.full(n, -0.0, np.float32)
    assert_same_bits(reference.scan(x, kind="cumsum", scan_axis=0), x)
    assert_same_bits(reference.scan_backward(x, kind="cumsum", scan_axis=0), x)
    rising = np.arange(n, dtype=np.float32)
    assert_same_bits(reference.scan_backward(x, rising, kind="cummax", scan_axis=0), x)
    ids = np.zeros(n, np.int64)
    assert_same_bits(reference.segment_sum(x[:, None], ids, num_segments=1), x[:1, None])


def test_infinities_and_nan_in_scans() -> None:
    def scan(kind: str, *x: float) -> Any:
        return reference.scan(f32(x), kind=kind, scan_axis=0).tolist()

    def same(got: list[float], want: list[float]) -> None:
        np.testing.assert_array_equal(got, want)

    same(scan("cumsum", 1, INF, 1, -INF, 1), [1, INF, INF, NAN, NAN])
    same(scan("cumprod", 2, INF, -1, 0, NAN), [2, INF, -INF, 0, NAN])
    same(scan("cummax", 1, -INF, INF, NAN, INF), [1, 1, INF, NAN, NAN])
    same(scan("cummin", 1, INF, NAN, -INF), [1, 1, NAN, NAN])
    same(scan("logcumsumexp", -INF, -INF, 1, -INF), [-INF, -INF, 1, 1])
    same(scan("logcumsumexp", 1, INF, 2, -INF, INF, NAN, 1), [1, INF, INF, INF, INF, NAN, NAN])


@each_kind
@pytest.mark.parametrize("n", [40, 9000])
def test_nan_sticks(kind: str, n: int) -> None:
    x = scan_input(kind, (n,), -1, random("sticks", kind, n)).astype(np.float32)
    for position in (0, 7, n // 2, n - 1):
        poisoned = x.copy()
        poisoned[position] = NAN
        y = reference.scan(poisoned, kind=kind, scan_axis=0)
        clean = reference.scan(x, kind=kind, scan_axis=0)
        assert_same_bits(y[:position], clean[:position])
        assert np.isnan(y[position:]).all()


@each_extreme
def test_equal_extremes_keep_the_first(kind: str) -> None:
    for zeros in ([0.0, -0.0], [-0.0, 0.0]):
        x = f32(zeros * 3000)
        want = np.full_like(x, x[0])
        assert_same_bits(reference.scan(x, kind=kind, scan_axis=0), want)


def test_logcumsumexp_of_minus_infinity() -> None:
    """-inf is the identity, over blocks and chunks too, and takes no gradient."""
    n = 9000
    x = np.full(n, -INF, np.float32)
    assert_same_bits(reference.scan(x, kind="logcumsumexp", scan_axis=0), x)
    dy = np.ones(n, np.float32)
    zeros = np.zeros(n, np.float32)
    assert_same_bits(reference.scan_backward(dy, x, x, kind="logcumsumexp", scan_axis=0), zeros)

    x[[5000, 8000]] = 3.0, 4.0
    y = reference.scan(x, kind="logcumsumexp", scan_axis=0)
    assert (y[:5000] == -INF).all() and (y[5000:8000] == 3).all()
    np.testing.assert_allclose(y[8000:], np.logaddexp(3, 4), rtol=1e-6)
    dx = reference.scan_backward(dy, x, y, kind="logcumsumexp", scan_axis=0)
    share = 1000 / (1 + math.e)
    np.testing.assert_allclose(dx[[5000, 8000]], [3000 + share, 1000 - share], rtol=1e-5)
    dx[[5000, 8000]] = 0
    assert_same_bits(dx, zeros)


def test_logcumsumexp_does_not_overflow() -> None:
    for n in (5, 9000):
        for level in (-3e38, 3e38, 88.0, -104.0):
            x = np.full(n, level, np.float32)
            y = reference.scan(x, kind="logcumsumexp", scan_axis=0)
            np.testing.assert_allclose(y, level + np.log(np.arange(1, n + 1)), rtol=1e-6)
            dx = reference.scan_backward(x * 0 + 1, x, y, kind="logcumsumexp", scan_axis=0)
            assert np.isfinite(dx).all()
