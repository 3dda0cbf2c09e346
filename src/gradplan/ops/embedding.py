"""Looking up rows of a table, and the gradient of the table.

    output[n, :]   = weight[indices[n], :]
    dweight[v, :]  = sum over n with indices[n] == v of dout[n, :]

Indices outside of [0, num_embeddings) raise or are skipped, as `bounds` says, and those equal to
`padding_idx` are skipped: the output has zeros there and they add nothing to dweight. Sums are
associated as for segments.
"""

from __future__ import annotations

from typing import Annotated, Any

from gradplan.declaration import (
    Arithmetic,
    Descriptor,
    Features,
    Figure,
    Function,
    Gradient,
    IndexInto,
    Like,
    Module,
    Only,
    Op,
    PackedRows,
    Peer,
    Rows,
    reads,
    reads_indices,
    writes,
)
from gradplan.vocabulary import Bounds, ElementKind, OpCategory


class _EmbeddingFields(Descriptor):
    num_embeddings: Annotated[Rows, "the number of rows of the table"]
    embedding_dim: Annotated[Features, "the number of elements in a row"]
    num_indices: Annotated[PackedRows, "the number of indices"]
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


_INDICES = reads_indices(
    "indices", "num_indices", into="num_embeddings", doc="which row each output row is"
)


def _torch_lookup(torch: Any, v: Any, out: Any) -> Any:
    if out is None:
        return lambda: torch.nn.functional.embedding(v.indices, v.weight, v.padding_idx)
    return lambda: torch.index_select(v.weight, 0, v.indices, out=out)


def _torch_table_gradient(torch: Any, v: Any, out: Any) -> Any:
    padding = -1 if v.padding_idx is None else v.padding_idx
    backward = torch.ops.aten.embedding_dense_backward
    return lambda: backward(v.dout, v.indices, v.num_embeddings, padding, False)


def _jax_table_gradient(jax: Any, v: Any, out: Any) -> Any:
    shape = (v.num_embeddings, *v.dout.shape[v.indices.ndim :])
    return lambda: jax.numpy.zeros(shape, v.dout.dtype).at[v.indices].add(v.dout)


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
            >>> gp.embedding(weight, np.array([1, 0, 7]), bounds="skip")
            array([[3., 4.],
                   [1., 2.],
                   [0., 0.]], dtype=float32)
            """,
            torch=Like(
                "torch.nn.functional.embedding",
                arguments="indices, weight, padding_idx=None, *, bounds='raise'",
                doc="""Rows of `weight` by index.

                The row `padding_idx` receives no gradient. An index outside of the table raises;
                with `bounds="skip"` it gives zeros.

                >>> embedding(torch.tensor([[1, 0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
                tensor([[[3., 4.],
                         [1., 2.]]])
                """,
                # PyTorch returns the padding row like any other; only its gradient skips it.
                only_gradient=("padding_idx",),
                operator="embedding_with_padding",
                ranks={"weight": 2},
                module=Module(
                    "Embedding",
                    """`torch.nn.Embedding` with a gradient that is the same on every run.

                    The state dict is the same. `max_norm`, `scale_grad_by_freq` and `sparse` are
                    refused.

                    >>> torch.manual_seed(0) and None
                    >>> table = Embedding(10, 3, padding_idx=0)
                    >>> table(torch.tensor([[1, 0, 9]])).shape
                    torch.Size([1, 3, 3])
                    """,
                    base="Embedding",
                    refuses=("max_norm", "scale_grad_by_freq", "sparse"),
                ),
                differs="`max_norm`, `scale_grad_by_freq` and `sparse` are not offered",
                other_elements=lambda torch, indices, weight, padding_idx, bounds: (
                    torch.nn.functional.embedding(indices, weight, padding_idx)
                ),
            ),
            jax=Like(
                "jnp.take(weight, indices, axis=0)",
                arguments="weight, indices, padding_idx=None, *, bounds='skip'",
                doc="""Rows of a table by index; one outside of the table gives zeros, as in JAX.

                With `bounds="raise"` it is an error, inside of `jit` as well. Negative indices are
                outside. `padding_idx` gives zeros; what gives zeros receives no gradient. The
                gradient of the table is deterministic.

                >>> embedding(jnp.float32([[1, 2], [3, 4]]), jnp.array([1, 0, 7]))
                Array([[3., 4.],
                       [1., 2.],
                       [0., 0.]], dtype=float32)
                """,
                differs="negative indices are out of range, and those give zeros, not NaN",
            ),
            peers=(
                Peer("torch", "torch.nn.functional.embedding", _torch_lookup),
                Peer(
                    "jax",
                    "jnp.take(weight, indices, axis=0)",
                    lambda jax, v, out: (
                        lambda: jax.numpy.take(v.weight, v.indices, axis=0, mode="clip")
                    ),
                ),
            ),
            figures=(Figure("rows", None, "torch", 1),),
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
            peers=(
                Peer("torch", "torch.ops.aten.embedding_dense_backward", _torch_table_gradient),
                Peer("jax", "jnp.zeros(shape).at[indices].add(dout)", _jax_table_gradient),
            ),
            figures=(
                Figure("rows", 0.45, "torch", 2),
                Figure("zipf", 0.45, "torch", 2),
                Figure("narrow", None, "torch", 2),
                Figure("single", None, "torch", 2),
                Figure("hot", None, "torch", 2),
            ),
        ),
    ),
)
