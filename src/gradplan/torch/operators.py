"""The declarations as PyTorch operators `torch.ops.gradplan.<function>`.

One operator per function of the function layer: tensors first, then every option, all of them
required. Its schema, the shapes of its outputs (for FakeTensor and meta tensors) and its kernel are
derived from the declaration; derivatives are in autograd.py, vmap is in batching.py, and the way
past all of it is in fast_path.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gradplan import functional
from gradplan.descriptor import AxisOf, Field, Flag, IndexInto, Real, SizeField, Word
from gradplan.recipes import Parameter, Signature, bind_axes, prepare
from gradplan.spec import Tensor
from gradplan.torch.fast_path import Recorder, Ways, make_fast_path, make_launch, make_ways
from gradplan.torch.memory import Output
from gradplan.torch.rules import VARIANTS
from gradplan.vocabulary import InvalidProblem

NAMESPACE = "gradplan"
LIBRARY = torch.library.Library(NAMESPACE, "DEF")

_SCHEMA: tuple[tuple[type[Field], str], ...] = (
    (AxisOf, "int"),
    (Flag, "bool"),
    (Real, "float"),
    (SizeField, "SymInt"),
    (IndexInto, "int?"),
    (Word, "str"),
)


def _schema_type(parameter: Parameter) -> str:
    return next(name for kind, name in _SCHEMA if isinstance(parameter.info.field, kind))


class Operator:
    """An operator of PyTorch for one function.

    `ignores` names options that only the gradient obeys.
    """

    def __init__(self, name: str, signature: Signature, ignores: Sequence[str] = ()) -> None:
        self.name = name
        self.signature = signature
        self.op = signature.op
        self.tensors: Sequence[Tensor] = signature.inputs
        self.outputs = signature.outputs
        self.ignores = frozenset(ignores)
        # PyTorch's operators write new tensors: what they hold before is nothing to add to.
        updating = {n for t in self.outputs if t.updates is not None for n in t.updates.values}
        self.options = [p for p in signature.parameters if p.info.name not in updating]
        self.differentiable = [i for i, t in enumerate(self.tensors) if not t.index]
        self.fields = {info.name: info for info in self.op.fields}
        self.overload = self._define()
        self.recorder: Recorder
        """Comes from autograd.py."""

    @functools.cached_property
    def index(self) -> int | None:
        """The position of the tensor of indices."""
        return next((i for i, t in enumerate(self.tensors) if t.index), None)

    @property
    def arguments(self) -> list[str]:
        return [t.function_name for t in self.tensors] + [p.name for p in self.options]

    def option(self, kind: type[Field]) -> int | None:
        """The position of the option of that kind among the arguments."""
        for i, p in enumerate(self.options):
            if isinstance(p.info.field, kind):
                return len(self.tensors) + i
        return None

    def named_options(self, arguments: Sequence[Any]) -> dict[str, Any]:
        """The options of a call by the descriptor's names."""
        options = arguments[len(self.tensors) :]
        return {p.info.name: v for p, v in zip(self.options, options, strict=True)}

    def invoke(self, values: Mapping[str, Any]) -> Any:
        """Calls it with values by the declaration's names; others are left alone."""
        return self.call(*[values[name] for name in self.names])

    @functools.cached_property
    def names(self) -> list[str]:
        """The declaration's names of the arguments."""
        return [t.name for t in self.tensors] + [p.info.name for p in self.options]

    def axes(self, arguments: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
        """The extents of every axis, those that are options included."""
        shapes = [
            (t, tuple(x.shape))
            for t, x in zip(self.tensors, arguments[: len(self.tensors)], strict=True)
        ]
        # Broadcasting is the function's business: derivatives would have to undo it.
        bound = bind_axes(self.name, self.fields, shapes)
        for name, value in self.named_options(arguments).items():
            if isinstance(self.fields[name].field, SizeField):
                bound[name] = (value,)
        return bound

    def _define(self) -> Any:
        tensors = [f"Tensor {t.function_name}" for t in self.tensors]
        options = [f"{_schema_type(p)} {p.name}" for p in self.options]
        result = ", ".join(["Tensor"] * len(self.outputs))
        result = f"({result})" if len(self.outputs) > 1 else result
        LIBRARY.define(
            f"{self.name}({', '.join(tensors + options)}) -> {result}",
            tags=(torch.Tag.pt2_compliant_tag,),
        )
        name = f"{NAMESPACE}::{self.name}"
        # Every device: the function layer finds the engine or says that there is none.
        LIBRARY.impl(self.name, self._run, "CompositeExplicitAutograd")
        torch.library.register_fake(name, self._fake, lib=LIBRARY)
        return getattr(getattr(torch.ops, NAMESPACE), self.name).default

    def output_shapes(self, arguments: Sequence[Any]) -> list[list[Any]]:
        bound = self.axes(arguments)
        return [[n for axis in t.axes for n in bound[axis]] for t in self.outputs]

    def _fake(self, *arguments: Any) -> Any:
        """Outputs: like an input of the same axes (strides as well), contiguous otherwise."""
        self.check(arguments)
        inputs = dict(zip((t.axes for t in self.tensors), arguments, strict=False))
        first = arguments[self.differentiable[0]]
        made = [
            torch.empty_like(inputs[t.axes]) if t.axes in inputs else first.new_empty(shape)
            for t, shape in zip(self.outputs, self.output_shapes(arguments), strict=True)
        ]
        return tuple(made) if len(made) > 1 else made[0]

    def check(self, arguments: Sequence[Any]) -> None:
        """Raises for element types that differ; a kernel does the same, but later."""
        kinds = {arguments[i].dtype for i in self.differentiable}
        if len(kinds) > 1:
            got = ", ".join(
                f"{self.tensors[i].function_name} {arguments[i].dtype}" for i in self.differentiable
            )
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
        inputs = [x.detach() for x in arguments[: len(self.tensors)]]
        out: Any = [o.new(inputs) for o in outputs] if inputs[0].is_cpu else None
        out = out[0] if out is not None and len(out) == 1 else out
        function = getattr(functional, self.signature.function.name)
        return function(*inputs, *self._values(arguments), out=out)

    def _new_outputs(self, arguments: Sequence[Any], shapes: Sequence[Any]) -> list[Output]:
        dtype = arguments[self.differentiable[0]].dtype
        axes = [t.axes for t in self.tensors]
        return [
            Output(tuple(shape), dtype, axes.index(t.axes) if t.axes in axes else None)
            for t, shape in zip(self.outputs, shapes, strict=True)
        ]

    def _values(self, arguments: Sequence[Any]) -> list[Any]:
        """What the function takes behind the tensors."""
        options = arguments[len(self.tensors) :]
        given = dict(zip((p.name for p in self.options), options, strict=True))
        return [
            p.default if p.info.name in self.ignores else given.get(p.name, p.default)
            for p in self.signature.parameters
        ]

    def prepare(self, arguments: Sequence[Any]) -> tuple[Callable[..., Any], list[list[int]]]:
        """The call for tensors of these shapes, which takes the inputs and then the outputs.

        And the outputs' shapes.
        """
        self.check(arguments)
        shapes = self.output_shapes(arguments)
        inputs = arguments[: len(self.tensors)]
        return prepare(self.signature, inputs, self._values(arguments)), shapes

    @functools.cached_property
    def fast_path(self) -> Any:
        """Past the dispatcher; None if there is none here."""
        counts = (len(self.tensors), len(self.options), len(self.outputs))
        return make_fast_path(self.recorder, self.differentiable, *counts)

    @functools.cached_property
    def ways(self) -> Ways:
        """The ways to call it."""
        return make_ways(self.fast_path, self.overload)

    @property
    def call(self) -> Callable[..., Any]:
        """The fast path where that serves, the dispatcher otherwise."""
        return self.ways.call


def _operators() -> dict[str, Operator]:
    made = {name: Operator(name, s) for name, s in functional.SIGNATURES.items()}
    for name, (base, ignores) in VARIANTS.items():
        made[name] = Operator(name, functional.SIGNATURES[base], ignores)
    return made


OPERATORS: Mapping[str, Operator] = _operators()
"""All operators by name."""
