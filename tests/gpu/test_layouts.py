"""Simplified layouts visit the same elements, and no kernel has to know how they lay."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from gradplan.engines.cuda.launches.layouts import Space, simplified
from gradplan.engines.cuda.program import Layout


def _layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    return Layout("float32", shape, strides, aligned=True)


def _visited(space: Space) -> list[tuple[int, ...]]:
    """For each index the places in the tensors, in the order of the last axis inside a line."""
    return [
        tuple(
            space.offsets[name] + sum(i * s for i, s in zip(index, strides, strict=True))
            for name, strides in space.strides.items()
        )
        for index in itertools.product(*map(range, space.extents))
    ]


def _problems(seed: int) -> tuple[dict[str, Layout], int, bool]:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(0, 6))
    shape = tuple(int(v) for v in rng.integers(1, 4, rank))
    layouts = {}
    for name in "xy":
        order = rng.permutation(rank) if rng.random() < 0.4 else np.arange(rank)
        strides, step = [0] * rank, 1
        for i in order[::-1]:
            strides[i] = step * int(rng.choice([1, 1, 1, -1]))
            step *= shape[i] + int(rng.integers(0, 6) == 0)
        if name == "x" and rank and rng.random() < 0.3:
            strides[int(rng.integers(0, rank))] = 0
        layouts[name] = _layout(shape, tuple(strides))
    return layouts, int(rng.integers(0, max(rank, 1))), bool(rng.integers(0, 2))


@pytest.mark.parametrize("seed", range(60))
def test_the_same_elements_are_visited(seed: int) -> None:
    layouts, axis, reverse = _problems(seed)
    direct = Space(
        next(iter(layouts.values())).shape,
        {name: layout.strides for name, layout in layouts.items()},
        dict.fromkeys(layouts, 0),
        dict.fromkeys(layouts, 4),
        dict.fromkeys(layouts, True),
    )
    everywhere = Counter(_visited(direct))
    free, along = simplified(layouts), simplified(layouts, axis, reverse)
    assert Counter(_visited(free)) == everywhere
    assert Counter(_visited(along)) == everywhere
    for rank in (1, 2, 3):
        for space in (free, along):
            pieces = list(space.pieces(rank))
            assert {piece.rank for piece in pieces} == {rank}
            assert sum((Counter(_visited(piece)) for piece in pieces), Counter()) == everywhere

    rank = len(direct.extents)
    if rank:  # lines along the axis, in its order
        n = direct.extents[axis]
        lines = {
            tuple(_visited(direct)[i] for i in line[:: -1 if reverse else 1])
            for line in np.moveaxis(
                np.arange(direct.size).reshape(direct.extents), axis, -1
            ).reshape(-1, n)
        }
        places = _visited(along)
        assert {tuple(places[i : i + n]) for i in range(0, len(places), n)} == lines


def test_contiguous_tensors_are_one_axis_of_elements_and_two_of_lines() -> None:
    x = _layout((2, 3, 1, 4, 5), (60, 20, 9, 5, 1))
    assert simplified({"x": x}).extents == (120,)
    assert simplified({"x": x}, axis=-1).extents == (24, 5)
    assert simplified({"x": x}, axis=1).extents == (2, 20, 3)
    assert simplified({"x": x}, axis=2).extents == (120, 1)
    columns = _layout((5, 4), (1, 5))
    assert simplified({"x": columns}).extents == (20,)
    assert simplified({"x": x, "y": _layout((2, 3, 1, 4, 5), (0, 20, 0, 5, 1))}).extents == (2, 60)


def test_alignment_holds_for_every_line_and_offset() -> None:
    rows = simplified({"x": _layout((3, 8), (8, 1))}, axis=1)
    assert rows.aligned("x")
    assert not simplified({"x": _layout((3, 8), (9, 1))}, axis=1).aligned("x")
    flipped = simplified({"x": _layout((3,), (-1,))})
    assert flipped.offsets["x"] == -2
    assert not flipped.aligned("x")
    assert flipped.pointer("x").offset == -8


def test_empty_spaces_stay_empty() -> None:
    assert simplified({"x": _layout((3, 0), (1, 1))}).size == 0
    assert simplified({"x": _layout((3, 0), (-1, -1))}, axis=1, reverse=True).size == 0


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="one shape"):
        simplified({"x": _layout((3,), (1,)), "y": _layout((4,), (1,))})
