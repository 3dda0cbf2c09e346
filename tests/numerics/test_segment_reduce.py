"""Reductions and softmax of segments: near the truth; zeros, masks, ties and empty segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from samples import all_elements

import gradplan as gp
from gradplan.vocabulary import SegmentKind, SegmentTies

INF, NAN = np.inf, np.nan


def problem(kind: str, element: gp.ElementKind, count: int = 1500) -> tuple[Any, Any]:
    """One segment takes a third, the last is empty, and some ids are out of range."""
    rng = np.random.default_rng(len(kind))
    ids = rng.integers(-1, 9, count)
    ids[rng.random(count) < 0.33] = 4
    x = rng.standard_normal((count, 3))
    if kind == "prod":
        x = 1 + x / 64
    return x.astype(element.dtype), ids


def truth(kind: str, rows: Any) -> tuple[Any, Any]:
    """Of one segment, with the size that errors are relative to; by definitions."""
    wide = rows.astype(oracle.Wide)
    if kind == "mean":
        return wide.mean(0), np.abs(wide).mean(0)
    if kind == "prod":
        return wide.prod(0), np.abs(wide.prod(0))
    if kind == "logsumexp":
        y = np.log(np.exp(wide).sum(0))
        return y, np.abs(y) + np.abs(wide.max(0)) + 1
    return getattr(wide, kind)(0), np.zeros(wide.shape[1])


@all_elements
@pytest.mark.parametrize("kind", [k.value for k in SegmentKind])
def test_near_the_truth(kind: str, element: gp.ElementKind) -> None:
    x, ids = problem(kind, element)
    got = getattr(gp, f"unsorted_segment_{kind}")(x, ids, 10, bounds="skip")
    order = np.argsort(ids, kind="stable")
    in_order = getattr(gp, f"segment_{kind}")(x[order], ids[order], 10, bounds="skip")
    assert got.tobytes() == in_order.tobytes()
    for s in range(9):
        members = x[ids == s]
        depth = oracle.segment_depth(len(members)) + 8
        oracle.assert_close(got[s], truth(kind, members), depth)
    natural = {"mean": 0, "prod": 1, "max": -INF, "min": INF, "logsumexp": -INF}[kind]
    assert (got[9].astype(np.float64) == natural).all()


@all_elements
@pytest.mark.parametrize("kind", ["max", "min", "logsumexp"])
def test_the_caller_says_what_is_empty(kind: str, element: gp.ElementKind) -> None:
    x, ids = problem(kind, element, 40)
    for name in ("segment", "unsorted_segment"):
        given = np.sort(ids)
        got = getattr(gp, f"{name}_{kind}")(x, given, 12, fill=-0.75, bounds="skip")
        assert (got[9:].astype(np.float64) == -0.75).all()


def brute_product_gradient(x: Any) -> Any:
    return np.array([np.delete(x, i, 0).prod(0) for i in range(len(x))])


@pytest.mark.parametrize("zeros", [0, 1, 2, 5])
@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 700])
def test_products_with_zeros(count: int, zeros: int) -> None:
    """Powers of two: nothing is rounded, so the gradient is exact."""
    rng = np.random.default_rng(count)
    x = 2.0 ** rng.integers(-1, 2, (count, 2)) * rng.choice([-1, 1], (count, 2))
    x[rng.permutation(count)[:zeros]] = 0
    ids = np.zeros(count, np.int64)
    dy = np.array([[1.0, -2.0]])
    got = gp.segment_prod_backward(dy, x, ids)
    assert (got == dy * brute_product_gradient(x)).all()


def test_a_product_that_overflows_behind_a_zero_is_zero() -> None:
    x = np.float32([0, 3e38, 3e38, 3e38])
    ids = np.zeros(4, np.int64)
    assert gp.segment_prod(x, ids, 1).tolist() == [0]
    assert gp.segment_prod_backward(np.float32([1]), x, ids).tolist() == [INF, 0, 0, 0]


def test_ties_and_nan() -> None:
    x = np.float32([5, 7, 7, 1, 7, NAN, 2, NAN])
    ids = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    dy = np.float32([6, 4])
    for kind in ("max", "min"):
        sign = 1 if kind == "max" else -1
        y = getattr(gp, f"segment_{kind}")(sign * x, ids, 2)
        assert y[0] == sign * 7 and np.isnan(y[1])
        want = {
            "first": [0, 6, 0, 0, 0, 4, 0, 0],
            "last": [0, 0, 0, 0, 6, 0, 0, 4],
            "share": [0, 2, 2, 0, 2, 2, 0, 2],
        }
        for ties in SegmentTies:
            backward = getattr(gp, f"segment_{kind}_backward")
            assert backward(dy, sign * x, y, ids, ties=ties).tolist() == want[ties.value]


@pytest.mark.parametrize("count", [600, 1500])
def test_ties_across_blocks(count: int) -> None:
    x = np.zeros((count, 1), np.float32)
    x[[300, 301, 560]] = 1
    ids = np.zeros(count, np.int64)
    for ties, places in (("first", [300]), ("last", [560]), ("share", [300, 301, 560])):
        dx = gp.segment_max_backward(np.float32([[3]]), x, np.float32([[1]]), ids, ties=ties)
        assert np.flatnonzero(dx).tolist() == places
        assert set(dx[places, 0]) == {3 / len(places)}


@all_elements
def test_softmax_is_near_the_truth(element: gp.ElementKind) -> None:
    x, ids = problem("softmax", element)
    shares = gp.unsorted_segment_softmax(x, ids, 10, bounds="skip")
    logs = gp.unsorted_segment_log_softmax(x, ids, 10, bounds="skip")
    for s in range(9):
        wide = x[ids == s].astype(oracle.Wide)
        e = np.exp(wide - wide.max(0))
        depth = oracle.segment_depth(len(wide)) + 8
        want = e / e.sum(0)
        oracle.assert_close(shares[ids == s], (want, want), depth)
        oracle.assert_close(logs[ids == s], (np.log(want), np.abs(np.log(want)) + 1), depth)
    assert not shares[ids < 0].any() and not logs[ids < 0].any()


def test_masks() -> None:
    """-inf has no share, also where there is nothing else; gradients are numbers."""
    x = np.float32([-INF, -INF, 3, -INF, INF, 1, NAN, 0])
    ids = np.array([0, 0, 1, 1, 3, 3, 4, 4])
    shares = gp.segment_softmax(x, ids, 5)
    assert shares[:6].tolist() == [0, 0, 1, 0, 1, 0] and np.isnan(shares[6:]).all()
    logs = gp.segment_log_softmax(x, ids, 5)
    assert logs[:6].tolist() == [-INF, -INF, 0, -INF, 0, -INF] and np.isnan(logs[6:]).all()
    dy = np.arange(8, dtype=np.float32)
    assert gp.segment_softmax_backward(dy[:4], shares[:4], ids[:4], 5).tolist() == [0, 0, 0, 0]
    dx = gp.segment_log_softmax_backward(dy[:4], logs[:4], ids[:4], 5)
    assert dx.tolist() == [0, 1, -3, 3]
    total = gp.segment_logsumexp(x, ids, 5)
    assert total[:4].tolist() == [-INF, 3, -INF, INF] and np.isnan(total[4])
    back = gp.segment_logsumexp_backward(np.ones(5, np.float32), x, total, ids)
    assert back[:6].tolist() == [0, 0, 1, 0, 1, 0]


def test_large_values_do_not_overflow() -> None:
    x, ids = np.float32([1000, 1000, -2000]), np.array([0, 0, 0])
    assert gp.segment_softmax(x, ids, 1).tolist() == [0.5, 0.5, 0]
    assert gp.segment_logsumexp(x, ids, 1)[0] == pytest.approx(1000 + np.log(2))


@pytest.mark.parametrize("name", ["segment_max", "segment_softmax"])
def test_what_is_wrong_is_said_and_nothing_is_written(name: str) -> None:
    function: Any = getattr(gp, name)
    x = np.ones((4, 2), np.float32)
    out = np.full((4, 2) if "softmax" in name else (3, 2), 7, np.float32)
    with pytest.raises(
        gp.InvalidProblem, match="segment_ids: expected num_inputs 4 as in x; got 3"
    ):
        function(x, np.array([0, 1, 2]), 3, out=out)
    with pytest.raises(gp.InvalidProblem, match=r"segment_ids\[2\] = 0 after segment_ids\[1\] = 1"):
        function(x, np.array([0, 1, 0, 2]), 3, out=out)
    with pytest.raises(gp.IndexOutOfRange, match=r"segment_ids\[3\] = 3"):
        function(x, np.array([0, 1, 2, 3]), 3, out=out)
    assert (out == 7).all()
    with pytest.raises(gp.InvalidProblem, match="ties"):
        gp.segment_max_backward(x[:3], x, x[:3], np.zeros(4, np.int64), ties="middle")
    with pytest.raises(gp.InvalidProblem, match="fill: expected None or a real number"):
        gp.segment_max(x, np.zeros(4, np.int64), 3, fill="nothing")
