"""Floating-point arithmetic and conversions: IEEE, rounded to nearest even, or refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .errors import Unsupported
from .operands import FLOAT, UNSIGNED, Array, Decoder, DType, Lanes, Step, dtype_of
from .parse import Instruction

NAN = {16: 0x7FFF, 32: 0x7FFFFFFF, 64: 0xFFF8000000000000}
"""The NaN that NVIDIA's arithmetic gives: not the contract's, so that forgetting that one shows."""


def made_nan(values: Array) -> Array:
    """NaNs of a new array as arithmetic gives them."""
    nan = values != values
    if np.count_nonzero(nan):
        bits = 8 * values.dtype.itemsize
        values.view(UNSIGNED[bits])[nan] = NAN[bits]
    return values


ROUNDED: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
}


def rounded(decoder: Decoder, instruction: Instruction) -> Step:
    """add, sub, mul, div: only with .rn, which also forbids ptxas to contract them."""
    if instruction.modifiers not in (("rn", "f32"), ("rn", "f64")):
        raise Unsupported("not rounded to nearest even as f32 or f64")
    function = ROUNDED[instruction.name]
    write, (first, second) = decoder.typed(instruction, dtype_of(instruction.modifiers[-1]), 2)
    return lambda lanes: write(lanes, made_nan(function(first(lanes), second(lanes))))


def sign(decoder: Decoder, instruction: Instruction) -> Step:
    """neg, abs: exact. PTX leaves open which NaN comes out: here one that arithmetic makes."""
    if instruction.modifiers not in (("f32",), ("f64",)):
        raise Unsupported("only plain f32 and f64")
    dtype = dtype_of(instruction.modifiers[0])
    write, (read,) = decoder.typed(instruction, dtype, 1)
    function = np.negative if instruction.name == "neg" else np.abs
    return lambda lanes: write(lanes, made_nan(function(read(lanes))))


def extreme(decoder: Decoder, instruction: Instruction) -> Step:
    """min, max: a NaN loses, or wins with .NaN; -0 is less than +0."""
    *options, kind = instruction.modifiers
    if options not in ([], ["NaN"]) or kind not in ("f32", "f64"):
        raise Unsupported("only f32 and f64, plain or with .NaN")
    dtype = dtype_of(kind)
    write, (first, second) = decoder.typed(instruction, dtype, 2)
    propagate, least = bool(options), instruction.name == "min"
    bits = UNSIGNED[8 * dtype.itemsize]

    def step(lanes: Lanes) -> None:
        a, b = np.broadcast_arrays(first(lanes), second(lanes))
        result = np.where((a < b) == least, a, b)
        tie = a == b
        if tie.any():  # zeros of two signs; other equal numbers have equal bits
            together = np.bitwise_or if least else np.bitwise_and
            same = together(a[tie].view(bits), b[tie].view(bits))
            result[tie] = same.view(dtype)
        for nan, other in ((a != a, b), (b != b, a)):
            if nan.any():
                result[nan] = np.nan if propagate else other[nan]
        write(lanes, made_nan(result))

    return step


def copysign(decoder: Decoder, instruction: Instruction) -> Step:
    """The sign of the first with the magnitude of the second."""
    if instruction.modifiers not in (("f32",), ("f64",)):
        raise Unsupported("only f32 and f64")
    write, (first, second) = decoder.typed(instruction, dtype_of(instruction.modifiers[0]), 2)
    return lambda lanes: write(lanes, np.copysign(second(lanes), first(lanes)))


# Conversions ---------------------------------------------------------------------------------


def convert(decoder: Decoder, instruction: Instruction) -> Step:
    """cvt: between integers by cutting or extending; from and to floats as said below."""
    *options, to_kind, from_kind = instruction.modifiers
    target, source = instruction.operands
    to, from_ = dtype_of(to_kind), dtype_of(from_kind)
    read = decoder.read_any_width(source, from_)
    write = decoder.write_any_width(target, to)
    if to.kind == "f" and from_.kind == "f":
        narrows = to.itemsize < from_.itemsize
        if options != (["rn"] if narrows else []) or to == from_:
            raise Unsupported("only to nearest even, or exact")
        return lambda lanes: write(lanes, made_nan(read(lanes).astype(to)))
    if to.kind == "f":
        if options != ["rn"] or to == FLOAT[16]:
            raise Unsupported("only to nearest even, to f32 or f64")
        return lambda lanes: write(lanes, read(lanes).astype(to))
    if from_.kind == "f":
        if options != ["rzi"]:
            raise Unsupported("only towards zero")
        return lambda lanes: write(lanes, truncated(read(lanes), to))
    if options:
        raise Unsupported("only plain")
    return lambda lanes: write(lanes, read(lanes).astype(to))


def truncated(values: Array, to: DType) -> Array:
    """Towards zero; what does not fit becomes the nearest that does, and NaN becomes 0."""
    limits = np.iinfo(to)
    whole = np.trunc(values)
    # The largest number may not be a float: the next power of two is.
    beyond = whole >= 2.0 ** (8 * to.itemsize - (to.kind == "i"))
    below = whole < float(limits.min)
    inside = np.where(beyond | below | (whole != whole), whole.dtype.type(0), whole).astype(to)
    inside[beyond] = limits.max
    inside[below] = limits.min
    return inside


def is_float(instruction: Instruction) -> bool:
    return instruction.modifiers[-1][:1] == "f"
