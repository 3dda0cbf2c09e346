"""Derivatives of the three primitives, of any order and in both modes.

Reverse mode runs the backward's kernel: it is the transpose of `tangent`. What changes with the
saved tensors (second derivatives) is in the declarations' rules.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, mlir

from gradplan.declaration import Descriptor, Kind, Tensor
from gradplan.jax.namespace import JaxNamespace
from gradplan.jax.problems import Problem, backward, dtype_of, forward, tangent, values_of
from gradplan.vocabulary import Unsupported

_XP = JaxNamespace()


def _known(x: Any) -> bool:
    return type(x) is not ad.Zero


def _dense(x: Any) -> Any:
    return ad.instantiate_zeros(x)


def _named(tensors: Sequence[Tensor], values: Sequence[Any]) -> dict[str, Any]:
    return {t.name: x for t, x in zip(tensors, values, strict=True)}


def _sum(parts: Sequence[Sequence[Any]], like: Sequence[Any]) -> list[Any]:
    """The sum of some lists of arrays, none of them perhaps."""
    if not parts:
        return [jnp.zeros_like(x) for x in like]
    return [functools.reduce(operator.add, xs) for xs in zip(*parts, strict=True)]


# Rules -----------------------------------------------------------------------------------------
# They compute in the compute type; what they give is rounded once.


def _wide(problem: Problem, tensor: Tensor, x: Any) -> Any:
    return x.astype(problem.desc.element.compute.dtype) if tensor.kind is Kind.ELEMENT else x


def _values(problem: Problem, tensors: Sequence[Tensor], arrays: Sequence[Any]) -> dict[str, Any]:
    """What a rule gets by name: the backward's tensors and options. What is not there is None."""
    values: dict[str, Any] = dict.fromkeys(problem.absent)
    values.update(values_of(problem.gradient_fields))
    for tensor, x in zip(tensors, arrays, strict=True):
        values[tensor.name] = _wide(problem, tensor, x)
    return values


def _results(
    result: Any, names: Sequence[Tensor], tensors: Sequence[Tensor], desc: Descriptor
) -> list[Any]:
    """What a rule gave, in the types of `tensors`: one array, or several by name."""
    if not isinstance(result, Mapping):
        (named,) = names
        result = {named.name: result}
    given = [result.get(named.name) for named in names]
    return [
        _zeros(t, desc) if x is None else _as(t, desc, x)
        for t, x in zip(tensors, given, strict=True)
    ]


def _zeros(tensor: Tensor, desc: Descriptor) -> Any:
    return jnp.zeros(tensor.shape(desc), dtype_of(tensor, desc))


def _as(tensor: Tensor, desc: Descriptor, x: Any) -> Any:
    return x.astype(dtype_of(tensor, desc))


def _formula(*args: Any, problem: Problem) -> list[Any]:
    """J t as the rule has it, for tangents and saved tensors."""
    assert problem.rule is not None
    count = len(problem.moving)
    moving = {
        t.name: _wide(problem, t, x) for t, x in zip(problem.moving, args[:count], strict=True)
    }
    values = _values(problem, problem.saved, args[count:])
    result = problem.rule.tangent(_XP, values, moving)
    return _results(result, problem.moved, problem.moved, problem.desc)


def _push(problem: Problem, tangents: Sequence[Any], saved: Sequence[Any]) -> list[Any]:
    """J t, by the forward's own kernel where that is linear."""
    desc = problem.desc
    moving = [_as(t, desc, _dense(x)) for t, x in zip(problem.moving, tangents, strict=True)]
    if problem.rule is not None:
        return tangent(problem, *moving, *saved)
    named = {**_named(problem.saved, saved), **_named(problem.moving, moving)}
    for t in problem.inputs:
        if t.name not in named:  # of no influence: the backward does without it
            named[t.name] = _zeros(t, desc)
    results = forward.named(problem, named)
    return [results[t.name] for t in problem.moved]


def _push_saved(problem: Problem, primals: Sequence[Any], changes: Sequence[Any]) -> Any:
    """The tangents of the backward's results for those of what it has saved, None for 0."""
    saved = [(t, x) for t, x in zip(problem.saved, changes, strict=True) if not t.index]
    if problem.rule is None or not any(_known(x) for _, x in saved):
        return None
    moving = {t.name: _wide(problem, t, _dense(x)) for t, x in saved}
    values = _values(problem, backward.inputs(problem), primals)
    result = problem.rule.push_saved(_XP, values, moving)
    if result is None:
        return None
    return _results(result, problem.moving, problem.grads, problem.gradient_fields)


# Forward ---------------------------------------------------------------------------------------


def _forward_jvp(primals: Any, tangents: Any, *, problem: Problem) -> Any:
    results = forward(problem, *primals)
    pushed: dict[str, Any] = {}
    if problem.grad_desc is not None:
        named = {**_named(problem.inputs, primals), **_named(problem.outputs, results)}
        given = _named(problem.inputs, tangents)
        saved = [named[t.name] for t in problem.saved]
        moving = [given[t.name] for t in problem.moving]
        if any(map(_known, moving)):
            pushed = _named(problem.moved, _push(problem, moving, saved))
    elif any(t.differentiable for t in problem.outputs):
        raise Unsupported(f"gradplan.jax: {problem.function.name} has no gradient")
    zeros = (ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results)
    return results, [
        pushed.get(t.name, zero) for t, zero in zip(problem.outputs, zeros, strict=True)
    ]


