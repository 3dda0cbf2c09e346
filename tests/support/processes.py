"""Processes of their own: Python with some code, gradplan's program, forked children."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradplan as gp

BIG = np.ones((600, 2000), np.float32)


def run_python(
    code: str, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs code that can import the tests' helpers, without settings of gradplan around."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GRADPLAN_")} | environment
    path = [str(Path(__file__).parent), *filter(None, [env.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=env | {"PYTHONPATH": os.pathsep.join(path)},
        timeout=timeout,
    )


def run_gradplan(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program, its output piped."""
    return subprocess.run(
        [sys.executable, "-m", "gradplan", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def big_sum() -> float:
    return float(gp.cumsum(BIG)[-1, -1])


def in_fork(function: Callable[[], Any], seconds: float = 60) -> Any:
    """What `function` returns in a forked child; fails if the child hangs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            os.write(write, repr(function()).encode())
        finally:
            os._exit(0)
    os.close(write)
    deadline = time.monotonic() + seconds
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            os.close(read)
            raise AssertionError("the forked child hangs")
        time.sleep(0.01)
    with os.fdopen(read) as pipe:
        return pipe.read()
