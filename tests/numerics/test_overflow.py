"""Overflow of lerp and of cumprod's gradient: finite inputs never give NaN, for every engine."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from extremes import LENGTHS, draw, extremes, finfo
from samples import all_elements

import gradplan as gp
from gradplan import reference

pytestmark = pytest.mark.usefixtures("engine")
lengths = pytest.mark.parametrize("n", LENGTHS)
reverses = pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])


# cumprod's gradient


def gradient(dy: Any, x: Any, reverse: bool = False, axis: int = -1) -> Any:
    y = gp.cumprod(x, axis=axis, reverse=reverse)
    assert not np.isnan(y.astype(np.float64)).any()
    dx = gp.cumprod_backward(dy, x, y, axis=axis, reverse=reverse)
    want = reference.scan_backward(
        dy, x, y, kind="cumprod", scan_axis=axis % x.ndim, reverse=reverse
    )
    assert dx.tobytes() == want.tobytes()
    in_place = dy.copy()
    gp.cumprod_backward(in_place, x, y, axis=axis, reverse=reverse, out=in_place)
    assert in_place.tobytes() == want.tobytes()
    return dx


@reverses
@lengths
@all_elements
def test_gradients_of_cumprod_are_never_nan(element: gp.ElementKind, n: int, reverse: bool) -> None:
    """Blocks and chunks are joined, and whatever can overflow does."""
    rng = np.random.default_rng(n)
    values = extremes(element)
    for zeros in (0.0, 0.01, 0.3):
        x = draw(rng, values, (5, n), zeros)
        x[1:3] = np.where(rng.random((2, n)) < 0.9, np.sign(x[1:3].astype(np.float64)), x[1:3])
        dy = draw(rng, values, (5, n), max(zeros, 0.5))
        for axis, turn in ((1, False), (0, True)):
            args = [np.ascontiguousarray(t.T if turn else t) for t in (dy, x)]
            dx = gradient(*args, reverse=reverse, axis=axis)
            assert not np.isnan(dx.astype(np.float64)).any()


def exact_t(dy: Any, x: Any) -> tuple[list[Fraction], list[Fraction], list[Fraction]]:
    """t[i] = dy[i] + x[i+1] t[i+1], the same of absolute values, and its largest so far."""
    n = len(x)
    t, size, reached = ([Fraction(0)] * n for _ in range(3))
    for i in reversed(range(n)):
        last = i + 1 == n
        factor = Fraction(0) if last else Fraction(float(x[i + 1]))
        b = Fraction(float(dy[i]))
        t[i] = b + (factor * t[i + 1] if not last else 0)
        size[i] = abs(b) + (abs(factor) * size[i + 1] if not last else 0)
        reached[i] = max(size[i], reached[i + 1]) if factor else size[i]
    return t, size, reached


def to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


@reverses
@pytest.mark.parametrize("n", [1, 4, 12, 40, 300])
@all_elements
def test_gradients_of_cumprod_against_fractions(
    element: gp.ElementKind, n: int, reverse: bool
) -> None:
    """dx = y_before t with the exact t: near it while t stays in range, and where y has overflowed
    zero or infinite as t is zero or not."""
    rng = np.random.default_rng([n, reverse])
    compute = element.compute.dtype
    unit, top = Fraction(float(finfo(compute).eps)), Fraction(float(finfo(compute).max))
    checked = infinite = 0
    for _ in range(12 if n < 100 else 3):
        x, dy = (
            draw(rng, extremes(element, tiny=False), (n,)),
            draw(rng, extremes(element, tiny=False), (n,), 0.4),
        )
        dx = gradient(dy, x, reverse)
        y = gp.cumprod(x, reverse=reverse)
        order = slice(None, None, -1) if reverse else slice(None)
        dx, x, dy, y = dx[order], x[order], dy[order], y[order]
        t, size, reached = exact_t(dy, x)
        for i in range(n):
            y_before = 1.0 if i == 0 else float(y[i - 1])
            if y_before == 0 or size[i] == 0:
                assert dx[i] == 0
            if reached[i] > top / 2:
                continue  # t may have overflowed on its way
            error = 2 * (n + 2) * unit * size[i]
            if np.isinf(y_before):
                if abs(t[i]) > error:
                    infinite += 1
                    assert dx[i] == y_before * np.sign(float(t[i] / abs(t[i])))
                continue
            rounding = 2 * Fraction(float(finfo(element.dtype).eps))
            bound = abs(Fraction(y_before)) * (error + rounding * (size[i] + error))
            bound += 2 * Fraction(float(finfo(element.dtype).smallest_subnormal))
            middle = Fraction(y_before) * t[i]
            low, high = to_float(middle - bound), to_float(middle + bound)
            with np.errstate(over="ignore"):
                low, high = (float(np.array(v).astype(element.dtype)) for v in (low, high))
            assert low <= float(dx[i]) <= high
            checked += 1
    assert checked and (infinite or n not in (12, 40))


@lengths
def test_of_opposite_infinities_the_one_that_came_first_stays(n: int) -> None:
    """Where a whole row overflows its signs are those of the serial loop, whatever is joined."""
    rng = np.random.default_rng(n)
    x = np.where(rng.random(n) < 0.5, -3e38, 3e38).astype(np.float32)
    dy = np.where(rng.random(n) < 0.5, -3e38, 3e38).astype(np.float32)
    y = np.ones_like(x)
    t = gp.cumprod_backward(dy, x, y)
    want = dy.copy()
    with np.errstate(over="ignore"):
        for i in reversed(range(n - 1)):
            want[i] = dy[i] + x[i + 1] * want[i + 1]
    assert t.tobytes() == want.tobytes()


@pytest.mark.parametrize("n", [3, 40, 300, 5000])
@all_elements
def test_nan_that_comes_in_comes_out(element: gp.ElementKind, n: int) -> None:
    rng = np.random.default_rng(n)
    values = extremes(element)
    for at in {0, n // 2, n - 1}:
        x, dy = draw(rng, values, (n,), 0), draw(rng, values, (n,), 0.3)
        x[:2] = 1
        y = np.ones_like(x)
        missing = dy.copy()
        missing[at] = np.nan
        got = gp.cumprod_backward(missing, x, y)
        assert np.isnan(got[: at + 1].astype(np.float64)).all()
        factor = x.copy()
        factor[at] = np.nan
        got = gp.cumprod_backward(dy, factor, y).astype(np.float64)
        assert np.isnan(got[:at]).all()
        y[at] = np.nan
        got = gp.cumprod_backward(dy, x, y).astype(np.float64)
        assert np.isnan(got[at + 1 : at + 2]).all()
        assert not np.isnan(np.delete(got, slice(at + 1, at + 2))).any()


# lerp


@pytest.mark.parametrize("weight", [0, 1e-30, 0.1, 0.25, 0.4999, 0.5, 0.51, 0.75, 0.999, 1])
@all_elements
def test_lerp_of_opposite_extremes(element: gp.ElementKind, weight: float) -> None:
    """Within the range, exact at both ends, and as near the true value as elsewhere."""
    values = extremes(element)
    a, b = (np.ascontiguousarray(v).ravel() for v in np.meshgrid(values, values))
    with np.errstate(over="ignore"):
        assert np.isinf(values[0] - values[1])
    y = gp.lerp(a, b, weight)
    assert y.tobytes() == reference.binary_param(a, b, param=weight).tobytes()
    assert np.isfinite(y.astype(np.float64)).all()
    if weight in (0, 1):
        end = b if weight else a
        assert (y == end).all()
    w = Fraction(float(element.compute.dtype.type(weight)))
    eps, tiny = (
        Fraction(float(getattr(finfo(element.dtype), f))) for f in ("eps", "smallest_subnormal")
    )
    for p, q, got in zip(a.tolist(), b.tolist(), y.tolist(), strict=True):
        exact = Fraction(p) + w * (Fraction(q) - Fraction(p))
        scale = max(abs(Fraction(p)), abs(Fraction(q)))
        assert abs(Fraction(got) - exact) <= 4 * eps * scale + tiny


@pytest.mark.parametrize("weight", [-1.5, 0.0, 0.3, 0.7, 1.0, 2.0, np.inf, np.nan])
@all_elements
def test_lerp_has_the_bits_of_the_reference_wherever_it_overflows(
    element: gp.ElementKind, weight: float
) -> None:
    """One lane among ordinary ones, in runs of any length, and beside infinities and NaN."""
    rng = np.random.default_rng(1)
    values = np.concatenate([extremes(element), np.array([np.inf, -np.inf, np.nan])])
    values = values.astype(element.dtype)
    for n in (1, 15, 16, 17, 100, 1000):
        for share in (0.02, 0.5, 1.0):
            a, b = (rng.standard_normal(n).astype(element.dtype) for _ in range(2))
            for x in (a, b):
                chosen = rng.random(n) < share
                x[chosen] = values[rng.integers(0, len(values), int(chosen.sum()))]
            want = reference.binary_param(a, b, param=weight)
            assert gp.lerp(a, b, weight).tobytes() == want.tobytes()
            assert gp.lerp(a, b, weight, out=a).tobytes() == want.tobytes()


# The bridges


def test_gradients_of_pytorch_are_finite() -> None:
    torch = pytest.importorskip("torch")
    from gradplan import torch as gpt

    x = torch.tensor([3e38, 3e38, 0.0, 1.0], requires_grad=True)
    gpt.cumprod(x, 0)[0].backward()
    assert x.grad.tolist() == [1.0, 0.0, 0.0, 0.0]
    ends = torch.tensor([-3e38, 3e38])
    assert gpt.lerp(ends, -ends, 0.5).tolist() == [0.0, 0.0]


def test_gradients_of_jax_are_finite() -> None:
    jax = pytest.importorskip("jax")
    import gradplan.jax as gpj

    x = jax.numpy.array([3e38, 3e38, 0.0, 1.0], "float32")
    got = jax.grad(lambda x: gpj.cumprod(x, axis=0)[0])(x)
    assert got.tolist() == [1.0, 0.0, 0.0, 0.0]
    ends = jax.numpy.array([-3e38, 3e38], "float32")
    assert gpj.lerp(ends, -ends, 0.5).tolist() == [0.0, 0.0]
