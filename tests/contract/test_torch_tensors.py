"""Plans and the function layer on PyTorch's tensors: no gradient is lost, writes are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samples import sample_descriptor, sample_inputs

import gradplan as gp
from gradplan.engines import BoundKernel, registered
from gradplan.engines.reference import ReferenceEngine
from gradplan.functional import SIGNATURES
from gradplan.offers import offered_as
from gradplan.signatures import Signature

torch = pytest.importorskip("torch")
all_functions = pytest.mark.parametrize("name", SIGNATURES)


def arguments(signature: Signature) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Inputs and options of a call, and its outputs."""
    desc = sample_descriptor(signature.op, **signature.function.fixed)
    tensors = sample_inputs(signature.op, desc)
    inputs = {t.function_name: torch.from_numpy(tensors[t.name]) for t in signature.inputs}
    options = {p.name: getattr(desc, p.info.name) for p in signature.parameters}
    made = getattr(gp, signature.function.name)(**inputs, **options)
    return inputs, options, made if isinstance(made, tuple) else (made,)


def as_out(tensors: Any) -> Any:
    return tuple(tensors) if len(tensors) > 1 else tensors[0]


@all_functions
def test_a_tensor_that_requires_grad_is_refused(name: str, engine: str) -> None:
    signature = SIGNATURES[name]
    function = getattr(gp, name)
    inputs, options, outputs = arguments(signature)  # a call that is remembered
    use = offered_as("gradplan.torch", signature.op, signature.function)
    assert use.startswith("gradplan.torch.")
    for tensor in (t for t in signature.inputs if not t.index):
        given = {**inputs, tensor.function_name: inputs[tensor.function_name].requires_grad_()}
        with pytest.raises(gp.Unsupported) as caught:
            function(**given, **options)
        assert f"use {use}, or pass x.detach() or call under torch.no_grad()" in str(caught.value)
        for allowed in (torch.no_grad, torch.inference_mode):
            with allowed():
                function(**given, **options)
        function(**{n: x.detach() for n, x in given.items()}, **options)
        inputs[tensor.function_name].requires_grad_(False)
    for position in (i for i, y in enumerate(outputs) if y.is_floating_point()):
        outs = [torch.full_like(y, 7) for y in outputs]
        outs[position].requires_grad_()
        with pytest.raises(gp.InvalidProblem, match=r"requires grad; use gradplan\.torch"):
            function(**inputs, **options, out=as_out(outs))
        assert all((y == 7).all() for y in outs)
        with torch.no_grad():
            function(**inputs, **options, out=as_out(outs))
        assert all(torch.equal(y, made) for y, made in zip(outs, outputs, strict=True))


@all_functions
def test_a_first_call_refuses_as_well(name: str) -> None:
    signature = SIGNATURES[name]
    inputs, options, _ = arguments(signature)
    getattr(gp, name).__globals__["calls"].clear()
    first = signature.first.function_name
    with pytest.raises(gp.Unsupported, match=rf"^{name}: {first}: requires grad"):
        getattr(gp, name)(**{**inputs, first: inputs[first].requires_grad_()}, **options)


def test_plans_refuse_it(engine: str) -> None:
    desc = gp.ScanDescriptor(kind="cumsum", input_shape=(3,), scan_axis=0, element="f32")
    plan = gp.ScanPlan.select(desc)
    x = torch.ones(3, requires_grad=True)
    for call in (plan.run, plan.can_implement):
        with pytest.raises(gp.Unsupported, match=r"'x': requires grad.*use gradplan.torch.cumsum"):
            call(x=x)
        with pytest.raises(gp.InvalidProblem, match=r"'y': .*requires grad"):
            call(x=x.detach(), y=torch.ones(3, requires_grad=True))
        with torch.no_grad():
            call(x=x, y=x)
    with pytest.raises(gp.Unsupported, match="requires grad"):
        torch.func.grad(lambda x: plan.run(x=x).sum())(torch.ones(3))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("cumsum", "gradplan.torch.cumsum"),
        ("cumsum_backward", "gradplan.torch.cumsum"),
        ("segment_sum", "gradplan.torch.segment_sum(..., sorted=True)"),
        ("unsorted_segment_sum", "gradplan.torch.segment_sum"),
    ],
)
def test_what_a_bridge_has_instead(function: str, expected: str) -> None:
    signature = SIGNATURES[function]
    assert offered_as("gradplan.torch", signature.op, signature.function) == expected


def test_a_weight_that_requires_grad_is_refused() -> None:
    weight = torch.tensor(0.5, requires_grad=True)
    a = np.float32([1])
    with pytest.raises(gp.InvalidProblem, match="weight: expected a real number"):
        gp.lerp(a, a, weight)
    assert gp.lerp(a, a, weight.detach()).tolist() == [1]


# Writes


@all_functions
def test_outputs_are_counted_as_written(name: str, engine: str) -> None:
    inputs, options, outputs = arguments(SIGNATURES[name])
    assert all(y._version == 0 for y in outputs)
    outs = [torch.zeros_like(y) for y in outputs]
    for calls in (1, 2):
        getattr(gp, name)(**inputs, **options, out=as_out(outs))
        assert [y._version for y in outs] == [calls] * len(outs)
    assert all(x._version == 0 for x in inputs.values())


