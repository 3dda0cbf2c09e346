"""Scans on a GPU: the PTX of every kernel, executed, equals the reference bit for bit."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layouts import words
from ptx.run import kernels, layout_of, run_program
from scan_programs import AWKWARD, FUNCTIONS, WAYS, Problem, Way, problems

import gradplan.reference as reference
from gradplan.declaration import OPS
from gradplan.engines.cuda.archive import Binary
from gradplan.engines.cuda.launches import lines
from gradplan.engines.cuda.launches.layouts import simplified
from gradplan.engines.cuda.launches.scan import PROGRAMS, WORKSPACE
from gradplan.engines.cuda.program import Layout
from gradplan.ops.scan import ScanWithIndicesDescriptor

ELEMENTS = ("f32", "bf16", "f64", "f16")


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_way_through_the_launches(function: str, element: str) -> None:
    wrong = {name: p.differing() for name, p in problems(function, element)}
    assert wrong == dict.fromkeys(wrong, 0)
    assert len(wrong) > len(WAYS) / 2


@pytest.mark.parametrize("function", FUNCTIONS)
def test_awkward_lengths(function: str) -> None:
    for number, n in enumerate(AWKWARD):
        axis = number % 2
        way = Way((3, n) if axis else (n, 3), axis, "offset" if number % 3 else "contiguous")
        assert Problem(function, "f32", way, number).differing() == 0, (n, axis)


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


def test_no_kernel_without_a_use() -> None:
    used = set()
    for function in FUNCTIONS:
        for element in ELEMENTS:
            for number, way in enumerate(WAYS.values()):
                for index in ("i32", "i64")[: 2 if function.endswith("indices") else 1]:
                    problem = Problem(function, element, way, number, index=index)
                    tensors, _ = problem.place()
                    used |= {launch.kernel for launch in problem.program(tensors).launches}
    family = {key.split("/")[0] for key in used}
    assert {key for key in kernels() if key.split("/")[0] in family} == used


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
    assert {*PROGRAMS} == {*WORKSPACE} == {op for op in OPS if op.startswith("scan")}


# Wrong kernels ---------------------------------------------------------------------------------

MUTANTS = {
    "one association": (
        "scan_rows",
        "op(c3, op(mine, op(c1, local[k], KIND), KIND), KIND)",
        "op(op(op(c3, mine, KIND), c1, KIND), local[k], KIND)",
        ("cumsum", WAYS["long rows, aligned"], "wide"),
    ),
    "a carry from the wrong chunk": (
        "recurrence_lines",
        "t = tl.where(chunk > 0, joined(l2, m, e, t2, KIND), l2)",
        "t = l2",
        ("cumprod_backward", WAYS["long columns"], "near_one"),
    ),
    "infinities that meet": (
        "recurrence_lines",
        "total = tl.where((total != total) & (base == base) & (passed == passed), passed, total)",
        "total = total",
        ("cumprod_backward", WAYS["rows, aligned"], "huge"),
    ),
    "a record behind NaN": (
        "scan_lines",
        "(nan & ((last != 0) | (extreme == extreme)))",
        "nan",
        ("cummax_indices", WAYS["long rows"], "special"),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_kernel_is_noticed(name: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    from gradplan.engines.cuda.kernels import compiler, scan

    file, right, wrong, (function, way, flavour) = MUTANTS[name]
    problem = Problem(function, "f32", way, FUNCTIONS[function][3].index(flavour))
    tensors, _ = problem.place()
    launched = {launch.kernel for launch in problem.program(tensors).launches}
    source = Path(scan.__file__).with_name(f"{file}.py").read_text()
    assert right in " ".join(source.split())

    module = _imported(_replaced(source, right, wrong), tmp_path / "mutant.py")
    binaries: dict[str, Binary] = {}
    for key in launched:
        kernel = scan.KERNELS[key]
        binaries[key] = kernels()[key]
        if kernel.function.__name__ in vars(module):
            mutant = dataclasses.replace(kernel, function=getattr(module, kernel.function.__name__))
            fields = dataclasses.asdict(compiler.compile(mutant))
            binaries[key] = Binary(key=key, **fields, source="")
    assert problem.differing() == 0
    assert problem.differing(binaries=binaries) > 0


def _replaced(source: str, right: str, wrong: str) -> str:
    """With one expression replaced, however its line is broken."""
    pattern = r"\s*".join(re.escape(part) for part in right.split())
    found = re.findall(pattern, source)
    assert len(found) == 1, found
    return source.replace(found[0], wrong)


def _imported(source: str, path: Path) -> Any:
    """A module beside the kernels': Triton reads functions from files."""
    path.write_text(source)
    name = f"gradplan.engines.cuda.kernels.{path.parent.name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
