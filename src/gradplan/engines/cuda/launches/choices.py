"""Choices that only hardware can settle: thresholds between forms, and variants of kernels.

Results do not depend on them. `gradplan bench --engine cuda --tune` measures all of them and says
which to make; GRADPLAN_CUDA_CHOICES keeps them, as "scan.rows=8,scan.many=16384".
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping

from gradplan.vocabulary import Unsupported

VARIABLE = "GRADPLAN_CUDA_CHOICES"


@dataclasses.dataclass(frozen=True)
class Choice:
    default: int
    others: tuple[int, ...]
    """What is measured beside it."""
    doc: str
    only_these: bool = False
    """No other values make sense, or have kernels."""

    @property
    def values(self) -> tuple[int, ...]:
        return (self.default, *self.others)


def _switch(doc: str) -> Choice:
    return Choice(1, (0,), doc, only_these=True)


CHOICES: Mapping[str, Choice] = {
    "scan.many": Choice(
        2**15, (2**12, 2**13, 2**14, 2**16), "lines from which a thread takes a whole one"
    ),
    "scan.many_rows": Choice(
        2**11, (2**9, 2**10, 2**12), "rows from which a warp takes a whole one"
    ),
    "scan.short": Choice(64, (32, 128, 256), "the longest row that is left to a thread"),
    "scan.rows": Choice(4, (2, 8), "rows of a program, a warp each", only_these=True),
    "scan.vectors": _switch("rows are loaded 16 bytes at a time; 0: through shared memory"),
    "sparsemax.held": Choice(4096, (1024, 128), "the longest line that stays in registers", True),
    "sums.vectors": _switch("rows are summed 16 bytes a lane; 0: an element"),
    "gather.vectors": _switch("rows are copied 16 bytes a lane; 0: a word of 8"),
}

_made: dict[str, int] = {}
"""By `choosing`."""


def chosen(name: str) -> int:
    """A choice as it is made now."""
    if name in _made:
        return _made[name]
    return from_text(os.environ.get(VARIABLE, "")).get(name, CHOICES[name].default)


def from_text(text: str) -> dict[str, int]:
    """What the variable says.

    >>> from_text("scan.rows=8, scan.many=16384")
    {'scan.rows': 8, 'scan.many': 16384}
    """
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in CHOICES:
            raise Unsupported(f"{VARIABLE}: expected one of {', '.join(CHOICES)}; got {part!r}")
        choice = CHOICES[name]
        known = ", ".join(map(str, choice.values)) if choice.only_these else "a positive number"
        if not value.isdecimal() or not (
            int(value) in choice.values if choice.only_these else int(value) > 0
        ):
            raise Unsupported(f"{VARIABLE}: {name}: expected {known}; got {value!r}")
        found[name] = int(value)
    return found


def as_text(choices: Mapping[str, int]) -> str:
    """What the variable would say.

    >>> as_text({"scan.rows": 8})
    'scan.rows=8'
    """
    return ",".join(f"{name}={value}" for name, value in choices.items())


@contextlib.contextmanager
def choosing(choices: Mapping[str, int]) -> Iterator[None]:
    """Makes choices, for plans that are made and run for the first time meanwhile."""
    before = dict(_made)
    _made.update(choices)
    try:
        yield
    finally:
        _made.clear()
        _made.update(before)
