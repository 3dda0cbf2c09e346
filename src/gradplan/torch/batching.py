"""vmap: how a batch of problems becomes one larger problem of the same operator.

Derived from the roles of axes. Where an op works along an axis of a shape, the batch is one more
axis of it. Where rows are picked by indices, a batch of rows with common indices makes rows longer;
with indices of their own, every problem gets a range of rows to itself. Each problem keeps its
bits. What fits none of these is a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradplan.declaration import Arithmetic, AxisRole
from gradplan.declaration.tensors import Replaced
from gradplan.torch.operators import NAMESPACE, OPERATORS, Operator

Rule = Callable[..., tuple[Any, Any]]


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _results(outputs: Sequence[Any], dims: Sequence[int]) -> tuple[Any, Any]:
    if len(outputs) == 1:
        return outputs[0], dims[0]
    return tuple(outputs), tuple(dims)


def _moved(x: Any, dim: int | None, to: int, batch: Any) -> Any:
    """`x` with the batch at axis `to`; repeated if it has none."""
    if x is None:
        return None
    if dim is not None:
        return x.movedim(dim, to)
    x = x.unsqueeze(to)
    return x.expand(*x.shape[:to], batch, *x.shape[to + 1 :])


def _one_by_one(operator: Operator) -> Rule:
    """For everything: a loop."""

    def rule(info: Any, dims: Sequence[Any], *arguments: Any) -> tuple[Any, Any]:
        made = [
            _as_tuple(
                operator.overload(
                    *(
                        x if d is None else x.select(d, i)
                        for x, d in zip(arguments, dims, strict=True)
                    )
                )
            )
            for i in range(info.batch_size)
        ]
        outputs = [torch.stack(list(x)) for x in zip(*made, strict=True)]
        return _results(outputs, [0] * len(outputs))

    return rule


def _one_more_axis(operator: Operator) -> Rule:
    """For operators that work along an axis of a shape, or along none."""
    op, count = operator.op, len(operator.tensors)
    names = [p.info.name for p in operator.options]
    axis_at = None if op.axis_field is None else names.index(op.axis_field)
    whole = [t.axes == (op.shape_field,) for t in (*operator.tensors, *operator.outputs)]
    shaped = [i for i, w in enumerate(whole[:count]) if w]
    resized = [i for i, t in enumerate(operator.tensors) if isinstance(t.axes[0], Replaced)]
    ranked = (shaped or resized)[0]  # of the shape's rank
    apart = [not op.has_batch(t) for t in operator.tensors]
    loop = _one_by_one(operator)

    def rule(info: Any, dims: Sequence[Any], *arguments: Any) -> tuple[Any, Any]:
        if any(alone and dim is not None for alone, dim in zip(apart, dims, strict=False)):
            return loop(info, dims, *arguments)
        tensors = [
            x if alone else _moved(x, dim, 0, info.batch_size)
            for x, dim, alone in zip(arguments[:count], dims, apart, strict=False)
        ]
        rest = list(arguments[count:])
        rank = tensors[ranked].ndim - 1
        scalar = rank == 0 and axis_at is not None
        if axis_at is not None:
            rest[axis_at] = 1 if scalar else rest[axis_at] % rank + 1
        if scalar:  # 0-d problems count as rows of length 1
            tensors = [x[:, None] if w else x for x, w in zip(tensors, whole, strict=False)]
        outputs = _as_tuple(operator.overload(*tensors, *rest))
        if scalar:
            outputs = tuple(
                x[:, 0] if w else x for x, w in zip(outputs, whole[count:], strict=True)
            )
        return _results(outputs, [0] * len(outputs))

    return rule if all(map(op.has_batch, operator.outputs)) else loop


def _indexed(operator: Operator) -> Rule:
    """For operators that pick rows by one tensor of indices."""
    op, count = operator.op, len(operator.tensors)
    index = next(i for i, t in enumerate(operator.tensors) if t.index)
    (picking,), table = operator.tensors[index].axes, operator.tensors[index].into
    padding_at = [count + i for i, p in enumerate(operator.options) if p.info.field.size]
    # With indices out of range among them, ranges of rows are not in ascending order.
    any_order = next(
        o
        for o in OPERATORS.values()
        if o is operator
        or (o.op.gradient is op.gradient is not None and o.ignores == operator.ignores)
        if o.function.fixed == operator.function.fixed
        if not any(t.ascending for t in o.tensors)
    )
    copies = op.arithmetic is Arithmetic.COPY
    writes_table = any(table in t.axes for t in operator.outputs)
    loop = _one_by_one(operator)

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
        # A table that all problems share, and only copy from, stays as it is.
        shared = (
            copies
            and not writes_table
            and all(
                dim is None
                for t, dim in zip(operator.tensors, dims, strict=False)
                if not t.index and table in t.axes
            )
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

    def rule(info: Any, dims: Sequence[Any], *arguments: Any) -> tuple[Any, Any]:
        if dims[index] is None:
            return longer_rows(info.batch_size, dims, arguments)
        # One row to pad with becomes one per problem, which no single operator can express.
        if any(arguments[at] is not None for at in padding_at):
            return loop(info, dims, *arguments)
        return more_rows(info.batch_size, dims, arguments)

    return rule


def _is_simple(operator: Operator) -> bool:
    """Whether there is one tensor of indices, and every other has a row axis and then features."""
    op, tensors = operator.op, (*operator.tensors, *operator.outputs)
    rows, features = (set(op.sizes_with_role(r)) for r in (AxisRole.ROWS, AxisRole.FEATURES))
    indices = [t for t in tensors if t.index]
    return (
        len(indices) == 1
        and not indices[0].pointers
        and not any(t.optional for t in tensors)
        and all(
            len(t.axes) == 2 and t.axes[0] in rows and t.axes[1] in features
            for t in tensors
            if not t.index
        )
    )


def rule_for(operator: Operator) -> Rule:
    if operator.op.shape_field is not None:
        return _one_more_axis(operator)
    return _indexed(operator) if _is_simple(operator) else _one_by_one(operator)


def register(operator: Operator) -> None:
    """Tells PyTorch how to batch an operator; found out when it is needed first."""
    made: list[Rule] = []

    def rule(info: Any, dims: Sequence[Any], *arguments: Any) -> tuple[Any, Any]:
        if not made:
            made.append(rule_for(operator))
        return made[0](info, dims, *arguments)

    torch.library.register_vmap(f"{NAMESPACE}::{operator.name}", rule, lib=operator.library)
