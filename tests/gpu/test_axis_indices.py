"""Indices along an axis on a GPU: what random problems do not have, and wrong kernels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_matrix import GpuCase, wrong
from layouts import INPUT_LAYOUTS, Array
from matrix import FUNCTIONS, Case
from mutants import changed_module, is_noticed, replacing, with_function_of
from ptx.run import layout_of, run_program
from samples import ELEMENTS

import gradplan as gp
from gradplan.declaration import OPS, Function, Op
from gradplan.engines.cuda.archive import Binary
from gradplan.engines.cuda.kernels.builds import build
from gradplan.engines.cuda.launches import axis_indices
from gradplan.engines.cuda.launches.axis_indices import PROGRAMS, WORKSPACE
from gradplan.engines.cuda.launches.errors import WORDS, offence
from gradplan.reference import FUNCTIONS as REFERENCE
from gradplan.vocabulary import INDICES, Bounds

FAMILY = [(op, function) for op, function in FUNCTIONS if op.name in PROGRAMS]
all_of_them = pytest.mark.parametrize(
    ("op", "function"), FAMILY, ids=[function.name for _, function in FAMILY]
)
SHAPES = ((), (0,), (1,), (3, 0), (0, 3), (2, 1, 3), (2, 3, 2, 2, 3, 2))


@all_of_them
def test_shapes_with_hardly_anything_in_them(op: Op, function: Function) -> None:
    for number, shape in enumerate(SHAPES):
        for axis in range(max(len(shape), 1)):
            which = number + axis
            desc = op.descriptor(
                shape=shape,
                axis=axis,
                size=(0, 1, 4)[which % 3],
                element=ELEMENTS[which % 4],
                bounds=list(Bounds)[which % 2],
            )
            where = ("tangled", "contiguous")[which % 2]
            case = Case(op, desc, which, "any bits", where, where, index=INDICES[number % 2])
            assert not wrong(GpuCase(case)), (shape, axis)


@all_of_them
def test_lines_in_several_parts(
    op: Op, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if there were more members than positions have bits."""
    monkeypatch.setattr(axis_indices, "MOST_ROWS", 60)
    for where, axis in (("contiguous", 2), ("tangled", 1)):
        desc = op.descriptor(shape=(3, 7, 9), axis=axis, size=5, element="f32", bounds="raise")
        assert not wrong(GpuCase(Case(op, desc, 1, "plain", where, where)))


def program(op: Op, tensors: Mapping[str, Array], **fields: Any) -> Any:
    """The launches of a call; what the plan would report as its workspace is enough."""
    desc: Any = op.descriptor(element="f32", **fields)
    made = PROGRAMS[op.name](desc, {tensor: layout_of(x) for tensor, x in tensors.items()})
    assert made.workspace_size <= WORKSPACE[op.name](desc)
    return made


@pytest.mark.parametrize("rows", [2**31 - 1, 2**31])
def test_more_members_of_a_line_than_positions_can_count_are_refused(rows: int) -> None:
    x, ids = np.broadcast_to(np.float32(0), rows), np.broadcast_to(np.int64(0), rows)
    for name in ("scatter_add", "index_add"):
        tensors = {"x": x, "indices": ids, "output": np.empty(3, np.float32)}
        if rows == 2**31 - 1:
            assert program(OPS[name], tensors, shape=(rows,), axis=0, size=3).launches
        else:
            with pytest.raises(gp.Unsupported, match=f"{rows} rows on a GPU: at most"):
                program(OPS[name], tensors, shape=(rows,), axis=0, size=3)


def test_slices_that_are_rows_are_copied_and_summed_as_rows() -> None:
    ids, rows = np.zeros(5, np.int64), np.zeros((3, 4, 16), np.float32)
    out = np.zeros((5, 4, 16), np.float32)
    shape: dict[str, Any] = {"shape": (5, 4, 16), "axis": 0, "size": 3}
    tensors = {"x": rows, "indices": ids, "output": out}
    (picks,) = program(OPS["index_select"], tensors, **shape).launches
    assert picks.kernel == "gather/32/i64/vector"
    adds = program(OPS["index_add"], {"x": out, "indices": ids, "output": rows}, **shape)
    assert [each.kernel for each in adds.launches] == [
        "radix_small/i64",
        "segment_starts",
        "segment_sums/f32/sorted/wide",
    ]


