"""linear_scan: near the truth, with zeros, overflow and vanishing products."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from extremes import LENGTHS, draw, extremes
from samples import all_elements

import gradplan as gp
from gradplan import reference

lengths = pytest.mark.parametrize("n", [1, 17, 257, 600, 9000])
reverses = pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])


def serial(a: Any, b: Any, initial: Any = None) -> Any:
    """The textbook's loop in the type of `a`: what one would expect where nothing is joined."""
    h = np.empty_like(b)
    with np.errstate(all="ignore"):
        for t in range(len(b)):
            first = t == 0 and initial is None
            h[t] = b[t] if first else a[t] * (initial if t == 0 else h[t - 1]) + b[t]
    return h


def all_results(a: Any, b: Any, initial: Any, dh: Any, reverse: bool = False) -> list[Any]:
    """Forward and gradients, compared with the reference, in place as well."""
    along = {"axis": -1, "reverse": reverse}
    h = gp.linear_scan(a, b, initial, **along)
    options = {"scan_axis": a.ndim - 1, "reverse": reverse}
    want = [reference.linear_scan(a, b, initial, **options)]
    want += reference.linear_scan_backward(dh, a, want[0], initial, **options)
    got = [h, *gp.linear_scan_backward(dh, a, h, initial, **along)]
    assert [x.tobytes() for x in got] == [x.tobytes() for x in want]
    for name in ("a", "b"):
        given = {"a": a.copy(), "b": b.copy()}
        gp.linear_scan(**given, initial=initial, **along, out=given[name])
        assert given[name].tobytes() == h.tobytes()
    for at in (0, 1):
        out = [np.empty_like(x) for x in got[1:]]
        out[at] = dh.copy()
        gp.linear_scan_backward(out[at], a, h, initial, **along, out=tuple(out))
        assert [x.tobytes() for x in out] == [x.tobytes() for x in want[1:]]
    return got


@reverses
@pytest.mark.parametrize("with_initial", [False, True], ids=["without", "initial"])
@lengths
@all_elements
def test_states_and_gradients(
    element: gp.ElementKind, n: int, with_initial: bool, reverse: bool
) -> None:
    """Factors of both signs around 1, and a zero now and then."""
    rng = np.random.default_rng(n)
    a = np.exp(rng.uniform(-0.05, 0.03, (3, n))) * rng.choice([-1, 1], (3, n))
    a[1, ::97] = 0
    a, b, dh = (x.astype(element.dtype) for x in (a, *rng.standard_normal((2, 3, n))))
    initial = rng.standard_normal(3).astype(element.dtype) if with_initial else None
    h, da, db, d_initial = all_results(a, b, initial, dh, reverse)
    order = slice(None, None, -1) if reverse else slice(None)
    depth = 2 * n + 16  # every factor's rounding counts, in whatever order
    stored = oracle.roundoff(element.dtype) / oracle.roundoff(element.compute.dtype)
    for row in range(3):
        factors, terms, g = (x[row, order].astype(oracle.Wide) for x in (a, b, dh))
        start = oracle.Wide(0 if initial is None else initial[row])
        oracle.assert_close(h[row, order], oracle.linear_scan(factors, terms, start), depth)
        back = np.append(factors[1:], 0)[::-1]
        t, size = (x[::-1] for x in oracle.linear_scan(back, g[::-1], 0))
        oracle.assert_close(db[row, order], (t, size), depth)
        before = np.append(start, h[row, order].astype(oracle.Wide)[:-1])
        exact = before * t, np.abs(before) * size
        oracle.assert_close(da[row, order], exact, depth + stored)
        exact = factors[:1] * t[:1], np.abs(factors[:1]) * size[:1]
        oracle.assert_close(d_initial[row : row + 1], exact, depth)
        if initial is None:
            assert da[row, order][0] == 0


@pytest.mark.parametrize("n", LENGTHS)
@all_elements
def test_finite_inputs_never_give_nan(element: gp.ElementKind, n: int) -> None:
    rng = np.random.default_rng(n)
    values = extremes(element)
    for zeros in (0.0, 0.1):
        a, b, dh = (draw(rng, values, (4, n), share) for share in (zeros, 0.5, 0.5))
        a[1:3] = np.where(rng.random((2, n)) < 0.9, np.sign(a[1:3].astype(np.float64)), a[1:3])
        for initial in (None, draw(rng, values, (4,), 0.2)):
            for result in all_results(a, b, initial, dh):
                assert not np.isnan(result.astype(np.float64)).any()


