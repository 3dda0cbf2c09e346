"""What the reference stores: rounding to the element type, and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference_cases import ELEMENTS, INF, KINDS, assert_same_bits, bits, each_element

from gradplan import reference
from gradplan.reference.arithmetic import store


@pytest.mark.parametrize("dtype", [d for d in ELEMENTS if d.itemsize == 2], ids=str)
@np.errstate(over="ignore")
def test_store_rounds_to_nearest_even(dtype: np.dtype[Any]) -> None:
    """Every midpoint of neighbours, subnormals and the overflow threshold included."""
    patterns = np.arange(int(bits(np.array(INF, dtype))), dtype=np.uint16)
    low = patterns.view(dtype).astype(np.float64)
    high = np.append(low[1:], 2 * low[-1] - low[-2])
    middle = ((low + high) / 2).astype(np.float32)
    np.testing.assert_array_equal(middle, (low + high) / 2)
    up = np.append(patterns[1:], bits(np.array(INF, dtype)))
    even = np.where(patterns % 2 == 0, patterns, up)
    for sign in (1, -1):
        for x, want in (
            (middle, even),
            (np.nextafter(middle, np.float32(0)), patterns),
            (np.nextafter(middle, np.float32(INF)), up),
        ):
            want = want.astype(np.uint16) | np.uint16(0x8000 if sign < 0 else 0)
            np.testing.assert_array_equal(bits(store(sign * x, dtype)), want)


@each_element
def test_nan_is_canonical(dtype: np.dtype[Any]) -> None:
    canonical = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000}
    want = canonical.get(dtype.name, 0x7FF8 << 48)
    strange = np.array([1, 1], dtype)
    sign = 1 << (8 * dtype.itemsize - 1)
    bits(strange)[:] = [want | sign | 5, want | 3]
    ids = np.array([0, 0])
    results = [
        *(reference.scan(strange, kind=kind, scan_axis=0) for kind in KINDS),
        reference.scan_backward(strange, kind="cumsum", scan_axis=0),
        reference.scan_backward(strange, strange, strange, kind="cumprod", scan_axis=0),
        reference.scan_backward(strange, strange, strange, kind="logcumsumexp", scan_axis=0),
        reference.scan_backward(strange, strange, kind="cummax", scan_axis=0, ties="last"),
        reference.sparsemax(strange, softmax_axis=0),
        reference.sparsemax_backward(strange, np.array([1, 1], dtype), softmax_axis=0),
        reference.binary_param(strange, strange, param=0.3),
        *reference.binary_param_backward(strange, param=0.3),
        reference.unsorted_segment_sum(strange[:1], ids[:1], num_segments=1),
        reference.embedding_backward(strange, ids, num_embeddings=1),
    ]
    for result in results:
        assert set(bits(result).tolist()) == {want}
    for copy in (
        reference.embedding(strange, np.array([1, 0])),
        reference.segment_sum_backward(strange, np.array([1, 0])),
    ):
        assert_same_bits(copy, strange[::-1])
