"""Linear interpolation in the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from oracle import assert_close
from reference_cases import assert_same_bits, each_element, f32, random

from gradplan import reference


@each_element
@pytest.mark.parametrize("weight", [-1.5, 0, 0.1, 0.4999, 0.5, 0.9, 1, 3])
def test_lerp_is_accurate(dtype: np.dtype[Any], weight: float) -> None:
    rng = random("lerp", dtype, weight)
    a, b = (rng.standard_normal((20, 3)).astype(dtype) for _ in range(2))
    assert_close(reference.binary_param(a, b, param=weight), oracle.lerp(a, b, weight), 5)
    da, db = reference.binary_param_backward(a, param=weight)
    zero = np.zeros_like(a)
    assert_close(da, oracle.lerp(a, zero, weight), 2)
    assert_close(db, oracle.lerp(zero, a, weight), 2)


@each_element
def test_lerp_is_exact_at_both_ends(dtype: np.dtype[Any]) -> None:
    rng = random("ends", dtype)
    a, b = (
        (rng.standard_normal(500) * np.exp2(rng.integers(-14, 14, 500))).astype(dtype)
        for _ in range(2)
    )
    assert_same_bits(reference.binary_param(a, b, param=0), a)
    assert_same_bits(reference.binary_param(a, b, param=1), b)
    assert_same_bits(
        reference.binary_param(a[:1].reshape(()), b[:1].reshape(()), param=1), b[:1].reshape(())
    )


@pytest.mark.parametrize("weight", [-0.6, -0.5, -0.3, 0.3, 0.5, 0.7])
def test_lerp_changes_its_formula_at_one_half(weight: float) -> None:
    rng = random("formula", weight)
    a, b = f32(rng.standard_normal(99)), f32(rng.standard_normal(99))
    w = np.float32(weight)
    want = a + w * (b - a) if abs(w) < 0.5 else b - (b - a) * (np.float32(1) - w)
    assert_same_bits(reference.binary_param(a, b, param=weight), want)


def test_lerp_rounds_the_weight_once() -> None:
    a, b = f32([0]), f32([1])
    just_below = 0.5 - 2.0**-40  # becomes 0.5 in f32: the second formula
    assert_same_bits(
        reference.binary_param(a, b, param=just_below), reference.binary_param(a, b, param=0.5)
    )
    da, db = reference.binary_param_backward(b, param=0.1)
    assert da[0] == np.float32(1) - np.float32(0.1) and db[0] == np.float32(0.1)
