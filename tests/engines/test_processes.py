"""No call hangs or kills its process: forks, no room for threads, small stacks, exits, signals."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from matrix import num_threads
from processes import big_sum, in_fork, run_python

import gradplan as gp
from gradplan.engines import cpu

pytestmark = [
    pytest.mark.slow,  # nearly all of them start processes
    pytest.mark.skipif(not cpu.supported_isas(), reason="no build for this CPU here"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),
]
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="no /proc here")

# Forks -------------------------------------------------------------------------------------------


@contextmanager
def meanwhile(work: Callable[[int], object]) -> Iterator[None]:
    """Another thread calls work(0), work(1), ..."""
    stop, began = threading.Event(), threading.Event()

    def repeat() -> None:
        number = 0
        while not stop.is_set():
            work(number)
            began.set()
            number += 1

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        assert began.wait(60)
        yield
    finally:
        stop.set()
        thread.join()


def select(number: int) -> Any:
    """A plan that nobody has asked for before."""
    number = number * 65536 + os.getpid() % 65536 + 1
    desc = gp.ScanDescriptor(kind="cumsum", input_shape=(2, number), scan_axis=1, element="f32")
    return gp.ScanPlan.select(desc)


def everything_works() -> tuple[float, int, str]:
    before = gp.get_num_threads()
    gp.set_num_threads(3)
    total = big_sum()
    found = gp.get_num_threads()
    gp.set_num_threads(before)
    return total, found, select(1000).engine


BUSY = {
    "in a kernel": lambda number: big_sum(),
    "in set_num_threads": lambda number: gp.set_num_threads(2 + number % 2),
    "in select": select,
}


@pytest.mark.parametrize("where", BUSY)
def test_a_fork_while_another_thread_is(where: str) -> None:
    with num_threads(3), meanwhile(BUSY[where]):
        for _ in range(15):
            assert in_fork(everything_works) == "(2000.0, 3, 'cpu')"
    assert big_sum() == 2000


def test_a_lock_that_another_thread_holds_is_noticed() -> None:
    """The control: without what `forks` does such a child hangs, and `in_fork` says so."""
    code = """
import threading
from processes import in_fork
lock, held, stop = threading.Lock(), threading.Event(), threading.Event()

def hold():
    with lock:
        held.set()
        stop.wait()

threading.Thread(target=hold).start()
held.wait()
try:
    in_fork(lock.acquire, 1)
except AssertionError as error:
    print(error)
stop.set()
"""
    assert run_python(code).stdout.strip() == "the forked child hangs"


def test_a_fork_waits_for_the_first_import_of_another_thread() -> None:
    """A module that is half imported when the process forks cannot be imported in the child."""
    code = """
import sys, threading, time
import gradplan as gp
from gradplan import forks
from processes import big_sum, in_fork
thread = threading.Thread(target=big_sum)  # imports tvm_ffi, loads libraries
thread.start()
while "tvm_ffi" not in sys.modules and thread.is_alive():
    time.sleep(0.0001)
print(in_fork(big_sum))
thread.join()
"""
    for _ in range(3):
        result = run_python(code)
        assert (result.returncode, result.stdout.strip()) == (0, "2000.0"), result.stderr


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cached properties have no locks any more")
def test_a_cached_property_that_another_thread_is_in() -> None:
    code = """
import threading
from gradplan.declaration import Op
from gradplan import ops
from processes import in_fork, big_sum
properties = [v for v in vars(Op).values() if hasattr(v, "lock")]
assert len(properties) > 3
held, stop = threading.Event(), threading.Event()

def hold():
    for each in properties:
        each.lock.acquire()
    held.set()
    stop.wait()
    for each in properties:
        each.lock.release()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
try:
    print(in_fork(big_sum, 30))
finally:
    stop.set()
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "2000.0"), result.stderr


@needs_proc
def test_a_child_has_threads_of_its_own() -> None:
    code = """
import os, gradplan as gp
from processes import big_sum, in_fork
gp.set_num_threads(3)

def threads():
    big_sum()
    return len(os.listdir("/proc/self/task"))

print(threads(), in_fork(threads), in_fork(lambda: in_fork(threads)), threads())
"""
    result = run_python(code, OPENBLAS_NUM_THREADS="1")
    assert result.stdout.split() == ["3", "3", "'3'", "3"], result.stderr


def test_pytorch_works_in_a_child_after_ours_ran() -> None:
    """Its threads serve our calls; they are given up before a fork, so a child has new ones."""
    pytest.importorskip("torch")
    code = """
import torch, gradplan as gp, gradplan.torch as gpt
from processes import BIG, big_sum, in_fork
torch.set_num_threads(2)
gp.set_num_threads(2)
big_sum()
gpt.cumsum(torch.from_numpy(BIG), 1)  # torch.ones would start PyTorch's threads

def work():
    x = torch.ones(1 << 20)
    return float((x + 1).sum()), float(gpt.cumsum(x, 0)[-1]), big_sum()

print(in_fork(work, 60), in_fork(work, 60))
work()
print(in_fork(work, 60), work())
"""
    result = run_python(code)
    expected = "(2097152.0, 1048576.0, 2000.0)"
    assert (result.returncode, result.stdout.strip()) == (
        0,
        f"{expected} {expected}\n{expected} {expected}",
    ), result.stderr


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="no /proc here")
def test_no_runtime_of_threads_but_our_own_is_loaded() -> None:
    code = """
from processes import big_sum
big_sum()
with open("/proc/self/maps") as maps:
    print([line for line in maps if "gomp" in line or "libomp" in line])
"""
    assert run_python(code).stdout.strip() == "[]"