@pytest.mark.parametrize("n", LENGTHS)
def test_whole_rows_that_overflow_have_the_signs_of_the_loop(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (np.where(rng.random(n) < 0.5, -3e38, 3e38).astype(np.float32) for _ in range(2))
    for initial in (None, np.float32(-3e38)):
        assert gp.linear_scan(a, b, initial).tobytes() == serial(a, b, initial).tobytes()


@pytest.mark.parametrize("at", [256, 300, 3900, 4096])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_that_leave_the_range_come_back(dtype: str, at: int) -> None:
    """256 factors together are far outside of the type, and the states on the way are not."""
    factor = 2.0 if dtype == "float32" else 2.0**8
    with np.errstate(over="ignore"):
        assert np.asarray(factor, dtype) ** 256 == np.inf
    tiny = np.finfo(dtype).smallest_subnormal
    top = np.asarray(float(tiny) * factor**64 * factor**64 * factor**64 * factor**64, dtype)
    ends = (np.asarray(tiny, dtype), top)
    for start, end, first in ((*ends, factor), (*ends[::-1], 1 / factor)):
        a, b = np.ones(9000, dtype), np.zeros(9000, dtype)
        a[at : at + 256], a[at + 700 : at + 956] = first, 1 / first
        h = gp.linear_scan(a, b, start)  # powers of two: nothing is rounded
        assert h.tobytes() == serial(a, b, start).tobytes()
        assert h[0] == h[-1] == start != h[at + 500] > 0
        # A gradient meets the factors the other way round.
        dh = np.zeros_like(b)
        dh[-1] = end
        _, db, d_initial = gp.linear_scan_backward(dh, a, h, start)
        assert db[0] == d_initial == end != db[at + 500] > 0 and np.isfinite(db).all()


@lengths
@all_elements
def test_a_zero_starts_anew_whatever_came_before(element: gp.ElementKind, n: int) -> None:
    rng = np.random.default_rng(n)
    a = rng.uniform(0.9, 1.1, n).astype(element.dtype)
    b = rng.standard_normal(n).astype(element.dtype)
    dh = rng.standard_normal(n).astype(element.dtype)
    cut = n // 2
    a[cut] = 0
    alone = gp.linear_scan(a[cut:], b[cut:])
    for poison in (np.inf, -np.inf, np.nan, 1.0):
        dirty = b.copy()
        dirty[:cut] = poison
        h = gp.linear_scan(a, dirty, np.asarray(poison, element.dtype))
        if n <= 256:  # the same blocks
            assert h[cut:].tobytes() == alone.tobytes()
        assert not np.isnan(h[cut:].astype(np.float64)).any()
        # And no gradient goes back over it.
        back = dh.copy()
        back[cut:] = poison
        _, db, d_initial = gp.linear_scan_backward(back, a, np.zeros_like(a))
        assert np.isfinite(db[:cut].astype(np.float64)).all()
        assert np.isfinite(float(d_initial))


@all_elements
def test_nan_and_the_first_factor(element: gp.ElementKind) -> None:
    """NaN is handed on; without `initial` the first factor has no influence."""
    a, b = np.ones(600, element.dtype), np.ones(600, element.dtype)
    b[300] = np.nan
    h = gp.linear_scan(a, b)
    assert not np.isnan(h[:300].astype(np.float64)).any()
    assert np.isnan(h[300:].astype(np.float64)).all()
    b[300] = 1
    clean = gp.linear_scan(a, b)
    for first in (np.nan, np.inf, 0.0, -5.0):
        a[0] = first
        assert gp.linear_scan(a, b).tobytes() == clean.tobytes()
        da, _, _ = gp.linear_scan_backward(b, a, clean)
        assert da[0] == 0
    a[0] = np.nan
    assert np.isnan(gp.linear_scan(a, b, b[0]).astype(np.float64)).all()


def test_ones_are_a_running_sum_and_their_errors_do_not_drift() -> None:
    n = 1 << 20
    b = np.full(n, 0.1, np.float32)
    h = gp.linear_scan(np.ones_like(b), b)
    exact = np.arange(1, n + 1) * np.longdouble(b[0])
    relative = np.abs(h.astype(np.longdouble) - exact) / exact
    assert relative.max() < (256 + 16 + n / 4096) * oracle.roundoff(np.float32)
    drift = abs(float(np.add.accumulate(b)[-1]) / float(exact[-1]) - 1)
    assert drift > 2 * float(relative[-1])


def test_a_state_of_another_shape_or_type_is_refused() -> None:
    a = np.ones((2, 3), np.float32)
    for initial in (np.ones(3, np.float32), np.ones((2, 1), np.float32), np.ones(2)):
        with pytest.raises(gp.InvalidProblem, match="initial"):
            gp.linear_scan(a, a, initial)
    with pytest.raises(gp.InvalidProblem, match="b: expected"):
        gp.linear_scan(a, a[:1])


def test_rows_without_elements() -> None:
    a, start = np.ones((2, 0), np.float32), np.float32([1, 2])
    assert gp.linear_scan(a, a, start).shape == (2, 0)
    out = (a.copy(), a.copy(), np.full(2, 7, np.float32))
    gp.linear_scan_backward(a, a, a, start, out=out)
    assert out[2].tolist() == [0, 0]
