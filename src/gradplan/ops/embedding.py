"""Looking up rows of a table, and the gradient of the table.

    output[n, :]   = weight[indices[n], :]
    dweight[v, :]  = sum over n with indices[n] == v of dout[n, :]

Indices outside of [0, num_embeddings) and those equal to `padding_idx` are skipped: the output has
zeros there and they add nothing to dweight. Sums are associated as for segments.
"""

from __future__ import annotations

from typing import Annotated

from gradplan.descriptor import Descriptor, IndexInto, Only, Pack, Size
from gradplan.spec import Arithmetic, Function, Gradient, Op, reads, reads_indices, writes
from gradplan.vocabulary import Bounds, ElementKind, OpCategory


class _EmbeddingFields(Descriptor):
    num_embeddings: Annotated[Size, "the number of rows of the table"]
    embedding_dim: Annotated[Pack, "the number of elements in a row"]
    num_indices: Annotated[Pack, "the number of indices"]
    padding_idx: Annotated[
        int | None, IndexInto("num_embeddings"), "an index that is skipped as well"
    ] = None
    element: Annotated[ElementKind, "the element type"]


class EmbeddingDescriptor(_EmbeddingFields):
    """A lookup of rows."""

    bounds: Annotated[Bounds, "skip indices outside of the table, or raise"] = Bounds.SKIP


class EmbeddingBackwardDescriptor(_EmbeddingFields):
    """The gradient of the table; with `accumulate` it is added to what dweight holds."""

    accumulate: Annotated[bool, "add to what the output holds instead of overwriting it"] = False
    bounds: Annotated[Bounds, "skip indices outside of the table, or raise"] = Bounds.SKIP


_INDICES = reads_indices("indices", "num_indices", doc="which row each output row is")

EMBEDDING = Op(
    EmbeddingDescriptor,
    OpCategory.EMBEDDING,
    "Rows of a table by index.",
    tensors=(
        reads("weight", "num_embeddings", "embedding_dim", doc="the table"),
        _INDICES,
        writes("output", "num_indices", "embedding_dim", doc="the rows"),
    ),
    functions=(
        Function(
            "embedding",
            """Rows of a table; zeros where an index is skipped. Indices may have any shape.

            >>> weight = np.float32([[1, 2], [3, 4]])
            >>> gp.embedding(weight, np.array([1, 0, 7]))
            array([[3., 4.],
                   [1., 2.],
                   [0., 0.]], dtype=float32)
            """,
        ),
    ),
    arithmetic=Arithmetic.COPY,
    gradient=Gradient(
        "embedding_backward", cotangents={"dout": "output"}, grads={"dweight": "weight"}
    ),
)

EMBEDDING_BACKWARD = Op(
    EmbeddingBackwardDescriptor,
    OpCategory.EMBEDDING,
    "The gradient of an embedding table, deterministic.",
    tensors=(
        reads("dout", "num_indices", "embedding_dim", doc="the gradient of the looked-up rows"),
        _INDICES,
        writes(
            "dweight",
            "num_embeddings",
            "embedding_dim",
            doc="the gradient of the table",
            updates=Only(accumulate={True}),
        ),
    ),
    functions=(
        Function(
            "embedding_backward",
            """Gradient of `embedding` with respect to the table.

            >>> gp.embedding_backward(np.float32([[1], [2], [4]]), np.array([1, 0, 1]), 3)
            array([[2.],
                   [5.],
                   [0.]], dtype=float32)
            """,
        ),
    ),
)