def test_a_signal_handler_may_fork_inside_of_a_call() -> None:
    """The parent's call goes on; in the child what other threads had taken is lost: it raises."""
    code = """
import os, signal
import numpy as np, gradplan as gp
gp.set_num_threads(2)
x = np.ones((1 << 10, 1 << 15), np.float32)
expected = gp.logcumsumexp(x)[:, -1].copy()
children = []

def fork(*_):
    if not children:
        children.append(os.fork())

signal.signal(signal.SIGALRM, fork)
result = None
while not children:
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        result = gp.logcumsumexp(x)
    except gp.KernelError as error:
        assert children == [0], children
        assert "forked" in str(error)
        result = gp.logcumsumexp(x)  # the child can go on
assert np.array_equal(result[:, -1], expected)
if children == [0]:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "7"), result.stderr


# No room -----------------------------------------------------------------------------------------


BRIDGES = ("", "torch")  # whose threads serve


@needs_proc
@pytest.mark.parametrize("bridge", BRIDGES)
@pytest.mark.parametrize("limited", [True, False])
def test_no_room_for_a_thread_means_fewer_threads(limited: bool, bridge: str) -> None:
    if bridge:
        pytest.importorskip(bridge)
    count = 2 if bridge else 4  # PyTorch's serve no more than there are processors
    code = f"""
{f"import gradplan.{bridge}" if bridge else ""}
import os, resource, numpy as np, gradplan as gp
from processes import BIG
gp.set_num_threads(1)
y, again = np.empty_like(BIG), np.empty_like(BIG)
plan = gp.ScanPlan.select(
    gp.ScanDescriptor(kind="cumsum", input_shape=BIG.shape, scan_axis=1, element="f32"))
plan.run(x=BIG, y=y)
before = len(os.listdir("/proc/self/task"))
gp.set_num_threads({count})
if {limited}:
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), resource.RLIM_INFINITY))
plan.run(x=BIG, y=again)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
print(np.array_equal(y, again), len(os.listdir("/proc/self/task")) - before)
"""
    result = run_python(code, OPENBLAS_NUM_THREADS="1")
    threads = "0" if limited else str(count - 1)
    assert (result.returncode, result.stdout.split()) == (0, ["True", threads]), result.stderr


@pytest.mark.parametrize("bridge", BRIDGES)
def test_the_size_of_stacks_is_not_taken_from_openmp(bridge: str) -> None:
    code = "from processes import big_sum; print(big_sum())"
    if bridge:
        pytest.importorskip(bridge)
        code = f"import gradplan.{bridge}; {code}"
    result = run_python(code, OMP_STACKSIZE="16k", GRADPLAN_NUM_THREADS="2")
    assert (result.returncode, result.stdout.strip()) == (0, "2000.0"), result.stderr


def test_a_thread_with_a_small_stack() -> None:
    """Python itself needs most of 128 KiB; kernels use more than that."""
    code = """
import threading
import numpy as np, gradplan as gp
gp.set_num_threads(2)
x = np.ones((300, 700), np.float32)
calls = [lambda axis=axis, kind=kind, x=x: getattr(gp, kind)(x, axis=axis)
         for kind in ("cumsum", "logcumsumexp", "sparsemax", "cummax") for axis in (0, 1)
         for x in [np.ones((300, 700), np.float32)]
         for x in (x, x[:20, :30], x.T, x.astype(np.float64)[::-1, ::2])]
