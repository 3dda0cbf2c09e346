"""What the threads of a warp do together: all 32 of them, or it is an error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .errors import Divergent, Unsupported
from .operands import PREDICATE, SIGNED, UNSIGNED, WARP, Array, Decoder, Lanes, Step, dtype_of
from .parse import Instruction

U32 = UNSIGNED[32]
LANE = np.arange(WARP)
EVERYBODY = np.array([0xFFFFFFFF], U32)


def together(lanes: Lanes, values: Array, members: Array) -> Array:
    """One row for each warp. All threads have to be there, and to be named as members."""
    if np.count_nonzero(members != np.uint32(0xFFFFFFFF)):
        raise Divergent("a part of a warp as members")
    if lanes.index is not None:
        rows = lanes.index.reshape(-1, WARP) if lanes.count % WARP == 0 else None
        if rows is None or (rows[:, 0] % WARP).any() or (rows[:, -1] - rows[:, 0] != 31).any():
            raise Divergent("a part of a warp")
    return lanes.each(values).reshape(-1, WARP)


def shuffle(decoder: Decoder, instruction: Instruction) -> Step:
    """shfl.sync: the value of another lane, or the own one if that is outside of the segment."""
    if len(instruction.modifiers) != 3 or instruction.modifiers[::2] != ("sync", "b32"):
        raise Unsupported("only .sync with .b32")
    mode = instruction.modifiers[1]
    target, source, amount, limits, members = instruction.operands
    name, _, found = target.partition("|")
    write, read = decoder.write(name, U32), decoder.read(source, U32)
    write_found = decoder.write(found, PREDICATE) if found else None
    by, clamp = decoder.read(amount, SIGNED[32]), decoder.read(limits, SIGNED[32])
    member = decoder.read(members, U32)
    if mode not in ("idx", "bfly", "up", "down"):
        raise Unsupported(f"the mode {mode}")

    def step(lanes: Lanes) -> None:
        values = together(lanes, read(lanes), member(lanes))
        b, c = (_per_warp(lanes, x(lanes)) & 31 for x in (by, clamp))
        segment = _per_warp(lanes, clamp(lanes)) >> 8 & 31
        most = (LANE & segment) | (c & ~segment)
        if mode == "idx":
            chosen = (LANE & segment) | (b & ~segment)
        else:
            chosen = LANE ^ b if mode == "bfly" else LANE - b if mode == "up" else LANE + b
        inside = chosen >= most if mode == "up" else chosen <= most
        chosen = np.where(inside, chosen, LANE)
        rows = np.arange(len(values))[:, None]
        write(lanes, values[rows, chosen].reshape(-1))
        if write_found is not None:
            write_found(lanes, np.broadcast_to(inside, values.shape).reshape(-1).copy())

    return step


def _per_warp(lanes: Lanes, values: Array) -> Array:
    """One value for all, or a row for each warp."""
    return values.astype(np.int64).reshape((1, 1) if values.size == 1 else (-1, WARP))


def vote(decoder: Decoder, instruction: Instruction) -> Step:
    """vote.sync: the predicates of a warp as a word, or whether any or all are true."""
    if instruction.modifiers not in (
        ("sync", "ballot", "b32"),
        ("sync", "any", "pred"),
        ("sync", "all", "pred"),
    ):
        raise Unsupported("only .sync.ballot.b32, .sync.any.pred and .sync.all.pred")
    mode, kind = instruction.modifiers[1:]
    target, source, members = instruction.operands
    write = decoder.write(target, dtype_of(kind))
    read, member = decoder.read(source, PREDICATE), decoder.read(members, U32)

    def step(lanes: Lanes) -> None:
        votes = together(lanes, read(lanes), member(lanes))
        if mode == "ballot":
            word = np.packbits(votes, axis=1, bitorder="little").view("<u4")[:, 0]
        else:
            word = votes.any(1) if mode == "any" else votes.all(1)
        write(lanes, np.repeat(word, WARP))

    return step


REDUCE: dict[str, Callable[..., Array]] = {
    "add": np.add.reduce,
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}


def reduce(decoder: Decoder, instruction: Instruction) -> Step:
    """redux.sync, of integers, where the order does not matter."""
    if len(instruction.modifiers) != 3 or instruction.modifiers[0] != "sync":
        raise Unsupported("only .sync")
    mode, kind = instruction.modifiers[1:]
    if mode not in REDUCE or kind not in ("s32", "u32", "b32"):
        raise Unsupported(f"{mode} of {kind}")
    dtype = dtype_of(kind)
    target, source, members = instruction.operands
    write, read = decoder.write(target, dtype), decoder.read(source, dtype)
    member, function = decoder.read(members, U32), REDUCE[mode]

    def step(lanes: Lanes) -> None:
        rows = together(lanes, read(lanes), member(lanes))
        write(lanes, np.repeat(function(rows, axis=1, dtype=dtype), WARP))

    return step


def converge(decoder: Decoder, instruction: Instruction) -> Step:
    """bar.warp.sync: nothing to do where all threads are there."""
    if instruction.modifiers != ("warp", "sync"):
        raise Unsupported("only .warp.sync")
    member = decoder.read(instruction.operands[0], U32)
    nothing = np.zeros(1, U32)

    def step(lanes: Lanes) -> None:
        together(lanes, nothing, member(lanes))

    return step


def load_matrices(decoder: Decoder, instruction: Instruction) -> Step:
    """ldmatrix: 8 rows of 16 bytes each per matrix; lane 8 i + r has the address of row r of the
    i-th, and lane l gets two neighbours of row l / 4 of each, or of column l / 4 with .trans.
    """
    plain = [m for m in instruction.modifiers if m != "trans"]
    if plain[:3] + plain[4:] != ["sync", "aligned", "m8n8", "shared", "b16"]:
        raise Unsupported("only .sync.aligned.m8n8 of .shared.b16")
    number = {"x1": 1, "x2": 2, "x4": 4}[plain[3]]
    trans = "trans" in instruction.modifiers
    target, source = instruction.operands
    writes = [decoder.write(name.strip(), U32) for name in target.strip("{} ").split(",")]
    address = decoder.address(source)
    if len(writes) != number:
        raise Unsupported(f"{len(writes)} registers for {number} matrices")
    row, column = LANE // 4, LANE % 4 * 2

    def step(lanes: Lanes) -> None:
        at = together(lanes, address(lanes), EVERYBODY)[:, : 8 * number]
        program = lanes.of_these(lanes.program).reshape(-1, WARP)[:, : 8 * number]
        words = lanes.shared.load(at.reshape(-1), program.reshape(-1), 2, 8)
        matrices = np.stack(words, 1).reshape(-1, number, 8, 8).astype(U32)
        if trans:
            matrices = matrices.swapaxes(2, 3)
        for k, write in enumerate(writes):
            low, high = (matrices[:, k, row, column + i] for i in (0, 1))
            write(lanes, (low | high << np.uint32(16)).reshape(-1))

    return step
