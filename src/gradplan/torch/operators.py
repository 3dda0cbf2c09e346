"""The declarations as PyTorch operators `torch.ops.gradplan.<function>`.

One operator per function of the function layer: tensors first, then every option, all of them
required. Its schema, the shapes of its outputs (for FakeTensor and meta tensors) and its kernel are
derived from the declaration; derivatives are in autograd.py, vmap is in batching.py, DTensor in
sharding.py, and the way past all of it is in fast_path.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from gradplan import functional
from gradplan.binding import bind_axes, unpacked_shape
from gradplan.declaration import OPS, Kind, Like, Op, Tensor, for_every_op
from gradplan.functions import prepare
from gradplan.offers import gradient_parameters, own_parameters
from gradplan.signatures import Parameter, Signature
from gradplan.tensors import check_one_device
from gradplan.torch import private
from gradplan.torch.fast_path import Recorder, Ways, make_fast_path, make_launch, make_ways
from gradplan.torch.memory import Output
from gradplan.vocabulary import ElementKind, InvalidProblem

NAMESPACE = "gradplan"


class Operator:
    """An operator of PyTorch for one function.

    `ignores` names options that only the gradient obeys.
    """

    def __init__(self, name: str, signature: Signature, ignores: Sequence[str] = ()) -> None:
        self.name = name
        self.signature = signature
        self.op = signature.op
        self.function = signature.function
        self.tensors: Sequence[Tensor] = signature.inputs
        self.outputs = signature.outputs
        self.ignores = frozenset(ignores)
        # PyTorch's operators write new tensors: what they hold before is nothing to add to.
        self.options = [*own_parameters(signature), *self._of_gradient()]
        self.first = self.tensors.index(signature.first)
        """The position of the tensor whose element type is the problem's."""
        self.recorded = [t for t in self.outputs if t.differentiable]
        """The outputs that may have gradients; the others come behind them."""
        self.differentiable = [
            i for i, t in enumerate(self.tensors) if t.differentiable and self.recorded
        ]
        """The inputs that may need gradients."""
        self.library = torch.library.Library(NAMESPACE, "FRAGMENT")
        self.overload = self._define()

    def _of_gradient(self) -> list[Parameter]:
        """The options of its gradient alone, which a call has to say beforehand."""
        if self.op.gradient_name not in OPS:
            return []
        options = gradient_parameters(self.signature)
        return [p for p in options if p.name not in self.conventions]

    @functools.cached_property
    def arguments(self) -> list[str]:
        """The function layer's names of the arguments."""
        return [t.function_name for t in self.tensors] + [p.name for p in self.options]

    @functools.cached_property
    def names(self) -> list[str]:
        """The declaration's names of the arguments."""
        return [t.name for t in self.tensors] + [p.info.name for p in self.options]

    @property
    def conventions(self) -> Mapping[str, Any]:
        """PyTorch's own, for options that only the gradient has."""
        return self.function.torch.defaults if self.function.torch is not None else {}

    def invoke(self, values: Mapping[str, Any]) -> Any:
        """Calls it with values by the declaration's names; others are left alone.

        Options that are missing have their defaults.
        """
        defaults = {p.info.name: p.default for p in self.options}
        optional = {t.name: None for t in self.tensors if t.optional}
        known = {**defaults, **optional, **values}
        return self.call(*[known[name] for name in self.names])

    # Shapes

    def axes(self, arguments: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
        """The extents of every axis, those that are options included."""
        shapes = [
            (t, tuple(x.shape))
            for t, x in zip(self.tensors, arguments[: len(self.tensors)], strict=True)
            if x is not None
        ]
        # Broadcasting is the function's business: derivatives would have to undo it.
        rest = list(zip(self.options, arguments[len(self.tensors) :], strict=True))
        bound = bind_axes(self.name, self.op, shapes, {p.info.name: x for p, x in rest})
        for parameter, value in rest:
            if parameter.info.field.is_extent:
                bound[parameter.info.name] = (value,)
        return bound

    def output_shapes(self, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        bound = self.axes(arguments)
        # What derived axes look at: a descriptor whose sizes may be symbols.
        fields: dict[str, Any] = {
            name: extent if name == self.op.shape_field else extent[0] if extent else 1
            for name, extent in bound.items()
        }
        for parameter, value in zip(self.options, arguments[len(self.tensors) :], strict=True):
            if parameter.info.field.is_axis:
                fields[parameter.info.name] = value % max(len(bound[str(self.op.shape_field)]), 1)
        made: Any = SimpleNamespace(**fields)
        return [unpacked_shape(t, bound, made) for t in self.outputs]

    def output_dtypes(self, element: torch.dtype) -> list[torch.dtype]:
        kind = ElementKind.from_dtype_name(str(element).removeprefix("torch."))
        if kind is None:  # for the kernel to refuse
            return [element for _ in self.outputs]
        return [getattr(torch, t.kind.elements(kind, new=True)[0].dtype_name) for t in self.outputs]

    # The operator

    def _define(self) -> Any:
        tensors = [f"Tensor{'?' * t.optional} {t.function_name}" for t in self.tensors]
        options = [f"{p.info.field.schema} {p.name}" for p in self.options]
        result = ", ".join(["Tensor"] * len(self.outputs))
        result = f"({result})" if len(self.outputs) > 1 else result
        self.library.define(
            f"{self.name}({', '.join(tensors + options)}) -> {result}",
            tags=(torch.Tag.pt2_compliant_tag,),
        )
        name = f"{NAMESPACE}::{self.name}"
        # Every device: the function layer finds the engine or says that there is none.
        self.library.impl(self.name, self._run, "CompositeExplicitAutograd")
        torch.library.register_fake(name, self._fake, lib=self.library)
        return getattr(getattr(torch.ops, NAMESPACE), self.name).default

    def _like(self, output: Tensor) -> int | None:
        """The input that an output is strided as: one with the same axes, and always there."""
        # A kernel sees several axes as one, which the strides of an input may not allow: an input
        # is copied then, and an output must be written where it is.
        if not self.op.packs.isdisjoint(output.axes):
            return None
        same = (
            i
            for i, t in enumerate(self.tensors)
            if t.axes == output.axes and t.kind is output.kind and not t.optional
        )
        return next(same, None)

    def _fake(self, *arguments: Any) -> Any:
        """Outputs: like an input of the same axes (strides as well), contiguous otherwise."""
        self.check(arguments)
        first = arguments[self.first]
        shapes, dtypes = self.output_shapes(arguments), self.output_dtypes(first.dtype)
        made = []
        for t, shape, dtype in zip(self.outputs, shapes, dtypes, strict=True):
            like = self._like(t)
            new = first.new_empty(shape, dtype=dtype)
            made.append(new if like is None else torch.empty_like(arguments[like]))
        return tuple(made) if len(made) > 1 else made[0]

    def check(self, arguments: Sequence[Any]) -> None:
        """Raises for element types or devices that differ; a kernel does the same, but later."""
        tensors = [(t, x) for t, x in zip(self.tensors, arguments, strict=False) if x is not None]
        if len({x.device for _, x in tensors}) > 1:
            check_one_device(self.name, [(t.function_name, x) for t, x in tensors])
        given = [(t.function_name, x.dtype) for t, x in tensors if t.kind is Kind.ELEMENT]
        if len({dtype for _, dtype in given}) > 1:
            got = ", ".join(f"{name} {dtype}" for name, dtype in given)
            raise InvalidProblem(f"{self.name}: expected tensors of one element type; got {got}")

    def _run(self, *arguments: Any) -> Any:
        """Where the dispatcher ends: tensors with memory, derivatives are recorded elsewhere."""
        path = self.fast_path
        result = NotImplemented if path is None else path.run(*arguments)
        if path is not None and result is None:  # the first call of its kind
            call, shapes = self.prepare(arguments)
            outputs = self._new_outputs(arguments, shapes)
            path.add(make_launch(call, outputs, self.recorder.options(arguments)), *arguments)
            result = path.run(*arguments)
        if result is not None and result is not NotImplemented:
            return result
        return self._run_function(arguments)

    def _run_function(self, arguments: Sequence[Any]) -> Any:
        """By the function layer, which knows all engines, and says what is wrong."""
        self.check(arguments)
        outputs = self._new_outputs(arguments, self.output_shapes(arguments))
        # Tensors with gradients are refused by `__dlpack__`, which older ones export by.
        inputs = [None if x is None else x.detach() for x in arguments[: len(self.tensors)]]
        on_cpu = arguments[self.first].is_cpu
        out: Any = [o.new(inputs) for o in outputs] if on_cpu else None
        out = out[0] if out is not None and len(out) == 1 else out
        function = getattr(functional, self.function.name)
        named = dict(zip((t.function_name for t in self.tensors), inputs, strict=True))
        options = zip(self.signature.parameters, self._values(arguments), strict=True)
        named |= {p.name: value for p, value in options}
        return function(**named, out=out)

    def _new_outputs(self, arguments: Sequence[Any], shapes: Sequence[Any]) -> list[Output]:
        dtypes = self.output_dtypes(arguments[self.first].dtype)
        return [
            Output(tuple(shape), dtype, self._like(t))
            for t, shape, dtype in zip(self.outputs, shapes, dtypes, strict=True)
        ]

    def _values(self, arguments: Sequence[Any]) -> list[Any]:
        """What the function takes behind the tensors."""
        options = arguments[len(self.tensors) :]
        given = dict(zip((p.name for p in self.options), options, strict=True))
        return [
            p.default if p.info.name in self.ignores else given.get(p.name, p.default)
            for p in self.signature.parameters
        ]

    def prepare(self, arguments: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
        """The call for tensors of these shapes, which takes the inputs and then the outputs.

        And the outputs' shapes.
        """
        self.check(arguments)
        shapes = self.output_shapes(arguments)
        # Derivatives are recorded elsewhere; the function layer refuses tensors that want them.
        inputs = [None if x is None else x.detach() for x in arguments[: len(self.tensors)]]
        return prepare(self.signature, inputs, self._values(arguments)), shapes

    # Ways to call it

    @functools.cached_property
    def recorder(self) -> Recorder:
        """How its derivatives are recorded."""
        from gradplan.torch.autograd import recorder_for

        return recorder_for(self)

    def forget(self) -> None:
        """Its derivatives have become others: it has turned out to be a gradient."""
        for name in ("recorder", "fast_path", "ways"):
            self.__dict__.pop(name, None)

    @functools.cached_property
    def fast_path(self) -> Any:
        """The way past the dispatcher, or None if there is none."""
        counts = (len(self.tensors), len(self.options), len(self.outputs))
        return make_fast_path(self.recorder, self.differentiable, *counts)

    @functools.cached_property
    def ways(self) -> Ways:
        return make_ways(self.fast_path, self.overload)

    @property
    def call(self) -> Callable[..., Any]:
        """The operator: the fast path where it can, the dispatcher for all others."""
        return self.ways.call


class _Operators(dict[str, Operator]):
    """By name; made when they are asked for, so that ops may be declared at any time."""

    def __missing__(self, name: str) -> Operator:
        from gradplan.torch import autograd, batching, sharding

        base, ignores = self._variants().get(name, (name, ()))
        operator = self[name] = Operator(name, functional.SIGNATURES[base], ignores)
        autograd.register(operator)
        batching.register(operator)
        sharding.register(operator)
        return operator

    def _variants(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Operators whose forward leaves options to the gradient, by name."""
        likes: dict[str, Like | None] = {
            name: s.function.torch for name, s in functional.SIGNATURES.items()
        }
        return {
            like.operator: (name, like.only_gradient)
            for name, like in likes.items()
            if like is not None and like.operator
        }

    def make_all(self) -> None:
        """All of them, for whoever looks at `torch.ops.gradplan`."""
        for name in (*functional.SIGNATURES, *self._variants()):
            self[name]


OPERATORS = _Operators()
"""All operators by name."""


def _changed(op: Op) -> None:
    """The gradient of an op may have been an op by itself before."""
    if op.gradient_name in OPS:
        for function in OPS[op.gradient_name].functions:
            if function.name in OPERATORS:
                OPERATORS[function.name].forget()


def _remove(op: Op) -> None:
    for name in [name for name, operator in OPERATORS.items() if operator.op is op]:
        private.destroy(OPERATORS.pop(name).library)


for_every_op(_changed, _remove)
