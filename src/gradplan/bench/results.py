"""What a run of the board found, in the form that the table, the page and the file share."""

from __future__ import annotations

import dataclasses
import functools
import gc
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import gradplan
from gradplan.bench.board import (
    SIZES,
    Cell,
    board_cells,
    call_cells,
    load_cells,
    size_cells,
    style_cells,
)
from gradplan.bench.contention import Watch
from gradplan.bench.load import Loaded, measure_load
from gradplan.bench.measure import (
    FULL,
    OURS,
    QUICK,
    SIZED,
    Effort,
    Measured,
    measure,
    measure_call,
    measure_size,
    measure_styles,
)
from gradplan.bench.peers import PEERS, parallel_operator
from gradplan.bench.styles import STYLES
from gradplan.machine import machine, version_of
from gradplan.vocabulary import ElementKind

FORMAT = 3
_QUICK_SIZES = SIZES[1:7:2]
SECTIONS = {
    "board": "the problems of the board, every element type",
    "calls": "what a small call costs",
    "sizes": "from 16 KiB to 512 MiB",
    "values": "fourteen styles of values",
    "load": "calls beside other work on the machine",
}
"""The parts of a run."""
QUICK_SECTIONS = ("board", "calls", "sizes")
_LOAD_SECONDS = 1.0
_STYLE_TURNS = 6


@dataclasses.dataclass
class Results:
    """All measurements of one run."""

    quick: bool
    cells: list[Measured] = dataclasses.field(default_factory=list)
    calls: list[Measured] = dataclasses.field(default_factory=list)
    sizes: list[Measured] = dataclasses.field(default_factory=list)
    styles: list[Measured] = dataclasses.field(default_factory=list)
    loads: list[Loaded] = dataclasses.field(default_factory=list)
    watch: Watch = dataclasses.field(default_factory=lambda: Watch())

    @property
    def short(self) -> list[Measured]:
        """The cells that miss a figure."""
        return [m for m in (*self.cells, *self.calls) if m.short]

    def per_element(self) -> dict[str, dict[int, float]]:
        """Nanoseconds per element by function and number of elements."""
        found: dict[str, dict[int, float]] = {}
        for m in self.sizes:
            if m.cell.is_across:
                continue
            elements = m.cell.elements
            nanoseconds = m.times[OURS] * 1e9 / elements
            found.setdefault(m.cell.function.name, {})[elements] = nanoseconds
        return found

    def as_json(self, *, goals: bool = False) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "gradplan": gradplan.__version__,
            "quick": self.quick,
            "machine": machine(),
            "peers": {p.name: version_of(p.name) for p in PEERS if p.installed()},
            "other_processes": self.watch.as_json(),
            "cells": [m.as_json(goals=goals) for m in self.cells],
            "calls": [m.as_json(goals=goals) for m in self.calls],
            "nanoseconds_per_element": self.per_element(),
            "sizes": [
                {**m.as_json(), "elements": m.cell.elements, "across": m.cell.is_across}
                for m in self.sizes
            ],
            "values": [{**m.as_json(), "elements": m.cell.elements} for m in self.styles],
            "other_work": [loaded.as_json() for loaded in self.loads],
        }


def chosen_cells(
    cells: Iterable[Cell],
    *,
    names: Sequence[str] | None,
    elements: Sequence[str] | None,
    quick: bool,
) -> Iterator[Cell]:
    """Those of these functions, ops and element types; a quick run is in f32 if nobody says."""
    if elements is None and quick:
        elements = [ElementKind.F32.value]
    for cell in cells:
        known = {cell.function.name, cell.op.name, cell.op.plan_name}
        if (names is None or known & set(names)) and (
            elements is None or cell.element.value in elements
        ):
            yield cell


Step = tuple[Cell, Callable[[Results], None]]


def steps(
    *,
    names: Sequence[str] | None,
    elements: Sequence[str] | None,
    quick: bool,
    sections: Collection[str] | None = None,
) -> list[Step]:
    """Everything there is to measure: each step adds its finding to the results."""
    if sections is None:
        sections = QUICK_SECTIONS if quick else tuple(SECTIONS)
    effort = QUICK if quick else FULL
    wanted = functools.partial(chosen_cells, names=names, elements=elements, quick=quick)
    made: list[Step] = []
    if "board" in sections:
        made += [(cell, _board_step(cell, effort)) for cell in wanted(board_cells())]
    if "calls" in sections:
        made += [(cell, _call_step(cell, effort)) for cell in wanted(call_cells())]
    if "sizes" in sections:
        for size in _QUICK_SIZES if quick else SIZES:
            made += [
                (cell, _size_step(cell, QUICK if quick else SIZED))
                for cell in wanted(size_cells(size))
            ]
    if "values" in sections:
        by_style = [list(wanted(style_cells(style))) for style in STYLES]
        made += [(cells[0], _style_step(cells)) for cells in zip(*by_style, strict=True)]
    if "load" in sections:
        cells = list(wanted(load_cells()))
        # With the bridge imported PyTorch's threads serve from then on: that comes last.
        for alternating in (False, True)[: 1 + PEERS[0].installed()]:
            for busy in sorted({0, 1, len(os.sched_getaffinity(0))}):
                made += [(cell, _load_step(cell, busy, alternating=alternating)) for cell in cells]
    return made


def _style_step(cells: Sequence[Cell]) -> Callable[[Results], None]:
    return lambda results: results.styles.extend(measure_styles(cells, _STYLE_TURNS))


def _load_step(cell: Cell, busy: int, *, alternating: bool) -> Callable[[Results], None]:
    def step(results: Results) -> None:
        results.watch.stop()
        between = parallel_operator() if alternating else None
        results.loads.append(measure_load(cell, busy, _LOAD_SECONDS, between))

    return step


def _board_step(cell: Cell, effort: Effort) -> Callable[[Results], None]:
    def step(results: Results) -> None:
        results.cells.append(measure(cell, effort))
        gc.collect()  # a gigabyte of tensors and graphs

    return step


def _call_step(cell: Cell, effort: Effort) -> Callable[[Results], None]:
    return lambda results: results.calls.append(measure_call(cell, effort))


def _size_step(cell: Cell, effort: Effort) -> Callable[[Results], None]:
    def step(results: Results) -> None:
        measured = measure_size(cell, effort)
        if measured is not None:
            results.sizes.append(measured)

    return step
