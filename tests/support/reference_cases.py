"""What the tests of the reference share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from oracle import Array

from gradplan.vocabulary import ElementKind, ScanKind

ELEMENTS = [kind.dtype for kind in ElementKind if kind.is_float]
INDEX_TYPES = [kind.dtype for kind in ElementKind if not kind.is_float]
KINDS = [kind.value for kind in ScanKind]
EXTREMES = ["cummax", "cummin"]
INF, NAN = math.inf, math.nan

each_element = pytest.mark.parametrize("dtype", ELEMENTS, ids=str)
each_kind = pytest.mark.parametrize("kind", KINDS)
each_extreme = pytest.mark.parametrize("kind", EXTREMES)
each_ties = pytest.mark.parametrize("ties", ["first", "last"])


def random(*key: Any) -> np.random.Generator:
    return np.random.default_rng([ord(c) for c in repr(key)])


def f32(values: Any) -> Array:
    return np.array(values, np.float32)


def bits(x: Array) -> Array:
    return np.asarray(x.view(f"u{x.dtype.itemsize}"))


def assert_same_bits(got: Array, want: Array) -> None:
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(bits(got), bits(want))


def scan_input(kind: str, shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> Array:
    """Rows that exercise the kind: products that stay in range, extremes with ties."""
    x: Array = rng.standard_normal(shape)
    if kind == "cumprod":
        x = np.exp(0.02 * x) * rng.choice([-1, 1], shape)
    elif kind in EXTREMES:
        rise = np.linspace(0, 3, shape[axis]).reshape(-1, *[1] * (-1 - axis))
        x = np.round(2 * x + rise)
    elif kind == "logcumsumexp":
        x = 3 * x
    return x
