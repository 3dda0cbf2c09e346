"""The board: problems and the figures to reach, as data.

Scores are relative to a parallel memcpy of the bytes that a problem must move at least once; peers'
figures say how many times faster than the peer a plan has to be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from gradplan.cases import axis_sizes
from gradplan.declaration import AxisOf, Descriptor
from gradplan.declaration.fields import Real, ShapeField
from gradplan.declaration import OPS, Function, Op
from gradplan.vocabulary import FLOATS, ElementKind

OTHER_TYPES_SCORE = 0.8
"""What the other element types have to reach of the f32 score."""
AT_PAR = 1.0
"""Nothing on the board may be slower than a peer."""
WEIGHT = 0.3


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


SQUARE = Problem("4096 x 4096", (4096, 4096))
COLUMNS = Problem("4096 x 4096, axis 0", (4096, 4096), 0)
ONE_ROW = Problem("one row of 2^24", (2**24,))
WIDE = Problem("128 x 50257", (128, 50257))
# Rows by index, into (or out of) 100000.
ROWS = Problem("262144 x 128", rows=(262144, 100000, 128))
ZIPF = dataclasses.replace(ROWS, label=f"{ROWS.label}, Zipf(1.2)", ids="zipf")
HOT = dataclasses.replace(ROWS, label=f"{ROWS.label}, 1/3 to one", ids="hot")
NARROW = Problem("262144 x 16", rows=(262144, 100000, 16))
SINGLE = Problem("262144 x 1", rows=(262144, 100000, 1))


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the board, for f32."""

    functions: tuple[str, ...]
    problem: Problem
    score: float | None
    peer: str
    factor: float
    """At least this many times faster than the peer."""


BOARD = (
    Row(("cumsum", "cumprod", "cummax"), SQUARE, 0.75, "torch", 5),
    Row(("cumsum", "cumprod", "cummax"), COLUMNS, 0.60, "torch", 10),
    Row(("cumsum",), ONE_ROW, 0.60, "torch", 2),
    Row(("cumsum_backward",), SQUARE, 0.75, "torch", 5),
    Row(("cumprod_backward",), SQUARE, 0.55, "torch", 10),
    Row(("cummax_backward",), SQUARE, 0.55, "torch", 3),
    Row(("logcumsumexp",), SQUARE, 0.25, "torch", 10),
    Row(("logcumsumexp_backward",), SQUARE, 0.30, "torch", 30),
    Row(("lerp", "lerp_backward"), SQUARE, 0.85, "torch", 1.2),
    Row(("sparsemax",), SQUARE, 0.50, "entmax", 20),
    Row(("sparsemax",), WIDE, 0.50, "entmax", 20),
    Row(("sparsemax_backward",), SQUARE, 0.70, "entmax", 5),
    Row(("segment_sum",), ROWS, 0.60, "torch", 1.5),
    Row(("unsorted_segment_sum",), ROWS, 0.45, "torch", 1.2),
    Row(("segment_sum_backward",), ROWS, 0.65, "torch", AT_PAR),
    Row(("embedding",), ROWS, None, "torch", AT_PAR),
    Row(("embedding_backward",), ROWS, 0.45, "torch", 2),
    Row(("embedding_backward",), ZIPF, 0.45, "torch", 2),
    Row(("embedding_backward",), NARROW, None, "torch", 2),
    Row(("embedding_backward",), SINGLE, None, "torch", 2),
    Row(("embedding_backward",), HOT, None, "torch", 2),
)

SIZES = (2**16, 2**20, 2**24, 2**27)
"""Numbers of elements at which the time per element is measured."""
_ROW = 4096
_WIDTH = 128
SMALL = (32, 64)
"""The problem on which the cost of a call is measured."""


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
        fields: dict[str, Any] = dict(self.function.fixed)
        if self.op.has_indices:
            fields.update(axis_sizes(self.op, *self.problem.rows))
        for info in self.op.fields:
            if isinstance(info.field, ShapeField):
                fields[info.name] = self.problem.shape
            elif isinstance(info.field, AxisOf):
                fields[info.name] = self.problem.axis
            elif isinstance(info.field, Real):
                fields[info.name] = WEIGHT
        made: Any = self.op.descriptor
        descriptor: Descriptor = made(element=self.element, **fields)
        return descriptor

    @property
    def name(self) -> str:
        return f"{self.function.name} {self.element} {self.problem.label}"

    def figure(self, peer: str) -> float:
        return self.figures.get(peer, AT_PAR)


def functions() -> dict[str, tuple[Op, Function]]:
    """Every function by name."""
    return {f.name: (op, f) for op in OPS.values() for f in op.functions}


def board_cells() -> Iterator[Cell]:
    """The board: f32 as written, then the other element types."""
    known = functions()
    for element in sorted(FLOATS, key=lambda kind: (kind is not ElementKind.F32, kind.value)):
        plain = element is ElementKind.F32
        for row in BOARD:
            for name in row.functions:
                op, function = known[name]
                score = row.score if plain or not row.score else OTHER_TYPES_SCORE * row.score
                figures = {row.peer: row.factor} if plain else {}
                if element in op.descriptor.elements:
                    yield Cell(op, function, element, row.problem, score, figures)


def call_cells() -> Iterator[Cell]:
    """The cost of a call: a small problem of every function."""
    rows, columns = SMALL
    problem = Problem(f"{rows} x {columns}", SMALL, rows=(rows, rows, columns))
    for op, function in functions().values():
        yield Cell(op, function, ElementKind.F32, problem)


def size_cells(elements: int) -> Iterator[Cell]:
    """A problem with that many elements, for every function."""
    count = max(elements // _WIDTH, 1)
    problem = Problem(
        f"{elements} elements",
        (max(elements // _ROW, 1), min(elements, _ROW)),
        rows=(count, max(count // 4, 1), _WIDTH),
    )
    for op, function in functions().values():
        yield Cell(op, function, ElementKind.F32, problem)
