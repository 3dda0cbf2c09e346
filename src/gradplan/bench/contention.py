"""What other processes do while the board is measured: they take CPUs from it.

The kernel counts how long each CPU was busy (/proc/stat), and how long we were. The difference is
that of others: processes, and other virtual machines where the kernel is told of them ("steal").
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

STAT = Path("/proc/stat")
LEAST = 0.25
"""CPUs that others may use before the measurements are said to be disturbed.

An idle machine's own work is below a tenth. Counters are sampled, every 4 ms or so: within a
stretch of two seconds that is an error of a few hundredths.
"""
_STRETCH = 2.0
_LEAST_STRETCH = 1.0  # what is shorter is not exact enough to judge
_BUSY = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, steal; guests are users


class Reading(NamedTuple):
    """Seconds since some moment in the past."""

    clock: float
    busy: float
    """Of all CPUs that we may use, added up."""
    own: float
    """Of this process, all threads."""


def read(stat: Path = STAT) -> Reading | None:
    """The counters now; None where there are none."""
    ours = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    try:
        lines = [line.split() for line in stat.read_text(encoding="ascii").splitlines()]
        cpus = [line[1:] for line in lines if line and line[0] in ours]
        ticks = sum(int(cpu[i]) for cpu in cpus for i in _BUSY)
    except (OSError, ValueError, IndexError):
        return None
    if not cpus:
        return None
    return Reading(time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), time.process_time())


def used_by_others(began: Reading, ended: Reading) -> float | None:
    """How many CPUs others used on average; None if the counters cannot be right."""
    seconds = ended.clock - began.clock
    busy, own = ended.busy - began.busy, ended.own - began.own
    if seconds <= 0 or busy < own / 2:  # a sandbox whose counters stand still
        return None
    return max(busy - own, 0.0) / seconds


class Watch:
    """Looks before the run, then at one stretch of the run after another."""

    def __init__(self, read: Callable[[], Reading | None] = read) -> None:
        self._read = read
        self._began: Reading | None = None
        self.before: float | None = None
        """CPUs that others used before the run; None: it cannot be known here."""
        self.stretches: list[float] = []
        """CPUs that others used in each stretch of the run."""

    def look(self, pause: Callable[[float], None] = time.sleep) -> None:
        """Waits for a second, in which all that happens is what others do."""
        began = self._read()
        pause(_LEAST_STRETCH)
        self._began = self._read()
        if began is not None and self._began is not None:
            self.before = used_by_others(began, self._began)

    def step(self, *, last: bool = False) -> None:
        """Closes the stretch if it is long enough; to be called after each measurement."""
        now, least = self._read(), _LEAST_STRETCH if last else _STRETCH
        if now is None or self._began is None or now.clock - self._began.clock < least:
            return
        used = used_by_others(self._began, now)
        self._began = now
        if used is not None:
            self.stretches.append(used)

    def stop(self) -> None:
        """Ends the watch: what comes now is busy on purpose."""
        self.step(last=True)
        self._began = None

    def as_json(self) -> dict[str, Any]:
        """Rounded, for the file: `cpus` are ours to use, the others' numbers are averages."""
        disturbed = sum(used >= LEAST for used in self.stretches)
        return {
            "cpus": len(os.sched_getaffinity(0)),
            "used_before": None if self.before is None else round(self.before, 2),
            "used_at_most": round(max(self.stretches), 2) if self.stretches else None,
            "stretches": len(self.stretches),
            "stretches_disturbed": disturbed,
        }


def warning_before(others: dict[str, Any]) -> str | None:
    """What to tell somebody who is about to measure; None if the machine is quiet."""
    used = others["used_before"]
    if used is None or used < LEAST:
        return None
    return (
        f"other processes are using {used:.1f} of {others['cpus']} CPUs; "
        "the measurements will be disturbed: close them first"
    )


def warning_after(others: dict[str, Any]) -> str | None:
    """What to tell somebody who reads the measurements; None if nothing disturbed them."""
    if not others["stretches_disturbed"]:
        return None
    share = others["stretches_disturbed"] / others["stretches"]
    return (
        f"other processes used up to {others['used_at_most']:.1f} of {others['cpus']} CPUs, in "
        f"{share:.0%} of the time: these numbers are disturbed; measure again without them"
    )
