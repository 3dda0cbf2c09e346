"""What the machine allows: CPU time of control groups, and caches that CPUs share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gradplan.engines import cpu

pytestmark = pytest.mark.skipif(not cpu.supported_isas(), reason="no build for this CPU here")

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
V1 = "32 31 0:29 {root} /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,{controllers}\n"
V2 = "41 31 0:38 {root} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
OTHER = "23 1 0:20 / / rw - ext4 /dev/root rw\n33 31 0:30 / /sys/fs/cgroup/x rw - cgroup c rw,x\n"


def asked(name: str, root: Path, files: Mapping[str, str]) -> Any:
    """What the library says of a machine with these files."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="ascii")
    return cpu.load()[name](str(root))


def version_1(group: str, limits: Mapping[str, tuple[int, int]], mounted: str = "/") -> Any:
    files = {
        "proc/self/mountinfo": OTHER + V1.format(root=mounted, controllers="cpu,cpuacct"),
        "proc/self/cgroup": f"5:memory:/elsewhere\n4:cpu,cpuacct:{group}\n0::/\n",
    }
    for path, (quota, period) in limits.items():
        files[f"sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us"] = f"{quota}\n"
        files[f"sys/fs/cgroup/cpu{path}/cpu.cfs_period_us"] = f"{period}\n"
    return files


def version_2(group: str, limits: Mapping[str, str], mounted: str = "/") -> Any:
    files = {
        "proc/self/mountinfo": OTHER + V2.format(root=mounted),
        "proc/self/cgroup": f"0::{group}\n",
    }
    return files | {f"sys/fs/cgroup{path}/cpu.max": f"{text}\n" for path, text in limits.items()}


ONE, NONE = 1, CPUS
QUOTAS = {
    "no files": ({}, NONE),
    "v2: none": (version_2("/a", {"/a": "max 100000"}), NONE),
    "v2: one CPU": (version_2("/a", {"/a": "100000 100000"}), ONE),
    "v2: not two": (version_2("/a", {"/a": "190000 100000"}), ONE),
    "v2: half a CPU": (version_2("/a", {"/a": "25000 50000"}), ONE),
    "v2: many": (version_2("/a", {"/a": "100000000 100000"}), NONE),
    "v2: the parent's": (version_2("/a/b/c", {"/a": "50000 50000", "/a/b/c": "max 50000"}), ONE),
    "v2: the root of a container": (version_2("/", {"": "100000 100000"}), ONE),
    "v2: mounted below": (version_2("/d/1/x", {"/x": "100000 100000"}, "/d/1"), ONE),
    "v2: another group's": (version_2("/b", {"/a": "100000 100000"}), NONE),
    "v1: none": (version_1("/a", {"/a": (-1, 100000)}), NONE),
    "v1: one CPU": (version_1("/a", {"/a": (100000, 100000)}), ONE),
    "v1: the parent's": (version_1("/a/b", {"/a": (10000, 10000), "/a/b": (-1, 100000)}), ONE),
    "v1: mounted below": (version_1("/d/1", {"": (100000, 100000)}, "/d/1"), ONE),
    "v1: another group's": (version_1("/elsewhere", {"/a": (100000, 100000)}), NONE),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_a_quota_of_cpu_time_counts(name: str, tmp_path: Path) -> None:
    files, expected = QUOTAS[name]
    assert asked("gradplan_processors", tmp_path, files) == expected


def test_a_quota_is_the_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless somebody says another one."""
    asked("gradplan_processors", tmp_path, version_2("/a", {"/a": "150000 100000"}))
    monkeypatch.delenv("GRADPLAN_NUM_THREADS", raising=False)
    monkeypatch.setattr(cpu, "_ROOT", str(tmp_path))
    monkeypatch.setattr(cpu, "_num_threads", None)
    assert cpu.get_num_threads() == 1
    monkeypatch.setenv("GRADPLAN_NUM_THREADS", "3")
    monkeypatch.setattr(cpu, "_num_threads", None)
    assert cpu.get_num_threads() == 3


@pytest.mark.skipif(CPUS < 2, reason="one CPU")
def test_of_several_quotas_the_least_counts(tmp_path: Path) -> None:
    both = version_2("/a/b", {"/a": "200000 100000", "/a/b": "100000 100000"})
    assert asked("gradplan_processors", tmp_path, both) == 1
    wider = version_2("/a/b", {"/a": "200000 100000", "/a/b": "900000 100000"})
    assert asked("gradplan_processors", tmp_path, wider) == 2


def caches(*levels: tuple[int, str, str, str]) -> dict[str, str]:
    """Level, type, size and CPUs that share it."""
    files = {}
    for index, (level, kind, size, sharing) in enumerate(levels):
        here = f"sys/devices/system/cpu/cpu0/cache/index{index}"
        files |= {
            f"{here}/level": str(level),
            f"{here}/type": kind,
            f"{here}/size": size,
            f"{here}/shared_cpu_list": sharing,
        }
    return files


FIRST = [(1, "Data", "32K", "0"), (1, "Instruction", "32K", "0"), (2, "Unified", "1024K", "0")]
CACHES = {
    "not known": ({}, 0),
    "alone": (caches(*FIRST, (3, "Unified", "32768K", "0")), 33 << 20),
    "shared": (caches(*FIRST, (3, "Unified", "32768K", "0-7")), 5 << 20),
    "shared by two threads of each core": (
        caches(*FIRST[:2], (2, "Unified", "2048K", "0,32"), (3, "Unified", "64M", "0-31,32-63")),
        2 << 20,
    ),
    "no third level": (caches(*FIRST), 1 << 20),
}


@pytest.mark.parametrize("name", CACHES)
def test_what_a_thread_can_count_on_of_the_caches(name: str, tmp_path: Path) -> None:
    files, expected = CACHES[name]
    assert asked("gradplan_cache_of_thread", tmp_path, files) == expected


def test_this_machine() -> None:
    assert 1 <= cpu.load()["gradplan_processors"]("") <= CPUS
    assert cpu.load()["gradplan_cache_of_thread"]("") >= 0
