"""The tables of a run, from the contents of its `--json` file: what the terminal, Markdown and the
page have in common."""

from __future__ import annotations

import dataclasses
from typing import Any

Cell = dict[str, Any]
TEXT = ("function", "problem", "type")
"""The columns that are not numbers."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A place in a table."""

    text: str
    wanted: str = ""
    """The figure to reach."""
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


def summary(results: dict[str, Any]) -> str:
    """How many cells reach their figures."""
    measured = [*results["cells"], *results["calls"]]
    reached = sum(not cell["short"] for cell in measured)
    return f"{reached} of {len(measured)} cells reach their figures"


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
            _score(cell["score"], cell["score_wanted"]),
            *(_ratio(cell, peer) for peer in peers),
        ]
        for cell in cells
    ]
    return Table("board", "", [*TEXT, "score", *(f"x {peer}" for peer in peers)], rows)


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
    return Table("calls", title, ["function", "us per call", *(f"x {p}" for p in peers)], rows)


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


def _score(score: float | None, wanted: float | None) -> Entry:
    if score is None or wanted is None:
        return Entry("" if score is None else f"{score:.2f}")
    return Entry(f"{score:.2f}", f"{wanted:.2f}", score < wanted)


def _ratio(cell: Cell, peer: str) -> Entry:
    ratio = cell["ratios"].get(peer)
    if ratio is None:
        return Entry("")
    wanted = cell["ratios_wanted"][peer]
    short = ratio < wanted
    return Entry(f"{ratio:.2f}" if short else f"{ratio:.1f}", f"{wanted:g}", short)
