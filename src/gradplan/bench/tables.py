"""The tables of a run, from the contents of its `--json` file: what the terminal, Markdown and the
page have in common."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

Cell = dict[str, Any]
TEXT = ("function", "problem", "type")
"""The columns that are not numbers."""
_TITLES = {"torch": "PyTorch", "jax": "JAX"}


@dataclasses.dataclass(frozen=True)
class Entry:
    """A place in a table."""

    text: str
    goal: str = ""
    """What is to be reached, for maintainers: shown in the terminal alone, with `--goals`."""
    short: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns and rows, without form."""

    name: str
    title: str
    heads: list[str]
    rows: list[list[Entry]]


def tables(results: dict[str, Any]) -> list[Table]:
    """The cells, calls and sizes of a run, as far as there are any."""
    made = (
        _board(results["cells"], peers_in(results)),
        _calls(results["calls"], peers_in(results, "calls")),
        _sizes(results["nanoseconds_per_element"]),
    )
    return [table for table in made if table.rows]


def title_of(peer: str) -> str:
    """A peer's name for people."""
    return _TITLES.get(peer, peer)


def summary(results: dict[str, Any]) -> str:
    """The middle of each column, and how often a peer was faster; empty without cells."""
    cells = results["cells"]
    if not cells:
        return ""
    middle = [f"{statistics.median(cell['of_memcpy'] for cell in cells):.2f} of memcpy"]
    for peer in peers_in(results):
        found = [cell["ratios"][peer] for cell in cells if peer in cell["ratios"]]
        middle.append(f"{times(statistics.median(found))}x {title_of(peer)}")
    said = f"Median of {len(cells)} problems: {', '.join(middle)}"
    if len(middle) == 1:
        return said
    slower = sum(any(ratio < 1 for ratio in cell["ratios"].values()) for cell in cells)
    return f"{said}; another library is faster in {slower or 'none'} of them"


def times(ratio: float) -> str:
    """How many times faster; slower is never rounded to as fast.

    >>> times(6.14), times(0.984), times(0.999)
    ('6.1', '0.98', '0.99')
    """
    return f"{ratio:.1f}" if ratio >= 1 else f"{min(ratio, 0.99):.2f}"


def peers_in(results: dict[str, Any], what: str = "cells") -> list[str]:
    """The peers that were measured, in their order."""
    return [p for p in results["peers"] if any(p in cell["ratios"] for cell in results[what])]


def power_of_two(size: int) -> str:
    """
    >>> power_of_two(2**24), power_of_two(100)
    ('2^24', '100')
    """
    exponent = size.bit_length() - 1
    return f"2^{exponent}" if size == 1 << exponent else str(size)


def _board(cells: list[Cell], peers: list[str]) -> Table:
    rows = [
        [
            *(Entry(cell[name]) for name in ("function", "problem", "element")),
            _of_memcpy(cell),
            *(_ratio(cell, peer) for peer in peers),
        ]
        for cell in cells
    ]
    return Table("board", "", [*TEXT, "of memcpy", *map(_head, peers)], rows)


def _head(peer: str) -> str:
    return f"x {title_of(peer)}"


def _calls(cells: list[Cell], peers: list[str]) -> Table:
    rows = [
        [
            Entry(cell["function"]),
            Entry(f"{cell['seconds']['gradplan'] * 1e6:.1f}"),
            *(_ratio(cell, peer) for peer in peers),
        ]
        for cell in cells
    ]
    problem = cells[0]["problem"] if cells else ""
    title = f"One call of plan.run, {problem} f32, PyTorch tensors, outputs given"
    return Table("calls", title, ["function", "us per call", *map(_head, peers)], rows)


def _sizes(per_element: dict[str, dict[Any, float]]) -> Table:
    found = {
        name: {int(size): value for size, value in by_size.items()}
        for name, by_size in per_element.items()
    }
    sizes = sorted({size for by_size in found.values() for size in by_size})
    rows = [
        [Entry(name), *(Entry(f"{by_size[s]:.2f}" if s in by_size else "") for s in sizes)]
        for name, by_size in found.items()
    ]
    title = "Nanoseconds per element, f32, by number of elements"
    return Table("sizes", title, ["function", *map(power_of_two, sizes)], rows)


def _of_memcpy(cell: Cell) -> Entry:
    found, goal = cell["of_memcpy"], cell.get("goals", {}).get("of_memcpy")
    if goal is None:
        return Entry(f"{found:.2f}")
    return Entry(f"{found:.2f}", f"{goal:.2f}", found < goal)


def _ratio(cell: Cell, peer: str) -> Entry:
    ratio = cell["ratios"].get(peer)
    if ratio is None:
        return Entry("")
    goal = cell.get("goals", {}).get("ratios", {}).get(peer)
    if goal is None:
        return Entry(times(ratio))
    return Entry(f"{ratio:.2f}" if ratio < goal else times(ratio), f"{goal:g}", ratio < goal)
