"""The board on a GPU: ours, a copy on the device, and PyTorch there, as it comes and deterministic.

What runs on a GPU is timed by its own clock: events before and behind several calls in a row. All
contenders have their tensors on the device and write into outputs that are there, as on the CPU's
board; the best of several turns counts.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gradplan.bench import data
from gradplan.bench.board import Cell
from gradplan.bench.measure import COPY, OURS, Effort, Measured
from gradplan.bench.peers import Call, OnTorch, as_torch
from gradplan.cases import Array
from gradplan.engines import ENGINES
from gradplan.engines.cuda import CudaEngine
from gradplan.plan import plan_class

TORCH, DETERMINISTIC = "torch", "torch, deterministic"
CALLS = 20
"""Between two events: enough to hide what it takes to launch."""


def why_not() -> str | None:
    """Why there is nothing to measure here, or None."""
    engine = ENGINES["cuda"]
    if isinstance(engine, CudaEngine) and engine.state.reason is not None:
        return engine.state.reason
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return "PyTorch is not installed, which moves the tensors and is what is compared with"
    if not torch.cuda.is_available():
        return "the installed PyTorch does not see a GPU (it may be built without CUDA)"
    return None


class OnDevice(OnTorch):
    """PyTorch with its tensors on a GPU."""

    def __init__(self, device: str) -> None:
        super().__init__("torch")
        self.device = device

    def tensor(self, array: Array) -> Any:
        return as_torch(array).to(self.device)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """PyTorch's operations raise if they have no deterministic form."""
    torch = importlib.import_module("torch")
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def _deterministically(call: Call) -> Any:
    with deterministic():
        return call()


Clock = Callable[[Call, int], float]
"""Seconds of the device for one of so many calls in a row."""


def device_clock(call: Call, calls: int) -> float:
    """By events of PyTorch's current stream."""
    cuda = importlib.import_module("torch").cuda
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / calls


def _ours(cell: Cell, tensors: Mapping[str, Any], device: str) -> Call:
    plan = plan_class(cell.op).select(cell.descriptor(), device=device)
    first = next(iter(tensors.values()))
    torch = importlib.import_module("torch")
    size = plan.workspace_size
    workspace = torch.empty(size, dtype=torch.uint8, device=first.device) if size else None
    return functools.partial(plan.run, **tensors, workspace=workspace)


def _copy(total: int, like: Any) -> Call:
    """Half of the bytes read and half written, as on the CPU's board."""
    torch = importlib.import_module("torch")
    half = max(total // 2, 1)
    source = torch.empty(half, dtype=torch.uint8, device=like.device)
    target = torch.empty(half, dtype=torch.uint8, device=like.device)
    return functools.partial(target.copy_, source)


def measure(
    cell: Cell, effort: Effort, device: str = "cuda:0", clock: Clock = device_clock
) -> Measured:
    """Measures a cell; what PyTorch cannot do is said, not hidden."""
    library = OnDevice(device)
    arrays = data.tensors(cell)
    total = data.bytes_moved(cell.op.operands(cell.descriptor()), arrays)
    tensors = {name: library.tensor(array) for name, array in arrays.items()}
    contenders = {
        OURS: _ours(cell, tensors, device),
        COPY: _copy(total, next(iter(tensors.values()))),
    }
    absent: dict[str, str] = {}
    try:
        peer = library.calls(cell, arrays)
    except Exception as error:  # it may lack an element type; that is its business
        peer, absent[TORCH] = None, _reason(error)
    if peer is not None:
        contenders |= {TORCH: peer, DETERMINISTIC: functools.partial(_deterministically, peer)}
    best: dict[str, float] = {}
    for turn in range(1 + effort.least):  # the first compiles and allocates
        for name, call in list(contenders.items()):
            try:
                took = clock(call, CALLS if turn else 1)
            except Exception as error:
                if name in (OURS, COPY):
                    raise
                absent[name] = _reason(error)
                del contenders[name]
                continue
            if turn:
                best[name] = min(best.get(name, took), took)
    return Measured(cell, total, best, absent)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
