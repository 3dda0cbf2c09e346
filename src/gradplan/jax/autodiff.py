"""Derivatives of the three primitives, of any order and in both modes.

Reverse mode runs the backward's kernel: it is the transpose of `tangent`. What changes with the
saved tensors (second derivatives) comes from differentiating the formulas in tangents.py.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, mlir

from gradplan.jax.problems import Problem, backward, forward, tangent
from gradplan.jax.tangents import formula


def _known(x: Any) -> bool:
    return type(x) is not ad.Zero


def _dense(x: Any) -> Any:
    return ad.instantiate_zeros(x)


def _push(problem: Problem, tangents: Sequence[Any], saved: Sequence[Any]) -> list[Any]:
    """J t, by the forward's own kernel where that is linear."""
    if not problem.is_linear:
        return tangent(problem, *tangents, *saved)
    named = {t.name: x for t, x in zip(problem.wrt, tangents, strict=True)}
    named.update({t.name: x for t, x in zip(problem.saved, saved, strict=True)})
    return forward(problem, *(named[t.name] for t in problem.op.inputs))


def _pull(problem: Problem, cotangents: Sequence[Any], saved: Sequence[Any]) -> list[Any]:
    """J^T g as a function that can be differentiated by the saved tensors too."""
    zeros = [
        jnp.zeros(problem.op.tensor_shape(t, problem.desc), problem.desc.element.dtype)
        for t in problem.wrt
    ]
    _, transposed = jax.vjp(lambda *t: formula(problem, t, saved), *zeros)
    return list(transposed(list(cotangents)))


def _sum(parts: Sequence[Sequence[Any]], like: Sequence[Any]) -> list[Any]:
    """The sum of some lists of arrays, none of them perhaps."""
    if not parts:
        return [jnp.zeros_like(x) for x in like]
    return [functools.reduce(operator.add, xs) for xs in zip(*parts, strict=True)]


# Forward ---------------------------------------------------------------------------------------


def _forward_jvp(primals: Any, tangents: Any, *, problem: Problem) -> Any:
    results = forward(problem, *primals)
    named = {t.name: x for t, x in zip(problem.op.inputs, primals, strict=True)}
    named.update({t.name: y for t, y in zip(problem.op.outputs, results, strict=True)})
    given = {t.name: x for t, x in zip(problem.op.inputs, tangents, strict=True)}
    moving = [given[t.name] for t in problem.wrt]
    saved = [named[t.name] for t in problem.saved]
    return results, _push(problem, [_dense(t) for t in moving], saved)


def _forward_transpose(cotangents: Any, *args: Any, problem: Problem) -> Any:
    named = {t.name: x for t, x in zip(problem.op.inputs, args, strict=True)}
    saved = [named[t.name] for t in problem.saved]
    grads = _transposed(problem, cotangents, saved)
    return [
        grads[t.name] if ad.is_undefined_primal(x) else None
        for t, x in zip(problem.op.inputs, args, strict=True)
    ]


def _transposed(problem: Problem, cotangents: Any, saved: Sequence[Any]) -> dict[str, Any]:
    """The gradients of the forward's inputs, by name."""
    by_output = {t.name: g for t, g in zip(problem.op.outputs, cotangents, strict=True)}
    given = [_dense(by_output[problem.gradient.cotangents[t.name]]) for t in problem.cotangents]
    grads = backward(problem, *given, *saved)
    return {t.name: g for t, g in zip(problem.wrt, grads, strict=True)}


# Tangent ---------------------------------------------------------------------------------------


def _tangent_lower(*args: Any, problem: Problem) -> list[Any]:
    count = len(problem.wrt)
    return formula(problem, args[:count], args[count:])


def _tangent_jvp(primals: Any, tangents: Any, *, problem: Problem) -> Any:
    count = len(problem.wrt)
    moved, saved = primals[:count], primals[count:]
    results = tangent(problem, *primals)
    changes = []
    if any(map(_known, tangents[:count])):
        changes.append(tangent(problem, *map(_dense, tangents[:count]), *saved))
    if any(map(_known, tangents[count:])):
        _, second = jax.jvp(
            lambda *s: formula(problem, moved, s), saved, tuple(map(_dense, tangents[count:]))
        )
        changes.append(second)
    return results, _sum(changes, results)


def _tangent_transpose(cotangents: Any, *args: Any, problem: Problem) -> Any:
    count = len(problem.wrt)
    grads = _transposed(problem, cotangents, args[count:])
    return [grads[t.name] for t in problem.wrt] + [None] * (len(args) - count)


# Backward --------------------------------------------------------------------------------------


def _backward_jvp(primals: Any, tangents: Any, *, problem: Problem) -> Any:
    count = len(problem.cotangents)
    given, saved = primals[:count], primals[count:]
    results = backward(problem, *primals)
    changes = []
    if any(map(_known, tangents[:count])):
        changes.append(backward(problem, *map(_dense, tangents[:count]), *saved))
    if not problem.is_linear and any(map(_known, tangents[count:])):
        _, second = jax.jvp(
            lambda *s: _pull(problem, given, s), saved, tuple(map(_dense, tangents[count:]))
        )
        changes.append(second)
    return results, _sum(changes, results)


def _backward_transpose(cotangents: Any, *args: Any, problem: Problem) -> Any:
    count = len(problem.cotangents)
    pushed = _push(problem, [_dense(g) for g in cotangents], args[count:])
    by_output = {t.name: g for t, g in zip(problem.op.outputs, pushed, strict=True)}
    grads = [by_output[problem.gradient.cotangents[t.name]] for t in problem.cotangents]
    return grads + [None] * (len(args) - count)


def register() -> None:
    """Tells JAX how to differentiate."""
    mlir.register_lowering(tangent.primitive, mlir.lower_fun(_tangent_lower, multiple_results=True))
    for family, jvp, transpose in (
        (forward, _forward_jvp, _forward_transpose),
        (tangent, _tangent_jvp, _tangent_transpose),
        (backward, _backward_jvp, _backward_transpose),
    ):
        ad.primitive_jvps[family.primitive] = jvp
        ad.primitive_transposes[family.primitive] = transpose
