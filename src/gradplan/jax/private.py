"""Every name of JAX that is not public, and what is done without it."""

from __future__ import annotations

from typing import Any

from jax.extend.core import Primitive


def needs_devices(primitive: Primitive) -> bool:
    """Asks JAX to tell the lowering of a primitive which devices a program is for.

    `custom_partitioning` has to know them, and JAX looks for it before the lowering that puts it
    there. False where this JAX cannot be asked.
    """
    try:
        from jax._src.dispatch import prim_requires_devices_during_lowering
    except ImportError:
        return False
    prim_requires_devices_during_lowering.add(primitive)
    return True


def is_partitioned(ctx: Any) -> bool:
    """Whether a program that is lowered will be cut into parts for several devices.

    Inside of `shard_map` it has been already.
    """
    axes = ctx.module_context.axis_context
    manual = getattr(axes, "manual_axes", None)
    if manual is not None:
        return set(manual) != set(axes.mesh.axis_names)
    return getattr(axes, "num_devices", 1) > 1
