"""From a plan to the kernel and back: engine, FFI, driver and PTX, for every op."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pytest
from layouts import LAYOUTS
from samples import (
    REFERENCE,
    all_elements,
    bits,
    case_id,
    sample_descriptor,
    sample_inputs,
)
from standin import GpuArray, StandIn, scratch
from standin.archives import Changed

import gradplan as gp
from gradplan.cases import certified
from gradplan.declaration import OPS, Descriptor, Op
from gradplan.engines.cuda import CudaEngine, families
from gradplan.plan import Plan, plan_class

DEVICE = "cuda:0"
NOT_YET = {
    "scan_part",
    "scan_part_fold",
    "scan_part_gradient",
    "scan_part_gradient_total",
    "scan_part_total",
    "segment_with_indices",
    "unsorted_segment_with_indices",
    "segment_weighted",
    "unsorted_segment_weighted",
    "segment_weighted_backward",
    *(
        forward + backward
        for forward in ("segment_csr", "segment_csr_softmax", "scatter_reduce")
        for backward in ("", "_backward")
    ),
}
on_gpus = pytest.mark.parametrize(
    "op", [op for op in OPS.values() if op.name not in NOT_YET], ids=case_id
)


def select(op: Op, desc: Descriptor, device: str = DEVICE) -> Plan[Any]:
    return plan_class(op).select(desc, device=device)


def run(
    plan: Plan[Any], inputs: Mapping[str, Any], device: int = 0, arrange: Any = np.copy
) -> list[bytes]:
    """The bits of all outputs, for inputs that are copied to a GPU."""
    desc = plan.descriptor
    given = {name: arrange(x) for name, x in inputs.items()}
    for operand in plan.op.operands(desc):
        if not operand.is_input:
            start = np.zeros if operand.role.value == "inout" else _poisoned
            given[operand.name] = arrange(start(operand.shape, operand.kinds[0].dtype))
    plan.run(
        **{name: GpuArray(x, device) for name, x in given.items()},
        workspace=scratch(plan.workspace_size, device) if plan.workspace_size else None,
    )
    return [bits(given[o.name]) for o in plan.op.operands(desc) if not o.is_input]


def _poisoned(shape: tuple[int, ...], dtype: Any) -> Any:
    array = np.empty(shape, dtype)
    array.view(f"u{dtype.itemsize}")[...] = 2 ** (8 * dtype.itemsize) - 1
    return array


def expected(op: Op, desc: Descriptor, inputs: Mapping[str, Any]) -> list[bytes]:
    results = plan_class(op).select(desc, REFERENCE).run(**inputs)
    return [bits(y) for y in (results if isinstance(results, tuple) else (results,))]


def test_every_other_op_has_kernels() -> None:
    assert {*OPS} - NOT_YET == {*families()[0]} == {*families()[1]}


def test_an_op_without_kernels_is_refused(
    engine: CudaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(cast(Any, families()[0]), "linear_scan")
    with pytest.raises(gp.Unsupported, match="cuda: no kernel for linear_scan"):
        select(OPS["linear_scan"], sample_descriptor(OPS["linear_scan"]))


@on_gpus
@all_elements
def test_results_are_those_of_the_reference(
    op: Op, element: gp.ElementKind, engine: CudaEngine, driver: StandIn
) -> None:
    for function in certified(op):
        desc = sample_descriptor(op, element, **function.fixed)
        inputs = sample_inputs(op, desc)
        plan = select(op, desc)
        assert (plan.engine, plan.device, plan.sku.backend) == ("cuda", DEVICE, "cuda")
        assert plan.sku.arch == "sm_80"
        before = len(driver.launched)
        assert run(plan, inputs) == expected(op, desc, inputs)
        assert len(driver.launched) > before
    assert driver.count("depth") == 0  # whoever had a context current still has
    assert driver.count("waits") == 0


def aligned(x: Any) -> Any:
    return LAYOUTS["contiguous"](x.shape, x.dtype).put(x).array


def tangled(x: Any) -> Any:
    """Negative strides, gaps, another order of axes and an odd address."""
    return LAYOUTS["tangled"](x.shape, x.dtype).put(x).array


@on_gpus
def test_layouts_do_not_matter(op: Op, engine: CudaEngine) -> None:
    desc = sample_descriptor(op)
    inputs = sample_inputs(op, desc)
    assert run(select(op, desc), inputs, arrange=tangled) == expected(op, desc, inputs)


def test_a_program_is_made_once_for_a_layout(
    engine: CudaEngine, driver: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    op, programs = OPS["binary_param"], dict(families()[0])
    made = []

    def counted(desc: Any, layouts: Any) -> Any:
        made.append(layouts)
        return programs[op.name](desc, layouts)

    monkeypatch.setitem(cast(Any, families()[0]), op.name, counted)
    desc = sample_descriptor(op, param=0.125)
    plan, inputs = select(op, desc), sample_inputs(op, desc)
    del made[:]
    for arrange, count in ((tangled, 1), (aligned, 2), (tangled, 2), (aligned, 2)):
        run(plan, inputs, arrange=arrange)
        assert len(made) == count
    loaded = driver.count("modules")
    again = select(op, sample_descriptor(op, param=0.25))
    run(again, inputs, arrange=aligned)
    assert driver.count("modules") == loaded  # the kernels are the same


def test_an_empty_problem_launches_nothing(engine: CudaEngine, driver: StandIn) -> None:
    plan = gp.ScanPlan.select(
        gp.ScanDescriptor(kind="cumsum", input_shape=(3, 0), scan_axis=1, element="f32"),
        device=DEVICE,
    )
    empty = np.empty((3, 0), np.float32)
    plan.run(x=GpuArray(empty), y=GpuArray(empty.copy()))
    assert not driver.launched


def test_a_wrong_kernel_is_noticed(drivers: Callable[..., StandIn]) -> None:
    op = OPS["binary_param"]
    desc = sample_descriptor(op)
    inputs = sample_inputs(op, desc)
    with drivers(kernels=Changed).registered():
        assert run(select(op, desc), inputs) != expected(op, desc, inputs)


def test_threads_share_a_plan(engine: CudaEngine, driver: StandIn) -> None:
    op = OPS["binary_param"]
    desc = sample_descriptor(op, param=0.75)
    inputs = sample_inputs(op, desc)
    plan, want = select(op, desc), expected(op, desc, inputs)
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(run(plan, inputs, arrange=aligned)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [want] * 8
    assert driver.count("modules") == len({each.name for each in driver.launched})
