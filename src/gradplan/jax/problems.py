"""A function, the map of its tangents and its gradient, as one problem with three primitives.

Everything here is read off the declarations. With J the derivative of the forward op,

    forward    y = f(x)
    tangent    t -> J t      linear; only where f is not linear itself
    backward   g -> J^T g    linear in g; the op that the declaration names as the gradient

`tangent` and `backward` are transposes of each other, and `forward` is its own tangent where it is
linear: where the declaration has no rule.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import mlir

from gradplan.declaration import Descriptor, Function, Gradient, Op, Rule, Tensor, fields_of
from gradplan.engines import on_change
from gradplan.jax import sharding, targets
from gradplan.jax.private import needs_devices


@dataclasses.dataclass(frozen=True)
class Problem:
    """A forward descriptor with the descriptor of its gradient. Hashable: a static parameter."""

    op: Op
    desc: Descriptor
    grad_desc: Descriptor | None
    """None for an op without gradient."""
    absent: frozenset[str] = frozenset()
    """The forward's optional inputs that this call does without."""

    def __post_init__(self) -> None:
        optional = {t.name for t in self.op.inputs if t.optional}
        object.__setattr__(self, "absent", self.absent & optional)

    @staticmethod
    def make(
        op: Op, desc: Descriptor, options: Mapping[str, Any], absent: frozenset[str] = frozenset()
    ) -> Problem:
        """`options` are fields of the backward that the forward does not have, such as `ties`, or
        that it has and does not obey."""
        backward = op.backward()
        if backward is None:
            return Problem(op, desc, None, absent)
        return Problem(op, desc, _copy(desc, backward, options), absent)

    @staticmethod
    def of_gradient(op: Op, grad_desc: Descriptor, absent: frozenset[str] = frozenset()) -> Problem:
        """The problem whose gradient `op` computes for `grad_desc`."""
        forwards = op.forwards_of(op.function_for(grad_desc))
        # Indices may come in any order unless somebody says otherwise.
        forward = min(forwards, key=lambda f: any(t.ascending for t in f.inputs))
        return Problem(forward, _copy(grad_desc, forward, {}), grad_desc, absent)

    def replace(self, op: Op | None = None, **fields: Any) -> Problem:
        """The problem with other fields, of another op with the same fields if one is given."""
        op = op or self.op
        grad_desc = self.grad_desc and _copy(self.grad_desc, self.backward, fields)
        return Problem(op, _copy(self.desc, op, fields), grad_desc, self.absent)

    @functools.cached_property
    def backward(self) -> Op:
        backward = self.op.backward()
        assert backward is not None
        return backward

    @property
    def gradient(self) -> Gradient:
        assert self.op.gradient is not None
        return self.op.gradient

    @property
    def gradient_fields(self) -> Descriptor:
        """The descriptor of the gradient, where there is one."""
        assert self.grad_desc is not None
        return self.grad_desc

    @functools.cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        given = _present(self.op.inputs, self.desc)
        return tuple(t for t in given if t.name not in self.absent)

    @functools.cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        return _present(self.op.outputs, self.desc)

    @functools.cached_property
    def cotangents(self) -> tuple[Tensor, ...]:
        """The inputs of the backward that are gradients of the forward's outputs."""
        inputs = _present(self.backward.inputs, self.gradient_fields)
        return tuple(t for t in inputs if t.name in self.gradient.cotangents)

    @functools.cached_property
    def saved(self) -> tuple[Tensor, ...]:
        """The other inputs of the backward: what it needs to know of the forward's tensors."""
        inputs = _present(self.backward.inputs, self.gradient_fields)
        left_out = {*self.gradient.cotangents, *self.absent}
        return tuple(t for t in inputs if t.name not in left_out)

    @functools.cached_property
    def grads(self) -> tuple[Tensor, ...]:
        """The outputs of the backward: the gradients of the inputs that are there."""
        outputs = _present(self.backward.outputs, self.gradient_fields)
        return tuple(t for t in outputs if self.gradient.grads[t.name] not in self.absent)

    @functools.cached_property
    def moving(self) -> tuple[Tensor, ...]:
        """The forward's inputs that have a gradient, in the order of `grads`."""
        return tuple(self.op.tensor_named[self.gradient.grads[t.name]] for t in self.grads)

    @functools.cached_property
    def moved(self) -> tuple[Tensor, ...]:
        """The forward's outputs that have a tangent, in the order of `cotangents`."""
        names = self.gradient.cotangents
        return tuple(self.op.tensor_named[names[t.name]] for t in self.cotangents)

    @functools.cached_property
    def function(self) -> Function:
        """The function of the function layer that this is."""
        return self.op.function_for(self.desc)

    @property
    def rule(self) -> Rule | None:
        """The rule of derivatives; None where the forward is linear."""
        return self.function.rule

    def __repr__(self) -> str:
        return f"{self.function.name}: {self.desc}"


