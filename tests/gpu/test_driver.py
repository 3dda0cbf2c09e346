"""What is said where there is no driver, no GPU or no kernel, and when the driver fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ptx.run import kernels
from standin import GpuArray, StandIn, scratch
from standin.archives import Changed, Without

import gradplan as gp
from gradplan.engines import cuda, registered
from gradplan.engines.cuda import CudaEngine, families
from gradplan.engines.cuda.archive import Binary, pack, unpack

DESC = gp.BinaryParamDescriptor(kind="lerp", shape=(4, 32), param=0.25, element="f32")


def select(device: str = "cuda:0") -> gp.Plan[Any]:
    return gp.BinaryParamPlan.select(DESC, device=device)


def tensors(device: int = 0) -> dict[str, GpuArray]:
    return {name: GpuArray(np.ones((4, 32), np.float32), device) for name in ("a", "b", "y")}


def reason(engine: CudaEngine, device: str = "cuda:0") -> str:
    with registered(engine), pytest.raises(gp.Unsupported) as caught:
        select(device)
    found = re.search(r"\n  cuda: (.*)", str(caught.value))
    assert found is not None
    return found[1]


# What is missing


def test_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason(CudaEngine(str(tmp_path / "none.so"))).startswith("no NVIDIA driver found (")
    monkeypatch.setenv("GRADPLAN_LIBCUDA", str(tmp_path / "elsewhere.so"))
    assert "elsewhere.so" in reason(CudaEngine())


def test_a_library_that_is_no_driver() -> None:
    assert reason(CudaEngine("libc.so.6")) == (
        "the NVIDIA driver is too old: libc.so.6 has no cuInit"
    )


def test_a_driver_that_does_not_start(driver: StandIn) -> None:
    driver.fail("cuInit", 100)
    assert reason(driver.engine()) == (
        "the NVIDIA driver does not start: CUDA_ERROR_NO_DEVICE "
        "(no CUDA-capable device is detected)"
    )
    driver.fail("cuDeviceGetCount", 1)
    assert reason(driver.engine()) == (
        "CUDA_ERROR_INVALID_VALUE (invalid argument) in cuDeviceGetCount"
    )


def test_a_driver_that_is_too_old(driver: StandIn) -> None:
    driver.set_version(11080)
    assert reason(driver.engine()) == "the driver is for CUDA 11.8, needed is 12.0"


def test_without_a_gpu(drivers: Callable[..., StandIn]) -> None:
    assert reason(drivers(capabilities=()).engine()) == "the driver finds no GPU"


def test_gpus_that_are_too_old(drivers: Callable[..., StandIn]) -> None:
    old = drivers(capabilities=[(7, 5), (8, 6)])
    text = "cuda:0 (Stand-in 0) has compute capability 7.5, needed is 8.0"
    assert reason(old.engine()) == text
    with old.registered():
        assert select("cuda:1").device == "cuda:1"
        assert select("cuda").device == "cuda"  # any that will do
    assert reason(drivers(capabilities=[(7, 5)]).engine(), "cuda") == text


def test_a_device_that_is_not_there(driver: StandIn) -> None:
    text = "there is no such device; the driver finds cuda:0, cuda:1"
    assert reason(driver.engine(), "cuda:2") == reason(driver.engine(), "cuda:x") == text


def test_an_op_without_kernels(engine: CudaEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = {name: make for name, make in families()[0].items() if name != "binary_param"}
    monkeypatch.setattr(cuda, "families", lambda: (programs, families()[1]))
    assert reason(engine) == "no kernel for binary_param"


@pytest.mark.slow
def test_an_archive_that_lacks_a_kernel(drivers: Callable[..., StandIn]) -> None:
    lacking = drivers(kernels=lambda: Without("contiguous"))
    assert reason(lacking.engine()) == "the package has no kernel lerp/f32/contiguous"
    with drivers(kernels=lambda: Without("rows")).registered():
        plan, given = select(), tensors()
        plan.run(**given)
        given["y"] = GpuArray(np.ones((32, 4), np.float32).T)
        with pytest.raises(gp.Unsupported, match=r"^BinaryParamPlan: .*no kernel lerp/f32/"):
            plan.run(**given)


def test_a_damaged_archive(drivers: Callable[..., StandIn]) -> None:
    def damaged() -> Mapping[str, Binary]:
        data = bytearray(pack([kernels()["lerp/f32/rows"]]))
        data[len(data) // 2] ^= 1
        return unpack(bytes(data))

    text = reason(drivers(kernels=damaged).engine())
    assert text.startswith("the package's kernels cannot be read: ")


# What fails


@pytest.mark.parametrize(
    ("function", "code", "said"),
    [
        ("cuLaunchKernel", 719, "CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)"),
        ("cuModuleLoadDataEx", 2, "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"),
        ("cuModuleGetFunction", 500, "CUDA_ERROR_NOT_FOUND (named symbol not found)"),
        ("cuDevicePrimaryCtxRetain", 101, "CUDA_ERROR_INVALID_DEVICE (invalid device ordinal)"),
        ("cuLaunchKernel", 4242, "CUDA error 4242"),
    ],
)
def test_errors_have_the_drivers_names(
    engine: CudaEngine, driver: StandIn, function: str, code: int, said: str
) -> None:
    plan, given = select(), tensors()
    driver.fail(function, code)
    with pytest.raises(gp.KernelError, match=re.escape(f"{said} in {function}")):
        plan.run(**given)
    plan.run(**given)  # nothing of it stays
    assert driver.count("depth") == 0


def test_ptx_that_the_driver_refuses(drivers: Callable[..., StandIn]) -> None:
    with drivers(kernels=lambda: Changed(b".entry", b".nonsense")).registered():
        plan = select()
        with pytest.raises(gp.KernelError, match=r"CUDA_ERROR_INVALID_PTX .*ptxas: no \.entry"):
            plan.run(**tensors())


# Tensors that do not fit


def test_tensors_are_on_the_plans_device(engine: CudaEngine) -> None:
    plan = select()
    text = "'a': expected a tensor on cuda:0 (this plan's device), got one on cuda:1"
    with pytest.raises(gp.InvalidProblem, match=re.escape(text)):
        plan.run(**tensors(1))
    with pytest.raises(gp.InvalidProblem, match=re.escape(text)):
        plan.can_implement(**tensors(1))
    anywhere = select("cuda")
    anywhere.run(**tensors(0))
    anywhere.run(**tensors(1))
    mixed = tensors(0) | {"b": tensors(1)["b"]}
    with pytest.raises(gp.InvalidProblem, match=r"'b': .* cuda:0, as 'a', got one on cuda:1"):
        anywhere.run(**mixed)
    with pytest.raises(gp.Unsupported, match="'b': expected a GPU tensor"):
        plan.run(**tensors() | {"b": np.ones((4, 32), np.float32)})


def test_outputs_of_no_framework_have_to_be_given(engine: CudaEngine) -> None:
    given = tensors()
    del given["y"]
    with pytest.raises(gp.Unsupported, match=r"^BinaryParamPlan: expected outputs to be given"):
        select().run(**given)


# Several devices


def test_two_devices(engine: CudaEngine, driver: StandIn) -> None:
    first, second = select("cuda:0"), select("cuda:1")
    assert first is not second and select("cuda:1") is second
    first.run(**tensors(0))
    loaded = driver.count("modules")
    second.run(**tensors(1))
    assert driver.count("modules") == 2 * loaded  # each has its own
    assert driver.count("contexts") == 2
    assert {each.device for each in driver.launched} == {0, 1}


# Workspace

SUM = gp.UnsortedSegmentSumDescriptor(num_inputs=5, embedding_dim=3, num_segments=4, element="f32")


def sum_tensors() -> dict[str, GpuArray]:
    return {
        "input": GpuArray(np.ones((5, 3), np.float32)),
        "segment_ids": GpuArray(np.array([3, 0, 3, 1, 0])),
        "output": GpuArray(np.empty((4, 3), np.float32)),
    }


@pytest.mark.slow
def test_workspace(engine: CudaEngine) -> None:
    plan, given = gp.UnsortedSegmentSumPlan.select(SUM, device="cuda:0"), sum_tensors()
    size = plan.workspace_size
    assert size > 0
    for offset in (0, 1, 255):  # wherever it begins
        memory = np.full(size + offset, 0xFF, np.uint8)
        plan.run(**given, workspace=GpuArray(memory[offset:]))
        assert given["output"].on_host[:, 0].tolist() == [2, 1, 0, 2]
    with pytest.raises(gp.WorkspaceTooSmall, match=f"at least {size} bytes, got {size - 1}"):
        plan.run(**given, workspace=scratch(size - 1))
    with pytest.raises(gp.InvalidProblem, match="a tensor on cuda:0, got one on cuda:1"):
        plan.run(**given, workspace=scratch(size, 1))
    with pytest.raises(gp.Unsupported, match="workspace: expected a GPU tensor"):
        plan.run(**given, workspace=np.empty(size, np.uint8))
    with pytest.raises(gp.Unsupported, match=r"SumPlan: workspace: expected .* pass workspace="):
        plan.run(**given)
