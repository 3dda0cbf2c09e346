"""Types, registers and immediate values, and how an instruction is turned into a step.

A step is a function of the lanes that take it. It is made once, when the module is read: names are
looked up and widths compared there, so that executing it is a few calls of NumPy. A register that
has the same value in all lanes is kept as an array of one element.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .errors import Unsupported, Unwritten
from .memory import Memory, Shared
from .parse import SHARED_SYMBOL, Instruction, Module

Array: TypeAlias = np.ndarray[Any, Any]
DType: TypeAlias = np.dtype[Any]

UNSIGNED: dict[int, DType] = {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
SIGNED: dict[int, DType] = {bits: np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)}
FLOAT: dict[int, DType] = {bits: np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)}
PREDICATE: DType = np.dtype(bool)
ADDRESS: DType = np.dtype("i8")
KINDS = {"b": UNSIGNED, "u": UNSIGNED, "s": SIGNED, "f": FLOAT}
POISON = 0xCD
"""Every byte of a register or of shared memory that was not written."""

WARP = 32
SPECIAL = {
    "%tid.x": "thread",
    "%ctaid.x": "x",
    "%ctaid.y": "y",
    "%ctaid.z": "z",
    "%nctaid.x": "grid_x",
    "%nctaid.y": "grid_y",
    "%nctaid.z": "grid_z",
    "%laneid": "lane",
}


class Lanes:
    """The threads that take a step, and all that they can reach."""

    def __init__(self, slots: int, total: int) -> None:
        self.file: list[Array | None] = [None] * slots
        self.total = total
        self.count = total
        self.index: Array | None = None
        """Which lanes are meant, ascending; None if all."""
        self.special: dict[str, Array] = {}
        self.parameters: dict[str, int] = {}
        self.memory: Memory
        self.shared: Shared
        self.program: Array
        """Of each lane, for its shared memory."""

    def choose(self, index: Array | None) -> None:
        self.index = index
        self.count = self.total if index is None else len(index)

    def each(self, values: Array) -> Array:
        """One value per lane, where it was one for all."""
        return values if values.size == self.count else np.broadcast_to(values, self.count)

    def of_these(self, values: Array) -> Array:
        """What an array over all lanes holds for these."""
        return values if self.index is None else values[self.index]


Read: TypeAlias = Callable[[Lanes], Array]
Write: TypeAlias = Callable[[Lanes, Array], None]
Step: TypeAlias = Callable[[Lanes], None]


def dtype_of(kind: str) -> DType:
    """The type of a modifier such as "f32"."""
    if kind == "pred":
        return PREDICATE
    match = re.fullmatch(r"([busf])(\d+)", kind)
    if match is None or int(match[2]) not in KINDS[match[1]]:
        raise Unsupported(f"the type {kind}")
    return KINDS[match[1]][int(match[2])]


class Decoder:
    """Turns operands of a module into functions."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.slots: dict[str, int] = {}

    # Registers -------------------------------------------------------------------------------

    def is_register(self, name: str) -> bool:
        return self._declared(name) is not None

    def _declared(self, name: str) -> str | None:
        own = self.module.registers.get(name)
        family = re.match(r"(%[A-Za-z]+)\d+$", name)
        return own or (self.module.registers.get(family[1]) if family else None)

    def dtype(self, name: str) -> DType:
        """The unsigned type as wide as a register."""
        declared = self._declared(name)
        if declared is None:
            raise Unsupported(f"{name} is not declared")
        return PREDICATE if declared == "pred" else UNSIGNED[int(declared[1:])]

    def _slot(self, name: str) -> int:
        return self.slots.setdefault(name, len(self.slots))

    # Operands --------------------------------------------------------------------------------

    def read(self, operand: str, dtype: DType) -> Read:
        """An operand as an array of a type of its own width: bits are reinterpreted."""
        if self.is_register(operand):
            if self.dtype(operand).itemsize != dtype.itemsize or (
                (self.dtype(operand) == PREDICATE) != (dtype == PREDICATE)
            ):
                raise Unsupported(f"{operand} as {dtype}")
            return _register_reader(self._slot(operand), operand, dtype)
        if operand in SPECIAL:
            return _special_reader(SPECIAL[operand], dtype)
        value = immediate(operand, dtype)
        return lambda lanes: value

    def read_any_width(self, operand: str, dtype: DType) -> Read:
        """The same, of the low bits of a register that may be wider: for st and cvt."""
        if not self.is_register(operand) or self.dtype(operand).itemsize == dtype.itemsize:
            return self.read(operand, dtype)
        if self.dtype(operand).itemsize < dtype.itemsize or dtype.kind not in "ui":
            raise Unsupported(f"{operand} as {dtype}")
        wide = self.read(operand, self.dtype(operand))
        return lambda lanes: wide(lanes).astype(dtype)

    def write(self, operand: str, dtype: DType) -> Write:
        """Takes a new array, which the register keeps."""
        if operand == "_":
            return lambda lanes, values: None
        if self.dtype(operand).itemsize != dtype.itemsize:
            raise Unsupported(f"{dtype} into {operand}")
        return _register_writer(self._slot(operand), self.dtype(operand))

    def write_any_width(self, operand: str, dtype: DType) -> Write:
        """The same into a register that may be wider, by sign or by zeros: for ld and cvt."""
        if operand == "_" or self.dtype(operand).itemsize == dtype.itemsize:
            return self.write(operand, dtype)
        if self.dtype(operand).itemsize < dtype.itemsize or dtype.kind not in "ui":
            raise Unsupported(f"{dtype} into {operand}")
        bits = 8 * self.dtype(operand).itemsize
        wider = (SIGNED if dtype.kind == "i" else UNSIGNED)[bits]
        write = self.write(operand, wider)
        return lambda lanes, values: write(lanes, values.astype(wider))

    def address(self, operand: str) -> Read:
        """[register + offset], as signed 64-bit numbers."""
        match = re.fullmatch(r"\[\s*([%\w@]+)\s*(?:\+\s*(-?\w+))?\s*\]", operand)
        if match is None:
            raise Unsupported(f"the address {operand}")
        offset = np.array([int(match[2] or "0", 0)], ADDRESS)
        if match[1] == SHARED_SYMBOL:
            return lambda lanes: offset
        base = self.read(match[1], self.dtype(match[1]))
        if not offset[0]:
            return lambda lanes: base(lanes).astype(ADDRESS)
        return lambda lanes: base(lanes).astype(ADDRESS) + offset

    def typed(self, instruction: Instruction, dtype: DType, count: int) -> tuple[Write, list[Read]]:
        """The operands of "opcode d, a, b, ..", all of one type."""
        if len(instruction.operands) != count + 1:
            raise Unsupported(f"{len(instruction.operands)} operands")
        target, *sources = instruction.operands
        return self.write(target, dtype), [self.read(s, dtype) for s in sources]


