"""Derivatives of the operators: reverse mode, forward mode, and both of them again.

The first derivative is declared: `Op.gradient` names the backward op and how its tensors relate to
the forward's. The backward op's own derivatives follow from its rule (rules.py). Every derivative
is made of operators that have derivatives, so any order works.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import _C
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd import forward_ad

from gradplan.spec import OPS, Op
from gradplan.torch.operators import LIBRARY, OPERATORS, Operator
from gradplan.torch.rules import CONVENTIONS, RULES, Linear, Rule, Values
from gradplan.vocabulary import Unsupported


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _sibling(operator: Operator, op: Op) -> Operator:
    """The operator of `op` with the same fixed fields (the kind) as `operator`."""
    fixed = dict(operator.signature.function.fixed)
    return next(OPERATORS[f.name] for f in op.functions if dict(f.fixed) == fixed)


def _forward_of(backward: Operator) -> Operator:
    """The operator whose gradient it computes; of several, one that takes indices in any order."""
    return next(
        _sibling(backward, op)
        for op in OPS.values()
        if op.gradient is not None
        and op.gradient.op == backward.op.name
        and not any(t.ascending for t in op.tensors)
    )


def _is_differentiable(op: Op) -> bool:
    """Does it declare a gradient, or is it one?"""
    gradients = {other.gradient.op for other in OPS.values() if other.gradient is not None}
    return op.gradient is not None or op.name in gradients


class Derivative:
    """The derivatives of one operator. Values go by the declarations' names."""

    operator: Operator
    saved: frozenset[str]
    """The tensors that reverse mode reads, inputs or outputs."""
    target: Operator
    """The operator that reverse mode leads to; its options must be known."""

    def pull(self, v: Values, grads: Sequence[Any]) -> Mapping[str, Any]:
        """Gradients of the inputs for gradients of the outputs."""
        raise NotImplementedError

    def push(self, v: Values, tangents: Values) -> Any:
        """Tangents of the outputs for tangents of the inputs."""
        raise NotImplementedError


class OfForward(Derivative):
    """Of an operator whose op declares a gradient."""

    def __init__(self, operator: Operator) -> None:
        gradient = operator.op.gradient
        assert gradient is not None
        self.operator = operator
        self.target = self.backward = _sibling(operator, OPS[gradient.op])
        self.rule = _rule_of(self.backward)
        self.inputs = [gradient.grads[t.name] for t in self.backward.outputs]
        self.cotangents = [t.name for t in self.backward.tensors if t.name in gradient.cotangents]
        reads = {t.name for t in self.backward.tensors}
        self.saved = frozenset(reads.difference(gradient.cotangents))

    def pull(self, v: Values, grads: Sequence[Any]) -> Mapping[str, Any]:
        results = self.backward.invoke({**v, **dict(zip(self.cotangents, grads, strict=True))})
        return dict(zip(self.inputs, _as_tuple(results), strict=True))

    def push(self, v: Values, tangents: Values) -> Any:
        given = {name: tangents[name] for name in self.inputs}
        if isinstance(self.rule, Linear):
            return self.operator.invoke({**v, **given})
        return self.rule.apply_jacobian(self.backward, v, list(given.values()))


