"""PyTorch's and JAX's own functions on GPUs, as far as that goes without one."""

from __future__ import annotations

import ctypes
import enum
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from samples import ELEMENTS, sample_descriptors, sample_inputs
from standin import GpuArray, StandIn, scratch

import gradplan as gp
from gradplan import functional
from gradplan._ffi import tvm_ffi
from gradplan.engines.checks import common
from gradplan.engines.cuda import CudaEngine, families
from gradplan.plan import plan_class

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

import gradplan.jax as gpj  # noqa: E402
import gradplan.torch as gpt  # noqa: E402
from gradplan.jax import targets  # noqa: E402
from gradplan.torch.operators import OPERATORS  # noqa: E402

# PyTorch --------------------------------------------------------------------------------------


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    from standin.torch_tensors import streams

    with streams(monkeypatch) as stack:
        yield stack


def cuda(x: Any, device: int = 0) -> Any:
    from standin.torch_tensors import CudaTensor

    return CudaTensor(x.clone(memory_format=torch.preserve_format), device)


def plain(option: Any) -> Any:
    """An option of a descriptor as operators take it."""
    return option.value if isinstance(option, enum.Enum) else option


@pytest.mark.parametrize(
    "name", [name for name, s in functional.SIGNATURES.items() if s.op.name in families()[0]]
)
def test_operators_of_pytorch(
    name: str, engine: CudaEngine, driver: StandIn, streams: list[int]
) -> None:
    """Every operator, gradients included: outputs are PyTorch's, on the device, with its bits."""
    operator = OPERATORS[name]
    op = operator.op
    desc = next(
        d
        for d in sample_descriptors(op)
        if all(getattr(d, field) == v for field, v in operator.function.fixed.items())
    )
    inputs = sample_inputs(op, desc)
    tensors = [torch.from_numpy(inputs[t.name]) for t in operator.tensors if t.name in inputs]
    options = [plain(getattr(desc, p.info.name, p.default)) for p in operator.options]
    overload = getattr(torch.ops.gradplan, name)
    streams.append(31)
    expected = overload(*tensors, *options)
    found = overload(*map(cuda, tensors), *options)
    for want, got in zip(
        *(y if isinstance(y, tuple) else (y,) for y in (expected, found)), strict=True
    ):
        assert (got.device, got.dtype, got.stride()) == (
            torch.device("cuda:0"),
            want.dtype,
            want.stride(),
        )
        assert torch.equal(want, got.inner)
    assert driver.launched and {each.stream for each in driver.launched} == {31}


def test_functions_for_pytorch(engine: CudaEngine, driver: StandIn, streams: list[int]) -> None:
    x = torch.rand(3, 40)
    for element in ELEMENTS:
        given = x.to(getattr(torch, element.dtype_name))
        assert torch.equal(gpt.cumsum(cuda(given), 1).inner, gpt.cumsum(given, 1))
    made = gpt.cumsum(cuda(x, 1), 0)
    assert made.device == torch.device("cuda:1") and driver.launched[-1].device == 1
    with pytest.raises(gp.InvalidProblem, match="got a on cuda:0, b on cuda:1"):
        gpt.lerp(cuda(x), cuda(x, 1), 0.5)
    transposed = gpt.cumsum(cuda(x.T), 0)
    assert transposed.stride() == (1, 40) and torch.equal(transposed.inner, gpt.cumsum(x.T, 0))


def test_a_stream_of_pytorch(engine: CudaEngine, driver: StandIn, streams: list[int]) -> None:
    """Outputs and workspace are allocated for that stream, not for the current one."""
    desc = gp.UnsortedSegmentSumDescriptor(
        num_inputs=5, embedding_dim=3, num_segments=4, element="f32"
    )
    plan = gp.UnsortedSegmentSumPlan.select(desc, device="cuda:0")
    given = {
        "input": cuda(torch.ones(5, 3)),
        "segment_ids": cuda(torch.tensor([3, 0, 3, 1, 0])),
    }
    assert plan.run(**given, stream=12).inner[:, 0].tolist() == [2, 1, 0, 2]
    assert {each.stream for each in driver.launched} == {12} and streams == [0]


# JAX ------------------------------------------------------------------------------------------


def lowered(function: Any, *arguments: Any) -> str:
    return str(jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text())


def test_programs_of_jax_call_the_kernels(engine: CudaEngine) -> None:
    text = lowered(gpj.cumsum, jax.numpy.ones(5))
    assert "@gradplan.scan.on_stream(" in text and "ui8" not in text
    # A workspace is memory that XLA allocates: one more result.
    ids = jax.numpy.zeros(5, int)
    text = lowered(lambda x: gpj.segment_sum(x, ids, 4), jax.numpy.ones((5, 3)))
    assert re.search(r"@gradplan.unsorted_segment_sum.on_stream\(.*tensor<\d+xui8>", text)
    gradient = lowered(jax.grad(lambda x: gpj.cumprod(x).sum()), jax.numpy.ones(5))
    assert "@gradplan.scan_backward.on_stream(" in gradient


@pytest.mark.parametrize("device", [0, 1])
def test_what_xla_calls(device: int, engine: CudaEngine, driver: StandIn) -> None:
    """A program for "cuda" runs on every device: it is that of the buffers."""
    desc = gp.UnsortedSegmentSumDescriptor(
        num_inputs=5, embedding_dim=3, num_segments=4, element="f32"
    )
    plan = plan_class(gp.UnsortedSegmentSumPlan.op).select(desc, device="cuda")
    number = targets._publish(plan, [])
    buffers = [
        GpuArray(np.ones((5, 3), np.float32), device),
        GpuArray(np.array([3, 0, 3, 1, 0], np.int32), device),
        GpuArray(np.empty((4, 3), np.float32), device),
        scratch(plan.workspace_size, device),
    ]
    stream = tvm_ffi().convert(ctypes.c_void_p(55))
    common().gradplan_published_runner()(number, *buffers, stream)
    assert buffers[2].on_host[:, 0].tolist() == [2, 1, 0, 2]
    assert {(each.stream, each.device) for each in driver.launched} == {(55, device)}
