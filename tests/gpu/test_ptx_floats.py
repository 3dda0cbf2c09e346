"""The executor's floating-point instructions against exact arithmetic."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from ptx.errors import Unsupported
from ptx_snippets import evaluate

Array = np.ndarray[Any, Any]
TYPES = {"f32": np.dtype("f4"), "f64": np.dtype("f8")}
REGISTER = {"f32": "%r", "f64": "%rd"}
NAN = {"f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}
all_types = pytest.mark.parametrize("kind", TYPES)


def interesting(dtype: np.dtype[Any]) -> list[Any]:
    info = np.finfo(dtype)
    tiny = np.nextafter(dtype.type(0), dtype.type(1))
    one = dtype.type(1)
    positive = [
        dtype.type(0),
        tiny,
        tiny * dtype.type(3),
        info.tiny - tiny,
        info.tiny,
        one,
        np.nextafter(one, dtype.type(2)),
        one - info.epsneg,
        dtype.type(3),
        dtype.type(1) / dtype.type(3),
        dtype.type(2) ** info.nmant,
        dtype.type(2) ** info.nmant + one,
        info.max,
        info.max / dtype.type(2),
        dtype.type(np.inf),
        dtype.type(np.nan),
    ]
    return [*positive, *(-p for p in positive)]


def pairs(dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """All pairs of interesting values, and random bits."""
    with np.errstate(all="ignore"):
        values = interesting(dtype)
    a, b = zip(*itertools.product(values, values), strict=True)
    words = np.random.default_rng(1).integers(0, 2**64, 600, np.uint64).astype(f"u{dtype.itemsize}")
    near = np.random.default_rng(2).standard_normal((2, 300)).astype(dtype)
    return (
        np.concatenate([np.array(a, dtype), words[:300].view(dtype), near[0]]),
        np.concatenate([np.array(b, dtype), words[300:].view(dtype), near[1]]),
    )


def rounded(exact: Fraction, dtype: np.dtype[Any]) -> Any:
    """To nearest even, by integers: units of the last place are counted exactly."""
    if exact == 0:
        return dtype.type(0)
    info = np.finfo(dtype)
    size = abs(exact)
    exponent = max(
        math.floor(math.log2(size.numerator) - math.log2(size.denominator)) - 2, info.minexp
    )
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (max(exponent, info.minexp) - info.nmant)
    count = round(size / unit)  # Python rounds fractions to even
    value = count * unit
    result = math.inf if value > Fraction(float(info.max)) else float(value)
    return dtype.type(math.copysign(result, -1.0 if exact < 0 else 1.0))


def expected(name: str, a: Any, b: Any, dtype: np.dtype[Any]) -> Any:
    """IEEE 754 for one pair of numbers: exact for finite ones, by rule for the others."""
    x, y = float(a), float(b)
    if math.isnan(x) or math.isnan(y):
        return dtype.type(np.nan)
    if name == "sub":
        name, y = "add", -y
    negative = math.copysign(1, x) * math.copysign(1, y) < 0
    if name == "add":
        if math.isinf(x) or math.isinf(y):
            opposite = math.isinf(x) and math.isinf(y) and negative
            return dtype.type(np.nan if opposite else x if math.isinf(x) else y)
        exact = Fraction(x) + Fraction(y)
        if exact == 0:
            both = math.copysign(1, x) < 0 and math.copysign(1, y) < 0
            return dtype.type(-0.0 if both else 0.0)
        return rounded(exact, dtype)
    zero, infinite = (x == 0, y == 0), (math.isinf(x), math.isinf(y))
    sign = -1.0 if negative else 1.0
    if name == "div":
        if all(zero) or all(infinite):
            return dtype.type(np.nan)
        zero, infinite = (zero[0], infinite[1]), (infinite[0], zero[1])
    elif (zero[0] and infinite[1]) or (infinite[0] and zero[1]):
        return dtype.type(np.nan)
    if any(infinite):
        return dtype.type(math.copysign(math.inf, sign))
    if any(zero):
        return dtype.type(math.copysign(0.0, sign))
    exact = Fraction(x) * Fraction(y) if name == "mul" else Fraction(x) / Fraction(y)
    result = rounded(exact, dtype)
    return np.copysign(result, dtype.type(sign))


def bits(values: Array, kind: str) -> list[int]:
    """Words, with the NaN that NVIDIA's arithmetic gives."""
    words = values.view(f"u{values.dtype.itemsize}").tolist()
    return [NAN[kind] if v != v else w for v, w in zip(values.tolist(), words, strict=True)]


def register(kind: str, number: int) -> str:
    return f"{REGISTER[kind]}{number}"


