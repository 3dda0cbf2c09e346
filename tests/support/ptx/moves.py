"""Copies: between registers, from parameters, from and to memory; and integer atomics."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from .errors import Unsupported
from .operands import UNSIGNED, Decoder, Lanes, Step, dtype_of
from .parse import Instruction

HINTS = {"L1::evict_last", "L1::evict_first", "L1::evict_normal", "L1::no_allocate"}
"""What caches are told; it has no effect on values."""


def move(decoder: Decoder, instruction: Instruction) -> Step:
    """mov, also of a word into its parts and back."""
    if len(instruction.modifiers) != 1:
        raise Unsupported("only a type")
    dtype = dtype_of(instruction.modifiers[0])
    target, source = instruction.operands
    if target.startswith("{"):
        return _take_apart(decoder, _listed(target), source, 8 * dtype.itemsize)
    if source.startswith("{"):
        return _put_together(decoder, target, _listed(source), 8 * dtype.itemsize)
    write, read = decoder.write(target, dtype), decoder.read(source, dtype)
    return lambda lanes: write(lanes, read(lanes).copy())


def _listed(operand: str) -> list[str]:
    return [name.strip() for name in operand.strip("{} ").split(",")]


def _take_apart(decoder: Decoder, targets: list[str], source: str, bits: int) -> Step:
    part, whole = UNSIGNED[bits // len(targets)], UNSIGNED[bits]
    writes = [decoder.write(name, part) for name in targets]
    read = decoder.read(source, whole)
    shifts = [whole.type(bits // len(targets) * k) for k in range(len(targets))]

    def step(lanes: Lanes) -> None:
        values = read(lanes)
        for write, by in zip(writes, shifts, strict=True):
            write(lanes, (values >> by).astype(part))

    return step


def _put_together(decoder: Decoder, target: str, sources: list[str], bits: int) -> Step:
    part, whole = UNSIGNED[bits // len(sources)], UNSIGNED[bits]
    write = decoder.write(target, whole)
    reads = [decoder.read(name, part) for name in sources]
    shifts = [whole.type(bits // len(sources) * k) for k in range(len(sources))]

    def step(lanes: Lanes) -> None:
        result = reads[0](lanes).astype(whole)
        for read, by in zip(reads[1:], shifts[1:], strict=True):
            result = result | read(lanes).astype(whole) << by
        write(lanes, result)

    return step


# Memory --------------------------------------------------------------------------------------


def _space(instruction: Instruction) -> tuple[str, int, str]:
    """Where a load or store goes, how many words it moves, and their type."""
    space, *options, kind = instruction.modifiers
    count = 1
    for option in options:
        if option in ("v2", "v4"):
            count = int(option[1:])
        elif option not in HINTS:
            raise Unsupported(f"the modifier {option}")
    return space.removesuffix("::cta"), count, kind


def bytes_of(instruction: Instruction) -> int:
    """What a load or a store moves from or to global memory, for one thread; else 0."""
    if instruction.name not in ("ld", "st"):
        return 0
    space, count, kind = _space(instruction)
    return count * dtype_of(kind).itemsize if space == "global" else 0


def load(decoder: Decoder, instruction: Instruction) -> Step:
    """ld: of a parameter, of global or of shared memory."""
    space, count, kind = _space(instruction)
    dtype = dtype_of(kind)
    target, source = instruction.operands
    targets = _listed(target)
    if len(targets) != count:
        raise Unsupported(f"{len(targets)} registers for {count} words")
    if space == "param":
        return _load_parameter(decoder, target, source.strip("[] "), kind)
    writes = [decoder.write_any_width(name, dtype) for name in targets]
    address, width = decoder.address(source), dtype.itemsize
    if space not in ("global", "shared"):
        raise Unsupported(f"the space {space}")

    def step(lanes: Lanes) -> None:
        at = address(lanes)
        if space == "global":
            loaded = lanes.memory.load(at, width, count)
        else:
            loaded = lanes.shared.load(lanes.each(at), lanes.of_these(lanes.program), width, count)
        for write, values in zip(writes, loaded, strict=True):
            write(lanes, values.view(dtype))

    return step


def _load_parameter(decoder: Decoder, target: str, name: str, kind: str) -> Step:
    declared = {p.name: p.kind for p in decoder.module.parameters}
    if name not in declared or declared[name][1:] != kind[1:]:
        raise Unsupported(f"the parameter {name} as {kind}")
    dtype, bits = dtype_of(kind), UNSIGNED[int(kind[1:])]
    write = decoder.write_any_width(target, dtype)
    return lambda lanes: write(lanes, np.array([lanes.parameters[name]], bits).view(dtype))


def store(decoder: Decoder, instruction: Instruction) -> Step:
    """st: to global or to shared memory."""
    space, count, kind = _space(instruction)
    dtype = UNSIGNED[8 * dtype_of(kind).itemsize]
    target, source = instruction.operands
    reads = [decoder.read_any_width(name, dtype) for name in _listed(source)]
    if len(reads) != count or space not in ("global", "shared"):
        raise Unsupported(f"{len(reads)} registers for {count} words to {space}")
    address = decoder.address(target)

    def step(lanes: Lanes) -> None:
        at = lanes.each(address(lanes))
        values = [lanes.each(read(lanes)) for read in reads]
        if space == "global":
            lanes.memory.store(at, values)
        else:
            lanes.shared.store(at, lanes.of_these(lanes.program), values)

    return step


# Atomics -------------------------------------------------------------------------------------

ATOMIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "exch": lambda old, new: new,
}
ATOMIC_OPTIONS = {"gpu", "relaxed", "acq_rel", "acquire", "release"}


def atomic(decoder: Decoder, instruction: Instruction) -> Step:
    """atom and red on global memory, of integers only: their order changes no result.

    (The order of the lanes is the one here; a kernel whose outcome depends on it is wrong.)
    """
    space, *options, word, kind = instruction.modifiers
    integer = kind[0] in "us" or (kind[0] == "b" and word in ("and", "or", "xor", "exch"))
    if space != "global" or set(options) - ATOMIC_OPTIONS or word not in ATOMIC or not integer:
        raise Unsupported("only integer atomics on global memory")
    dtype = dtype_of(kind)
    *targets, location, source = instruction.operands
    write = decoder.write(targets[0] if targets else "_", dtype)
    address, read = decoder.address(location), decoder.read(source, dtype)
    function, signed, bits = ATOMIC[word], kind[0] == "s", 8 * dtype.itemsize

    def number(word: int) -> int:
        return word - (1 << bits) if signed and word >> (bits - 1) else word

    def step(lanes: Lanes) -> None:
        before = np.empty(lanes.count, UNSIGNED[bits])
        pairs = zip(lanes.each(address(lanes)), lanes.each(read(lanes)), strict=True)
        for lane, (at, operand) in enumerate(pairs):
            given = int(operand)
            before[lane] = lanes.memory.update(
                int(at), dtype.itemsize, lambda old, given=given: function(number(old), given)
            )
        write(lanes, before.view(dtype))

    return step
