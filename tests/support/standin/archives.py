"""Archives of kernels that are not as they should be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from ptx.run import kernels

from gradplan.engines.cuda.archive import Binary


class _Kernels(Mapping[str, Binary]):
    """Those that are tested, made or shipped."""

    def __getitem__(self, key: str) -> Binary:
        return kernels()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(kernels())

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Changed(_Kernels):
    """With one thing in place of another; by default, sums where there should be differences."""

    def __init__(self, old: bytes = b"sub.rn.f32", new: bytes = b"add.rn.f32") -> None:
        self.old, self.new = old, new

    def __getitem__(self, key: str) -> Binary:
        right = super().__getitem__(key)
        return dataclasses.replace(right, ptx=right.ptx.replace(self.old, self.new))


class Without(_Kernels):
    """Without those that have a word in their key."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __getitem__(self, key: str) -> Binary:
        if self.word in key:
            raise KeyError(key)
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        return (key for key in kernels() if self.word not in key)
