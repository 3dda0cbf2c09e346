"""DTensor: every operator with every axis of every tensor cut, on 1 to 4 ranks: the same bits."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from operator_arguments import AXIS, SHAPE, arguments_of, defaults_behind  # noqa: E402
from processes import run_python  # noqa: E402
from ranks import on_ranks, same_bits  # noqa: E402
from six_ops import SIX, declared  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import (  # noqa: E402
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.distributed.tensor.debug import CommDebugMode  # noqa: E402

from gradplan import torch as gpt  # noqa: E402
from gradplan.declaration import OPS  # noqa: E402
from gradplan.torch.operators import OPERATORS  # noqa: E402
from gradplan.torch.sharding import shardable  # noqa: E402


def as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def placed(at: int | None) -> list[Any]:
    return [Replicate() if at is None else Shard(at)]


def distributed(arguments: list[Any], places: list[int | None], mesh: Any) -> list[Any]:
    tensors = [
        None if x is None else distribute_tensor(x, mesh, placed(at))
        for x, at in zip(arguments, places, strict=False)
    ]
    return tensors + arguments[len(places) :]


def check(operator: Any, arguments: list[Any], mesh: Any) -> int:
    """All ways to cut one tensor, and those that need no communication."""
    count = len(operator.tensors)
    expected = as_tuple(operator.overload(*arguments))
    ways: list[list[int | None]] = [[None] * count]
    for i, x in enumerate(arguments[:count]):
        for d in range(0 if x is None else x.ndim):
            ways.append([d if k == i else None for k in range(count)])
    kept = shardable(operator, arguments)
    for places in ways + [inputs for _, inputs in kept]:
        made = as_tuple(operator.overload(*distributed(arguments, places, mesh)))
        for y, one in zip(made, expected, strict=True):
            assert same_bits(y.full_tensor(), one), (operator.name, places)
    for outputs, places in kept:
        given = distributed(arguments, places, mesh)
        with CommDebugMode() as talk:
            made = as_tuple(operator.overload(*given))
        assert talk.get_total_counts() == 0, (operator.name, places)
        assert [list(y.placements) for y in made] == [placed(at) for at in outputs]
    return len(ways) + len(kept)


def check_gradients(operator: Any, arguments: list[Any], mesh: Any) -> None:
    """Of what needs no communication: the gradients need none either, wherever it is kept there."""
    op = operator.op
    if not operator.differentiable or (op.gradient_name is None and not op.forwards()):
        return
    for outputs, places in shardable(operator, arguments):
        one = [x.clone() if isinstance(x, torch.Tensor) else x for x in arguments]
        many = distributed(arguments, places, mesh)
        results = []
        for given in (one, many):
            floats = [given[i].requires_grad_() for i in operator.differentiable]
            made = as_tuple(operator.overload(*given))[: len(operator.recorded)]
            torch.manual_seed(1)
            plain = [torch.randn(y.shape).to(y.dtype) for y in made]
            cotangents = (
                plain
                if given is one
                else [
                    distribute_tensor(c, mesh, placed(at))
                    for c, at in zip(plain, outputs, strict=False)
                ]
            )
            results.append(torch.autograd.grad(made, floats, cotangents, allow_unused=True))
        for a, b in zip(*results, strict=True):
            assert (a is None) == (b is None), (operator.name, places)
            assert a is None or same_bits(b.full_tensor(), a), (operator.name, places)


def every_operator(rank: int, world: int) -> int:
    mesh = init_device_mesh("cpu", (world,))
    checked = 0
    for dtype in (torch.float32, torch.bfloat16):
        for operator in OPERATORS.values():
            arguments = arguments_of(operator, dtype)
            checked += check(operator, arguments, mesh)
            check_gradients(operator, arguments, mesh)
    return checked


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_every_operator(world: int) -> None:
    assert min(on_ranks(every_operator, world)) > 2 * 3 * len(OPERATORS)


def ops_to_come(rank: int, world: int) -> list[str]:
    """Ops that are declared later have rules as well: statistics, sums over the batch, bags."""
    mesh = init_device_mesh("cpu", (world,))
    known = set(OPS)
    with declared(*SIX):
        names = [f.name for op in OPS.values() if op.name not in known for f in op.functions]
        for name in names:
            operator = OPERATORS[name]
            arguments = arguments_of(operator)
            check(operator, arguments, mesh)
            for i, t in enumerate(operator.tensors):
                if t.optional:
                    arguments[i] = None
            check(operator, arguments, mesh)
    return names


def test_ops_that_are_declared_later() -> None:
    (names, _) = on_ranks(ops_to_come, 2)
    assert len(names) >= 6


def other_ways(rank: int, world: int) -> None:
    """Two dimensions of a mesh, second derivatives, partial sums, ids of any shape."""
    torch.manual_seed(0)
    x0, g0 = torch.randn(SHAPE), torch.randn(SHAPE)
    mesh = init_device_mesh("cpu", (2, 2))
    both = [Shard(0), Shard(2)]
    d = distribute_tensor(x0, mesh, both).requires_grad_()
    g = distribute_tensor(g0, mesh, both)
    with CommDebugMode() as talk:
        y = gpt.cumsum(d, AXIS)
        y.backward(g)
    assert talk.get_total_counts() == 0 and y.placements == tuple(both)
    assert same_bits(y.full_tensor(), gpt.cumsum(x0, AXIS))
    assert same_bits(d.grad.full_tensor(), gpt.cumsum(g0, AXIS, reverse=True))

    line = init_device_mesh("cpu", (world,))

    def second(x: Any) -> Any:
        (g,) = torch.autograd.grad(gpt.cumprod(x, AXIS), x, torch.ones_like(x), create_graph=True)
        (h,) = torch.autograd.grad(g, x, g.detach())
        return h

    h = second(distribute_tensor(x0, line, [Shard(0)]).requires_grad_())
    assert h.placements == (Shard(0),)
    assert same_bits(h.full_tensor(), second(x0.clone().requires_grad_()))

    partial = DTensor.from_local(x0, line, [Partial()], run_check=False)
    assert same_bits(
        gpt.cumsum(partial, AXIS).full_tensor(), gpt.cumsum(partial.full_tensor(), AXIS)
    )
    weight, ids = torch.randn(30, 6), torch.randint(0, 30, (7, 5))
    y = gpt.embedding(
        distribute_tensor(ids, line, [Shard(0)]), distribute_tensor(weight, line, [Replicate()])
    )
    assert y.placements == (Shard(0),) and same_bits(y.full_tensor(), weight[ids])
    # Sizes that are options belong to the call, not to the first one like it.
    rows, ids = torch.randn(41, 6), torch.randint(0, 30, (41,))
    for n in (30, 33, 30):
        cut, whole = distribute_tensor(rows, line, [Shard(1)]), gpt.segment_sum(rows, ids, n)
        made = gpt.segment_sum(cut, distribute_tensor(ids, line, [Replicate()]), n)
        assert same_bits(made.full_tensor(), whole) and made.placements == (Shard(1),)


def test_other_ways() -> None:
    on_ranks(other_ways, 4)


@pytest.mark.parametrize("first", ["gradplan.torch", "torch.distributed.tensor"])
def test_rules_come_with_dtensor_and_not_before(first: str) -> None:
    code = f"""
import sys
import {first}
assert ("torch.distributed.tensor" in sys.modules) == ({first!r} != "gradplan.torch")
import gradplan.torch, torch, torch.distributed.tensor
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
x = distribute_tensor(torch.ones(3, 4), init_device_mesh("cpu", (1,)), [Shard(0)])
with torch.inference_mode():
    y = torch.ops.gradplan.cumsum(x, 1, False, *{defaults_behind("cumsum", "reverse")!r})
assert y.placements == (Shard(0),)
print("right")
"""
    result = run_python(code)
    assert result.stdout == "right\n", result.stderr
