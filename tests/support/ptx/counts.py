"""What a launch has done, counted: operations that round, bytes of global memory, instructions.

A `Kernel` counts by instruction how many threads executed it; the counts of a run are differences.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

import numpy as np

from gradplan.engines.cuda.archive import Binary
from gradplan.engines.cuda.program import Program

from .audit import rounds
from .machine import Kernel
from .moves import bytes_of
from .operands import Array
from .run import executable, run_program


@dataclasses.dataclass
class Work:
    """Of all launches of a kernel."""

    launches: int = 0
    operations: Counter[str] = dataclasses.field(default_factory=Counter)
    """Operations that round, by name, over all threads."""
    read: int = 0
    written: int = 0
    """Bytes of global memory that loads and stores asked for."""
    came: int = 0
    asked: int = 0
    """How often threads came to a load of global memory, and how often they had one to ask for."""
    instructions: int = 0
    """Of all threads, whether a guard let them take part or not."""


def count(
    program: Program,
    tensors: Mapping[str, Array],
    binaries: Mapping[str, Binary],
    errors: Array | None = None,
) -> dict[str, Work]:
    """Runs a program; by kernel, what it took."""
    keys = {launch.kernel for launch in program.launches}
    kernels = {key: executable(binaries[key]) for key in keys}
    before = {key: (k.reached.copy(), k.executed.copy()) for key, k in kernels.items()}
    run_program(program, tensors, errors=errors, binaries=binaries)
    found = {key: work(k, *before[key]) for key, k in kernels.items()}
    for launch in program.launches:
        found[launch.kernel].launches += 1
    return found


def work(kernel: Kernel, reached_before: Array, executed_before: Array) -> Work:
    """What it has done since then."""
    reached = kernel.reached - reached_before
    executed = kernel.executed - executed_before
    made = Work(instructions=int(np.sum(reached)))
    for action, there, done in zip(
        kernel.actions, reached.tolist(), executed.tolist(), strict=True
    ):
        if name := rounds(action.instruction):
            made.operations[name] += done
        size = bytes_of(action.instruction)
        if size and action.instruction.name == "st":
            made.written += size * done
        elif size:
            made.read += size * done
            made.came += there
            made.asked += done
    return made


def bytes_underway(kernel: Kernel) -> int:
    """The most that a thread can have asked global memory for at once, by the text.

    That is what is loaded in a piece of code without branches, barriers and stores, by loads that
    do not depend on each other: the assembler may put those first.
    """
    starts = {*kernel.module.labels.values()}
    most = waiting = 0
    loaded: set[str] = set()
    for at, action in enumerate(kernel.actions):
        i = action.instruction
        if at in starts or action.kind != "step" or i.name in ("st", "atom", "red", "bar"):
            waiting, loaded = 0, set()
            continue
        target, *sources = i.operands or ("",)
        depends = bool({*(r for o in sources for r in _registers(o)), i.guard} & loaded)
        load = bytes_of(i)
        if load and depends:
            waiting, loaded = 0, set()
        if load or depends:
            loaded |= {*_registers(target)}
        waiting += load
        most = max(most, waiting)
    return most


def _registers(operand: str) -> list[str]:
    words = operand.strip("{}[] ").replace("+", ",").split(",")
    return [word.strip() for word in words if word.strip().startswith("%")]
