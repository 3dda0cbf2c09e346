"""`info`, `certify` and `bench` on a GPU."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from standin import StandIn
from standin.archives import Changed

from gradplan.bench import gpu, tune
from gradplan.bench.board import Cell, Problem, functions, small_problem
from gradplan.bench.measure import COPY, OURS, QUICK
from gradplan.certify import golden
from gradplan.cli import main
from gradplan.cli.bench import gpu_table
from gradplan.engines import registered
from gradplan.engines.cuda import CudaEngine
from gradplan.engines.cuda.launches.choices import CHOICES, VARIABLE, as_text, from_text
from gradplan.plan import plan_class
from gradplan.vocabulary import ElementKind, Unsupported


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


def on_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of the board are PyTorch's, on the stand-in's device."""
    from standin.torch_tensors import CudaTensor

    monkeypatch.setattr(
        gpu.OnDevice, "tensor", lambda self, array: CudaTensor(torch.from_numpy(array.copy()))
    )


@pytest.mark.slow
def test_bench_measures(
    engine: CudaEngine, driver: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything but the clock and PyTorch's own kernels for GPUs."""
    from standin.torch_tensors import streams

    on_stand_in(monkeypatch)
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


# Tuning


def tune_cells() -> list[Cell]:
    op, function = functions()["cumsum"]
    problem = Problem("8 x 272", (8, 272))
    return [Cell(op, function, ElementKind.F32, problem)]


@pytest.mark.slow
def test_tune_measures_every_choice_that_matters(
    engine: CudaEngine,
    driver: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The whole command on the stand-in, with a clock that likes programs of eight rows."""
    from standin.torch_tensors import streams

    on_stand_in(monkeypatch)
    monkeypatch.setattr(gpu, "why_not", lambda: None)
    monkeypatch.setattr(tune, "problems", tune_cells)

    def clock(call: Any, count: int) -> float:
        driver.launched.clear()
        call()
        return float(driver.launched[0].programs)

    measure = functools.partial(tune.measure, clock=clock)
    monkeypatch.setattr("gradplan.cli.bench.tune.measure", measure)
    report = tmp_path / "tuned.json"
    with streams(monkeypatch):
        options = ["bench", "--engine", "cuda", "--tune", "--quick", "--json", str(report)]
        assert main(options) == 0
    shown = capsys.readouterr().out
    told = json.loads(report.read_text())
    by_choice = {each["choice"]: each["seconds"] for each in told["tuned"]}
    assert by_choice["scan.rows"] == {"4": 2.0, "2": 4.0, "8": 1.0}
    assert told["advice"]["scan.rows"] == 8
    assert f"export {VARIABLE}={as_text(told['advice'])}" in shown.replace("\n", "")
    assert from_text(as_text(told["advice"])) == told["advice"]
    for name in by_choice:
        assert re.search(rf"{re.escape(name)} +\d", shown), name
    # Nothing stays: the same problem is planned as by default.
    assert [each.grid for each in tune.launches(tune_cells()[0], {})] == [(2, 1, 1)]


def test_advice_is_given_for_what_is_faster_in_the_mean() -> None:
    (cell,) = tune_cells()
    found = [
        tune.Tuned("scan.rows", cell, {4: 1.0, 2: 0.5, 8: 0.9}),
        tune.Tuned("scan.rows", cell, {4: 1.0, 2: 4.0, 8: 1.0}),
        tune.Tuned("scan.vectors", cell, {1: 1.0, 0: 0.99}),
    ]
    assert tune.advice(found) == {"scan.rows": 8}
    mean, best, worst, count = tune.means(found)["scan.rows"][2]
    assert (best, worst, count) == (0.5, 4.0, 2) and mean == pytest.approx(2**0.5)


def test_tune_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    with registered(CudaEngine("/nowhere/libcuda.so.1")):
        assert main(["bench", "--engine", "cuda", "--tune"]) == 2
    assert "--engine cuda: no NVIDIA driver found" in capsys.readouterr().err
    assert main(["bench", "--tune"]) == 2
    assert "--tune: with --engine cuda" in capsys.readouterr().err


def test_every_choice_matters_for_a_problem_that_is_tuned() -> None:
    cells = (cell for cell in tune.problems() if cell.element is ElementKind.F32)
    found: set[str] = set()
    for cell in cells:
        found |= {*tune.differing(cell)}
        if found == {*CHOICES}:
            return
    raise AssertionError({*CHOICES} - found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scan.row=8", "expected one of scan.many,"),
        ("scan.rows=3", "scan.rows: expected 4, 2, 8; got '3'"),
        ("scan.many=-1", "scan.many: expected a positive number; got '-1'"),
        ("scan.many", "expected a positive number; got ''"),
    ],
)
def test_choices_that_cannot_be_made(
    text: str, expected: str, engine: CudaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = tune_cells()
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(Unsupported, match=re.escape(expected)):
        plan_class(cell.op).select(cell.descriptor(), device="cuda:0")


def test_choices_are_kept(engine: CudaEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = tune_cells()
    monkeypatch.setenv(VARIABLE, "scan.rows=8, scan.many=4096")
    (launch,) = tune.launches(cell, {})
    assert launch.kernel.endswith("/8") and launch.grid == (1, 1, 1)
    assert engine.facts["choices"] == {"scan.many": 4096, "scan.rows": 8}
    monkeypatch.delenv(VARIABLE)
    assert "choices" not in engine.facts
