"""Programs on several devices of one process, which JAX has to know before it is imported."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from processes import run_python

DEVICES = 4
COLLECTIVES = re.compile(
    r"\b(all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
)


def run_program(path: Path, *arguments: str, devices: int = DEVICES, **environment: str) -> str:
    """What a program prints; fails as it does."""
    code = f"import runpy, sys; sys.argv = {[str(path), *arguments]!r}\n"
    code += f"runpy.run_path({str(path)!r}, run_name='__main__')"
    flags = f"--xla_force_host_platform_device_count={devices}"
    done = run_python(code, timeout=240, XLA_FLAGS=flags, JAX_PLATFORMS="cpu", **environment)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def run_checks(names: Mapping[str, Any]) -> None:
    """Runs the functions that are called check_..., all of them; ends with the number that fail."""
    failed = 0
    for name, check in list(names.items()):
        if name.startswith("check_"):
            try:
                check()
            except Exception:
                failed += 1
                print(f"== {name}")
                traceback.print_exc(file=sys.stdout)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(min(failed, 100))  # XLA's threads are not waited for


def collectives(function: Any, *arguments: Any) -> list[str]:
    """The collectives of a jitted function's compiled program."""
    return COLLECTIVES.findall(function.lower(*arguments).compile().as_text())


def words(x: Any) -> Any:
    """The elements as integers."""
    array = np.ascontiguousarray(np.asarray(x))
    return array.view(f"u{array.itemsize}")


def assert_same_bits(got: Any, wanted: Any, what: str = "") -> None:
    assert np.asarray(got).dtype == np.asarray(wanted).dtype, what
    np.testing.assert_array_equal(words(got), words(wanted), what)
