"""Integers and bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .errors import Unsupported
from .operands import SIGNED, UNSIGNED, Array, Decoder, DType, Lanes, Step, dtype_of
from .parse import Instruction

U32 = UNSIGNED[32]


def _kinds(instruction: Instruction, *allowed: str) -> DType:
    """The type of an opcode that has nothing but it."""
    if len(instruction.modifiers) != 1 or instruction.modifiers[0] not in allowed:
        raise Unsupported(f"only {', '.join(allowed)}")
    return dtype_of(instruction.modifiers[0])


ANY_INTEGER = ("u16", "s16", "u32", "s32", "u64", "s64")
ANY_BITS = ("b16", "b32", "b64")


def _divide(a: Array, b: Array) -> Array:
    """Towards zero. A division by zero is all ones, which nobody may rely on."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    quotient = a // safe
    quotient += ((a % safe) != 0) & ((a < 0) != (safe < 0))
    quotient[np.broadcast_to(zero, quotient.shape)] = ~b.dtype.type(0)
    return quotient


def _remainder(a: Array, b: Array) -> Array:
    """With the sign of the dividend."""
    zero = b == 0
    rest = np.fmod(a, np.where(zero, b.dtype.type(1), b))
    rest[np.broadcast_to(zero, rest.shape)] = ~b.dtype.type(0)
    return rest


BINARY: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "div": _divide,
    "rem": _remainder,
    "min": np.minimum,
    "max": np.maximum,
}


def binary(decoder: Decoder, instruction: Instruction) -> Step:
    """add, sub, div, rem, min, max; sums wrap around."""
    write, (first, second) = decoder.typed(instruction, _kinds(instruction, *ANY_INTEGER), 2)
    function = BINARY[instruction.name]
    return lambda lanes: write(lanes, function(first(lanes), second(lanes)))


def sign(decoder: Decoder, instruction: Instruction) -> Step:
    """neg, abs; of the least number they are itself."""
    write, (read,) = decoder.typed(instruction, _kinds(instruction, "s16", "s32", "s64"), 1)
    function = np.negative if instruction.name == "neg" else np.abs
    return lambda lanes: write(lanes, function(read(lanes)))


def multiply(decoder: Decoder, instruction: Instruction) -> Step:
    """mul and mad: the low half, the high half (mul only), or all of the product."""
    if len(instruction.modifiers) != 2 or instruction.modifiers[1] not in ANY_INTEGER:
        raise Unsupported("only .lo, .hi and .wide of integers")
    part, kind = instruction.modifiers
    dtype = dtype_of(kind)
    target, *sources = instruction.operands
    first, second = (decoder.read(s, dtype) for s in sources[:2])
    adds = instruction.name == "mad"
    if len(sources) != (3 if adds else 2):
        raise Unsupported(f"{len(sources)} operands")
    if part == "hi" and not adds:
        write = decoder.write(target, dtype)
        return lambda lanes: write(lanes, high_half(first(lanes), second(lanes)))
    if part == "wide" and dtype.itemsize < 8:
        wide = (SIGNED if dtype.kind == "i" else UNSIGNED)[16 * dtype.itemsize]
    elif part == "lo":
        wide = dtype
    else:
        raise Unsupported("only .lo, .hi and .wide")
    write = decoder.write(target, wide)
    if not adds:
        return lambda lanes: write(lanes, np.multiply(first(lanes), second(lanes), dtype=wide))
    third = decoder.read(sources[2], wide)
    return lambda lanes: write(
        lanes, np.multiply(first(lanes), second(lanes), dtype=wide) + third(lanes)
    )


