"""The words in which kernels say what is wrong with indices.

A call does not wait for the GPU, so what is wrong with indices is found while nobody can be told.
Kernels leave the first offence in these words, 64 bits each, which are zero before the first call;
a call without an offence does not write them. Results are those of bounds="skip". Ids that should
ascend and do not give sums of no meaning; nothing outside of the output is touched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradplan.vocabulary import Error, IndexOutOfRange, InvalidProblem

OUTSIDE = 0
"""Position + 1 of the first index that is out of bounds, and its value."""
DESCENT = 2
"""Position + 1 of the first index smaller than the one before it; its value, and that one's."""
WORDS = 5


def offence(
    words: Sequence[int], name: str, count: int, shape: tuple[int, ...] | None = None
) -> Error | None:
    """What the words say about the indices called `name`, of which `count` are allowed; `shape` is
    theirs, if they are no line.

    >>> offence([0, 0, 0, 0, 0], "ids", 3)
    >>> offence([5, -1, 0, 0, 0], "ids", 3)
    IndexOutOfRange('ids[4] = -1: expected an index in [0, 3)')
    >>> offence([5, -1, 0, 0, 0], "ids", 3, (2, 4))
    IndexOutOfRange('ids[1, 0] = -1: expected an index in [0, 3)')
    >>> offence([5, -1, 2, 0, 1], "ids", 3)
    InvalidProblem('ids[1] = 0 after ids[0] = 1: expected ascending ids')
    """
    end, value, before = (int(word) for word in words[DESCENT:WORDS])
    if end:
        return InvalidProblem(
            f"{name}[{end - 1}] = {value} after {name}[{end - 2}] = {before}: "
            "expected ascending ids"
        )
    end, value = (int(word) for word in words[OUTSIDE:DESCENT])
    if end:
        at = [end - 1] if shape is None else np.unravel_index(end - 1, shape)
        where = ", ".join(str(int(i)) for i in at)
        return IndexOutOfRange(f"{name}[{where}] = {value}: expected an index in [0, {count})")
    return None
