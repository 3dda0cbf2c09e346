"""The functions of `gradplan.jax`, with the names and arguments of JAX."""

from __future__ import annotations

from typing import Any, Literal, SupportsFloat, SupportsIndex

import jax
import jax.numpy as jnp

from gradplan.jax.calls import call
from gradplan.vocabulary import Ties

Array = Any  # jax.Array, or what jax.numpy.asarray makes one of
_Ties = Ties | Literal["first", "last"]


def cumsum(operand: Array, axis: SupportsIndex = 0, reverse: bool = False) -> Array:
    """Running sum along an axis, as `jax.lax.cumsum`.

    >>> cumsum(jnp.float32([1, 2, 3]), reverse=True)
    Array([6., 5., 3.], dtype=float32)
    """
    return call("cumsum", {"operand": operand}, axis=axis, reverse=reverse)


def cumprod(operand: Array, axis: SupportsIndex = 0, reverse: bool = False) -> Array:
    """Running product along an axis, as `jax.lax.cumprod`. Gradients are right with zeros.

    >>> cumprod(jnp.float32([[1, 2], [3, 4]]))
    Array([[1., 2.],
           [3., 8.]], dtype=float32)
    """
    return call("cumprod", {"operand": operand}, axis=axis, reverse=reverse)


def cummax(
    operand: Array, axis: SupportsIndex = 0, reverse: bool = False, *, ties: _Ties = "first"
) -> Array:
    """Running maximum along an axis, as `jax.lax.cummax`.

    Of equal maxima the first one (or the last, as `ties` says) receives the whole gradient; JAX
    shares it out.

    >>> cummax(jnp.float32([1, 3, 2, 4]))
    Array([1., 3., 3., 4.], dtype=float32)
    >>> jax.grad(lambda x: cummax(x).sum())(jnp.float32([1, 3, 3, 2]))
    Array([1., 3., 0., 0.], dtype=float32)
    """
    return call(
        "cummax", {"operand": operand}, axis=axis, reverse=reverse, backward=[("ties", ties)]
    )


def cummin(
    operand: Array, axis: SupportsIndex = 0, reverse: bool = False, *, ties: _Ties = "first"
) -> Array:
    """Running minimum along an axis, as `jax.lax.cummin`; `ties` as for `cummax`.

    >>> cummin(jnp.float32([3, 1, 2, 0]))
    Array([3., 1., 1., 0.], dtype=float32)
    """
    return call(
        "cummin", {"operand": operand}, axis=axis, reverse=reverse, backward=[("ties", ties)]
    )


def cumlogsumexp(operand: Array, axis: SupportsIndex = 0, reverse: bool = False) -> Array:
    """Logarithm of the running sum of exponentials, as `jax.lax.cumlogsumexp`.

    >>> cumlogsumexp(jnp.float32([-jnp.inf, 1000, -jnp.inf]))
    Array([ -inf, 1000., 1000.], dtype=float32)
    """
    return call("logcumsumexp", {"operand": operand}, axis=axis, reverse=reverse)


logcumsumexp = cumlogsumexp


def segment_sum(
    data: Array,
    segment_ids: Array,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
) -> Array:
    """Sums of the rows with the same id, as `jax.ops.segment_sum`.

    Ids outside of [0, num_segments) are dropped. `num_segments` must be given inside of `jit`; by
    default it is the largest id plus one. Ids that are said to be sorted and are not: an error.

    >>> segment_sum(jnp.float32([1, 2, 3]), jnp.array([1, 0, 1]))
    Array([2., 4.], dtype=float32)
    """
    if num_segments is None:
        segment_ids = jnp.asarray(segment_ids)
        if isinstance(segment_ids, jax.core.Tracer):
            raise jax.errors.ConcretizationTypeError(
                segment_ids, "gradplan.jax.segment_sum needs num_segments where ids are traced"
            )
        num_segments = max(0, int(segment_ids.max(initial=-1)) + 1)
    name = "segment_sum" if indices_are_sorted else "unsorted_segment_sum"
    return call(name, {"data": data, "segment_ids": segment_ids}, num_segments=num_segments)


def embedding(weight: Array, indices: Array, padding_idx: SupportsIndex | None = None) -> Array:
    """Rows of a table by index, as `jnp.take(weight, indices, axis=0)`.

    Indices outside of the table, negative ones included, and `padding_idx` give zeros and receive
    no gradient. The gradient of the table is deterministic.

    >>> embedding(jnp.float32([[1, 2], [3, 4]]), jnp.array([1, 0, 7]))
    Array([[3., 4.],
           [1., 2.],
           [0., 0.]], dtype=float32)
    """
    return call("embedding", {"weight": weight, "indices": indices}, padding_idx=padding_idx)


def lerp(a: Array, b: Array, weight: SupportsFloat) -> Array:
    """Linear interpolation from a (weight 0) to b (weight 1), exact at both ends.

    a and b broadcast. The weight is a number, not an array: it is part of the problem.

    >>> lerp(jnp.float32([0, 10]), jnp.float32([4, 20]), 0.25)
    Array([ 1. , 12.5], dtype=float32)
    """
    return call("lerp", {"a": a, "b": b}, weight=float(weight))


def sparsemax(operand: Array, axis: SupportsIndex = -1) -> Array:
    """Sparse alternative to `jax.nn.softmax`: the nearest probability distribution.

    >>> sparsemax(jnp.float32([1.0, 0.5, -1.0]))
    Array([0.75, 0.25, 0.  ], dtype=float32)
    """
    return call("sparsemax", {"operand": operand}, axis=axis)
