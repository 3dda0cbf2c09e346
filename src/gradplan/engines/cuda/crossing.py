"""Layouts and programs as they cross to csrc/cuda (program.h has the other side)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from gradplan.declaration import Operand
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
from gradplan.vocabulary import KernelError

# Places of arguments that are no tensor.
_WORKSPACE, _REPORT, _NUMBER = -1, -2, -3
_LETTERS: dict[type, str] = {Pointer: "p", I32: "i", I64: "l", F32: "f", F64: "d"}


def layouts_from(given: Sequence[Any], operands: Sequence[Operand]) -> dict[str, Layout]:
    """By tensor; one that was left out is missing."""
    return {
        operand.name: Layout(
            str(layout[0]), operand.shape, tuple(int(s) for s in layout[1]), bool(layout[2])
        )
        for operand, layout in zip(operands, given, strict=True)
        if layout is not None
    }


def describe_program(
    program: Program, operands: Sequence[Operand], kernels: Mapping[str, Binary], report: str
) -> list[Any]:
    """`report` names the words for errors, if any launch writes them. KeyError: no such kernel."""
    places = {o.name: i for i, o in enumerate(operands)} | {
        WORKSPACE: _WORKSPACE,
        ERRORS: _REPORT,
    }
    launches = [_describe_launch(each, places, kernels[each.kernel]) for each in program.launches]
    reports = any(_REPORT in places for _, _, places, _ in launches)
    return [program.workspace_size, report if reports else None, launches]


def _describe_launch(launch: Launch, places: Mapping[str, int], binary: Binary) -> list[Any]:
    given = "".join(_LETTERS[type(argument)] for argument in launch.arguments)
    if not binary.parameters.startswith(given):
        raise KernelError(f"{launch.kernel}: takes {binary.parameters}, and is given {given}")
    return [
        [
            binary.key,
            binary.entry,
            binary.ptx,
            binary.parameters,
            binary.threads,
            binary.shared,
        ],
        list(launch.grid),
        [places[a.name] if isinstance(a, Pointer) else _NUMBER for a in launch.arguments],
        [_bits(argument) for argument in launch.arguments],
    ]


def _bits(argument: Argument) -> int:
    """An offset, or the bits of a number, as a signed one of 64 bits.

    >>> _bits(F32(1.0)) == 0x3F800000, _bits(I32(-1))
    (True, -1)
    """
    if isinstance(argument, Pointer):
        return argument.offset
    if isinstance(argument, F32):
        return int(struct.unpack("<i", struct.pack("<f", argument.value))[0])
    if isinstance(argument, F64):
        return int(struct.unpack("<q", struct.pack("<d", argument.value))[0])
    return argument.value
