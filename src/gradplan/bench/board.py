"""The board: problems as data, and the figures that the declarations say are to be reached there.

Scores are relative to a parallel memcpy of the bytes that a problem must move at least once; peers'
figures say how many times faster than the peer a plan has to be. Figures are the project's own
goals: only `gradplan bench --goals` shows them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from gradplan.cases import axis_sizes
from gradplan.declaration import OPS, Arithmetic, AxisRole, Descriptor, Function, Op
from gradplan.vocabulary import FLOATS, ElementKind

OTHER_TYPES_SCORE = 0.8
"""What the other element types have to reach of the f32 score."""
AT_PAR = 1.0
"""Nothing on the board may be slower than a peer."""
REAL = 0.3
"""The value of every real number that an op needs."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """Sizes, and what the values are like."""

    label: str
    shape: tuple[int, ...] = ()
    axis: int = -1
    rows: tuple[int, int, int] = (0, 0, 0)
    """For ops with indices: how many indices, how many rows they point into, elements in a row."""
    ids: str = "uniform"
    """uniform; zipf: a few rows are frequent (1.2); hot: one row takes a third."""
    style: str = ""
    """One of bench/styles.py; by default what suits the function."""


_ROWS = Problem("262144 x 128", rows=(262144, 100000, 128))  # into (or out of) 100000
PROBLEMS: Mapping[str, Problem] = {
    "square": Problem("4096 x 4096", (4096, 4096)),
    "columns": Problem("4096 x 4096, axis 0", (4096, 4096), 0),
    "one_row": Problem("one row of 2^24", (2**24,)),
    "wide": Problem("128 x 50257", (128, 50257)),
    "rows": _ROWS,
    "zipf": dataclasses.replace(_ROWS, label=f"{_ROWS.label}, Zipf(1.2)", ids="zipf"),
    "hot": dataclasses.replace(_ROWS, label=f"{_ROWS.label}, 1/3 to one", ids="hot"),
    "narrow": Problem("262144 x 16", rows=(262144, 100000, 16)),
    "single": Problem("262144 x 1", rows=(262144, 100000, 1)),
}
"""The problems that a `Figure` may name."""

SIZES = (*(2**p for p in range(12, 27, 2)), 2**27)
"""Numbers of elements at which every function is measured: from 16 KiB of f32 to 512 MiB."""
STYLED = 2**21
"""The number of elements on which styles of values are compared: 512 x 4096."""
LOADS = (2**16, 2**18, 2**20, 2**22)
"""Numbers of elements of calls beside other work."""
_ROW = 4096
_WIDTH = 128


@dataclasses.dataclass(frozen=True)
class Cell:
    """One measurement of the board."""

    op: Op
    function: Function
    element: ElementKind
    problem: Problem
    score: float | None = None
    figures: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """How many times faster than which peer; every other peer must not be faster."""

    def descriptor(self) -> Descriptor:
        op, problem = self.op, self.problem
        fields: dict[str, Any] = {**self.function.fixed, "element": self.element}
        if op.shape_field is None:
            fields.update(axis_sizes(op, *problem.rows))
        else:
            fields[op.shape_field] = problem.shape
        if op.axis_field is not None:
            fields[op.axis_field] = problem.axis
        extents = () if op.shape_field is None else op.sizes_with_role(AxisRole.ALONG)
        for position, info in enumerate(op.fields):
            if info.required and info.name in extents:
                fields[info.name] = problem.shape[problem.axis]
            elif info.required and info.name not in fields:
                fields[info.name] = REAL if info.field.series else info.field.sample(position)
        return op.descriptor(**fields)

    @property
    def is_across(self) -> bool:
        """Whether it works along another axis than the last."""
        return self.op.axis_field is not None and self.problem.axis not in (
            -1,
            len(self.problem.shape) - 1,
        )

    @property
    def elements(self) -> int:
        """Of its largest tensor."""
        return max(math.prod(o.shape) for o in self.op.operands(self.descriptor()))

    @property
    def name(self) -> str:
        return f"{self.function.name} {self.element} {self.problem.label}"

    def figure(self, peer: str) -> float:
        return self.figures.get(peer, AT_PAR)


def functions() -> dict[str, tuple[Op, Function]]:
    """Every function by name."""
    return {f.name: (op, f) for op in OPS.values() for f in op.functions}


def board_cells() -> Iterator[Cell]:
    """The board: f32 as declared, then the other element types."""
    for element in sorted(FLOATS, key=lambda kind: (kind is not ElementKind.F32, kind.value)):
        plain = element is ElementKind.F32
        for op, function in functions().values():
            if element not in op.descriptor.elements:
                continue
            for figure in function.figures:
                score = figure.score
                if score is not None and not plain:
                    score *= OTHER_TYPES_SCORE
                figures = {figure.peer: figure.factor} if plain else {}
                yield Cell(op, function, element, PROBLEMS[figure.problem], score, figures)


def small_problem(rows: int, columns: int) -> Problem:
    """A problem of that shape for every function, with and without indices."""
    return Problem(f"{rows} x {columns}", (rows, columns), rows=(rows, rows, columns))


SMALL = small_problem(32, 64)
"""The problem on which the cost of a call is measured."""


def call_cells() -> Iterator[Cell]:
    """The cost of a call: a small problem of every function."""
    for op, function in functions().values():
        yield Cell(op, function, ElementKind.F32, SMALL)


def _sized(elements: int) -> Problem:
    count = max(elements // _WIDTH, 1)
    return Problem(
        f"2^{elements.bit_length() - 1} elements",
        (max(elements // _ROW, 1), min(elements, _ROW)),
        rows=(count, max(count // 4, 1), _WIDTH),
    )


def size_cells(elements: int) -> Iterator[Cell]:
    """A problem with that many elements, for every function; across rows where it has an axis."""
    side = 1 << (elements.bit_length() // 2)
    across = Problem("axis 0", (elements // side, side), 0)
    for op, function in functions().values():
        yield Cell(op, function, ElementKind.F32, _sized(elements))
        if op.axis_field is not None:
            yield Cell(op, function, ElementKind.F32, across)


def style_cells(style: str) -> Iterator[Cell]:
    """A problem of 8 MiB with values of a style, for every function that computes."""
    problem = dataclasses.replace(_sized(STYLED), label=style, style=style)
    for op, function in functions().values():
        if op.arithmetic is not Arithmetic.COPY:
            yield Cell(op, function, ElementKind.F32, problem)


def load_cells() -> Iterator[Cell]:
    """Calls beside other work: of the functions that are declared to stand for the others."""
    for op, function in functions().values():
        if function.beside_other_work:
            yield from (Cell(op, function, ElementKind.F32, _sized(n)) for n in LOADS)
