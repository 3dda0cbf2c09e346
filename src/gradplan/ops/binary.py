"""Elementwise functions of two tensors and a scalar, and their gradients.

    lerp   y = a + w (b - a) for |w| < 0.5, else b - (b - a)(1 - w): exact at both ends
           y = a (1 - w) + b w where b - a overflows
           da = (1 - w) dy,  db = w dy

The scalar `param` (the weight w) is a Python float, rounded once to the compute type.
"""

from __future__ import annotations

from typing import Annotated, Any

from gradplan.declaration import (
    Descriptor,
    Figure,
    Function,
    Gradient,
    Like,
    Op,
    Peer,
    Shape,
    reads,
    writes,
)
from gradplan.vocabulary import BinaryKind, ElementKind, OpCategory


class _BinaryFields(Descriptor):
    kind: Annotated[BinaryKind, "the function"]
    shape: Annotated[Shape, "the shape of every tensor"]
    element: Annotated[ElementKind, "the element type"]
    param: Annotated[float, "the scalar; the weight of b in lerp"]


class BinaryParamDescriptor(_BinaryFields):
    """An elementwise function of a, b and a scalar."""


class BinaryParamBackwardDescriptor(_BinaryFields):
    """The gradients of an elementwise function of two tensors and a scalar."""


def _lerp(name: str, doc: str, **records: Any) -> Function:
    return Function(
        name,
        doc,
        fixed={"kind": BinaryKind.LERP},
        names={"param": "weight"},
        figures=(Figure("square", 0.85, "torch", 1.2),),
        **records,
    )


BINARY_PARAM = Op(
    BinaryParamDescriptor,
    OpCategory.BINARY,
    "Linear interpolation between two tensors.",
    tensors=(
        reads("a", "shape", doc="the result for weight 0"),
        reads("b", "shape", doc="the result for weight 1"),
        writes("y", "shape", doc="the interpolation", inplace=("a", "b")),
    ),
    functions=(
        _lerp(
            "lerp",
            """Linear interpolation from a (weight 0) to b (weight 1); a and b broadcast.

            >>> gp.lerp(np.float32([0, 10]), np.float32([4, 20]), 0.25)
            array([ 1. , 12.5], dtype=float32)
            """,
            torch=Like(
                "torch.lerp",
                doc="""Linear interpolation from a (weight 0) to b (weight 1), exact at both.

                a and b broadcast; the weight is a number.

                >>> lerp(torch.tensor([0.0, 10.0]), torch.tensor([4.0, 20.0]), 0.25)
                tensor([ 1.0000, 12.5000])
                """,
                differs="the weight is a number, not a tensor",
                other_elements=lambda torch, a, b, weight: torch.lerp(a, b, weight),
            ),
            jax=Like(
                doc="""Linear interpolation from a (weight 0) to b (weight 1), exact at both ends.

                a and b broadcast. The weight is a number, not an array: it is part of the problem.

                >>> lerp(jnp.float32([0, 10]), jnp.float32([4, 20]), 0.25)
                Array([ 1. , 12.5], dtype=float32)
                """,
            ),
            peers=(
                Peer(
                    "torch",
                    "torch.lerp",
                    lambda torch, v, out: lambda: torch.lerp(v.a, v.b, v.weight, out=out),
                ),
                Peer(
                    "jax",
                    "a + weight * (b - a)",
                    lambda jax, v, out: lambda: v.a + v.a.dtype.type(v.weight) * (v.b - v.a),
                ),
            ),
        ),
    ),
    gradient=Gradient(
        "binary_param_backward", cotangents={"dy": "y"}, grads={"da": "a", "db": "b"}
    ),
    broadcasts="segment_sum_backward",
)

BINARY_PARAM_BACKWARD = Op(
    BinaryParamBackwardDescriptor,
    OpCategory.BINARY,
    "The gradients of a linear interpolation.",
    tensors=(
        reads("dy", "shape", doc="the gradient of the interpolation"),
        writes("da", "shape", doc="the gradient of a", inplace=("dy",)),
        writes("db", "shape", doc="the gradient of b", inplace=("dy",)),
    ),
    functions=(
        _lerp(
            "lerp_backward",
            """Gradients of `lerp` with respect to a and b.

            >>> gp.lerp_backward(np.float32([8, 16]), 0.25)
            (array([ 6., 12.], dtype=float32), array([2., 4.], dtype=float32))
            """,
        ),
    ),
)
