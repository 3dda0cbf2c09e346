"""Sparsemax along an axis, and its gradient.

`y` is the Euclidean projection of `x` on the probability simplex: `y[i] = max(x[i] - tau, 0)` with
the tau that makes the sum 1. With S the support (y > 0) of k elements,

    dx[i] = dy[i] - (sum over S of dy) / k  on S,  0 elsewhere

Rows have any length. Entries of -inf are masked out; a row with NaN or +inf, or of -inf alone, is
all NaN.
"""

from __future__ import annotations

from typing import Annotated, Any

from gradplan.declaration import (
    Arithmetic,
    AxisOf,
    Descriptor,
    Figure,
    Function,
    Gradient,
    Like,
    Module,
    Op,
    Peer,
    Shape,
    Symmetric,
    reads,
    writes,
)
from gradplan.vocabulary import ElementKind, OpCategory


class _SoftmaxFields(Descriptor):
    input_shape: Annotated[Shape, "the shape of every tensor"]
    softmax_axis: Annotated[int, AxisOf("input_shape"), "the axis of the distribution"]
    element: Annotated[ElementKind, "the element type"]


class SparsemaxDescriptor(_SoftmaxFields):
    """Sparsemax along `softmax_axis`."""


class SparsemaxBackwardDescriptor(_SoftmaxFields):
    """The gradient of sparsemax."""


# JAX has none; this is how the projections of its ecosystem do it, by sorting.


def _jax_sparsemax(jax: Any, v: Any, out: Any) -> Any:
    jnp, axis = jax.numpy, v.axis

    def call() -> Any:
        x = jnp.moveaxis(v.x, axis, -1)
        z = jnp.sort(x, axis=-1, descending=True)
        sums = jnp.cumsum(z, axis=-1) - 1
        count = (z * jnp.arange(1, x.shape[-1] + 1) > sums).sum(-1, keepdims=True)
        y = jnp.maximum(x - jnp.take_along_axis(sums, count - 1, -1) / count, 0)
        return jnp.moveaxis(y, -1, axis)

    return call


def _jax_sparsemax_backward(jax: Any, v: Any, out: Any) -> Any:
    jnp, axis = jax.numpy, v.axis

    def call() -> Any:
        support = v.y > 0
        total = jnp.where(support, v.dy, 0).sum(axis, keepdims=True)
        return jnp.where(support, v.dy - total / support.sum(axis, keepdims=True), 0)

    return call


def _entmax(entmax: Any, v: Any, out: Any) -> Any:
    return lambda: entmax.sparsemax(v.x, dim=v.axis)


SPARSEMAX = Op(
    SparsemaxDescriptor,
    OpCategory.SOFTMAX,
    "Projection on the probability simplex.",
    tensors=(
        reads("x", "input_shape", doc="the scores"),
        writes("y", "input_shape", doc="the probabilities", inplace=("x",)),
    ),
    functions=(
        Function(
            "sparsemax",
            """Sparse alternative to softmax: the nearest probability distribution.

            >>> gp.sparsemax(np.float32([1.0, 0.5, -1.0]))
            array([0.75, 0.25, 0.  ], dtype=float32)
            """,
            rule=Symmetric("sparsemax_backward", "dy"),
            torch=Like(
                "entmax.sparsemax",
                arguments="x, dim=-1",
                doc="""Sparse alternative to softmax along `dim`.

                >>> sparsemax(torch.tensor([1.0, 0.5, -1.0]))
                tensor([0.7500, 0.2500, 0.0000])
                """,
                float32_under_autocast=True,
                module=Module(
                    "Sparsemax",
                    """`sparsemax` along `dim`, as `torch.nn.Softmax` is softmax.

                    >>> Sparsemax(dim=1)(torch.tensor([[1.0, 0.5, -1.0]]))
                    tensor([[0.7500, 0.2500, 0.0000]])
                    """,
                ),
            ),
            jax=Like(
                arguments="operand, axis=-1",
                names={"operand": "x"},
                doc="""Sparse alternative to `jax.nn.softmax`: the nearest probability distribution.

                >>> sparsemax(jnp.float32([1.0, 0.5, -1.0]))
                Array([0.75, 0.25, 0.  ], dtype=float32)
                """,
            ),
            peers=(
                Peer("entmax", "entmax.sparsemax", _entmax),
                Peer("jax", "sparsemax by sorting", _jax_sparsemax, on_board=False),
            ),
            figures=(Figure("square", 0.50, "entmax", 20), Figure("wide", 0.50, "entmax", 20)),
        ),
    ),
    arithmetic=Arithmetic.FIXED_POINT,
    gradient=Gradient("sparsemax_backward", cotangents={"dy": "y"}, grads={"dx": "x"}),
)

SPARSEMAX_BACKWARD = Op(
    SparsemaxBackwardDescriptor,
    OpCategory.SOFTMAX,
    "The gradient of sparsemax.",
    tensors=(
        reads("dy", "input_shape", doc="the gradient of the probabilities"),
        reads("y", "input_shape", doc="the probabilities"),
        writes("dx", "input_shape", doc="the gradient of the scores", inplace=("dy",)),
    ),
    functions=(
        Function(
            "sparsemax_backward",
            """Gradient of `sparsemax`, from its output.

            >>> gp.sparsemax_backward(np.float32([1, 3, 5]), np.float32([0.75, 0.25, 0]))
            array([-1.,  1.,  0.], dtype=float32)
            """,
            peers=(
                Peer(
                    "jax",
                    "the gradient's formula",
                    _jax_sparsemax_backward,
                    on_board=False,
                ),
            ),
            figures=(Figure("square", 0.70, "entmax", 5),),
        ),
    ),
)
