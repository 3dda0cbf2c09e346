"""What indices may be: bounds, padding, order."""

from __future__ import annotations

import numpy as np

from gradplan.vocabulary import Bounds, IndexOutOfRange, InvalidProblem

from .arithmetic import Array


def selected(
    indices: Array, count: int, *, name: str, bounds: str, padding_idx: int | None = None
) -> Array:
    """A mask of the indices that name a row: inside [0, count) and not `padding_idx`.

    bounds="raise" refuses the first index outside; the padding index is never an offence.

    >>> selected(np.array([0, -1, 2, 3]), 3, name="ids", bounds="skip", padding_idx=2).tolist()
    [True, False, False, False]
    """
    inside = (indices >= 0) & (indices < count)
    padding = np.zeros_like(inside) if padding_idx is None else indices == padding_idx
    offends = ~(inside | padding)
    if Bounds.parse(bounds) is Bounds.RAISE and offends.any():
        position = int(offends.argmax())
        raise IndexOutOfRange(
            f"{name}[{position}] = {int(indices[position])}: expected an index in [0, {count})"
        )
    return inside & ~padding


def check_sorted(ids: Array, *, name: str) -> None:
    """Refuse ids that go down anywhere, out-of-range ones included."""
    down = ids[1:] < ids[:-1]
    if down.any():
        position = int(down.argmax()) + 1
        raise InvalidProblem(
            f"{name}[{position}] = {int(ids[position])} after {name}[{position - 1}] = "
            f"{int(ids[position - 1])}: expected ascending ids"
        )
