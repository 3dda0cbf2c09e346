"""From the arguments of a function to its primitive."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradplan.descriptor import AxisOf
from gradplan.functional import SIGNATURES
from gradplan.jax.problems import Problem, forward
from gradplan.recipes import bind_axes, broadcast_shape, element_of, make_descriptor, unpacked_shape
from gradplan.vocabulary import INDICES, InvalidProblem

Array = Any
Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class _Recipe:
    """A problem, with the shapes that its tensors have there and the one that the caller gets."""

    problem: Problem
    inputs: Sequence[Shape]
    result: Shape
    broadcasts: bool


def call(
    name: str,
    arrays: Mapping[str, Any],
    *,
    backward: Sequence[tuple[str, Any]] = (),
    **options: Any,
) -> Array:
    """The function `name` of the function layer on JAX arrays.

    `arrays` are its tensors in order, under the names that they have here; `options` are its
    parameters, and `backward` those of its gradient alone.
    """
    given = {called: jnp.asarray(x) for called, x in arrays.items()}
    shapes = tuple((called, x.shape, x.dtype) for called, x in given.items())
    recipe = _recipe(name, shapes, _Options(options), tuple(backward))
    enter = jnp.broadcast_to if recipe.broadcasts else jnp.reshape
    entered = [
        x if x.shape == shape else enter(x, shape)
        for x, shape in zip(given.values(), recipe.inputs, strict=True)
    ]
    (result,) = forward(recipe.problem, *entered)
    return result if result.shape == recipe.result else result.reshape(recipe.result)


class _Options:
    """Options as part of a key."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.values = {name: _plain(value) for name, value in options.items()}
        # 0.0 equals -0.0, but they are different weights.
        self.key = tuple(v.hex() if type(v) is float else v for v in self.values.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Options) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _plain(value: Any) -> Any:
    """Integers and flags of any library as Python's, the rest as it is."""
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        return value
    return operator.index(value)


@functools.lru_cache(maxsize=4096)
def _recipe(
    name: str,
    arrays: tuple[tuple[str, Shape, Any], ...],
    options: _Options,
    backward: tuple[tuple[str, Any], ...],
) -> _Recipe:
    signature = SIGNATURES[name]
    op = signature.op
    given = [
        (dataclasses.replace(tensor, called=called), jax.ShapeDtypeStruct(shape, dtype))
        for tensor, (called, shape, dtype) in zip(signature.inputs, arrays, strict=True)
    ]
    element = next(element_of(name, op, t, x) for t, x in given if not t.index)
    for t, x in given:
        kinds = INDICES if t.index else (element,)
        if x.dtype not in [kind.dtype for kind in kinds]:
            expected = " or ".join(kind.dtype_name for kind in kinds)
            raise InvalidProblem(
                f"{name}: {t.function_name}: expected element type {expected}; got {x.dtype}"
            )
    shapes = [(t, x.shape) for t, x in given]
    if op.broadcasts:
        bound = {shapes[0][0].axes[0]: broadcast_shape(name, shapes)}
    else:
        bound = bind_axes(name, {i.name: i for i in op.fields}, shapes)
    values = options.values
    fields = {p.info.name: values[p.name] for p in signature.parameters if p.name in values}
    along_axis = any(isinstance(info.field, AxisOf) for info in op.fields)
    # A scalar is a row of length 1, and must stay one when a batch of them comes.
    inside = {axis: extent or (1,) for axis, extent in bound.items()} if along_axis else bound
    desc = make_descriptor(signature, inside, {**fields, "element": element})
    (output,) = op.outputs
    return _Recipe(
        Problem.make(op, desc, dict(backward)),
        [op.tensor_shape(t, desc) for t in signature.inputs],
        unpacked_shape(output, bound, desc),
        op.broadcasts,
    )