def _forward_transpose(cotangents: Any, *args: Any, problem: Problem) -> Any:
    named = {
        t.name: x
        for t, x in zip(problem.inputs, args, strict=True)
        if not ad.is_undefined_primal(x)
    }
    # It is linear in what is not known here: where that is 0 results are, too, and gradients are
    # the same everywhere.
    fields = problem.gradient_fields
    saved = [named[t.name] if t.name in named else _zeros(t, fields) for t in problem.saved]
    by_output = _named(problem.outputs, cotangents)
    grads = _pull(problem, [by_output[t.name] for t in problem.moved], saved)
    return [
        grads[t.name] if ad.is_undefined_primal(x) else None
        for t, x in zip(problem.inputs, args, strict=True)
    ]


def _pull(problem: Problem, cotangents: Any, saved: Sequence[Any]) -> dict[str, Any]:
    """The gradients of the forward's inputs by name, for cotangents in the backward's order."""
    fields = problem.gradient_fields
    given = [_as(t, fields, _dense(g)) for t, g in zip(problem.cotangents, cotangents, strict=True)]
    grads = backward(problem, *given, *saved)
    return {t.name: _as(t, problem.desc, g) for t, g in zip(problem.moving, grads, strict=True)}


# Tangent ---------------------------------------------------------------------------------------


def _tangent_jvp(primals: Any, tangents: Any, *, problem: Problem) -> Any:
    count = len(problem.moving)
    moved, saved = primals[:count], primals[count:]
    results = tangent(problem, *primals)
    changes = []
    if any(map(_known, tangents[:count])):
        changes.append(tangent(problem, *map(_dense, tangents[:count]), *saved))
    changing = [i for i, t in enumerate(tangents[count:]) if _known(t)]
    if changing:

        def result(*changed: Any) -> list[Any]:
            given = dict(zip(changing, changed, strict=True))
            rest = (given.get(i, x) for i, x in enumerate(saved))
            return _formula(*moved, *rest, problem=problem)

        at = tuple(saved[i] for i in changing)
        _, second = jax.jvp(result, at, tuple(tangents[count + i] for i in changing))
        changes.append(second)
    return results, _sum(changes, results)


def _tangent_transpose(cotangents: Any, *args: Any, problem: Problem) -> Any:
    count = len(problem.moving)
    grads = _pull(problem, cotangents, args[count:])
    return [
        grads[t.name] if ad.is_undefined_primal(x) else None
        for t, x in zip(problem.moving, args[:count], strict=True)
    ] + [None] * (len(args) - count)


# Backward --------------------------------------------------------------------------------------


def _backward_jvp(primals: Any, tangents: Any, *, problem: Problem) -> Any:
    count = len(problem.cotangents)
    results = backward(problem, *primals)
    changes = []
    if any(map(_known, tangents[:count])):
        changes.append(backward(problem, *map(_dense, tangents[:count]), *primals[count:]))
    second = _push_saved(problem, primals, tangents[count:])
    if second is not None:
        changes.append(second)
    return results, _sum(changes, results)


def _backward_transpose(cotangents: Any, *args: Any, problem: Problem) -> Any:
    count, fields = len(problem.cotangents), problem.gradient_fields
    tensors = backward.inputs(problem)
    asked = [ad.is_undefined_primal(x) for x in args]
    # It is linear in what is not known here: where that is 0 gradients are the same.
    values = [
        _zeros(t, fields) if unknown else x
        for t, unknown, x in zip(tensors, asked, args, strict=True)
    ]
    pushed = _push(problem, cotangents, values[count:])
    grads = _named(problem.cotangents, pushed)
    if any(asked[count:]):
        grads.update(_pull_saved(problem, cotangents, values, pushed))
    return [
        _as(t, fields, grads[t.name]) if unknown else None
        for t, unknown in zip(tensors, asked, strict=True)
    ]


def _pull_saved(
    problem: Problem, cotangents: Any, values: Sequence[Any], pushed: Sequence[Any]
) -> dict[str, Any]:
    """The gradients of what the backward has saved, for a rule in which it stands alone."""
    assert problem.rule is not None
    given = {
        t.name: _wide(problem, t, _dense(g))
        for t, g in zip(problem.moving, cotangents, strict=True)
    }
    moved = {t.name: _wide(problem, t, x) for t, x in zip(problem.moved, pushed, strict=True)}
    return problem.rule.pull_saved(
        _XP,
        _values(problem, backward.inputs(problem), values),
        given,
        moved if len(moved) > 1 else next(iter(moved.values())),
    )


def register() -> None:
    """Tells JAX how to differentiate."""
    mlir.register_lowering(tangent.primitive, mlir.lower_fun(_formula, multiple_results=True))
    for family, jvp, transpose in (
        (forward, _forward_jvp, _forward_transpose),
        (tangent, _tangent_jvp, _tangent_transpose),
        (backward, _backward_jvp, _backward_transpose),
    ):
        ad.primitive_jvps[family.primitive] = jvp
        ad.primitive_transposes[family.primitive] = transpose
