"""Whatever the process is like: rounding modes, flush to zero, traps, threads, forks, builds."""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matrix import FUNCTIONS, Case, Prepared, cases, num_threads
from processes import big_sum, in_fork, run_python

import gradplan as gp
from gradplan.declaration import Function, Op
from gradplan.engines import cpu

pytestmark = pytest.mark.skipif(not cpu.supported_isas(), reason="no build for this CPU here")
all_functions = pytest.mark.parametrize(
    ("op", "function"), FUNCTIONS, ids=[f.name for _, f in FUNCTIONS]
)


# The floating-point environment ------------------------------------------------------------------

# The register that holds rounding mode, flush-to-zero and exception masks.
CONTROL_C = """
#if defined(__x86_64__)
#include <xmmintrin.h>
unsigned get_control(void) { return _mm_getcsr(); }
void set_control(unsigned value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
unsigned get_control(void) {
  unsigned long value;
  __asm__ volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void set_control(unsigned value) { __asm__ volatile("msr fpcr, %0" ::"r"((unsigned long)value)); }
#endif
"""

# name: the bits to set (x86-64's MXCSR, aarch64's FPCR).
HOSTILE = {
    "upward": (0x4000, 1 << 22),
    "downward": (0x2000, 2 << 22),
    "toward zero": (0x6000, 3 << 22),
    "flush to zero": (0x8000, 1 << 24),
    "denormals are zero": (0x0040, 1 << 24),
    "everything": (0xE040, (1 << 24) | (3 << 22)),
}
IS_X86 = platform.machine() in ("x86_64", "AMD64")
STICKY = 0x3F if IS_X86 else 0  # flags of what has happened, not settings


class Control:
    """The floating-point control register of the calling thread."""

    def __init__(self, library: Path) -> None:
        self.path = library
        self.library = ctypes.CDLL(str(library))
        self.library.get_control.restype = ctypes.c_uint

    def get(self) -> int:
        return int(self.library.get_control()) & ~STICKY

    def during(self, bits: int, call: Callable[[], Any]) -> int:
        """Calls with these bits set; returns the register as it is afterwards.

        Nothing but the call happens in between: Python's own arithmetic is affected, too.
        """
        before = self.library.get_control()
        self.library.set_control(before | bits)
        try:
            call()
            return self.get()
        finally:
            self.library.set_control(before)


@pytest.fixture(scope="session")
def control(tmp_path_factory: pytest.TempPathFactory) -> Control:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler (the package needs one to be built)")
    folder = tmp_path_factory.mktemp("control")
    (folder / "control.c").write_text(CONTROL_C)
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "control.c", "-o", "control.so"],
        cwd=folder,
        check=True,
    )
    return Control(folder / "control.so")


