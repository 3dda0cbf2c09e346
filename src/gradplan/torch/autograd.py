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

from gradplan.spec import OPS, Op
from gradplan.torch import private
from gradplan.torch.fast_path import Recorder
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
    cotangents: Sequence[str]
    """What a gradient of the outputs is called in `pull`."""
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
    """What a Function keeps from the forward call to the backward.

    In the order of the operator that reverse mode leads to, so that its arguments are there as they
    are: tensors first, then its options, then the others.
    """

    def __init__(self, derivative: Derivative) -> None:
        operator, target = derivative.operator, derivative.target
        self.inputs = [t.name for t in operator.tensors]
        self.floats = [self.inputs[i] for i in operator.differentiable]
        self.outputs = [t.name for t in operator.outputs]
        forward = operator.op.gradient is not None
        # Of several outputs none is kept: no declaration asks for it.
        kept = self.inputs + self.outputs[:1] if forward else self.inputs
        self.tensors = sorted(derivative.saved, key=(target.names + kept).index)
        self.kept = [kept.index(name) for name in self.tensors]
        options = [p.info.name for p in operator.options]
        wanted = [p.info.name for p in target.options]
        self.options = wanted + [name for name in options if name not in wanted]
        # Sizes that only this operator's inputs have are options of the one that it leads to.
        axes = [t.axes[0] for t in operator.tensors]
        self._at = {name: len(self.inputs) + i for i, name in enumerate(options)}
        self._sizes = {name: axes.index(name) for name in wanted if name in axes}

    def saved_options(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The values of `options` for a call."""
        sizes = {name: arguments[i].shape[0] for name, i in self._sizes.items()}
        given = {name: arguments[i] for name, i in self._at.items()}
        values = {**CONVENTIONS, **sizes, **given}
        return tuple(values[name] for name in self.options)


Backward = Callable[..., tuple[Any, ...]]


def _make_recorder(operator: Operator) -> Recorder:
    """The operator's Function, for the fast path and the dispatcher.

    Either has computed the results before it comes here.
    """
    derivative = OfForward(operator) if operator.op.gradient else OfBackward(operator)
    layout = Layout(derivative)
    single = len(layout.outputs) == 1

    def forward(ctx: Any, made: tuple[Any, ...], *needed: Any) -> Any:
        results, ctx.options, kept, everything = made
        if kept:
            ctx.save_for_backward(*kept)
        if everything is not None:
            ctx.save_for_forward(*everything)
        return results[0] if single else results

    def jvp(ctx: Any, made: None, *tangents: Any) -> Any:
        v = dict(zip(layout.options, ctx.options, strict=True))
        v |= zip(layout.inputs + layout.outputs, ctx.saved_tensors, strict=True)
        given = {
            name: torch.zeros_like(v[name]) if t is None else t
            for name, t in zip(layout.floats, tangents, strict=True)
        }
        return derivative.push(v, given)

    backward = _backward_by_position(derivative, layout) or _backward_by_name(derivative, layout)
    methods: dict[str, Callable[..., Any]] = {"forward": forward, "backward": backward, "jvp": jvp}
    members = {name: staticmethod(method) for name, method in methods.items()}
    function = type(f"gradplan_{operator.name}", (torch.autograd.Function,), members)
    return Recorder(private.plain_apply(function), layout.saved_options, layout.kept)


def _backward_by_name(derivative: Derivative, layout: Layout) -> Backward:
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        v = dict(zip(layout.options, ctx.options, strict=True))
        v |= zip(layout.tensors, ctx.saved_tensors, strict=True)
        pulled = derivative.pull(v, grads)
        needed = zip(layout.floats, ctx.needs_input_grad[1:], strict=True)
        return (None, *(pulled.get(name) if needs else None for name, needs in needed))

    return backward


def _backward_by_position(derivative: Derivative, layout: Layout) -> Backward | None:
    """The same for a first derivative, without names, which take longer than the rest.

    If what is at hand are its arguments in their order, and its results the inputs' gradients.
    """
    given = [*derivative.cotangents, *layout.tensors, *layout.options]
    target = derivative.target
    count = len(target.names)
    if not isinstance(derivative, OfForward):
        return None
    if given[:count] != target.names or derivative.inputs != layout.floats:
        return None
    fast = target.ways.backward

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        kept = ctx.saved_tensors if layout.kept else ()
        made = fast(grads, kept, ctx.options, ctx.needs_input_grad)
        if made is not None:
            return made
        results = _as_tuple(target.overload(*(grads + kept + ctx.options)[:count]))
        needed = zip(results, ctx.needs_input_grad[1:], strict=True)
        return (None, *(x if needs else None for x, needs in needed))

    return backward


def _refuse_gradient(name: str, *arguments: Any) -> Any:
    raise Unsupported(f"{name}: no gradient is declared; detach its inputs")


def _register(operator: Operator) -> None:
    if _is_differentiable(operator.op):
        recorder = _make_recorder(operator)
    else:
        refuse = functools.partial(_refuse_gradient, operator.name)
        recorder = Recorder(refuse, lambda arguments: (), ())
    operator.recorder = recorder
    count = len(operator.tensors)

    def kernel(keyset: Any, *arguments: Any) -> Any:
        with private.BelowAutograd():
            keys = keyset & private.KEYS_AFTER_AUTOGRAD
            result = operator.overload.redispatch(keys, *arguments)
        floats = [arguments[i] for i in operator.differentiable]
        forward_mode = private.is_forward_mode()
        needed = torch.is_grad_enabled() and any(x.requires_grad for x in floats)
        if not needed and not forward_mode:
            return result
        results = _as_tuple(result)
        everything = (*arguments[:count], *results)
        kept = tuple(everything[i] for i in recorder.kept)
        made = results, recorder.options(arguments), kept, everything if forward_mode else None
        with private.allow_function():
            return recorder.apply(made, *floats)

    LIBRARY.impl(operator.name, kernel, "Autograd", with_keyset=True)


# Gradients first: others go to their fast paths.
for _operator in sorted(OPERATORS.values(), key=lambda operator: operator.op.gradient is not None):
    _register(_operator)