calls.append(lambda: gp.segment_sum(x, np.arange(300) // 7, 50))
expected = [call().tobytes() for call in calls]
found = []
threading.stack_size(128 << 10)
thread = threading.Thread(target=lambda: found.extend(call().tobytes() for call in calls))
thread.start()
thread.join()
print(found == expected)
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "True"), result.stderr


@needs_proc
def test_a_small_stack_and_no_room_for_another_is_an_error() -> None:
    code = """
import resource, threading
import numpy as np, gradplan as gp
gp.set_num_threads(1)
x = np.ones((30, 70), np.float32)
gp.cumsum(x)
errors = []

def work():
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), resource.RLIM_INFINITY))
    try:
        gp.cumsum(x)
    except MemoryError as error:
        errors.append(str(error))
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    gp.cumsum(x)

threading.stack_size(128 << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(errors)
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "['gradplan: out of memory']"), (
        result.stderr
    )


# Exits -------------------------------------------------------------------------------------------

EXIT = """
import threading, time
import numpy as np, gradplan as gp
{imports}
gp.set_num_threads(2)
x = np.ones(({size}, {size}), np.float32)
began = threading.Barrier(5)

def loop():
    gp.cumsum(x)
    began.wait()
    while True:
        gp.cumsum(x)

for _ in range(4):
    threading.Thread(target=loop, daemon=True).start()
began.wait()
time.sleep(0.05)
print("leaving")
"""


@pytest.mark.parametrize("size", [100, 1000])
@pytest.mark.parametrize("bridge", ["", "torch"])
def test_daemon_threads_at_exit(bridge: str, size: int) -> None:
    """With arrays of NumPy's: PyTorch's own calls on such threads abort the process."""
    if bridge:
        pytest.importorskip(bridge)
    code = EXIT.format(imports=f"import gradplan.{bridge}" if bridge else "", size=size)
    for _ in range(1 if bridge else 3):
        result = run_python(code)
        assert (result.returncode, result.stdout, result.stderr) == (0, "leaving\n", "")


# Signals -----------------------------------------------------------------------------------------

SIGNAL = """
import signal, time
import numpy as np, gradplan as gp
{imports}
class Raised({base}): pass

def handler(*_):
    raise Raised

signal.signal(signal.SIGALRM, handler)
gp.set_num_threads({threads})

def timed(seconds, call):
    # How long a call takes that a signal comes to.
    signal.setitimer(signal.ITIMER_REAL, seconds)
    began = time.perf_counter()
    try:
        call()
        time.sleep(60)
    except Raised:
        return time.perf_counter() - began

{setup}
times = []
for _ in range(3):
    began = time.perf_counter()
    expected = call()
    times.append(time.perf_counter() - began)
whole = min(times)
"""

# Cache misses, so that a call takes a second, in which signals are looked for 20 times; `out` would
# be the small one of its tensors.
SCATTER = """
count = 1 << {bits}
ids = (np.arange(count, dtype=np.int64) * 40503 % (1 << 22)).astype(np.int32)
x = {ones}
def call(**given):
    return {function}(x, {ids}, 1 << 22, **given)
"""
SCANS = """
x = np.broadcast_to(np.float64([1, 0.5, -1, 3] * (1 << 20)), (32, 1 << 22))
def call(**given):
    return gp.logcumsumexp(x, axis={axis}, **given)
"""
SCATTER_OF_NUMPY = SCATTER.format(
    bits=26, ones="np.ones(count, np.float32)", ids="ids", function="gp.unsorted_segment_sum"
)
LONG = {
    "one task per thread": SCATTER_OF_NUMPY,
    "rows": SCANS.format(axis=1),
    "columns": SCANS.format(axis=0),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("call", LONG)
def test_a_signal_ends_a_call_whose_outputs_nobody_has_seen(call: str, threads: int) -> None:
    code = SIGNAL.format(base="KeyboardInterrupt", imports="", threads=threads, setup=LONG[call])
    code += """
times = [timed(whole / 10, call) for _ in range(3)]
print(min(times) < whole / 2, np.array_equal(call(), expected), times, whole)
"""
    result = run_python(code)
    assert result.stdout.split()[:2] == ["True", "True"], result.stdout + result.stderr


def test_a_signal_ends_a_call_of_the_bridge_to_pytorch() -> None:
    pytest.importorskip("torch")
    setup = SCATTER.format(
        bits=26, ones="torch.ones(count)", ids="torch.from_numpy(ids)", function="gpt.segment_sum"
    )
    imports = "import torch, gradplan.torch as gpt"
    code = SIGNAL.format(base="KeyboardInterrupt", imports=imports, threads=2, setup=setup)
    code += """
times = [timed(whole / 10, call) for _ in range(3)]
print(min(times) < whole / 2, torch.equal(call(), expected), times, whole)
"""
    result = run_python(code)
    assert result.stdout.split()[:2] == ["True", "True"], result.stdout + result.stderr


@pytest.mark.parametrize("base", ["KeyboardInterrupt", "OSError", "ValueError", "BufferError"])
@pytest.mark.parametrize("given", [False, True])
def test_what_a_handler_raises_is_not_lost(base: str, given: bool) -> None:
    """And what the caller has given as an output is finished, whatever comes."""
    setup = SCATTER_OF_NUMPY.replace("1 << 26", "1 << 22")
    code = SIGNAL.format(base=base, imports="", threads=2, setup=setup)
    code += f"""
out = np.full(expected.shape, np.nan, np.float32)
given = dict(out=out) if {given} else dict()
for k in range(4):
    out.fill(np.nan)
    assert timed(whole * (k + 1) / 6, lambda: call(**given)) is not None
    assert not {given} or np.array_equal(out, expected)
print("raised")
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "raised"), result.stderr


def test_other_threads_are_not_interrupted() -> None:
    """Python runs handlers on its main thread; a call on another one is finished."""
    code = SIGNAL.format(base="KeyboardInterrupt", imports="", threads=2, setup=SCATTER_OF_NUMPY)
    code += """
import threading
found = []
thread = threading.Thread(target=lambda: found.append(call()))

def work():
    thread.start()
    time.sleep(60)

timed(whole / 4, work)
while not found:
    time.sleep(0.01)
print(np.array_equal(found[0], expected))
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "True"), result.stderr
