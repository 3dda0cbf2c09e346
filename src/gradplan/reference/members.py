"""The members of segments: in which order they are combined, and which segment is whose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .arithmetic import Array, load, multiply
from .order import BLOCK as BLOCK


class Members:
    """The rows that belong to a segment, segment by segment, in ascending input position.

    A segment is cut into blocks of 256 from its own start.
    """

    def __init__(self, ids: Array, mask: Array, count: int) -> None:
        positions = np.flatnonzero(mask)
        self.rows = len(ids)
        self.order = positions[np.argsort(ids[positions], kind="stable")]
        """The input position of each member."""
        self.segment = ids[self.order]
        self.count = np.bincount(self.segment, minlength=count)
        """How many members each segment has."""
        self.rank = np.arange(len(self.order)) - (np.cumsum(self.count) - self.count)[self.segment]
        """The place of each member in its segment."""
        self.starts = np.flatnonzero(self.rank % BLOCK == 0)
        """The first member of each block."""
        self.lengths = np.diff(self.starts, append=len(self.order))
        self.nth = self.rank[self.starts] // BLOCK
        """The place of each block in its segment."""

    def take(self, rows: Array) -> Array:
        """The members' rows of a tensor, in the compute type."""
        return load(rows[self.order])

    def spread(self, table: Array) -> Array:
        """What the members' segments have in a table."""
        return table[self.segment]

    def back(self, values: Array) -> Array:
        """The inverse of `take`; 0 for rows that belong to no segment."""
        out = np.zeros((self.rows, *values.shape[1:]), values.dtype)
        out[self.order] = values
        return out

    def counts_like(self, table: Array) -> Array:
        """The numbers of members in the type of a table, to be divided by."""
        return self.count.astype(table.dtype).reshape(-1, *[1] * (table.ndim - 1))

    def blocks(self, values: Array, combine: Callable[[Array, Array], Array]) -> Array:
        """Each block combined serially from its first member."""
        partial = values[self.starts]
        for k in range(1, self.lengths.max(initial=0)):
            longer = self.lengths > k
            partial[longer] = combine(partial[longer], values[self.starts[longer] + k])
        return partial

    def reduce(
        self, values: Array, combine: Callable[[Array, Array], Array], empty: float
    ) -> Array:
        """Each segment: its blocks, combined serially in order."""
        partial = self.blocks(values, combine)
        total = np.full((len(self.count), *values.shape[1:]), empty, values.dtype)
        for k in range(self.nth.max(initial=-1) + 1):
            here = self.nth == k
            owner = self.segment[self.starts[here]]  # each once, so assignments do not collide
            total[owner] = partial[here] if k == 0 else combine(total[owner], partial[here])
        return total

    def products_of_others(self, x: Array) -> Array:
        """For each member the product of the others: those before it, times those behind it.

        Either side: the members of its own block, serially, and the blocks beyond, serially.
        """
        blocks = self.blocks(x, multiply)
        last = np.diff(self.nth, append=0) <= 0  # the last block of its segment
        early, late = np.ones_like(blocks), np.ones_like(blocks)
        for k in range(1, self.nth.max(initial=0) + 1):
            here = np.flatnonzero(self.nth == k)
            early[here] = multiply(early[here - 1], blocks[here - 1])
        for k in range(self.nth.max(initial=0), 0, -1):
            here = np.flatnonzero((self.nth == k - 1) & ~last)
            late[here] = multiply(blocks[here + 1], late[here + 1])
        before, behind = np.ones_like(x), np.ones_like(x)
        longest = self.lengths.max(initial=0)
        for k in range(1, longest):
            at = self.starts[self.lengths > k] + k
            before[at] = multiply(before[at - 1], x[at - 1])
        for k in range(longest - 2, -1, -1):
            at = self.starts[self.lengths > k + 1] + k
            behind[at] = multiply(x[at + 1], behind[at + 1])
        own = np.repeat(np.arange(len(blocks)), self.lengths)
        return multiply(multiply(early[own], before), multiply(behind, late[own]))
