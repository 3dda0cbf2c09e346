"""Programs of the GPU engine on NumPy arrays: each launch executes the PTX of its kernel.

The kernels are the shipped ones. While kernels are written, GRADPLAN_KERNELS=built (or
`kernels(built=True)`) compiles those that are used, and keeps them under build/.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradplan.engines.cuda import archive
from gradplan.engines.cuda.archive import Binary
from gradplan.engines.cuda.program import (
    ERRORS,
    F32,
    F64,
    I32,
    I64,
    WORKSPACE,
    Argument,
    Launch,
    Layout,
    Pointer,
    Program,
)

from .machine import Kernel
from .memory import Memory

Array = np.ndarray[Any, Any]
CACHE = Path(__file__).parents[3] / "build" / "kernels"
POISON = 0xFF
"""Workspace begins as NaN: what was not written shows."""


# Where kernels come from ---------------------------------------------------------------------


class BuiltKernels(Mapping[str, Binary]):
    """Compiles a kernel when it is asked for, unless its source has been compiled before."""

    def __init__(self) -> None:
        from gradplan.engines.cuda.kernels.catalogue import catalogue

        self.kernels = catalogue()
        self.made: dict[str, Binary] = {}

    def __getitem__(self, key: str) -> Binary:
        from gradplan.engines.cuda.kernels.builds import build_once

        if key not in self.made:
            self.made[key] = build_once(key, self.kernels[key], CACHE)
        return self.made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)


@functools.cache
def kernels(built: bool | None = None) -> Mapping[str, Binary]:
    """Shipped or built kernels; without a choice, what GRADPLAN_KERNELS says."""
    if built is None:
        built = os.environ.get("GRADPLAN_KERNELS") == "built" or not archive.load()
    return BuiltKernels() if built else archive.load()


_READ: dict[str, Kernel] = {}


def executable(binary: Binary) -> Kernel:
    """The PTX, read once in a process."""
    if binary.digest not in _READ:
        _READ[binary.digest] = Kernel(binary.ptx, binary.shared)
    return _READ[binary.digest]


# Running -------------------------------------------------------------------------------------


def layout_of(array: Array) -> Layout:
    """How the engine would see an array."""
    return Layout(
        dtype=array.dtype.name,
        shape=array.shape,
        strides=tuple(s // array.itemsize for s in array.strides),
        aligned=array.ctypes.data % 16 == 0,
    )


def run_program(
    program: Program,
    tensors: Mapping[str, Array],
    workspace: Array | None = None,
    errors: Array | None = None,
    *,
    binaries: Mapping[str, Binary] | None = None,
    warp_by_warp: bool = False,
    backwards: bool = False,
) -> None:
    """Runs all launches; kernels reach the tensors, as much workspace as they asked for, no more.

    `errors` is the array of the words for complaints. The last two are as in `Kernel.launch`.
    """
    if binaries is None:
        binaries = kernels()
    scratch = aligned_bytes(program.workspace_size) if workspace is None else workspace
    reachable = {**tensors, WORKSPACE: scratch[: program.workspace_size]}
    if errors is not None:
        reachable[ERRORS] = errors
    addresses = {name: array.ctypes.data for name, array in reachable.items()}
    memory = Memory.of_addresses(_bounds(array) for array in reachable.values())
    for launch in program.launches:
        binary = binaries[launch.kernel]
        _check_arguments(launch, binary)
        arguments = [_bits(a, addresses) for a in launch.arguments]
        executable(binary).launch(
            launch.grid, arguments, memory, warp_by_warp=warp_by_warp, backwards=backwards
        )


def aligned_bytes(size: int) -> Array:
    """Poison at a multiple of 256."""
    memory = np.full(size + 256, POISON, np.uint8)
    start = -memory.ctypes.data % 256
    return memory[start : start + size]


def _bounds(array: Array) -> tuple[int, int]:
    """The first byte of an array's elements and the one behind them."""
    if not array.size:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    first = array.ctypes.data + sum(r for r in reach if r < 0)
    return first, array.ctypes.data + sum(r for r in reach if r > 0) + array.itemsize


LETTERS = {Pointer: "p", I32: "i", I64: "l", F32: "f", F64: "d"}


def _check_arguments(launch: Launch, binary: Binary) -> None:
    """Types as the kernel has them, and a grid that a GPU has."""
    given = "".join(LETTERS[type(a)] for a in launch.arguments)
    wanted = binary.parameters.rstrip("0")
    if given != wanted:
        raise TypeError(f"{launch.kernel} takes {wanted}, and is given {given}")
    x, y, z = launch.grid
    if not (0 < x < 2**31 and 0 < y < 2**16 and 0 < z < 2**16):
        raise ValueError(f"{launch.kernel}: no GPU has a grid of {launch.grid}")


def _bits(argument: Argument, addresses: Mapping[str, int]) -> int:
    """A parameter as an unsigned number."""
    match argument:
        case Pointer(name, offset):
            return addresses[name] + offset
        case I32(value):
            return int(np.array(value, np.int32).view(np.uint32))
        case I64(value):
            return int(np.array(value, np.int64).view(np.uint64))
        case F32(value):
            return int(np.array(value, np.float32).view(np.uint32))
        case F64(value):
            return int(np.array(value, np.float64).view(np.uint64))