class OfBackward(Derivative):
    """Of an operator that computes a gradient."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.rule = _rule_of(operator)
        self.target = forward = _forward_of(operator)
        assert forward.op.gradient is not None
        self.cotangents = [
            t.name for t in operator.tensors if t.name in forward.op.gradient.cotangents
        ]
        linear = isinstance(self.rule, Linear)
        self.saved = frozenset(t.name for t in operator.tensors if t.index or not linear)

    def pull(self, v: Values, grads: Sequence[Any]) -> Mapping[str, Any]:
        pulled = self.rule.apply_jacobian(self.operator, v, grads)
        result = dict(zip(self.cotangents, _as_tuple(pulled), strict=True))
        return {**self.rule.pull_saved(self.operator, v, grads, pulled), **result}

    def push(self, v: Values, tangents: Values) -> Any:
        result = self.operator.invoke({**v, **{name: tangents[name] for name in self.cotangents}})
        changed = self.rule.push_saved(self.operator, v, tangents)
        return result if changed is None else result + changed


def _rule_of(backward: Operator) -> Rule:
    return RULES.get(backward.name) or Linear(_forward_of(backward))


# Functions of autograd -----------------------------------------------------------------------


class Layout:
    """What a Function keeps from the forward call to the backward, in which order."""

    def __init__(self, derivative: Derivative) -> None:
        operator = derivative.operator
        names = [t.name for t in operator.tensors]
        forward = operator.op.gradient is not None
        self.inputs = [t for t in operator.tensors if t.name in derivative.saved]
        # Of several outputs none is kept: no declaration asks for it.
        self.outputs = [t.name for t in operator.outputs[:1] if forward]
        self.outputs = [name for name in self.outputs if name in derivative.saved]
        self.tensors = [t.name for t in self.inputs] + self.outputs
        self.options = [p.info.name for p in operator.options]
        wanted = [p.info.name for p in derivative.target.options if p.info.name not in self.options]
        self.conventions = {name: CONVENTIONS[name] for name in wanted if name in CONVENTIONS}
        # Sizes that only this operator's inputs have are options of the one that it leads to.
        self.sizes = {
            name: next(t.name for t in operator.tensors if t.axes[0] == name)
            for name in wanted
            if name not in self.conventions
        }
        self.names = names


def make_apply(operator: Operator) -> Callable[..., Any]:
    """`apply(run, *arguments)`: `run(*arguments)`, with derivatives recorded."""
    if not _is_differentiable(operator.op):
        return functools.partial(_refuse_gradient, operator.name)
    first_order = operator.op.gradient is not None
    derivative = OfForward(operator) if first_order else OfBackward(operator)
    layout = Layout(derivative)
    names, count = layout.names, len(layout.names)
    outputs = [t.name for t in operator.outputs]
    kept = [names.index(t.name) for t in layout.inputs]

    def values(ctx: Any, named: Sequence[str], saved: Sequence[Any]) -> dict[str, Any]:
        scalars = zip([*layout.options, *layout.sizes], ctx.options, strict=True)
        return {**layout.conventions, **dict(scalars), **dict(zip(named, saved, strict=True))}

    def forward(ctx: Any, run: Callable[..., Any], *arguments: Any) -> Any:
        result = run(*arguments)
        sizes = (arguments[names.index(name)].shape[0] for name in layout.sizes.values())
        ctx.options = (*arguments[count:], *sizes)
        results = _as_tuple(result)
        ctx.save_for_backward(*(arguments[i] for i in kept), *results[: len(layout.outputs)])
        if forward_ad._current_level >= 0:
            ctx.save_for_forward(*arguments[:count], *results)
        return result

    def pull(ctx: Any, *grads: Any) -> Any:
        pulled = derivative.pull(values(ctx, layout.tensors, ctx.saved_tensors), grads)
        return (None, *(pulled.get(name) for name in names), *(None for _ in layout.options))

    def jvp(ctx: Any, run: None, *tangents: Any) -> Any:
        v = values(ctx, names + outputs, ctx.saved_tensors)
        given = {
            name: torch.zeros_like(v[name]) if t is None else t
            for name, t in zip(names, tangents[:count], strict=True)
        }
        return derivative.push(v, given)

    methods = {"forward": forward, "backward": pull, "jvp": jvp}
    function: Any = type(
        f"gradplan_{operator.name}",
        (torch.autograd.Function,),
        {name: staticmethod(method) for name, method in methods.items()},
    )
    return plain_apply(function)


def plain_apply(function: Any) -> Callable[..., Any]:
    """`function.apply` without its look for transforms (vmap, grad) around the call.

    The dispatcher has done that before it comes here, and the short way excludes them.
    """
    apply: Callable[..., Any] = super(torch.autograd.Function, function).apply
    return apply


def _refuse_gradient(name: str, *arguments: Any) -> Any:
    raise Unsupported(f"{name}: no gradient is declared; detach its inputs")


def _register(operator: Operator) -> None:
    apply = make_apply(operator)

    def kernel(keyset: Any, *arguments: Any) -> Any:
        grad, forward_grad = _C.is_grad_enabled(), _C._is_fwd_grad_enabled()

        def below(*arguments: Any) -> Any:
            # `apply` switches both kinds of gradients off, for the transforms outside of this one
            # (vmap, grad, jvp) as well. They are not its business.
            with (
                torch.set_grad_enabled(grad),
                forward_ad._set_fwd_grad_enabled(forward_grad),
                _C._AutoDispatchBelowAutograd(),
            ):
                return operator.overload.redispatch(keyset & _C._after_autograd_keyset, *arguments)

        wanted = grad and any(arguments[i].requires_grad for i in operator.differentiable)
        if wanted or forward_ad._current_level >= 0:
            with enable_single_level_autograd_function():
                return apply(below, *arguments)
        return below(*arguments)

    LIBRARY.impl(operator.name, kernel, "Autograd", with_keyset=True)


for _operator in OPERATORS.values():
    _register(_operator)
