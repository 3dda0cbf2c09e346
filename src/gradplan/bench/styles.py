"""Styles of values: what a kernel's speed must not depend on, and often does.

Subnormal numbers, zeros, infinities and NaN are slow on many a CPU, or lead to the careful half of
a kernel; order and equal values decide which way branches go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from gradplan.cases import Array

_SEED = 21
_LINES = 61
Drawn = np.random.Generator


def _normal(rng: Drawn, count: int) -> Array:
    return rng.standard_normal(count, np.float32)


def _some(rng: Drawn, count: int, value: float, share: float) -> Array:
    """N(0, 1), of which a share is another value."""
    x = _normal(rng, count)
    x[rng.random(count, np.float32) < share] = value
    return x


def _one(rng: Drawn, count: int, value: float) -> Array:
    x = _normal(rng, count)
    x[count // 2 : count // 2 + 1] = value
    return x


STYLES: Mapping[str, Callable[[Drawn, int], Array]] = {
    "N(0, 1)": _normal,
    "near 1": lambda rng, n: 1 + _normal(rng, n) / 100,
    "U(0, 1)": lambda rng, n: rng.random(n, np.float32),
    "x 100": lambda rng, n: 100 * _normal(rng, n),
    "1e30": lambda rng, n: np.float32(1e30) * _normal(rng, n),
    "1e-39": lambda rng, n: np.float32(1e-39) * _normal(rng, n),
    "ascending": lambda rng, n: np.sort(_normal(rng, n)),
    "descending": lambda rng, n: np.sort(_normal(rng, n))[::-1],
    "constant": lambda rng, n: np.full(n, 0.5, np.float32),
    "zeros": lambda rng, n: np.zeros(n, np.float32),
    "1 % zeros": lambda rng, n: _some(rng, n, 0.0, 0.01),
    "1 % NaN": lambda rng, n: _some(rng, n, math.nan, 0.01),
    "one inf": lambda rng, n: _one(rng, n, math.inf),
    "half -inf": lambda rng, n: _some(rng, n, -math.inf, 0.5),
}
"""By name: float32 values of that style."""


def draw(style: str, shape: tuple[int, ...]) -> Array:
    """Values of a style along the last axis: every line has them, each its own where it can.

    >>> draw("ascending", (2, 3)).shape
    (2, 3)
    """
    rng = np.random.default_rng(_SEED)
    *outer, length = shape or (1,)
    count = math.prod(outer)
    lines = np.empty((min(count, _LINES), length), np.float32)
    for line in lines:
        line[...] = STYLES[style](rng, length)
    return np.resize(lines, (count, length)).reshape(shape)
