"""The short way: plain tensors go past PyTorch's dispatcher to the kernel.

The dispatcher costs 10 us for an operator written in Python, and as much again for its gradient:
more than the kernels of a small problem. It is needed only if something listens: a subclass, a
mode, a transform, a derivative of a higher order. Without any of those a call is one lookup of its
recipe, the allocation of its outputs and the kernel, and its gradient needs no lookup at all.

The code is generated, as `run` of a plan is: gathering arguments in loops would cost more than the
rest.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from gradplan.engines import on_change
from gradplan.torch.autograd import Layout, OfForward, make_apply, plain_apply
from gradplan.torch.launching import Launch, make_launch
from gradplan.torch.listening import is_transforming, make_quiet
from gradplan.torch.operators import Operator
from gradplan.torch.outputs import Output
from gradplan.torch.table import is_batch, make_table

_RECIPES = 4096  # per operator; a program with more shapes than that starts over
_is_compiling = torch.compiler.is_dynamo_compiling


class Recipe:
    """What a call has to know for shapes, an element type and options."""

    __slots__ = ("backward", "launch", "options")

    launch: Launch
    """Takes the inputs and gives new outputs."""
    options: tuple[Any, ...]
    """What the gradient has to know (`Layout`)."""
    backward: Recipe | None
    """The gradient's recipe, once it has been needed."""


class Calls(NamedTuple):
    """Functions of an operator's arguments."""

    find: Callable[..., Recipe | None]
    """The recipe, if a call like this has been made before."""
    direct: Callable[..., Any]
    """The kernel for tensors that have memory, without derivatives."""
    known: Callable[..., Any]
    """The operator if a call like this has been made before and nothing listens, else None."""
    call: Callable[..., Any]
    """The operator, for all tensors."""


def make_calls(operator: Operator) -> Calls:
    """Compiles them."""
    quiet = make_quiet(operator.differentiable, is_transforming)
    table = make_table(quiet, len(operator.tensors), len(operator.options), _RECIPES)
    on_change(table.clear)
    arguments = ", ".join(operator.arguments)
    results = ", ".join(_results(operator))
    floats = _floats(operator)
    recorders = _recorders(operator) if operator.op.gradient is not None else []
    records = [f"record_{i}" for i, _ in enumerate(recorders)]
    recorded = [_recorded(r, name, floats) for r, name in zip(recorders, records, strict=True)]
    run = f"""if ({_needs_grad(floats)}) and grad_enabled():
                {_lines(recorded or [f"return apply(direct, {arguments})"], 16)}
            {_launched(operator)}
            return {results}"""
    bound = ["is_compiling, grad_enabled, prepare, find, enter, add, overload, apply", *records]
    source = f"""
    def bind({", ".join(bound)}):
        def make({arguments}):
            recipe = prepare({arguments})
            add(recipe, {arguments})
            return recipe

        def direct({arguments}):
            recipe = find({arguments}) or make({arguments})
            {_launched(operator)}
            return {results}

        def known({arguments}):
            if is_compiling(): return None
            recipe = enter({arguments})
            if not recipe: return None
            {run}

        def call({arguments}):
            recipe = False if is_compiling() else enter({arguments})
            if recipe is False: return overload({arguments})
            recipe = recipe or make({arguments})
            {run}

        return direct, known, call
    """
    bind = _compiled(source, operator.name)
    made = bind(
        _is_compiling,
        torch.is_grad_enabled,
        _preparation(operator, recorders[0].options if recorders else None),
        table.find,
        table.enter,
        table.add,
        operator.overload,
        make_apply(operator),
        *(recorder.apply for recorder in recorders),
    )
    return Calls(table.find, *made)


# Parts of the code ---------------------------------------------------------------------------


def _floats(operator: Operator) -> list[str]:
    return [operator.tensors[i].function_name for i in operator.differentiable]


def _needs_grad(names: Sequence[str]) -> str:
    return " or ".join(f"{name}.requires_grad" for name in names)


def _lines(lines: Sequence[str], indent: int) -> str:
    """To be put where the first line's indent is already."""
    return textwrap.indent("\n".join(lines), " " * indent).lstrip()


def _results(operator: Operator) -> list[str]:
    return [f"result_{i}" for i, _ in enumerate(operator.outputs)]


def _launched(operator: Operator, wanted: Sequence[str] = ()) -> str:
    """Runs the kernel of `recipe`; of several outputs only those that are `wanted`."""
    passed = [*(t.function_name for t in operator.tensors), *wanted]
    return f"{', '.join(_results(operator))} = recipe.launch({', '.join(passed)})"


def _compiled(source: str, name: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(textwrap.dedent(source), f"<gradplan.torch {name}>", "exec"), scope)
    bind: Callable[..., Any] = scope["bind"]
    return bind


# Recipes -------------------------------------------------------------------------------------


def _preparation(
    operator: Operator, options: Callable[..., tuple[Any, ...]] | None
) -> Callable[..., Recipe]:
    def prepare(*arguments: Any) -> Recipe:
        recipe = Recipe()
        run, shapes = operator.prepare(arguments)
        like = arguments[operator.differentiable[0]]
        axes = [t.axes for t in operator.tensors]
        outputs = [
            Output(tuple(n), like.dtype, axes.index(t.axes) if t.axes in axes else None)
            for t, n in zip(operator.outputs, shapes, strict=True)
        ]
        mend = _mending(operator, run, arguments[len(axes) :])
        recipe.launch = make_launch(run, len(axes), outputs, mend)
        recipe.options = options(*arguments) if options is not None else ()
        recipe.backward = None
        return recipe

    return prepare


