"""What somebody reads who made a mistake: it says what to do."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samples import all_ops, sample_descriptor, sample_inputs

import gradplan as gp
from gradplan.declaration import Op
from gradplan.functional import SIGNATURES
from gradplan.hints import did_you_mean, shown
from gradplan.plan import plan_class
from gradplan.signatures import Signature

X = np.ones((2, 3), np.float32)
IDS = np.zeros(2, np.int64)
all_functions = pytest.mark.parametrize("name", SIGNATURES)


# Arguments


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gp.cumsum(X, dim=0), "unexpected keyword argument 'dim'; did you mean 'axis'?"),
        (lambda: gp.cumsum(X, revers=True), "'revers'; did you mean 'reverse'?"),
        (lambda: gp.cumsum(X, output=X), "'output'; did you mean 'out'?"),
        (lambda: gp.lerp(X, X, wieght=0.5), "'wieght'; did you mean 'weight'?"),
        (lambda: gp.cumsum(X, zzz=1), "'zzz'; it takes x, axis, reverse, exclusive, out"),
        (lambda: gp.cumsum(), "cumsum() missing 1 required argument: 'x'"),
        (lambda: gp.lerp(X, X), "lerp() missing 1 required argument: 'weight'"),
        (lambda: gp.segment_sum(X, num_segments=2), "missing 1 required argument: 'segment_ids'"),
        (lambda: gp.lerp_backward(weight=0.5), "lerp_backward() missing 1 required argument: 'dy'"),
        (
            lambda: gp.ScanDescriptor(kind="cumsum", shape=(2,), scan_axis=0, element="f32"),
            "ScanDescriptor() got an unexpected keyword argument 'shape'; "
            "did you mean 'input_shape'?",
        ),
        (lambda: gp.PlanPreference(enigne="cpu"), "'enigne'; did you mean 'engine'?"),
        (
            lambda: gp.ScanDescriptor(kind="cumsum", input_shape=(2,), element="f32"),
            "missing 1 required keyword-only argument: 'scan_axis'",
        ),
    ],
)
def test_misspelt_arguments(call: Callable[[], Any], message: str) -> None:
    for _ in range(2):
        with pytest.raises(TypeError) as caught:
            call()
        assert message in str(caught.value)


@all_functions
def test_signatures_show_nothing_of_it(name: str) -> None:
    shown_ = inspect.signature(getattr(gp, name))
    assert "unknown" not in str(shown_) and "MISSING" not in str(shown_)
    required = [p.name for p in shown_.parameters.values() if p.default is p.empty]
    assert required == [n for n, a in SIGNATURES[name].arguments if needed(name, a)]


def needed(name: str, argument: Any) -> bool:
    return SIGNATURES[name].default_of(argument) is inspect.Parameter.empty


def sample_call(signature: Signature) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and options of a call, by the function's names."""
    desc = sample_descriptor(signature.op, **signature.function.fixed)
    tensors = sample_inputs(signature.op, desc)
    inputs = {t.function_name: tensors[t.name] for t in signature.inputs}
    return inputs, {p.name: getattr(desc, p.info.name) for p in signature.parameters}


@all_functions
def test_a_missing_argument_is_named(name: str) -> None:
    signature = SIGNATURES[name]
    inputs, values = sample_call(signature)
    given = {**inputs, **values}
    getattr(gp, name)(**given)
    for argument in (n for n, a in signature.arguments if needed(name, a)):
        rest = {n: x for n, x in given.items() if n != argument}
        with pytest.raises(TypeError, match=rf"{name}\(\) missing 1 required .*'{argument}'"):
            getattr(gp, name)(**rest)


@all_ops
def test_tensors_of_run_are_suggested(op: Op) -> None:
    desc = sample_descriptor(op)
    tensors = sample_inputs(op, desc)
    first = max(tensors, key=len)
    misspelt = {f"{n}s" if n == first else n: x for n, x in tensors.items()}
    with pytest.raises(gp.InvalidProblem, match=f"unknown '{first}s'; did you mean '{first}'"):
        plan_class(op).select(desc).run(**misspelt)


def test_names_of_the_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'cumsumm'; did you mean 'cumsum'"):
        gp.cumsumm  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'zzz'$"):
        gp.zzz  # noqa: B018


# Tensors


class Table:
    """As pandas, polars and xarray have it."""

    dtype, shape = np.dtype("f8"), (3,)

    def to_numpy(self) -> Any:
        return np.ones(3)


class Convertible:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.ones(3)


@pytest.mark.parametrize(
    ("x", "hint"),
    [
        ([1.0, 2.0], "got list; convert it with numpy.asarray(x, 'float32')"),
        (Table(), "Table of float64, shape [3]; pass x.to_numpy()"),
        (Convertible(), "Convertible; pass numpy.asarray(x)"),
        (None, "got None"),
    ],
)
def test_what_is_no_tensor(x: Any, hint: str) -> None:
    with pytest.raises(gp.InvalidProblem) as caught:
        gp.cumsum(x)
    assert str(caught.value).endswith(hint)


