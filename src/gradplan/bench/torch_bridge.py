"""gradplan.torch against PyTorch's own operators: `python -m gradplan.bench.torch_bridge`.

Small calls, which show what the bridge costs; large ones, as a user would time them; and the cells
of the board, which show what is left of a plan's speed when the bridge calls it. Contenders take
turns. Ratios only: times belong to a machine.
"""

from __future__ import annotations

import argparse
import enum
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from gradplan import torch as gpt
from gradplan.bench import data
from gradplan.bench.board import Cell, board_cells
from gradplan.bench.measure import FULL, OURS, QUICK, Call, Effort, best_times, plan_call
from gradplan.bench.peers import Torch, as_torch
from gradplan.torch.operators import OPERATORS
from gradplan.vocabulary import ElementKind

AIMS = {"forward": 2.0, "forward + backward": 1.0}
"""A small call should take at most this many times as long as PyTorch's own."""
LEFT = 0.9
"""How much of a plan's advantage over PyTorch should be left."""
SMALL, LARGE = (32, 64), (4096, 4096)
_CALLS = 10

Function = Callable[[Any], Any]


def pairs(shape: tuple[int, int]) -> dict[str, tuple[Function, Function]]:
    """Our function and PyTorch's, of a tensor of that shape. (No sparsemax: PyTorch has none.)"""
    rows = torch.randint(0, shape[0], (shape[0],))
    other = torch.randn(shape)
    functional = torch.nn.functional
    batch = rows.reshape(4, -1)
    made: dict[str, tuple[Function, Function]] = {
        "embedding": (lambda x: gpt.embedding(rows, x), lambda x: functional.embedding(rows, x)),
        "embedding of a batch": (
            lambda x: gpt.embedding(batch, x),
            lambda x: functional.embedding(batch, x),
        ),
        "lerp": (lambda x: gpt.lerp(x, other, 0.3), lambda x: torch.lerp(x, other, 0.3)),
        "segment_sum": (
            lambda x: gpt.segment_sum(x, rows, shape[0]),
            lambda x: x.new_zeros(shape).index_add(0, rows, x),
        ),
    }
    for name in ("cumsum", "cumprod", "logcumsumexp"):
        made[name] = _scans(getattr(gpt, name), getattr(torch, name))
    for name in ("cummax", "cummin"):
        made[name] = _scans(getattr(gpt, name), _values(getattr(torch, name)))
    return dict(sorted(made.items()))


def _scans(ours: Any, theirs: Any) -> tuple[Function, Function]:
    return lambda x: ours(x, 1), lambda x: theirs(x, 1)


def _values(function: Any) -> Any:
    return lambda x, dim: function(x, dim)[0]


def _call(function: Function, x: Any, both: bool) -> Call:
    if not both:
        return lambda: function(x)
    x = x.clone().requires_grad_()
    cotangent = torch.ones_like(function(x))

    def run() -> None:
        torch.autograd.grad(function(x), x, cotangent)

    return run


def ratios(shape: tuple[int, int], both: bool, effort: Effort) -> Iterator[tuple[str, float]]:
    """Our time over PyTorch's, by function."""
    for name, functions in pairs(shape).items():
        x = torch.randn(shape)
        if name == "cumprod":
            x = 1 + x / 64  # products of others are soon zero
        ours, theirs = (_call(f, x, both) for f in functions)
        ours(), theirs()
        if shape == LARGE:
            best = best_times({"ours": ours, "theirs": theirs}, effort)
            yield name, best["ours"] / best["theirs"]
        else:
            yield name, _shortest(ours, theirs, effort.seconds)


def _shortest(ours: Call, theirs: Call, seconds: float) -> float:
    """The ratio of the best times of a few calls each; a scheduler's turn is longer than those."""
    best = [float("inf")] * 2
    end = time.perf_counter() + 2 * seconds
    while time.perf_counter() < end:
        for i, call in enumerate((ours, theirs)):
            call()  # its code and tables are in the cache again
            began = time.perf_counter()
            for _ in range(_CALLS):
                call()
            best[i] = min(best[i], time.perf_counter() - began)
    return best[0] / best[1]


def _bridge_call(cell: Cell, tensors: dict[str, Any]) -> Call:
    """The operator for the cell's problem. It allocates its outputs; the plan has its own."""
    operator, desc = OPERATORS[cell.function.name], cell.descriptor()
    options = [getattr(desc, p.info.name) for p in operator.options]
    words = [o.value if isinstance(o, enum.Enum) else o for o in options]
    arguments = [*(tensors[t.name] for t in operator.tensors), *words]
    return lambda: operator.call(*arguments)


def speedups(effort: Effort) -> Iterator[tuple[str, float, float]]:
    """How many times faster than PyTorch a plan is, and the bridge's operator for it.

    For the f32 cells of the board that PyTorch has an operator for.
    """
    for cell in board_cells():
        if cell.element is not ElementKind.F32:
            continue
        arrays = data.tensors(cell)
        theirs = Torch().calls(cell, arrays)
        if theirs is None:
            continue
        bridge = _bridge_call(cell, {name: as_torch(x) for name, x in arrays.items()})
        contenders = {OURS: plan_call(cell, arrays), "bridge": bridge, "torch": theirs}
        bridge(), theirs()
        best = best_times(contenders, effort)
        name = f"{cell.function.name} {cell.problem.label}"
        yield name, best["torch"] / best[OURS], best["torch"] / best["bridge"]


def main() -> None:
    """Prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--small", action="store_true", help="small calls alone")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    console = Console()
    for shape in (SMALL,) if options.small else (SMALL, LARGE):
        title = f"{shape[0]} x {shape[1]} f32: time over PyTorch's"
        heads = [f"{way} (aim: {limit})" if shape == SMALL else way for way, limit in AIMS.items()]
        table = Table("function", *heads, title=title, title_justify="left")
        columns = [dict(ratios(shape, both, effort)) for both in (False, True)]
        for name in columns[0]:
            table.add_row(name, *(f"{column[name]:.2f}" for column in columns))
        console.print(table)
    if not options.small:
        console.print(_left_of_speedups(effort))


def _left_of_speedups(effort: Effort) -> Table:
    title = "The board, f32: how many times faster than PyTorch"
    heads = ("cell", "plan", "gradplan.torch", f"left of it (aim: {LEFT})")
    table = Table(*heads, title=title, title_justify="left")
    for name, plan, bridge in speedups(effort):
        table.add_row(name, f"{plan:.2f}", f"{bridge:.2f}", f"{bridge / plan:.2f}")
    return table


if __name__ == "__main__":
    main()
