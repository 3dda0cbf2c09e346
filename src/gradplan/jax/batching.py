"""`vmap`: a batch is one kernel call, with the batch folded into an axis that the op has.

Results do not depend on the other rows, columns or segments of a call (docs/numerics.md), so they
are the loop's bit for bit. Which axis takes the batch follows from the roles of the axes; where
none does, it is a loop.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import batching

from gradplan.declaration import OPS, Arithmetic, AxisRole, Op, Tensor
from gradplan.jax.problems import Family, Problem, backward, forward, tangent
from gradplan.vocabulary import Bounds

Array = Any
Dims = Sequence[int | None]


def _batch(family: Family, args: Sequence[Array], dims: Dims, *, problem: Problem) -> Any:
    batch = _Batch(family, problem, args, dims)
    for fold in (batch.into_shape, batch.into_features, batch.into_rows):
        done = fold()
        if done is not None:
            return done
    return batch.one_by_one()


class _Batch:
    """A batched call of a primitive. Each way to serve it returns None where it does not apply."""

    def __init__(self, family: Family, problem: Problem, args: Sequence[Array], dims: Dims) -> None:
        self.family = family
        self.problem = problem
        self.op, self.desc = family.of(problem)
        self.inputs = list(zip(family.inputs(problem), args, dims, strict=True))
        self.outputs = family.outputs(problem)
        self.size = next(int(x.shape[d]) for _, x, d in self.inputs if d is not None)

    def with_batch_at(self, x: Array, dim: int | None, to: int) -> Array:
        if dim is None:
            shape = (*x.shape[:to], self.size, *x.shape[to:])
            return jnp.broadcast_to(jnp.expand_dims(x, to), shape)
        return jnp.moveaxis(x, dim, to)

    def served_by(self, has: Any) -> bool:
        """Whether everything that differs within the batch has a place for it."""
        given = all(has(t) for t, _, dim in self.inputs if dim is not None)
        return given and all(has(t) for t in self.outputs)

    # One more axis ------------------------------------------------------------------------------

    def into_shape(self) -> Any:
        """Tensors of any shape: the batch is one more axis, left where it is."""
        op, shape = self.op, self.op.shape_field
        if shape is None or op.sizes_with_role(AxisRole.ROWS):
            return None
        whole = [d for t, _, d in self.inputs if d is not None and t.axes == (shape,)]
        at = whole[0] if whole else 0
        extents = getattr(self.desc, shape)
        fields: dict[str, Any] = {shape: (*extents[:at], self.size, *extents[at:])}
        if op.axis_field is not None:
            worked = getattr(self.desc, op.axis_field)
            fields[op.axis_field] = worked + (at <= worked)
        problem = self.problem.replace(**fields)
        _, desc = self.family.of(problem)

        def place(tensor: Tensor) -> int | None:
            axes = op.axes_of(tensor, desc)
            found = (i for i, a in enumerate(axes) if (a.field, a.number) == (shape, at))
            return next(found, None)

        if not self.served_by(lambda t: place(t) is not None):
            return None
        given = []
        for tensor, x, dim in self.inputs:
            to = place(tensor)
            given.append(x if to is None else self.with_batch_at(x, dim, to))
        return self.family(problem, *given), [place(t) for t in self.outputs]

    # Side by side -------------------------------------------------------------------------------

    def into_features(self) -> Any:
        """The same indices for all: every row becomes the rows of the batch side by side."""
        if any(t.index and dim is not None for t, _, dim in self.inputs):
            return None
        for features in self.op.sizes_with_role(AxisRole.FEATURES):
            if self.served_by(lambda t, axis=features: axis in t.axes):
                return self.side_by_side(features)
        return None

    def side_by_side(self, features: str) -> Any:
        extent = getattr(self.desc, features)
        given = []
        for tensor, x, dim in self.inputs:
            if features in tensor.axes:
                at = tensor.axes.index(features)
                x = self.with_batch_at(x, dim, at)
                x = x.reshape(*x.shape[:at], self.size * extent, *x.shape[at + 2 :])
            given.append(x)
        results = self.family(self.problem.replace(**{features: self.size * extent}), *given)
        places = [t.axes.index(features) for t in self.outputs]
        return [
            y.reshape(*y.shape[:at], self.size, extent, *y.shape[at + 1 :])
            for y, at in zip(results, places, strict=True)
        ], places

    # One after the other ------------------------------------------------------------------------

    def into_rows(self) -> Any:
        """Own indices for each: the rows of the batch one after the other."""
        rows = self.joint_rows()
        if rows is None:
            return None
        extents = {name: getattr(self.desc, name) for name in rows}
        fields: dict[str, Any] = {name: self.size * extent for name, extent in extents.items()}
        # Of an index that is skipped each example would have its own; those become -1 below.
        fields.update({name: None for name, size in self.op.skipped.items() if size in rows})
        given = []
        for tensor, x, dim in self.inputs:
            if _lead(tensor) in rows:
                x = self.with_batch_at(x, dim, 0)
                if tensor.index and tensor.into in rows:
                    x = self.shifted(x, tensor.into)
                x = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
            given.append(x)
        results = self.family(self.in_any_order.replace(**fields), *given)
        shapes = [t.shape(self.desc) for t in self.outputs]
        results = [y.reshape(self.size, *s) for y, s in zip(results, shapes, strict=True)]
        return results, [0] * len(results)

    def joint_rows(self) -> set[str] | None:
        """The sizes that grow with the batch, or None where the rows of one example could not be
        told from those of the next."""
        inputs = [t for t, _, _ in self.inputs]
        indices = [t for t in inputs if t.index]
        differing = [t for t, _, dim in self.inputs if dim is not None]
        rows = needed = {_lead(t) for t in (*differing, *self.outputs)}
        # What is only copied out of a table may come from one table for all; sums may not mix.
        copies = self.op.arithmetic is Arithmetic.COPY
        while True:
            more = {_lead(t) for t in indices if t.into in rows}
            if not copies:
                more |= {t.into for t in indices if _lead(t) in rows}
            if more <= rows:
                break
            rows = rows | more
        if (
            not indices
            or self.raises_beside_skipped(rows)
            or not rows <= set(self.op.sizes_with_role(AxisRole.ROWS))
            or any(t.pointers or rows.intersection(t.axes[1:]) for t in (*inputs, *self.outputs))
            or any(_lead(t) in rows - needed for t in inputs if not t.index)  # many copies
            or any(t.index and t.into in rows for t in self.outputs)  # -1 may stand for something
            or any(t.ascending for t in self.family.inputs(self.in_any_order))
            or any(self.overflows(t, x) for t, x, _ in self.inputs if t.into in rows)
        ):
            return None
        return {name for name in rows if name is not None}

    def raises_beside_skipped(self, rows: set[str | None]) -> bool:
        """Whether one index is skipped, and others that are no row raise: then -1 cannot stand for
        the first."""
        raises = any(getattr(self.desc, info.name) is Bounds.RAISE for info in self.op.fields)
        skips = (
            size in rows and getattr(self.desc, name) is not None
            for name, size in self.op.skipped.items()
        )
        return raises and any(skips)

    @functools.cached_property
    def in_any_order(self) -> Problem:
        """The problem for indices in any order: a batch of ascending ones descends."""
        return self.problem.replace(_in_any_order(self.problem.op))

    def overflows(self, tensor: Tensor, ids: Array) -> bool:
        joint: int = self.size * getattr(self.desc, tensor.into)
        most: int = jnp.iinfo(ids.dtype).max
        return joint > most

    def shifted(self, ids: Array, into: str) -> Array:
        """The indices [batch, rows] into the joint table. What is skipped must stay so: -1."""
        table = getattr(self.desc, into)
        inside = (ids >= 0) & (ids < table)
        for name, size in self.op.skipped.items():
            skipped = getattr(self.desc, name)
            if size == into and skipped is not None:
                inside &= ids != skipped
        start = jax.lax.broadcasted_iota(ids.dtype, ids.shape, 0) * table
        return jnp.where(inside, ids + start, -1)

    # A loop -------------------------------------------------------------------------------------

    def one_by_one(self) -> Any:
        """A loop, which is always right."""
        mapped = [jnp.moveaxis(x, dim, 0) for _, x, dim in self.inputs if dim is not None]

        def one(batched: Sequence[Array]) -> list[Array]:
            rest = iter(batched)
            given = (x if dim is None else next(rest) for _, x, dim in self.inputs)
            return self.family(self.problem, *given)

        results = jax.lax.map(one, mapped)
        return results, [0] * len(results)


def _lead(tensor: Tensor) -> str | None:
    return tensor.axes[0] if tensor.axes else None


def _in_any_order(op: Op) -> Op:
    """The op that does the same with indices in any order; `op` itself if there is none."""
    if not any(t.ascending for t in op.inputs):
        return op
    fields = [info.name for info in op.fields]
    axes = [(t.name, t.axes) for t in op.tensors]
    for other in OPS.values():
        if (
            other.gradient is not None
            and other.gradient == op.gradient
            and [info.name for info in other.fields] == fields
            and [(t.name, t.axes) for t in other.tensors] == axes
            and not any(t.ascending for t in other.inputs)
        ):
            return other
    return op


def register() -> None:
    """Tells JAX how to batch."""
    for family in (forward, tangent, backward):
        rule = functools.partial(_batch, family)
        batching.primitive_batchers[family.primitive] = rule
