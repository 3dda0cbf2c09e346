"""What is wrong with indices is said later: nobody waits for a GPU."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from standin import GpuArray, StandIn, scratch

import gradplan as gp
from gradplan.engines.cuda import CudaEngine, check

LATER = r" \(found by an earlier call, whose result is as for skip\)$"


def embedding(indices: Any, *, device: int = 0, bounds: str = "raise", rows: int = 5) -> Any:
    """The rows that a call gives; the table counts 1, 2, 3."""
    ids = np.array(indices)
    desc = gp.EmbeddingDescriptor(
        num_embeddings=rows, embedding_dim=1, num_indices=ids.size, element="f32", bounds=bounds
    )
    plan = gp.EmbeddingPlan.select(desc, device=f"cuda:{device}")
    table = np.arange(1, rows + 1, dtype=np.float32)[:, None]
    output = np.full((ids.size, 1), np.nan, np.float32)
    plan.run(
        weight=GpuArray(table, device),
        indices=GpuArray(ids, device),
        output=GpuArray(output, device),
        workspace=scratch(plan.workspace_size, device) if plan.workspace_size else None,
    )
    return output[:, 0].tolist()


def segment_sum(ids: Any) -> None:
    ids = np.array(ids)
    desc = gp.SegmentSumDescriptor(
        num_inputs=ids.size, embedding_dim=1, num_segments=3, element="f32"
    )
    plan = gp.SegmentSumPlan.select(desc, device="cuda:0")
    plan.run(
        input=GpuArray(np.ones((ids.size, 1), np.float32)),
        segment_ids=GpuArray(ids),
        output=GpuArray(np.zeros((3, 1), np.float32)),
        workspace=scratch(plan.workspace_size),
    )


@pytest.fixture
def lazy(engine: CudaEngine, driver: StandIn) -> StandIn:
    """Kernels run when somebody waits for them, as on a GPU that is busy."""
    driver.lazy = True
    return driver


def test_the_next_call_raises(engine: CudaEngine, driver: StandIn) -> None:
    assert embedding([4, 9, 0, -1]) == [5, 0, 1, 0]
    text = r"^EmbeddingPlan: indices\[1\] = 9: expected an index in \[0, 5\)" + LATER
    with pytest.raises(gp.IndexOutOfRange, match=text):
        embedding([0, 1])
    assert embedding([0, 1]) == [1, 2]  # it is said once
    check()


def test_the_next_call_of_any_plan_raises(engine: CudaEngine) -> None:
    embedding([7])
    with pytest.raises(gp.IndexOutOfRange, match=r"EmbeddingPlan: indices\[0\] = 7"):
        segment_sum([0, 1])


def test_nobody_waits(lazy: StandIn) -> None:
    embedding([9])
    embedding([0])  # nothing has run yet: there is nothing to say
    assert lazy.count("waits") == 0
    lazy.finish()
    with pytest.raises(gp.IndexOutOfRange):
        embedding([0])
    assert lazy.count("waits") == 1  # for whoever may still be writing


def test_to_wait_for_it(lazy: StandIn) -> None:
    embedding([0, 5])
    with pytest.raises(gp.IndexOutOfRange, match=r"indices\[1\] = 5"):
        check("cuda:0")
    check("cuda:0")


def test_plans_say_what_is_theirs(lazy: StandIn) -> None:
    embedding([6], rows=6)
    embedding([3], rows=3)
    texts = []
    for _ in range(2):
        with pytest.raises(gp.IndexOutOfRange) as caught:
            check()
        texts.append(str(caught.value))
    assert [re.findall(r"\[0, (\d)\)", text) for text in texts] == [["6"], ["3"]]


def test_each_device_has_its_own(engine: CudaEngine) -> None:
    embedding([8], device=1)
    assert embedding([0], device=0) == [1]
    check(0)
    with pytest.raises(gp.IndexOutOfRange, match=r"\[0\] = 8"):
        check("cuda:1")
    with pytest.raises(gp.InvalidProblem, match="expected a device such as 'cuda:0'; got 'cpu'"):
        check("cpu")


def test_ids_that_descend(engine: CudaEngine) -> None:
    segment_sum([0, 1, 2])
    check()
    segment_sum([0, 2, 1])
    text = r"segment_ids\[2\] = 1 after segment_ids\[1\] = 2: expected ascending ids"
    with pytest.raises(gp.InvalidProblem, match=text):
        check()


def test_skipping_says_nothing(engine: CudaEngine, driver: StandIn) -> None:
    assert embedding([9, 0], bounds="skip") == [0, 1]
    check()
    assert driver.count("host allocations") == 0