def _mending(operator: Operator, run: Callable[..., Any], options: Sequence[Any]) -> Any:
    """What to do when the kernel has refused: `run` says what is wrong, or finishes the call."""
    inputs = len(operator.tensors)

    def mend(*tensors: Any) -> Any:
        given = tensors[:inputs]
        if is_transforming() or any(is_batch(x) for x in given):
            return operator.overload(*given, *options)
        return run(*tensors)

    return mend


# Gradients -----------------------------------------------------------------------------------


def _recorders(operator: Operator) -> list[_Recorder]:
    """One for gradients of all inputs; before it, where there are several, one for each alone."""
    floats = _floats(operator)
    alone = [[name] for name in floats] if len(floats) > 1 else []
    return [_Recorder(operator, names) for names in [*alone, floats]]


def _recorded(recorder: _Recorder, record: str, floats: Sequence[str]) -> str:
    """The line that calls it, if nothing else needs gradients."""
    recipe = f"(recipe, {', '.join(recorder.along)})" if recorder.along else "recipe"
    others = [name for name in floats if name not in recorder.differentiated]
    condition = f"if not ({_needs_grad(others)}): " if others else ""
    return f"{condition}return {record}({recipe}, {', '.join(recorder.differentiated)})"


class _Recorder:
    """The first derivative: `apply` launches the kernel and records the backward.

    It takes the recipe, in a tuple with those tensors that need no gradient if there are any, and
    the others: autograd has no business with the former, and takes its time for every argument.
    """

    def __init__(self, operator: Operator, differentiated: Sequence[str]) -> None:
        self.differentiated = differentiated
        names = [t.function_name for t in operator.tensors]
        self.along = along = [name for name in names if name not in differentiated]
        derivative = OfForward(operator)
        layout = Layout(derivative)
        backward = derivative.backward
        kept = [t.function_name for t in layout.inputs] + ["result_0"] * len(layout.outputs)
        # From here on the backward's names for its tensors: the saved ones, then the cotangents.
        called = {t.name: t.function_name for t in backward.tensors}
        saved = [called[name] for name in layout.tensors]
        grads = [called[name] for name in derivative.cotangents]
        options = [*layout.options, *layout.sizes]
        values = {name: f"options[{i}]" for i, name in enumerate(options)}
        values |= {name: repr(value) for name, value in layout.conventions.items()} | called
        arguments = ", ".join(values[name] for name in backward.names)
        result_of = dict(zip(derivative.inputs, _results(backward), strict=True))
        declared = {t.function_name: t.name for t in operator.tensors}
        at = {declared[name]: k + 1 for k, name in enumerate(differentiated)}
        # Of several gradients only some may be asked for. A kernel that cannot leave one out
        # refuses, and then it is made for nothing.
        several = len(backward.outputs) > 1
        asked = {name: f"wants[{k}]" if len(at) > 1 else "True" for name, k in at.items()}
        wants = [asked.get(name, "False") for name in derivative.inputs]
        returned = ["None", *(result_of.get(name, "None") for name in at)]
        results = ", ".join(_results(backward))
        tensors = ", ".join(t.function_name for t in backward.tensors)
        source = f"""
        def bind(is_compiling, quiet, find, call):
            def options({", ".join(operator.arguments)}):
                return ({"".join(f"{o}, " for o in self._option_values(operator, layout))})

            def forward(ctx, recipe, {", ".join(differentiated)}):
                {f"recipe, {', '.join(along)} = recipe" if along else ""}
                {_launched(operator)}
                ctx.recipe = recipe
                {f"ctx.save_for_backward({', '.join(kept)})" if kept else ""}
                return {", ".join(_results(operator))}

            def backward(ctx, {", ".join(grads)}):
                forward_recipe = ctx.recipe
                {f"{', '.join(saved)}, = ctx.saved_tensors" if saved else ""}
                {"wants = ctx.needs_input_grad" if several and len(at) > 1 else ""}
                recipe = forward_recipe.backward
                if recipe is None or is_compiling() or not quiet({tensors}):
                    options = forward_recipe.options
                    {results} = call({arguments})
                    if recipe is None:
                        forward_recipe.backward = find({arguments})
                else:
                    {_launched(backward, wants if several else ())}
                return {", ".join(returned)}

            return options, forward, backward
        """
        bind = _compiled(source, operator.name)
        calls = backward.calls
        # What a transform has wrapped has no memory, so that no kernel takes it: no need to ask.
        quiet = make_quiet(backward.differentiable, torch.is_grad_enabled)
        self.options, forward, pull = bind(_is_compiling, quiet, calls.find, calls.call)
        name = f"gradplan_{operator.name}"
        methods = {"forward": staticmethod(forward), "backward": staticmethod(pull)}
        base = torch.autograd.Function
        # PyTorch asks for these in every call, and finds them sooner here.
        asked_for = ("setup_context", "clear_saved_tensors_on_access", "boxed_grads_call")
        near = {a: inspect.getattr_static(base, a) for a in asked_for if hasattr(base, a)}
        function: Any = type(name, (base,), near | methods)
        # What PyTorch makes for it, but a slot is faster than a dictionary, and `apply` goes to
        # `backward` without a look at what else it might mean.
        made = function._backward_cls
        function._backward_cls = type(
            made.__name__, (made,), {"__slots__": ("recipe",), "apply": pull}
        )
        self.apply = plain_apply(function)

    def _option_values(self, operator: Operator, layout: Layout) -> list[str]:
        called = {t.name: t.function_name for t in operator.tensors}
        sizes = [f"{called[name]}.shape[0]" for name in layout.sizes.values()]
        return [p.name for p in operator.options] + sizes
