"""Which choices suit a GPU: each of `launches/choices.py`, measured where it makes a difference.

One choice is made another at a time, on the problems for which that means other launches. Ours with
each of its values take turns; the best of several turns counts.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gradplan.bench import data
from gradplan.bench.board import Cell, Problem, board_cells, functions
from gradplan.bench.gpu import CALLS, Clock, OnDevice, device_clock
from gradplan.bench.measure import Effort
from gradplan.bench.peers import Call
from gradplan.engines import ENGINES, registered
from gradplan.engines.cuda import families, packed
from gradplan.engines.cuda.launches.choices import CHOICES, choosing
from gradplan.engines.cuda.program import Launch
from gradplan.plan import plan_class
from gradplan.vocabulary import FLOATS

BETTER = 0.98
"""A choice is worth making if it takes no more than this of the time, in the mean."""


def _lines(rows: int, columns: int) -> Iterator[Problem]:
    """2^rows of 2^columns elements, one behind the other and side by side."""
    yield Problem(f"2^{rows} x 2^{columns}", (2**rows, 2**columns))
    yield Problem(f"2^{columns} x 2^{rows}, axis 0", (2**columns, 2**rows), 0)


LINES = tuple(
    problem
    for rows, columns in (*((k, 24 - k) for k in range(9, 19)), *((14, k) for k in range(5, 9)))
    for problem in _lines(rows, columns)
)
"""As many elements in few long lines and in many short ones, and fewer: where thresholds lie."""


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What a choice comes to on one problem: seconds by value."""

    choice: str
    cell: Cell
    seconds: Mapping[int, float]

    @property
    def ratios(self) -> Mapping[int, float]:
        """Of the default's time."""
        default = self.seconds[CHOICES[self.choice].default]
        return {value: took / default for value, took in self.seconds.items()}

    def as_json(self) -> dict[str, Any]:
        return {"choice": self.choice, "cell": self.cell.name, "seconds": dict(self.seconds)}


def launches(cell: Cell, choices: Mapping[str, int]) -> tuple[Launch, ...]:
    """What a problem's packed tensors would be served by."""
    desc = cell.descriptor()
    with choosing(choices):
        return families()[0][cell.op.name](desc, packed(cell.op, desc)).launches


def problems() -> Iterator[Cell]:
    """Those of the board, and lines of all lengths for what has lines."""
    elements = sorted(FLOATS, key=lambda kind: (kind.value != "f32", kind.value))
    for element in elements:
        yield from (cell for cell in board_cells() if cell.element is element)
        for op, function in functions().values():
            if op.axis_field is not None and op.shape_field is not None:
                yield from (Cell(op, function, element, problem) for problem in LINES)


def differing(cell: Cell) -> dict[str, tuple[int, ...]]:
    """The choices that matter for a problem, with the values that make other launches of it."""
    found = {}
    for name, choice in CHOICES.items() if cell.op.name in families()[0] else ():
        seen = {launches(cell, {name: choice.default}): choice.default}
        for value in choice.others:
            seen.setdefault(launches(cell, {name: value}), value)
        if len(seen) > 1:
            found[name] = tuple(seen.values())
    return found


def measure(
    cell: Cell,
    effort: Effort,
    device: str = "cuda:0",
    clock: Clock = device_clock,
) -> Iterator[Tuned]:
    """Of every choice that matters for a problem."""
    wanted = differing(cell)
    library = OnDevice(device)
    arrays = data.tensors(cell) if wanted else {}
    tensors = {key: library.tensor(array) for key, array in arrays.items()}
    for name, values in wanted.items():
        calls = {value: _call(cell, tensors, device, {name: value}) for value in values}
        best: dict[int, float] = dict.fromkeys(values, math.inf)
        for _ in range(effort.least):
            for value, call in calls.items():
                best[value] = min(best[value], clock(call, CALLS))
        yield Tuned(name, cell, best)


def _call(cell: Cell, tensors: Mapping[str, Any], device: str, choices: Mapping[str, int]) -> Call:
    """A plan of its own, which has made its launches with these choices."""
    # Plans are cached: the engine is registered anew, so that another one is made.
    with choosing(choices), registered(ENGINES["cuda"]):
        plan = plan_class(cell.op).select(cell.descriptor(), device=device)
        size = plan.workspace_size
        first = next(iter(tensors.values()))
        torch = importlib.import_module("torch")
        workspace = torch.empty(size, dtype=torch.uint8, device=first.device) if size else None
        call: Call = functools.partial(plan.run, **tensors, workspace=workspace)
        call()
        return call


def means(found: Iterable[Tuned]) -> dict[str, dict[int, tuple[float, float, float, int]]]:
    """By choice and value: the mean of the default's time, the best, the worst, and of how many."""
    ratios: dict[str, dict[int, list[float]]] = {}
    for each in found:
        for value, ratio in each.ratios.items():
            ratios.setdefault(each.choice, {}).setdefault(value, []).append(ratio)
    return {
        name: {
            value: (math.exp(sum(map(math.log, r)) / len(r)), min(r), max(r), len(r))
            for value, r in sorted(by_value.items())
        }
        for name, by_value in ratios.items()
    }


def advice(found: Iterable[Tuned]) -> dict[str, int]:
    """The choices that are worth making: those that are faster in the mean."""
    best = {}
    for name, by_value in means(found).items():
        value = min(by_value, key=lambda v: by_value[v][0])
        if by_value[value][0] <= BETTER:
            best[name] = value
    return best
