"""DTensor: which axes of an operator's tensors may be cut over the ranks of a mesh.

Derived from the roles of axes. A batch axis, and one that is carried along, may be cut wherever
every output has it: each rank works on its part, and nothing is sent. So may the axis that one
tensor of indices runs along where an op only copies rows that they name. Anything else is
replicated: DTensor gathers it, as for its own operators. Sums over an axis are never offered as
`Partial`, whose all-reduce has an order of its own.

Rules are registered as soon as torch.distributed.tensor is imported, which takes half a second
and is left to whoever needs it.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gradplan.declaration import Arithmetic, AxisRole, Tensor, TensorAxis
from gradplan.declaration.fields import SizeField
from gradplan.declaration.tensors import DerivedAxes, Replaced
from gradplan.torch.operators import OPERATORS, Operator

_MODULE = "torch.distributed.tensor"

Axes = Sequence[TensorAxis]


def _axes(
    operator: Operator, tensor: Tensor, bound: Mapping[str, Any], worked: int | None
) -> list[TensorAxis]:
    """Every axis of a tensor, packs spelt out."""
    found: list[TensorAxis] = []
    for name in tensor.axes:
        info = None if isinstance(name, DerivedAxes) else operator.op.field_named[name]
        if info is not None and isinstance(info.field, SizeField):
            count = len(bound[name])
            found += [TensorAxis(info.field.role, name, number) for number in range(count)]
            continue
        whole = operator.op.shape_field
        if whole is None or (info is None and not hasattr(name, "shape")):
            # One more than a size: where segments begin, which belongs to all of them.
            found.append(TensorAxis(AxisRole.ROWS, str(name)))
            continue
        for number in range(len(bound[whole])):
            role = AxisRole.ALONG if number == worked else AxisRole.BATCH
            if not isinstance(name, DerivedAxes) or role in name.keeps:
                found.append(TensorAxis(role, whole, number))
            elif isinstance(name, Replaced):
                # An axis of its own, which the others behind it are counted from.
                found.append(TensorAxis(role, name.size))
    return found


def _is_looked_up(operator: Operator, field: str) -> bool:
    """Whether each place of an axis is a row of its own, copied from a table by its index."""
    having = [t for t in operator.tensors if field in t.axes]
    return (
        operator.op.arithmetic is Arithmetic.COPY
        and len(having) == 1
        and having[0].index
        and having[0].axes == (field,)
        and not having[0].ascending
    )


def shardable(operator: Operator, arguments: Sequence[Any]) -> list[tuple[list[Any], list[Any]]]:
    """The axes that may be cut, for arguments that have shapes.

    For each: the dimension of every output, and of every tensor among the arguments, that is this
    axis; None where a tensor does not have it.
    """
    count = len(operator.tensors)
    bound = operator.axes(arguments)
    options = dict(zip((p.info.name for p in operator.options), arguments[count:], strict=True))
    worked = None
    if operator.op.axis_field is not None:
        worked = options[operator.op.axis_field] % max(len(bound[str(operator.op.shape_field)]), 1)
    given = [
        None if x is None else _axes(operator, t, bound, worked)
        for t, x in zip(operator.tensors, arguments, strict=False)
    ]
    outputs = [_axes(operator, t, bound, worked) for t in operator.outputs]
    found = []
    for axis in dict.fromkeys(axis for axes in given if axes is not None for axis in axes):
        kept = axis.role in (AxisRole.BATCH, AxisRole.FEATURES) or (
            axis.role is AxisRole.ROWS and _is_looked_up(operator, axis.field)
        )
        # An extent that is an option would have to be cut as well.
        if kept and axis.field not in options and all(axis in axes for axes in outputs):
            places = [
                [axes.index(axis) if axes is not None and axis in axes else None for axes in each]
                for each in (outputs, given)
            ]
            found.append((places[0], places[1]))
    return found


def _register(operator: Operator) -> None:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    count = len(operator.tensors)

    def place(at: int | None) -> Any:
        return Replicate() if at is None else Shard(at)

    def rule(*arguments: Any) -> list[tuple[list[Any], list[Any]]]:
        rest = [None] * (len(arguments) - count)
        there = [x is not None for x in arguments[:count]]
        everywhere: tuple[list[Any], list[Any]] = [None] * len(operator.outputs), [None] * count
        return [
            (
                [place(at) for at in outputs],
                [place(at) if has else None for at, has in zip(inputs, there, strict=True)] + rest,
            )
            for outputs, inputs in (everywhere, *shardable(operator, arguments))
        ]

    register_sharding(operator.overload)(rule)


def register(operator: Operator) -> None:
    """Tells DTensor how to cut an operator, now or as soon as there is DTensor."""
    if _MODULE in sys.modules and not _hook.is_waiting:
        _register(operator)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Registers all operators when DTensor has been imported."""

    is_waiting = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = None if spec is None else spec.loader
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            self.is_waiting = False
            for operator in OPERATORS.values():
                _register(operator)

        loader.exec_module = exec_module
        return spec


_hook = _AfterImport()
if _MODULE not in sys.modules:
    _hook.is_waiting = True
    sys.meta_path.insert(0, _hook)
