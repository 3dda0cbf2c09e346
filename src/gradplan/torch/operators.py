"""The declarations as PyTorch operators `torch.ops.gradplan.<function>`.

One operator per function of the function layer: tensors first, then every option, all of them
required. Its schema, the shapes of its outputs (for FakeTensor and meta tensors) and its kernel are
derived from the declaration; derivatives are in autograd.py, vmap is in batching.py.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from gradplan import functional
from gradplan.descriptor import AxisOf, Field, Flag, IndexInto, Real, SizeField, Word
from gradplan.engines import on_change
from gradplan.recipes import Parameter, Signature, _bind_axes, prepare
from gradplan.spec import Tensor
from gradplan.vocabulary import InvalidProblem

NAMESPACE = "gradplan"
LIBRARY = torch.library.Library(NAMESPACE, "DEF")

_RECIPES = 4096  # per operator; a program with more shapes than that starts over
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""The types whose tensors have memory of their own; all others go through the dispatcher."""

_EXPORTS_GRAD = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
"""Newer tensors have a faster way out than `__dlpack__`, which refuses those with gradients."""

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
        bound = _bind_axes(self.name, self.fields, shapes)
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
        first = arguments[self.differentiable[0]]
        if first.is_cpu:
            return self.direct(*arguments)
        run, _ = self.prepare(arguments)
        return run(*arguments[: len(self.tensors)], *(None for _ in self.outputs))

    def prepare(self, arguments: Sequence[Any]) -> tuple[Callable[..., Any], list[list[int]]]:
        """The call for tensors of these shapes, which takes the inputs and then the outputs.

        And the outputs' shapes.
        """
        self.check(arguments)
        shapes = self.output_shapes(arguments)
        count = len(self.tensors)
        given = dict(zip((p.name for p in self.options), arguments[count:], strict=True))
        values = [
            p.default if p.info.name in self.ignores else given.get(p.name, p.default)
            for p in self.signature.parameters
        ]
        return prepare(self.signature, arguments[:count], values), shapes

    @functools.cached_property
    def direct(self) -> Callable[..., Any]:
        """The kernel, past the dispatcher, for tensors that have memory. No derivatives."""
        return self._compiled[0]

    @functools.cached_property
    def call(self) -> Callable[..., Any]:
        """The operator: the short way for plain tensors, the dispatcher for all others.

        PyTorch's dispatcher costs 10 us for an operator written in Python, more than the kernel of
        a small problem. It is needed only if something listens: a subclass, a mode, a transform.
        """
        return self._compiled[1]

    @functools.cached_property
    def apply(self) -> Callable[..., Any]:
        """`apply(run, *arguments)` runs it with derivatives recorded."""
        from gradplan.torch.autograd import make_apply

        return make_apply(self)

    @functools.cached_property
    def _compiled(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        recipes: dict[Any, Any] = {}
        on_change(recipes.clear)
        names = [t.function_name for t in self.tensors]
        floats = [names[i] for i in self.differentiable]
        arguments = ", ".join(self.arguments)
        # Tensors with the same axes have one shape; if not, the kernel says so.
        shapes = {t.axes: f"{t.function_name}.shape" for t in reversed(self.tensors)}
        # 0.0 equals -0.0, which is a different weight.
        options = [
            f"{p.name} or str({p.name})" if isinstance(p.info.field, Real) else p.name
            for p in self.options
        ]
        key = ", ".join([*shapes.values(), f"{floats[0]}.dtype", *options])
        # Outputs as `allocate` makes them, without its general form.
        inputs = {t.axes: t.function_name for t in self.tensors}
        outputs = [f"output_{i}" for i, _ in enumerate(self.outputs)]
        allocation = "; ".join(
            f"output_{i} = empty_like({inputs[t.axes]})"
            if t.axes in inputs
            else f"output_{i} = {floats[0]}.new_empty(sizes[{i}])"
            for i, t in enumerate(self.outputs)
        )
        passed = ", ".join(names + outputs)
        detached = "" if _EXPORTS_GRAD else "; ".join(f"{n} = {n}.detach()" for n in floats)
        source = f"""
        def bind({", ".join(_CONTEXT)}, overload, apply, recipes, prepare, limit):
            def direct({arguments}):
                try:
                    kernel, run, sizes = recipes[{key}]
                except KeyError:
                    run, sizes = prepare(({arguments},))
                    if len(recipes) >= limit: recipes.clear()
                    # A call that reshapes its arguments has no kernel to go to directly.
                    kernel = getattr(run, "kernel", None) or (lambda *all: run(*all[:-1]))
                    recipes[{key}] = kernel, run, sizes
                {allocation}
                {detached}
                try:
                    kernel({passed}, None)
                except Exception:  # it says what is wrong
                    return run({passed})
                return {", ".join(outputs)}

            def call({arguments}):
                if (
                    is_compiling()
                    or {" or ".join(f"type({n}) not in plain" for n in names)}
                    or not {floats[0]}.is_cpu
                    or {" or ".join(f"{n}.is_neg()" for n in floats)}
                    or modes() or transforms() is not None or tracing() is not None
                    or forward_ad._current_level >= 0
                ):
                    return overload({arguments})
                if ({" or ".join(f"{n}.requires_grad" for n in floats)}) and grad_enabled():
                    return apply(direct, {arguments})
                return direct({arguments})

            return direct, call
        """
        scope: dict[str, Any] = {"__name__": __name__}
        exec(compile(textwrap.dedent(source), f"<gradplan.torch {self.name}>", "exec"), scope)
        made_functions: tuple[Callable[..., Any], Callable[..., Any]] = scope["bind"](
            **_CONTEXT,
            overload=self.overload,
            apply=self.apply,
            recipes=recipes,
            prepare=self.prepare,
            limit=_RECIPES,
        )
        return made_functions


_CONTEXT: dict[str, Any] = {
    "is_compiling": torch.compiler.is_compiling,
    "plain": _PLAIN,
    "modes": torch._C._len_torch_dispatch_stack,
    "transforms": torch._C._functorch.peek_interpreter_stack,
    "tracing": torch._C._get_tracing_state,
    "forward_ad": forward_ad,
    "grad_enabled": torch.is_grad_enabled,
    "empty_like": torch.empty_like,
}


def _operators() -> dict[str, Operator]:
    from gradplan.torch.rules import VARIANTS

    made = {name: Operator(name, s) for name, s in functional.SIGNATURES.items()}
    for name, (base, ignores) in VARIANTS.items():
        made[name] = Operator(name, functional.SIGNATURES[base], ignores)
    return made


OPERATORS: Mapping[str, Operator] = _operators()
"""All operators by name."""
