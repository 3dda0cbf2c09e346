"""How functions of the function layer are made from signatures.

A function looks its arguments' shapes, element type, device and options up among the calls that it
has made before; only a new combination pays for validation and selection.
"""

from __future__ import annotations

import functools
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from gradplan.binding import bind, element_of, unpacked_shape
from gradplan.declaration import Tensor
from gradplan.engines import on_change
from gradplan.hints import MISSING, check_given, refuse_unknown, show_signature
from gradplan.offers import offered_as
from gradplan.plan import Plan, plan_class
from gradplan.signatures import Signature, docstring, plain_option
from gradplan.tensors import (
    DEVICE_KEYS,
    check_one_device,
    describe,
    device_of,
    framework_of,
    readable,
    shape_of,
)
from gradplan.vocabulary import InvalidProblem

_LIMIT = 4096  # cached calls per function; a program with more shapes than that starts over

Shape = tuple[int, ...]
Call = Callable[..., Any]


# One call ------------------------------------------------------------------------------------


def prepare(signature: Signature, inputs: Sequence[Any], options: Sequence[Any]) -> Call:
    """The call for such arguments: takes the inputs and then the outputs (or None).

    An optional input may be None; `options` are the values of all parameters in order.
    """
    op, name = signature.op, signature.function.name
    given = [(t, x) for t, x in zip(signature.inputs, inputs, strict=True) if not _left_out(t, x)]
    instead = functools.partial(offered_as, op=op, function=signature.function)
    for tensor, x in given:
        readable(x, f"{name}: {tensor.function_name}", instead)  # refuses what is no tensor
    check_one_device(name, [(t.function_name, x) for t, x in given])
    shapes = [(t, shape_of(x)) for t, x in given]
    first = next(x for t, x in given if t is signature.first)
    element = element_of(name, op, signature.first, first)
    named = {p.info.name: value for p, value in zip(signature.parameters, options, strict=True)}
    desc, bound = bind(signature, shapes, element, named)
    plan = plan_class(op).select(desc, device=device_of(first))
    wanted = [
        None if _left_out(t, x) else t.shape(desc)
        for t, x in zip(signature.inputs, inputs, strict=True)
    ]
    results = [unpacked_shape(t, bound, desc) for t in signature.outputs]
    if [s for s in wanted if s is not None] == [s for _, s in shapes] and results == [
        t.shape(desc) for t in signature.outputs
    ]:
        return plan._call
    return _with_views(signature, plan, wanted, results)


def _left_out(tensor: Tensor, x: Any) -> bool:
    return tensor.optional and x is None


def _with_views(
    signature: Signature, plan: Plan[Any], wanted: Sequence[Shape | None], results: Sequence[Shape]
) -> Call:
    """A call that reshapes or broadcasts on the way in, and gives results the caller's shape."""
    name = signature.function.name
    count = len(wanted)
    broadcasts = signature.op.broadcasts
    outputs = [t.function_name for t in signature.outputs]
    inner = [t.shape(plan.descriptor) for t in signature.outputs]

    def enter(x: Any, shape: Shape | None) -> Any:
        if shape is None or shape_of(x) == shape:
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
    view = framework_of(out).viewed(out, to)
    if view is None:
        raise InvalidProblem(
            f"{what}: expected strides that allow a view of shape {list(to)}; got others"
        )
    return view


# Functions -----------------------------------------------------------------------------------


def _unpack_out(function: str, count: int, out: Any) -> Any:
    if not isinstance(out, (tuple, list)) or len(out) != count:
        raise InvalidProblem(
            f"{function}: out: expected a tuple of {count} tensors; got {describe(out)}"
        )
    return out


def make_function(signature: Signature) -> Callable[..., Any]:
    """Compiles a function of the function layer."""
    name = signature.function.name
    first = signature.first.function_name
    arguments, lines = [], ["if unknown: refuse(unknown)"]
    context: dict[str, Any] = {"calls": {}, "copysign": math.copysign}
    key = [
        f"{t.function_name}.shape"
        if not t.optional
        else f"None if {t.function_name} is None else {t.function_name}.shape"
        for t in signature.inputs
    ]
    key += [
        f"{first}.dtype",
        f"None if type({first}) is ndarray else devices[type({first})]({first})",
    ]
    for argument, what in signature.arguments:
        default = signature.default_of(what)
        given = default is not inspect.Parameter.empty
        arguments.append(f"{argument}={default!r}" if given else f"{argument}=missing")
    for parameter in signature.parameters:
        field, option = parameter.info.field, parameter.name
        if field.plain_expected:
            context[f"plain_{option}"] = functools.partial(plain_option, name, option, field)
            test = field.plain_test.format(option)
            lines.append(f"if {test}: {option} = plain_{option}({option})")
        key += [part.format(option) for part in field.key_parts]
    inputs = ", ".join(t.function_name for t in signature.inputs)
    values = "".join(f"{p.name}, " for p in signature.parameters)
    count = len(signature.outputs)
    if count > 1:
        lines.append(f"if out is not None: out = unpack(out)\nelse: out = ({'None, ' * count})")
    lines += [
        "try:",
        f"    call = calls[{', '.join(key)}]",
        "except (KeyError, TypeError, AttributeError):",
        f"    call = prepare(({inputs},), ({values}))",
        "    if len(calls) >= limit: calls.clear()",
        "    try:",
        f"        calls[{', '.join(key)}] = call",
        "    except (TypeError, AttributeError):",
        "        pass  # a tensor without shape and dtype: nothing to remember it by",
        f"return call({inputs}, {'out' if count == 1 else '*out'})",
    ]

    def prepared(given: Sequence[Any], options: Sequence[Any]) -> Call:
        names = [t.function_name for t in signature.inputs]
        check_given(name, dict(zip(names, given, strict=True)))
        return prepare(signature, given, options)

    context.update(
        limit=_LIMIT,
        ndarray=np.ndarray,
        devices=DEVICE_KEYS,
        missing=MISSING,
        prepare=prepared,
        unpack=lambda out: _unpack_out(name, count, out),
        refuse=lambda unknown: refuse_unknown(made, unknown),
    )
    source = f"def {name}({', '.join(arguments)}, *, out=None, **unknown):\n"
    source += textwrap.indent("\n".join(lines), "    ")
    exec(compile(source, f"<gradplan {name}>", "exec"), context)
    on_change(context["calls"].clear)
    made: Callable[..., Any] = context[name]
    made.__module__ = "gradplan"
    made.__doc__ = docstring(signature)
    show_signature(made)
    return made