def run(opcode: str, kind: str, *operands: Array) -> Array:
    names = [register(kind, i + 1) for i in range(len(operands))]
    target = register(kind, 9)
    line = f"{opcode} {target}, {', '.join(names)};"
    return evaluate(line, dict(zip(names, operands, strict=True)), target, operands[0].dtype)


@all_types
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_arithmetic_is_rounded_to_nearest_even(name: str, kind: str) -> None:
    a, b = pairs(TYPES[kind])
    got = run(f"{name}.rn.{kind}", kind, a, b)
    with np.errstate(all="ignore"):
        want = [expected(name, x, y, TYPES[kind]) for x, y in zip(a, b, strict=True)]
    assert got.view(f"u{got.itemsize}").tolist() == bits(np.array(want), kind)


@all_types
def test_signs(kind: str) -> None:
    a, _ = pairs(TYPES[kind])
    sign = 1 << (8 * a.itemsize - 1)
    words = [int(w) for w in a.view(f"u{a.itemsize}")]
    isnan = [bool(v != v) for v in a]
    for name, change in (("neg", lambda w: w ^ sign), ("abs", lambda w: w & ~sign)):
        got = run(f"{name}.{kind}", kind, a).view(f"u{a.itemsize}").tolist()
        want = [NAN[kind] if nan else change(w) for w, nan in zip(words, isnan, strict=True)]
        assert got == want


