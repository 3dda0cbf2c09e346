"""Checked by mypy, not run: what users write has the types that they expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import gradplan as gp

if TYPE_CHECKING:
    import jax.numpy as jnp
    import torch
    from typing_extensions import assert_type

    Array = npt.NDArray[np.float32]

    def functions(x: Array, ids: npt.NDArray[np.int64]) -> None:
        assert_type(gp.cumsum(x), Array)
        assert_type(gp.cumsum(x, np.int64(0), reverse=True, out=x), Array)
        assert_type(gp.lerp_backward(x, 0.5), tuple[Array, Array])
        assert_type(gp.segment_sum(x, ids, num_segments=3, bounds="raise"), Array)
        gp.segment_sum(x, ids, 3, bounds="explode")  # type: ignore[arg-type]
        gp.cumsum([1, 2, 3])  # type: ignore[type-var]

    def plans(dy: Array) -> None:
        desc = gp.ScanBackwardDescriptor(
            kind="cumprod", input_shape=dy.shape, scan_axis=-1, element="f32"
        )
        assert_type(desc.kind, gp.ScanKind)
        assert_type(desc.input_shape, tuple[int, ...])
        plan = gp.ScanBackwardPlan.select(desc, gp.PlanPreference(engine="cpu"))
        assert_type(plan, gp.ScanBackwardPlan)
        assert_type(plan.descriptor, gp.ScanBackwardDescriptor)
        assert_type(plan.run(dy=dy, x=dy, y=dy), Array)
        assert_type(plan.workspace_size, int)
        plan.run(x=dy)  # type: ignore[call-arg]
        gp.ScanPlan.select(desc)  # type: ignore[arg-type]
        gp.ScanDescriptor(kind="cumsum", input_shape=(2,), element="f32")  # type: ignore[call-arg]
        for element in (np.float32, np.dtype(np.float16), gp.ElementKind.BF16):
            gp.ScanDescriptor(kind="cumsum", input_shape=(2,), scan_axis=0, element=element)
        gp.ScanDescriptor(kind="cumsum", input_shape=(2,), scan_axis=0, element="float64")
        gp.ScanDescriptor(kind="cumsum", input_shape=(2,), scan_axis=0, element=torch.float32)
        gp.ScanDescriptor(kind="cumsum", input_shape=(2,), scan_axis=0, element=jnp.bfloat16)
        gp.ScanDescriptor(
            kind="cumsum",
            input_shape=(2,),
            scan_axis=0,
            element="i32",  # type: ignore[arg-type]
        )