def immediate(operand: str, dtype: DType) -> Array:
    """0f and 0d are bits of floats; a plain number is cut to the width."""
    bits = 8 * dtype.itemsize
    if dtype == PREDICATE:
        if operand not in ("0", "1", "-1"):
            raise Unsupported(f"the predicate {operand}")
        return np.array([operand != "0"])
    if re.fullmatch(r"0[fd][0-9a-fA-F]+", operand):
        digits = operand[2:]
        if len(digits) != 2 * dtype.itemsize:
            raise Unsupported(f"{operand} as {dtype}")
        return np.array([int(digits, 16)], UNSIGNED[bits]).view(dtype)
    if operand == SHARED_SYMBOL:
        return np.zeros(1, dtype)
    try:
        number = int(operand, 0)
    except ValueError:
        raise Unsupported(f"the operand {operand}") from None
    if dtype.kind == "f":
        raise Unsupported(f"the number {operand} as {dtype}")
    return np.array([number & ((1 << bits) - 1)], UNSIGNED[bits]).view(dtype)


def _register_reader(slot: int, name: str, dtype: DType) -> Read:
    def read(lanes: Lanes) -> Array:
        values = lanes.file[slot]
        if values is None:
            raise Unwritten(name)
        if lanes.index is not None and values.size > 1:
            values = values[lanes.index]
        return values if values.dtype is dtype else values.view(dtype)

    return read


def _register_writer(slot: int, dtype: DType) -> Write:
    def write(lanes: Lanes, values: Array) -> None:
        if lanes.index is None:
            lanes.file[slot] = values
            return
        old = lanes.file[slot]
        if old is None:
            old = np.full(lanes.total * dtype.itemsize, POISON, np.uint8).view(dtype)
        elif old.size == 1:
            old = np.repeat(old, lanes.total)
        lanes.file[slot] = old
        old[lanes.index] = values.view(old.dtype)

    return write


def _special_reader(name: str, dtype: DType) -> Read:
    def read(lanes: Lanes) -> Array:
        values = lanes.special[name]
        if lanes.index is not None and values.size > 1:
            values = values[lanes.index]
        return values.view(dtype)

    return read
