"""Derivatives of the operators: reverse mode, forward mode, and both of them again.

The first derivative is declared: `Op.gradient` names the backward op and how its tensors relate to
the forward's. The backward op's own derivatives follow from the rule of the forward function
(`Function.rule`). Every derivative is made of operators that have derivatives, so any order works.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gradplan.declaration import OPS, Gradient, Op, Values
from gradplan.declaration.tensors import Replaced
from gradplan.torch import private
from gradplan.torch.fast_path import Recorder, is_compiling
from gradplan.torch.namespace import XP
from gradplan.torch.operators import OPERATORS, Operator
from gradplan.vocabulary import Unsupported


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _in_order(result: Any, names: Sequence[str]) -> tuple[Any, ...]:
    """What a rule gives: one result, or several by name; None for one that it leaves out."""
    return tuple(map(result.get, names)) if isinstance(result, Mapping) else (result,)


def _sibling(operator: Operator, op: Op) -> Operator:
    """The operator of `op` with the same fixed fields (the kind) as `operator`."""
    return OPERATORS[op.sibling(operator.function).name]


def _forward_of(backward: Operator) -> Operator | None:
    """The operator whose gradient it computes; of several, one that takes indices in any order."""
    forwards = backward.op.forwards_of(backward.function)
    in_any_order = [op for op in forwards if not any(t.ascending for t in op.tensors)]
    return _sibling(backward, (in_any_order or list(forwards))[0]) if forwards else None


class Derivative:
    """The derivatives of one operator. Values go by the declarations' names."""

    operator: Operator
    gradient: Gradient
    """The relation of the forward to its backward."""
    forward: Operator
    backward: Operator
    target: Operator
    """The one of them that reverse mode leads to; its options must be known."""
    saved: frozenset[str]
    """The tensors that reverse mode reads, inputs or outputs."""

    def __init__(self, operator: Operator, forward: Operator, backward: Operator) -> None:
        assert forward.op.gradient is not None
        self.operator, self.forward, self.backward = operator, forward, backward
        self.gradient = forward.op.gradient
        self.rule = forward.function.rule
        if forward.op.is_linear(forward.function):
            self.rule = None
        self.inputs = [self.gradient.grads[t.name] for t in backward.outputs]
        """The forward's inputs in the order of the backward's outputs."""
        self.cotangents = [t.name for t in backward.tensors if t.name in self.gradient.cotangents]

    def tangent(self, v: Values, tangents: Values) -> tuple[Any, ...]:
        """J t: tangents of those outputs that the backward has cotangents for, in their order."""
        outputs = [self.gradient.cotangents[name] for name in self.cotangents]
        if self.rule is not None:
            return _in_order(self.rule.tangent(XP, v, tangents), outputs)
        results = _as_tuple(self.forward.invoke({**v, **tangents}))
        by_name = dict(zip((t.name for t in self.forward.outputs), results, strict=True))
        return tuple(by_name[name] for name in outputs)

    def pull(self, v: Values, grads: Sequence[Any]) -> Mapping[str, Any]:
        """Gradients of the inputs for gradients of the outputs."""
        raise NotImplementedError

    def push(self, v: Values, tangents: Values) -> Any:
        """Tangents of the outputs for tangents of the inputs."""
        raise NotImplementedError


