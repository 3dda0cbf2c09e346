"""What the functions of the function layer take, read off the declarations."""

from __future__ import annotations

import enum
import functools
import inspect
from dataclasses import dataclass
from typing import Any

from gradplan.declaration import Field, FieldInfo, Function, Op, Tensor
from gradplan.hints import check_given, shown
from gradplan.vocabulary import InvalidProblem


@dataclass(frozen=True)
class Parameter:
    """An option of a function: a descriptor field under the name that it has there."""

    name: str
    info: FieldInfo

    @property
    def default(self) -> Any:
        given = self.info.field.parameter_default
        if given is not None:
            return given
        if self.info.required:
            return inspect.Parameter.empty
        default = self.info.default
        return default.value if isinstance(default, enum.Enum) else default

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


def plain_option(function: str, name: str, field: Field, value: Any) -> Any:
    """A value in normal form, as it may stand in a key, or an error.

    What is refused must not be found later as the equal of something: 1 equals True and 1.0.
    """
    check_given(function, {name: value})
    try:
        return field.plain(value)
    except (TypeError, ValueError):
        raise InvalidProblem(
            f"{function}: {name}: expected {field.plain_expected}; "
            f"got {shown(value)}{field.closest(value)}"
        ) from None


class Signature:
    """What a function takes: inputs, then sizes that no input has, then what may be left out."""

    def __init__(self, op: Op, function: Function) -> None:
        self.op = op
        self.function = function
        fixed = function.fixed
        tensors = op.tensors_of(fixed)
        self.inputs = [t for t in tensors if t.is_input]
        self.outputs = [t for t in tensors if not t.is_input]
        from_inputs = {
            name
            for t in self.inputs
            if not t.optional
            for axis in t.axes
            for name in getattr(axis, "tells", (axis,))
        }
        parameters = [
            Parameter(self._called(info), info)
            for info in op.fields
            if info.name not in fixed
            and not (info.field.is_extent and info.name in from_inputs)
            and info.name != "element"
            and (info.when is None or info.when.allows(fixed))
        ]
        # Stable: what must be given comes first, otherwise the descriptor's order stays.
        self.parameters = sorted(parameters, key=lambda p: not p.required)

    def _called(self, info: FieldInfo) -> str:
        return self.function.names.get(info.name, info.field.parameter or info.name)

    @functools.cached_property
    def first(self) -> Tensor:
        """The input whose element type is the problem's."""
        return next(t for t in self.inputs if not t.index and not t.optional)

    @functools.cached_property
    def arguments(self) -> list[tuple[str, Tensor | Parameter]]:
        """Names in order, with what they stand for."""
        required = [(t.function_name, t) for t in self.inputs if not t.optional]
        optional = [(t.function_name, t) for t in self.inputs if t.optional]
        needed = [(p.name, p) for p in self.parameters if p.required]
        options = [(p.name, p) for p in self.parameters if not p.required]
        behind = [(name, t) for name, t in optional if t.last]
        optional = [(name, t) for name, t in optional if not t.last]
        return [*required, *needed, *optional, *options, *behind]

    def default_of(self, argument: Tensor | Parameter) -> Any:
        """What an argument is if it is left out; `inspect.Parameter.empty` if it must not be."""
        if isinstance(argument, Parameter):
            return argument.default
        return None if argument.optional else inspect.Parameter.empty


def run_tensors(op: Op) -> list[tuple[Tensor, bool]]:
    """The tensors of a plan's `run`, and whether each must be given, whatever the descriptor."""
    needed = [t for t in op.inputs if t.when is None and not t.optional]
    return [*((t, True) for t in needed), *((t, False) for t in op.tensors if t not in needed)]


def expected_axes(op: Op, tensor: Tensor) -> str:
    """The shape of a tensor, for messages and documentation."""
    return "[" + ", ".join("..." if axis in op.packs else axis for axis in tensor.axes) + "]"


def argument_doc(op: Op, argument: Tensor | Parameter) -> str:
    """What `help` says of an argument."""
    if isinstance(argument, Parameter):
        return argument.info.doc
    axes = "" if argument.axes == (op.shape_field,) else f" {expected_axes(op, argument)}"
    kind = ", int32 or int64" if argument.index else ""
    return f"{argument.doc}{axes}{kind}"


def docstring(signature: Signature) -> str:
    """The text that `help` shows for a function."""
    op, function = signature.op, signature.function
    summary, _, examples = inspect.cleandoc(function.doc).partition("\n\n")
    lines = [summary, "", "Args:"]
    lines += [f"    {name}: {argument_doc(op, arg)}" for name, arg in signature.arguments]
    several = len(signature.outputs) > 1
    names = ", ".join(t.name for t in signature.outputs)
    out = f"a tuple ({names}) of tensors to write" if several else "a tensor to write"
    lines.append(f"    out: {out} instead of a new one")
    returns = "; ".join(t.doc for t in signature.outputs)
    lines += ["", f"Returns:\n    {returns}", "", examples]
    return "\n".join(lines).rstrip() + "\n"


@functools.cache
def signature_of(op: Op, function: str) -> Signature:
    """The signature of an op's function."""
    return Signature(op, next(f for f in op.functions if f.name == function))
