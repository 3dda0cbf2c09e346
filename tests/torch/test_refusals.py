"""What gradplan.torch refuses, and what it says to somebody who made a mistake."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from operator_arguments import arguments_of, option_of, tensor_of
from torch._subclasses import FakeTensorMode

import gradplan as gp
from gradplan import torch as gpt
from gradplan.offers import TORCH
from gradplan.torch.functions import OFFERS

X = torch.ones(2, 3)
IDS = torch.tensor([0, 1])
META = torch.device("meta")
all_functions = pytest.mark.parametrize("name", gpt.functions.__all__)


def sample(name: str) -> dict[str, Any]:
    """Arguments by name, of every function that is offered."""
    offer, g = OFFERS.offered[name], np.random.default_rng(0)
    given: dict[str, Any] = {}
    for p in offer.parameters:
        what = offer.meaning(p.name)
        if isinstance(what, gp.declaration.Tensor):
            given[p.name] = tensor_of(offer.op, what, g)
        elif p.annotation == TORCH.takes:  # what the result is added to
            given[p.name] = tensor_of(offer.op, offer.signature.outputs[0], g)
        elif what is not None and (p.default is p.empty or what.info.field.is_axis):
            given[p.name] = option_of(offer.op, what)
    return given


@all_functions
def test_what_is_no_tensor_is_refused(name: str) -> None:
    given = sample(name)
    function = getattr(gpt, name)
    function(**given)
    own = OFFERS.offered[name].signature.function.name
    hints = {
        "array": (X.numpy(), f"use gradplan.{own}, or pass torch.from_numpy"),
        "list": ([1.0], r"convert it with torch.tensor\(x\)"),
        "none": (None, "got None"),
        "number": (3.0, "got float"),
        "masked": (np.ma.masked_array(X.numpy()), r"pass torch.from_numpy\(x.filled\(value\)\)"),
    }
    for tensor in (n for n, x in given.items() if isinstance(x, torch.Tensor)):
        meaning = OFFERS.offered[name].meaning(tensor)
        optional = meaning is not None and meaning.optional
        for wrong, hint in (h for h in hints.values() if h[0] is not None or not optional):
            with pytest.raises(
                gp.InvalidProblem, match=f"{tensor}: expected a torch.Tensor.*{hint}"
            ):
                function(**{**given, tensor: wrong})


@all_functions
def test_tensors_on_several_devices_are_refused(name: str) -> None:
    given = sample(name)
    function = getattr(gpt, name)
    tensors = [n for n, x in given.items() if isinstance(x, torch.Tensor)]
    for _ in range(2):
        function(**given)  # a call that is remembered
        for away in tensors if len(tensors) > 1 else ():
            with pytest.raises(gp.InvalidProblem, match=f"{name}: .*one device.*{away} on meta"):
                function(**{**given, away: given[away].to(META)})
    made = function(**{n: given[n].to(META) if n in tensors else given[n] for n in given})
    results = made if isinstance(made, tuple) else (made,)
    assert all(y.is_meta for y in results)


@pytest.mark.parametrize("operator", sorted(gpt.operators.OPERATORS))
def test_operators_refuse_several_devices(operator: str) -> None:
    """Those behind the functions, which gradients and exported programs call."""
    made = gpt.operators.OPERATORS[operator]
    if len(made.tensors) == 1:
        pytest.skip("one tensor")
    arguments, count = arguments_of(made), len(made.tensors)
    tensors, rest = arguments[:count], arguments[count:]
    made.overload(*tensors, *rest)
    for away in range(len(tensors)):
        given = [x.to(META) if i == away else x for i, x in enumerate(tensors)]
        with pytest.raises(gp.InvalidProblem, match="expected tensors on one device"):
            made.overload(*given, *rest)


def test_integers_on_several_devices_are_refused() -> None:
    with pytest.raises(gp.InvalidProblem, match="x on cpu, segment_ids on meta"):
        gpt.segment_sum(X.long(), IDS.to(META), 3)


def test_fake_tensors_have_the_device_that_they_say() -> None:
    with FakeTensorMode() as mode:
        x, ids = (mode.from_tensor(t) for t in (X, IDS))
        assert gpt.segment_sum(x, ids, 3).device.type == "cpu"
        with pytest.raises(gp.InvalidProblem, match="one device"):
            gpt.segment_sum(x, ids.to(META), 3)
        on_gpu = torch.empty(2, 3, device="cuda")  # which nobody needs to have
        with pytest.raises(gp.InvalidProblem, match="got a on cpu, b on cuda:0"):
            gpt.lerp(x, on_gpu, 0.5)
        assert gpt.lerp(on_gpu, on_gpu, 0.5).device.type == "cuda"


# Options


@pytest.mark.parametrize(
    ("call", "right", "wrongs"),
    [
        (lambda v: gpt.cumsum(X, 0, v), True, [1, 1.0, "True", None, np.int64(1)]),
        (lambda v: gpt.cumsum(X, 0, reverse=v), False, [0, 0.0, "", None]),
        (lambda v: gpt.cumsum(X, v), 1, [True, 1.0, "1", None]),
        (lambda v: gpt.lerp(X, X, v), 1.0, [True, "1.0", None, 10**400, np.ones(2)]),
        (lambda v: gpt.segment_sum(X, IDS, v), 3, [3.0, "3", None, torch.tensor(3.0)]),
        (lambda v: gpt.segment_sum(X[:1], IDS[:1], v), 1, [True, 1.0, torch.tensor(True)]),
        (lambda v: gpt.segment_sum(X, IDS, 3, v), True, [1, 1.0, None]),
        (lambda v: gpt.segment_sum(X, IDS, 3, v), False, [0, 0.0, None]),
        (lambda v: gpt.segment_sum(X.long(), IDS, 3, v), False, [0, 0.0, None]),
        (lambda v: gpt.segment_sum(X, IDS, 3, bounds=v), "raise", [np.str_("raise"), 1, None]),
        (lambda v: gpt.embedding(IDS, X, v), 1, [True, 1.0, "1"]),
        (lambda v: gpt.embedding(IDS, X, bounds=v), "skip", ["skpi", np.str_("skip")]),
    ],
)
def test_an_option_that_is_refused_once_is_refused_always(
    call: Callable[[Any], Any], right: Any, wrongs: list[Any]
) -> None:
    for wrong in wrongs:
        for _ in range(3):  # before and after calls with what it may be equal to
            with pytest.raises(gp.Error, match="expected"):
                call(wrong)
            call(right)


def test_numbers_of_other_libraries_are_taken() -> None:
    assert torch.equal(gpt.cumsum(X, np.int64(1), np.bool_(True)), gpt.cumsum(X, 1, True))
    assert gpt.segment_sum(X, IDS, np.int32(3)).shape == (3, 3)
    assert gpt.segment_sum(X, IDS, torch.tensor(3)).shape == (3, 3)
    assert torch.equal(gpt.lerp(X, X * 2, np.float32(0.5)), gpt.lerp(X, X * 2, 0.5))
    assert gpt.segment_sum(X, IDS, 3, bounds=gp.Bounds.SKIP).shape == (3, 3)


@pytest.mark.parametrize("spelling", ["float64", "f64", np.float64, np.dtype("f8"), torch.float64])
def test_an_element_type_may_be_spelt_as_others_do(spelling: Any) -> None:
    assert gpt.cumsum(X, 0, dtype=spelling).dtype is torch.float64


def test_a_wrong_element_type_is_named() -> None:
    with pytest.raises(gp.InvalidProblem, match=r"dtype: .*'float46'; did you mean 'float"):
        gpt.cumsum(X, 0, dtype="float46")
    assert gpt.cumsum(X, 0, dtype=torch.int64).dtype is torch.int64


# Arguments


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gpt.cumsum(X, axis=0), r"cumsum\(\) .*'axis'; did you mean 'dim'\?"),
        (lambda: gpt.cumsum(X, 0, revers=True), r"'revers'; did you mean 'reverse'\?"),
        (lambda: gpt.cumsum(input=X, dim=0), r"'input'; it takes x, dim, reverse"),
        (lambda: gpt.cumsum(X), r"cumsum\(\) missing 1 required argument: 'dim'"),
        (lambda: gpt.segment_sum(X), r"missing 2 required arguments: 'segment_ids' and 'num_seg"),
    ],
)
def test_misspelt_arguments(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


@all_functions
def test_signatures_show_nothing_of_it(name: str) -> None:
    offer = OFFERS.offered[name]
    shown = inspect.signature(getattr(gpt, name))
    assert list(shown.parameters) == [p.name for p in offer.parameters]
    assert [p.default for p in shown.parameters.values()] == [p.default for p in offer.parameters]


def test_names_of_the_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'cumsun'; did you mean 'cumsum'"):
        gpt.cumsun  # noqa: B018


# Bounds


@all_functions
def test_bounds_are_those_of_the_function_layer(name: str) -> None:
    ours = inspect.signature(getattr(gp, OFFERS.offered[name].signature.function.name)).parameters
    here = inspect.signature(getattr(gpt, name)).parameters
    assert ("bounds" in ours) == ("bounds" in here)
    if "bounds" in ours:
        assert ours["bounds"].default == here["bounds"].default == "raise"


def test_indices_out_of_range_raise_unless_asked_to_skip() -> None:
    outside = torch.tensor([0, 7])
    with pytest.raises(gp.IndexOutOfRange):
        gpt.segment_sum(X, outside, 3)
    with pytest.raises(gp.IndexOutOfRange):
        gpt.embedding(outside, X)
    assert gpt.embedding(outside, X, bounds="skip").tolist() == [[1, 1, 1], [0, 0, 0]]
    assert gpt.segment_sum(X, outside, 2, bounds="skip").tolist() == [[1, 1, 1], [0, 0, 0]]