class OfForward(Derivative):
    """Of an operator whose op declares a gradient."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(
            operator, operator, _sibling(operator, OPS[str(operator.op.gradient_name)])
        )
        self.target = self.backward
        reads = {t.name for t in self.backward.tensors}
        self.saved = frozenset(reads.difference(self.gradient.cotangents))

    def cotangents_of(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        """Of the gradients of the outputs those that the backward takes, in its order."""
        by_name = dict(zip((t.name for t in self.operator.recorded), grads, strict=True))
        return tuple(by_name[self.gradient.cotangents[name]] for name in self.cotangents)

    def pull(self, v: Values, grads: Sequence[Any]) -> Mapping[str, Any]:
        given = dict(zip(self.cotangents, self.cotangents_of(grads), strict=True))
        results = self.backward.invoke({**v, **given})
        return dict(zip(self.inputs, _as_tuple(results), strict=True))

    def push(self, v: Values, tangents: Values) -> Any:
        pushed = self.tangent(v, {name: tangents[name] for name in self.inputs})
        outputs = [self.gradient.cotangents[name] for name in self.cotangents]
        by_name = dict(zip(outputs, pushed, strict=True))
        results = tuple(by_name.get(t.name) for t in self.operator.recorded)
        return results if len(results) > 1 else results[0]


class OfBackward(Derivative):
    """Of an operator that computes a gradient."""

    def __init__(self, operator: Operator, forward: Operator) -> None:
        super().__init__(operator, forward, operator)
        self.target = forward
        self.saved = frozenset(t.name for t in operator.tensors if t.index or self.rule is not None)

    def pull(self, v: Values, grads: Sequence[Any]) -> Mapping[str, Any]:
        given = dict(zip(self.inputs, grads, strict=True))
        pushed = self.tangent(v, given)
        result = dict(zip(self.cotangents, pushed, strict=True))
        if self.rule is None:
            return result
        outputs = [self.gradient.cotangents[name] for name in self.cotangents]
        tangent = dict(zip(outputs, pushed, strict=True)) if len(pushed) > 1 else pushed[0]
        return {**self.rule.pull_saved(XP, v, given, tangent), **result}

    def push(self, v: Values, tangents: Values) -> Any:
        result = self.operator.invoke({**v, **{name: tangents[name] for name in self.cotangents}})
        changed = None if self.rule is None else self.rule.push_saved(XP, v, tangents)
        if changed is None:
            return result
        both = zip(_as_tuple(result), _in_order(changed, self.inputs), strict=True)
        summed = tuple(a if b is None else a + b for a, b in both)
        return summed if isinstance(result, tuple) else summed[0]


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
        kept = self.inputs + self.outputs
        self.tensors = sorted(derivative.saved, key=(target.names + kept).index)
        self.kept = [kept.index(name) for name in self.tensors]
        options = [p.info.name for p in operator.options]
        wanted = [p.info.name for p in target.options]
        self.options = wanted + [name for name in options if name not in wanted]
        self._defaults = {p.info.name: p.default for p in target.options}
        self._defaults |= derivative.forward.conventions
        # Sizes that only this operator's inputs have are options of the one that it leads to.
        self._sizes = {
            name: next(
                (i, t.axes.index(name)) for i, t in enumerate(operator.tensors) if name in t.axes
            )
            for name in wanted
            if name not in options and any(name in t.axes for t in operator.tensors)
        }
        self._at = {name: len(self.inputs) + i for i, name in enumerate(options)}
        # And those along the axis that is worked along.
        self._resized = {
            axes.size: (i, self._at[axes.field])
            for i, t in enumerate(operator.tensors)
            if isinstance(axes := t.axes[0], Replaced) and axes.size in wanted and not t.optional
        }

    def saved_options(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The values of `options` for a call."""
        sizes = {name: arguments[i].shape[axis] for name, (i, axis) in self._sizes.items()}
        for name, (i, axis) in self._resized.items():
            sizes[name] = arguments[i].shape[arguments[axis]]
        given = {name: arguments[i] for name, i in self._at.items()}
        values = {**self._defaults, **sizes, **given}
        return tuple(values[name] for name in self.options)


Backward = Callable[..., tuple[Any, ...]]


def _make_recorder(derivative: Derivative) -> Recorder:
    """The operator's Function, for the fast path and the dispatcher.

    Either has computed the results before it comes here.
    """
    operator = derivative.operator
    layout = Layout(derivative)

    def forward(ctx: Any, made: tuple[Any, ...], *floats: Any) -> Any:
        results, ctx.options, kept, everything = made
        if kept:
            ctx.save_for_backward(*kept)
        if everything is not None:
            ctx.save_for_forward(*everything)
        return results

    def jvp(ctx: Any, made: None, *tangents: Any) -> Any:
        v = dict(zip(layout.options, ctx.options, strict=True))
        v |= zip(layout.inputs + layout.outputs, ctx.saved_tensors, strict=True)
        given = {
            name: torch.zeros_like(v[name]) if t is None and v[name] is not None else t
            for name, t in zip(layout.floats, tangents, strict=True)
        }
        return derivative.push(v, given)

    backward = _backward_by_position(derivative, layout) or _backward_by_name(derivative, layout)
    methods: dict[str, Callable[..., Any]] = {"forward": forward, "backward": backward, "jvp": jvp}
    members = {name: staticmethod(method) for name, method in methods.items()}
    function = type(f"gradplan_{operator.name}", (torch.autograd.Function,), members)
    apply = private.plain_apply(function, "options")
    return Recorder(apply, layout.saved_options, layout.kept, len(operator.recorded))


