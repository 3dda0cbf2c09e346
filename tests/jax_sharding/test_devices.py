"""gradplan.jax on several devices, each program in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from device_programs import run_program

pytest.importorskip("jax")
pytest.importorskip("jax_tvm_ffi")

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_on_four_devices(program: Path) -> None:
    run_program(program)
