"""What a result was obtained on."""

from __future__ import annotations

import platform
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

from gradplan.engines import cpu
from gradplan.vocabulary import Unsupported


def cpu_name() -> str:
    """The processor's name for people."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def version_of(distribution: str) -> str | None:
    """The installed version, without importing anything."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """This machine and what runs on it."""
    try:
        isa = cpu.isa()
    except Unsupported:
        isa = None
    return {
        "cpu": cpu_name(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "isa": isa,
        "builds": list(cpu.isa_builds()),
        "builds_for_this_cpu": list(cpu.supported_isas()),
        "threads": cpu.get_num_threads(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": version_of("numpy"),
    }


# The bridges and what each needs, by distribution.
BRIDGES = {"torch": ("torch",), "jax": ("jax", "jax-tvm-ffi")}


def bridges() -> dict[str, dict[str, Any]]:
    """Which frameworks can be used from their own side, and what is missing for the others."""
    found = {}
    for name, needs in BRIDGES.items():
        versions = {need: version_of(need) for need in needs}
        here = util.find_spec(f"gradplan.{name}") is not None
        found[name] = {"available": here and None not in versions.values(), "versions": versions}
    return found
