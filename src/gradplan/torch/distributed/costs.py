"""What ranks send, as formulas: docs/distributed.md shows them, tests compare them with counters.

`Counts` are facts of one call on one rank. For a table that nobody has yet, `expected_counts` says
what they will be for ids that are drawn by their popularity.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from gradplan.torch.distributed.agreement import HEADER_BYTES
from gradplan.torch.distributed.members import BLOCK
from gradplan.torch.distributed.ranks import Traffic

ID = 8
"""Bytes of an id, or of a count."""


class Row(NamedTuple):
    """The bytes of a row: as it is, and in the type that sums are made in."""

    element: int
    compute: int

    @classmethod
    def of(cls, columns: int, element: int = 4, compute: int = 4) -> Row:
        return cls(columns * element, columns * compute)


@dataclasses.dataclass(frozen=True)
class Counts:
    """What one rank and the others have to do with each other in a call."""

    named: float
    """Distinct rows of other ranks that this rank names."""
    asked: float
    """Rows of this rank that others name: each once for every rank that does."""
    asked_often: float
    """Those of `asked` that are named at least 256 times by the rank that asks."""
    members: float
    """This rank's members of rows of others, without a skipped row."""
    blocks: float
    """Whole blocks of 256 among `members`, each of which travels as one row."""


def _sum(ranks: int, messages: int, *parts: float) -> Traffic:
    """A collective is a message to every other rank; one of them begins with the agreement."""
    others = ranks - 1
    return Traffic(round(HEADER_BYTES * others + sum(parts)), messages * others)


def lookup(ranks: int, row: Row, n: Counts) -> Traffic:
    """The forward of an embedding: ids there, rows back."""
    return _sum(ranks, 3, ID * n.named, ID * n.asked_often, row.element * n.asked)


def lookup_gradient(ranks: int, row: Row, n: Counts) -> Traffic:
    """The backward of an embedding: the members' rows go to the owners, blocks as one row."""
    single = n.members - BLOCK * n.blocks
    return _sum(ranks, 2, (ID + row.element) * single, (ID + row.compute) * n.blocks)


def segment_sum(ranks: int, row: Row, n: Counts) -> Traffic:
    """The forward of a segment sum: as a lookup that brings no rows back, and its gradient."""
    told = _sum(ranks, 3, ID * n.named, ID * n.asked_often)
    sums = lookup_gradient(ranks, row, n)
    return Traffic(told.bytes + sums.bytes, told.messages + sums.messages)


def segment_sum_gradient(ranks: int, row: Row, n: Counts) -> Traffic:
    """The backward of a segment sum: each row that is named comes back once."""
    return _sum(ranks, 2, row.element * n.asked)


# What others send, for comparison --------------------------------------------------------------


def all_reduce(ranks: int, size: float) -> float:
    """Bytes of a ring's all-reduce of `size` bytes: of a gradient of the whole table, say."""
    return 2 * size * (ranks - 1) / ranks


def dtensor(ranks: int, row: Row, members: float) -> float:
    """Bytes of DTensor's embedding as RowwiseParallel has it, forward and backward.

    All ids go to every rank, every rank makes a row of each of them, and these are added up and cut
    again; the rows of the gradient go to every rank.
    """
    return (ranks - 1) * members * (ID + 2 * row.element)


# Expectations ----------------------------------------------------------------------------------

_EXACT, _BINS = 1 << 16, 4096
Array = np.ndarray[Any, Any]


def popularity(rows: int, zipf: float) -> tuple[Array, Array]:
    """The probability of rows by Zipf's law (0: all the same), and how many rows have it.

    The first 65536 each, the others in bins of less than a percent of their number.
    """
    head = np.arange(1, min(rows, _EXACT) + 1, dtype=np.float64)
    edges = np.geomspace(len(head) + 1, rows + 1, _BINS).round() if rows > _EXACT else head[:0]
    edges = np.unique(edges)
    numbers = np.concatenate([head, np.sqrt(edges[1:] * edges[:-1])])
    count = np.concatenate([np.ones_like(head), np.diff(edges)])
    weight = numbers**-zipf
    return weight / (weight @ count), count


def expected_counts(ranks: int, rows: int, members: int, zipf: float = 0.0) -> Counts:
    """For `members` ids per rank, and rows that are dealt to ranks at random."""
    p, count = popularity(rows, zipf)
    remote = (ranks - 1) / ranks
    each = members * p  # how often a rank names a row
    named = remote * float(count @ -np.expm1(members * np.log1p(-p)))
    often = remote * float(count @ (each >= BLOCK))
    # Blocks begin anywhere: of n members n - 255 are the last of 256 in a row, every 256th counts.
    blocks = remote * float(count @ np.maximum(each - (BLOCK - 1), 0)) / BLOCK
    return Counts(named, named, often, remote * members, blocks)
