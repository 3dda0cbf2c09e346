"""How the function layer calls plans.

A function of the function layer is generated from a declaration. It looks its arguments' shapes,
element type and options up in a table of recipes; a recipe is a plan with the views that make the
arguments fit it (packed axes, broadcasting). Finding one is a dictionary lookup; only a new
combination pays for validation and selection.
"""

from __future__ import annotations

import enum
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from gradplan.descriptor import (
    AxisOf,
    Descriptor,
    FieldInfo,
    Flag,
    IndexInto,
    Real,
    ShapeField,
    SizeField,
    fields_of,
    integer,
)
from gradplan.engines import on_change
from gradplan.plan import Plan, plan_class
from gradplan.spec import Function, Op, Tensor
from gradplan.tensors import Framework, describe, dtype_name_of, framework_of, readable, shape_of
from gradplan.vocabulary import ElementKind, Error, InvalidProblem, Unsupported

_LIMIT = 4096  # recipes per function; a program with more shapes than that starts over

Shape = tuple[int, ...]
Call = Callable[..., Any]


@dataclass(frozen=True)
class Parameter:
    """An option of a function: a descriptor field under the name that it has there."""

    name: str
    info: FieldInfo

    @property
    def default(self) -> Any:
        if isinstance(self.info.field, AxisOf):
            return -1
        default = inspect.Parameter.empty if self.info.required else self.info.default
        return default.value if isinstance(default, enum.Enum) else default


class Signature:
    """What a function takes: inputs, then sizes that no input has, then options."""

    def __init__(self, op: Op, function: Function) -> None:
        self.op = op
        self.function = function
        fixed = function.fixed
        self.inputs = [t for t in op.inputs if t.when is None or t.when.allows(fixed)]
        self.outputs = op.outputs
        from_inputs = {axis for t in self.inputs for axis in t.axes}
        parameters = [
            Parameter(self._called(info), info)
            for info in op.fields
            if info.name not in fixed
            and info.name not in from_inputs
            and info.name != "element"
            and (info.when is None or info.when.allows(fixed))
        ]
        # Stable: what must be given comes first, otherwise the descriptor's order stays.
        self.parameters = sorted(parameters, key=lambda p: p.default is not inspect.Parameter.empty)

    def _called(self, info: FieldInfo) -> str:
        if isinstance(info.field, AxisOf):
            return "axis"
        return self.function.names.get(info.name, info.name)


# Recipes -------------------------------------------------------------------------------------


def _expected_axes(tensor: Tensor, packs: set[str]) -> str:
    return "[" + ", ".join("..." if a in packs else a for a in tensor.axes) + "]"


def bind_axes(
    name: str, fields: Mapping[str, FieldInfo], shapes: Sequence[tuple[Tensor, Shape]]
) -> dict[str, Shape]:
    """The extents of every axis that the inputs have; a pack has any number of them."""
    packs = {n for n, i in fields.items() if isinstance(i.field, SizeField) and i.field.pack}
    bound: dict[str, Shape] = {}
    # A tensor with two packs (dout [..., ...]) waits until another one (indices) has bound one.
    waiting = sorted(shapes, key=lambda item: len(packs.intersection(item[0].axes)))
    for tensor, shape in waiting:
        where = f"{name}: {tensor.function_name}"
        if isinstance(fields[tensor.axes[0]].field, ShapeField):
            whole = bound.setdefault(tensor.axes[0], shape)
            if whole != shape:
                raise InvalidProblem(
                    f"{where}: expected shape {list(whole)} as in the other tensors; "
                    f"got {list(shape)}"
                )
            continue
        open_packs = [a for a in tensor.axes if a in packs and a not in bound]
        taken = sum(len(bound[a]) if a in bound else 1 for a in tensor.axes if a not in open_packs)
        spare = len(shape) - taken
        if spare < 0 or (spare > 0 and not open_packs):
            expected = _expected_axes(tensor, packs)
            raise InvalidProblem(f"{where}: expected shape {expected}; got {list(shape)}")
        at = 0
        for axis in tensor.axes:
            rank = spare if axis in open_packs else len(bound.get(axis, (0,)))
            extent = shape[at : at + rank]
            at += rank
            if bound.setdefault(axis, extent) != extent:
                raise InvalidProblem(
                    f"{where}: expected {axis} {_extent(bound[axis])} as in the other tensors; "
                    f"got {_extent(extent)} (shape {list(shape)})"
                )
    return bound


def _extent(extent: Shape) -> str:
    return str(extent[0]) if len(extent) == 1 else str(list(extent))


def broadcast_shape(name: str, inputs: Sequence[tuple[Tensor, Shape]]) -> Shape:
    try:
        return np.broadcast_shapes(*(shape for _, shape in inputs))
    except ValueError:
        got = ", ".join(f"{t.function_name} {list(shape)}" for t, shape in inputs)
        raise InvalidProblem(f"{name}: expected shapes that broadcast; got {got}") from None


