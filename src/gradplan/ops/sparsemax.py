"""Sparsemax along an axis, and its gradient.

`y` is the Euclidean projection of `x` on the probability simplex: `y[i] = max(x[i] - tau, 0)` with
the tau that makes the sum 1. With S the support (y > 0) of k elements,

    dx[i] = dy[i] - (sum over S of dy) / k  on S,  0 elsewhere

Rows have any length. Entries of -inf are masked out; a row with NaN or +inf, or of -inf alone, is
all NaN.
"""

from __future__ import annotations

from typing import Annotated

from gradplan.descriptor import AxisOf, Descriptor, Shape
from gradplan.spec import Arithmetic, Function, Gradient, Op, reads, writes
from gradplan.vocabulary import ElementKind, OpCategory


class _SoftmaxFields(Descriptor):
    input_shape: Annotated[Shape, "the shape of every tensor"]
    softmax_axis: Annotated[int, AxisOf("input_shape"), "the axis of the distribution"]
    element: Annotated[ElementKind, "the element type"]


class SparsemaxDescriptor(_SoftmaxFields):
    """Sparsemax along `softmax_axis`."""


class SparsemaxBackwardDescriptor(_SoftmaxFields):
    """The gradient of sparsemax."""


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
        ),
    ),
)
