"""Every kernel in every element type, executed, against the reference."""

from __future__ import annotations

import pytest
from gpu_matrix import all_of, choice_cases, gpu_cases, many_keys, planned, wrong
from matrix import FUNCTIONS
from ptx.run import kernels
from samples import ELEMENTS

import gradplan as gp
from gradplan.declaration import Function, Op
from gradplan.engines.cuda import families
from gradplan.engines.cuda.launches.choices import CHOICES

HERE = [(op, function) for op, function in FUNCTIONS if op.name in families()[0]]
all_functions = pytest.mark.parametrize(
    ("op", "function"), HERE, ids=[function.name for _, function in HERE]
)


@all_functions
@pytest.mark.parametrize("element", ELEMENTS, ids=[e.value for e in ELEMENTS])
def test_kernels_have_the_bits_of_the_reference(
    op: Op, function: Function, element: gp.ElementKind
) -> None:
    cases = all_of(op, function, element)
    assert cases
    found = [what for case in cases for what in wrong(case)]
    assert not found, "\n".join(found)


MANY_KEYS = many_keys(*next(pair for pair in HERE if pair[1].name == "unsorted_segment_sum"))


@pytest.mark.slow
def test_many_keys_are_sorted() -> None:
    assert not wrong(MANY_KEYS)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOICES)
def test_choices_change_launches_and_no_bits(name: str) -> None:
    cases = [*choice_cases(name, HERE)]
    assert cases
    found = [what for case in cases for what in wrong(case)]
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_every_kernel_is_executed() -> None:
    cases = [MANY_KEYS, *(case for pair in HERE for case in gpu_cases(*pair))]
    cases += [case for name in CHOICES for case in choice_cases(name, HERE)]
    launched = {launch.kernel for case in cases for launch in planned(case).launches}
    assert launched == {*kernels()}
