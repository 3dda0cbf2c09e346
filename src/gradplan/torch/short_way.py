"""The short way: plain tensors go past PyTorch's dispatcher to the kernel.

The dispatcher costs 10 us for an operator written in Python, and as much again for its gradient:
more than the kernels of a small problem. It is needed only if something listens: a subclass, a
mode, a transform, a derivative of a higher order. Without any of those a call is one lookup of its
recipe, the allocation of its outputs and the kernel, and its gradient needs no lookup at all.

The code is generated, as `run` of a plan is: gathering arguments in loops would cost more than the
rest.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad

from gradplan.descriptor import Real
from gradplan.engines import on_change
from gradplan.memory import LARGE, use_large_pages
from gradplan.torch.autograd import Layout, OfForward, make_apply, plain_apply
from gradplan.torch.operators import Operator

_RECIPES = 4096  # per operator; a program with more shapes than that starts over
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""The types whose tensors have memory of their own; all others go through the dispatcher."""

_EXPORTS_GRAD = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
"""Newer tensors have a faster way out than `__dlpack__`, which refuses those with gradients."""

_CONTEXT: dict[str, Any] = {
    "is_compiling": torch.compiler.is_dynamo_compiling,
    "plain": _PLAIN,
    "modes": torch._C._len_torch_dispatch_stack,
    "transforms": torch._C._functorch.peek_interpreter_stack,
    "tracing": torch._C._get_tracing_state,
    "forward_ad": forward_ad,
    "grad_enabled": torch.is_grad_enabled,
    "empty_like": torch.empty_like,
    "is_batch": torch._C._functorch.is_legacy_batchedtensor,
}


class Recipe:
    """What a call has to know for shapes, an element type and options."""

    __slots__ = ("backward", "blanks", "kernel", "options", "run")

    kernel: Callable[..., Any]
    """Takes the inputs, the outputs and None."""
    run: Callable[..., Any]
    """The same, slower, for what the kernel refused: it says what is wrong, or mends it."""
    blanks: Sequence[Any]
    """Tensors without memory that have the shapes of outputs: `empty_like` is twice as fast as
    `new_empty`."""
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
    recipes: dict[Any, Recipe] = {}
    on_change(recipes.clear)
    arguments = ", ".join(operator.arguments)
    results = ", ".join(_results(operator))
    floats = _floats(operator)
    needs_grad = " or ".join(f"{name}.requires_grad" for name in floats)
    first_order = operator.op.gradient is not None
    # Indices go along with the recipe: autograd has no business with them.
    along = "".join(f", {name}" for name in _indices(operator))
    given = f"(recipe{along})" if along else "recipe"
    record = f"record({given}, {', '.join(floats)})"
    run = f"""if ({needs_grad}) and grad_enabled():
                return {record if first_order else f"apply(direct, {arguments})"}
            {_launched(operator, 12)}
            return {results}"""
    source = f"""
    def bind(prepare, recipes, limit, overload, apply, record, {", ".join(_CONTEXT)}):
        def find({arguments}):
            return recipes.get(({_key(operator)}))

        def make({arguments}):
            recipe = prepare({arguments})
            if len(recipes) >= limit: recipes.clear()
            recipes[{_key(operator)}] = recipe
            return recipe

        def direct({arguments}):
            recipe = find({arguments}) or make({arguments})
            {_launched(operator, 12)}
            return {results}

        def known({arguments}):
            if {_listened_to(operator)}:
                return None
            try:
                recipe = recipes[{_key(operator)}]
            except KeyError:
                return None
            {run}

        def call({arguments}):
            if {_listened_to(operator)} or {_batched(operator)}:
                return overload({arguments})
            recipe = find({arguments}) or make({arguments})
            {run}

        return find, direct, known, call
    """
    recorder = _Recorder(operator) if first_order else None
    bind = _compiled(source, operator.name)
    made = bind(
        _preparation(operator, recorder),
        recipes,
        _RECIPES,
        operator.overload,
        make_apply(operator),
        recorder and recorder.apply,
        **_CONTEXT,
    )
    return Calls(*made)


# Parts of the code ---------------------------------------------------------------------------


def _floats(operator: Operator) -> list[str]:
    return [operator.tensors[i].function_name for i in operator.differentiable]


def _indices(operator: Operator) -> list[str]:
    return [t.function_name for t in operator.tensors if t.index]


def _results(operator: Operator) -> list[str]:
    return [f"result_{i}" for i, _ in enumerate(operator.outputs)]


def _listened_to(operator: Operator) -> str:
    """Is anything there that PyTorch's dispatcher would notice?"""
    floats = _floats(operator)
    tests = [
        "is_compiling()",
        *(f"type({t.function_name}) not in plain" for t in operator.tensors),
        f"not {floats[0]}.is_cpu",
        *(f"{name}.is_neg()" for name in floats),
        "modes()",
        "transforms() is not None",
        "tracing() is not None",
        "forward_ad._current_level >= 0",
    ]
    return " or ".join(tests)


def _batched(operator: Operator) -> str:
    """Is it a batch of the old vmap (`is_grads_batched`)? Kernels refuse those, so ask late."""
    return " or ".join(f"is_batch({t.function_name})" for t in operator.tensors)


def _key(operator: Operator) -> str:
    shapes = [f"{t.function_name}.shape" for t in operator.tensors]
    # 0.0 equals -0.0, which is a different weight.
    options = [
        f"{p.name} or str({p.name})" if isinstance(p.info.field, Real) else p.name
        for p in operator.options
    ]
    return ", ".join([*shapes, f"{_floats(operator)[0]}.dtype", *options])


