"""Comparisons and selections."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .errors import Unsupported
from .operands import PREDICATE, Array, Decoder, Lanes, Read, Step, Write, dtype_of
from .parse import Instruction

COMPARE: dict[str, Callable[..., Array]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


def compare(decoder: Decoder, instruction: Instruction) -> Step:
    """setp. Of floats .ltu and so on are true where one is NaN, .lt and so on are false."""
    if len(instruction.modifiers) != 2:
        raise Unsupported("only a comparison and a type")
    word, kind = instruction.modifiers
    dtype = dtype_of(kind)
    if dtype.itemsize < 2:
        raise Unsupported(f"comparisons of {kind}")
    target, *sources = instruction.operands
    write = decoder.write(target, PREDICATE)
    first, second = (decoder.read(s, dtype) for s in sources)
    if dtype.kind == "f":
        return _compare_floats(word, write, first, second)
    if word not in COMPARE or (kind.startswith("b") and word not in ("eq", "ne")):
        raise Unsupported(f"the comparison {word} of {kind}")
    function = COMPARE[word]
    return lambda lanes: write(lanes, function(first(lanes), second(lanes)))


def _compare_floats(word: str, write: Write, first: Read, second: Read) -> Step:
    def unordered(a: Array, b: Array) -> Array:
        return (a != a) | (b != b)

    plain = word.removesuffix("u")
    if word in ("num", "nan"):
        wanted = word == "nan"
        return lambda lanes: write(lanes, unordered(first(lanes), second(lanes)) == wanted)
    if plain not in COMPARE:
        raise Unsupported(f"the comparison {word}")
    function = COMPARE[plain]
    if (plain == word and plain != "ne") or word == "neu":  # as NumPy has it
        return lambda lanes: write(lanes, function(first(lanes), second(lanes)))

    def step(lanes: Lanes) -> None:
        a, b = first(lanes), second(lanes)
        nan = unordered(a, b)
        write(lanes, function(a, b) | nan if plain != word else function(a, b) & ~nan)

    return step


def select(decoder: Decoder, instruction: Instruction) -> Step:
    """selp: the first where the predicate is true, else the second."""
    if len(instruction.modifiers) != 1:
        raise Unsupported("only a type")
    dtype = dtype_of(instruction.modifiers[0])
    target, first, second, predicate = instruction.operands
    write = decoder.write(target, dtype)
    yes, no = decoder.read(first, dtype), decoder.read(second, dtype)
    chosen = decoder.read(predicate, PREDICATE)
    return lambda lanes: write(lanes, np.where(chosen(lanes), yes(lanes), no(lanes)))
