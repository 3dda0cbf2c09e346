"""Sparsemax and its gradient in executed PTX: bits of the reference, for every layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layouts import LAYOUTS, Array
from row_calls import RUN, Where, call, expected, far_apart, mutated, same
from samples import ELEMENTS

from gradplan.cases import FLAVOURS, floats
from gradplan.engines.cuda.launches.tiles import SPARSEMAX
from gradplan.ops.sparsemax import SparsemaxBackwardDescriptor, SparsemaxDescriptor
from gradplan.vocabulary import ElementKind

# One for each form of the kernels and around its limits; more axes than a kernel has; nothing.
VECTORS = (((5, 3, 16), 2), ((3, 128), 1), ((2, 1024), 1), ((1, 4096), 1), ((1, 4112), 1))
PROBLEMS = (
    ((70, 16), 1),
    ((9, 17), 1),
    ((2, 129), 1),
    ((2, 1025), 1),
    ((2, 4097), 1),
    ((130, 33), 0),
    ((3, 21, 40), 1),
    ((33, 40), 0),
    ((3, 5, 40), 1),
    ((2, 3, 2, 3, 2, 4), 3),
    ((5, 1), 1),
    ((), 0),
    ((0, 3), 1),
    ((3, 0), 1),
)


def _forward(kind: ElementKind, shape: tuple[int, ...], axis: int) -> SparsemaxDescriptor:
    return SparsemaxDescriptor(input_shape=shape, softmax_axis=axis, element=kind)


def _backward(kind: ElementKind, shape: tuple[int, ...], axis: int) -> SparsemaxBackwardDescriptor:
    return SparsemaxBackwardDescriptor(input_shape=shape, softmax_axis=axis, element=kind)


def _scores(label: str, shape: tuple[int, ...], kind: ElementKind, flavour: str) -> Array:
    """Values of a flavour; plain ones so near to each other that many are in the support."""
    x = floats(label, shape, kind, flavour)
    return (x.astype(np.float64) / 64).astype(x.dtype) if flavour == "plain" else x


@pytest.mark.parametrize("kind", ELEMENTS)
@pytest.mark.slow
def test_bits_are_those_of_the_reference(kind: ElementKind) -> None:
    where = Where(ELEMENTS.index(kind))
    for number, (shape, axis) in enumerate(VECTORS + PROBLEMS * 2):
        flavour = FLAVOURS[(number + number // len(PROBLEMS)) % len(FLAVOURS)]
        x = _scores(f"{number}", shape, kind, flavour)
        x = x if number < len(PROBLEMS) else where.place(x)
        room = LAYOUTS["contiguous"] if number < len(VECTORS) else where.room
        y = room(shape, kind.dtype)
        (want,) = expected("sparsemax", _forward(kind, shape, axis), {"x": x})
        call("sparsemax", _forward(kind, shape, axis), {"x": x, "y": y.array})
        assert same(y.array, want), (shape, flavour)
        assert y.only_itself_written()

        # A support that is the forward's, and one that is anything.
        support = want if number % 2 else floats(f"{number} y", shape, kind, "special")
        inputs = {"dy": where.place(floats(f"{number} dy", shape, kind, flavour)), "y": support}
        dx = where.room(shape, kind.dtype)
        desc = _backward(kind, shape, axis)
        (want,) = expected("sparsemax_backward", desc, inputs)
        call("sparsemax_backward", desc, {**inputs, "dx": dx.array})
        assert same(dx.array, want), (shape, flavour)
        assert dx.only_itself_written()
    assert {f"sparsemax/{kind.value}/{form}" for form in SPARSEMAX} <= RUN
    assert {
        f"sparsemax_backward/{kind.value}/{form}" for form in ("along", "short", "across")
    } <= RUN


@pytest.mark.parametrize(("shape", "axis"), [((3, 40), 1), ((1, 4200), 1), ((5, 40), 0)])
def test_in_place(shape: tuple[int, ...], axis: int) -> None:
    kind = ElementKind.F32
    x = _scores("x", shape, kind, "plain")
    (want,) = expected("sparsemax", _forward(kind, shape, axis), {"x": x})
    y = x.copy()
    call("sparsemax", _forward(kind, shape, axis), {"x": y, "y": y})
    assert same(y, want)
    dy = floats("dy", shape, kind, "wide")
    (want,) = expected("sparsemax_backward", _backward(kind, shape, axis), {"dy": dy, "y": y})
    call("sparsemax_backward", _backward(kind, shape, axis), {"dy": dy, "y": y, "dx": dy})
    assert same(dy, want)


@pytest.mark.parametrize("kind", [ElementKind.F32, ElementKind.F64])
def test_sums_that_need_all_their_bits(kind: ElementKind) -> None:
    """Rows whose support is found only if not a bit of any sum is lost."""
    n = 4096
    rows = np.zeros((6, n), kind.dtype)
    rows[1, 1:] = -1 + 2.0**-20
    rows[2] = -np.arange(n) * 2.0**-40
    rows[3] = -np.arange(n) * 2.0**-14
    rows[4] = np.where(np.arange(n) % 2, -(2.0**-12), 0)
    rows[5, ::3] = -(2.0**-11)
    desc = _forward(kind, rows.shape, 1)
    y = np.empty_like(rows)
    call("sparsemax", desc, {"x": rows, "y": y})
    assert same(y, expected("sparsemax", desc, {"x": rows})[0])


@pytest.mark.parametrize(("shape", "axis"), [((3, 1000), 1), ((1, 4200), 1), ((140, 33), 0)])
def test_results_do_not_depend_on_the_schedule(shape: tuple[int, int], axis: int) -> None:
    """Not on which warp is first between two barriers."""
    kind = ElementKind.F32
    x = _scores("x", shape, kind, "plain")
    desc = _forward(kind, shape, axis)
    (want,) = expected("sparsemax", desc, {"x": x})
    y = np.empty_like(x)
    call("sparsemax", desc, {"x": x, "y": y}, warp_by_warp=True, backwards=True)
    assert same(y, want)


def test_more_than_32_bits_of_elements() -> None:
    kind, shape = ElementKind.F16, (2, 5)
    for axis in (0, 1):
        x, y = (far_apart(2, 5, kind.dtype, 2**31 + 24) for _ in range(2))
        x[...] = _scores("x", shape, kind, "plain")
        (want,) = expected("sparsemax", _forward(kind, shape, axis), {"x": x})
        call("sparsemax", _forward(kind, shape, axis), {"x": x, "y": y})
        assert same(y, want)
        inputs = {"dy": x, "y": want}
        (want,) = expected("sparsemax_backward", _backward(kind, shape, axis), inputs)
        call("sparsemax_backward", _backward(kind, shape, axis), {**inputs, "dx": y})
        assert same(y, want)


def _is_right(binaries: Any) -> bool:
    kind, shape = ElementKind.F32, (5, 1000)
    x = _scores("x", shape, kind, "plain")
    x[3] /= 256  # all of them are in the support, and less than 2^-30 of tau counts
    x[0, 5], x[1, 7], x[2] = np.nan, np.inf, -np.inf
    y, dx = np.empty_like(x), np.empty_like(x)
    desc = _forward(kind, shape, 1)
    call("sparsemax", desc, {"x": x, "y": y}, binaries)
    (want,) = expected("sparsemax", desc, {"x": x})
    inputs = {"dy": floats("dy", shape, kind, "wide"), "y": want}
    call("sparsemax_backward", _backward(kind, shape, 1), {**inputs, "dx": dx}, binaries)
    return same(y, want) and same(dx, expected("sparsemax_backward", desc, inputs)[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("changed = tl.max((number != before).to(tl.int32), 0) != 0", "changed = zero != 0"),
        ("rest.to(tl.float64) / number", "rest.to(tl.float64) * 0 / number"),
        ("nans != 0) | (", "nans < 0) | ("),
        ("other = lane ^ (8 >> level)", "other = lane ^ (1 << level)"),
        ("up(tl.load(g_at + i * g_step, mask=ok, other=0)) - mean", "mean"),
    ],
)
@pytest.mark.slow
def test_a_wrong_kernel_is_noticed(old: str, new: str, tmp_path: Path) -> None:
    from gradplan.engines.cuda.kernels import sparsemax

    assert _is_right(None)
    assert not _is_right(mutated(sparsemax, {old: new}, tmp_path))
