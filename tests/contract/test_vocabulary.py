"""The words: enumerations, guarantees, SKUs, preferences, errors."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import gradplan as gp
from gradplan.vocabulary import FLOATS, REPRODUCIBLE_AXES


def test_words_are_their_strings() -> None:
    assert gp.ElementKind.F32 == "f32"
    assert {"f32": 1}[gp.ElementKind.F32] == 1
    assert f"{gp.ScanKind.CUMMAX}" == str(gp.ScanKind.CUMMAX) == "cummax"
    assert repr(gp.Ties.LAST) == "Ties.LAST"
    assert gp.Bounds.parse("raise") is gp.Bounds.parse(gp.Bounds.RAISE) is gp.Bounds.RAISE


@pytest.mark.parametrize("wrong", ["F32", "float", None, 32, gp.ScanKind.CUMSUM, float])
def test_a_wrong_word_lists_the_right_ones(wrong: object) -> None:
    with pytest.raises(gp.InvalidProblem, match=r"'f16', 'bf16', 'f32', 'f64', 'i32', 'i64'"):
        gp.ElementKind.parse(wrong)


@pytest.mark.parametrize("kind", list(gp.ElementKind), ids=str)
def test_an_element_may_be_spelt_as_the_frameworks_do(kind: gp.ElementKind) -> None:
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    name = kind.dtype_name
    spellings = [name, kind.dtype, kind.dtype.type, getattr(torch, name), getattr(jnp, name)]
    for spelling in spellings:
        assert gp.ElementKind.parse(spelling) is kind


@pytest.mark.parametrize(
    "wrong",
    ["torch.float32", "Float32", "float128", np.dtype(">f4"), np.uint8, np.float32(1), np.ones(1)],
)
def test_what_is_no_element_type_is_refused(wrong: object) -> None:
    with pytest.raises(gp.InvalidProblem, match="expected one of 'f16'"):
        gp.ElementKind.parse(wrong)


@pytest.mark.parametrize(
    ("parse", "wrong", "meant"),
    [
        (gp.ElementKind.parse, "flaot32", "float32"),
        (gp.ElementKind.parse, "F32", "f32"),
        (gp.ScanKind.parse, "cumsun", "cumsum"),
        (gp.Bounds.parse, "rais", "raise"),
    ],
)
def test_a_misspelt_word_is_recognised(parse: Any, wrong: str, meant: str) -> None:
    with pytest.raises(gp.InvalidProblem, match=f"got '{wrong}'; did you mean '{meant}'"):
        parse(wrong)


@pytest.mark.parametrize("kind", list(gp.ElementKind), ids=str)
def test_element_kinds_know_their_types(kind: gp.ElementKind) -> None:
    assert kind.dtype.name == kind.dtype_name
    assert kind.dtype.itemsize == kind.itemsize
    assert gp.ElementKind.from_dtype_name(kind.dtype_name) is kind
    assert kind.is_float == (kind in FLOATS)
    assert kind.compute.significand_bits >= kind.significand_bits
    assert kind.compute.itemsize >= 4
    assert gp.ElementKind.from_dtype_name("complex64") is None


def guarantees() -> list[gp.PrecisionGuarantee]:
    axes = sorted(REPRODUCIBLE_AXES)
    reaches = [frozenset(c) for n in range(6) for c in itertools.combinations(axes, n)]
    flags = itertools.cycle(itertools.product([True, False], repeat=2))
    kinds = itertools.cycle(gp.ElementKind)
    return [
        gp.PrecisionGuarantee(next(kinds), next(kinds), *flag, reach)
        for reach, flag in zip(reaches, flags, strict=False)
    ]


@pytest.mark.parametrize("guarantee", guarantees(), ids=str)
def test_a_guarantee_parses_back(guarantee: gp.PrecisionGuarantee) -> None:
    assert gp.PrecisionGuarantee.parse(str(guarantee)) == guarantee
    sku = gp.KernelSku(
        gp.OpCategory.SCAN, "cumsum", gp.ElementKind.F16, precision_guarantee=guarantee
    )
    assert gp.KernelSku.parse(str(sku)) == sku
    assert hash(gp.KernelSku.parse(str(sku))) == hash(sku)


@pytest.mark.parametrize(
    "text",
    ["", "scan", "scan/cumsum/f32", "x/cumsum/f32/-/-/-/-/-/-", "scan/cumsum/f32/-/-/-/-/-/f"],
)
def test_a_malformed_sku_is_refused(text: str) -> None:
    with pytest.raises(gp.InvalidProblem):
        gp.KernelSku.parse(text)


def test_a_preference_says_what_is_lacking() -> None:
    weak = gp.PrecisionGuarantee("f32", "f32", False, False, frozenset({"threads"}))
    wish = gp.PlanPreference(
        math_precision="f64",
        accumulator="f64",
        deterministic=True,
        bit_stable_on_same_hardware=True,
        reproducible_across={"threads", "isa"},
    )
    reason = wish.why_not(weak)
    assert reason is not None
    for part in ("math_precision", "accumulator", "deterministic", "bit_stable", "across isa"):
        assert part in reason
    assert gp.PlanPreference().why_not(weak) is None
    assert wish.why_not(gp.PrecisionGuarantee("f64", "f64")) is None


def test_an_integer_accumulator_is_no_better_than_the_arithmetic() -> None:
    fixed = gp.PrecisionGuarantee("f32", "i64")
    assert gp.PlanPreference(accumulator="f32").why_not(fixed) is None
    assert gp.PlanPreference(accumulator="f64").why_not(fixed) is not None


def test_unknown_axes_of_reproducibility_are_refused() -> None:
    with pytest.raises(gp.InvalidProblem, match="moon"):
        gp.PlanPreference(reproducible_across={"moon"})


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (gp.InvalidProblem, ValueError),
        (gp.BufferTooSmall, ValueError),
        (gp.MisalignedOperand, ValueError),
        (gp.WorkspaceTooSmall, ValueError),
        (gp.Unsupported, NotImplementedError),
        (gp.IndexOutOfRange, IndexError),
        (gp.KernelError, RuntimeError),
    ],
)
def test_errors_are_builtins_too(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, gp.Error)
    assert issubclass(error, builtin)
    assert error.__module__ == "gradplan"
    assert type(pickle.loads(pickle.dumps(error("why")))) is error


def test_buffer_errors_are_invalid_problems() -> None:
    assert issubclass(gp.BufferTooSmall, gp.InvalidProblem)
    assert issubclass(gp.MisalignedOperand, gp.InvalidProblem)
