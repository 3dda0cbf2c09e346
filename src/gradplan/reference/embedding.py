"""Table lookup and its gradient: a gather, and a segment sum over the table's rows."""

from __future__ import annotations

from gradplan.vocabulary import InvalidProblem

from .arithmetic import Array, load, quiet, store
from .indices import selected
from .operations import operation
from .segment import gather, sums


@operation
def embedding(
    weight: Array, indices: Array, *, padding_idx: int | None = None, bounds: str = "skip"
) -> Array:
    """Row i of the result is row `indices[i]` of `weight`; zeros for the padding and outside.

    >>> import numpy as np
    >>> embedding(np.float32([[1], [2]]), np.array([1, 0, 7]), padding_idx=0).tolist()
    [[2.0], [0.0], [0.0]]
    """
    mask = selected(indices, len(weight), name="indices", bounds=bounds, padding_idx=padding_idx)
    return gather(weight, indices, mask)


@operation
@quiet
def embedding_backward(
    dout: Array,
    indices: Array,
    *,
    num_embeddings: int,
    padding_idx: int | None = None,
    accumulate: bool = False,
    bounds: str = "skip",
    dweight: Array | None = None,
) -> Array:
    """The gradient of `embedding` with respect to weight, or its addition to `dweight`.

    >>> import numpy as np
    >>> dout, indices = np.float32([[1], [2], [4]]), np.array([1, 0, 1])
    >>> embedding_backward(dout, indices, num_embeddings=2).tolist()
    [[2.0], [5.0]]
    >>> embedding_backward(dout, indices, num_embeddings=2, padding_idx=0, accumulate=True,
    ...                    dweight=np.float32([[10], [20]])).tolist()
    [[10.0], [25.0]]
    """
    mask = selected(indices, num_embeddings, name="indices", bounds=bounds, padding_idx=padding_idx)
    total, members = sums(dout, indices, mask, num_embeddings)
    if not accumulate:
        return store(total, dout.dtype)
    if dweight is None:
        raise InvalidProblem("embedding_backward: accumulate = True needs dweight")
    out = dweight.copy()
    touched = members > 0  # the others stay as they are, payloads of NaN included
    out[touched] = store(load(dweight[touched]) + total[touched], dweight.dtype)
    return out