def _present(tensors: Sequence[Tensor], desc: Descriptor) -> tuple[Tensor, ...]:
    return tuple(t for t in tensors if t.when is None or t.when(desc))


def _copy(desc: Descriptor, op: Op, fields: Mapping[str, Any]) -> Descriptor:
    """A descriptor of `op` with these fields; what else it has is that of `desc`."""
    # A word as its string: the other op may have an enumeration of its own.
    known = {n: x.value if isinstance(x, enum.Enum) else x for n, x in values_of(desc).items()}
    values = {**known, **fields}
    return op.descriptor(**{i.name: values[i.name] for i in op.fields if i.name in values})


def values_of(desc: Descriptor) -> dict[str, Any]:
    """The fields of a descriptor by name."""
    return {info.name: getattr(desc, info.name) for info in fields_of(type(desc))}


class Family:
    """A primitive whose parameter is a problem, and its tensors as the declaration names them."""

    def __init__(
        self,
        name: str,
        of: Callable[[Problem], tuple[Op, Descriptor]],
        inputs: Callable[[Problem], Sequence[Tensor]],
        outputs: Callable[[Problem], Sequence[Tensor]],
        *,
        has_kernel: bool = True,
    ) -> None:
        self.of = of
        """The op that the tensors belong to, and its descriptor."""
        self.inputs = inputs
        self.outputs = outputs
        self.primitive = self._primitive(name)
        self.primitive.def_impl(self._run)
        self.knows_devices = needs_devices(self.primitive)
        """Whether a program may be cut into parts for several devices."""
        self.local = self._primitive(f"{name}_local")
        """The same on the parts that one device has."""
        if has_kernel:
            for platform in (None, *targets.PLATFORMS):
                for primitive, lower in (
                    (self.primitive, self._lower),
                    (self.local, self._lower_kernel),
                ):
                    rule = functools.partial(lower, platform)
                    mlir.register_lowering(primitive, rule, platform=platform)

    def _primitive(self, name: str) -> Primitive:
        primitive = Primitive(name)
        primitive.multiple_results = True
        primitive.def_abstract_eval(self._abstract)
        return primitive

    def __call__(self, problem: Problem, *args: Any) -> list[Any]:
        results: list[Any] = self.primitive.bind(*args, problem=problem)
        return results

    def named(self, problem: Problem, values: Mapping[str, Any]) -> dict[str, Any]:
        """The results by name, of arguments by name."""
        results = self(problem, *(values[t.name] for t in self.inputs(problem)))
        return {t.name: y for t, y in zip(self.outputs(problem), results, strict=True)}

    def _run(self, *args: Any, problem: Problem) -> Any:
        with jax.disable_jit(False):  # or else this would call itself
            return _jitted(self, problem)(*args)

    def _abstract(self, *args: Any, problem: Problem) -> list[Any]:
        _, desc = self.of(problem)
        return [
            jax.core.ShapedArray(t.shape(desc), dtype_of(t, desc)) for t in self.outputs(problem)
        ]

    def _lower(self, platform: str | None, ctx: Any, *args: Any, problem: Problem) -> Any:
        lowered = sharding.lower(self, ctx, args, problem)
        if lowered is None:
            lowered = self._lower_kernel(platform, ctx, *args, problem=problem)
        return lowered

    def _lower_kernel(self, platform: str | None, ctx: Any, *args: Any, problem: Problem) -> Any:
        op, desc = self.of(problem)
        platform = platform or ctx.module_context.platforms[0]
        given = [t.name for t in self.inputs(problem)]
        made = [t.name for t in self.outputs(problem)]
        return targets.lower(ctx, args, platform, op, desc, given, made)


def dtype_of(tensor: Tensor, desc: Descriptor) -> Any:
    """The element type that an output has in JAX, where int64 is int32 by default."""
    return jax.dtypes.canonicalize_dtype(tensor.kind.elements(desc.element, new=True)[0].dtype)


@functools.lru_cache(maxsize=4096)
def _jitted(family: Family, problem: Problem) -> Any:
    """What runs outside of `jit`: the same compiled call."""
    return jax.jit(functools.partial(family, problem))


on_change(_jitted.cache_clear)

forward = Family(
    "gradplan",
    lambda problem: (problem.op, problem.desc),
    lambda problem: problem.inputs,
    lambda problem: problem.outputs,
)
backward = Family(
    "gradplan_backward",
    lambda problem: (problem.backward, problem.gradient_fields),
    lambda problem: (*problem.cotangents, *problem.saved),
    lambda problem: problem.grads,
)
tangent = Family(
    "gradplan_tangent",
    lambda problem: (problem.op, problem.desc),
    lambda problem: (
        *problem.moving,
        *(problem.op.tensor_named[t.name] for t in problem.saved),
    ),
    lambda problem: problem.moved,
    has_kernel=False,
)