def sensitive_cases(op: Op, function: Function) -> list[Case]:
    """Cases with subnormals and many roundings, small and large enough for several threads."""
    chosen = [c for c in cases(op, function) if c.style in ("plain", "any bits")]
    by_size = sorted(chosen, key=lambda c: sum(math.prod(o.shape) for o in op.operands(c.desc)))
    return [by_size[len(by_size) * k // 8] for k in (2, 4, 5, 6, 7)]


def run_hostile(prepared: Prepared, control: Control, bits: int) -> tuple[list[str], int]:
    """The mismatches of a run in a hostile environment, and the register after it."""
    after: list[int] = []

    class Hostile(cpu.CpuEngine):
        def bind(self, op: Op, desc: Any) -> Any:
            bound = super().bind(op, desc)

            def run(*args: Any) -> None:
                after.append(control.during(bits, lambda: bound.run(*args)))

            return type(bound)(run, bound.workspace_size, bound.recover)

    return prepared.run(Hostile(), threads=2), after[0] if after else -1


@all_functions
def test_a_hostile_environment_does_not_change_bits(
    op: Op, function: Function, control: Control
) -> None:
    clean = control.get()
    for case in sensitive_cases(op, function):
        prepared = Prepared.of(case)
        for name, choices in HOSTILE.items():
            bits = choices[0 if IS_X86 else 1]
            wrong, after = run_hostile(prepared, control, bits)
            assert wrong == [], name
            # What the caller had is there again.
            assert after in (clean | bits, -1), name
    assert control.get() == clean


def test_hostile_bits_do_something(control: Control) -> None:
    """NumPy, which does not own its environment, shows that the settings above are in force."""
    tiny, third = np.float64([5e-324]), np.float64([1.0]) / np.float64([3.0])
    seen: dict[str, Any] = {}
    for name, choices in HOSTILE.items():
        bits = choices[0 if IS_X86 else 1]
        results = [np.empty(1), np.empty(1)]

        def work(results: list[Any] = results) -> None:
            np.multiply(tiny, 1.0, out=results[0])
            np.divide(1.0, [3.0], out=results[1])

        control.during(bits, work)
        seen[name] = (float(results[0][0]), float(results[1][0]))
    assert seen["denormals are zero"][0] == 0
    assert seen["upward"][1] > third[0]
    assert seen["downward"][1] == third[0]


@pytest.mark.skipif(not IS_X86, reason="aarch64 CPUs need not support trapping")
def test_a_process_that_traps_is_not_killed(control: Control) -> None:
    """Overflow, division by zero and invalid operations raise no signal inside the engine."""
    code = f"""
import ctypes, numpy as np, gradplan as gp
control = ctypes.CDLL({str(control.path)!r})
x = np.float32([3e38] * 40 + [np.inf, -np.inf, 0, np.nan, 1e-45, -1])
x = np.tile(x, (700, 20))
fields = dict(input_shape=x.shape, scan_axis=1, element="f32")
plans = [gp.ScanPlan.select(gp.ScanDescriptor(kind=kind, **fields)) for kind in gp.ScanKind]
y = np.empty_like(x)
for plan in plans:
    plan.run(x=x, y=y)
before = control.get_control()
for plan in plans:
    control.set_control(before & ~0x0E80)  # invalid, division by zero, overflow, underflow
    plan.run(x=x, y=y)
    control.set_control(before)
print("alive")
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "alive"), result.stderr


def test_threads_made_under_hostile_settings_are_clean(control: Control) -> None:
    """New worker threads inherit the settings of the thread that made them."""
    code = f"""
import ctypes
import numpy as np, gradplan as gp
control = ctypes.CDLL({str(control.path)!r})
x = np.random.default_rng(0).standard_normal((600, 700)).astype(np.float32) * np.float32(1e-38)
plan = gp.ScanPlan.select(
    gp.ScanDescriptor(kind="cumsum", input_shape=x.shape, scan_axis=1, element="f32"))
gp.set_num_threads(1)
expected = plan.run(x=x).tobytes()
gp.set_num_threads(4)
y = np.empty_like(x)
control.set_control(control.get_control() | {HOSTILE["everything"][0 if IS_X86 else 1]})
plan.run(x=x, y=y)  # creates the team
plan.run(x=x, y=y)
control.set_control(0x1F80 if {IS_X86} else 0)
assert y.tobytes() == expected
print("same")
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "same"), result.stderr


# Builds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isa", cpu.supported_isas())
def test_the_forced_build_gives_the_bits_and_is_the_one_in_memory(isa: str) -> None:
    code = """
import numpy as np, gradplan as gp
x = np.linspace(-3, 3, 5000, dtype=np.float32)
y = gp.logcumsumexp(x)
with open("/proc/self/maps") as maps:
    loaded = {line.rsplit("libgradplan_", 1)[1].strip() for line in maps if "libgradplan_" in line}
import hashlib
print(sorted(loaded - {"common.so"}), hashlib.sha256(y.tobytes()).hexdigest())
"""
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("no /proc here")
    forced, free = run_python(code, GRADPLAN_ISA=isa), run_python(code)
    assert forced.returncode == free.returncode == 0, forced.stderr
    assert forced.stdout.split()[0] == f"['{isa}.so']"
    assert forced.stdout.split()[-1] == free.stdout.split()[-1]


@pytest.mark.parametrize("wrong", ["x86-64-v9", "avx2", "X86-64-V3", " ", "../common", "common"])
def test_an_unknown_build_is_an_error(wrong: str) -> None:
    code = """
import numpy as np, gradplan as gp
try:
    gp.cumsum(np.float32([1]))
except gp.Unsupported as error:
    print(error)
"""
    result = run_python(code, GRADPLAN_ISA=wrong)
    assert result.returncode == 0, result.stderr
    assert f"GRADPLAN_ISA={wrong}" in result.stdout
    assert all(isa in result.stdout for isa in cpu.supported_isas())


@pytest.mark.parametrize("isa", sorted(set(cpu.isa_builds()) - set(cpu.supported_isas())))
def test_a_build_that_this_cpu_cannot_run_is_an_error(isa: str) -> None:
    code = "import numpy as np, gradplan as gp; gp.cumsum(np.float32([1]))"
    result = run_python(code, GRADPLAN_ISA=isa)
    assert f"GRADPLAN_ISA={isa}: this CPU cannot run it" in result.stderr


# Threads and processes ---------------------------------------------------------------------------


@pytest.mark.slow
def test_sixteen_python_threads_at_once() -> None:
    """Different ops and sizes side by side, each with a team of its own."""
    chosen = [case for op, function in FUNCTIONS for case in sensitive_cases(op, function)[2:4]]
    prepared = [Prepared.of(case) for case in chosen]
    start = threading.Barrier(16)

    def work(number: int) -> list[str]:
        start.wait()
        wrong: list[str] = []
        for k in range(len(prepared)):
            # threads=None would set the global number; that is another test
            wrong += prepared[(k + number * 5) % len(prepared)].run_as_is(cpu.CpuEngine())
        return wrong

    with num_threads(3), ThreadPoolExecutor(16) as pool:
        results = list(pool.map(work, range(16)))
    assert results == [[]] * 16


def test_the_number_of_threads_may_change_meanwhile() -> None:
    case = next(c for c in sensitive_cases(*FUNCTIONS[0])[::-1])
    prepared = Prepared.of(case)
    stop = threading.Event()

    def change() -> None:
        n = 0
        while not stop.is_set():
            n = n % 7 + 1
            gp.set_num_threads(n)

    before = gp.get_num_threads()
    changer = threading.Thread(target=change)
    changer.start()
    try:
        wrong = [w for _ in range(50) for w in prepared.run_as_is(cpu.CpuEngine())]
    finally:
        stop.set()
        changer.join()
        gp.set_num_threads(before)
    assert wrong == []


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")
def test_a_forked_child_works_after_use() -> None:
    with num_threads(3):
        assert big_sum() == 2000
        assert in_fork(big_sum) == "2000.0"
        # A grandchild, and a child of a thread other than the one with the team.
        assert in_fork(lambda: in_fork(big_sum)) == repr("2000.0")
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(in_fork, big_sum).result() == "2000.0"
        assert big_sum() == 2000  # the parent goes on


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")
def test_a_pool_of_forked_processes_works_after_use() -> None:
    with num_threads(2):
        assert big_sum() == 2000
        with multiprocessing.get_context("fork").Pool(3) as pool:
            results = [pool.apply_async(big_sum) for _ in range(6)]
            assert [result.get(timeout=60) for result in results] == [2000] * 6


def test_a_child_forked_after_another_build_was_used() -> None:
    """The builds share threads."""
    isas = cpu.supported_isas()
    if len(isas) < 2:
        pytest.skip(f"only {isas} runs here")
    code = f"""
import numpy as np, gradplan as gp
from gradplan.engines import cpu
from gradplan.plan import plan_class
from processes import BIG, in_fork
gp.set_num_threads(2)
desc = gp.ScanDescriptor(kind="cumsum", input_shape=BIG.shape, scan_axis=1, element="f32")
plans = [gp.ScanPlan(desc, cpu.CpuEngine(isa), gp.PlanPreference()) for isa in {isas!r}]
plans[0].run(x=BIG)
print(in_fork(lambda: float(plans[1].run(x=BIG)[-1, -1]), 20))
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "2000.0"), result.stderr


@pytest.mark.slow
@needs_fork
def test_a_child_forked_after_torch_used_its_threads() -> None:
    pytest.importorskip("torch")
    code = """
import torch, gradplan as gp
from processes import BIG, big_sum, in_fork
torch.set_num_threads(2)
torch.ones(1 << 20).add(1).cumsum(0)
gp.set_num_threads(2)
print(in_fork(big_sum, 20))
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "2000.0"), result.stderr