# What is reported -------------------------------------------------------------------------------


def reported(
    name: str, where: str, ids: Array, bounds: str, binaries: Mapping[str, Binary] | None = None
) -> str | None:
    """The complaint about indices of lines of 40 into 6 places."""
    shape, table = (3, 40, 7), (3, 6, 7)
    x, out = (shape, table) if name == "scatter_add" else (table, shape)
    tensors = {
        "x": np.ones(x, np.float32),
        "indices": INPUT_LAYOUTS[where](ids),
        "output": np.empty(out, np.float32),
    }
    made = program(OPS[name], tensors, shape=shape, axis=1, size=6, bounds=bounds)
    errors = np.zeros(WORDS, np.int64)
    run_program(made, tensors, errors=errors, binaries=binaries)
    error = offence(errors.tolist(), "indices", 6, ids.shape)
    return None if error is None else str(error)


def indices(name: str, wrong_ones: Mapping[int, int]) -> tuple[Array, str | None]:
    """Some of them outside, and what the reference says about them."""
    shape = (40,) if name == "index_select" else (3, 40, 7)
    ids = (np.arange(np.prod(shape)) % 6).reshape(shape)
    for at, value in wrong_ones.items():
        ids.reshape(-1)[at] = value
    try:
        REFERENCE["index_select" if ids.ndim == 1 else "gather"](
            np.ones((3, 6, 7), np.float32), ids, axis=1, bounds="raise"
        )
    except gp.IndexOutOfRange as error:
        return ids, str(error)
    return ids, None


WRONG: tuple[dict[int, int], ...] = ({}, {-1: -9}, {30: 6, 20: 2**40, -1: 7})


@pytest.mark.parametrize("name", ["gather", "scatter_add", "index_select"])
def test_the_first_index_that_is_outside_is_reported(name: str) -> None:
    """In the order of the tensor of indices, wherever they lie; and only with bounds="raise"."""
    for where in ("contiguous", "transposed", "tangled", "backwards"):
        for wrong_ones in WRONG:
            ids, wanted = indices(name, wrong_ones)
            assert (wanted is None) == (not wrong_ones)
            assert reported(name, where, ids, "raise") == wanted
            assert reported(name, where, ids, "skip") is None


# Wrong kernels ----------------------------------------------------------------------------------


COPIED = "mask=ok, other=0)\n    tl.store(y_ptr"


@pytest.mark.parametrize(
    ("function", "key", "old", "new"),
    [
        ("gather", "pick/32/i64", "mask=ok & inside, other=0)", "mask=ok & inside, other=1)"),
        ("gather", "pick/32/i64", "(index >= 0)", "(index > 0)"),
        ("scatter_add", "index_keys/i64", "nowhere, v + at(", "nowhere, v + 0 * at("),
        ("scatter_add", "index_keys/i64", "where(outside, nowhere", "where(v < 0, nowhere"),
        ("scatter_add", "copy/32", COPIED, COPIED.replace("ok", "ok & (r > 0)[:, None]", 1)),
    ],
)
@pytest.mark.slow
def test_a_wrong_kernel_is_noticed(
    function: str, key: str, old: str, new: str, tmp_path: Path
) -> None:
    module = changed_module("axis_indices", tmp_path, old, new)
    assert is_noticed(key, with_function_of(key, module), function)


@pytest.mark.parametrize(
    ("where", "key", "old", "new"),
    [
        ("contiguous", "report_first", "first + 1)", "first)"),
        ("contiguous", "index_keys/i64", "bad & (position == first)", "bad"),
        ("tangled", "index_keys/i64", "position = origin + at(", "position = origin - 1 + at("),
    ],
)
@pytest.mark.slow
def test_a_wrong_report_is_noticed(
    where: str, key: str, old: str, new: str, tmp_path: Path
) -> None:
    made = build(key, with_function_of(key, changed_module("axis_indices", tmp_path, old, new)))
    ids, wanted = indices("gather", WRONG[2])
    assert reported("gather", where, ids, "raise") == wanted
    assert reported("gather", where, ids, "raise", replacing(made)) != wanted