def _launched(operator: Operator, indent: int, wanted: Sequence[str] = ()) -> str:
    """Allocates the outputs (those that are `wanted`) and runs the kernel of `recipe`."""
    inputs = {t.axes: t.function_name for t in operator.tensors}
    lines = []
    for i, t in enumerate(operator.outputs):
        new = f"empty_like({inputs.get(t.axes, f'recipe.blanks[{i}]')})"
        lines.append(f"result_{i} = {new}" + (f" if {wanted[i]} else None" if wanted else ""))
    if not _EXPORTS_GRAD:
        lines += [f"{name} = {name}.detach()" for name in _floats(operator)]
    passed = ", ".join([t.function_name for t in operator.tensors] + _results(operator))
    lines += [
        "try:",
        f"    recipe.kernel({passed}, None)",
        "except Exception:",
        f"    {', '.join(_results(operator))} = recipe.run({passed})",
    ]
    return textwrap.indent("\n".join(lines), " " * indent).lstrip()


def _compiled(source: str, name: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(textwrap.dedent(source), f"<gradplan.torch {name}>", "exec"), scope)
    bind: Callable[..., Any] = scope["bind"]
    return bind


# Recipes -------------------------------------------------------------------------------------


def _preparation(operator: Operator, recorder: _Recorder | None) -> Callable[..., Recipe]:
    def prepare(*arguments: Any) -> Recipe:
        recipe = Recipe()
        run, shapes = operator.prepare(arguments)
        recipe.run = _mending(operator, run, arguments[len(operator.tensors) :])
        like = arguments[operator.differentiable[0]]
        recipe.blanks = [_blank(like, shape) for shape in shapes]
        # A call that reshapes its arguments has no kernel to go to directly.
        recipe.kernel = getattr(run, "kernel", None) or _without_workspace(run)
        if any(blank.numel() * blank.element_size() >= LARGE for blank in recipe.blanks):
            recipe.kernel = _in_large_pages(recipe.kernel, len(shapes))
        recipe.options = recorder.options(*arguments) if recorder is not None else ()
        recipe.backward = None
        return recipe

    return prepare


def _blank(like: Any, shape: Sequence[int]) -> Any:
    blank = like.detach().new_empty(shape)
    blank.untyped_storage().resize_(0)
    return blank


def _without_workspace(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *tensors: run(*tensors[:-1])


def _mending(operator: Operator, run: Callable[..., Any], options: Sequence[Any]) -> Any:
    """What to do when the kernel has refused: `run` says what is wrong, or finishes the call."""
    inputs = len(operator.tensors)
    is_batch = _CONTEXT["is_batch"]

    def mend(*tensors: Any) -> Any:
        if any(is_batch(x) for x in tensors[:inputs]):
            return operator.overload(*tensors[:inputs], *options)
        return run(*tensors)

    return mend


def _in_large_pages(kernel: Callable[..., Any], outputs: int) -> Callable[..., Any]:
    def run(*tensors: Any) -> Any:
        for x in tensors[-1 - outputs : -1]:
            if x is not None:
                use_large_pages(x.data_ptr(), x.nbytes)
        return kernel(*tensors)

    return run


# Gradients -----------------------------------------------------------------------------------


class _Recorder:
    """The first derivative: `apply` launches the kernel and records the backward.

    It takes the recipe, in a tuple with indices if there are any, and the other tensors.
    """

    def __init__(self, operator: Operator) -> None:
        derivative = OfForward(operator)
        layout = Layout(derivative)
        backward = derivative.backward
        floats, along = _floats(operator), _indices(operator)
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
        at = {operator.tensors[i].name: k + 1 for k, i in enumerate(operator.differentiable)}
        # Of several gradients only some may be asked for. A kernel that cannot leave one out
        # refuses, and then `run` makes it for nothing.
        several = len(backward.outputs) > 1
        wanted = [f"wants[{at[name]}]" for name in derivative.inputs] if several else []
        returned = ["None", *(result_of.get(name, "None") for name in at)]
        results = ", ".join(_results(backward))
        source = f"""
        def bind(find, call, {", ".join(_CONTEXT)}):
            def options({", ".join(operator.arguments)}):
                return ({"".join(f"{o}, " for o in self._option_values(operator, layout))})

            def forward(ctx, recipe, {", ".join(floats)}):
                {f"recipe, {', '.join(along)} = recipe" if along else ""}
                {_launched(operator, 16)}
                ctx.recipe = recipe
                {f"ctx.save_for_backward({', '.join(kept)})" if kept else ""}
                return {", ".join(_results(operator))}

            def backward(ctx, {", ".join(grads)}):
                forward_recipe = ctx.recipe
                {f"{', '.join(saved)}, = ctx.saved_tensors" if saved else ""}
                {"wants = ctx.needs_input_grad" if several else ""}
                recipe = forward_recipe.backward
                if recipe is None or grad_enabled() or {_listened_to(backward)}:
                    options = forward_recipe.options
                    {results} = call({arguments})
                    if recipe is None:
                        forward_recipe.backward = find({arguments})
                else:
                    {_launched(backward, 20, wanted)}
                return {", ".join(returned)}

            return options, forward, backward
        """
        bind = _compiled(source, operator.name)
        calls = backward.calls
        self.options, forward, pull = bind(calls.find, calls.call, **_CONTEXT)
        name = f"gradplan_{operator.name}"
        methods = {"forward": staticmethod(forward), "backward": staticmethod(pull)}
        function: Any = type(name, (torch.autograd.Function,), methods)
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
