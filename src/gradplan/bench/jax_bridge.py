"""gradplan.jax against JAX itself, both under `jit`: `python -m gradplan.bench.jax_bridge`.

The large cells of the board, and small calls, which show what the way through XLA costs. Ratios
only: times belong to a machine.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from gradplan.bench import data
from gradplan.bench.board import Cell, board_cells, call_cells
from gradplan.bench.bridges import bridge_peer
from gradplan.bench.measure import FULL, QUICK, Call, Effort, best_times, per_call
from gradplan.bench.peers import Forward, OnJax, alone
from gradplan.cases import Array
from gradplan.declaration import Function, Op, Peer
from gradplan.vocabulary import ElementKind

SMALL_LIMIT = 1.3
"""A small call may take this many times as long as JAX's own."""
_TURNS = 5


class Jax(OnJax):
    """JAX's functions, and what has to be written out because it has none."""

    def __init__(self) -> None:
        super().__init__("jax")

    def peer(self, op: Op, function: Function) -> Peer | None:
        return next((p for p in function.peers if p.library == self.name), None)


class Bridge(Jax):
    """Ours. Of a gradient only the backward is timed: what it saved is there, as for a plan."""

    def peer(self, op: Op, function: Function) -> Peer | None:
        return bridge_peer("jax", op, function)

    def gradient(self, forward: Forward, cell: Cell, tensors: Mapping[str, Array]) -> Call:
        jax = importlib.import_module("jax")
        given = {name: jax.numpy.asarray(x) for name, x in tensors.items()}
        leaves = [given[forward.sources[name]] for name in forward.leaves]
        pull = jax.vjp(lambda *x: forward(given, x), *leaves)[1]
        saved, tree = jax.tree_util.tree_flatten(pull)

        def backward(saved: list[Any], *cotangents: Any) -> Any:
            return jax.tree_util.tree_unflatten(tree, saved)(alone(cotangents))

        jitted, cotangents = jax.jit(backward), [given[name] for name in forward.cotangents]
        return lambda: jax.block_until_ready(jitted(saved, *cotangents))


def contenders(cells: Iterable[Cell]) -> Iterator[tuple[Cell, Call, Call]]:
    """Our call and JAX's, compiled and warm, of the f32 cells that both have."""
    for cell in cells:
        if cell.element is not ElementKind.F32:
            continue
        tensors = data.tensors(cell)
        ours, theirs = Bridge().calls(cell, tensors), Jax().calls(cell, tensors)
        if ours is not None and theirs is not None:
            ours(), theirs()
            yield cell, ours, theirs


def large(effort: Effort) -> Iterator[tuple[Cell, float]]:
    """How many times faster than JAX each large cell is."""
    for cell, ours, theirs in contenders(board_cells()):
        times = best_times({"ours": ours, "theirs": theirs}, effort)
        yield cell, times["theirs"] / times["ours"]


def small(effort: Effort) -> Iterator[tuple[Cell, float]]:
    """How many times as long as JAX's each small call takes."""
    for cell, ours, theirs in contenders(call_cells()):
        turns = [(per_call(ours, effort), per_call(theirs, effort)) for _ in range(_TURNS)]
        yield cell, min(a for a, _ in turns) / min(b for _, b in turns)


def main() -> None:
    """Measures and prints both tables; the exit status is 1 if a figure is missed."""
    parser = argparse.ArgumentParser(description="gradplan.jax against jax.jit, in ratios")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", choices=("large", "small"), help="one of the tables")
    args = parser.parse_args()
    effort = QUICK if args.quick else FULL
    console = Console()
    missed = False
    if args.only != "small":
        table = Table("function", "problem", "times faster than jax.jit", title="Large, f32")
        for cell, ratio in large(effort):
            missed |= ratio < 1
            table.add_row(cell.function.name, cell.problem.label, f"{ratio:.2f}")
        console.print(table)
    if args.only != "large":
        table = Table("function", "problem", "time relative to jax.jit", title="Small calls, f32")
        for cell, ratio in small(effort):
            missed |= ratio > SMALL_LIMIT
            table.add_row(cell.function.name, cell.problem.label, f"{ratio:.2f}")
        console.print(table)
    raise SystemExit(int(missed))


if __name__ == "__main__":
    main()