def high_half(a: Array, b: Array) -> Array:
    """The upper half of the exact product."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = (SIGNED if a.dtype.kind == "i" else UNSIGNED)[2 * bits]
        return (a.astype(wide) * b.astype(wide) >> wide.type(bits)).astype(a.dtype)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x, y = a.view(UNSIGNED[64]), b.view(UNSIGNED[64])
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = x0 * y1 + (middle & low)
    top = x1 * y1 + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        top = top - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return top.view(a.dtype)


# Bits ----------------------------------------------------------------------------------------

LOGIC: dict[str, Callable[..., Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def logic(decoder: Decoder, instruction: Instruction) -> Step:
    """and, or, xor."""
    write, (first, second) = decoder.typed(instruction, _kinds(instruction, "pred", *ANY_BITS), 2)
    function = LOGIC[instruction.name]
    return lambda lanes: write(lanes, function(first(lanes), second(lanes)))


def invert(decoder: Decoder, instruction: Instruction) -> Step:
    """not."""
    write, (read,) = decoder.typed(instruction, _kinds(instruction, "pred", *ANY_BITS), 1)
    return lambda lanes: write(lanes, np.invert(read(lanes)))


def shift(decoder: Decoder, instruction: Instruction) -> Step:
    """shl, shr; by the width or more gives zeros, or copies of the sign."""
    dtype = _kinds(instruction, *ANY_BITS, *(() if instruction.name == "shl" else ANY_INTEGER))
    target, source, amount = instruction.operands
    write, read = decoder.write(target, dtype), decoder.read(source, dtype)
    by = decoder.read(amount, U32)
    most = np.uint32(8 * dtype.itemsize - 1)
    function = np.left_shift if instruction.name == "shl" else np.right_shift

    def step(lanes: Lanes) -> None:
        count = by(lanes)
        values = function(read(lanes), np.minimum(count, most).astype(dtype))
        if dtype.kind == "u":
            beyond = count > most
            if np.count_nonzero(beyond):
                values = np.where(beyond, dtype.type(0), values)
        write(lanes, values)

    return step


def funnel_shift(decoder: Decoder, instruction: Instruction) -> Step:
    """shf.l and shf.r: 32 bits of two words side by side."""
    if instruction.modifiers not in (("l", "wrap", "b32"), ("r", "wrap", "b32")):
        raise Unsupported("only .wrap.b32")
    write, (low, high, amount) = decoder.typed(instruction, U32, 3)
    left = instruction.modifiers[0] == "l"

    def step(lanes: Lanes) -> None:
        both = high(lanes).astype("u8") << np.uint64(32) | low(lanes)
        by = (amount(lanes) & np.uint32(31)).astype("u8")
        by = np.uint64(32) - by if left else by
        write(lanes, (both >> by).astype(U32))

    return step


def extract(decoder: Decoder, instruction: Instruction) -> Step:
    """bfe: a field of bits, extended by zeros or by its own sign."""
    dtype = _kinds(instruction, "u32", "s32", "u64", "s64")
    target, source, position, length = instruction.operands
    write, read = decoder.write(target, dtype), decoder.read(source, dtype)
    first, count = decoder.read(position, U32), decoder.read(length, U32)
    width = 8 * dtype.itemsize

    def step(lanes: Lanes) -> None:
        p = (first(lanes) & np.uint32(255)).astype("i8")
        n = (count(lanes) & np.uint32(255)).astype("i8")
        if (p + n > width).any() or (n == 0).any():
            raise Unsupported("a field that is empty or longer than the word")
        up, down = (width - p - n).astype(dtype), (width - n).astype(dtype)
        write(lanes, np.right_shift(np.left_shift(read(lanes), up), down))

    return step


def insert(decoder: Decoder, instruction: Instruction) -> Step:
    """bfi: the low bits of the first operand into a field of the second."""
    dtype = _kinds(instruction, "b32", "b64")
    target, source, other, position, length = instruction.operands
    write = decoder.write(target, dtype)
    read, base = decoder.read(source, dtype), decoder.read(other, dtype)
    first, count = decoder.read(position, U32), decoder.read(length, U32)
    width = 8 * dtype.itemsize

    def step(lanes: Lanes) -> None:
        p, n = (x(lanes).astype("i8") for x in (first, count))
        if (p + n >= width).any():
            raise Unsupported("a field up to the end of the word")
        mask = (np.left_shift(dtype.type(1), n.astype(dtype)) - dtype.type(1)) << p.astype(dtype)
        write(lanes, (base(lanes) & ~mask) | ((read(lanes) << p.astype(dtype)) & mask))

    return step


def count_ones(decoder: Decoder, instruction: Instruction) -> Step:
    """popc."""
    dtype = _kinds(instruction, "b32", "b64")
    target, source = instruction.operands
    write, read = decoder.write(target, U32), decoder.read(source, dtype)
    return lambda lanes: write(lanes, ones(read(lanes)))


def ones(values: Array) -> Array:
    """How many bits are set. (NumPy has a function of its own from 2.0 on.)"""
    octets = values.view(np.uint8).reshape(-1, values.dtype.itemsize)
    return _ONES[octets].sum(1, dtype=np.uint32)


_ONES = np.array([bin(octet).count("1") for octet in range(256)], np.uint8)


def leading_zeros(decoder: Decoder, instruction: Instruction) -> Step:
    """clz."""
    dtype = _kinds(instruction, "b32", "b64")
    target, source = instruction.operands
    write, read = decoder.write(target, U32), decoder.read(source, dtype)
    width = 8 * dtype.itemsize

    def step(lanes: Lanes) -> None:
        values = read(lanes).copy()
        for by in (1, 2, 4, 8, 16, 32)[: width.bit_length() - 1]:
            values |= values >> dtype.type(by)
        write(lanes, np.uint32(width) - ones(values))

    return step


def reverse_bits(decoder: Decoder, instruction: Instruction) -> Step:
    """brev."""
    dtype = _kinds(instruction, "b32", "b64")
    write, (read,) = decoder.typed(instruction, dtype, 1)

    def step(lanes: Lanes) -> None:
        octets = np.ascontiguousarray(read(lanes)).view(np.uint8).reshape(-1, dtype.itemsize)
        write(lanes, np.ascontiguousarray(_REVERSED[octets][:, ::-1]).view(dtype)[:, 0])

    return step


_REVERSED = np.array([int(f"{octet:08b}"[::-1], 2) for octet in range(256)], np.uint8)


def permute(decoder: Decoder, instruction: Instruction) -> Step:
    """prmt: four bytes out of eight, each by four bits of the last operand."""
    if instruction.modifiers != ("b32",):
        raise Unsupported("only .b32")
    write, (low, high, selector) = decoder.typed(instruction, U32, 3)

    def step(lanes: Lanes) -> None:
        both = high(lanes).astype("u8") << np.uint64(32) | low(lanes)
        chosen = selector(lanes).astype("u8")
        result: Array = np.zeros(1, "u8")
        for octet in range(4):
            choice = chosen >> np.uint64(4 * octet)
            byte = both >> np.uint64(8) * (choice & np.uint64(7)) & np.uint64(255)
            copies = np.where(byte > 127, np.uint64(255), np.uint64(0))
            byte = np.where(choice & np.uint64(8) != 0, copies, byte)
            result = result | byte << np.uint64(8 * octet)
        write(lanes, result.astype(U32))

    return step


def table(decoder: Decoder, instruction: Instruction) -> Step:
    """lop3: any function of three bits, as a table of eight."""
    if instruction.modifiers != ("b32",):
        raise Unsupported("only .b32")
    target, *sources, entries = instruction.operands
    write = decoder.write(target, U32)
    reads = [decoder.read(s, U32) for s in sources]
    lookup = int(entries, 0)

    def step(lanes: Lanes) -> None:
        a, b, c = (read(lanes) for read in reads)
        result: Array = np.zeros(1, U32)
        for row in range(8):
            if lookup >> row & 1:
                term = (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
                result = result | term
        write(lanes, result)

    return step
