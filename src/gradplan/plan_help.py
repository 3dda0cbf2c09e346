"""What `help` and signatures say of a plan: its op's tensors, and the fields of its problem."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from gradplan.declaration import Op
from gradplan.signatures import run_tensors

_Function = Callable[..., Any]
_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)


def describe_tensors(op: Op) -> str:
    """A line for each tensor: its shape, its elements, and whether it may be left out."""
    required = {t.name for t, needed in run_tensors(op) if needed}
    lines = ["Tensors of `run`:"]
    for t in op.tensors:
        shape = "[" + ", ".join(t.axes) + "]"
        role = "input" if t.is_input else "output"
        when = f" ({t.when})" if t.when is not None else ""
        may = "" if t.name in required or when else ", optional"
        lines.append(f"    {t.name}: {role}{may}, {shape} of {t.kind.value}; {t.doc}{when}")
    return "\n".join(lines)


def _describe_fields(op: Op) -> str:
    lines = [f"Fields of `{op.descriptor.__name__}`:"]
    for info in op.fields:
        may = "" if info.required else f", optional ({info.default})"
        lines.append(f"    {info.name}{may}: {info.doc}")
    return "\n".join(lines)


@functools.cache
def _run_parameters(op: Op) -> tuple[inspect.Parameter, ...]:
    kind = inspect.Parameter.KEYWORD_ONLY
    tensors = [
        inspect.Parameter(t.name, kind, default=inspect.Parameter.empty if needed else None)
        for t, needed in run_tensors(op)
    ]
    rest = [inspect.Parameter(name, kind, default=None) for name in ("workspace", "stream")]
    return (*tensors, *rest)


@functools.cache
def _bound_run(op: Op, doc: str) -> dict[str, Any]:
    text = f"{inspect.cleandoc(doc)}\n\n{describe_tensors(op)}\n"
    shown = inspect.Signature(_run_parameters(op))
    return {"__signature__": shown, "__doc__": text, "__qualname__": f"{op.plan_name}.run"}


def document_run(op: Op, run: _Function, like: _Function) -> None:
    """Gives the `run` of one plan the text of `Plan.run`, and what its op has."""
    for name, value in _bound_run(op, like.__doc__ or "").items():
        setattr(run, name, value)


def methods(op: Op, base: type[Any]) -> dict[str, Any]:
    """`select`, `can_implement` and `run` of the base, as they are for one op."""
    by_name = inspect.Signature([_SELF, *_run_parameters(op)])
    select = vars(base)["select"].__func__
    shown = list(inspect.signature(select).parameters.values())
    shown[1] = shown[1].replace(annotation=op.descriptor.__name__)
    chosen = inspect.Signature(shown, return_annotation=op.plan_name)
    fields = f"{_describe_fields(op)}\n\n{describe_tensors(op)}"
    return {
        "run": _copy(op, base.run, by_name, describe_tensors(op)),
        "can_implement": _copy(op, base.can_implement, by_name, describe_tensors(op)),
        "select": classmethod(_copy(op, select, chosen, fields)),
    }


def _copy(op: Op, function: Any, signature: inspect.Signature, more: str) -> Any:
    """The same code with another signature and text."""
    made: Any = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__, made.__qualname__ = "gradplan", f"{op.plan_name}.{function.__name__}"
    made.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{more}\n"
    made.__signature__ = signature
    return made
