"""Arguments of an operator of PyTorch, made from its declaration; every axis has its own size."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from gradplan.declaration import Kind
from gradplan.declaration.tensors import sizes_of
from gradplan.torch.operators import OPERATORS

SHAPE, AXIS = (7, 6, 5), 1


def fields_of(op: Any) -> dict[str, Any]:
    """The sizes of a problem, and the axis that it is along."""
    fields: dict[str, Any] = {}
    for number, info in enumerate(op.fields):
        if info.name == op.shape_field:
            fields[info.name] = SHAPE
        elif info.field.is_axis:
            fields[info.name] = AXIS
        elif info.field.is_extent:
            fields[info.name] = 9 + 2 * number
    return fields


def tensor_of(op: Any, t: Any, g: Any, dtype: Any = torch.float32) -> Any:
    """A tensor of an op: any numbers, or indices that are all in range."""
    fields = fields_of(op)
    shape = tuple(n for axis in t.axes for n in sizes_of(axis, SimpleNamespace(**fields)))
    if not t.index:
        x = torch.from_numpy(g.standard_normal(shape))
        if t.kind is not Kind.COMPUTE:
            return x.to(dtype)
        return x.abs().to(torch.promote_types(dtype, torch.float32))  # its logarithm may be taken
    into = SHAPE[AXIS] if t.into == op.axis_field else fields[t.into]
    ids = torch.from_numpy(g.integers(0, into, shape))
    if t.pointers:
        ids = ids.sort().values
        ids[0], ids[-1] = 0, into
    return ids.sort().values if t.ascending else ids


def option_of(op: Any, p: Any) -> Any:
    """A value of an option: another one than the default, where there are several."""
    fields = fields_of(op)
    if p.info.name in fields:
        return fields[p.info.name]
    variants = p.info.field.variants(fields)
    return p.info.field.attribute(variants[-1]) if variants else p.info.field.sample(0)


def arguments_of(
    operator: Any, dtype: Any = torch.float32, seed: int = 0, choose: Callable[..., Any] = option_of
) -> list[Any]:
    """Tensors, those that are optional too, and options that are not the defaults."""
    g = np.random.default_rng(seed)
    made = [tensor_of(operator.op, t, g, dtype) for t in operator.tensors]
    return made + [choose(operator.op, p) for p in operator.options]


def first_option(op: Any, p: Any) -> Any:
    """The value of an option that is declared first."""
    variants = p.info.field.variants(fields_of(op))
    if not variants or variants[0] is None:  # which stands for itself in a schema
        return None if variants else option_of(op, p)
    return p.info.field.attribute(variants[0])


def before_it_came(op: Any, p: Any) -> Any:
    """As `option_of`, without what options that came later have changed."""
    return p.default if p.info.field.apart else option_of(op, p)


def defaults_behind(operator: str, option: str) -> tuple[Any, ...]:
    """The defaults of an operator's options behind a given one."""
    options = OPERATORS[operator].options
    first = [p.name for p in options].index(option) + 1
    return tuple(p.default for p in options[first:])
