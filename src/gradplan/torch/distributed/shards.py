"""An axis that is cut over ranks: where the cuts are, and how shards get other cuts."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import torch

from gradplan.torch.distributed.ranks import Ranks

CHUNK = 4096
"""The contract's: orders of scans count in chunks from where the scan begins."""

Intervals = Sequence[tuple[int, int]]
"""Of each rank, the first place of the axis and that behind the last one."""


@dataclasses.dataclass(frozen=True)
class AxisShards:
    """Which rank has which places of an axis."""

    intervals: tuple[tuple[int, int], ...]

    @staticmethod
    def of_sizes(sizes: Sequence[int]) -> AxisShards:
        """Shards of these sizes, one behind the other."""
        ends = list(itertools.accumulate(sizes))
        return AxisShards(tuple(zip([0, *ends[:-1]], ends, strict=True)))

    @property
    def extent(self) -> int:
        """Places in all."""
        return self.intervals[-1][1]

    def whole_chunks(self, *, from_end: bool) -> AxisShards:
        """The shards nearest to these that begin at multiples of a chunk, counted from one end."""
        n = self.extent

        def near(cut: int) -> int:
            place = n - cut if from_end else cut
            place = min((place + CHUNK // 2) // CHUNK * CHUNK, n)
            return n - place if from_end else place

        cuts = [0, *(near(first) for first, _ in self.intervals[1:]), n]
        return AxisShards(tuple(itertools.pairwise(cuts)))

    def neighbours(self, of: AxisShards, *, behind: bool) -> Intervals:
        """The place in front of each shard of others, or behind it; none at the axis' ends."""
        places = [last if behind else first - 1 for first, last in of.intervals]
        return [(p, p + 1) if 0 <= p < self.extent else (0, 0) for p in places]


def _common(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    first = max(a[0], b[0])
    return first, max(min(a[1], b[1]), first)


def _length(interval: tuple[int, int]) -> int:
    return interval[1] - interval[0]


def move(
    ranks: Ranks, axis: int, have: AxisShards, wanted: Sequence[tuple[torch.Tensor, Intervals]]
) -> list[torch.Tensor]:
    """Of each tensor, of which this rank has the shard that `have` says, what is wanted here.

    Only what other ranks want is sent, all of it in one message, or none; what stays is not copied
    unless something comes beside it.
    """
    start = have.intervals[ranks.rank][0]
    parts, counts, kept = [], [], []
    for x, want in wanted:
        lines = x.movedim(axis, 0)

        def mine(interval: tuple[int, int], lines: Any = lines) -> Any:
            first, last = _common(have.intervals[ranks.rank], interval)
            return lines[max(first - start, 0) : max(last - start, 0)]

        parts.append([mine((0, 0) if r == ranks.rank else want[r]) for r in range(ranks.size)])
        kept.append(mine(want[ranks.rank]))
        overlaps = [_common(theirs, want[ranks.rank]) for theirs in have.intervals]
        counts.append([0 if r == ranks.rank else _length(o) for r, o in enumerate(overlaps)])
    stays = all(
        _length(_common(mine, theirs)) == _length(theirs)
        for _, want in wanted
        for mine, theirs in zip(have.intervals, want, strict=True)
    )
    came = [list(part) for part in parts] if stays else ranks.exchange(parts, counts)
    found = []
    for own, others in zip(kept, came, strict=True):
        others[ranks.rank] = own
        pieces = [piece for piece in others if len(piece)] or [own]
        whole = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        found.append(whole.movedim(0, axis))
    return found