@all_functions
def test_masked_arrays_are_refused(name: str, engine: str) -> None:
    signature = SIGNATURES[name]
    desc = sample_descriptor(signature.op, **signature.function.fixed)
    tensors = sample_inputs(signature.op, desc)
    inputs = {t.function_name: tensors[t.name] for t in signature.inputs}
    options = {p.name: getattr(desc, p.info.name) for p in signature.parameters}
    made = getattr(gp, name)(**inputs, **options)  # a call that is remembered
    message = r"expected an array without a mask.*x\.filled\(value\)"
    for masked in inputs:
        given = {**inputs, masked: np.ma.masked_array(inputs[masked])}
        with pytest.raises(gp.Unsupported, match=message):
            getattr(gp, name)(**given, **options)
    outs = tuple(np.ma.masked_array(y) for y in (made if isinstance(made, tuple) else (made,)))
    with pytest.raises(gp.Unsupported, match=message):
        getattr(gp, name)(**inputs, **options, out=outs if len(outs) > 1 else outs[0])
    plan = plan_class(signature.op).select(desc)
    for call in (plan.run, plan.can_implement):
        for tensor, x in tensors.items():
            with pytest.raises(gp.Unsupported, match=f"'{tensor}': {message}"):
                call(**{**tensors, tensor: np.ma.masked_array(x)})


class OnGpu:
    """Says that it is where this machine need not have anything."""

    shape, dtype = (2, 3), np.dtype("f4")

    def __dlpack__(self, **kwargs: Any) -> Any:
        raise BufferError("nothing here")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1


def test_tensors_on_several_devices() -> None:
    for a, b, got in ((X, OnGpu(), "a on cpu, b on cuda:1"), (OnGpu(), X, "a on cuda:1, b on cpu")):
        gp.lerp.__globals__["calls"].clear()
        with pytest.raises(gp.InvalidProblem, match=f"expected tensors on one device; got {got}"):
            gp.lerp(a, b, 0.5)
    gp.lerp(X, X, 0.5)  # now it is known
    with pytest.raises(gp.InvalidProblem, match="tensor 'b': cannot be exported"):
        gp.lerp(X, OnGpu(), 0.5)


# Plans and preferences


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: gp.ScanPlan.select([3]), "expected a ScanDescriptor; got [3]"),
        (
            lambda d: gp.ScanPlan.select({"kind": "cumsum"}),
            "got {'kind': 'cumsum'}; make one with ScanDescriptor(**fields)",
        ),
        (lambda d: gp.ScanPlan.select(X), "expected a ScanDescriptor; got array"),
        (lambda d: gp.ScanPlan.select(d, {"engine": "cpu"}), "expected a PlanPreference; got {"),
        (lambda d: gp.ScanPlan.select(d, device=["cpu"]), "expected a device such as 'cpu'"),
        (lambda d: gp.ScanPlan.select(d, gp.PlanPreference(engine="cup")), "did you mean 'cpu'?"),
        (lambda d: gp.ScanPlan.select(d, gp.PlanPreference(engine=["cpu"])), "got ['cpu']"),
    ],
)
def test_selecting_something_else(call: Callable[[Any], Any], message: str) -> None:
    desc = gp.ScanDescriptor(kind="cumsum", input_shape=(2,), scan_axis=0, element="float32")
    for _ in range(2):
        with pytest.raises(gp.InvalidProblem) as caught:
            call(desc)
        assert message in str(caught.value)


# Options


def test_a_number_that_no_float_can_hold() -> None:
    for digits in (400, 5000):  # Python does not print the latter
        with pytest.raises(gp.InvalidProblem, match="weight: expected a real number; got") as e:
            gp.lerp(X, X, 10**digits)
        assert len(str(e.value)) < 200


@pytest.mark.parametrize("x", [X[:, 0], X, X[:, :0]], ids=["rows", "features", "nothing"])
def test_a_size_that_no_memory_can_hold(x: Any) -> None:
    for count in (2**62, 2**63 - 1, 2**63, 10**100):
        for kind in (np.float16, np.float64):
            with pytest.raises(gp.InvalidProblem, match=r"2\^63 bytes|a non-negative integer"):
                gp.segment_sum(x.astype(kind), IDS, count)
    if x.size:
        with pytest.raises(MemoryError):
            gp.segment_sum(x.astype(np.float16), IDS, 2**60)
    else:
        assert gp.segment_sum(x, IDS, 2**60).shape == (2**60, 0)


class Word(str):
    """Equal to its string, and no plain one."""


def equals(value: Any) -> list[Any]:
    """What is equal to an option's value, and not of its type."""
    if isinstance(value, str):
        return [Word(value), np.str_(value)]
    if isinstance(value, bool):
        return [int(value), float(value)]
    if isinstance(value, int):
        return [float(value), complex(value), *([bool(value)] if value in (0, 1) else [])]
    return [str(value)]


@all_functions
def test_an_option_that_is_refused_once_is_refused_always(name: str) -> None:
    signature = SIGNATURES[name]
    inputs, values = sample_call(signature)
    options = {n: v.value if isinstance(v, enum.Enum) else v for n, v in values.items()}
    function = getattr(gp, name)
    for option, sample in options.items():
        value = 1 if sample is None else sample  # an index that may be left out
        for wrong in equals(value):
            function.__globals__["calls"].clear()
            for _ in range(2):  # before and after a call with what it equals
                with pytest.raises(gp.InvalidProblem, match=f"{name}: {option}: expected"):
                    function(**inputs, **{**options, option: wrong})
                function(**inputs, **{**options, option: value})


# The words


def test_suggestions() -> None:
    assert did_you_mean("axes", ["x", "axis"]) == "; did you mean 'axis'?"
    assert did_you_mean("zzz", ["x", "axis"]) == did_you_mean(3, ["3"]) == ""
    assert len(shown("x" * 1000)) == 100 and shown(10**10000).startswith("0x")
