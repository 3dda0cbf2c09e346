"""Arguments of an operator of PyTorch, made from its declaration; every axis has its own size."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from gradplan.declaration.tensors import sizes_of

SHAPE, AXIS = (7, 6, 5), 1


def arguments_of(operator: Any, dtype: Any = torch.float32, seed: int = 0) -> list[Any]:
    """Tensors, those that are optional too, and options that are not the defaults."""
    g = np.random.default_rng(seed)
    fields: dict[str, Any] = {}
    for number, info in enumerate(operator.op.fields):
        if info.name == operator.op.shape_field:
            fields[info.name] = SHAPE
        elif info.field.is_axis:
            fields[info.name] = AXIS
        elif info.field.is_extent:
            fields[info.name] = 9 + 2 * number
    desc = SimpleNamespace(**fields)
    made: list[Any] = []
    for t in operator.tensors:
        shape = tuple(n for axis in t.axes for n in sizes_of(axis, desc))
        if not t.index:
            made.append(torch.from_numpy(g.standard_normal(shape)).to(dtype))
            continue
        into = SHAPE[AXIS] if t.into == operator.op.axis_field else fields[t.into]
        ids = torch.from_numpy(g.integers(0, into, shape))
        if t.pointers:
            ids = ids.sort().values
            ids[0], ids[-1] = 0, into
        made.append(ids.sort().values if t.ascending else ids)
    for p in operator.options:
        field = p.info.field
        if p.info.name in fields:
            made.append(fields[p.info.name])
        elif field.size:
            made.append(2)
        elif field.schema == "bool":
            made.append(True)
        else:
            made.append(p.default if isinstance(p.default, (str, float)) else field.sample(0))
    return made