def test_other_python_threads_go_on_during_a_call() -> None:
    """The GIL is released: a thread that counts gets on while a kernel runs."""
    x = np.ones((64, 1 << 17), np.float64)
    y = np.empty_like(x)
    plan = gp.ScanPlan.select(
        gp.ScanDescriptor(kind="logcumsumexp", input_shape=x.shape, scan_axis=1, element="f64")
    )
    plan.run(x=x, y=y)
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    counter = threading.Thread(target=tick)
    counter.start()
    try:
        with num_threads(1):
            begin = time.perf_counter()
            for _ in range(3):
                plan.run(x=x, y=y)
            end = time.perf_counter()
    finally:
        stop.set()
        counter.join()
    during = [t for t in ticks if begin < t < end]
    # With the GIL held there would be one tick between calls: three at most.
    assert len(during) > 6, f"{len(during)} ticks in {end - begin:.3f} s"


# Nothing is printed ------------------------------------------------------------------------------


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    for op, function in FUNCTIONS:
        for case in sensitive_cases(op, function)[:2]:
            Prepared.of(case).run(cpu.CpuEngine())
    with pytest.raises(gp.Error):
        gp.cumsum(np.zeros(3, np.float32), out=np.zeros(4, np.float32))
    with pytest.raises(gp.Error):
        gp.segment_sum(np.zeros((2, 1), np.float32), np.array([1, 0]), 2)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.fixture(autouse=True)
def same_number_of_threads() -> Iterator[None]:
    before = gp.get_num_threads()
    yield
    assert gp.get_num_threads() == before
