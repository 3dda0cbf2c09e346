"""The ranks of a process group: collectives that count what is sent, and say who is missing."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from gradplan.vocabulary import Error


@dataclasses.dataclass
class Traffic:
    """What a rank has sent to other ranks: bytes of data, and messages."""

    bytes: int = 0
    messages: int = 0


_counting: list[Traffic] = []


@contextlib.contextmanager
def count_traffic() -> Iterator[Traffic]:
    """Counts what this rank sends to others in functions of this package.

    Messages are those of a direct exchange: one to every other rank for each collective, and two
    for an all-reduce.
    """
    traffic = Traffic()
    _counting.append(traffic)
    try:
        yield traffic
    finally:
        _counting.remove(traffic)


class RankLost(Error, RuntimeError):
    """A rank did not take part: it has ended, waits elsewhere, or was too slow for the timeout."""


class Ranks:
    """A process group as its ranks see it."""

    def __init__(self, group: Any, what: str) -> None:
        self.group, self.what = group, what
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)

    def _call(self, collective: Callable[..., Any], *arguments: Any) -> None:
        try:
            collective(*arguments, group=self.group)
        except RuntimeError as error:
            first = str(error).strip().splitlines()[0]
            raise RankLost(
                f"{self.what}: rank {self.rank} of {self.size}: another rank did not take part "
                f"within the group's timeout, or its process has ended; nothing was written; the "
                f"process group cannot be used any more ({first})"
            ) from error

    def _count(self, size: int, messages: int) -> None:
        for traffic in _counting:
            traffic.bytes += size
            traffic.messages += messages

    def all_to_all(self, send: torch.Tensor, sent: Sequence[int], got: Sequence[int]) -> Any:
        """Bytes to every rank, `sent[r]` of them to rank r, and those of every rank, in order."""
        received = send.new_empty(sum(got))
        if self.size == 1:
            return received.copy_(send)
        self._call(dist.all_to_all_single, received, send, list(got), list(sent))
        self._count(sum(sent) - sent[self.rank], self.size - 1)
        return received

    def all_gather(self, x: torch.Tensor) -> torch.Tensor:
        """`x` of every rank, one behind the other along a new first axis; shapes are the same."""
        x = x.contiguous()
        if self.size == 1:
            return x[None]
        every = [torch.empty_like(x) for _ in range(self.size)]
        self._call(dist.all_gather, every, x)
        self._count(x.numel() * x.element_size() * (self.size - 1), self.size - 1)
        return torch.stack(every)

    def all_reduce(self, x: torch.Tensor, operation: Any) -> torch.Tensor:
        """In place; only for operations that have no order: sums of integers, extremes."""
        if self.size > 1:
            self._call(lambda y, group: dist.all_reduce(y, operation, group=group), x)
            others = self.size - 1
            self._count(2 * x.numel() * x.element_size() * others // self.size, 2 * others)
        return x

    def exchange(
        self, parts: Sequence[Sequence[torch.Tensor]], got: Sequence[Sequence[int]]
    ) -> list[list[torch.Tensor]]:
        """Several arrays to every rank in one message.

        `parts[k][r]` goes to rank r; `got[k][r]` is how many rows of array k come from there. The
        result has what came, `[k][r]`.
        """
        rows = [_row_bytes(part[0]) for part in parts]
        flat = [_as_bytes(part[r]) for r in range(self.size) for part in parts]
        sent = [
            sum(len(part[r]) * size for part, size in zip(parts, rows, strict=True))
            for r in range(self.size)
        ]
        coming = [
            sum(counts[r] * size for counts, size in zip(got, rows, strict=True))
            for r in range(self.size)
        ]
        received = self.all_to_all(torch.cat(flat), sent, coming)
        result: list[list[torch.Tensor]] = [[] for _ in parts]
        at = 0
        for r in range(self.size):
            for k, part in enumerate(parts):
                end = at + got[k][r] * rows[k]
                result[k].append(_from_bytes(received[at:end], part[0], got[k][r]))
                at = end
        return result


def _row_bytes(x: torch.Tensor) -> int:
    return x.element_size() * math.prod(x.shape[1:])


def _as_bytes(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().reshape(-1).view(torch.uint8)


def _from_bytes(x: torch.Tensor, like: torch.Tensor, count: int) -> torch.Tensor:
    # A slice may start anywhere, and the bytes of a float have to be aligned.
    return x.clone().view(like.dtype).reshape(count, *like.shape[1:])
