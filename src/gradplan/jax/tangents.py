"""What the declarations do not say: J t of the functions that are not linear.

A formula gets the tangents, the saved tensors by name and the problem, all in the compute type, and
must be linear in the tangents and differentiable by the saved tensors. It uses the kernels where
they fit, so forward mode is fast as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gradplan.functional import SIGNATURES
from gradplan.jax.problems import Problem, backward, forward
from gradplan.vocabulary import ElementKind, ScanKind, Ties

Array = Any


def formula(problem: Problem, tangents: Sequence[Array], saved: Sequence[Array]) -> list[Array]:
    """J t: the tangent of each output of the forward."""
    element = problem.desc.element
    wide = problem.replace(element=element.compute)
    named = {t.name: _cast(x, element.compute) for t, x in zip(problem.saved, saved, strict=True)}
    moving = [_cast(t, element.compute) for t in tangents]
    return [_cast(FORMULAS[problem.function](*moving, named, wide), element)]


def _cast(x: Array, kind: ElementKind) -> Array:
    return x.astype(kind.dtype)


# Along the scan's axis -------------------------------------------------------------------------


def _shift(x: Array, axis: int, by: int, fill: float) -> Array:
    """x[i - by] at i, along an axis; `fill` where there is none."""
    widths = [(0, 0, 0)] * x.ndim
    widths[axis] = (by, -by, 0)
    return jax.lax.pad(x, jnp.asarray(fill, x.dtype), widths)


def _before(x: Array, desc: Any, fill: float) -> Array:
    """The element before each one in the order of the scan; `fill` before the first."""
    return _shift(x, desc.scan_axis, -1 if desc.reverse else 1, fill)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def recurrence(b: Array, a: Array, axis: int, reverse: bool) -> Array:
    """t[i] = b[i] + a[i] t[i-1] along an axis, t = b at the first element.

    This is what the backward of cumprod computes in the other direction, where every y is 1.
    """
    signature = SIGNATURES[ScanKind.CUMPROD.value]
    made: Any = signature.op.descriptor
    desc = made(
        **signature.function.fixed,
        input_shape=b.shape,
        scan_axis=axis,
        reverse=not reverse,
        element=ElementKind.from_dtype_name(b.dtype.name),
    )
    problem = Problem.make(signature.op, desc, {})
    # There the factor between two elements belongs to the later one of the reversed scan.
    factors = _shift(a, axis, 1 if reverse else -1, 1.0)
    (t,) = backward(problem, b, factors, jnp.ones_like(a))
    return t


@recurrence.defjvp  # type: ignore[untyped-decorator]
def _recurrence_jvp(axis: int, reverse: bool, primals: Any, tangents: Any) -> Any:
    b, a = primals
    db, da = tangents
    t = recurrence(b, a, axis, reverse)
    source = db + da * _shift(t, axis, -1 if reverse else 1, 0.0)
    return t, recurrence(source, a, axis, reverse)


# Formulas --------------------------------------------------------------------------------------


def _cumprod(t: Array, saved: Mapping[str, Array], problem: Problem) -> Array:
    desc: Any = problem.desc
    before = _before(saved["y"], desc, 1.0)
    return recurrence(before * t, saved["x"], desc.scan_axis, desc.reverse)


def _extreme(t: Array, saved: Mapping[str, Array], problem: Problem) -> Array:
    """The tangent of the element that each output was taken from: the last record so far."""
    desc: Any = problem.desc
    options: Any = problem.grad_desc
    x = jax.lax.stop_gradient(saved["x"])
    (y,) = forward(problem, x)
    before = _before(y, desc, 0.0)
    new = x != before if options.ties is Ties.FIRST else x == x
    # y is x where x is an extreme so far, an earlier element that is equal included.
    record = new & (x == y) | jnp.isnan(x) & ((options.ties is Ties.LAST) | ~jnp.isnan(before))
    place = jax.lax.broadcasted_iota(jnp.int32, x.shape, desc.scan_axis)
    first = place == (x.shape[desc.scan_axis] - 1 if desc.reverse else 0)
    running = jax.lax.cummin if desc.reverse else jax.lax.cummax
    unseen = x.shape[desc.scan_axis] if desc.reverse else -1
    place = running(jnp.where(record | first, place, unseen), desc.scan_axis, desc.reverse)
    return jnp.take_along_axis(t, place, desc.scan_axis)


def _weight(x: Array, y: Array) -> Array:
    """exp(x - y) for x <= y: 0 for x = -inf whatever y is, 1 for equal values, infinities included.

    Both branches stay finite where they are not taken, so derivatives are finite too.
    """
    plain = (x != -jnp.inf) & (jnp.isfinite(x) & jnp.isfinite(y) | jnp.isnan(x) | jnp.isnan(y))
    difference = jnp.where(plain, x, 0.0) - jnp.where(plain, y, 0.0)
    return jnp.where(plain, jnp.exp(difference), jnp.where((x == y) & (x > 0), 1.0, 0.0))


def _logcumsumexp(t: Array, saved: Mapping[str, Array], problem: Problem) -> Array:
    desc: Any = problem.desc
    x, y = saved["x"], saved["y"]
    before = _before(y, desc, -jnp.inf)
    return recurrence(_weight(x, y) * t, _weight(before, y), desc.scan_axis, desc.reverse)


def _sparsemax(t: Array, saved: Mapping[str, Array], problem: Problem) -> Array:
    # J is symmetric, and constant as long as the support is.
    (result,) = backward(problem, t, jax.lax.stop_gradient(saved["y"]))
    return result


FORMULAS: dict[str, Callable[..., Array]] = {
    "cumprod": _cumprod,
    "cummax": _extreme,
    "cummin": _extreme,
    "logcumsumexp": _logcumsumexp,
    "sparsemax": _sparsemax,
}
"""By function. What is not here must be linear."""
