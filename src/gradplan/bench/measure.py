"""Timing: ours, the copy and the peers take turns, and the best of several counts."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradplan.bench import data
from gradplan.bench.board import Cell
from gradplan.bench.peers import PEERS, Library, as_torch
from gradplan.cases import Array
from gradplan.engines import cpu
from gradplan.plan import plan_class

OURS, COPY = "gradplan", "memcpy"
_SLOW = 0.5
_PAUSE = 1e-3
_SPIN = 12e-3
"""Seconds after a peer's turn: OpenMP's threads spin for up to 9 ms after their work, on the CPUs
that whoever comes next needs."""
Call = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Effort:
    """How long to measure."""

    seconds: float
    """For each contender of a cell."""
    rounds: int
    """At most so many turns."""
    least: int = 3
    """At least so many turns; but one is enough of a contender that takes seconds."""


FULL = Effort(seconds=0.8, rounds=80)
QUICK = Effort(seconds=0.12, rounds=12, least=2)
SIZED = Effort(seconds=0.12, rounds=24, least=4)
"""For each of very many cells."""


def best_times(contenders: Mapping[str, Call], effort: Effort) -> dict[str, float]:
    """The best time of each contender in seconds; they alternate.

    Each has been called before: what compiles or allocates has done so.
    """
    best: dict[str, float] = {}
    spent = dict.fromkeys(contenders, 0.0)
    pause = _SPIN
    for turn in range(effort.rounds):
        active = 0
        for name, call in contenders.items():
            if spent[name] > effort.seconds and (turn >= effort.least or best[name] > _SLOW):
                continue
            active += 1
            time.sleep(pause)
            began = time.perf_counter()
            call()
            took = time.perf_counter() - began
            pause = _PAUSE if name in (OURS, COPY) else _SPIN
            spent[name] += took
            best[name] = min(best.get(name, took), took)
        if not active:
            break
    return best


_BURST = 2e-3
"""Seconds of calls that count together: a clock, and a cache that has to be warmed, are nothing."""


def best_bursts(contenders: Mapping[str, Call], effort: Effort) -> dict[str, float]:
    """The best time of each contender in seconds, short calls several at once; they alternate."""
    counts = {}
    for name, call in contenders.items():
        began = time.perf_counter()
        call()
        counts[name] = max(1, round(_BURST / max(time.perf_counter() - began, 1e-7)))

    def burst(call: Call, count: int) -> Call:
        def run() -> None:
            for _ in range(count):
                call()

        return run

    bursts = {name: burst(call, counts[name]) for name, call in contenders.items()}
    return {name: took / counts[name] for name, took in best_times(bursts, effort).items()}


def per_call(call: Call, effort: Effort) -> float:
    """Seconds of a call that is too short for the clock."""
    count, best = 1, float("inf")
    end = time.perf_counter() + effort.seconds
    took = float("inf")
    while took == float("inf") or time.perf_counter() < end:  # once, however late it is
        began = time.perf_counter()
        for _ in range(count):
            call()
        took = time.perf_counter() - began
        if took < 2e-3:
            count *= 2
        else:
            best = min(best, took / count)
    return best if best < float("inf") else took / count


@dataclasses.dataclass
class Measured:
    """A cell with what was found."""

    cell: Cell
    bytes: int
    times: dict[str, float]
    """Seconds by contender."""
    absent: dict[str, str] = dataclasses.field(default_factory=dict)
    """Peers that could not run it, and why."""

    @property
    def score(self) -> float | None:
        """The memcpy's time over ours: 1 is the speed of a memcpy."""
        return self.times[COPY] / self.times[OURS] if COPY in self.times else None

    @property
    def ratios(self) -> dict[str, float]:
        """How many times faster than each peer."""
        ours = self.times[OURS]
        return {n: t / ours for n, t in self.times.items() if n not in (OURS, COPY)}

    @property
    def short(self) -> list[str]:
        """The figures that are not reached."""
        missed = []
        if self.cell.score and self.score is not None and self.score < self.cell.score:
            missed.append(f"{self.score:.2f} of memcpy, not {self.cell.score:.2f}")
        for peer, ratio in self.ratios.items():
            figure = self.cell.figure(peer)
            if ratio < figure:
                missed.append(f"{ratio:.2f}x {peer}, not {figure:g}x")
        return missed

    def as_json(self, *, goals: bool = False) -> dict[str, Any]:
        """What was found; and with `goals` what is to be reached."""
        found: dict[str, Any] = {
            "function": self.cell.function.name,
            "element": self.cell.element.value,
            "problem": self.cell.problem.label,
            "bytes": self.bytes,
            "seconds": self.times,
            "of_memcpy": self.score,
            "ratios": self.ratios,
            "absent": self.absent,
        }
        if goals:
            found["goals"] = {
                "of_memcpy": self.cell.score,
                "ratios": {peer: self.cell.figure(peer) for peer in self.ratios},
                "short": self.short,
            }
        return found


def plan_call(cell: Cell, tensors: Mapping[str, Any]) -> Call:
    """The plan's run on these tensors, with a workspace if it needs one."""
    plan = plan_class(cell.op).select(cell.descriptor())
    run = plan.run
    workspace = np.zeros(plan.workspace_size, np.uint8) if plan.workspace_size else None
    run(**tensors, workspace=workspace)
    if workspace is None:
        return functools.partial(run, **tensors)
    return functools.partial(run, **tensors, workspace=workspace)


