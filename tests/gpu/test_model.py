"""What GPUs should make of the kernels: the counts that the model stands on, and the model."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ptx.counts import bytes_underway, count
from ptx.machine import Kernel
from ptx.run import executable, kernels, layout_of
from ptx_snippets import module

import gradplan as gp
from gradplan.engines.cuda import families


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    """tools/gpu_model.py."""
    tools = str(Path(__file__).resolve().parents[2] / "tools")
    sys.path.insert(0, tools)
    try:
        yield importlib.import_module("gpu_model")
    finally:
        sys.path.remove(tools)


def test_work_is_counted() -> None:
    """lerp, by element: 2 additions, 2 subtractions, 4 multiplications and 12 bytes."""
    a, b = np.float32(np.random.default_rng(0).random((2, 2048)))
    tensors = {"a": a.copy(), "b": b.copy(), "y": np.empty_like(a)}
    desc = gp.BinaryParamDescriptor(
        shape=(2048,), element=gp.ElementKind.F32, kind=gp.BinaryKind.LERP, param=0.3
    )
    layouts = {name: layout_of(array) for name, array in tensors.items()}
    program = families()[0]["binary_param"](desc, layouts)
    for _ in range(2):  # a second run is counted by itself
        (found,) = count(program, tensors, kernels()).values()
        assert found.operations == {"add": 4096, "sub": 4096, "mul": 8192}
        assert (found.read, found.written, found.launches) == (8 * 2048, 4 * 2048, 1)
        assert found.asked == found.came


def underway(*lines: str) -> int:
    return bytes_underway(Kernel(module("\n".join(lines), 2)))


def test_loads_that_do_not_wait_are_underway_together() -> None:
    base = "ld.param.u64 %rd1, [at_0];"
    loads = ["ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];", "ld.global.b32 %r5, [%rd1+16];"]
    use, store = "add.s32 %r6, %r1, %r2;", "st.global.b32 [%rd1], %r6;"
    assert underway(base, *loads, use, store) == 20
    assert underway(base, loads[0], use, loads[1], store) == 20  # the assembler may turn them round
    assert underway(base, loads[0], use, store, loads[1]) == 16
    chased = ["ld.global.b64 %rd2, [%rd1];", "ld.global.b32 %r1, [%rd2];"]
    assert underway(base, *chased) == 8
    hidden = [chased[0], "add.s64 %rd3, %rd2, 4;", "ld.global.b32 %r1, [%rd3];"]
    assert underway(base, *hidden) == 8


def test_residence(model: Any) -> None:
    a100, h100 = model.CHIPS
    line = model.Line("k", (64,) * 6, 0, 0, 0, 100, 100, "0" * 12)
    assert model.resident_warps(a100, line, 128) == 32  # 1024 threads of 64 registers
    line = dataclasses.replace(line, registers=(16,) * 6)
    assert model.resident_warps(a100, line, 128) == 64  # no more than 2048
    assert model.resident_warps(a100, line, 32) == 32  # no more than 32 programs
    line = dataclasses.replace(line, shared=40 << 10)
    assert [model.resident_warps(chip, line, 128) for chip in (a100, h100)] == [16, 20]


def test_times(model: Any) -> None:
    chip = model.CHIPS[0]
    line = model.Line("k", (32,) * 6, 0, 0, 0, 100, 200, "0" * 12)
    wide = model.Taken(
        line, 128, launches=1, programs=10**5, instructions=0, read=2e9, written=0, underway=16
    )
    seconds, why = wide.seconds(chip)
    assert why == "memory" and seconds == pytest.approx(2e9 / chip.bandwidth + model.GAP)
    alone = dataclasses.replace(wide, programs=1)
    seconds, why = alone.seconds(chip)  # 128 threads ask for 16 bytes every 600 ns
    assert why == "latency" and seconds == pytest.approx(2e9 / 2048 * model.LATENCY + model.GAP)
    busy = dataclasses.replace(wide, instructions=1e12)
    seconds, why = busy.seconds(chip)  # two machine instructions for each of PTX
    issued = model.SCHEDULERS * chip.multiprocessors * chip.ghz * 1e9
    assert why == "instructions" and seconds == pytest.approx(2e12 / 32 / issued + model.GAP)
    least = model.Estimate((wide,), 1, 2 * 10**9)
    assert least.of_copy(chip) == pytest.approx(1.0) and least.limit(chip) == "memory"
    twice = model.Estimate((wide, alone), 1, 2 * 10**9)
    assert twice.of_copy(chip) < 0.01 and twice.limit(chip) == "latency"


def test_what_grows_with_programs_and_what_with_elements(model: Any) -> None:
    assert model.on_a_line((1, 5.0), (2, 7.0), 10) == 23.0
    assert model.on_a_line((1, 5.0), (2, 5.0), 10) == 5.0


def test_another_kernel_is_another_line(model: Any) -> None:
    """The digest of a line is that of its kernels: what they are now is not what they will be."""
    table = model.read_table(model.KERNEL_TABLE.read_text())
    cell = model.cells()[0]
    (key,) = {launch.kernel for launch in model.planned(cell).launches}
    changed = {**table, key: dataclasses.replace(table[key], digest="0" * 12)}
    assert model.digest_of(cell, table) != model.digest_of(cell, changed)
    there = model.known(model.DOCUMENT.read_text())
    assert {*there} == {model.name_of(each) for each in model.cells()}
    assert model.digest_of(cell, table) in there[model.name_of(cell)]


def test_the_model_counts_what_is_executed(model: Any) -> None:
    """A plain scan of rows reads and writes each element once, in the board's form."""
    table = model.read_table(model.KERNEL_TABLE.read_text())
    cell = next(c for c in model.cells() if c.function.name == "cumsum")
    made = model.estimate(cell, table)
    (part,) = made.parts
    assert part.line.key == "scan_rows/cumsum/f32/whole/unit"
    assert (part.read, part.written) == (2**26, 2**26) and made.least == 2**27
    assert executable(kernels()[part.line.key]).module.threads == part.threads
