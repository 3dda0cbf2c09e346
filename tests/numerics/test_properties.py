"""What docs/numerics.md promises about hard cases, for every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layouts import words
from matrix import special_values
from samples import all_elements

import gradplan as gp

pytestmark = pytest.mark.usefixtures("engine")
INF, NAN = np.inf, np.nan
LENGTHS = (1, 16, 17, 255, 256, 257, 513, 4096, 4097, 9000)
lengths = pytest.mark.parametrize("n", LENGTHS)
reverses = pytest.mark.parametrize("reverse", [False, True])


def canonical_nan(kind: gp.ElementKind) -> int:
    """Sign 0, quiet bit 1, payload 0."""
    names = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8000000000000}
    return names[kind.value]


def nan_mask(x: Any) -> Any:
    with np.errstate(invalid="ignore"):  # which a signalling NaN raises on its way through bfloat16
        return np.isnan(x)


def special_nans(kind: gp.ElementKind) -> Any:
    values = special_values(kind)
    return values[nan_mask(values)]


def assert_nans_are_canonical(y: Any, kind: gp.ElementKind) -> None:
    found = words(np.ascontiguousarray(y))[np.isnan(y)]
    assert (found == canonical_nan(kind)).all()


# Order


@reverses
@lengths
@all_elements
def test_the_cumsum_of_non_negative_numbers_never_decreases(
    element: gp.ElementKind, n: int, reverse: bool
) -> None:
    rng = np.random.default_rng(n)
    x = (rng.random((4, n)) ** 8 * 2.0 ** rng.integers(-12, 1, (4, n))).astype(element.dtype)
    x[:, ::7] = 0
    y = gp.cumsum(x, axis=1, reverse=reverse)
    steps = np.diff((y[:, ::-1] if reverse else y).astype(np.float64), axis=1)
    assert (steps >= 0).all()
    # In the compute type as well, where nothing is rounded away at the store.
    wide = gp.cumsum(x.astype(element.compute.dtype), axis=1, reverse=reverse)
    assert (np.diff(wide[:, ::-1] if reverse else wide, axis=1) >= 0).all()


@lengths
@all_elements
def test_up_to_sixteen_it_is_the_serial_loop(element: gp.ElementKind, n: int) -> None:
    x = np.random.default_rng(n).standard_normal(min(n, 16)).astype(element.compute.dtype)
    assert gp.cumsum(x).tobytes() == np.add.accumulate(x).tobytes()
    assert gp.cumprod(x).tobytes() == np.multiply.accumulate(x).tobytes()


@all_elements
def test_up_to_256_members_a_segment_is_the_serial_loop(element: gp.ElementKind) -> None:
    x = np.random.default_rng(1).standard_normal((256, 3)).astype(element.compute.dtype)
    total = gp.segment_sum(x, np.zeros(256, int), 1)
    assert total[0].tobytes() == np.add.accumulate(x)[-1].tobytes()


# Zeros


@all_elements
def test_signed_zeros(element: gp.ElementKind) -> None:
    negative = np.full(600, -0.0, element.dtype)
    mixed = negative.copy()
    mixed[300] = 0.0
    for function in (gp.cumsum, gp.cummax, gp.cummin):
        assert np.signbit(function(negative)).all()
    assert np.signbit(gp.cumsum(mixed)).tolist() == [True] * 300 + [False] * 300
    # Of equal values the first one stays.
    assert np.signbit(gp.cummax(mixed)).all() and np.signbit(gp.cummin(mixed)).all()
    ids = np.zeros(600, int)
    assert np.signbit(gp.segment_sum(negative[:, None], ids, 2)).ravel().tolist() == [True, False]


@reverses
@lengths
def test_cumprod_behind_a_zero_is_zero(n: int, reverse: bool) -> None:
    """Even where the product of the rest overflows, or overflows for a while."""
    for element in (np.float32, np.float64):
        big = float(np.sqrt(np.finfo(element).max)) * 2
        for at in {0, n // 3, n - 1}:
            x = np.full(n, big, element)
            x[at] = 0
            x[at + 5 :: 3] = 1 / big
            y = gp.cumprod(x[::-1].copy() if reverse else x, reverse=reverse)
            y = y[::-1] if reverse else y
            assert (y[at:] == 0).all()


@lengths
@all_elements
def test_a_product_that_vanished_stays_zero(element: gp.ElementKind, n: int) -> None:
    """A group whose own product overflows in between meets a carry that has underflowed to 0."""
    compute = element.compute.dtype
    big, small = (1e30, 1e-30) if compute == np.float32 else (1e200, 1e-200)
    pattern = np.ones(n, compute)
    pattern[: min(n, 4)] = small
    for start in range(16, n, 16):
        pattern[start] = big
        if start % 32 and start + 1 < n:
            pattern[start + 1] = small
    y = gp.cumprod(pattern)
    assert not np.isnan(y).any()
    assert (y[3:] == 0).all() if n > 3 else True


@all_elements
def test_cumprod_gradients_with_zeros(element: gp.ElementKind) -> None:
    """dx[k] is the sum of dy times the products without x[k]: exact here, with 0, 1 and 2 zeros."""
    for zeros in ([], [5], [5, 9], [0], [0, 1], [19]):
        x = np.where(np.arange(20) % 3 == 0, 2.0, 0.5)
        x[zeros] = 0
        dy = np.arange(1.0, 21.0)
        expected = [
            sum(dy[i] * np.prod(np.delete(x[: i + 1], k)) for i in range(k, 20)) for k in range(20)
        ]
        cast = x.astype(element.dtype)
        got = gp.cumprod_backward(dy.astype(element.dtype), cast, gp.cumprod(cast))
        tolerance = 4 * float(np.finfo(np.float32).eps if element.value == "f32" else 1e-15)
        if element.value in ("f16", "bf16"):
            tolerance = 0.02
        np.testing.assert_allclose(got.astype(float), expected, rtol=tolerance)
        if zeros:
            assert (got[zeros[0] + 1 :] == 0).all()


@lengths
def test_cumprod_gradients_stay_finite(n: int) -> None:
    """Partial products of the gradient's recurrence overflow and vanish on the way."""
    x = np.ones(n)
    x[1::3], x[2::3] = 1e200, 1e-200
    y = gp.cumprod(x)
    assert np.isfinite(y).all()
    dx = gp.cumprod_backward(np.where(np.arange(n) % 3 == 0, 1.0, 0.0), x, y)
    assert not np.isnan(dx).any()
    zeros = x.copy()
    zeros[n // 2] = 0
    dx = gp.cumprod_backward(np.ones(n), zeros, gp.cumprod(zeros))
    assert not np.isnan(dx).any() and (dx[n // 2 + 1 :] == 0).all()


# Infinities and NaN


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
@all_elements
def test_nan_sticks_and_is_canonical(element: gp.ElementKind, name: str) -> None:
    nans = special_nans(element)
    assert len({int(word) for word in words(nans)}) == len(nans)  # payloads and signs
    for n, at in ((20, 3), (700, 300), (5000, 4500)):
        for nan in nans:
            x = np.full((1, n), 0.5, element.dtype)
            words(x)[0, at] = words(nan[None])[0]
            y = getattr(gp, name)(x)
            assert np.isnan(y[0, at:]).all() and not np.isnan(y[0, :at]).any()
            assert_nans_are_canonical(y, element)


@all_elements
def test_copies_keep_payloads(element: gp.ElementKind) -> None:
    table = np.stack([special_values(element)] * 3, axis=1)
    indices = np.arange(len(table))[::-1].copy()
    assert gp.embedding(table, indices).tobytes() == table[::-1].tobytes()
    assert gp.segment_sum_backward(table, indices).tobytes() == table[::-1].tobytes()


@all_elements
def test_sums_of_one_member_canonicalise(element: gp.ElementKind) -> None:
    values = special_values(element)[:, None]
    total = gp.segment_sum(values, np.arange(len(values)), len(values))
    assert_nans_are_canonical(total, element)
    numbers = ~nan_mask(values)
    assert words(total)[numbers].tolist() == words(values)[numbers].tolist()


@reverses
@lengths
@all_elements
def test_logcumsumexp_of_infinities(element: gp.ElementKind, n: int, reverse: bool) -> None:
    x = np.full((3, n), -INF, element.dtype)
    x[1, n // 2] = 3.0
    x[2, n // 2] = INF
    y = gp.logcumsumexp(x, axis=1, reverse=reverse)
    rows = y[:, ::-1] if reverse else y
    at = n - 1 - n // 2 if reverse else n // 2
    assert (rows[0] == -INF).all()
    assert (rows[1:, :at] == -INF).all()
    assert (rows[1, at:] == 3).all() and (rows[2, at:] == INF).all()
    dx = gp.logcumsumexp_backward(np.ones_like(x), x, y, axis=1, reverse=reverse)
    assert (words(np.ascontiguousarray(dx))[x == -INF] == 0).all()  # weight +0, not NaN
    assert dx[1, n // 2] == n - at
    large = np.full(n, 1e4, element.dtype)
    assert np.isfinite(gp.logcumsumexp(large)).all()  # never exp of the value itself


# Ties


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@all_elements
def test_gradients_at_ties(element: gp.ElementKind, name: str) -> None:
    backward = getattr(gp, f"{name}_backward")
    for n in (3, 40, 700, 5000):
        x = np.ones(n, element.dtype)
        dy = np.zeros(n, element.dtype)
        dy[::5] = 1
        first = backward(dy, x)
        assert first[0] == (n + 4) // 5 and not first[1:].any()
        last = backward(dy, x, ties="last")
        assert last.tolist() == dy.tolist()


# Empty and masked


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (3, 0, 2), (600, 0), (0, 600)])
@all_elements
def test_empty_axes(element: gp.ElementKind, shape: tuple[int, ...]) -> None:
    x = np.empty(shape, element.dtype)
    for axis in range(len(shape)):
        for name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sparsemax"):
            y = getattr(gp, name)(x, axis=axis)
            assert y.shape == shape and y.dtype == element.dtype
        assert gp.cumsum_backward(x, axis=axis).shape == shape
        assert gp.cumprod_backward(x, x, x, axis=axis).shape == shape
        assert gp.cummax_backward(x, x, axis=axis).shape == shape
        assert gp.logcumsumexp_backward(x, x, x, axis=axis).shape == shape
        assert gp.sparsemax_backward(x, x, axis=axis).shape == shape
    assert gp.lerp(x, x, 0.5).shape == shape


@all_elements
def test_empty_segments_and_tables(element: gp.ElementKind) -> None:
    one = np.ones((3, 2), element.dtype)
    ids = np.array([1, 1, 3])
    total = gp.segment_sum(one, ids, 5)
    assert total[:, 0].tolist() == [0, 2, 0, 1, 0] and not np.signbit(total).any()
    assert gp.segment_sum(one, ids, 0, bounds="skip").shape == (0, 2)
    assert not gp.segment_sum(one[:0], ids[:0], 5).any()
    assert gp.segment_sum(one[:, :0], ids, 5).shape == (5, 0)
    assert not gp.segment_sum_backward(one[:0], ids, bounds="skip").any()
    assert not gp.embedding(one[:0], ids, bounds="skip").any()
    assert gp.embedding(one, ids[:0]).shape == (0, 2)
    assert not gp.embedding_backward(one[:0], ids[:0], 4).any()


@pytest.mark.parametrize("n", [1, 5, 16, 17, 300, 5000])
@all_elements
def test_masked_rows_of_sparsemax(element: gp.ElementKind, n: int) -> None:
    x = np.random.default_rng(n).standard_normal((6, n)).astype(element.dtype)
    x[0] = -INF
    x[1, n // 2] = INF
    x[2, n // 2] = NAN
    x[3, 1:] = -INF
    x[4, n // 2 :] = -INF
    y = gp.sparsemax(x)
    assert np.isnan(y[:3]).all()
    assert_nans_are_canonical(y, element)
    assert y[3].tolist() == [1] + [0] * (n - 1)
    assert not y[4, n // 2 :].any() or n == 1
    assert np.isfinite(y[5]).all()


def test_indices_that_are_skipped() -> None:
    weight = np.float32([[1, 2], [3, 4], [5, 6]])
    indices = np.array([0, -1, 3, 2, 1, -(2**62), 2**62])
    out = gp.embedding(weight, indices, padding_idx=1, bounds="skip")
    assert out.tolist() == [[1, 2], [0, 0], [0, 0], [5, 6], [0, 0], [0, 0], [0, 0]]
    assert not np.signbit(out).any()
    dout = np.ones((7, 2), np.float32)
    grad = gp.embedding_backward(dout, indices, 3, padding_idx=1, bounds="skip")
    assert grad.tolist() == [[1, 1], [0, 0], [1, 1]]
    before = np.float32([[NAN, -0.0], [7, 7], [1, 1]])
    kept = words(before[1:2].copy()).tolist()
    gp.embedding_backward(
        np.ones((1, 2), np.float32), np.array([2]), 3, accumulate=True, out=before
    )
    assert words(before[1:2]).tolist() == kept  # rows without members stay, bit for bit
    assert before[2].tolist() == [2, 2] and np.isnan(before[0, 0]) and np.signbit(before[0, 1])
