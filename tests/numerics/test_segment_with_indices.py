"""Extremes of segments with positions: the values of the plain ones, and where gradients go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from samples import all_elements

import gradplan as gp

KINDS, TIES = ["max", "min"], ["first", "last"]


def problem(element: gp.ElementKind, width: int) -> tuple[Any, Any]:
    """Few values, so most extremes are tied; a segment of several blocks; NaN; an empty one."""
    rng = np.random.default_rng(width)
    ids = rng.integers(-1, 9, 2000)
    ids[rng.random(len(ids)) < 0.4] = 4
    x = rng.integers(-60, 60, (len(ids), width)).astype(element.dtype)
    x[ids == 2] = rng.choice(np.array([np.nan, 1, 2]), ((ids == 2).sum(), width))
    return x, ids


@all_elements
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("width", [1, 19])
def test_positions_are_where_the_gradient_goes(
    kind: str, ties: str, width: int, element: gp.ElementKind
) -> None:
    x, ids = problem(element, width)
    y, indices = getattr(gp, f"unsorted_segment_{kind}_with_indices")(
        x, ids, 10, ties=ties, bounds="skip"
    )
    plain = getattr(gp, f"unsorted_segment_{kind}")(x, ids, 10, bounds="skip")
    assert y.tobytes() == plain.tobytes()
    assert (indices[9] == len(x)).all() and (indices[:9] < len(x)).all()
    dy = np.ones_like(y)
    dx = getattr(gp, f"segment_{kind}_backward")(dy, x, y, ids, ties=ties, bounds="skip")
    want = np.zeros_like(dx)
    want[indices[:9], np.arange(width)] = 1
    assert dx.tobytes() == want.tobytes()
    order = np.argsort(ids, kind="stable")
    sorted_y, places = getattr(gp, f"segment_{kind}_with_indices")(
        x[order], ids[order], 10, ties=ties, bounds="skip"
    )
    assert sorted_y.tobytes() == y.tobytes()
    assert (order[places[:9]] == indices[:9]).all()


def test_by_hand() -> None:
    x = np.float32([[2, -0.0], [7, 0.0], [7, -0.0], [1, 5]])
    ids = np.array([0, 0, 0, 2])
    first = gp.segment_max_with_indices(x, ids, 3, fill=4)
    assert first[0].tolist() == [[7, 0], [4, 4], [1, 5]]
    assert first[1].tolist() == [[1, 0], [4, 4], [3, 3]]
    last = gp.segment_max_with_indices(x, ids, 3, ties="last")[1]
    assert last.tolist() == [[2, 2], [4, 4], [3, 3]]


def test_the_caller_may_bring_memory_of_either_type() -> None:
    x, ids = np.float32([3, 1, 2]), np.array([0, 0, 1])
    out = np.empty(2, np.float32), np.empty(2, np.int32)
    gp.segment_min_with_indices(x, ids, 2, out=out)
    assert out[0].tolist() == [1, 2] and out[1].tolist() == [1, 2]


def test_nothing_is_written_where_ids_are_wrong() -> None:
    x, out = np.ones(3, np.float32), (np.full(2, 7, np.float32), np.full(2, 7))
    with pytest.raises(gp.InvalidProblem, match=r"segment_ids\[2\] = 0 after segment_ids\[1\] = 1"):
        gp.segment_max_with_indices(x, np.array([0, 1, 0]), 2, out=out)
    with pytest.raises(gp.IndexOutOfRange, match=r"segment_ids\[2\] = 2"):
        gp.segment_max_with_indices(x, np.array([0, 1, 2]), 2, out=out)
    assert (out[0] == 7).all() and (out[1] == 7).all()
