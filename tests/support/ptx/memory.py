"""Memory of a launch: what its pointers may reach, and nothing beside it."""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import Misaligned, OutOfBounds, Race

Array = np.ndarray[Any, Any]
POISON = 0xCD


class Region:
    """Bytes from an address on, seen as words of any width at their natural alignment."""

    def __init__(self, address: int, data: Array) -> None:
        self.address = address
        self.end = address + data.size
        self.data = data
        self._words: dict[int, tuple[int, Array]] = {}

    def words(self, width: int) -> tuple[int, Array]:
        """The address of the first word of a width, and all of them."""
        if width not in self._words:
            skip = -self.address % width
            count = max(self.data.size - skip, 0) // width
            words = self.data[skip : skip + count * width].view(f"u{width}")
            self._words[width] = self.address + skip, words
        return self._words[width]


def _bytes_at(address: int, size: int) -> Array:
    """Memory of this process, as it is."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


class Memory:
    """Regions of global memory; they may not overlap."""

    def __init__(self, regions: Iterable[Region]) -> None:
        self.regions = sorted((r for r in regions if r.data.size), key=lambda r: r.address)
        self.starts = [r.address for r in self.regions]

    @classmethod
    def of_addresses(cls, ranges: Iterable[tuple[int, int]]) -> Memory:
        """Memory of this process, as (first, end); ranges that touch or overlap become one."""
        merged: list[list[int]] = []
        for first, end in sorted(r for r in ranges if r[0] < r[1]):
            if merged and first < merged[-1][1]:
                merged[-1][1] = max(end, merged[-1][1])
            else:
                merged.append([first, end])
        return cls(
            Region(
                first, np.ctypeslib.as_array((ctypes.c_uint8 * (end - first)).from_address(first))
            )
            for first, end in merged
        )

    def _split(self, addresses: Array, width: int) -> list[tuple[Region, Any]]:
        """Which of the addresses lie in which region."""
        if width > 1 and np.count_nonzero(addresses & (width - 1)):
            raise Misaligned(f"{width} bytes at {int(addresses[(addresses % width) != 0][0]):#x}")
        first, last = int(np.minimum.reduce(addresses)), int(np.maximum.reduce(addresses))
        region = self._at(first, width)
        if last + width <= region.end:
            return [(region, slice(None))]
        parts = []
        left = np.ones(addresses.size, bool)
        while left.any():
            region = self._at(int(addresses[left].min()), width)
            chosen = left & (addresses + width <= region.end)
            if not chosen.any():
                raise OutOfBounds(f"{width} bytes at {int(addresses[left].min()):#x}")
            parts.append((region, np.flatnonzero(chosen)))
            left &= ~chosen
        return parts

    def _at(self, address: int, width: int) -> Region:
        number = bisect.bisect_right(self.starts, address) - 1
        if number < 0 or address + width > self.regions[number].end:
            raise OutOfBounds(f"{width} bytes at {address:#x}")
        return self.regions[number]

    def load(self, addresses: Array, width: int, count: int) -> list[Array]:
        """`count` words of `width` bytes from each address on."""
        parts = self._split(addresses, width * count)
        if len(parts) == 1:
            start, words = parts[0][0].words(width)
            at = (addresses - start) // width
            return [words[at + k] if k else words[at] for k in range(count)]
        loaded = [np.empty(addresses.size, f"u{width}") for _ in range(count)]
        for region, chosen in parts:
            start, words = region.words(width)
            at = (addresses[chosen] - start) // width
            for k in range(count):
                loaded[k][chosen] = words[at + k]
        return loaded

    def store(self, addresses: Array, values: list[Array]) -> None:
        width = values[0].dtype.itemsize
        for region, chosen in self._split(addresses, width * len(values)):
            start, words = region.words(width)
            at = (addresses[chosen] - start) // width
            for k, value in enumerate(values):
                part = value[chosen]
                words[at + k] = part
                if np.count_nonzero(words[at + k] != part):
                    raise Race("different values at one address")

    def update(self, address: int, width: int, change: Any) -> int:
        """An atomic operation of one lane: returns what was there."""
        region = self._split(np.array([address], np.int64), width)[0][0]
        start, words = region.words(width)
        at = (address - start) // width
        old = int(words[at])
        words[at] = change(old) & ((1 << (8 * width)) - 1)
        return old


class Shared:
    """Shared memory: the same addresses again for each program."""

    def __init__(self, programs: int, size: int) -> None:
        self.size = size
        self.stride = -(-size // 16) * 16
        self.memory = Memory([Region(0, np.full(programs * self.stride, POISON, np.uint8))])

    def _placed(self, addresses: Array, programs: Array, width: int) -> Array:
        if np.count_nonzero((addresses < 0) | (addresses > self.size - width)):
            raise OutOfBounds(f"{width} bytes of {self.size} of shared memory")
        return addresses + programs * self.stride

    def load(self, addresses: Array, programs: Array, width: int, count: int) -> list[Array]:
        return self.memory.load(self._placed(addresses, programs, width * count), width, count)

    def store(self, addresses: Array, programs: Array, values: list[Array]) -> None:
        width = values[0].dtype.itemsize * len(values)
        self.memory.store(self._placed(addresses, programs, width), values)
