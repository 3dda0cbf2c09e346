"""scatter_reduce: near the truth; zeros, ties, what places start from, and rows for lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from samples import all_elements

import gradplan as gp
from gradplan.vocabulary import ScatterKind, SegmentTies

INF, NAN = np.inf, np.nan
KINDS = [kind.value for kind in ScatterKind]
NAMES = {"amax": "max", "amin": "min"}


def brute(x: Any, indices: Any, start: Any, reduce: str, include_self: bool) -> Any:
    """Along the last axis, by definition, in the widest type."""
    wide = x.astype(oracle.Wide)
    out = start.astype(oracle.Wide)
    for line in np.ndindex(start.shape[:-1]):
        for place in range(start.shape[-1]):
            members = list(wide[line][indices[line] == place])
            if members and include_self:
                members.insert(0, out[(*line, place)])
            if members:
                out[(*line, place)] = getattr(np, NAMES.get(reduce, reduce))(members)
    return out


@all_elements
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", KINDS)
def test_near_the_truth(reduce: str, include_self: bool, element: gp.ElementKind) -> None:
    rng = np.random.default_rng(len(reduce))
    x, start = rng.standard_normal((2, 400)), rng.standard_normal((2, 5))
    if reduce == "prod":
        x = 1 + x / 64
    x, start = x.astype(element.dtype), start.astype(element.dtype)
    indices = rng.integers(-1, 4, x.shape)  # nothing points to the last place
    expected = brute(x, indices, start, reduce, include_self)
    options: Any = {"reduce": reduce, "include_self": include_self, "bounds": "skip"}
    got = gp.scatter_reduce(x, indices, 5, initial=start, **options)
    size = np.abs(expected) + (np.abs(x.astype(float)).mean() if reduce == "mean" else 0)
    size = size + (np.abs(x.astype(float)).sum(1, keepdims=True) if reduce == "sum" else 0)
    oracle.assert_close(got, (expected, size), oracle.segment_depth(400) + 8)
    # The same as the rows of one table, where lines share their indices.
    shared = np.broadcast_to(indices[:1], x.shape)
    lines = gp.scatter_reduce(np.array(x), np.array(shared), 5, initial=start, **options)
    columns = gp.scatter_reduce(
        np.ascontiguousarray(x.T), shared.T, 5, 0, initial=np.ascontiguousarray(start.T), **options
    )
    assert lines.tobytes() == np.ascontiguousarray(columns.T).tobytes()


@pytest.mark.parametrize("reduce", KINDS)
def test_nothing_is_what_it_starts_from(reduce: str) -> None:
    empty = {"sum": 0, "mean": 0, "prod": 1, "amax": -INF, "amin": INF}[reduce]
    nothing, none = np.zeros((2, 0), "f4"), np.zeros((2, 0), "i8")
    start = np.float32([[1, 2, 3], [4, 5, 6]])
    assert (gp.scatter_reduce(nothing, none, 3, reduce=reduce) == empty).all()
    for include_self in (True, False):
        options: Any = {"reduce": reduce, "include_self": include_self}
        got = gp.scatter_reduce(nothing, none, 3, initial=start, **options)
        np.testing.assert_array_equal(got, start)
        dx, d_start = gp.scatter_reduce_backward(
            start, nothing, got, none, initial=start, **options
        )
        assert dx.shape == (2, 0)
        np.testing.assert_array_equal(d_start, start)


@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 513, 900])
def test_products_with_zeros(count: int, zeros: int) -> None:
    """Powers of two: nothing is rounded, so the gradients are exact."""
    rng = np.random.default_rng(count)
    x = 2.0 ** rng.integers(-1, 2, count) * rng.choice([-1, 1], count)
    x[rng.permutation(count)[:zeros]] = 0
    indices = np.zeros(count, np.int64)
    dy = np.array([-2.0])
    for start in (np.array([4.0]), np.array([0.0])):
        y = gp.scatter_reduce(x, indices, 1, reduce="prod", initial=start)
        dx, d_start = gp.scatter_reduce_backward(dy, x, y, indices, reduce="prod", initial=start)
        others = np.array([np.delete(x, i).prod() for i in range(count)])
        np.testing.assert_array_equal(dx, dy * start * others)
        np.testing.assert_array_equal(d_start, dy * x.prod())


@pytest.mark.parametrize("ties", [t.value for t in SegmentTies])
@pytest.mark.parametrize("extreme", [3.0, NAN])
def test_equal_extremes(extreme: float, ties: str) -> None:
    x = np.array([1, extreme, extreme, 2.0])
    indices, dy = np.zeros(4, np.int64), np.array([6.0])

    def gradients(start: Any, **options: Any) -> Any:
        y = gp.scatter_reduce(x, indices, 1, reduce="amax", initial=start, **options)
        assert np.array_equal(y, [extreme], equal_nan=True)
        dx, d_start = gp.scatter_reduce_backward(
            dy, x, y, indices, reduce="amax", initial=start, ties=ties, **options
        )
        return [*d_start, *dx]

    alone = {"first": [0, 0, 6, 0, 0], "last": [0, 0, 0, 6, 0], "share": [0, 0, 3, 3, 0]}
    both = {"first": [6, 0, 0, 0, 0], "last": [0, 0, 0, 6, 0], "share": [2, 0, 2, 2, 0]}
    assert gradients(None) == alone[ties]
    assert gradients(np.array([-1.0])) == alone[ties]
    assert gradients(np.array([extreme]), include_self=False) == alone[ties]
    assert gradients(np.array([extreme])) == both[ties]


def test_the_last_extreme_may_be_what_it_starts_from() -> None:
    x, start, indices = np.array([1.0]), np.array([3.0]), np.array([0])
    y = gp.scatter_reduce(x, indices, 1, reduce="amax", initial=start)
    _, d_start = gp.scatter_reduce_backward(
        y, x, y, indices, reduce="amax", initial=start, ties="last"
    )
    assert d_start == [3]


def test_bad_input_is_refused_before_anything_is_written() -> None:
    x, out = np.ones((2, 3), "f4"), np.full((2, 4), 7, "f4")
    with pytest.raises(gp.IndexOutOfRange, match=r"indices\[1, 0\] = 4: expected .* \[0, 4\)"):
        gp.scatter_reduce(x, np.array([[0, 1, 2], [4, 0, 0]]), 4, out=out)
    with pytest.raises(gp.InvalidProblem, match="initial"):
        gp.scatter_reduce(x, np.zeros((2, 3), "i8"), 4, initial=np.ones((2, 3), "f4"), out=out)
    with pytest.raises(gp.InvalidProblem, match="did you mean 'amax'"):
        gp.scatter_reduce(x, np.zeros((2, 3), "i8"), 4, reduce="amx", out=out)
    assert (out == 7).all()
