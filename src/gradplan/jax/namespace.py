"""JAX's arrays for the rules of derivatives."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gradplan.binding import bind, element_of
from gradplan.functional import SIGNATURES
from gradplan.jax.problems import Problem, backward, forward

Array = Any


class JaxNamespace:
    """What `gradplan.declaration.Namespace` asks for, made of what JAX can differentiate."""

    def call(self, function: str, **values: Any) -> Any:
        signature = SIGNATURES[function]
        op = signature.op
        given = [(t, values[t.name]) for t in signature.inputs if values.get(t.name) is not None]
        element = element_of(function, op, signature.first, values[signature.first.name])
        names = [p.info.name for p in signature.parameters]
        options = {name: values[name] for name in names if name in values}
        desc, _ = bind(signature, [(t, x.shape) for t, x in given], element, options)
        known = {*values, *(t.name for t in signature.inputs)}
        absent = frozenset(name for name in known if values.get(name) is None)
        if op.forwards():
            family, problem = backward, Problem.of_gradient(op, desc, absent)
        else:
            family, problem = forward, Problem.make(op, desc, {}, absent)
        results = family.named(problem, values)
        wanted = [results.get(t.name) for t in signature.outputs]
        return tuple(wanted) if len(wanted) > 1 else wanted[0]

    def where(self, condition: Array, a: Any, b: Any) -> Array:
        return jnp.where(condition, a, b)

    def full_like(self, x: Array, value: float) -> Array:
        return jnp.full_like(x, value)

    def isnan(self, x: Array) -> Array:
        return jnp.isnan(x)

    def stop_gradient(self, x: Array) -> Array:
        return jax.lax.stop_gradient(x)

    def new_axis(self, x: Array) -> Array:
        return x[None]

    def first(self, x: Array) -> Array:
        return x[0]

    def shift(self, x: Array, axis: int, by: int, fill: float | Array) -> Array:
        if isinstance(fill, float):
            widths = [(0, 0, 0)] * x.ndim
            widths[axis] = (by, -by, 0)
            return jax.lax.pad(x, jnp.asarray(fill, x.dtype), widths)
        n = x.shape[axis]
        if n == 0:
            return x
        edge = jnp.expand_dims(fill, axis)
        kept = jax.lax.slice_in_dim(x, 0 if by > 0 else 1, n - 1 if by > 0 else n, axis=axis)
        return jnp.concatenate([edge, kept] if by > 0 else [kept, edge], axis)

    def edge(self, x: Array, axis: int, last: bool) -> Array:
        n = x.shape[axis]
        return jax.lax.index_in_dim(x, n - 1 if last else 0, axis, False) if n else x.sum(axis)

    def latest(self, mask: Array, axis: int, reverse: bool) -> Array:
        size = mask.shape[axis]
        place = jax.lax.broadcasted_iota(jnp.int32, mask.shape, axis)
        first = place == (size - 1 if reverse else 0)
        running = jax.lax.cummin if reverse else jax.lax.cummax
        return running(jnp.where(mask | first, place, size if reverse else -1), axis, reverse)

    def order(self, ids: Array) -> Array:
        return jnp.argsort(ids, stable=True)

    def rows(self, x: Array, positions: Array) -> Array:
        return jnp.asarray(x)[positions]  # indices may be NumPy's, which take no tracer

    def segment_ids(self, indptr: Array, rows: int) -> Array:
        indptr = jnp.asarray(indptr)
        return jnp.searchsorted(indptr, jnp.arange(rows, dtype=indptr.dtype), side="right") - 1

    def take_along(self, x: Array, positions: Array, axis: int) -> Array:
        return jnp.take_along_axis(x, positions, axis)
