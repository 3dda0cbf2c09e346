"""`info`, `certify` and `bench` on a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from standin import StandIn
from standin.archives import Changed

from gradplan.bench import gpu
from gradplan.bench.board import Cell, functions, small_problem
from gradplan.bench.measure import COPY, OURS, QUICK
from gradplan.certify import golden
from gradplan.cli import main
from gradplan.cli.bench import gpu_table
from gradplan.engines import registered
from gradplan.engines.cuda import CudaEngine
from gradplan.vocabulary import ElementKind


def test_info(engine: CudaEngine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    shown = capsys.readouterr().out
    assert re.search(
        r"engine cuda +on cuda: sm_80, cuda:0 Stand-in 0 \(sm_80\), cuda:1 Stand-in 1 \(sm_90\), "
        "driver CUDA 12.4",
        shown,
    )
    assert main(["info", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["engines"]["cuda"]
    assert told["available"] and told["gpus"]["cuda:1"] == {"name": "Stand-in 1", "arch": "sm_90"}


def test_info_without_a_driver(capsys: pytest.CaptureFixture[str]) -> None:
    with registered(CudaEngine("/nowhere/libcuda.so.1")):
        assert main(["info", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["engines"]["cuda"]
    assert not told["available"] and told["reason"].startswith("no NVIDIA driver found")
    assert "gpus" not in told


@pytest.mark.parametrize("device", [[], ["--device", "cuda:1"]])
def test_certify(
    device: list[str],
    engine: CudaEngine,
    driver: StandIn,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    report = tmp_path / "gpu.json"
    options = ["--engine", "cuda", *device, "--op", "embedding", "--dtype", "f32"]
    assert main(["certify", *options, "--json", str(report)]) == 0
    shown = capsys.readouterr().out
    number = 1 if device else 0
    assert f"equal on engine cuda (sm_80) on Stand-in {number} (sm_{8 + number}0)" in shown
    told = json.loads(report.read_text())
    assert told["device"] == f"cuda:{number}" and told["driver"] == "CUDA 12.4"
    assert told["plans"]["embedding/f32"]["digest"] == golden("standard")["embedding/f32"]
    assert {each.device for each in driver.launched} == {number}
    assert not [a for a, (size, _) in driver.allocated.items() if size != 4096]  # all given back
    assert main(["certify", "--compare", str(report), str(report)]) == 0
    assert f"cuda on Stand-in {number} (sm_" in capsys.readouterr().out


def test_certify_finds_a_wrong_kernel(
    drivers: Callable[..., StandIn], capsys: pytest.CaptureFixture[str]
) -> None:
    with drivers(kernels=Changed).registered():
        assert main(["certify", "--engine", "cuda", "--op", "lerp", "--dtype", "f32"]) == 1
    assert "expected bits" in capsys.readouterr().out


def test_certify_on_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with registered(CudaEngine("/nowhere/libcuda.so.1")):
        assert main(["certify", "--engine", "cuda"]) == 2
    assert "--engine cuda: no NVIDIA driver found" in capsys.readouterr().err
    assert main(["certify", "--device", "cuda:0"]) == 2
    assert "--device cuda:0: the engine cpu runs on cpu" in capsys.readouterr().err


# The benchmark


def test_bench_without_a_gpu(
    engine: CudaEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["bench", "--engine", "cuda"]) == 2
    assert "--engine cuda: the installed PyTorch does not see a GPU" in capsys.readouterr().err
    with registered(CudaEngine("/nowhere/libcuda.so.1")):
        assert main(["bench", "--engine", "cuda"]) == 2
    assert "--engine cuda: no NVIDIA driver found" in capsys.readouterr().err


@pytest.mark.slow
def test_bench_measures(
    engine: CudaEngine, driver: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything but the clock and PyTorch's own kernels for GPUs."""
    from standin.torch_tensors import CudaTensor, streams

    monkeypatch.setattr(
        gpu.OnDevice, "tensor", lambda self, array: CudaTensor(torch.from_numpy(array.copy()))
    )
    monkeypatch.setattr(gpu, "_copy", lambda total, like: lambda: None)
    calls = []

    def clock(call: Any, count: int) -> float:
        calls.append((call, count))
        call()
        if torch.are_deterministic_algorithms_enabled():
            raise AssertionError("it is on only while a call runs")
        return 2.0 if len(calls) % 4 else 1.0

    op, function = functions()["cumsum"]
    cell = Cell(op, function, ElementKind.F32, small_problem(4, 64))
    with streams(monkeypatch):
        found = gpu.measure(cell, QUICK, clock=clock)
    assert set(found.times) == {OURS, COPY, gpu.TORCH, gpu.DETERMINISTIC}
    assert not found.absent and driver.launched
    assert found.ratios[gpu.TORCH] == 1.0 and found.ratios[gpu.DETERMINISTIC] == 0.5
    assert gpu_table([found]).row_count == 1
