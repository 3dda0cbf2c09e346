"""Scans on a GPU: the PTX of every kernel, executed, equals the reference bit for bit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layouts import words
from mutants import changed_module, with_function_of
from ptx.run import layout_of, run_program
from scan_programs import AWKWARD, FUNCTIONS, WAYS, Problem, Way, problems

import gradplan.reference as reference
from gradplan.declaration import OPS
from gradplan.engines.cuda.kernels.builds import build
from gradplan.engines.cuda.launches import lines
from gradplan.engines.cuda.launches.layouts import simplified
from gradplan.engines.cuda.launches.scan import PROGRAMS, WORKSPACE
from gradplan.engines.cuda.program import Layout
from gradplan.ops.scan import ScanWithIndicesDescriptor

ELEMENTS = ("f32", "bf16", "f64", "f16")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_way_through_the_launches(function: str) -> None:
    found = {name: p.differing() for name, p in problems(function)}
    assert found == dict.fromkeys(found, 0)
    assert len(found) >= len(WAYS) - 1


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.slow
def test_awkward_lengths(function: str) -> None:
    first = [*FUNCTIONS].index(function)  # not every length in every type with every function
    for number, n in enumerate(AWKWARD, first):
        axis = number % 2
        element = ELEMENTS[(number // 2) % 4]
        way = Way((3, n) if axis else (n, 3), axis, "offset" if number % 3 else "contiguous")
        assert Problem(function, element, way, number).differing() == 0, (n, axis, element)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_chains_of_many_chunks(function: str) -> None:
    """More than are loaded at once."""
    number = [*FUNCTIONS].index(function)
    way = Way((2, 70001), 1) if number % 2 else Way((70001, 2), 0)
    assert Problem(function, "f32", way, number).differing() == 0


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if not f.endswith("indices")])
def test_output_in_the_memory_of_the_input(function: str) -> None:
    for number, name in enumerate(("rows, aligned", "long rows", "columns", "short, aligned")):
        problem = Problem(function, "f32", WAYS[name], number)
        assert problem.differing(inplace=True) == 0, name


@pytest.mark.parametrize("inplace", [False, True])
def test_values_and_positions_at_once(inplace: bool) -> None:
    for number, name in enumerate(("rows, aligned", "long columns")):
        values = Problem("cummax", "bf16", WAYS[name], number)
        x = values.inputs["x"]
        fields = {"kind": "cummax", "scan_axis": WAYS[name].axis, "reverse": values.reverse}
        desc = ScanWithIndicesDescriptor(input_shape=x.shape, element="bf16", ties="last", **fields)
        wanted = reference.scan_with_indices(x, ties="last", **fields)
        y = x if inplace else np.empty_like(x)
        at = np.full(x.shape, -1, np.int32)
        tensors = {"x": x, "y": y, "indices": at}
        layouts = {name: layout_of(array) for name, array in tensors.items()}
        program = PROGRAMS["scan_with_indices"](desc, layouts)
        assert program.workspace_size <= WORKSPACE["scan_with_indices"](desc)
        run_program(program, tensors)
        assert np.array_equal(words(y), words(wanted[0]))
        assert np.array_equal(at, wanted[1])


def test_inputs_that_repeat_elements() -> None:
    for layout in ("stride 0 first", "stride 0 last"):
        problem = Problem("cumprod_backward", "f32", Way((3, 40, 2), 1, layout), 1)
        problem.way = dataclasses.replace(problem.way, layout="contiguous")
        assert problem.differing() == 0, layout


@pytest.mark.slow
def test_results_do_not_depend_on_who_runs_first() -> None:
    for name in ("long rows", "long columns", "rows, aligned"):
        problem = Problem("cummax_backward", "f32", WAYS[name], 1)
        assert problem.differing(warp_by_warp=True, backwards=True) == 0, name
    problem = Problem("cumsum", "f32", WAYS["long rows"], 0)
    assert problem.differing(warp_by_warp=True, backwards=True) == 0


# Sizes that no test could fill -----------------------------------------------------------------


def test_offsets_beyond_32_bits(tmp_path: Path) -> None:
    """Lines that are 2^31 elements apart, in a file that is mostly holes."""
    problem = Problem("cumsum", "f16", Way((3, 40), 1), 1)
    stride = 2**31 + 24
    values = problem.inputs["x"]

    def sparse(name: str) -> Any:
        memory = np.memmap(tmp_path / name, np.float16, "w+", shape=(2 * stride + 40,))
        return np.lib.stride_tricks.as_strided(memory, (3, 40), (2 * stride, 2))

    x, y = sparse("x"), sparse("y")
    x[...] = values
    tensors = {"x": x, "y": y}
    run_program(problem.program(tensors), tensors)
    assert np.array_equal(y.view(np.uint16), problem.wanted.view(np.uint16))


def test_more_lines_than_a_launch_counts() -> None:
    """They are several launches, which together visit each line once."""
    shape = (5, 2**29, 2)
    layout = Layout("float16", shape, (2**30, 2, 1), aligned=True)
    space = simplified({"x": layout}, 2)
    seen = []
    for part in lines.parts(space):
        assert np.prod(part.extents[:-1]) <= lines.MOST_LINES
        first = part.offsets["x"]
        count = int(np.prod(part.extents[:-1]))
        seen.append((first, first + 2 * count))
    seen.sort()
    assert [b for b, _ in seen] == [0, *(e for _, e in seen[:-1])]
    assert seen[-1][1] == np.prod(shape)


def test_nothing_to_do() -> None:
    for function, (op, *_) in FUNCTIONS.items():
        problem = Problem(function, "f32", Way((0, 3), 0), 0)
        tensors, _ = problem.place()
        assert problem.program(tensors).launches == ()
        assert WORKSPACE[op](problem.descriptor) == 0
    scans = {op for op in OPS if op.startswith("scan") and not op.startswith("scan_part")}
    assert {*PROGRAMS} == {*WORKSPACE} == scans  # parts of scans have no kernels for GPUs yet


# Wrong kernels ---------------------------------------------------------------------------------

MUTANTS = {
    "a carry from the wrong chunk": (
        "t = tl.where(behind, joined(l2, m, e, t2, KIND), l2)",
        "t = l2",
        ("long columns", "near_one"),
    ),
    "infinities that meet": (
        "total = tl.where((total != total) & (base == base) & (passed == passed), passed, total)",
        "",
        ("rows, aligned", "huge"),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.slow
def test_a_wrong_recurrence_is_noticed(name: str, tmp_path: Path) -> None:
    right, wrong, (way, flavour) = MUTANTS[name]
    number = FUNCTIONS["cumprod_backward"][3].index(flavour)
    problem = Problem("cumprod_backward", "f32", WAYS[way], number)
    assert problem.differing() == 0

    module = changed_module("recurrence_lines", tmp_path, right, wrong)
    tensors, _ = problem.place()
    keys = {launch.kernel for launch in problem.program(tensors).launches}
    mutants = {key: build(key, with_function_of(key, module)) for key in keys}
    assert problem.differing(binaries=mutants) > 0
