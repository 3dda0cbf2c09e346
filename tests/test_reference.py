"""gradplan.reference against the oracle, against the contract by hand, and its properties."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import oracle
import pytest
from oracle import Array, assert_close

from gradplan import reference
from gradplan.reference.arithmetic import store
from gradplan.reference.elementary import exp, log
from gradplan.vocabulary import ElementKind, IndexOutOfRange, InvalidProblem, ScanKind

ELEMENTS = [kind.dtype for kind in ElementKind if kind.is_float]
INDEX_TYPES = [kind.dtype for kind in ElementKind if not kind.is_float]
KINDS = [kind.value for kind in ScanKind]
EXTREMES = ["cummax", "cummin"]
SHORT = [0, 1, 15, 16, 17, 255, 256, 257]  # around a group and a block
LONG = [4095, 4096, 4097]  # around a chunk
INF, NAN = math.inf, math.nan

each_element = pytest.mark.parametrize("dtype", ELEMENTS, ids=str)
each_kind = pytest.mark.parametrize("kind", KINDS)
each_extreme = pytest.mark.parametrize("kind", EXTREMES)
each_ties = pytest.mark.parametrize("ties", ["first", "last"])


def random(*key: Any) -> np.random.Generator:
    return np.random.default_rng([ord(c) for c in repr(key)])


def f32(values: Any) -> Array:
    return np.array(values, np.float32)


def bits(x: Array) -> Array:
    return np.asarray(x.view(f"u{x.dtype.itemsize}"))


def assert_same_bits(got: Array, want: Array) -> None:
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(bits(got), bits(want))


def scan_input(kind: str, shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> Array:
    """Rows that exercise the kind: products that stay in range, extremes with ties."""
    x: Array = rng.standard_normal(shape)
    if kind == "cumprod":
        x = np.exp(0.02 * x) * rng.choice([-1, 1], shape)
    elif kind in EXTREMES:
        rise = np.linspace(0, 3, shape[axis]).reshape(-1, *[1] * (-1 - axis))
        x = np.round(2 * x + rise)
    elif kind == "logcumsumexp":
        x = 3 * x
    return x


def scan_depth(kind: str, n: int) -> float:
    return {
        "cumsum": oracle.scan_depth(n),
        "cumprod": n,
        "logcumsumexp": 8 * oracle.recurrence_depth(n) + 8,  # exp, log and two roundings a step
    }.get(kind, 0)


# --- arithmetic -----------------------------------------------------------------------------------


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


# --- scans against the oracle ---------------------------------------------------------------------


@each_element
@each_kind
@pytest.mark.parametrize("n", SHORT + LONG)
def test_scan_is_accurate(dtype: np.dtype[Any], kind: str, n: int) -> None:
    rng = random(dtype, kind, n)
    for shape, axis, reverse in (((2, n), -1, False), ((n, 2), -2, True), ((1, n, 2), -2, False)):
        x = scan_input(kind, shape, axis, rng).astype(dtype)
        exact = oracle.along(oracle.scan(kind), x, axis=axis, reverse=reverse)
        got = reference.scan(x, kind=kind, scan_axis=axis, reverse=reverse)
        assert got.dtype == dtype
        assert_close(got, exact, scan_depth(kind, n))
        if kind in EXTREMES:
            np.testing.assert_array_equal(got, exact[0].astype(dtype))


# The oracle's quadratic definitions are slow: one long row, of the types that are compute types.
BACKWARD = [(d, n) for d in ELEMENTS for n in [*SHORT, 4097] if n in SHORT or d.itemsize > 2]


@pytest.mark.parametrize(("dtype", "n"), BACKWARD, ids=str)
@each_kind
def test_scan_backward_is_accurate(dtype: np.dtype[Any], kind: str, n: int) -> None:
    rng = random(dtype, kind, n)
    layouts: list[tuple[tuple[int, ...], int, bool]] = [((1, n), -1, n % 2 == 1)]
    if n in SHORT:
        layouts += [((n, 2), -2, True), ((1, n, 2), -2, False)]
    for shape, axis, reverse in layouts:
        dy = rng.standard_normal(shape).astype(dtype)
        x = scan_input(kind, shape, axis, rng).astype(dtype)
        where: dict[str, Any] = {"scan_axis": axis, "reverse": reverse}
        y = reference.scan(x, kind=kind, **where)
        lines: dict[str, Any] = {"axis": axis, "reverse": reverse}
        if kind == "cumsum":
            got = reference.scan_backward(dy, kind=kind, **where)
            assert_close(
                got, oracle.along(oracle.cumsum_backward, dy, **lines), scan_depth(kind, n)
            )
        elif kind == "cumprod":
            got = reference.scan_backward(dy, x, y, kind=kind, **where)
            exact = oracle.along(oracle.cumprod_backward, dy, x, **lines)
            stored_y = oracle.roundoff(dtype) / oracle.roundoff(oracle.compute_dtype(dtype))
            assert_close(got, exact, 3 * n + stored_y)
        elif kind == "logcumsumexp":
            got = reference.scan_backward(dy, x, y, kind=kind, **where)
            exact = oracle.along(oracle.logcumsumexp_backward, dy, x, y, **lines)
            assert_close(got, exact, 8 * oracle.recurrence_depth(n) + 8)
        else:
            for ties in ("first", "last"):
                got = reference.scan_backward(dy, x, kind=kind, ties=ties, **where)

                def gradient(g: Array, v: Array, ties: str = ties) -> oracle.Exact:
                    return oracle.extreme_backward(g, v, kind=kind, ties=ties)

                exact = oracle.along(gradient, dy, x, **lines)
                assert_close(got, exact, oracle.recurrence_depth(n))


# --- gradients ------------------------------------------------------------------------------------

Forward: TypeAlias = Callable[[Array], Array]
Backward: TypeAlias = Callable[[Array, Array], Array]


def smooth_operations(n: int) -> dict[str, tuple[Forward, Backward, Array]]:
    """Forward, backward and a point where the operation is differentiable; all on rows of n."""
    rng = random("smooth", n)
    operations: dict[str, tuple[Forward, Backward, Array]] = {}
    for kind in KINDS:
        x = rng.standard_normal(n)
        if kind == "cumprod":
            x = 1 + 0.1 * x

        def forward(x: Array, kind: str = kind) -> Array:
            return reference.scan(x, kind=kind, scan_axis=-1)

        def backward(dy: Array, x: Array, kind: str = kind) -> Array:
            y = reference.scan(x, kind=kind, scan_axis=-1)
            return reference.scan_backward(dy, x, y, kind=kind, scan_axis=-1)

        operations[kind] = forward, backward, x
    operations["sparsemax"] = (
        lambda x: reference.sparsemax(x, softmax_axis=-1),
        lambda dy, x: reference.sparsemax_backward(
            dy, reference.sparsemax(x, softmax_axis=-1), softmax_axis=-1
        ),
        rng.standard_normal(n),
    )
    return operations


@pytest.mark.parametrize("n", [1, 40, 300])
@pytest.mark.parametrize("name", [*KINDS, "sparsemax"])
def test_gradient_equals_numerical_differentiation(name: str, n: int) -> None:
    forward, backward, x = smooth_operations(n)[name]
    dy = random(name, n).standard_normal(n)
    h = 1e-6
    step = h * np.eye(n)
    numerical = ((forward(x + step) - forward(x - step)) / (2 * h)) @ dy
    np.testing.assert_allclose(backward(dy, x), numerical, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n", [17, 257, 4097])
@pytest.mark.parametrize("name", [*KINDS, "sparsemax"])
def test_adjoint_identity(name: str, n: int) -> None:
    """<dy, J v> = <J^T dy, v>, with J v from a central difference."""
    forward, backward, x = smooth_operations(n)[name]
    rng = random(name, n)
    dy, v = rng.standard_normal(n), rng.standard_normal(n)
    h = 1e-7
    if name == "cumprod":
        x = 1 + (x - 1) / n
    if name in EXTREMES:  # keep the records apart by more than the step
        x = rng.permutation(n).astype(np.float64)
    jv = (forward(x + h * v) - forward(x - h * v)) / (2 * h)
    right = backward(dy, x) * v
    assert abs(np.dot(dy, jv) - right.sum()) <= 1e-6 * (np.abs(dy * jv).sum() + 1)


def test_adjoint_identity_is_exact_for_linear_operations() -> None:
    """On small integers nothing rounds, so the two sides are equal."""
    rng = random("linear")

    def integers(*shape: int) -> Array:
        return rng.integers(-9, 10, shape).astype(np.float32)

    x, dy = integers(5000), integers(5000)
    for reverse in (False, True):
        y = reference.scan(x, kind="cumsum", scan_axis=0, reverse=reverse)
        dx = reference.scan_backward(dy, kind="cumsum", scan_axis=0, reverse=reverse)
        assert np.dot(y.astype(np.float64), dy) == np.dot(dx.astype(np.float64), x)

    ids = rng.integers(-1, 8, 900)
    values, d_output = integers(900, 3), integers(7, 3)
    sums = reference.unsorted_segment_sum(values, ids, num_segments=7)
    back = reference.segment_sum_backward(d_output, ids)
    assert (sums * d_output).sum() == (back * values).sum()

    weight, dout = integers(7, 3), integers(900, 3)
    rows = reference.embedding(weight, ids, padding_idx=2)
    dweight = reference.embedding_backward(dout, ids, num_embeddings=7, padding_idx=2)
    assert (rows * dout).sum() == (dweight * weight).sum()

    a, b, g = integers(50), integers(50), integers(50)
    da, db = reference.binary_param_backward(g, param=0.25)
    assert (reference.binary_param(a, b, param=0.25) * g).sum() == (a * da + b * db).sum()


# --- the written orders, by hand ------------------------------------------------------------------


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


def test_row_reduction_order() -> None:
    rng = random("lanes")
    y = rng.choice([0, 0.1], 1000).astype(np.float32)
    dy = rng.standard_normal(1000).astype(np.float32)
    lanes = [np.float32(-0.0)] * 16
    for i in range(1000):
        lanes[i % 16] += dy[i] if y[i] > 0 else np.float32(-0.0)
    for half in (8, 4, 2, 1):
        lanes = [lanes[i] + lanes[i + half] for i in range(half)]
    mean = lanes[0] / np.float32((y > 0).sum())
    got = reference.sparsemax_backward(dy, y, softmax_axis=0)
    assert_same_bits(got, np.where(y > 0, dy - mean, np.float32(0)))


@each_element
@pytest.mark.parametrize("spread", [1e-3, 0.3, 3.0])
def test_sparsemax_integers(dtype: np.dtype[Any], spread: float) -> None:
    """The support from a sort of the exact integers, instead of a shrinking set."""
    compute = oracle.compute_dtype(dtype).type
    for n in (1, 2, 9, 1000):
        x = (spread * random(dtype, spread, n).standard_normal(n)).astype(dtype)
        v = x.astype(compute) - x.astype(compute).max()
        unit = 2 ** (60 if compute is np.float64 else 30)
        q = [int(value * compute(unit)) for value in v if value > -1]  # int() truncates
        total = k = 0
        for value in sorted(q, reverse=True):
            if unit + (k + 1) * value > total + value:
                total, k = total + value, k + 1
        threshold, rest = divmod(total - unit, k)
        tau = compute((float(threshold) + float(rest) / float(k)) * (1 / unit))
        want = np.where(v > tau, v - tau, compute(0)).astype(dtype)
        assert_same_bits(reference.sparsemax(x, softmax_axis=0), want)


# --- layouts --------------------------------------------------------------------------------------


@each_element
@each_kind
def test_rows_do_not_depend_on_layout_or_batch(dtype: np.dtype[Any], kind: str) -> None:
    rng = random("layout", dtype, kind)
    x, dy = (scan_input(kind, (3, 300, 2), -2, rng).astype(dtype) for _ in range(2))
    y = reference.scan(x, kind=kind, scan_axis=1)
    dx = reference.scan_backward(dy, x, y, kind=kind, scan_axis=-2)
    for i in range(3):
        for j in range(2):
            alone = [np.ascontiguousarray(tensor[i, :, j]) for tensor in (dy, x, y)]
            assert_same_bits(y[i, :, j], reference.scan(alone[1], kind=kind, scan_axis=0))
            assert_same_bits(dx[i, :, j], reference.scan_backward(*alone, kind=kind, scan_axis=0))
    flipped = [tensor[::-1, ::-1].transpose(2, 0, 1) for tensor in (dy, x, y)]
    got = reference.scan(flipped[1], kind=kind, scan_axis=2, reverse=True)
    assert_same_bits(got, flipped[2])
    got = reference.scan_backward(*flipped, kind=kind, scan_axis=2, reverse=True)
    assert_same_bits(got, dx[::-1, ::-1].transpose(2, 0, 1))


@each_kind
def test_scalars_and_empty_tensors(kind: str) -> None:
    one = np.array(2.0, np.float32)
    for axis in (0, -1):
        assert_same_bits(reference.scan(one, kind=kind, scan_axis=axis), one)
        dx = reference.scan_backward(one, one, one, kind=kind, scan_axis=axis)
        assert_same_bits(dx, one)
    for shape in ((0, 3), (3, 0), (2, 0, 3), (300, 0)):
        empty = np.zeros(shape, np.float16)
        for axis in range(len(shape)):
            assert reference.scan(empty, kind=kind, scan_axis=axis).shape == shape
            dx = reference.scan_backward(empty, empty, empty, kind=kind, scan_axis=axis)
            assert dx.shape == shape and dx.dtype == empty.dtype


def test_inputs_are_left_alone_and_results_are_fresh() -> None:
    x = f32([[1, 2], [3, 4]])
    ids = np.array([0, 1])
    x.flags.writeable = False
    results = [
        *(reference.scan(x, kind=kind, scan_axis=0) for kind in KINDS),
        *(reference.scan_backward(x, x, x, kind=kind, scan_axis=0) for kind in KINDS),
        reference.segment_sum(x, ids, num_segments=2),
        reference.segment_sum_backward(x, ids),
        reference.embedding(x, ids),
        reference.embedding_backward(x, ids, num_embeddings=2, accumulate=True, dweight=x),
        reference.binary_param(x, x, param=0.5),
        *reference.binary_param_backward(x, param=0.5),
        reference.sparsemax(x, softmax_axis=0),
        reference.sparsemax_backward(x, x, softmax_axis=0),
    ]
    for result in results:
        assert result.flags.writeable and not np.shares_memory(result, x)


def test_functions_is_every_operation() -> None:
    assert all(
        reference.FUNCTIONS[name] is getattr(reference, name) for name in reference.FUNCTIONS
    )
    assert len(reference.FUNCTIONS) == 11


def test_unknown_choices_are_refused() -> None:
    x = f32([1])
    ids = np.array([0])
    calls: list[Callable[[], Any]] = [
        lambda: reference.scan(x, kind="cumsums", scan_axis=0),
        lambda: reference.scan_backward(x, x, kind="cummax", scan_axis=0, ties="middle"),
        lambda: reference.scan_backward(x, kind="cumprod", scan_axis=0),
        lambda: reference.segment_sum(x, ids, num_segments=1, bounds="wrap"),
        lambda: reference.binary_param(x, x, kind="slerp", param=0.5),
        lambda: reference.embedding_backward(x, ids, num_embeddings=1, accumulate=True),
        lambda: reference.scan(np.array([1]), kind="cumsum", scan_axis=0),
    ]
    for call in calls:
        with pytest.raises(InvalidProblem):
            call()


# --- properties of scans --------------------------------------------------------------------------


@each_element
@pytest.mark.parametrize("n", [17, 4097, 65537])
def test_cumsum_of_non_negative_numbers_never_decreases(dtype: np.dtype[Any], n: int) -> None:
    rng = random("monotone", dtype, n)
    x = np.exp2(rng.integers(-12, 4, (2, n))) * rng.random((2, n))
    y = reference.scan((x / n).astype(dtype), kind="cumsum", scan_axis=1).astype(np.float64)
    assert (np.diff(y) >= 0).all()


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


def test_a_missing_carry_adds_nothing() -> None:
    """-0.0 survives sums that have no other term, on every level and behind a record."""
    n = 5000
    x = np.full(n, -0.0, np.float32)
    assert_same_bits(reference.scan(x, kind="cumsum", scan_axis=0), x)
    assert_same_bits(reference.scan_backward(x, kind="cumsum", scan_axis=0), x)
    rising = np.arange(n, dtype=np.float32)
    assert_same_bits(reference.scan_backward(x, rising, kind="cummax", scan_axis=0), x)
    ids = np.zeros(n, np.int64)
    assert_same_bits(reference.segment_sum(x[:, None], ids, num_segments=1), x[:1, None])


def test_infinities_and_nan_in_scans() -> None:
    def scan(kind: str, *x: float) -> Any:
        return reference.scan(f32(x), kind=kind, scan_axis=0).tolist()

    def same(got: list[float], want: list[float]) -> None:
        np.testing.assert_array_equal(got, want)

    same(scan("cumsum", 1, INF, 1, -INF, 1), [1, INF, INF, NAN, NAN])
    same(scan("cumprod", 2, INF, -1, 0, NAN), [2, INF, -INF, 0, NAN])
    same(scan("cummax", 1, -INF, INF, NAN, INF), [1, 1, INF, NAN, NAN])
    same(scan("cummin", 1, INF, NAN, -INF), [1, 1, NAN, NAN])
    same(scan("logcumsumexp", -INF, -INF, 1, -INF), [-INF, -INF, 1, 1])
    same(scan("logcumsumexp", 1, INF, 2, -INF, INF, NAN, 1), [1, INF, INF, INF, INF, NAN, NAN])


@each_kind
@pytest.mark.parametrize("n", [40, 9000])
def test_nan_sticks(kind: str, n: int) -> None:
    x = scan_input(kind, (n,), -1, random("sticks", kind, n)).astype(np.float32)
    for position in (0, 7, n // 2, n - 1):
        poisoned = x.copy()
        poisoned[position] = NAN
        y = reference.scan(poisoned, kind=kind, scan_axis=0)
        clean = reference.scan(x, kind=kind, scan_axis=0)
        assert_same_bits(y[:position], clean[:position])
        assert np.isnan(y[position:]).all()


@each_extreme
def test_equal_extremes_keep_the_first(kind: str) -> None:
    for zeros in ([0.0, -0.0], [-0.0, 0.0]):
        x = f32(zeros * 3000)
        want = np.full_like(x, x[0])
        assert_same_bits(reference.scan(x, kind=kind, scan_axis=0), want)


def test_logcumsumexp_of_minus_infinity() -> None:
    """-inf is the identity, over blocks and chunks too, and takes no gradient."""
    n = 9000
    x = np.full(n, -INF, np.float32)
    assert_same_bits(reference.scan(x, kind="logcumsumexp", scan_axis=0), x)
    dy = np.ones(n, np.float32)
    zeros = np.zeros(n, np.float32)
    assert_same_bits(reference.scan_backward(dy, x, x, kind="logcumsumexp", scan_axis=0), zeros)

    x[[5000, 8000]] = 3.0, 4.0
    y = reference.scan(x, kind="logcumsumexp", scan_axis=0)
    assert (y[:5000] == -INF).all() and (y[5000:8000] == 3).all()
    np.testing.assert_allclose(y[8000:], np.logaddexp(3, 4), rtol=1e-6)
    dx = reference.scan_backward(dy, x, y, kind="logcumsumexp", scan_axis=0)
    share = 1000 / (1 + math.e)
    np.testing.assert_allclose(dx[[5000, 8000]], [3000 + share, 1000 - share], rtol=1e-5)
    dx[[5000, 8000]] = 0
    assert_same_bits(dx, zeros)


def test_logcumsumexp_does_not_overflow() -> None:
    for n in (5, 9000):
        for level in (-3e38, 3e38, 88.0, -104.0):
            x = np.full(n, level, np.float32)
            y = reference.scan(x, kind="logcumsumexp", scan_axis=0)
            np.testing.assert_allclose(y, level + np.log(np.arange(1, n + 1)), rtol=1e-6)
            dx = reference.scan_backward(x * 0 + 1, x, y, kind="logcumsumexp", scan_axis=0)
            assert np.isfinite(dx).all()


# --- cumprod backward -----------------------------------------------------------------------------


def cumprod_gradient(dy: Array, x: Array) -> Array:
    with np.errstate(all="ignore"):
        y = np.multiply.accumulate(x)
    return reference.scan_backward(dy, x, y, kind="cumprod", scan_axis=0)


@pytest.mark.parametrize("n", [5, 300, 4500])
@pytest.mark.parametrize("zeros", [1, 2, 3])
def test_cumprod_backward_with_zeros(n: int, zeros: int) -> None:
    rng = random("zeros", n, zeros)
    x = (np.exp(0.02 * rng.standard_normal(n))).astype(np.float32)
    at = np.sort(rng.choice(n, zeros, replace=False))
    x[at] = 0
    dy = rng.standard_normal(n).astype(np.float32)
    dx = cumprod_gradient(dy, x)
    assert_close(dx, oracle.along(oracle.cumprod_backward, dy, x, axis=0), 3 * n)
    assert_same_bits(dx[at[0] + 1 :], np.zeros(n - at[0] - 1, np.float32))


@pytest.mark.parametrize("n", [40, 300, 9000])
def test_a_zero_in_cumprod_survives_overflow(n: int) -> None:
    """No finite row gives NaN, and gradients in front of a zero do not see what is behind it."""
    rng = random("overflow", n)
    x = f32(rng.uniform(1, 1e4, n))
    x[:5] = rng.uniform(1, 2, 5)
    x[5] = x[7] = 0
    dy = f32(rng.standard_normal(n))
    y = reference.scan(x, kind="cumprod", scan_axis=0)
    assert_same_bits(y[5:], np.zeros(n - 5, np.float32))
    dx = reference.scan_backward(dy, x, y, kind="cumprod", scan_axis=0)
    exact, magnitude = oracle.along(oracle.cumprod_backward, dy[:8], x[:8], axis=0)
    assert_close(dx[:8], (exact, magnitude), 30)  # behind two zeros nothing comes through
    assert_same_bits(dx[6:], np.zeros(n - 6, np.float32))


def test_cumprod_backward_is_zero_behind_a_zero_whatever_overflows() -> None:
    x = f32([2, 0, 3e38, 3e38, 2])
    for dy in ([1, 1, 1, 1, 1], [1, 1, 1, INF, 1], [1, 1, 1, 1, NAN]):
        dx = cumprod_gradient(f32(dy), x)
        assert_same_bits(dx[2:], np.zeros(3, np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cumprod_backward_of_long_rows_stays_finite(dtype: str) -> None:
    """Block products far outside the type's range meet carries that bring them back."""
    tiny = float(np.finfo(dtype).smallest_subnormal)
    bits_per_block = 256 if dtype == "float32" else 2048
    factor = 2.0 ** (bits_per_block // 256)

    # Zero gradients behind blocks whose products overflow: 0 * inf must not appear.
    x = np.full(6000, factor, dtype)
    x[:3000] = 1 / factor
    dy = np.zeros(6000, dtype)
    dy[0] = 1
    assert_same_bits(cumprod_gradient(dy, x), dy)

    # One subnormal gradient that grows through a block and shrinks again through the next ones.
    x = np.ones(6000, dtype)
    dy = np.zeros(6000, dtype)
    dy[-1] = tiny
    x[-300:-44] = factor  # t = tiny * factor^256 is in range, factor^256 is not
    x[-812:-556] = 1 / factor
    dx = cumprod_gradient(dy, x)
    assert np.isfinite(dx).all()
    assert (dx[:5000] == tiny).all()

    # Products that vanish in the middle of a chunk and come back are still there at its end.
    x = np.ones(9000, dtype)
    x[6000:6512] = 1 / factor
    x[5000:5512] = factor
    dy = np.zeros(9000, dtype)
    dy[-1] = 1
    t_start = cumprod_gradient(dy, x)[0]
    assert np.isfinite(t_start)


# --- cummax and cummin backward -------------------------------------------------------------------


@each_extreme
def test_ties(kind: str) -> None:
    sign = 1 if kind == "cummax" else -1
    x = sign * f32([1, 3, 3, 2, 3, 5, NAN, 7, NAN])
    dy = f32([1, 2, 4, 8, 16, 32, 64, 128, 256])

    def gradient(ties: str, reverse: bool = False) -> Any:
        dx = reference.scan_backward(dy, x, kind=kind, scan_axis=0, ties=ties, reverse=reverse)
        return dx.tolist()

    assert gradient("first") == [1, 30, 0, 0, 0, 32, 448, 0, 0]
    assert gradient("last") == [1, 2, 12, 0, 16, 32, 192, 0, 256]
    assert gradient("first", reverse=True) == [0, 0, 0, 0, 0, 0, 0, 0, 511]
    assert gradient("last", reverse=True) == [0, 0, 0, 0, 0, 0, 127, 0, 384]


@each_extreme
@each_ties
def test_every_gradient_of_an_extreme_arrives(kind: str, ties: str) -> None:
    rng = random("arrives", kind, ties)
    x = np.round(rng.standard_normal((3, 5000))).astype(np.float32)
    x[1, 2500] = NAN
    x[2, ::700] = NAN
    dy = rng.integers(-9, 10, (3, 5000)).astype(np.float32)  # sums are exact
    dx = reference.scan_backward(dy, x, kind=kind, scan_axis=1, ties=ties)
    np.testing.assert_array_equal(dx.sum(axis=1), dy.sum(axis=1))


# --- segments and embeddings ----------------------------------------------------------------------


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


# --- lerp -----------------------------------------------------------------------------------------


@each_element
@pytest.mark.parametrize("weight", [-1.5, 0, 0.1, 0.4999, 0.5, 0.9, 1, 3])
def test_lerp_is_accurate(dtype: np.dtype[Any], weight: float) -> None:
    rng = random("lerp", dtype, weight)
    a, b = (rng.standard_normal((20, 3)).astype(dtype) for _ in range(2))
    assert_close(reference.binary_param(a, b, param=weight), oracle.lerp(a, b, weight), 5)
    da, db = reference.binary_param_backward(a, param=weight)
    zero = np.zeros_like(a)
    assert_close(da, oracle.lerp(a, zero, weight), 2)
    assert_close(db, oracle.lerp(zero, a, weight), 2)


@each_element
def test_lerp_is_exact_at_both_ends(dtype: np.dtype[Any]) -> None:
    rng = random("ends", dtype)
    a, b = (
        (rng.standard_normal(500) * np.exp2(rng.integers(-14, 14, 500))).astype(dtype)
        for _ in range(2)
    )
    assert_same_bits(reference.binary_param(a, b, param=0), a)
    assert_same_bits(reference.binary_param(a, b, param=1), b)
    assert_same_bits(
        reference.binary_param(a[:1].reshape(()), b[:1].reshape(()), param=1), b[:1].reshape(())
    )


@pytest.mark.parametrize("weight", [-0.6, -0.5, -0.3, 0.3, 0.5, 0.7])
def test_lerp_changes_its_formula_at_one_half(weight: float) -> None:
    rng = random("formula", weight)
    a, b = f32(rng.standard_normal(99)), f32(rng.standard_normal(99))
    w = np.float32(weight)
    want = a + w * (b - a) if abs(w) < 0.5 else b - (b - a) * (np.float32(1) - w)
    assert_same_bits(reference.binary_param(a, b, param=weight), want)


def test_lerp_rounds_the_weight_once() -> None:
    a, b = f32([0]), f32([1])
    just_below = 0.5 - 2.0**-40  # becomes 0.5 in f32: the second formula
    assert_same_bits(
        reference.binary_param(a, b, param=just_below), reference.binary_param(a, b, param=0.5)
    )
    da, db = reference.binary_param_backward(b, param=0.1)
    assert da[0] == np.float32(1) - np.float32(0.1) and db[0] == np.float32(0.1)


# --- sparsemax ------------------------------------------------------------------------------------


@each_element
@pytest.mark.parametrize("n", [0, 1, 2, 16, 300, 4097])
def test_sparsemax_is_accurate(dtype: np.dtype[Any], n: int) -> None:
    rng = random("sparsemax", dtype, n)
    for spread in (1e-4, 0.1, 3):
        for shape, axis in (((3, n), -1), ((n, 2), 0)):
            x = (spread * rng.standard_normal(shape)).astype(dtype)
            y = reference.sparsemax(x, softmax_axis=axis)
            # The integers resolve 2^-30 of the 2^-24 (2^-60 of the 2^-53) that f32 (f64) does.
            assert_close(y, oracle.along(oracle.sparsemax, x, axis=axis), 4)
            dy = rng.standard_normal(shape).astype(dtype)
            exact = oracle.along(oracle.sparsemax_backward, dy, y, axis=axis)
            dx = reference.sparsemax_backward(dy, y, softmax_axis=axis)
            assert_close(dx, exact, oracle.lane_depth(n) + 2)


def test_sparsemax_of_masked_and_undefined_rows() -> None:
    def row(*x: float) -> Any:
        return reference.sparsemax(f32(x), softmax_axis=0).tolist()

    assert row(1, -INF, 1, -INF) == [0.5, 0, 0.5, 0]
    assert row(-INF, -3e38) == [0, 1]
    assert row(3e38, -3e38) == [1, 0]
    for undefined in ([1, NAN], [INF, 1], [-INF, -INF], [INF, -INF], [NAN, INF]):
        assert np.isnan(row(*undefined)).all()
    batch = f32([[1, NAN], [0, 5], [-INF, -INF], [2, 2]])
    got = reference.sparsemax(batch, softmax_axis=1)
    np.testing.assert_array_equal(got, [[NAN, NAN], [0, 1], [NAN, NAN], [0.5, 0.5]])


def test_sparsemax_backward_off_the_support() -> None:
    dy = f32([[5, 1, 7], [INF, 1, 3], [1, 2, 3]])
    y = f32([[0.5, 0.5, 0], [0, 0.25, 0.75], [NAN, NAN, NAN]])
    dx = reference.sparsemax_backward(dy, y, softmax_axis=1)
    assert_same_bits(dx, f32([[2, -2, 0], [0, -1, 1], [0, 0, 0]]))


def test_sparsemax_scalar() -> None:
    one = np.array(7.0, np.float32)
    assert_same_bits(reference.sparsemax(one, softmax_axis=0), np.array(1, np.float32))
    assert_same_bits(
        reference.sparsemax_backward(one, one, softmax_axis=-1), np.array(0, np.float32)
    )
