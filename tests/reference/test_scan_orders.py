"""The written orders of scans and recurrences, by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
from oracle import Array
from reference_cases import assert_same_bits, each_element, each_ties, f32, random

from gradplan import reference
from gradplan.reference.elementary import exp, log


def joined(operation: Callable[[Any, Any], Any], carry: Any, value: Any) -> Any:
    return value if carry is None else operation(carry, value)


def scan_by_hand(x: Array, operation: Callable[[Any, Any], Any]) -> Array:
    y = np.empty_like(x)
    local = c1 = c2 = c3 = in_block = in_chunk = None
    for i, value in enumerate(x):
        if i % 4096 == 0 and i:
            c3, c2, c1, local = joined(operation, c3, in_chunk), None, None, None
        elif i % 256 == 0 and i:
            c2, c1, local = joined(operation, c2, in_block), None, None
        elif i % 16 == 0 and i:
            c1, local = joined(operation, c1, local), None
        local = joined(operation, local, value)
        in_block = joined(operation, c1, local)
        in_chunk = joined(operation, c2, in_block)
        y[i] = joined(operation, c3, in_chunk)
    return y


@pytest.mark.parametrize("n", [16, 300, 9000])
def test_scan_order(n: int) -> None:
    x = random("order", n).standard_normal(n).astype(np.float32)
    for kind, operation in (("cumsum", np.add), ("cumprod", np.multiply)):
        v = x if kind == "cumsum" else np.exp(x / 16)
        assert_same_bits(reference.scan(v, kind=kind, scan_axis=0), scan_by_hand(v, operation))


def recurrence_by_hand(
    b: Array, a: Array, coefficient: Callable[[int, int], Any], times: Callable[[Any, Any], Any]
) -> Array:
    """`coefficient(p, q)` is A over the elements p..q; `times(A, v)` is A v, or None if missing."""

    def add(base: Any, product: Any) -> Any:
        return base if product is None else base + product

    def serial(start: int, t: Any) -> list[Any]:
        out = []
        for q in range(start, min(start + 256, len(b))):
            t = b[q] if t is None else add(b[q], times(a[q], t))
            out.append(t)
        return out

    t: list[Any] = []
    into_chunk = inside = carry = None
    for start in range(0, len(b), 256):
        if start % 4096 == 0:
            into_chunk, inside = carry, None
        t += serial(start, carry)
        end = start + 256
        if end < len(b):  # the carry into the next block
            local = serial(start, None)[-1]
            if inside is not None:
                local = add(local, times(coefficient(start, end - 1), inside))
            inside = carry = local
            if into_chunk is not None:
                carry = add(inside, times(coefficient(start - start % 4096, end - 1), into_chunk))
    return np.array(t, b.dtype)


def float32_product(values: Array) -> tuple[float, int]:
    """In doubles: the product of two 24-bit mantissas is exact there, then rounds once."""
    m, e = math.frexp(float(values[0]))
    for value in values[1:]:
        m2, e2 = math.frexp(float(value))
        m, shift = math.frexp(float(np.float32(m * m2)))
        e += e2 + shift
    return m, e


def test_cumprod_backward_order() -> None:
    rng = random("cumprod order")
    n = 2 * 4096 + 600
    # t climbs from 2^-140 to 2^90 and falls again, so block products leave the range of f32 in
    # both directions and t does not; it becomes subnormal.
    x: Array
    dy: Array
    y: Array
    level = np.abs((np.arange(n) + 120) % 460 - 230) - 140.0
    x = np.append(np.exp2(np.diff(level)), 1)[::-1] * np.exp(rng.standard_normal(n) / 256)
    dy = rng.standard_normal(n) * np.exp2(level - 4)[::-1]
    y = rng.standard_normal(n)
    x, dy, y = f32(x), f32(dy), f32(y)
    a = np.append(np.float32(1), x[::-1][:-1])
    blocks = {s: float32_product(a[s : s + 256]) for s in range(0, n, 256)}

    def coefficient(p: int, q: int) -> tuple[float, int]:
        m, e = blocks[p]
        for start in range(p + 256, q, 256):
            m2, e2 = blocks[start]
            m, shift = math.frexp(float(np.float32(m * m2)))
            e += e2 + shift
        return m, e

    def times(coefficient: Any, v: Any) -> Any:
        if not isinstance(coefficient, tuple):
            return coefficient * v
        m, e = math.frexp(float(v))
        exponent = max(-400, min(400, coefficient[1] + e))
        return np.float32(math.ldexp(float(np.float32(coefficient[0] * m)), exponent))

    t = recurrence_by_hand(dy[::-1], a, coefficient, times)[::-1]
    assert np.isfinite(t).all() and (np.abs(t) > 1e25).any() and (np.abs(t) < 1e-38).any()
    assert max(abs(e) for _, e in blocks.values()) > 200
    want = np.append(np.float32(1), y[:-1]) * t
    assert_same_bits(reference.scan_backward(dy, x, y, kind="cumprod", scan_axis=0), want)


@each_ties
def test_cummax_backward_order(ties: str) -> None:
    rng = random("cummax order", ties)
    n = 2 * 4096 + 600
    record = np.zeros(n, bool)
    record[rng.choice(n, 6, replace=False)] = True  # few, so that sums cross blocks and chunks
    record[0] = True
    # Everything else equals the extreme (not a record for "first") or is less.
    x = np.cumsum(record) if ties == "first" else np.where(record, 0, -1)
    dy = rng.standard_normal(n).astype(np.float32)
    passes = np.append(False, ~record[::-1][:-1])
    t = recurrence_by_hand(
        dy[::-1],
        passes,
        lambda p, q: bool(passes[p : q + 1].all()),
        lambda through, v: v if through else None,
    )[::-1]
    got = reference.scan_backward(dy, f32(x), kind="cummax", scan_axis=0, ties=ties)
    assert_same_bits(got, np.where(record, t, np.float32(0)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logcumsumexp_order(dtype: str) -> None:
    rng = random("logcumsumexp order")
    n = 2 * 4096 + 600
    x = (rng.standard_normal(n) + np.linspace(0, 5, n)).astype(dtype)
    dy = rng.standard_normal(n).astype(dtype)
    top = np.maximum.accumulate(x)
    top_before = np.append(x[:1], top[:-1])
    e = exp(-np.abs(x - top_before))
    rises = x > top_before
    one = np.ones_like(x)

    def multiply(coefficient: Any, v: Any) -> Any:
        return coefficient * v

    def between(p: Any, q: Any) -> Any:
        return exp(np.array([p - q]))[0]

    total = recurrence_by_hand(
        np.where(rises, one, e),
        np.where(rises, e, one),
        lambda p, q: between(top[p - 1], top[q]),
        multiply,
    )
    y = reference.scan(x, kind="logcumsumexp", scan_axis=0)
    assert_same_bits(y, top + log(total))

    back = y[::-1]
    a = exp(back - np.append(back[:1], back[:-1]))
    t = recurrence_by_hand(dy[::-1], a, lambda p, q: between(back[q], back[p - 1]), multiply)[::-1]
    got = reference.scan_backward(dy, x, y, kind="logcumsumexp", scan_axis=0)
    assert_same_bits(got, t * exp(x - y))


@each_element
def test_short_scans_are_the_serial_loop(dtype: np.dtype[Any]) -> None:
    compute = oracle.compute_dtype(dtype)
    x = random("serial", dtype).standard_normal(16).astype(dtype)
    for kind, operation in (("cumsum", np.add), ("cumprod", np.multiply)):
        want, carry = [], None
        for value in x.astype(compute):
            carry = joined(operation, carry, value)
            want.append(carry)
        got = reference.scan(x, kind=kind, scan_axis=0)
        assert_same_bits(got, np.array(want, compute).astype(dtype))


@each_element
def test_recurrences_of_one_block_are_the_serial_loop(dtype: np.dtype[Any]) -> None:
    compute = oracle.compute_dtype(dtype)
    rng = random("serial", dtype)
    x = np.exp(rng.standard_normal(256) / 16).astype(dtype)
    dy = rng.standard_normal(256).astype(dtype)
    y = reference.scan(x, kind="cumprod", scan_axis=0)
    wide_dy, wide_x, wide_y = (tensor.astype(compute) for tensor in (dy, x, y))
    t = wide_dy.copy()
    for i in reversed(range(255)):
        t[i] = wide_dy[i] + wide_x[i + 1] * t[i + 1]
    want = np.append(t[:1], wide_y[:-1] * t[1:]).astype(dtype)
    assert_same_bits(reference.scan_backward(dy, x, y, kind="cumprod", scan_axis=0), want)
