"""The tables of a run, from the contents of its `--json` file: what the terminal, Markdown and the
page have in common."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Any

Cell = dict[str, Any]
TEXT = ("function", "problem", "type")
"""The columns that are not numbers."""
_TITLES = {"torch": "PyTorch", "jax": "JAX"}
_AS_FAST = 0.97
"""What two measurements of the same thing differ by."""


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
    """What a run measured, section by section, as far as there is any."""
    made = [
        _board(results["cells"], peers_in(results)),
        _calls(results["calls"], peers_in(results, "calls")),
        _of_memcpy_by_size(results["sizes"]),
        *(_peer_by_size(results["sizes"], peer) for peer in peers_in(results, "sizes")),
        _sizes(results["nanoseconds_per_element"]),
        _by_style(results["values"]),
        *(_peer_by_style(results["values"], peer) for peer in peers_in(results, "values")),
        _other_work(results["other_work"]),
    ]
    return [table for table in made if table.rows]


def title_of(peer: str) -> str:
    """A peer's name for people."""
    return _TITLES.get(peer, peer)


def summary(results: dict[str, Any]) -> str:
    """What a user gets, in a sentence: the middle of each column of the board, and how often a peer
    was faster in any comparison of the run; empty without cells."""
    cells = results["cells"]
    if not cells:
        return ""
    middle = [f"{statistics.median(cell['of_memcpy'] for cell in cells):.2f} of memcpy"]
    for peer in peers_in(results):
        found = [cell["ratios"][peer] for cell in cells if peer in cell["ratios"]]
        middle.append(f"{times(statistics.median(found))}x {title_of(peer)}")
    said = f"Median of {len(cells)} problems: {', '.join(middle)}"
    compared = (*cells, *results["calls"], *results["sizes"], *results["values"])
    ratios = [ratio for cell in compared for ratio in cell["ratios"].values()]
    if not ratios:
        return said
    slower = sum(ratio < _AS_FAST for ratio in ratios)
    never = f"slower in {slower} of" if slower else "never slower in"
    if not slower and min(ratios) < 1:
        never = f"never more than {1 - _AS_FAST:.0%} slower in"
    return f"{said}; {never} {len(ratios)} comparisons, at best {times(max(ratios))}x"


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


def bytes_of(elements: int) -> str:
    """Of f32.

    >>> bytes_of(2**12), bytes_of(2**26)
    ('16 KiB', '256 MiB')
    """
    size = 4 * elements
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


Grid = dict[str, dict[Any, Entry]]


def _grid(name: str, title: str, rows: Grid, columns: Sequence[Any], shown: Any = str) -> Table:
    """Rows by function; what was not measured is left out."""
    lines = [[Entry(row), *(by.get(c, Entry("")) for c in columns)] for row, by in rows.items()]
    return Table(name, title, ["function", *map(shown, columns)], lines)


def _by_size(sizes: list[Cell], entry: Callable[[Cell], Entry | None]) -> tuple[Grid, list[int]]:
    rows: Grid = {}
    for cell in sizes:
        made = entry(cell)
        if made is not None:
            name = cell["function"] + (", axis 0" if cell["across"] else "")
            rows.setdefault(name, {})[cell["elements"]] = made
    return rows, sorted({size for by_size in rows.values() for size in by_size})


def _of_memcpy_by_size(sizes: list[Cell]) -> Table:
    rows, columns = _by_size(sizes, lambda c: None if c["of_memcpy"] is None else _of_memcpy(c))
    title = "Speed as a multiple of memcpy's, f32, by size of a tensor"
    return _grid("sizes-of-memcpy", title, rows, columns, bytes_of)


def _peer_by_size(sizes: list[Cell], peer: str) -> Table:
    rows, columns = _by_size(sizes, lambda c: _ratio(c, peer) if peer in c["ratios"] else None)
    title = f"Times {title_of(peer)}'s speed, f32, by size of a tensor"
    return _grid(f"sizes-{peer}", title, rows, columns, bytes_of)


def _by_style(values: list[Cell]) -> Table:
    """Our time as a multiple of that on the style that is fastest."""
    best: dict[str, float] = {}
    for cell in values:
        took = cell["seconds"]["gradplan"]
        best[cell["function"]] = min(took, best.get(cell["function"], took))
    rows: Grid = {}
    for cell in values:
        share = cell["seconds"]["gradplan"] / best[cell["function"]]
        rows.setdefault(cell["function"], {})[cell["problem"]] = Entry(f"{share:.2f}")
    size = power_of_two(values[0]["elements"]) if values else ""
    title = f"Time as a multiple of that on the fastest style of values, {size} elements of f32"
    return _grid("values", title, rows, _styles(values))


def _peer_by_style(values: list[Cell], peer: str) -> Table:
    rows: Grid = {}
    for cell in values:
        if peer in cell["ratios"]:
            rows.setdefault(cell["function"], {})[cell["problem"]] = _ratio(cell, peer)
    title = f"Times {title_of(peer)}'s speed by style of values"
    return _grid(f"values-{peer}", title, rows, _styles(values))


def _styles(values: list[Cell]) -> list[str]:
    return list(dict.fromkeys(cell["problem"] for cell in values))


def _other_work(loads: list[Cell]) -> Table:
    """All threads beside one, under the same load."""
    rows = [
        [
            Entry(load["function"]),
            Entry(load["problem"]),
            Entry(str(load["busy"])),
            Entry("yes" if load["alternating"] else ""),
            Entry(f"{load['seconds']['one thread']['mean'] * 1e6:.0f}"),
            Entry(f"{load['mean_of_one']:.2f}"),
            Entry(f"{load['slow_of_one']:.2f}"),
        ]
        for load in loads
    ]
    title = "Calls beside other work: all threads as a multiple of one thread's time, same load"
    heads = ["function", "problem", "busy processes", "PyTorch between"]
    heads += ["us, one thread", "mean", "99th percentile"]
    return Table("other-work", title, heads, rows)


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