def element_of(name: str, op: Op, tensor: Tensor, x: Any) -> ElementKind:
    where = f"{name}: {tensor.function_name}"
    dtype = dtype_name_of(x, where)
    kind = ElementKind.from_dtype_name(dtype)
    if kind is None or kind not in op.descriptor.elements:
        known = [k.dtype_name for k in ElementKind if k in op.descriptor.elements]
        raise Unsupported(f"{where}: expected one of {', '.join(known)}; got {dtype}")
    return kind


def make_descriptor(
    signature: Signature, bound: dict[str, Shape], options: dict[str, Any]
) -> Descriptor:
    """The descriptor; its errors speak of the function and its parameters."""
    op, function = signature.op, signature.function
    values: dict[str, Any] = {**function.fixed, **options}
    for info in op.fields:
        if info.name in bound:
            extent = bound[info.name]
            values[info.name] = extent if isinstance(info.field, ShapeField) else math.prod(extent)
    try:
        return op.descriptor(**values)
    except Error as error:
        message = str(error)
        for parameter in signature.parameters:
            prefix = f"{op.descriptor.__name__}: {parameter.info.name}:"
            if message.startswith(prefix):
                message = f"{function.name}: {parameter.name}:{message[len(prefix) :]}"
        raise type(error)(message) from None


def prepare(signature: Signature, inputs: Sequence[Any], options: Sequence[Any]) -> Call:
    """The recipe for a call: takes the inputs and then the outputs (or None)."""
    op, name = signature.op, signature.function.name
    tensors = signature.inputs
    for tensor, x in zip(tensors, inputs, strict=True):
        readable(x, f"{name}: {tensor.function_name}")  # refuses what is no tensor
    shapes = [(t, shape_of(x)) for t, x in zip(tensors, inputs, strict=True)]
    element = next(
        element_of(name, op, t, x) for t, x in zip(tensors, inputs, strict=True) if not t.index
    )
    named = {p.info.name: value for p, value in zip(signature.parameters, options, strict=True)}
    if op.broadcasts:
        bound = {tensors[0].axes[0]: broadcast_shape(name, shapes)}
    else:
        bound = bind_axes(name, {i.name: i for i in op.fields}, shapes)
    desc = make_descriptor(signature, bound, {**named, "element": element})
    plan = plan_class(op).select(desc)
    wanted = [op.tensor_shape(t, desc) for t in tensors]
    results = [unpacked_shape(t, bound, desc) for t in signature.outputs]
    if wanted == [s for _, s in shapes] and results == [
        op.tensor_shape(t, desc) for t in signature.outputs
    ]:
        return plan._call
    return _with_views(signature, plan, wanted, results)


def unpacked_shape(tensor: Tensor, bound: Mapping[str, Shape], desc: Descriptor) -> Shape:
    """The shape of an output for the caller, packs spelt out."""
    shape: list[int] = []
    for axis in tensor.axes:
        shape.extend(bound[axis] if axis in bound else (getattr(desc, axis),))
    return tuple(shape)


def _with_views(
    signature: Signature, plan: Plan[Any], wanted: Sequence[Shape], results: Sequence[Shape]
) -> Call:
    """A recipe that reshapes or broadcasts on the way in, and gives results the caller's shape."""
    name = signature.function.name
    count = len(wanted)
    broadcasts = signature.op.broadcasts
    outputs = [t.function_name for t in signature.outputs]
    inner = [plan.op.tensor_shape(t, plan.descriptor) for t in signature.outputs]

    def enter(x: Any, shape: Shape) -> Any:
        if shape_of(x) == shape:
            return x
        x = readable(x, name)
        return framework_of(x).broadcast(x, shape) if broadcasts else x.reshape(shape)

    def call(*args: Any) -> Any:
        inputs = [enter(x, shape) for x, shape in zip(args[:count], wanted, strict=True)]
        given = args[count:]
        views = [
            None if out is None else _view_output(f"{name}: out ({label})", out, shape, to)
            for label, out, shape, to in zip(outputs, given, results, inner, strict=True)
        ]
        made = plan._call(*inputs, *views)
        produced = made if isinstance(made, tuple) else (made,)
        finished = tuple(
            y.reshape(shape) if out is None else out
            for y, out, shape in zip(produced, given, results, strict=True)
        )
        return finished if len(finished) > 1 else finished[0]

    merging = getattr(plan._call, "merging", None)
    if merging is not None and not broadcasts:
        cast(Any, call).kernel = merging
    return call


def _view_output(what: str, out: Any, shape: Shape, to: Shape) -> Any:
    if not hasattr(out, "reshape") or shape_of(out) != shape:
        got = list(shape_of(out)) if hasattr(out, "shape") else type(out).__name__
        raise InvalidProblem(f"{what}: expected a tensor of shape {list(shape)}; got {got}")
    if shape == to:
        return out
    framework: Framework = framework_of(out)
    view = framework.viewed(out, to)
    if view is None:
        raise InvalidProblem(
            f"{what}: expected strides that allow a view of shape {list(to)}; got others"
        )
    return view


# Functions -----------------------------------------------------------------------------------


def _plain(convert: Callable[[Any], Any], expected: str) -> Callable[[Any, str], Any]:
    def plain(value: Any, what: str) -> Any:
        try:
            return convert(value)
        except (TypeError, ValueError):
            raise InvalidProblem(f"{what}: expected {expected}; got {value!r}") from None

    return plain


