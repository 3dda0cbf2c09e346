"""A launch: programs in batches, threads in groups that are at one instruction.

Of the groups the one that has come least far runs next, until it is where another one waits: so
threads that a branch has parted meet again. A barrier parks its threads until nobody can go on
without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from . import choices, floats, integers, moves, warps
from .errors import Divergent, Endless, PtxError, Unsupported
from .memory import Memory, Shared
from .operands import PREDICATE, WARP, Array, Decoder, Lanes, Read, Step
from .parse import Instruction, Module, parse

Decode = Callable[[Decoder, Instruction], Step]

FLOATS: dict[str, Decode] = {
    "add": floats.rounded,
    "sub": floats.rounded,
    "mul": floats.rounded,
    "div": floats.rounded,
    "neg": floats.sign,
    "abs": floats.sign,
    "min": floats.extreme,
    "max": floats.extreme,
    "copysign": floats.copysign,
}
OTHERS: dict[str, Decode] = {
    "cvt": floats.convert,
    "add": integers.binary,
    "sub": integers.binary,
    "div": integers.binary,
    "rem": integers.binary,
    "min": integers.binary,
    "max": integers.binary,
    "neg": integers.sign,
    "abs": integers.sign,
    "mul": integers.multiply,
    "mad": integers.multiply,
    "and": integers.logic,
    "or": integers.logic,
    "xor": integers.logic,
    "not": integers.invert,
    "shl": integers.shift,
    "shr": integers.shift,
    "shf": integers.funnel_shift,
    "bfe": integers.extract,
    "bfi": integers.insert,
    "popc": integers.count_ones,
    "clz": integers.leading_zeros,
    "brev": integers.reverse_bits,
    "prmt": integers.permute,
    "lop3": integers.table,
    "setp": choices.compare,
    "selp": choices.select,
    "mov": moves.move,
    "ld": moves.load,
    "st": moves.store,
    "atom": moves.atomic,
    "red": moves.atomic,
    "shfl": warps.shuffle,
    "vote": warps.vote,
    "redux": warps.reduce,
    "ldmatrix": warps.load_matrices,
}
BARRIERS = ("bar.sync", "barrier.sync")
MOST_LANES = 1 << 15
"""As many threads run at once: more would only leave the caches."""
MOST_STEPS = 20_000_000


@dataclasses.dataclass(frozen=True)
class Action:
    """An instruction, decoded: a step, or one of branch, return and barrier."""

    instruction: Instruction
    step: Step | None
    guard: Read | None
    negated: bool
    target: int = 0
    kind: str = "step"


class Kernel:
    """PTX that has been read, ready to be launched."""

    def __init__(self, ptx: str | bytes, shared: int = 0) -> None:
        self.module: Module = parse(ptx.decode() if isinstance(ptx, bytes) else ptx)
        self.shared = shared
        self._decoder = Decoder(self.module)
        self.actions = [self._decode(i) for i in self.module.code]
        self.steps = 0
        """Instructions executed, a group of threads counted once."""
        self.thread_steps = 0
        """Instructions executed by all threads."""
        self.reached = np.zeros(len(self.actions), np.int64)
        """By instruction: how many threads came to it,"""
        self.executed = np.zeros(len(self.actions), np.int64)
        """and how many executed it, its guard being true."""

    def _decode(self, instruction: Instruction) -> Action:
        try:
            guard = instruction.guard and self._decoder.read(instruction.guard, PREDICATE)
            rest = (guard or None, instruction.negated)
            if instruction.opcode in ("bra", "bra.uni"):
                target = self.module.labels[instruction.operands[0]]
                return Action(instruction, None, *rest, target=target, kind="branch")
            if instruction.opcode == "ret":
                return Action(instruction, None, *rest, target=len(self.module.code), kind="branch")
            if instruction.opcode in BARRIERS:
                if instruction.operands != ("0",) or guard:
                    raise Unsupported("only barrier 0, for all threads")
                return Action(instruction, None, *rest, kind="barrier")
            return Action(instruction, decode(self._decoder, instruction), *rest)
        except (PtxError, ValueError, KeyError) as error:
            raise Unsupported(f"{error}: {instruction.text}") from None

    def launch(
        self,
        grid: tuple[int, int, int],
        arguments: Sequence[int],
        memory: Memory,
        *,
        warp_by_warp: bool = False,
        backwards: bool = False,
    ) -> None:
        """Arguments are the bits of parameters; those that are not given are 0.

        With `warp_by_warp`, the warps of a program run one after the other as far as barriers let
        them; with `backwards`, later programs run first. Results may not depend on either.
        """
        names = [p.name for p in self.module.parameters]
        if len(arguments) > len(names):
            raise ValueError(f"{len(arguments)} arguments for {len(names)} parameters")
        values = dict.fromkeys(names, 0) | dict(zip(names, arguments, strict=False))
        programs = grid[0] * grid[1] * grid[2]
        batch = max(MOST_LANES // self.module.threads, 1)
        starts = range(0, programs, batch)
        for first in reversed(starts) if backwards else starts:
            numbers = np.arange(first, min(first + batch, programs))
            self._run(_lanes(self, grid, numbers, values, memory), warp_by_warp)

    def _run(self, lanes: Lanes, warp_by_warp: bool) -> None:
        everyone = np.arange(lanes.total)
        crews = [everyone]
        if warp_by_warp:
            warp = lanes.special["thread"] // WARP
            crews = [everyone[warp == number] for number in range(int(warp.max()) + 1)]
        waiting: list[dict[int, list[Array]]] = [{0: [crew]} for crew in crews]
        with np.errstate(all="ignore"):
            while any(waiting):
                parked: dict[int, list[Array]] = {}
                for groups in waiting:
                    self._run_to_barriers(lanes, groups, parked)
                waiting = self._released(lanes, parked, crews)

    def _run_to_barriers(
        self, lanes: Lanes, groups: dict[int, list[Array]], parked: dict[int, list[Array]]
    ) -> None:
        end = len(self.actions)
        while groups:
            at = min(groups)
            index = _merged(groups.pop(at))
            if at == end:
                continue
            at, lanes_out = self._run_group(lanes, at, index, min(groups, default=end))
            if lanes_out is None:
                parked.setdefault(at, []).append(index)
            else:
                for place, chosen in lanes_out:
                    groups.setdefault(place, []).append(chosen)

    def _run_group(
        self, lanes: Lanes, at: int, index: Array, until: int
    ) -> tuple[int, list[tuple[int, Array]] | None]:
        """Runs lanes from an instruction on until they part, or are where others wait."""
        actions = self.actions
        own = None if len(index) == lanes.total else index
        lanes.choose(own)
        count, began = len(index), self.steps
        try:
            while at < until:
                action = actions[at]
                self.steps += 1
                self.reached[at] += count
                if action.kind == "step":
                    chosen = count
                    if action.guard is None:
                        action.step(lanes)  # type: ignore[misc]
                    else:
                        taken = lanes.each(action.guard(lanes)) != action.negated
                        chosen = np.count_nonzero(taken)
                        if chosen == count:
                            action.step(lanes)  # type: ignore[misc]
                        elif chosen:
                            lanes.choose(index[taken])
                            action.step(lanes)  # type: ignore[misc]
                            lanes.choose(own)
                    self.executed[at] += chosen
                    at += 1
                elif action.kind == "barrier":
                    return at, None
                else:
                    taken = np.ones(1, bool)
                    if action.guard is not None:
                        taken = action.guard(lanes) != action.negated
                    chosen = np.count_nonzero(taken)
                    if chosen == taken.size:
                        at = action.target
                    elif not chosen:
                        at += 1
                    else:
                        taken = lanes.each(taken)
                        return at, [(action.target, index[taken]), (at + 1, index[~taken])]
        except PtxError as error:
            raise type(error)(f"{error}: {actions[at].instruction.text}") from None
        finally:
            self.thread_steps += (self.steps - began) * count
        if self.steps > MOST_STEPS:
            raise Endless(f"more than {MOST_STEPS} steps")
        return at, [(at, index)]

    def _released(
        self, lanes: Lanes, parked: dict[int, list[Array]], crews: list[Array]
    ) -> list[dict[int, list[Array]]]:
        """Past the barrier, if all threads of a program are at the same one."""
        released: list[dict[int, list[Array]]] = [{} for _ in crews]
        for at, groups in parked.items():
            index = _merged(groups)
            here = np.bincount(lanes.program[index])
            if np.count_nonzero(here % self.module.threads):
                text = self.actions[at].instruction.text
                raise Divergent(f"a barrier that not all threads of a program reach: {text}")
            for crew, groups_of_crew in zip(crews, released, strict=True):
                chosen = index if len(crews) == 1 else np.intersect1d(index, crew)
                if len(chosen):
                    groups_of_crew.setdefault(at + 1, []).append(chosen)
        return released


def decode(decoder: Decoder, instruction: Instruction) -> Step:
    """The step of an instruction that is no branch and no barrier."""
    name = instruction.name
    if name == "bar":
        return warps.converge(decoder, instruction)
    table = FLOATS if instruction.modifiers and floats.is_float(instruction) else OTHERS
    known = table.get(name) or (OTHERS.get(name) if name not in FLOATS else None)
    if known is None:
        raise Unsupported(f"no such instruction here: {instruction.opcode}")
    return known(decoder, instruction)


def _merged(groups: list[Array]) -> Array:
    return groups[0] if len(groups) == 1 else np.sort(np.concatenate(groups))


def _lanes(
    kernel: Kernel,
    grid: tuple[int, int, int],
    programs: Array,
    values: Mapping[str, int],
    memory: Memory,
) -> Lanes:
    threads = kernel.module.threads
    lanes = Lanes(len(kernel._decoder.slots), len(programs) * threads)
    thread = np.tile(np.arange(threads, dtype=np.uint32), len(programs))
    places = np.unravel_index(programs, grid, order="F")
    lanes.special = {"thread": thread, "lane": thread % np.uint32(WARP)}
    for name, place, extent in zip("xyz", places, grid, strict=True):
        lanes.special[name] = np.repeat(place.astype(np.uint32), threads)
        lanes.special[f"grid_{name}"] = np.array([extent], np.uint32)
    lanes.parameters = dict(values)
    lanes.memory = memory
    lanes.shared = Shared(len(programs), kernel.shared)
    lanes.program = np.repeat(np.arange(len(programs)), threads)
    return lanes
