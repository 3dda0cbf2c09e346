"""Calls on a machine that has other work to do: their mean and their 99th percentile.

The best of several, which the board counts elsewhere, hides what this is about: a call that waits
for a thread which the system has not scheduled takes milliseconds, once in a while.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gradplan.bench import data
from gradplan.bench.board import Cell
from gradplan.bench.measure import Call, plan_call
from gradplan.engines.cpu import get_num_threads, num_threads

_SLICE = 0.1
"""Seconds of a turn: long enough for the scheduler to have treated everybody alike."""
_SPIN = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): [None for _ in range(100000)]"


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute. They end with this one, whatever happens."""
    command = [sys.executable, "-S", "-E", "-c", _SPIN, str(os.getpid())]
    spinning = [subprocess.Popen(command) for _ in range(count)]
    try:
        if count:
            time.sleep(0.3)  # until they have started
        yield
    finally:
        for process in spinning:
            process.kill()
        for process in spinning:
            process.wait()


@dataclasses.dataclass(frozen=True)
class Spread:
    """Seconds of a call."""

    mean: float
    slow: float
    """The 99th percentile."""

    @staticmethod
    def of(seconds: list[float]) -> Spread:
        return Spread(float(np.mean(seconds)), float(np.percentile(seconds, 99)))


def spreads(
    call: Call, threads: Mapping[str, int], seconds: float, between: Call | None = None
) -> dict[str, Spread]:
    """What a call takes with each number of threads, over `seconds` each, in turns.

    `between` is what the caller does between two calls, and is not counted.
    """
    found: dict[str, list[float]] = {name: [] for name in threads}
    for _ in range(max(1, round(seconds / _SLICE))):
        for name, count in threads.items():
            with num_threads(count):
                end = time.perf_counter() + _SLICE
                while True:
                    if between is not None:
                        between()
                    began = time.perf_counter()
                    call()
                    ended = time.perf_counter()
                    found[name].append(ended - began)
                    if ended > end:
                        break
    return {name: Spread.of(times) for name, times in found.items()}


ONE, ALL = "one thread", "all threads"


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A call beside other work."""

    cell: Cell
    busy: int
    """Processes that compute meanwhile."""
    alternating: bool
    """Whether an operator of PyTorch's runs between two calls."""
    times: Mapping[str, Spread]
    """By number of threads."""

    def as_json(self) -> dict[str, Any]:
        one, all_threads = self.times[ONE], self.times[ALL]
        return {
            "function": self.cell.function.name,
            "problem": self.cell.problem.label,
            "busy": self.busy,
            "alternating": self.alternating,
            "seconds": {name: dataclasses.asdict(spread) for name, spread in self.times.items()},
            "mean_of_one": all_threads.mean / one.mean,
            "slow_of_one": all_threads.slow / one.slow,
        }


def measure_load(cell: Cell, busy: int, seconds: float, between: Call | None = None) -> Loaded:
    """A cell with one and all threads, beside busy processes; perhaps with calls in between."""
    threads = {ONE: 1, ALL: get_num_threads()}
    with busy_processes(busy):
        call = plan_call(cell, data.tensors(cell))
        return Loaded(cell, busy, between is not None, spreads(call, threads, seconds, between))
