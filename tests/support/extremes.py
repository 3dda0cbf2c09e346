"""Values at the ends of a type's range, for tests of what overflows."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import gradplan as gp

LENGTHS = (1, 2, 15, 16, 17, 255, 256, 257, 300, 513, 1024, 4095, 4096, 4097, 5000)
"""Around every step of a recurrence."""
finfo: Any = ml_dtypes.finfo  # NumPy's own does not know bfloat16


def extremes(element: gp.ElementKind, *, tiny: bool = True) -> Any:
    """Finite values, most of them at an end of the range."""
    info = finfo(element.dtype)
    top, bottom = float(info.max), float(info.smallest_subnormal)
    values = [top, -top, top / 2, -top / 3, 1.0, -2.0, 0.5, 0.0, -0.0]
    if tiny:
        values += [bottom, -bottom, float(info.smallest_normal)]
    return np.array(values).astype(element.dtype)


def draw(rng: Any, values: Any, shape: tuple[int, ...], zeros: float = 0.1) -> Any:
    """Of `values`, zeros among them as often as told."""
    nonzero = values[values != 0]
    drawn = nonzero[rng.integers(0, len(nonzero), shape)]
    drawn[rng.random(shape) < zeros] = 0
    return drawn
