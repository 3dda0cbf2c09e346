"""What runs on a GPU for one call: launches of shipped kernels, as plain data.

A family (`launches/<family>.py`) turns a problem and the layout of its tensors into a `Program`.
The launcher (csrc/cuda) runs it through the driver; the tests run the same one by executing PTX.
Nothing here knows a framework, a driver or Triton.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

WORKSPACE = "workspace"
ERRORS = "errors"
"""Names of pointers that are no operand: scratch memory of the call, aligned to 256 bytes, and the
words in which kernels report what is wrong with indices."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a tensor lies in memory; strides count elements."""

    dtype: str
    """As in ElementKind.dtype_name: "float32"."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    aligned: bool
    """Whether its address is a multiple of 16 bytes."""


@dataclasses.dataclass(frozen=True)
class Pointer:
    """The address of an operand (or of WORKSPACE, ERRORS) and an offset in bytes."""

    name: str
    offset: int = 0


@dataclasses.dataclass(frozen=True)
class I32:
    value: int


@dataclasses.dataclass(frozen=True)
class I64:
    value: int


@dataclasses.dataclass(frozen=True)
class F32:
    value: float


@dataclasses.dataclass(frozen=True)
class F64:
    value: float


Argument = Pointer | I32 | I64 | F32 | F64


@dataclasses.dataclass(frozen=True)
class Launch:
    """One kernel: its key in the shipped archive, the grid of programs, the arguments."""

    kernel: str
    grid: tuple[int, int, int]
    arguments: tuple[Argument, ...]


def moved(launch: Launch, places: Mapping[str, Pointer]) -> Launch:
    """The same on other memory: what is named here begins elsewhere."""

    def place(a: Argument) -> Argument:
        if not isinstance(a, Pointer) or a.name not in places:
            return a
        base = places[a.name]
        return Pointer(base.name, base.offset + a.offset)

    return dataclasses.replace(launch, arguments=tuple(map(place, launch.arguments)))


@dataclasses.dataclass(frozen=True)
class Program:
    """The launches of a call, one after the other on one stream."""

    launches: tuple[Launch, ...]
    workspace_size: int = 0
