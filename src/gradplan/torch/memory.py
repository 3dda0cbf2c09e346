"""New tensors for kernels to write; the memory of large ones is kept for the next of that size.

PyTorch gives the memory of a large tensor back to the system with the tensor, and gets it anew for
the next one: cleared, page by page, which takes longer than most kernels (64 MiB: 5 to 10 ms, the
running sum 4). A training step asks for the same sizes again and again. So the storages of large
outputs are remembered here, and one that nobody else refers to any more serves again.

`GRADPLAN_KEPT_MEMORY` says how many bytes may be kept, 0 for none; by default it is 1/32 of the
memory that the process may use and at most 1 GiB.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from gradplan.memory import LARGE, use_large_pages
from gradplan.torch.private import allocate, count_references
from gradplan.vocabulary import InvalidProblem

_VARIABLE = "GRADPLAN_KEPT_MEMORY"
_MOST = 1 << 30
_CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


class _Block:
    """The memory of a new tensor."""

    __slots__ = ("_address", "_storage", "size")

    def __init__(self, tensor: Any) -> None:
        self._storage = tensor.untyped_storage()
        self._address = self._storage.data_ptr()
        self.size = self._storage.nbytes()

    def is_intact(self) -> bool:
        """Is it still the same memory? It is not once it was resized or moved to be shared."""
        storage = self._storage
        return bool(storage.data_ptr() == self._address and storage.nbytes() == self.size)

    def references(self) -> tuple[int | None, int]:
        """How many there are to the storage: of PyTorch's (tensors, graphs) and of Python's.

        A storage has one Python object, which others may have as well.
        """
        return count_references(self._storage), sys.getrefcount(self._storage)

    def tensor(self, shape: Sequence[int], strides: Sequence[int], dtype: Any) -> Any:
        return torch.empty(0, dtype=dtype, device="cpu").set_(self._storage, 0, shape, strides)


_IDLE = _Block(torch.empty(1, device="cpu")).references()
"""The references to a block that only the block itself refers to."""


class KeptMemory:
    """Remembers storages, up to `limit` bytes in all.

    Threads need no lock: whoever looks at a block has taken it out of the queue.
    """

    def __init__(self, limit: int) -> None:
        self.limit = 0 if _IDLE[0] is None else limit
        self._blocks: deque[_Block] = deque()

    def new(self, shape: Sequence[int], strides: Sequence[int], dtype: Any, size: int) -> Any:
        """A tensor on an idle block of `size` bytes, or None if there is no such block."""
        block = self._take(size)
        if block is None:
            return None
        made = block.tensor(shape, strides, dtype)
        self._blocks.append(block)
        return made

    def keep(self, tensor: Any) -> None:
        """Remembers the storage of a new tensor, and forgets older ones if that is too much."""
        if tensor.nbytes <= self.limit:
            self._blocks.append(_Block(tensor))
            while sum(b.size for b in list(self._blocks)) > self.limit:
                self._blocks.popleft()

    def release(self) -> bool:
        """Gives everything back to the system that nobody else refers to. Was there anything?"""
        kept = bool(self._blocks)
        self._blocks.clear()
        return kept

    def _take(self, size: int) -> _Block | None:
        blocks = self._blocks
        for _ in range(len(blocks)):
            try:
                block = blocks.popleft()
            except IndexError:  # another thread has taken the rest
                return None
            if block.is_intact():
                if block.size == size and block.references() == _IDLE:
                    return block
                blocks.append(block)
        return None


def _limit() -> int:
    given = os.environ.get(_VARIABLE)
    if given:
        if not given.isdecimal():
            raise InvalidProblem(f"{_VARIABLE}: expected a number of bytes; got {given!r}")
        return int(given)
    return min(min(_sizes_of_memory(), default=0) // 32, _MOST)


def _sizes_of_memory() -> Iterator[int]:
    """The machine's, and what a container or a shell may have allowed of it."""
    with contextlib.suppress(AttributeError, ValueError, OSError):  # no such question here
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CONTAINER_LIMITS:
        with contextlib.suppress(ValueError, OSError):  # "max", or no such file
            yield int(Path(path).read_text())
    with contextlib.suppress(ImportError):  # Windows
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            yield soft


KEPT = KeptMemory(_limit())


def release_memory() -> None:
    """Gives memory that is kept for coming outputs back to the system.

    >>> release_memory()
    """
    KEPT.release()


class Output:
    """A new tensor: contiguous, but strided as the input `like` if there is one."""

    __slots__ = ("_arguments", "_like", "_size", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, like: int | None) -> None:
        strides = tuple(math.prod(n or 1 for n in shape[i + 1 :]) for i in range(len(shape)))
        self.shape = shape
        self._arguments = shape, strides, dtype  # of `allocate`
        self._size = math.prod(shape) * int(dtype.itemsize)  # in bytes
        self._like = like

    @property
    def described(self) -> tuple[Any, ...]:
        """For the fast path: `allocate` is enough for small contiguous ones."""
        small = self._arguments if self._size < LARGE else None
        return small, self.new, -1 if self._like is None else self._like

    def new(self, inputs: Sequence[Any]) -> Any:
        """One for a call with these inputs."""
        if self._like is not None and not inputs[self._like].is_contiguous():
            made = torch.empty_like(inputs[self._like])
            use_large_pages(made.data_ptr(), self._size)
            return made
        if self._size < LARGE:
            return allocate(*self._arguments)
        made = KEPT.new(*self._arguments, self._size)
        if made is None:
            made = _allocated(*self._arguments)
            use_large_pages(made.data_ptr(), self._size)
            KEPT.keep(made)
        return made


def _allocated(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Any:
    try:
        return allocate(shape, strides, dtype)
    except RuntimeError:
        if not KEPT.release():  # what was kept may be what is missing
            raise
    return allocate(shape, strides, dtype)
