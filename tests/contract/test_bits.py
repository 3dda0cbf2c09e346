"""The engine has the bits of the reference: for every op, layout, thread count and CPU build."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from layouts import Array
from matrix import (
    FRAMES,
    FUNCTIONS,
    INPUT_LAYOUTS,
    LENGTHS,
    Case,
    Prepared,
    cases,
    field_choices,
    mismatches,
    num_threads,
    saved_from_forward,
    values_for,
)
from samples import ELEMENTS, all_elements

import gradplan as gp
from gradplan import cases as canonical
from gradplan.declaration import AxisRole, Function, Op
from gradplan.declaration.fields import IndexInto, Real, SizeField
from gradplan.engines import cpu
from gradplan.plan import plan_class

THREADS = (1, 2, 3, 7)

pytestmark = pytest.mark.skipif(not cpu.supported_isas(), reason="no build for this CPU here")
all_functions = pytest.mark.parametrize(
    ("op", "function"), FUNCTIONS, ids=[f"{f.name}" for _, f in FUNCTIONS]
)


def builds() -> list[cpu.CpuEngine]:
    return [cpu.CpuEngine(build) for build in cpu.supported_isas()]


def report(wrong: Iterator[str]) -> str:
    """The first few differences: one is enough, a pattern helps."""
    found = list(wrong)
    return "\n".join([f"{len(found)} differences", *found[:5]]) if found else ""


# Engine and reference


@pytest.mark.every_op("function")
@all_elements
@all_functions
def test_the_engine_has_the_bits_of_the_reference(
    op: Op, function: Function, element: gp.ElementKind
) -> None:
    problems = [case for case in cases(op, function) if case.desc.element is element]
    assert problems
    assert report(mismatches(builds(), problems)) == ""


@all_functions
def test_the_matrix_has_every_pair(op: Op, function: Function) -> None:
    """Pruning to pairs is a promise: each layout meets each length, element type and field."""
    made = cases(op, function)
    choices = field_choices(op, function)
    assert {case.desc.element for case in made} == set(ELEMENTS)
    for info in op.fields:
        if info.name not in choices or isinstance(info.field, (SizeField, IndexInto)):
            continue  # these are limited where their product would be large
        values = {getattr(case.desc, info.name) for case in made}
        assert len(values) == len(choices[info.name])
        for layout in INPUT_LAYOUTS:
            assert {getattr(c.desc, info.name) for c in made if c.inputs == layout} == values
    if "length" in choices:
        shapes = {_shape(case) for case in made}
        assert {n for n in LENGTHS if any(n in shape for shape in shapes)} == set(LENGTHS)
        assert {len(shape) for shape in shapes} == {len(frame) for frame in FRAMES}


def _shape(case: Case) -> tuple[int, ...]:
    shape: tuple[int, ...] = getattr(case.desc, str(case.op.shape_field))
    return shape


# Strategies: the engine works on whole rows, or on pieces of 256 or 4096 (csrc/scan/sweep.h), as
# the shape suggests. A row must not know.


SCANS = [
    (op, function)
    for op, function in FUNCTIONS
    if op.axis_field is not None and not op.reads_indices
]


def line_problem(
    op: Op, function: Function, shape: tuple[int, ...], axis: int, seed: int = 0, **rest: Any
) -> Any:
    """`seed` chooses what the function leaves to the caller."""
    values: dict[str, Any] = {**function.fixed, **rest, str(op.shape_field): shape}
    for info in op.fields:
        choices = info.field.variants({}) if info.required else ()
        if info.name not in values and choices:
            values[info.name] = choices[seed % len(choices)]
    if op.axis_field is not None:
        values[op.axis_field] = axis
    return op.descriptor(**values)


def run_lines(engine: cpu.CpuEngine, case: Case, inputs: dict[str, Array]) -> tuple[Array, ...]:
    plan = plan_class(case.op)(case.desc, engine, gp.PlanPreference())
    result = plan.run(**inputs)
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("style", ["plain", "special"])
@pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
@pytest.mark.parametrize(("op", "function"), SCANS, ids=[f.name for _, f in SCANS])
def test_a_row_has_the_same_bits_alone_and_in_a_batch(
    op: Op, function: Function, element: str, style: str
) -> None:
    n, most = 4113, 512
    seed = len(style)
    whole = Case(op, line_problem(op, function, (most, n), 1, seed, element=element), 7, style)
    values = values_for(whole)
    inputs = saved_from_forward(
        whole, {o.name: values[o.name] for o in op.operands(whole.desc) if o.is_input}
    )
    for engine in builds():
        expected = run_lines(engine, whole, inputs)
        # 512 rows: whole. 511 and 510 of them: pieces of 4096. 5, 3, 1: pieces of 256.
        for count in (511, 5, 3, 1):
            part = {name: x[most - count :] for name, x in inputs.items()}
            got = run_lines(engine, _rows(whole, count), part)
            for y, want in zip(got, expected, strict=True):
                assert y.tobytes() == want[most - count :].tobytes(), (count, engine.arch)
        # Neighbours across instead of along.
        columns = {name: np.ascontiguousarray(x.T) for name, x in inputs.items()}
        for count in (512, 37):
            desc = line_problem(op, function, (n, count), 0, seed, element=element)
            part = {name: np.ascontiguousarray(x[..., :count]) for name, x in columns.items()}
            got = run_lines(engine, Case(op, desc, 7), part)
            for y, want in zip(got, expected, strict=True):
                assert y.T.tobytes() == want[:count].tobytes(), (count, engine.arch)


def _rows(case: Case, count: int) -> Case:
    (op, desc) = (case.op, case.desc)
    shape_field = str(op.shape_field)
    n = getattr(desc, shape_field)[1]
    fields = {i.name: getattr(desc, i.name) for i in op.fields}
    return Case(op, op.descriptor(**{**fields, shape_field: (count, n)}), case.seed, case.style)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("op", "function"), SCANS, ids=[f.name for _, f in SCANS])
def test_long_rows_have_the_bits_of_the_reference(op: Op, function: Function, axis: int) -> None:
    """Rows x length on both sides of every switch of csrc/scan/sweep.h and softmax/sparsemax.cc."""
    elements = ["f32", "f16", "f32", "f64", "f32", "bf16"]
    shapes = [(512, 513), (511, 513), (600, 512), (2, 513), (1, 300_000), (33, 16_400)]
    problems = [
        Case(
            op,
            line_problem(op, function, shape[::-1] if axis == 0 else shape, axis, s, element=e),
            s,
        )
        for s, (shape, e) in enumerate(zip(shapes, elements, strict=True))
    ]
    assert report(mismatches(builds(), problems)) == ""


@all_elements
@pytest.mark.parametrize(("op", "function"), SCANS, ids=[f.name for _, f in SCANS])
def test_a_few_special_values_in_long_rows(
    op: Op, function: Function, element: gp.ElementKind
) -> None:
    """Kernels that take ordinary values the short way notice all others, wherever they stand."""
    shapes = [(60, 256), (60, 300), (60, 1024), (40, 1300), (20, 4097), (6, 9000), (2, 140_000)]
    problems = [
        Case(op, line_problem(op, function, shape, 1, seed, element=element), seed, "rare")
        for seed, shape in enumerate(shapes)
    ]
    assert report(mismatches(builds(), problems)) == ""


@all_elements
@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("function", gp.ops.scan.SCAN.functions, ids=lambda f: f.name)
def test_short_rows_and_wide_columns(
    function: Function, reverse: bool, element: gp.ElementKind
) -> None:
    """Rows of which several fill a block; columns that go down in strips, the last one narrow."""
    op = gp.ops.scan.SCAN
    rows = [(70, 16), (37, 32), (300, 64), (9, 128), (2, 64), (3000, 64)]
    columns = [(300, 520), (35, 1500), (530, 1027), (4200, 257)]
    problems = [
        Case(op, line_problem(op, function, s, axis, element=element, reverse=reverse), i, style)
        for i, (s, axis) in enumerate([(s, 1) for s in rows] + [(s, 0) for s in columns])
        for style in (("special", "rare")[i % 2],)
    ]
    assert report(mismatches(builds(), problems)) == ""


@all_elements
@all_functions
def test_lines_and_columns_have_the_same_bits_alone(
    op: Op, function: Function, element: gp.ElementKind
) -> None:
    """The canonical problems of `gradplan certify`, cut along every axis that allows it."""
    for engine in builds():
        for case in canonical.cases(op, function, element):
            together = _results(engine, case)
            for line in case.lines():
                alone = _results(engine, line)
                part = case.line_of(together, line)
                assert {n: x.tobytes() for n, x in alone.items()} == {
                    n: np.ascontiguousarray(x).tobytes() for n, x in part.items()
                }, (engine.arch, case.label)


def _results(engine: cpu.CpuEngine, case: canonical.Case) -> dict[str, Array]:
    operands = case.op.operands(case.descriptor)
    plan = plan_class(case.op)(case.descriptor, engine, gp.PlanPreference())
    outputs = [o.name for o in operands if not o.is_input]
    results = plan.run(**{name: x.copy() for name, x in case.tensors.items()})
    return dict(zip(outputs, results if len(outputs) > 1 else (results,), strict=True))


# Threads


@pytest.mark.parametrize(("op", "function"), FUNCTIONS, ids=[f.name for _, f in FUNCTIONS])
def test_threads_do_not_change_bits(op: Op, function: Function) -> None:
    """Problems large enough for threads (csrc/memory/threads.h: 256 KiB), each way to cut."""
    for case in _large_cases(op, function):
        prepared = Prepared.of(case)
        for engine in builds():
            for threads in THREADS:
                assert prepared.run(engine, threads) == []


def _large_cases(op: Op, function: Function) -> Iterator[Case]:
    if op.shape_field is not None:
        for seed, (shape, axis, extent, element, order) in enumerate(
            [
                ((700, 300), 1, 410, "f32", "any"),
                ((90_000,), 0, 70_000, "f64", "any"),
                ((1030, 150), 0, 5, "f16", "hot"),
                ((5, 31_000), 1, 900, "bf16", "sorted"),
            ]
        ):
            desc = _filled(op, function, shape, axis, extent, element, seed)
            yield Case(op, desc, seed, "special", order=order)
        return
    ascending = any(t.ascending for t in op.tensors)
    for seed, (n, width, s, element, order) in enumerate(
        [
            (20_000, 8, 3000, "f32", "any"),
            (9_000, 33, 5, "f64", "hot"),
            (70_000, 1, 100, "f32", "hot"),
            (3_000, 70, 9000, "bf16", "any"),
        ]
    ):
        sizes = canonical.axis_sizes(op, n, s, width)
        yield Case(
            op,
            op.descriptor(element=element, **function.fixed, **sizes),
            seed,
            "special",
            order="sorted" if ascending else order,
        )


def _filled(
    op: Op, function: Function, shape: Any, axis: int, extent: int, element: str, seed: int
) -> Any:
    """`extent` is what indices along the axis point into."""
    rest: dict[str, Any] = dict.fromkeys(op.sizes_with_role(AxisRole.ALONG), extent)
    # Not the sample's, by which products are exact.
    rest |= {i.name: 0.3 for i in op.fields if isinstance(i.field, Real) and i.required}
    return line_problem(op, function, shape, axis, seed, element=element, **rest)


def test_the_number_of_threads_is_restored() -> None:
    before = gp.get_num_threads()
    with num_threads(5):
        assert gp.get_num_threads() == 5
    assert gp.get_num_threads() == before


@pytest.mark.parametrize("ties", ["first", "last"])
@pytest.mark.parametrize("shape", [(3, 5000), (600, 300)])
def test_a_running_zero_has_the_sign_of_the_first_one(shape: tuple[int, int], ties: str) -> None:
    """Values of equal extremes are the first one's, whichever of them the position is of."""
    x = np.zeros(shape, np.float32)
    x[:, 1:] = -0.0
    x[1::2] *= -1
    for function in (gp.cummax_with_indices, gp.cummin_with_indices):
        y, indices = function(x, ties=ties)
        assert np.signbit(y[0::2]).sum() == 0 and np.signbit(y[1::2]).all()
        assert (indices == (0 if ties == "first" else np.arange(shape[1]))).all()
