"""Every function of gradplan.jax and its gradient, batched over an axis that is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from device_programs import COLLECTIVES, assert_same_bits, run_checks
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax_cases import Case, all_cases

import gradplan as gp
import gradplan.jax as gpj

MESH = Mesh(np.array(jax.devices()), ("d",))
CUT = NamedSharding(MESH, PartitionSpec("d"))
BATCH = 2 * len(jax.devices())


def batch_of(case: Case) -> list[Any]:
    given = [case.arguments(gp.ElementKind.F32, seed) for seed in range(BATCH)]
    return [jnp.stack(list(map(jnp.asarray, xs))) for xs in zip(*given, strict=True)]


def compare(
    name: str, function: Callable[..., Any], wanted: Any, batch: Sequence[Any]
) -> list[str]:
    """The bits of one device; what is sent."""
    given = [jax.device_put(x, CUT) for x in batch]
    program = jax.jit(function).lower(*given).compile()
    made = jax.tree.leaves(program(*given))
    for got, want in zip(made, jax.tree.leaves(wanted), strict=True):
        assert_same_bits(got, want, name)
    sent: list[str] = COLLECTIVES.findall(program.as_text())
    if not sent:
        assert all(got.sharding.is_equivalent_to(CUT, got.ndim) for got in made), name
    return sent


def with_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        y, back = jax.vjp(function, *args)
        return y, back(jax.tree.map(lambda x: x * x, y))

    return run


def check(name: str, function: Callable[..., Any], batch: list[Any], becomes_rows: bool) -> None:
    """A batch of what has no other axis than its rows becomes more rows, which are not apart."""
    wanted = jax.jit(function)(*batch)
    sent = compare(name, function, wanted, batch)
    assert bool(sent) == becomes_rows, (name, sent)
    if becomes_rows:
        spec = PartitionSpec("d")
        apart = jax.shard_map(function, mesh=MESH, in_specs=spec, out_specs=spec, check_vma=False)
        assert not compare(name, apart, wanted, batch), name


def check_every_function() -> None:
    for case in all_cases():
        function = jax.vmap(with_gradient(case.ours))
        is_weighted = str(case).startswith("segment_weighted")
        check(str(case), function, batch_of(case), is_weighted)


def check_batches_of_ids() -> None:
    g = np.random.default_rng(0)
    table, x = g.normal(size=(40, 6)).astype(np.float32), g.normal(size=(BATCH, 5, 3))
    ids = jnp.asarray(g.integers(0, 40, (BATCH, 5)))
    check("embedding", lambda ids: gpj.embedding(table, ids), [ids], becomes_rows=False)
    sums = jax.vmap(lambda x, ids: gpj.segment_sum(x, ids, 40))
    check("segment_sum", sums, [jnp.asarray(x, jnp.float32), ids], becomes_rows=True)


if __name__ == "__main__":
    run_checks(globals())
