"""Exclusive scans: the inclusive ones, one element behind, and their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from layouts import LAYOUTS

import gradplan as gp
from gradplan.vocabulary import FLOATS

START = {
    "cumsum": 0.0,
    "cumprod": 1.0,
    "cummax": -math.inf,
    "cummin": math.inf,
    "logcumsumexp": -math.inf,
}
SHAPES = [((5, 4113), 1), ((300, 3), 0), ((2, 257, 3), 1), ((7,), 0), ((4, 1), 1), ((3, 0), 1)]
all_kinds = pytest.mark.parametrize("name", START)
both_ways = pytest.mark.parametrize("reverse", [False, True])


def values(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Any:
    return (1 + np.random.default_rng(seed).standard_normal(shape) / 16).astype(dtype)


def part(x: Any, axis: int, reverse: bool, last: bool) -> Any:
    """Without the last element in the order of the scan, or without the first."""
    n = x.shape[axis]
    at = slice(0, n - 1) if last != reverse else slice(1, n)
    return x[(slice(None),) * axis + (at,)]


def one(x: Any, axis: int, at_end: bool) -> Any:
    return np.take(x, [-1 if at_end else 0], axis)


@all_kinds
@both_ways
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("element", sorted(FLOATS), ids=str)
def test_one_behind(
    name: str, reverse: bool, shape: tuple[int, ...], axis: int, element: gp.ElementKind
) -> None:
    function, gradient = getattr(gp, name), getattr(gp, f"{name}_backward")
    x, dy = (values(shape, element.dtype, seed) for seed in (1, 2))
    options: dict[str, Any] = {"axis": axis, "reverse": reverse}
    y = function(x, **options, exclusive=True)
    saved = {"logcumsumexp": (x, y), "cumprod": (x, y), "cumsum": ()}.get(name, (x,))
    dx = gradient(dy, *saved, **options, exclusive=True)
    if x.size == 0:
        assert y.shape == dx.shape == shape
        return
    inner = part(x, axis, reverse, last=True)
    inclusive = function(inner, **options)
    assert part(y, axis, reverse, last=False).tobytes() == inclusive.tobytes()
    assert (one(y, axis, reverse).astype(float) == START[name]).all()
    later = part(dy, axis, reverse, last=False)
    kept = (inner, inclusive)[: len(saved)]
    assert (
        part(dx, axis, reverse, last=True).tobytes() == gradient(later, *kept, **options).tobytes()
    )
    assert not one(dx, axis, not reverse).astype(float).any()


@both_ways
@pytest.mark.parametrize("given", [False, True])
def test_recurrence(reverse: bool, given: bool) -> None:
    a, b, dh = (values((3, 700), seed=seed) for seed in range(3))
    initial = np.float32([2, 3, 4]) if given else None
    h = gp.linear_scan(a, b, initial, reverse=reverse, exclusive=True)
    short = [part(x, 1, reverse, last=True) for x in (a, b)]
    inclusive = gp.linear_scan(*short, initial, reverse=reverse)
    assert part(h, 1, reverse, last=False).tobytes() == inclusive.tobytes()
    first = one(h, 1, reverse)[:, 0]
    assert first.tolist() == ([2, 3, 4] if given else [0, 0, 0])
    got = gp.linear_scan_backward(dh, a, h, initial, reverse=reverse, exclusive=True)
    later = part(dh, 1, reverse, last=False)
    want = gp.linear_scan_backward(later, short[0], inclusive, initial, reverse=reverse)
    for x, y in zip(got[:2], want[:2], strict=True):
        assert part(x, 1, reverse, last=True).tobytes() == y.tobytes()
        assert not one(x, 1, not reverse).any()
    assert got[2].tolist() == (want[2] + one(dh, 1, reverse)[:, 0]).tolist()


@all_kinds
def test_layouts_and_scalars(name: str) -> None:
    function = getattr(gp, name)
    x = values((3, 40, 5))
    want = function(x, axis=1, exclusive=True)
    for layout in LAYOUTS.values():
        placed = layout(x.shape, x.dtype).put(x).array
        out = layout(x.shape, x.dtype).array
        function(placed, axis=1, exclusive=True, out=out)
        assert out.tobytes() == want.tobytes()
    assert function(np.float32(3), exclusive=True) == START[name]


def test_not_in_place() -> None:
    x = values((4, 20))
    gp.cumsum(x, out=x)
    with pytest.raises(gp.InvalidProblem, match="overlap"):
        gp.cumsum(x, exclusive=True, out=x)
    with pytest.raises(gp.InvalidProblem, match="overlap"):
        gp.cumsum_backward(x, exclusive=True, out=x)
