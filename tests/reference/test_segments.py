"""Segments and embeddings in the reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import oracle
import pytest
from oracle import assert_close
from reference_cases import INDEX_TYPES, NAN, assert_same_bits, bits, each_element, f32, random

from gradplan import reference
from gradplan.vocabulary import IndexOutOfRange, InvalidProblem


def test_segment_order() -> None:
    rng = random("segment order")
    ids = rng.integers(0, 3, 3000)
    x = rng.standard_normal((3000, 2)).astype(np.float32)
    want = np.zeros((3, 2), np.float32)
    for segment in range(3):
        members = x[ids == segment]
        partial = []
        for start in range(0, len(members), 256):
            total = members[start].copy()
            for row in members[start + 1 : start + 256]:
                total = total + row
            partial.append(total)
        total = partial[0]
        for block in partial[1:]:
            total = total + block
        want[segment] = total
    assert_same_bits(reference.unsorted_segment_sum(x, ids, num_segments=3), want)
    by_id = np.argsort(ids, kind="stable")
    assert_same_bits(reference.segment_sum(x[by_id], ids[by_id], num_segments=3), want)
    assert_same_bits(reference.embedding_backward(x, ids, num_embeddings=3), want)


@each_element
@pytest.mark.parametrize("index", INDEX_TYPES, ids=str)
def test_segment_sums_are_accurate(dtype: np.dtype[Any], index: np.dtype[Any]) -> None:
    rng = random("segments", dtype, index)
    for n, count in ((0, 3), (1, 1), (50, 7), (3000, 4)):
        ids = rng.integers(-1, count + 1, n).astype(index)
        x = rng.standard_normal((n, 3)).astype(dtype)
        depth = oracle.segment_depth(n)
        exact = oracle.segment_sum(x, ids, count)
        assert_close(reference.unsorted_segment_sum(x, ids, num_segments=count), exact, depth)
        assert_close(reference.embedding_backward(x, ids, num_embeddings=count), exact, depth)
        order = np.argsort(ids, kind="stable")
        got = reference.segment_sum(x[order], ids[order], num_segments=count)
        assert_close(got, exact, depth)
        padded = reference.embedding_backward(x, ids, num_embeddings=count, padding_idx=0)
        assert_close(padded, oracle.segment_sum(x, ids, count, skip=0), depth)


@each_element
def test_small_segments_are_the_serial_loop(dtype: np.dtype[Any]) -> None:
    x = random("small", dtype).standard_normal((256, 2)).astype(dtype)
    total = x[0].astype(oracle.compute_dtype(dtype))
    for row in x[1:].astype(total.dtype):
        total = total + row
    got = reference.segment_sum(x, np.zeros(256, np.int32), num_segments=1)
    assert_same_bits(got, total[None].astype(dtype))


def test_empty_segments_and_tensors() -> None:
    zeros = np.zeros((3, 2), np.float32)
    no_rows, no_ids = np.zeros((0, 2), np.float32), np.zeros(0, np.int32)
    assert_same_bits(reference.segment_sum(no_rows, no_ids, num_segments=3), zeros)
    assert_same_bits(reference.embedding_backward(no_rows, no_ids, num_embeddings=3), zeros)
    assert reference.unsorted_segment_sum(zeros, np.arange(3), num_segments=0).shape == (0, 2)
    assert reference.segment_sum(zeros[:, :0], np.arange(3), num_segments=4).shape == (4, 0)
    assert reference.embedding(zeros, no_ids).shape == (0, 2)
    assert_same_bits(reference.embedding(no_rows, np.arange(3)), zeros)
    assert_same_bits(reference.segment_sum_backward(no_rows, np.arange(3)), zeros)


def test_indices_outside_are_skipped() -> None:
    x = f32([[1], [2], [4], [8]])
    ids = np.array([-1, 0, 2, 3])
    assert reference.segment_sum(x, ids, num_segments=3).tolist() == [[2], [0], [4]]
    assert reference.segment_sum_backward(x[:3], ids).tolist() == [[0], [1], [4], [0]]
    assert reference.embedding(x[:3], ids, padding_idx=2).tolist() == [[0], [1], [0], [0]]
    far = np.array([2**40, -(2**40), 0, 1])
    assert reference.unsorted_segment_sum(x, far, num_segments=2).tolist() == [[4], [8]]


def test_bounds_raise_names_the_first_offence() -> None:
    x = f32([[1], [2], [4], [8]])
    ids = np.array([2, 1, 5, -3])
    calls: list[tuple[Callable[..., Any], str]] = [
        (partial(reference.unsorted_segment_sum, x, ids, num_segments=3), "segment_ids"),
        (partial(reference.segment_sum_backward, x[:3], ids), "segment_ids"),
        (partial(reference.embedding, x[:3], ids), "indices"),
        (partial(reference.embedding_backward, x, ids, num_embeddings=3), "indices"),
    ]
    for call, name in calls:
        with pytest.raises(IndexOutOfRange, match=rf"{name}\[2\] = 5\b"):
            call(bounds="raise")
    within = np.array([0, 2, 2, 1])
    got = reference.embedding(x[:3], within, padding_idx=2, bounds="raise")
    assert got.tolist() == [[1], [0], [0], [2]]


def test_ids_out_of_order_are_refused() -> None:
    ids = np.array([0, 2, 2, 1, 0])
    with pytest.raises(InvalidProblem, match=r"segment_ids\[3\] = 1 after segment_ids\[2\] = 2"):
        reference.segment_sum(np.zeros((5, 1), np.float32), ids, num_segments=3)


@each_element
def test_accumulate_is_one_addition(dtype: np.dtype[Any]) -> None:
    rng = random("accumulate", dtype)
    dout = rng.standard_normal((40, 3)).astype(dtype)
    ids = rng.integers(0, 4, 40)
    before = rng.standard_normal((6, 3)).astype(dtype)
    bits(before)[5] = bits(np.array(NAN, dtype)) + 1  # a payload; rows 4 and 5 have no members
    got = reference.embedding_backward(dout, ids, num_embeddings=6, accumulate=True, dweight=before)
    assert_same_bits(got[4:], before[4:])
    compute = oracle.compute_dtype(dtype)
    sums = np.zeros((4, 3), compute)
    for segment in range(4):
        members = dout[ids == segment].astype(compute)
        sums[segment] = members[0]
        for row in members[1:]:
            sums[segment] += row
    assert_same_bits(got[:4], (before[:4].astype(compute) + sums).astype(dtype))