def _wanted(ctx: Any, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Gradients for PyTorch, which takes none of an optional input that was left out."""
    given = (None, *grads)
    return tuple(g if need else None for g, need in zip(given, ctx.needs_input_grad, strict=False))


def _backward_by_name(derivative: Derivative, layout: Layout) -> Backward:
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        v = dict(zip(layout.options, ctx.options, strict=True))
        v |= zip(layout.tensors, ctx.saved_tensors, strict=True)
        pulled = derivative.pull(v, grads)
        return _wanted(ctx, [pulled.get(name) for name in layout.floats])

    return backward


def _backward_by_position(derivative: Derivative, layout: Layout) -> Backward | None:
    """The same for a first derivative, without names, which take longer than the rest.

    If what is at hand are its arguments in their order, and its results the inputs' gradients.
    """
    if not isinstance(derivative, OfForward):
        return None
    given = [*derivative.cotangents, *layout.tensors, *layout.options]
    outputs = [derivative.gradient.cotangents[name] for name in derivative.cotangents]
    target = derivative.target
    count = len(target.names)
    recorded = [t.name for t in derivative.operator.recorded]
    if given[:count] != target.names or outputs != recorded:
        return None
    if derivative.inputs != layout.floats:
        return None
    call = None if target.fast_path is None else target.fast_path.call_backward
    keeps = bool(layout.kept)
    # Of a single gradient it is known that it is needed.
    needed = (False, True) if len(layout.floats) == 1 else None

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        kept = ctx.saved_tensors if keeps else ()
        if call is not None and not is_compiling():
            made: Any = call(grads, kept, ctx.options, needed or ctx.needs_input_grad)
            if made is not None:
                return made  # type: ignore[no-any-return]
        results = _as_tuple(target.overload(*(grads + kept + ctx.options)[:count]))
        return _wanted(ctx, results)

    return backward


def _refuse_gradient(name: str, *arguments: Any) -> Any:
    raise Unsupported(f"{name}: no gradient is declared; detach its inputs")


def recorder_for(operator: Operator) -> Recorder:
    """How derivatives of an operator are recorded."""
    forward = _forward_of(operator)
    if operator.op.gradient is not None:
        return _make_recorder(OfForward(operator))
    if forward is not None:
        return _make_recorder(OfBackward(operator, forward))
    refuse = functools.partial(_refuse_gradient, operator.name)
    return Recorder(refuse, lambda arguments: (), (), len(operator.outputs))


def register(operator: Operator) -> None:
    """Tells PyTorch how to differentiate an operator."""
    count = len(operator.tensors)

    def kernel(keyset: Any, *arguments: Any) -> Any:
        with private.BelowAutograd():
            keys = keyset & private.KEYS_AFTER_AUTOGRAD
            result = operator.overload.redispatch(keys, *arguments)
        floats = [arguments[i] for i in operator.differentiable]
        forward_mode = bool(floats) and private.is_forward_mode()
        needed = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in floats)
        if not needed and not forward_mode:
            return result
        recorder, results = operator.recorder, _as_tuple(result)
        first, others = results[: recorder.first], results[recorder.first :]
        everything = (*arguments[:count], *results)
        kept = tuple(everything[i] for i in recorder.kept)
        made = (
            first if len(first) > 1 else first[0],
            recorder.options(arguments),
            kept,
            everything if forward_mode else None,
        )
        with private.plain_apply_allowed():
            recorded = recorder.apply(made, *floats)
        return (*_as_tuple(recorded), *others) if others else recorded

    operator.library.impl(operator.name, kernel, "Autograd", with_keyset=True)
