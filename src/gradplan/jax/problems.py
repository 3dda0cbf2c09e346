"""A function, the map of its tangents and its gradient, as one problem with three primitives.

Everything here is read off the declarations. With J the derivative of the forward op,

    forward    y = f(x)
    tangent    t -> J t      linear; only where f is not linear itself
    backward   g -> J^T g    linear in g; the op that the declaration names as the gradient

`tangent` and `backward` are transposes of each other, and `forward` is its own tangent where it is
linear: where the backward saves no floats.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import mlir

from gradplan.descriptor import Descriptor
from gradplan.jax import targets
from gradplan.spec import OPS, Gradient, Op, Tensor
from gradplan.vocabulary import Unsupported


@dataclasses.dataclass(frozen=True)
class Problem:
    """A forward descriptor with the descriptor of its gradient. Hashable: a static parameter."""

    op: Op
    desc: Descriptor
    grad_desc: Descriptor

    @staticmethod
    def make(op: Op, desc: Descriptor, options: Mapping[str, Any]) -> Problem:
        """`options` are fields that only the backward has, such as `ties`."""
        backward = op.backward()
        assert backward is not None
        shared = {info.name for info in op.fields}
        fields = {i.name: getattr(desc, i.name) for i in backward.fields if i.name in shared}
        return Problem(op, desc, backward.descriptor(**fields, **options))

    def replace(self, op: Op | None = None, **fields: Any) -> Problem:
        """The problem with other fields, of another op with the same fields if one is given."""
        op = op or self.op
        return Problem(
            op, _copy(self.desc, op, fields), _copy(self.grad_desc, self.backward, fields)
        )

    @property
    def backward(self) -> Op:
        return OPS[self.gradient.op]

    @property
    def gradient(self) -> Gradient:
        assert self.op.gradient is not None
        return self.op.gradient

    @functools.cached_property
    def cotangents(self) -> tuple[Tensor, ...]:
        """The inputs of the backward that are gradients of the forward's outputs."""
        return tuple(t for t in self.backward.inputs if t.name in self.gradient.cotangents)

    @functools.cached_property
    def saved(self) -> tuple[Tensor, ...]:
        """The other inputs of the backward: what it needs to know of the forward's tensors."""
        return tuple(
            t
            for t in self.backward.inputs
            if t.name not in self.gradient.cotangents and (t.when is None or t.when(self.grad_desc))
        )

    @functools.cached_property
    def wrt(self) -> tuple[Tensor, ...]:
        """The forward's inputs that have a gradient, in the order of the backward's outputs."""
        by_name = {t.name: t for t in self.op.inputs}
        return tuple(by_name[self.gradient.grads[t.name]] for t in self.backward.outputs)

    @functools.cached_property
    def is_linear(self) -> bool:
        return all(t.index for t in self.saved)

    @functools.cached_property
    def function(self) -> str:
        """The function of the function layer that this is."""
        return self.op.function_for(self.desc).name

    def __repr__(self) -> str:
        return f"{self.function}: {self.desc}"


def _copy(desc: Descriptor, op: Op, fields: Mapping[str, Any]) -> Descriptor:
    values = {i.name: fields.get(i.name, getattr(desc, i.name)) for i in op.fields}
    return op.descriptor(**values)


class Family:
    """A primitive whose parameter is a problem, and its tensors as the declaration names them."""

    def __init__(
        self,
        name: str,
        kernel: Callable[[Problem], tuple[Op, Descriptor]] | None,
        inputs: Callable[[Problem], Sequence[Tensor]],
        outputs: Callable[[Problem], Sequence[Tensor]],
    ) -> None:
        self.kernel = kernel
        self.inputs = inputs
        self.outputs = outputs
        self.primitive = Primitive(name)
        self.primitive.multiple_results = True
        self.primitive.def_impl(self._run)
        self.primitive.def_abstract_eval(self._abstract)
        if kernel is not None:
            mlir.register_lowering(self.primitive, self._lower, platform="cpu")
            mlir.register_lowering(self.primitive, _refuse)

    def __call__(self, problem: Problem, *args: Any) -> list[Any]:
        results: list[Any] = self.primitive.bind(*args, problem=problem)
        return results

    def _run(self, *args: Any, problem: Problem) -> Any:
        with jax.disable_jit(False):  # or else this would call itself
            return _jitted(self, problem)(*args)

    def _abstract(self, *args: Any, problem: Problem) -> list[Any]:
        desc = problem.desc
        return [
            jax.core.ShapedArray(problem.op.tensor_shape(t, desc), desc.element.dtype)
            for t in self.outputs(problem)
        ]

    def _lower(self, ctx: Any, *args: Any, problem: Problem) -> Any:
        assert self.kernel is not None
        op, desc = self.kernel(problem)
        return targets.lower(ctx, *args, op=op, desc=desc)


@functools.lru_cache(maxsize=4096)
def _jitted(family: Family, problem: Problem) -> Any:
    """What runs outside of `jit`: the same compiled call."""
    return jax.jit(functools.partial(family, problem))


def _refuse(ctx: Any, *args: Any, problem: Problem) -> Any:
    platforms = ", ".join(ctx.module_context.platforms)
    raise Unsupported(
        f"gradplan.jax: {problem.function}: expected arrays on the CPU; got a program for "
        f"{platforms}. Move them there with jax.device_put(x, jax.devices('cpu')[0])"
    )


forward = Family(
    "gradplan",
    lambda problem: (problem.op, problem.desc),
    lambda problem: problem.op.inputs,
    lambda problem: problem.op.outputs,
)
backward = Family(
    "gradplan_backward",
    lambda problem: (problem.backward, problem.grad_desc),
    lambda problem: (*problem.cotangents, *problem.saved),
    lambda problem: problem.backward.outputs,
)
tangent = Family(
    "gradplan_tangent",
    None,
    lambda problem: (*problem.wrt, *problem.saved),
    lambda problem: problem.op.outputs,
)