def overwrites(write: Callable[[Any, Any], Any]) -> None:
    """A gradient that needs a tensor which `write` has written meanwhile."""
    a, saved = torch.ones(3, requires_grad=True), torch.ones(3)
    y = a * saved
    write(torch.ones(3), saved)
    y.sum().backward()


def test_autograd_notices_as_it_does_for_its_own_out(engine: str) -> None:
    desc = gp.ScanDescriptor(kind="cumsum", input_shape=(3,), scan_axis=0, element="f32")
    plan = gp.ScanPlan.select(desc)
    ways: list[Callable[[Any, Any], Any]] = [
        lambda x, out: torch.cumsum(x, 0, out=out),
        lambda x, out: gp.cumsum(x, out=out),
        lambda x, out: gp.cumsum(x.numpy(), out=out),
        lambda x, out: gp.cumsum(x, out=out.detach()),
        lambda x, out: plan.run(x=x, y=out),
        lambda x, out: gp.embedding(x[:, None], torch.tensor([[0, 1, 2]]), out=out[None, :, None]),
        lambda x, out: gp.lerp_backward(x, 0.5, out=(torch.zeros(3), out)),
    ]
    for write in ways:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            overwrites(write)
    overwrites(lambda x, out: gp.cumsum(out, out=x))  # reads it only
    overwrites(lambda x, out: plan.can_implement(x=x, y=out))


def test_an_old_pytorch_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.autograd.graph, "increment_version")
    for shape in ((), (3,), (2, 0)):
        out = torch.zeros(shape)
        gp.cumsum(torch.ones(shape), out=out)
        assert out._version == 1 and torch.equal(out, torch.ones(shape).cumsum(-1))


def test_a_workspace_is_counted_as_written() -> None:
    desc = gp.ScanDescriptor(kind="cumsum", input_shape=(3,), scan_axis=0, element="f32")
    workspace = torch.zeros(64, dtype=torch.uint8)
    gp.ScanPlan.select(desc).run(x=torch.ones(3), workspace=workspace)
    assert workspace._version == 1


def test_what_was_refused_is_not_counted(engine: str) -> None:
    out = torch.zeros(2)
    for wrong in (
        lambda: gp.cumsum(torch.ones(3), out=out),
        lambda: gp.unsorted_segment_sum(torch.ones(1), torch.tensor([5]), 2, out=out),
        lambda: gp.cumsum(torch.ones(2), 1, out=out),
    ):
        with pytest.raises(gp.Error):
            wrong()
        assert out._version == 0


def test_a_kernel_that_failed_half_way_is_counted() -> None:
    class Halfway(ReferenceEngine):
        name, automatic = "halfway", True

        def bind(self, op: Any, desc: Any) -> BoundKernel:
            def run(x: Any, y: Any, workspace: Any) -> None:
                y.fill_(7)
                raise ArithmeticError("half way")

            return BoundKernel(run)

    out = torch.zeros(2)
    with registered(Halfway(), first=True), pytest.raises(ArithmeticError, match="half way"):
        gp.cumsum(torch.ones(2), out=out)
    assert out.tolist() == [7, 7] and out._version >= 2  # PyTorch's own write, and the call


def test_tensors_of_inference_mode_have_no_count(engine: str) -> None:
    with torch.inference_mode():
        out = torch.zeros(2)
        assert gp.cumsum(torch.ones(2), out=out).tolist() == [1, 2]
    assert gp.cumsum(torch.ones(2), out=out).tolist() == [1, 2]


# Devices


@all_functions
def test_tensors_on_several_devices_are_refused(name: str, engine: str) -> None:
    inputs, options, outputs = arguments(SIGNATURES[name])
    if len(inputs) > 1:
        for away in inputs:
            given = {n: x.to("meta") if n == away else x for n, x in inputs.items()}
            # The first call of its kind looks at all of them, later ones leave it to the kernel.
            with pytest.raises((gp.InvalidProblem, gp.Unsupported), match=f"{away}.* on meta"):
                getattr(gp, name)(**given, **options)
            getattr(gp, name).__globals__["calls"].clear()
            with pytest.raises(gp.InvalidProblem, match=f"{name}: expected tensors on one device"):
                getattr(gp, name)(**given, **options)
    outs = [torch.empty_like(y, device="meta") for y in outputs]
    with pytest.raises(gp.Unsupported, match="on meta"):
        getattr(gp, name)(**inputs, **options, out=as_out(outs))


def test_a_plan_refuses_several_devices(engine: str) -> None:
    desc = gp.BinaryParamDescriptor(kind="lerp", shape=(2,), param=0.5, element="f32")
    plan = gp.BinaryParamPlan.select(desc)
    for call in (plan.run, plan.can_implement):
        with pytest.raises(gp.Unsupported, match=r"tensor 'b': .*on meta"):
            call(a=torch.ones(2), b=torch.ones(2, device="meta"))
