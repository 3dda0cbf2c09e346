"""From the arguments of a function to its primitive."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gradplan.binding import (
    bind_axes,
    broadcast_shape,
    check_derived,
    element_of,
    make_descriptor,
    unpacked_shape,
)
from gradplan.declaration import Like
from gradplan.jax.problems import Problem, forward
from gradplan.offers import gradient_parameters, own_parameters
from gradplan.signatures import Parameter, Signature, plain_option
from gradplan.vocabulary import InvalidProblem

Array = Any
Shape = tuple[int, ...]
Given = tuple[Shape, Any] | None
"""The shape and the element type of an argument."""


def renamed(signature: Signature, name: str, like: Like) -> Signature:
    """The signature under the names that the bridge has for everything, for messages."""
    called = {inner: outer for outer, inner in like.names.items()}
    made = copy.copy(signature)
    made.function = dataclasses.replace(signature.function, name=name)
    made.inputs = [
        dataclasses.replace(t, called=called.get(t.function_name, t.function_name))
        for t in signature.inputs
    ]
    made.parameters = [Parameter(called.get(p.name, p.name), p.info) for p in signature.parameters]
    made.__dict__.pop("first", None)
    made.__dict__.pop("arguments", None)
    return made


class Callee:
    """A function of the function layer as the bridge calls it."""

    def __init__(self, signature: Signature, name: str, like: Like) -> None:
        self.signature = made = renamed(signature, name, like)
        self.like = like
        self.parameters = own_parameters(made)
        shown = {inner: outer for outer, inner in like.names.items()}
        self.gradient_parameters = [
            Parameter(shown.get(p.name, p.name), p.info) for p in gradient_parameters(signature)
        ]
        self.defaults = {shown.get(name, name): value for name, value in like.defaults.items()}

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """The results for arguments by the bridge's names."""
        inputs = self.signature.inputs
        arrays = [
            None
            if t.optional and values.get(t.function_name) is None
            else jnp.asarray(values[t.function_name])
            for t in inputs
        ]
        given = tuple(None if x is None else (x.shape, x.dtype) for x in arrays)
        values = {**self.defaults, **values}
        name = self.signature.function.name
        options = _options(name, [*self.parameters, *self.gradient_parameters], values)
        call = _prepared(self, given, options)
        enter = jnp.broadcast_to if self.signature.op.broadcasts else jnp.reshape
        entered = [
            x if x.shape == shape else enter(x, shape)
            for x, shape in zip((x for x in arrays if x is not None), call.inputs, strict=True)
        ]
        results = [
            y if y.shape == shape else y.reshape(shape)
            for y, shape in zip(forward(call.problem, *entered), call.results, strict=True)
        ]
        return tuple(results) if len(results) > 1 else results[0]


class _Options:
    """Options as part of a key."""

    def __init__(self, values: Mapping[str, Any], key: tuple[Any, ...]) -> None:
        self.values = values
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Options) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _options(function: str, parameters: Sequence[Parameter], values: Mapping[str, Any]) -> _Options:
    """The options by the descriptor's names."""
    found: dict[str, Any] = {}
    key = []
    for parameter in parameters:
        name, field = parameter.name, parameter.info.field
        if name not in values:
            continue
        if isinstance(values[name], jax.core.Tracer):
            raise InvalidProblem(
                f"{function}: {name}: expected {field.plain_expected}; got a JAX tracer: it is "
                "part of the compiled program; inside of jit make it static "
                f"(static_argnames={name!r})"
            )
        value = plain_option(function, name, field, values[name])
        key.append((name, field.key(value)))
        found[parameter.info.name] = value
    return _Options(found, tuple(key))


@dataclasses.dataclass(frozen=True)
class _Call:
    """A problem, with the shapes that its tensors have there and those that the caller gets."""

    problem: Problem
    inputs: Sequence[Shape]
    results: Sequence[Shape]


@functools.lru_cache(maxsize=4096)
def _prepared(callee: Callee, given: tuple[Given, ...], options: _Options) -> _Call:
    signature, like = callee.signature, callee.like
    op, name = signature.op, signature.function.name
    tensors = {
        t: jax.ShapeDtypeStruct(*x)
        for t, x in zip(signature.inputs, given, strict=True)
        if x is not None
    }
    element = element_of(name, op, signature.first, tensors[signature.first])
    for t, x in tensors.items():
        kinds = t.kind.elements(element)
        if x.dtype not in [kind.dtype for kind in kinds]:
            expected = " or ".join(kind.dtype_name for kind in kinds)
            raise InvalidProblem(
                f"{name}: {t.function_name}: expected element type {expected}; got {x.dtype}"
            )
        rank = like.ranks.get(t.function_name)
        if rank is not None and len(x.shape) != rank:
            raise InvalidProblem(
                f"{name}: {t.function_name}: expected {rank} axes; got shape {list(x.shape)}"
            )
    shapes = [(t, x.shape) for t, x in tensors.items()]
    if op.broadcasts:
        bound = {shapes[0][0].axes[0]: broadcast_shape(name, shapes)}
    else:
        bound = bind_axes(name, op, shapes, options.values)
    # A scalar is a row of length 1, and must stay one when a batch of them comes.
    scalar = op.axis_field is not None
    inside = {axis: extent or (1,) for axis, extent in bound.items()} if scalar else bound
    only_gradient = {p.info.name for p in callee.parameters if p.name in like.only_gradient}
    own = {p.info.name for p in callee.parameters} - only_gradient
    fields = {field: value for field, value in options.values.items() if field in own}
    desc = make_descriptor(signature, inside, {**fields, "element": element})
    check_derived(name, desc, shapes)
    rest = {field: value for field, value in options.values.items() if field not in own}
    absent = frozenset(t.name for t in signature.inputs if t not in tensors)
    return _Call(
        Problem.make(op, desc, rest, absent),
        [t.shape(desc) for t in tensors],
        [unpacked_shape(t, bound, desc) for t in signature.outputs],
    )


def largest_plus_one(function: str, size: str, name: str, indices: Any) -> int:
    """The size that indices need at least; they must not be traced."""
    indices = jnp.asarray(indices)
    if isinstance(indices, jax.core.Tracer):
        raise jax.errors.ConcretizationTypeError(
            indices, f"gradplan.jax.{function} needs {size} where {name} is traced"
        )
    return max(0, int(indices.max(initial=-1)) + 1)