def _copy(cell: Cell, tensors: Mapping[str, Array], total: int) -> Call:
    """Moves `total` bytes, half of them read and half written, in the memory of the cell itself.

    How fast memory is depends on where it lies: copies of 64 MB between fresh arrays differ by a
    factor of 1.6 here. In the same memory the copy and the kernel are equally lucky.
    """
    copy = cpu.load()["gradplan_copy"]
    half = max(total // 2, 1)
    outputs = {o.name for o in cell.op.operands(cell.descriptor()) if not o.is_input}
    sources = _memory([x for name, x in tensors.items() if name not in outputs], half)
    targets = _memory([x for name, x in tensors.items() if name in outputs], half)
    pairs = []
    while sources and targets:
        count = min(sources[0].size, targets[0].size)
        pairs.append((sources[0][:count], targets[0][:count]))
        for arrays in (sources, targets):
            arrays[0] = arrays[0][count:]
            if not arrays[0].size:
                del arrays[0]

    def run() -> None:
        for source, target in pairs:
            copy(source, target)

    run()
    return run


def _memory(arrays: list[Array], size: int) -> list[Array]:
    """`size` bytes of these arrays, and new ones where they are too small."""
    found = []
    for x in arrays:
        found.append(x.reshape(-1).view(np.uint8)[:size])
        size -= found[-1].size
    if size > 0:
        found.append(data.empty((size,), np.dtype(np.uint8)))
        found[-1].fill(1)
    return [x for x in found if x.size]


def _peers(
    cell: Cell, tensors: Mapping[str, Array], peers: Sequence[Library] | None = None
) -> tuple[dict[str, Call], dict[str, str]]:
    calls, absent = {}, {}
    for peer in PEERS if peers is None else peers:
        if not peer.installed():
            continue
        try:
            call = peer.calls(cell, tensors)
            if call is not None:
                call()
                calls[peer.name] = call
        except Exception as error:  # a peer may lack an element type; that is its business
            absent[peer.name] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return calls, absent


def measure(cell: Cell, effort: Effort) -> Measured:
    """Measures a cell of the board."""
    tensors = data.tensors(cell)
    total = data.bytes_moved(cell.op.operands(cell.descriptor()), tensors)
    calls, absent = _peers(cell, tensors)
    contenders = {OURS: plan_call(cell, tensors), COPY: _copy(cell, tensors, total), **calls}
    return Measured(cell, total, best_times(contenders, effort), absent)


def measure_call(cell: Cell, effort: Effort) -> Measured:
    """Measures the cost of a small call, on PyTorch's tensors where there are any."""
    tensors: dict[str, Any] = data.tensors(cell)
    total = data.bytes_moved(cell.op.operands(cell.descriptor()), tensors)
    # A dispatch of JAX is another matter: inside jit nobody pays it.
    calls, absent = _eager_peers(cell, tensors)
    if "torch" in calls or "entmax" in calls:
        tensors = {name: as_torch(array) for name, array in tensors.items()}
    contenders = {OURS: plan_call(cell, tensors), **calls}
    times = {name: per_call(call, effort) for name, call in contenders.items()}
    return Measured(cell, total, times, absent)


_WITH_PEERS = 2**29
"""Bytes of a problem up to which others are measured beside it: they hold graphs and copies."""


def measure_size(cell: Cell, effort: Effort) -> Measured | None:
    """Measures a cell at one size, against PyTorch and the memcpy; None if memory is short."""
    needed = 2 * sum(  # saved tensors and outputs twice over while they are made
        int(np.prod(o.shape, dtype=np.int64)) * o.kinds[-1].itemsize
        for o in cell.op.operands(cell.descriptor())
    )
    if needed > available_memory():
        return None
    tensors = data.tensors(cell)
    total = data.bytes_moved(cell.op.operands(cell.descriptor()), tensors)
    contenders = {OURS: plan_call(cell, tensors)}
    absent: dict[str, str] = {}
    if needed <= 2 * _WITH_PEERS:
        calls, absent = _eager_peers(cell, tensors)
        contenders |= {COPY: _copy(cell, tensors, total), **calls}
    return Measured(cell, total, best_bursts(contenders, effort), absent)


_PEER_TURNS = 2
"""Turns in which peers are measured: each makes their graphs anew."""


def measure_styles(cells: Sequence[Cell], turns: int) -> list[Measured]:
    """Measures cells that differ in the style of their values alone, against PyTorch.

    All styles are measured in the same memory and take turns, and the best of each counts: between
    arrays at different places, or minutes, the same kernel differs by more than between styles.
    """
    drawn = [data.tensors(cell) for cell in cells]
    shared = {name: data.empty(x.shape, x.dtype) for name, x in drawn[0].items()}
    total = data.bytes_moved(cells[0].op.operands(cells[0].descriptor()), shared)
    found = [Measured(cell, total, {}) for cell in cells]
    once = Effort(seconds=0, rounds=2, least=2)
    for turn in range(turns):
        for measured, tensors in zip(found, drawn, strict=True):
            for name, x in tensors.items():
                shared[name][...] = x
            contenders = {OURS: plan_call(measured.cell, shared)}
            if turn < _PEER_TURNS:
                calls, measured.absent = _eager_peers(measured.cell, shared)
                contenders |= calls
            for name, took in best_bursts(contenders, once).items():
                measured.times[name] = min(took, measured.times.get(name, took))
    return found


def _eager_peers(
    cell: Cell, tensors: Mapping[str, Array]
) -> tuple[dict[str, Call], dict[str, str]]:
    """Without JAX, whose compilation of every shape would take most of the run."""
    return _peers(cell, tensors, [peer for peer in PEERS if peer.eager])


def available_memory() -> int:
    """Bytes that can be had without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
