"""gradplan.jax against JAX itself, both under `jit`: `python -m gradplan.bench.jax_bridge`.

The large cells of the board, and small calls, which show what the way through XLA costs. Ratios
only: times belong to a machine.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

from gradplan.bench import data
from gradplan.bench.board import Cell, board_cells, call_cells
from gradplan.bench.measure import FULL, QUICK, Call, Effort, best_times, per_call
from gradplan.bench.peers import Jax
from gradplan.cases import Array
from gradplan.jax.problems import Family, Problem, backward, forward
from gradplan.declaration import OPS
from gradplan.vocabulary import ElementKind

SMALL_LIMIT = 1.3
"""A small call may take this many times as long as JAX's own."""
_TURNS = 5


def problem_of(cell: Cell) -> tuple[Family, Problem]:
    """The primitive that runs a cell."""
    desc = cell.descriptor()
    if cell.op.gradient is not None:
        return forward, Problem.make(cell.op, desc, {})
    op = next(o for o in OPS.values() if o.gradient and o.gradient.op == cell.op.name)
    made: Any = op.descriptor
    fields = {info.name: getattr(desc, info.name) for info in op.fields}
    return backward, Problem(op, made(**fields), desc)


def _sparsemax(x: Any) -> Any:
    """By sorting, as the projections of JAX's ecosystem do it."""
    z = jnp.sort(x, axis=-1, descending=True)
    sums = jnp.cumsum(z, axis=-1) - 1
    count = (z * jnp.arange(1, x.shape[-1] + 1) > sums).sum(-1, keepdims=True)
    return jnp.maximum(x - jnp.take_along_axis(sums, count - 1, -1) / count, 0)


def _sparsemax_backward(dy: Any, y: Any) -> Any:
    support = y > 0
    total = jnp.where(support, dy, 0).sum(-1, keepdims=True)
    return jnp.where(support, dy - total / support.sum(-1, keepdims=True), 0)


_OWN = {"sparsemax": _sparsemax, "sparsemax_backward": _sparsemax_backward}


def _compiled(function: Any, arrays: list[Any]) -> Call:
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*arrays))


def contenders(cell: Cell) -> tuple[Call, Call]:
    """Our call and JAX's, compiled and warm."""
    tensors: Mapping[str, Array] = data.tensors(cell)
    operands = cell.op.operands(cell.descriptor())
    arrays = [jnp.asarray(tensors[o.name]) for o in operands if o.is_input]
    family, problem = problem_of(cell)
    ours = _compiled(functools.partial(family, problem), arrays)
    own = _OWN.get(cell.function.name)
    theirs = _compiled(own, arrays) if own else Jax().calls(cell, tensors)
    assert theirs is not None
    ours()
    theirs()
    return ours, theirs


def large(effort: Effort) -> Iterator[tuple[Cell, float]]:
    """How many times faster than JAX each large cell is."""
    for cell in board_cells():
        if cell.element is ElementKind.F32:
            ours, theirs = contenders(cell)
            times = best_times({"ours": ours, "theirs": theirs}, effort)
            yield cell, times["theirs"] / times["ours"]


def small(effort: Effort) -> Iterator[tuple[Cell, float]]:
    """How many times as long as JAX's each small call takes."""
    for cell in call_cells():
        ours, theirs = contenders(cell)
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
