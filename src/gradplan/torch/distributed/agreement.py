"""A message of a fixed size before the data: either every rank raises the same error, or none.

Backends do not check what ranks send each other: more bytes than expected end the process that
receives them, and another element type is silently reinterpreted. So nothing whose size depends
on a rank's arguments is sent before all ranks know that they mean the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradplan.torch.distributed.ranks import Ranks
from gradplan.vocabulary import NUMERICS_VERSION, Error, IndexOutOfRange, InvalidProblem

_FIELDS, _EXTENTS, _TEXT = 16, 8, 384
HEADER_BYTES = 8 * _FIELDS + _TEXT
COUNTS = _FIELDS - 4 - _EXTENTS
"""How many counts a rank may tell another one in its message."""

_ERRORS = {kind.__name__: kind for kind in (InvalidProblem, IndexOutOfRange, Error)}


def _message(error: BaseException | None) -> bytes:
    if error is None:
        return b""
    kind = next(k for k in _ERRORS.values() if isinstance(error, k) or k is Error)
    return f"{kind.__name__}: {error}".encode()[:_TEXT]


def refusal(check: Callable[[], Any]) -> BaseException | None:
    """What a check of this rank's arguments raises: for `agree`, so that all ranks raise it."""
    try:
        check()
    except (Error, TypeError, ValueError) as error:
        return error
    return None


def agree(
    ranks: Ranks,
    dtype: torch.dtype,
    shape: Sequence[int],
    *,
    counts: Sequence[Sequence[int]] = (),
    error: BaseException | None = None,
    device: Any = "cpu",
) -> list[list[int]]:
    """Raises on every rank if one has an `error`, or another operation, element type or shape.

    `counts[k][r]` is told to rank r; the result has what the others tell, in the same form.
    """
    head = [NUMERICS_VERSION, _code(ranks.what), _code(str(dtype)), len(shape)]
    head += [*shape[:_EXTENTS], *[0] * (_EXTENTS - len(shape))]
    fields = torch.zeros(ranks.size, _FIELDS, dtype=torch.int64)
    fields[:, : len(head)] = torch.tensor(head)
    for k, each in enumerate(counts):
        fields[:, len(head) + k] = torch.tensor(each)
    text = torch.frombuffer(bytearray(_message(error).ljust(_TEXT, b"\0")), dtype=torch.uint8)
    mine = torch.cat([fields.view(torch.uint8), text.expand(ranks.size, -1)], 1)
    sizes = [HEADER_BYTES] * ranks.size
    every = ranks.all_to_all(mine.reshape(-1).to(device), sizes, sizes).cpu()
    every = every.view(ranks.size, HEADER_BYTES)
    for rank, row in enumerate(every):
        said = bytes(row[8 * _FIELDS :].tolist()).rstrip(b"\0").decode(errors="replace")
        if said:
            kind, _, rest = said.partition(": ")
            raise _ERRORS.get(kind, Error)(f"{ranks.what}: rank {rank}: {rest}")
    told = every[:, : 8 * _FIELDS].clone().view(torch.int64)
    for rank, row in enumerate(told.tolist()):
        _compare(ranks, rank, row[: len(head)], told[0].tolist())
    return told[:, len(head) : len(head) + len(counts)].T.tolist()


def _compare(ranks: Ranks, rank: int, row: list[int], first: list[int]) -> None:
    names = ["numerics version", "operation", "element type", "number of axes"]
    names += [f"extent {i}" for i in range(_EXTENTS)]
    for name, mine, other in zip(names, row, first, strict=False):
        if mine == other:
            continue
        known = [_name(other), _name(mine)] if name in ("operation", "element type") else None
        expected, got = known or (other, mine)
        raise InvalidProblem(
            f"{ranks.what}: {name}: expected the same on every rank; rank 0 has {expected}, "
            f"rank {rank} has {got}"
        )


_known: dict[int, str] = {}
"""The words behind the numbers: those that this process has used."""


def _code(word: str) -> int:
    number = zlib.crc32(word.encode())
    _known[number] = word
    return number


def _name(number: int) -> str:
    return _known.get(number, f"another one ({number:#x})")


for _dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    _code(str(_dtype))
