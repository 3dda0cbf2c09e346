"""vmap: how a batch of problems becomes one larger problem of the same operator.

Derived from the named axes. Where tensors have one shape in common, the batch is a new first axis.
Where rows are picked by indices, a batch of rows with common indices makes rows longer; with
indices of their own, every problem gets a range of rows to itself. Each problem keeps its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradplan.descriptor import AxisOf, IndexInto
from gradplan.torch.operators import LIBRARY, NAMESPACE, OPERATORS, Operator

Rule = Callable[..., tuple[Any, Any]]


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _results(outputs: Sequence[Any], dims: Sequence[int]) -> tuple[Any, Any]:
    if len(outputs) == 1:
        return outputs[0], dims[0]
    return tuple(outputs), tuple(dims)


def _moved(x: Any, dim: int | None, to: int, batch: Any) -> Any:
    """`x` with the batch at axis `to`; repeated if it has none."""
    if dim is not None:
        return x.movedim(dim, to)
    x = x.unsqueeze(to)
    return x.expand(*x.shape[:to], batch, *x.shape[to + 1 :])


def _common_shape(operator: Operator) -> Rule:
    """For operators whose tensors all have the same shape."""
    count = len(operator.tensors)
    axis_at = operator.option(AxisOf)

    def rule(info: Any, dims: Sequence[Any], *arguments: Any) -> tuple[Any, Any]:
        tensors = [
            _moved(x, dim, 0, info.batch_size)
            for x, dim in zip(arguments[:count], dims, strict=False)
        ]
        rest = list(arguments[count:])
        scalar = tensors[0].ndim == 1
        if axis_at is not None:
            rank = tensors[0].ndim - 1
            rest[axis_at - count] = 1 if scalar else arguments[axis_at] % rank + 1
            if scalar:  # 0-d problems count as rows of length 1
                tensors = [x[:, None] for x in tensors]
        outputs = _as_tuple(operator.overload(*tensors, *rest))
        if scalar and axis_at is not None:
            outputs = tuple(x[:, 0] for x in outputs)
        return _results(outputs, [0] * len(outputs))

    return rule


def _indexed(operator: Operator) -> Rule:
    """For operators that pick rows by indices."""
    count = len(operator.tensors)
    index = operator.index
    assert index is not None
    picking = operator.tensors[index].axes[0]
    everything = (*operator.tensors, *operator.outputs)
    floats = [t for t in everything if not t.index]
    row = next(axis for axis in floats[0].axes if all(axis in t.axes for t in floats))
    table = next(axis for t in floats for axis in t.axes if axis not in (picking, row))
    padding_at = operator.option(IndexInto)
    # With indices out of range among them, ranges of rows are not in ascending order.
    any_order = next(
        o
        for o in OPERATORS.values()
        if o is operator
        or (o.op.gradient is operator.op.gradient is not None and o.ignores == operator.ignores)
        if not any(t.ascending for t in o.tensors)
    )
    writes_table = any(table in t.axes for t in operator.outputs)

    def longer_rows(batch: Any, dims: Sequence[Any], arguments: Sequence[Any]) -> tuple[Any, Any]:
        lead = {table: 1, picking: arguments[index].ndim}  # the rank of what is before the row
        tensors = [
            x if t.index else _moved(x, dim, lead[t.axes[0]], batch)
            for t, x, dim in zip(operator.tensors, arguments, dims, strict=False)
        ]
        outputs = _as_tuple(operator.overload(*tensors, *arguments[count:]))
        return _results(outputs, [lead[t.axes[0]] for t in operator.outputs])

    def more_rows(batch: Any, dims: Sequence[Any], arguments: Sequence[Any]) -> tuple[Any, Any]:
        sizes = operator.axes(
            [x if d is None else x.select(d, 0) for x, d in zip(arguments, dims, strict=False)]
        )
        # A table that all problems share, and only read, stays as it is.
        shared = not writes_table and all(
            dim is None
            for t, dim in zip(operator.tensors, dims, strict=False)
            if not t.index and table in t.axes
        )
        (rows,) = sizes[table]
        tensors = []
        for t, x, dim in zip(operator.tensors, arguments, dims, strict=False):
            if shared and not t.index and table in t.axes:
                tensors.append(x)
                continue
            x = _moved(x, dim, 0, batch)
            if t.index and not shared:
                first = torch.arange(batch, device=x.device).mul(rows)
                first = first.view(-1, *[1] * (x.ndim - 1))
                x = torch.where((x >= 0) & (x < rows), x + first, -1)
            rank = len(sizes[t.axes[0]])
            tensors.append(x.flatten(0, rank))
        options = [
            batch * rows if p.info.name == table else value
            for p, value in zip(operator.options, arguments[count:], strict=True)
        ]
        outputs = _as_tuple(any_order.overload(*tensors, *options))
        outputs = tuple(
            x.unflatten(0, (batch, *sizes[t.axes[0]]))
            for t, x in zip(operator.outputs, outputs, strict=True)
        )
        return _results(outputs, [0] * len(outputs))

    def one_by_one(batch: int, dims: Sequence[Any], arguments: Sequence[Any]) -> tuple[Any, Any]:
        made = [
            _as_tuple(
                operator.overload(
                    *(
                        x if d is None else x.select(d, i)
                        for x, d in zip(arguments, dims, strict=True)
                    )
                )
            )
            for i in range(batch)
        ]
        outputs = [torch.stack(list(x)) for x in zip(*made, strict=True)]
        return _results(outputs, [0] * len(outputs))

    def rule(info: Any, dims: Sequence[Any], *arguments: Any) -> tuple[Any, Any]:
        if dims[index] is None:
            return longer_rows(info.batch_size, dims, arguments)
        # One row to pad with becomes one per problem, which no single operator can express.
        if padding_at is not None and arguments[padding_at] is not None:
            return one_by_one(info.batch_size, dims, arguments)
        return more_rows(info.batch_size, dims, arguments)

    return rule


for _operator in OPERATORS.values():
    _rule = _common_shape(_operator) if _operator.index is None else _indexed(_operator)
    torch.library.register_vmap(f"{NAMESPACE}::{_operator.name}", _rule, lib=LIBRARY)
