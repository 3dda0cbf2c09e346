"""Segments by pointers: the bits of those by ids, in both directions; what is no pointer."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from samples import all_elements

import gradplan as gp
from gradplan.vocabulary import CsrKind, SoftmaxKind

ROWS = 1500
# One segment is longer than two blocks, some are empty, and rows on either side are in none.
POINTERS = np.array([3, 3, 40, 900, 900, 1001, 1400, 1400])
IDS = np.searchsorted(POINTERS, np.arange(ROWS), side="right") - 1
COUNT = len(POINTERS) - 1


@all_elements
@pytest.mark.parametrize("kind", [*CsrKind, *SoftmaxKind])
@pytest.mark.parametrize("width", [1, 19])
def test_the_bits_are_those_by_ids(kind: Any, element: gp.ElementKind, width: int) -> None:
    rng = np.random.default_rng(width)
    x = rng.standard_normal((ROWS, width))
    x = (1 + x / 64 if kind is CsrKind.PROD else x).astype(element.dtype)
    name = f"segment_{kind}"
    y = getattr(gp, f"{name}_csr")(x, POINTERS.astype(np.int32))
    assert y.tobytes() == getattr(gp, name)(x, IDS, COUNT, bounds="skip").tobytes()
    dy = rng.standard_normal(y.shape).astype(element.dtype)
    softmax = kind in list(SoftmaxKind)
    saved = (y,) if softmax else {"sum": (), "mean": (), "prod": (x,)}.get(str(kind), (x, y))
    by_pointers = getattr(gp, f"{name}_csr_backward")
    dx = by_pointers(dy, *saved, POINTERS, *(() if saved else (ROWS,)))
    by_ids = getattr(gp, f"{name}_backward")
    want = by_ids(dy, *saved, IDS, *((COUNT,) if softmax else ()), bounds="skip")
    assert dx.tobytes() == want.tobytes() and dx.any()


def test_segments_are_slices() -> None:
    x = np.arange(float(ROWS))
    sums = [x[a:b].sum() for a, b in itertools.pairwise(POINTERS)]
    assert gp.segment_sum_csr(x, POINTERS).tolist() == sums
    assert gp.segment_max_csr(x, POINTERS, fill=-5).tolist()[:2] == [-5, 39]
    assert gp.segment_sum_csr(x, np.array([7])).shape == (0,)


@pytest.mark.parametrize("name", ["segment_sum_csr", "segment_max_csr", "segment_softmax_csr"])
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_what_is_no_pointer_is_said_and_nothing_is_written(name: str, engine: str) -> None:
    x = np.ones((4, 2), np.float32)
    out = np.full((4, 2) if "softmax" in name else (3, 2), 7, np.float32)
    prefix = "SegmentCsrSoftmax" if "softmax" in name else "SegmentCsr"
    descriptor = getattr(gp, f"{prefix}Descriptor")(
        num_inputs=4,
        embedding_dim=2,
        num_segments=3,
        element="f32",
        kind=name.removeprefix("segment_").removesuffix("_csr"),
    )
    plan = getattr(gp, f"{prefix}Plan").select(descriptor, gp.PlanPreference(engine=engine))

    def call(indptr: list[int]) -> None:
        plan.run(input=x, indptr=np.array(indptr), output=out)

    descend = r"indptr\[2\] = 1 after indptr\[1\] = 2: expected pointers in ascending order"
    with pytest.raises(gp.InvalidProblem, match=descend):
        call([0, 2, 1, 4])
    with pytest.raises(
        gp.IndexOutOfRange, match=r"indptr\[3\] = 5: expected a pointer in \[0, 4\]"
    ):
        call([0, 2, 3, 5])
    with pytest.raises(gp.IndexOutOfRange, match=r"indptr\[0\] = -1: expected a pointer"):
        call([-1, 2, 3, 4])
    with pytest.raises(gp.InvalidProblem, match="indptr"):
        call([0, 2, 4])
    assert (out == 7).all()
    call([0, 2, 3, 4])
    assert (out != 7).all()


def test_pointers_of_a_wrong_shape() -> None:
    x = np.ones((4, 2), np.float32)
    with pytest.raises(gp.InvalidProblem, match=r"indptr: expected shape \[num_segments \+ 1\]"):
        gp.segment_sum_csr(x, np.zeros((2, 2), np.int64))
    with pytest.raises(gp.InvalidProblem, match=r"indptr: expected .*; got \[0\]"):
        gp.segment_sum_csr(x, np.zeros(0, np.int64))
    with pytest.raises(
        gp.InvalidProblem, match="indptr: expected num_segments 3 as in d_output; got 2"
    ):
        gp.segment_sum_csr_backward(x[:3], np.array([0, 1, 4]), 4)
