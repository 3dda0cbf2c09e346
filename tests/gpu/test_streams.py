"""Which stream a call goes to, in whose memory it works, and CUDA graphs."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
from standin import GpuArray, StandIn, scratch

import gradplan as gp
from gradplan._ffi import tvm_ffi
from gradplan.engines.cuda import CudaEngine

DESC = gp.ScanDescriptor(kind="cumsum", input_shape=(2, 40), scan_axis=1, element="f32")
X = np.ones((2, 40), np.float32)
SUM = gp.UnsortedSegmentSumDescriptor(num_inputs=5, embedding_dim=3, num_segments=4, element="f32")


def run(stream: Any = None, device: int = 0, **rest: Any) -> None:
    plan = gp.ScanPlan.select(DESC, device=f"cuda:{device}")
    plan.run(x=GpuArray(X, device), y=GpuArray(X.copy(), device), stream=stream, **rest)


class Protocol:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 77


class Torch:
    cuda_stream = 78


class CuPy:
    ptr = 79


@pytest.mark.parametrize(
    ("stream", "handle"), [(None, 0), (0, 0), (2, 2), (Protocol(), 77), (Torch(), 78), (CuPy(), 79)]
)
def test_streams(stream: Any, handle: int, engine: CudaEngine, driver: StandIn) -> None:
    run(stream)
    assert {each.stream for each in driver.launched} == {handle}


@pytest.mark.parametrize("stream", [-1, True, "main", 1.5, object()])
def test_what_is_no_stream(stream: Any, engine: CudaEngine, driver: StandIn) -> None:
    with pytest.raises(gp.InvalidProblem, match=r"ScanPlan: stream: expected .* __cuda_stream__"):
        run(stream)
    assert not driver.launched


def test_the_stream_that_tvm_ffi_knows(engine: CudaEngine, driver: StandIn) -> None:
    with tvm_ffi().use_raw_stream(tvm_ffi().device("cuda", 1), 91):
        run(device=1)
        run(device=0)
        run(5, device=1)
    assert [each.stream for each in driver.launched] == [91, 0, 5]


# CUDA graphs


def test_a_graph_is_captured(engine: CudaEngine, driver: StandIn) -> None:
    """Kernels are loaded in the first call: also if that is captured."""
    with driver.capturing(6):
        run(6)
    assert driver.count("modules") == 1 and driver.count("waits") == 0
    assert [each.stream for each in driver.launched] == [6]


def test_indices_are_checked_in_a_graph(engine: CudaEngine, driver: StandIn) -> None:
    desc = gp.EmbeddingDescriptor(
        num_embeddings=5, embedding_dim=2, num_indices=3, element="f32", bounds="raise"
    )
    plan = gp.EmbeddingPlan.select(desc, device="cuda:0")
    indices = GpuArray(np.array([0, 1, 2]))
    given = {
        "weight": GpuArray(np.ones((5, 2), np.float32)),
        "indices": indices,
        "output": GpuArray(np.zeros((3, 2), np.float32)),
        "workspace": scratch(plan.workspace_size),
    }
    driver.lazy = True  # a graph is what is executed later
    with driver.capturing(6):
        plan.run(**given, stream=6)
    assert driver.count("host allocations") == 1
    graph, driver.waiting = driver.waiting, []
    for each in graph:
        each.execute()
    gp.engines.cuda.check("cuda:0")
    indices.on_host[1] = 7
    for each in graph:
        each.execute()
    with driver.capturing(6):
        plan.run(**given, stream=6)  # which must not wait, and so cannot say
    with pytest.raises(gp.IndexOutOfRange, match=r"indices\[1\] = 7"):
        gp.engines.cuda.check("cuda:0")


# Memory of frameworks


class _Array(GpuArray):
    """As CuPy's: enough of it for a plan."""

    class _Device:
        id = 0

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    device = _Device()

    def __dlpack__(self, **options: Any) -> Any:
        EXPORTS.append(options.get("stream"))
        return super().__dlpack__(**options)


EXPORTS: list[int | None] = []
_Array.__module__ = "cupy"


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of that name which knows what it was asked for, and on which stream."""
    module: Any = types.ModuleType("cupy")
    module.streams, module.asked = [0], []

    def made(shape: Any, dtype: Any) -> _Array:
        module.asked.append((np.dtype(dtype).name, module.streams[-1]))
        return _Array(np.full(shape, 0xFF, np.uint8).astype(dtype))

    class ExternalStream:
        def __init__(self, handle: int, device: int) -> None:
            self.ptr = handle

        def __enter__(self) -> None:
            module.streams.append(self.ptr)

        def __exit__(self, *_: object) -> None:
            module.streams.pop()

    module.empty = made
    module.zeros = lambda shape, dtype: _Array(np.zeros(shape, dtype))
    module.cuda = types.SimpleNamespace(
        get_current_stream=lambda: types.SimpleNamespace(ptr=module.streams[-1]),
        ExternalStream=ExternalStream,
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_outputs_and_workspace_are_the_frameworks(
    engine: CudaEngine, driver: StandIn, cupy: Any
) -> None:
    plan = gp.UnsortedSegmentSumPlan.select(SUM, device="cuda:0")
    given = {
        "input": _Array(np.ones((5, 3), np.float32)),
        "segment_ids": _Array(np.array([3, 0, 3, 1, 0])),
    }
    made = plan.run(**given)
    assert type(made) is _Array and made.on_host[:, 0].tolist() == [2, 1, 0, 2]
    assert cupy.asked == [("float32", 0), ("uint8", 0)]
    made = plan.run(**given, stream=4)  # memory that is safe to use there
    assert made.on_host[:, 0].tolist() == [2, 1, 0, 2]
    assert cupy.asked[2:] == [("float32", 4), ("uint8", 4)] and cupy.streams == [0]
    assert {each.stream for each in driver.launched} == {0, 4}
    cupy.streams.append(8)
    plan.run(**given)
    assert driver.launched[-1].stream == 8
    assert set(EXPORTS) == {-1}  # no stream was made to wait for another
    # By the function layer, which looks for the device itself.
    made = gp.cumsum(_Array(X.copy()))
    assert type(made) is _Array and made.on_host[0].tolist() == list(range(1, 41))
