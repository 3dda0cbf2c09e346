"""Weighted sums and means of segments: near the truth, with masks, and as their definitions say."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from samples import all_elements

import gradplan as gp

KINDS = ["sum", "mean"]


def problem(element: gp.ElementKind, count: int = 1500) -> tuple[Any, Any, Any]:
    """One segment takes a third, the last is empty, and some ids are out of range."""
    rng = np.random.default_rng(5)
    ids = rng.integers(-1, 9, count)
    ids[rng.random(count) < 0.33] = 4
    x = rng.standard_normal((count, 19)).astype(element.dtype)
    return x, rng.uniform(0.5, 2, count).astype(element.dtype), ids


@all_elements
@pytest.mark.parametrize("kind", KINDS)
def test_near_the_truth(kind: str, element: gp.ElementKind) -> None:
    x, weights, ids = problem(element)
    got = getattr(gp, f"unsorted_segment_weighted_{kind}")(x, weights, ids, 10, bounds="skip")
    order = np.argsort(ids, kind="stable")
    in_order = getattr(gp, f"segment_weighted_{kind}")(
        x[order], weights[order], ids[order], 10, bounds="skip"
    )
    assert got.tobytes() == in_order.tobytes()
    for s in range(9):
        rows = x[ids == s].astype(oracle.Wide)
        shares = weights[ids == s].astype(oracle.Wide)[:, None]
        whole = shares.sum() if kind == "mean" else 1
        want = (shares * rows).sum(0) / whole, (shares * np.abs(rows)).sum(0) / whole
        oracle.assert_close(got[s], want, 2 * oracle.segment_depth(len(rows)) + 8)
    assert not got[9].any()


@all_elements
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_near_the_truth(kind: str, element: gp.ElementKind) -> None:
    x, weights, ids = problem(element, 600)
    dy = np.random.default_rng(6).standard_normal((10, 19)).astype(element.dtype)
    mean = kind == "mean"
    y = gp.unsorted_segment_weighted_mean(x, weights, ids, 10, bounds="skip")
    saved = (y,) if mean else ()
    backward = getattr(gp, f"segment_weighted_{kind}_backward")
    dx, dw = backward(dy, x, weights, *saved, ids, bounds="skip")
    for s in range(9):
        here = ids == s
        rows, shares = x[here].astype(oracle.Wide), weights[here].astype(oracle.Wide)
        g = dy[s].astype(oracle.Wide) / (shares.sum() if mean else 1)
        rest = rows - y[s].astype(oracle.Wide) if mean else rows
        depth = 2 * oracle.segment_depth(len(rows)) + 20
        want = shares[:, None] * g
        oracle.assert_close(dx[here], (want, np.abs(want)), depth)
        size = (np.abs(g) * (np.abs(rows) + np.abs(rest))).sum(1)
        oracle.assert_close(dw[here], ((g * rest).sum(1), size), depth)
    assert not dx[ids < 0].any() and not dw[ids < 0].any()


@all_elements
def test_weights_of_one_are_no_weights(element: gp.ElementKind) -> None:
    """The same order of sums, so the same bits; and others with other weights."""
    x, weights, ids = problem(element)
    ones = np.ones_like(weights)
    for kind in KINDS:
        weighted = getattr(gp, f"unsorted_segment_weighted_{kind}")
        plain = getattr(gp, f"unsorted_segment_{kind}")(x, ids, 10, bounds="skip")
        assert weighted(x, ones, ids, 10, bounds="skip").tobytes() == plain.tobytes()
        assert weighted(x, weights, ids, 10, bounds="skip").tobytes() != plain.tobytes()


def test_products_of_16_bits_are_not_rounded() -> None:
    """1 + 2^-10 squared, less 1 + 2^-9: what a product rounded to f16 loses."""
    x, weights = np.float16([1 + 2**-10, -1]), np.float16([1 + 2**-10, 1 + 2**-9])
    ids = np.zeros(2, np.int64)
    assert gp.segment_weighted_sum(x, weights, ids, 1).tolist() == [2.0**-20]
    assert gp.segment_sum(x * weights, ids, 1).tolist() == [0]


def test_masked_segments_are_empty_ones() -> None:
    x, ids = np.float32([3, 5, 7, 2]), np.array([0, 0, 1, 1])
    masks = np.float32([0, 0, 1, 0])
    y = gp.segment_weighted_mean(x, masks, ids, 3)
    assert y.tolist() == [0, 7, 0]
    dx, dw = gp.segment_weighted_mean_backward(np.float32([4, 4, 4]), x, masks, y, ids)
    assert dx.tolist() == [0, 0, 4, 0] and dw.tolist() == [0, 0, 0, -20]


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_rows_without_elements_have_gradients_of_plus_zero(engine: str) -> None:
    descriptor = gp.SegmentWeightedBackwardDescriptor(
        kind="sum", num_inputs=2, embedding_dim=0, num_segments=2, element="f32"
    )
    plan = gp.SegmentWeightedBackwardPlan.select(descriptor, gp.PlanPreference(engine=engine))
    dy = x = np.empty((2, 0), np.float32)
    dw = plan.run(d_output=dy, input=x, weights=np.ones(2, np.float32), segment_ids=np.arange(2))[1]
    assert dw.tolist() == [0, 0] and not np.signbit(dw).any()


def test_what_is_wrong_is_said_and_nothing_is_written() -> None:
    x, ids = np.ones((4, 2), np.float32), np.array([0, 1, 2, 2])
    weights, out = np.ones(4, np.float32), np.full((3, 2), 7, np.float32)

    def call(weights: Any, ids: Any = ids) -> None:
        gp.segment_weighted_sum(x, weights, ids, 3, out=out)

    with pytest.raises(gp.InvalidProblem, match="expected num_inputs 3 as in weights; got 4"):
        call(weights[:3])
    with pytest.raises(
        gp.InvalidProblem, match="'weights': expected element type float32, got float64"
    ):
        call(weights.astype(np.float64))
    with pytest.raises(gp.InvalidProblem, match=r"segment_ids\[3\] = 1 after segment_ids\[2\] = 2"):
        call(weights, np.array([0, 1, 2, 1]))
    with pytest.raises(gp.IndexOutOfRange, match=r"segment_ids\[3\] = 3"):
        call(weights, np.array([0, 1, 2, 3]))
    assert (out == 7).all()
    call(weights)
    assert (out != 7).any()
