"""`vmap`: a batch is one kernel call, with the batch folded into an axis that the op has.

Results do not depend on the other rows, columns or segments of a call (docs/numerics.md), so they
are the loop's bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import batching

from gradplan.descriptor import AxisOf, FieldInfo, IndexInto, ShapeField, SizeField
from gradplan.jax.problems import Family, Problem, backward, forward, tangent
from gradplan.spec import OPS, Op

Array = Any
Dims = Sequence[int | None]


def _batch(family: Family, args: Sequence[Array], dims: Dims, *, problem: Problem) -> Any:
    tensors = family.inputs(problem)
    if any(isinstance(info.field, ShapeField) for info in problem.op.fields):
        return _into_shape(family, problem, args, dims)
    axes = _Axes(problem.op)
    if all(dim is None for t, dim in zip(tensors, dims, strict=True) if t.index):
        return _into_features(family, problem, axes, args, dims)
    return _into_rows(family, problem, axes, args, dims)


def _batch_size(args: Sequence[Array], dims: Dims) -> int:
    return next(int(x.shape[d]) for x, d in zip(args, dims, strict=True) if d is not None)


def _with_batch_at(x: Array, dim: int | None, to: int, size: int) -> Array:
    if dim is None:
        shape = (*x.shape[:to], size, *x.shape[to:])
        return jnp.broadcast_to(jnp.expand_dims(x, to), shape)
    return jnp.moveaxis(x, dim, to)


def _into_shape(family: Family, problem: Problem, args: Sequence[Array], dims: Dims) -> Any:
    """Tensors of any shape: the batch is one more axis, left where it is."""
    size = _batch_size(args, dims)
    at = next(d for d in dims if d is not None)
    fields: dict[str, Any] = {}
    for info in problem.op.fields:
        value = getattr(problem.desc, info.name)
        if isinstance(info.field, ShapeField):
            fields[info.name] = (*value[:at], size, *value[at:])
        elif isinstance(info.field, AxisOf):
            fields[info.name] = value + (at <= value)
    given = [_with_batch_at(x, d, at, size) for x, d in zip(args, dims, strict=True)]
    results = family(problem.replace(**fields), *given)
    return results, [at] * len(results)


# Ops with indices ------------------------------------------------------------------------------


class _Axes:
    """The three axes of an op with indices: its rows, what their indices choose from, features."""

    def __init__(self, op: Op) -> None:
        (self.rows,) = next(t.axes for t in op.inputs if t.index)
        packs = {i.name: i.field.pack for i in op.fields if isinstance(i.field, SizeField)}
        del packs[self.rows]
        (self.features,) = (name for name, pack in packs.items() if pack)
        (self.table,) = (name for name, pack in packs.items() if not pack)


def _into_features(
    family: Family, problem: Problem, axes: _Axes, args: Sequence[Array], dims: Dims
) -> Any:
    """The same indices for all: every row becomes the rows of the batch side by side."""
    size = _batch_size(args, dims)
    features = getattr(problem.desc, axes.features)
    given = []
    for tensor, x, dim in zip(family.inputs(problem), args, dims, strict=True):
        if not tensor.index:
            x = _with_batch_at(x, dim, 1, size)
            x = x.reshape(x.shape[0], size * features)
        given.append(x)
    results = family(problem.replace(**{axes.features: size * features}), *given)
    return [y.reshape(y.shape[0], size, features) for y in results], [1] * len(results)


def _into_rows(
    family: Family, problem: Problem, axes: _Axes, args: Sequence[Array], dims: Dims
) -> Any:
    """Own indices for each: the rows of the batch one after the other."""
    size = _batch_size(args, dims)
    tensors = family.inputs(problem)
    table = getattr(problem.desc, axes.table)
    fields: dict[str, Any] = {axes.rows: size * getattr(problem.desc, axes.rows)}
    read = [dim for t, dim in zip(tensors, dims, strict=True) if axes.table in t.axes]
    written = any(axes.table in t.axes for t in family.outputs(problem))
    shared = not written and all(dim is None for dim in read)
    if not shared:  # each has its own part of a joint table
        fields[axes.table] = size * table
        fields.update({i.name: None for i in _paddings(problem.op)})
    given = []
    for tensor, x, dim in zip(tensors, args, dims, strict=True):
        if not (shared and axes.table in tensor.axes):
            x = _with_batch_at(x, dim, 0, size)
            if tensor.index and not shared:
                if size * table > jnp.iinfo(x.dtype).max:
                    return _one_by_one(family, problem, args, dims)
                x = _shifted(x, problem, table)
            x = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
        given.append(x)
    results = family(problem.replace(_unsorted(problem.op), **fields), *given)
    shapes = [problem.op.tensor_shape(t, problem.desc) for t in family.outputs(problem)]
    results = [y.reshape(size, *s) for y, s in zip(results, shapes, strict=True)]
    return results, [0] * len(results)


def _shifted(ids: Array, problem: Problem, table: int) -> Array:
    """The indices [batch, rows] into the joint table. What is skipped must stay so: -1."""
    inside = (ids >= 0) & (ids < table)
    for info in _paddings(problem.op):
        padding = getattr(problem.desc, info.name)
        if padding is not None:
            inside &= ids != padding
    start = jax.lax.broadcasted_iota(ids.dtype, ids.shape, 0) * table
    return jnp.where(inside, ids + start, -1)


def _paddings(op: Op) -> list[FieldInfo]:
    return [info for info in op.fields if isinstance(info.field, IndexInto)]


@functools.cache
def _unsorted(op: Op) -> Op:
    """The op that does the same with indices in any order: a batch of ascending ones descends."""
    if not any(t.ascending for t in op.inputs):
        return op
    names = [info.name for info in op.fields]
    return next(
        other
        for other in OPS.values()
        if other.gradient == op.gradient
        and [info.name for info in other.fields] == names
        and not any(t.ascending for t in other.inputs)
    )


def _one_by_one(family: Family, problem: Problem, args: Sequence[Array], dims: Dims) -> Any:
    """A loop, where the joint table has more rows than an index can say."""
    mapped = [jnp.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True) if d is not None]

    def one(batched: Sequence[Array]) -> list[Array]:
        rest = iter(batched)
        given = (x if d is None else next(rest) for x, d in zip(args, dims, strict=True))
        return family(problem, *given)

    results = jax.lax.map(one, mapped)
    return results, [0] * len(results)


def register() -> None:
    """Tells JAX how to batch."""
    for family in (forward, tangent, backward):
        rule = functools.partial(_batch, family)
        batching.primitive_batchers[family.primitive] = rule
