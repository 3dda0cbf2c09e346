"""Members of rows that live on other ranks: who owns a row, and how often each rank names it.

A table of rows is cut as DTensor's `Shard(0)` cuts it. Every rank has members: ids of rows, in an
order. Ranks in order, members of a rank in order: that is the order of one process, and the order
in which an owner adds up what the members bring.

Sums are made of blocks of 256 members (docs/numerics.md). Where a whole block of a row's members
stands on one rank, that rank finishes it and one row travels instead of 256. Blocks count from
the row's first member, so a rank has to know how many members lower ranks have: the owner tells,
and only for rows with at least 256 members on the rank that asks.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from gradplan.torch.distributed.agreement import agree
from gradplan.torch.distributed.ranks import Ranks
from gradplan.vocabulary import InvalidProblem

BLOCK = 256
"""Members that are summed one after the other before blocks are added (docs/numerics.md)."""


class RowShards(NamedTuple):
    """How rows are cut over ranks."""

    rows: int
    ranks: int

    @property
    def each(self) -> int:
        return -(-self.rows // self.ranks)

    @property
    def starts(self) -> list[int]:
        """Where each rank's rows begin, and the end."""
        return [min(self.rows, r * self.each) for r in range(self.ranks + 1)]

    def of(self, rank: int) -> slice:
        starts = self.starts
        return slice(starts[rank], starts[rank + 1])


class Finished(NamedTuple):
    """Where whole blocks stand among the members that a rank has of some rows."""

    lead: torch.Tensor
    """Members up to the first whole block."""
    whole: torch.Tensor
    """How many whole blocks follow."""

    @classmethod
    def of(cls, before: torch.Tensor, count: torch.Tensor) -> Finished:
        """For `count` members behind `before` others on lower ranks."""
        lead = torch.minimum(-before % BLOCK, count)
        return cls(lead, (count - lead) // BLOCK)


def occurrence(keys: torch.Tensor) -> torch.Tensor:
    """How often each key stood before it: [5, 7, 5, 5] gives [0, 0, 1, 2]."""
    order = torch.argsort(keys, stable=True)
    grouped = keys[order]
    places = torch.arange(len(keys), device=keys.device)
    begins = torch.ones_like(grouped, dtype=torch.bool)
    begins[1:] = grouped[1:] != grouped[:-1]
    first = torch.cummax(torch.where(begins, places, 0), 0).values
    result = torch.empty_like(places)
    result[order] = places - first
    return result


class Members:
    """What the ranks have told each other about their members."""

    def __init__(
        self,
        ranks: Ranks,
        ids: torch.Tensor,
        rows: int,
        *,
        element: torch.dtype,
        shape: Sequence[int],
        skipped: int | None = None,
        error: BaseException | None = None,
    ) -> None:
        """`ids` are flat and i64, `shape` is that of a row. `skipped` is a row without members."""
        self.ranks, self.shards = ranks, RowShards(rows, ranks.size)
        self.element, self.shape = element, tuple(shape)
        if error is not None:
            ids = ids.new_empty(0, dtype=torch.int64)
        self.ids = ids
        self.distinct, self.inverse, count = torch.unique(
            ids, return_inverse=True, return_counts=True
        )
        self.member = None if skipped is None else ids != skipped
        if skipped is not None:
            count[self.distinct == skipped] = 0
        self.count = count
        ends = torch.searchsorted(
            self.distinct, torch.tensor(self.shards.starts, device=ids.device)
        ).tolist()
        self.wanted = [ends[r + 1] - ends[r] for r in range(ranks.size)]
        """How many distinct rows this rank names, by owner."""
        error = error or self._too_many(rows)
        told = agree(
            ranks,
            element,
            (rows, *self.shape),
            counts=[self.wanted],
            error=error,
            device=ids.device,
        )
        self.asked = told[0]
        """How many distinct rows of this rank's the others name, by rank."""
        # A row and how often it is named, in one number: V rows leave 63 - log2(V) bits.
        words = self.distinct | (self.count << self._bits)
        (got,) = ranks.exchange([words.split(self.wanted)], [self.asked])
        words = torch.cat(got)
        self.asked_rows = (words & ((1 << self._bits) - 1)) - self.first_row
        """Rows of this rank that are named, by asking rank; counted from this rank's first."""
        self.asked_count = words >> self._bits
        self._tell: list[torch.Tensor] = []

    @property
    def _bits(self) -> int:
        return max(self.shards.rows - 1, 1).bit_length()

    def _too_many(self, rows: int) -> BaseException | None:
        most = 1 << (63 - self._bits)
        if len(self.ids) < most:
            return None
        return InvalidProblem(
            f"ids: expected fewer than {most} for {rows} rows; got {len(self.ids)}"
        )

    @property
    def first_row(self) -> int:
        return self.shards.starts[self.ranks.rank]

    @property
    def local_rows(self) -> int:
        own = self.shards.of(self.ranks.rank)
        return own.stop - own.start

    # Whole blocks

    @functools.cached_property
    def asked_before(self) -> torch.Tensor:
        """For each entry of `asked_rows`: the members of that row on lower ranks."""
        # Entries stand by rank; a stable sort by row has the ranks of a row in order.
        order = torch.argsort(self.asked_rows, stable=True)
        rows, count = self.asked_rows[order], self.asked_count[order]
        total = torch.cumsum(count, 0) - count
        begins = torch.ones_like(rows, dtype=torch.bool)
        begins[1:] = rows[1:] != rows[:-1]
        first = torch.cummax(torch.where(begins, total, 0), 0).values
        result = torch.empty_like(count)
        result[order] = total - first
        return result

    @property
    def _many(self) -> torch.Tensor:
        """The distinct rows of which this rank may have a whole block."""
        return self.count >= BLOCK

    @property
    def _asked_many(self) -> torch.Tensor:
        return self.asked_count >= BLOCK

    def answer(self, rows: torch.Tensor | None = None) -> list[torch.Tensor]:
        """Tells the ranks how many members come before theirs, and sends them `rows`, if given.

        `rows` has one for each of `asked_rows`; what comes has one for each of `distinct`.
        """
        many = self._asked_many
        before = self.asked_before[many] if bool(many.any()) else self.asked_count[:0]
        asked_many = [int(part.sum()) for part in many.split(self.asked)]
        told = [int(part.sum()) for part in self._many.split(self.wanted)]
        parts: list[Any] = [before.split(asked_many)]
        sizes = [told]
        if rows is not None:
            parts.append(rows.split(self.asked))
            sizes.append(self.wanted)
        got = self.ranks.exchange(parts, sizes)
        self.before = torch.cat(got[0])
        return got[1] if rows is not None else []

    @functools.cached_property
    def finished(self) -> Finished:
        """This rank's whole blocks, for each of `distinct`."""
        lead, whole = torch.zeros_like(self.count), torch.zeros_like(self.count)
        made = Finished.of(self.before, self.count[self._many])
        lead[self._many], whole[self._many] = made
        return Finished(lead, whole)