@all_types
@pytest.mark.parametrize("option", ["", ".NaN"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes(name: str, option: str, kind: str) -> None:
    a, b = pairs(TYPES[kind])
    got = run(f"{name}{option}.{kind}", kind, a, b)
    choose = min if name == "min" else max

    def one(x: float, y: float) -> float:
        if x != x or y != y:
            return math.nan if option or (x != x and y != y) else y if x != x else x
        return choose((x, math.copysign(1, x)), (y, math.copysign(1, y)))[0]

    want = [one(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert got.view(f"u{got.itemsize}").tolist() == bits(np.array(want, a.dtype), kind)


@all_types
def test_copysign(kind: str) -> None:
    a, b = pairs(TYPES[kind])
    got = run(f"copysign.{kind}", kind, a, b).view(f"u{a.itemsize}").tolist()
    sign = 1 << (8 * a.itemsize - 1)
    words = zip(a.view(f"u{a.itemsize}").tolist(), b.view(f"u{b.itemsize}").tolist(), strict=True)
    assert got == [(y & ~sign) | (x & sign) for x, y in words]


COMPARISONS = {
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
}


@all_types
@pytest.mark.parametrize("word", [*COMPARISONS, *(f"{w}u" for w in COMPARISONS), "num", "nan"])
def test_comparisons(word: str, kind: str) -> None:
    a, b = pairs(TYPES[kind])
    x, y = register(kind, 1), register(kind, 2)
    got = evaluate(f"setp.{word}.{kind} %p3, {x}, {y};", {x: a, y: b}, "%p3", bool)

    def one(x: float, y: float) -> bool:
        unordered = x != x or y != y
        if word in ("num", "nan"):
            return unordered == (word == "nan")
        return word.endswith("u") if unordered else COMPARISONS[word[:2]](x, y)

    assert got.tolist() == [one(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


# Conversions ---------------------------------------------------------------------------------


def test_narrowing_rounds_to_nearest_even() -> None:
    a = np.concatenate([*pairs(TYPES["f32"])])
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    between = halves[np.isfinite(halves)].astype(np.float32)
    between = np.concatenate([between, np.nextafter(between, np.float32(9e9)), a])
    got = evaluate("cvt.rn.f16.f32 %h1, %r1;", {"%r1": between}, "%h1", np.float16)
    half = np.dtype(np.float16)
    for value, word in zip(between[::37], got.view("u2")[::37].tolist(), strict=True):
        x = float(value)
        if math.isnan(x):
            assert word == 0x7FFF
        else:
            with np.errstate(all="ignore"):
                want = half.type(x) if math.isinf(x) or not x else rounded(Fraction(x), half)
            assert word == int(want.view(np.uint16)), x
    wide = np.concatenate([*pairs(TYPES["f64"])])
    got = evaluate("cvt.rn.f32.f64 %r1, %rd1;", {"%rd1": wide}, "%r1", np.float32)
    for x, word in zip(wide.tolist(), got.view("u4").tolist(), strict=True):
        single = np.dtype(np.float32)
        if math.isnan(x):
            assert word == NAN["f32"]
        else:
            with np.errstate(all="ignore"):
                want = single.type(x) if math.isinf(x) or not x else rounded(Fraction(x), single)
            assert word == int(want.view(np.uint32)), x


def test_widening_is_exact() -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    got = evaluate("cvt.f32.f16 %r1, %h1;", {"%h1": halves}, "%r1", np.float32)
    same = (got == halves) | (np.isnan(halves) & (got.view("u4") == NAN["f32"]))
    assert same.all() and (np.signbit(got) == np.signbit(halves))[~np.isnan(halves)].all()
    singles = pairs(TYPES["f32"])[0]
    got = evaluate("cvt.f64.f32 %rd1, %r1;", {"%r1": singles}, "%rd1", np.float64)
    assert bits(got, "f64") == bits(np.array([float(x) for x in singles]), "f64")


@pytest.mark.parametrize("to", ["s32", "u32", "s64", "u64"])
@all_types
def test_truncation_saturates(kind: str, to: str) -> None:
    rng = np.random.default_rng(3)
    a = np.concatenate(
        [pairs(TYPES[kind])[0], (rng.standard_normal(300) * 2e9).astype(TYPES[kind])]
    )
    x, target = register(kind, 1), {"32": "%r2", "64": "%rd2"}[to[1:]]
    dtype = np.dtype(f"{'i' if to[0] == 's' else 'u'}{int(to[1:]) // 8}")
    got = evaluate(f"cvt.rzi.{to}.{kind} {target}, {x};", {x: a}, target, dtype)
    limits = np.iinfo(dtype)

    def one(value: float) -> int:
        if value != value:
            return 0
        if math.isinf(value):
            return int(limits.max if value > 0 else limits.min)
        return min(max(math.trunc(value), int(limits.min)), int(limits.max))

    assert got.tolist() == [one(v) for v in a.tolist()]


@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64"])
@all_types
def test_integers_become_the_nearest_float(kind: str, source: str) -> None:
    dtype = np.dtype(f"{'i' if source[0] == 's' else 'u'}{int(source[1:]) // 8}")
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(4)
    values = rng.integers(limits.min, limits.max, 300, dtype, endpoint=True)
    near = [limits.min, limits.max, 0, 1, 2**24 + 1, 2**24 + 3, 2**25 + 2, limits.max - 1]
    a = np.concatenate([values, np.array(near, dtype)])
    x, target = {"32": "%r1", "64": "%rd1"}[source[1:]], register(kind, 2)
    got = evaluate(f"cvt.rn.{kind}.{source} {target}, {x};", {x: a}, target, TYPES[kind])
    want = [float(rounded(Fraction(int(v)), TYPES[kind])) for v in a]
    assert got.tolist() == want


# What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "fma.rn.f32 %r1, %r2, %r3, %r4;",
        "fma.rn.ftz.f32 %r1, %r2, %r3, %r4;",
        "mad.f32 %r1, %r2, %r3, %r4;",
        "add.f32 %r1, %r2, %r3;",
        "add.rz.f32 %r1, %r2, %r3;",
        "add.rn.ftz.f32 %r1, %r2, %r3;",
        "add.rn.sat.f32 %r1, %r2, %r3;",
        "add.rn.f16 %h1, %h2, %h3;",
        "mul.f64 %rd1, %rd2, %rd3;",
        "div.full.f32 %r1, %r2, %r3;",
        "div.approx.f32 %r1, %r2, %r3;",
        "max.ftz.f32 %r1, %r2, %r3;",
        "neg.ftz.f32 %r1, %r2;",
        "setp.lt.ftz.f32 %p1, %r1, %r2;",
        "ex2.approx.ftz.f32 %r1, %r2;",
        "lg2.approx.f32 %r1, %r2;",
        "sqrt.approx.f32 %r1, %r2;",
        "rcp.rn.f32 %r1, %r2;",
        "cvt.rz.f32.f64 %r1, %rd1;",
        "cvt.rna.tf32.f32 %r1, %r2;",
        "cvt.rn.bf16.f32 %h1, %r2;",
        "cvt.rni.s32.f32 %r1, %r2;",
        "cvt.sat.f32.f32 %r1, %r2;",
        "atom.global.add.f32 %r1, [%rd1], %r2;",
        "red.global.gpu.relaxed.add.f64 [%rd1], %rd2;",
        "redux.sync.max.f32 %r1, %r2, -1;",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1}, {%r2}, {%r3}, {%r4};",
    ],
)
def test_what_the_contract_forbids_is_refused(line: str) -> None:
    with pytest.raises(Unsupported) as caught:
        evaluate(line, {"%r19": np.zeros(1, np.uint32)}, "%r1", np.uint32)
    assert line.rstrip(";") in str(caught.value)