_PLAIN = {
    "integer": _plain(integer, "an integer"),
    "real": _plain(lambda value: Real().convert(value, None), "a real number"),
    "flag": _plain(lambda value: Flag().convert(value, None), "True or False"),
}


def _normalise(function: str, parameter: Parameter) -> tuple[list[str], list[str]]:
    """Code that makes an option a plain value, and what stands for it in the key.

    Anything else would be a trap in a key: a tensor hashes by identity, so changing it in place
    would find the recipe of its old value; and 0.0 equals -0.0, which are different weights.
    """
    name, field = parameter.name, parameter.info.field
    what = repr(f"{function}: {name}")
    if isinstance(field, Real):
        test, plain, key = f"type({name}) is not float", "real", [name, f"copysign(1.0, {name})"]
    elif isinstance(field, Flag):
        test, plain, key = f"{name} is not False and {name} is not True", "flag", [name]
    elif isinstance(field, (AxisOf, SizeField)):
        test, plain, key = f"type({name}) is not int", "integer", [name]
    elif isinstance(field, IndexInto):
        test, plain, key = f"{name} is not None and type({name}) is not int", "integer", [name]
    else:
        return [], [name]
    return [f"if {test}: {name} = {plain}({name}, {what})"], key


def docstring(signature: Signature) -> str:
    """The text that `help` shows for a function."""
    function = signature.function
    summary, _, examples = inspect.cleandoc(function.doc).partition("\n\n")
    lines = [summary, "", "Args:"]
    packs = {i.name for i in signature.op.fields if isinstance(i.field, SizeField) and i.field.pack}
    for t in signature.inputs:
        whole = isinstance(_info(signature, t.axes[0]).field, ShapeField)
        axes = "" if whole else f" {_expected_axes(t, packs)}"
        kind = ", int32 or int64" if t.index else ""
        lines.append(f"    {t.function_name}: {t.doc}{axes}{kind}")
    lines += [f"    {p.name}: {p.info.doc}" for p in signature.parameters]
    several = len(signature.outputs) > 1
    names = ", ".join(t.name for t in signature.outputs)
    out = f"a tuple ({names}) of tensors to write" if several else "a tensor to write"
    lines.append(f"    out: {out} instead of a new one")
    returns = "; ".join(t.doc for t in signature.outputs)
    lines += ["", f"Returns:\n    {returns}", "", examples]
    return "\n".join(lines).rstrip() + "\n"


def _info(signature: Signature, name: str) -> FieldInfo:
    return next(info for info in fields_of(signature.op.descriptor) if info.name == name)


def _unpack_out(function: str, count: int, out: Any) -> Any:
    if not isinstance(out, (tuple, list)) or len(out) != count:
        raise InvalidProblem(
            f"{function}: out: expected a tuple of {count} tensors; got {describe(out)}"
        )
    return out


def make_function(signature: Signature) -> Callable[..., Any]:
    """Compiles a function of the function layer."""
    name = signature.function.name
    inputs = [t.function_name for t in signature.inputs]
    first = next(t.function_name for t in signature.inputs if not t.index)
    parameters = signature.parameters
    context: dict[str, Any] = {
        "recipes": {},
        "copysign": math.copysign,
        **_PLAIN,
    }
    arguments, key, lines = list(inputs), [f"{n}.shape" for n in inputs] + [f"{first}.dtype"], []
    for parameter in parameters:
        if parameter.default is inspect.Parameter.empty:
            arguments.append(parameter.name)
        else:
            arguments.append(f"{parameter.name}={parameter.default!r}")
        code, part = _normalise(name, parameter)
        key += part
        lines += code
    values = ", ".join(p.name for p in parameters)
    given = f"({', '.join(inputs)},), ({values}{',' if values else ''})"
    count = len(signature.outputs)
    if count > 1:
        lines.append(f"if out is not None: out = unpack(out)\nelse: out = ({'None, ' * count})")
    passed = "out" if count == 1 else "*out"
    lines += [
        "try:",
        f"    call = recipes[{', '.join(key)}]",
        "except (KeyError, TypeError, AttributeError):",
        f"    call = prepare({given})",
        "    if len(recipes) >= limit: recipes.clear()",
        "    try:",
        f"        recipes[{', '.join(key)}] = call",
        "    except (TypeError, AttributeError):",
        "        pass  # a tensor without shape and dtype: nothing to remember it by",
        f"return call({', '.join(inputs)}, {passed})",
    ]
    context.update(
        limit=_LIMIT,
        prepare=lambda given, options: prepare(signature, given, options),
        unpack=lambda out: _unpack_out(name, count, out),
    )
    source = f"def {name}({', '.join(arguments)}, *, out=None):\n"
    source += textwrap.indent("\n".join(lines), "    ")
    exec(compile(source, f"<gradplan {name}>", "exec"), context)
    on_change(context["recipes"].clear)
    made: Callable[..., Any] = context[name]
    made.__module__ = "gradplan"
    made.__doc__ = docstring(signature)
    return made
