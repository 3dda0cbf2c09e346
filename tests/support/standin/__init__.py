"""The whole way without a GPU: a stand-in for the driver that executes PTX, and tensors for it.

    driver = StandIn.compiled(folder)
    with driver.registered():          # as the engine "cuda"
        plan = gp.ScanPlan.select(desc, device="cuda:0")
        plan.run(x=GpuArray(x), y=GpuArray(y))

Each compiled library is a driver of its own, with devices, contexts and modules of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import math
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ptx.machine import Kernel
from ptx.memory import Memory
from ptx.run import kernels as tested_kernels

from gradplan.engines import registered
from gradplan.engines.cuda import CudaEngine
from gradplan.engines.cuda.archive import Binary

from .arrays import LIVING, GpuArray, scratch

__all__ = ["GpuArray", "Launched", "StandIn", "scratch"]

_SOURCE = Path(__file__).with_name("libcuda.c")
_LAUNCH_FAILED = 719
_Launch = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.c_uint64,
    ctypes.POINTER(ctypes.c_void_p),
)
_Wait = ctypes.CFUNCTYPE(None, ctypes.c_int)
_Allocate = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int)


_DRIVERS: list[StandIn] = []


@atexit.register
def _detach() -> None:
    """There is no Python to call any more."""
    for driver in _DRIVERS:
        driver.detach()


@functools.cache
def _library(folder: Path) -> Path:
    """Compiled once; those that test copy it, since a copy has a state of its own."""
    made = folder / "libcuda.so"
    command = ["cc", "-std=gnu11", "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    subprocess.run([*command, "-o", str(made), str(_SOURCE)], check=True)
    return made


@functools.cache
def _kernel(ptx: bytes, shared: int) -> Kernel:
    return Kernel(ptx, shared)


class Launched:
    """A launch: what it was, and how to execute it."""

    def __init__(
        self, name: str, device: int, stream: int, programs: int, execute: Callable[[], None]
    ) -> None:
        self.name, self.device, self.stream, self.execute = name, device, stream, execute
        self.programs = programs


class StandIn:
    """A driver. Launches are executed at once, or with `lazy` when somebody waits for them."""

    def __init__(
        self,
        path: Path,
        capabilities: Sequence[tuple[int, int]] = ((8, 0), (9, 0)),
        kernels: Callable[[], Mapping[str, Binary]] = tested_kernels,
    ) -> None:
        self.path = path
        self.kernels = kernels
        self.lazy = False
        self.launched: list[Launched] = []
        self.waiting: list[Launched] = []
        self.errors: list[Exception] = []
        self.allocated: dict[int, tuple[int, int]] = {}
        """The driver's own memory: bytes and device by address."""
        self._c = ctypes.CDLL(str(path))
        majors, minors = zip(*capabilities, strict=True) if capabilities else ((), ())
        count = len(capabilities)
        numbers = ctypes.c_int * max(count, 1)
        self._c.standin_devices(count, numbers(*majors), numbers(*minors))
        _DRIVERS.append(self)  # memory and plans may outlive everybody who knows it
        self._callbacks = _Launch(self._launch), _Wait(self._wait), _Allocate(self._allocate)
        self._c.standin_callbacks(*self._callbacks)

    @classmethod
    def compiled(cls, folder: Path, name: str = "libcuda-1.so", **options: Any) -> StandIn:
        copy = folder / name
        shutil.copy(_library(folder), copy)
        return cls(copy, **options)

    def engine(self) -> CudaEngine:
        return CudaEngine(str(self.path), self.kernels)

    @contextlib.contextmanager
    def registered(self) -> Iterator[CudaEngine]:
        """It is the machine's driver, for a while."""
        engine = self.engine()
        with registered(engine):
            yield engine
        if self.errors:
            raise AssertionError("a launch failed") from self.errors[0]

    # What tests ask for

    def detach(self) -> None:
        self._c.standin_callbacks(None, None, None)

    def fail(self, function: str, code: int) -> None:
        """The next call of a function of the driver's fails."""
        self._c.standin_fail(function.encode(), code)

    def set_version(self, version: int) -> None:
        """Of CUDA, as the driver counts: 12040 is 12.4."""
        self._c.standin_version(version)

    def count(self, what: str) -> int:
        return int(self._c.standin_count(what.encode()))

    @contextlib.contextmanager
    def capturing(self, stream: int) -> Iterator[None]:
        self._c.standin_capture(ctypes.c_uint64(stream), 1)
        try:
            yield
        finally:
            self._c.standin_capture(ctypes.c_uint64(stream), 0)

    def finish(self) -> None:
        """Executes what was launched."""
        while self.waiting:
            self.waiting.pop(0).execute()

    # What the driver asks for

    def _allocate(self, address: int, size: int, device: int) -> None:
        if size:
            self.allocated[address] = size, device
        else:
            del self.allocated[address]

    def _wait(self, device: int) -> None:
        self.finish()

    def _launch(
        self, ptx: bytes, name: bytes, device: int, shape: Any, stream: int, parameters: Any
    ) -> int:
        try:
            *grid, threads, shared = shape[:5]
            kernel = _kernel(ptx, shared)
            if threads != kernel.module.threads:
                raise ValueError(f"{threads} threads for {kernel.module.threads}")
            values = [
                int.from_bytes(ctypes.string_at(parameters[i], int(p.kind[1:]) // 8), "little")
                for i, p in enumerate(kernel.module.parameters)
            ]

            there = list(LIVING)  # a framework would keep their memory until the kernel has run

            def execute() -> None:
                memory = self._memory(device, there)
                kernel.launch((grid[0], grid[1], grid[2]), values, memory)

            launched = Launched(name.decode(), device, stream, math.prod(grid), execute)
            self.launched.append(launched)
            if self.lazy:
                self.waiting.append(launched)
            else:
                execute()
        except Exception as error:  # a callback cannot raise: tests look at `errors`
            self.errors.append(error)
            return _LAUNCH_FAILED
        return 0

    def _memory(self, device: int, arrays: Sequence[GpuArray]) -> Memory:
        """Of tensors on that device, and what is mapped for it."""
        tensors = (a.reach() for a in arrays if a.device_id == device)
        owned = ((a, a + size) for a, (size, where) in self.allocated.items() if where == device)
        return Memory.of_addresses([*tensors, *owned])
