"""One rank of two, with two devices each: functions of arrays that no process has all of.

Started by test_processes.py with its rank and an address.
"""

from __future__ import annotations

import sys
from typing import Any

import jax

RANK, ADDRESS = int(sys.argv[1]), sys.argv[2]
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(
    ADDRESS,
    num_processes=2,
    process_id=RANK,
    initialization_timeout=60,
    heartbeat_timeout_seconds=30,
)

import numpy as np  # noqa: E402
from device_programs import assert_same_bits, collectives, run_checks  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

import gradplan as gp  # noqa: E402
import gradplan.jax as gpj  # noqa: E402

assert len(jax.devices()) == 4 and len(jax.local_devices()) == 2
MESH = Mesh(np.array(jax.devices()), ("d",))
CUT = NamedSharding(MESH, PartitionSpec("d"))
COLUMNS = NamedSharding(MESH, PartitionSpec(None, "d"))


def spread(whole: np.ndarray[Any, Any], sharding: Any) -> Any:
    return jax.make_array_from_callback(whole.shape, sharding, lambda at: whole[at])


def compare(got: Any, whole: Any, what: str) -> None:
    """The parts that this process has."""
    assert len(got.addressable_shards) == 2, what
    for part in got.addressable_shards:
        assert_same_bits(part.data, np.asarray(whole)[part.index], what)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def check_batches_stay_apart() -> None:
    x = normal(8, 5000)
    run = jax.jit(lambda x: jax.vjp(lambda x: gpj.cumprod(x, 1), x)[1](x)[0])
    given = spread(x, CUT)
    assert not collectives(run, given)
    compare(run(given), gp.cumprod_backward(x, x, gp.cumprod(x)), "cumprod")


def check_columns_stay_apart() -> None:
    x, ids = normal(900, 8), np.random.default_rng(1).integers(0, 3, 900)
    run = jax.jit(lambda x: gpj.segment_sum(x, ids, 3))
    given = spread(x, COLUMNS)
    assert not collectives(run, given)
    compare(run(given), gp.unsorted_segment_sum(x, ids, 3), "segment_sum")


def check_what_is_not_apart_is_brought_together() -> None:
    x, ids = normal(900, 8), np.random.default_rng(1).integers(0, 3, 900)
    run = jax.jit(lambda x: gpj.segment_sum(x, ids, 3), out_shardings=COLUMNS)
    given = spread(x, CUT)  # rows
    assert collectives(run, given)
    compare(run(given), gp.unsorted_segment_sum(x, ids, 3), "segment_sum by rows")


if __name__ == "__main__":
    run_checks(globals())
