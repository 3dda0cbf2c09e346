"""Exclusive scans on a GPU: the lines that random problems do not have, and wrong ends of lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_matrix import GpuCase, gpu_cases, wrong
from matrix import FUNCTIONS, Case
from mutants import changed_module, replacing, with_function_of
from ptx.run import layout_of
from samples import ELEMENTS

import gradplan as gp
from gradplan.declaration import Function, Op
from gradplan.engines.cuda import families
from gradplan.engines.cuda.kernels.builds import build
from gradplan.engines.cuda.launches import exclusive
from gradplan.engines.cuda.program import F32, Launch, Pointer

EXCLUSIVE = [(op, f) for op, f in FUNCTIONS if "exclusive" in op.field_named]
SHAPES = ((), (1,), (2,), (0,), (3, 0), (0, 3), (4, 1), (1, 4), (2, 3, 2, 2, 3, 2))


@pytest.mark.parametrize(("op", "function"), EXCLUSIVE, ids=[f.name for _, f in EXCLUSIVE])
def test_lines_of_hardly_any_elements(op: Op, function: Function) -> None:
    for number, shape in enumerate(SHAPES):
        for axis in range(max(len(shape), 1)):
            desc = op.descriptor(
                **function.fixed,
                **{"input_shape": shape, "scan_axis": axis, "exclusive": True},
                element=ELEMENTS[(number + axis) % 4],
                reverse=bool((number + axis // 2) % 2),
            )
            case = Case(op, desc, number, ("special", "ties")[number % 2], optional=number % 3 != 0)
            assert not wrong(GpuCase(case)), (shape, axis)


def program_of(name: str, **fields: Any) -> Any:
    desc = gp.ScanDescriptor(kind="cummin", element="f32", exclusive=True, **fields)
    x = np.zeros(desc.input_shape, np.float32)
    return families()[0][name](desc, {"x": layout_of(x), "y": layout_of(x)})


def test_there_is_one_launch_more_than_for_a_line_that_is_shorter() -> None:
    scan, end = program_of("scan", input_shape=(3, 17), scan_axis=1).launches
    assert scan.kernel == "scan_lines/cummax/f32/whole/any"
    assert scan.arguments[:2] == (Pointer("x"), Pointer("y", 4))
    assert end.kernel == "ends/f32" and end.arguments[0] == Pointer("y")
    assert F32(np.inf) in end.arguments
    backwards = program_of("scan", input_shape=(3, 17), scan_axis=1, reverse=True).launches
    assert backwards[0].arguments[:2] == (Pointer("x", 16 * 4), Pointer("y", 15 * 4))
    assert backwards[1].arguments[0] == Pointer("y", 16 * 4)


def test_shifted_columns_stay_aligned() -> None:
    scan, _ = program_of("scan", input_shape=(17, 8), scan_axis=0).launches
    assert scan.arguments[1] == Pointer("y", 8 * 4)


# Wrong ones -------------------------------------------------------------------------------------


def _cases(name: str) -> list[GpuCase]:
    (pair,) = (pair for pair in EXCLUSIVE if pair[1].name == name)
    op, function = pair
    sizes: Any = {"input_shape": (40, 3), "scan_axis": 1, "exclusive": True}
    desc = op.descriptor(**function.fixed, **sizes, element="f32")
    zeros = GpuCase(Case(op, desc, 1, "ties"))  # some of them negative
    cases = (zeros, *gpu_cases(op, function))
    return [c for c in cases if c.case.desc.exclusive and c.case.desc.element is gp.ElementKind.F32]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("linear_scan", "tl.full([C], -0.0, more.dtype)", "tl.full([C], 1.0, more.dtype)"),
        ("linear_scan", "tl.where(held, there, value)", "tl.where(held, there, 0.0)"),
        ("linear_scan_backward", "there + more,", "more,"),
        ("cummin_backward", "mask=live)\n\n", "mask=live & (line > 0))\n\n"),
    ],
)
@pytest.mark.slow
def test_a_wrong_end_is_noticed(name: str, old: str, new: str, tmp_path: Path) -> None:
    key = "ends/f32"
    made = build(key, with_function_of(key, changed_module("ends", tmp_path, old, new)))
    assert any(wrong(case, replacing(made)) for case in _cases(name))


def test_results_in_the_wrong_place_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def still(launch: Launch, places: Any) -> Launch:
        return launch

    monkeypatch.setattr(exclusive, "moved", still)
    assert any(map(wrong, _cases("cumsum")))
