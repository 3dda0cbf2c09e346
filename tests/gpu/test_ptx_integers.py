"""The executor's integer instructions against Python's integers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ptx.errors import Unsupported
from ptx_snippets import evaluate

Array = np.ndarray[Any, Any]
REGISTER = {16: "%h", 32: "%r", 64: "%rd"}


def dtype_of(kind: str) -> np.dtype[Any]:
    return np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")


def values(kind: str, count: int) -> list[Array]:
    """Columns with every combination of awkward numbers, and random ones."""
    dtype = dtype_of(kind)
    limits = np.iinfo(dtype)
    awkward = {0, 1, 2, 3, 5, 31, 32, 33, limits.min, limits.min + 1, limits.max, limits.max - 1}
    awkward |= {int(limits.max) >> 1, int(limits.max) // 3} | (
        {-1, -2, -7} if limits.min else set()
    )
    chosen = sorted(awkward) if count < 3 else sorted(awkward)[::2]
    rows = list(itertools.product(chosen, repeat=count))
    rng = np.random.default_rng(5)
    random = rng.integers(limits.min, limits.max, (300, count), dtype, endpoint=True)
    return list(np.concatenate([np.array(rows, dtype), random]).T.copy())


def wrapped(value: int, kind: str) -> int:
    """An integer cut to a type."""
    bits = int(kind[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def run(opcode: str, kind: str, columns: list[Array], to: str | None = None) -> list[int]:
    registers = [f"{REGISTER[int(kind[1:])]}{i + 1}" for i in range(len(columns))]
    to = to or kind
    target = f"{REGISTER[int(to[1:])]}9"
    line = f"{opcode} {target}, {', '.join(registers)};"
    inputs = dict(zip(registers, columns, strict=True))
    return evaluate(line, inputs, target, dtype_of(to)).tolist()  # type: ignore[no-any-return]


def check(
    opcode: str, kind: str, count: int, function: Callable[..., int], to: str | None = None
) -> None:
    columns = values(kind, count)
    want = [
        wrapped(function(*row), to or kind) for row in zip(*map(Array.tolist, columns), strict=True)
    ]
    assert run(opcode, kind, columns, to) == want


def towards_zero(a: int, b: int) -> int:
    return -1 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def rest(a: int, b: int) -> int:
    return -1 if b == 0 else a - b * towards_zero(a, b)


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "div": towards_zero,
    "rem": rest,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("name", BINARY)
def test_two_numbers(name: str, kind: str) -> None:
    check(f"{name}.{kind}", kind, 2, BINARY[name])


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_high_half(kind: str) -> None:
    check(f"mul.hi.{kind}", kind, 2, lambda a, b: (a * b) >> int(kind[1:]))


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
def test_wide_products(kind: str) -> None:
    wide = f"{kind[0]}{2 * int(kind[1:])}"
    check(f"mul.wide.{kind}", kind, 2, lambda a, b: a * b, wide)
    columns = values(kind, 2)
    added = np.random.default_rng(6).integers(0, 2**15, len(columns[0])).astype(dtype_of(wide))
    a, b = (f"{REGISTER[int(kind[1:])]}{i}" for i in (1, 2))
    c, target = (f"{REGISTER[int(wide[1:])]}{i}" for i in (3, 4))
    inputs = {a: columns[0], b: columns[1], c: added}
    got = evaluate(f"mad.wide.{kind} {target}, {a}, {b}, {c};", inputs, target, dtype_of(wide))
    rows = zip(columns[0].tolist(), columns[1].tolist(), added.tolist(), strict=True)
    assert got.tolist() == [wrapped(x * y + z, wide) for x, y, z in rows]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_multiply_and_add(kind: str) -> None:
    check(f"mad.lo.{kind}", kind, 3, lambda a, b, c: a * b + c)


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_signs(kind: str) -> None:
    check(f"neg.{kind}", kind, 1, lambda a: -a)
    check(f"abs.{kind}", kind, 1, abs)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic(bits: int) -> None:
    kind = f"u{bits}"
    check(f"and.b{bits}", kind, 2, lambda a, b: a & b)
    check(f"or.b{bits}", kind, 2, lambda a, b: a | b)
    check(f"xor.b{bits}", kind, 2, lambda a, b: a ^ b)
    check(f"not.b{bits}", kind, 1, lambda a: ~a)


def test_logic_of_predicates() -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    for name, want in (("and", a & b), ("or", a | b), ("xor", a ^ b)):
        got = evaluate(f"{name}.pred %p3, %p1, %p2;", {"%p1": a, "%p2": b}, "%p3", bool)
        assert got.tolist() == want.tolist()
    assert evaluate("not.pred %p3, %p1;", {"%p1": a}, "%p3", bool).tolist() == (~a).tolist()


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_shifts(kind: str) -> None:
    bits, dtype = int(kind[1:]), dtype_of(kind)
    numbers = values(kind, 1)[0]
    amounts = np.array([0, 1, 7, bits - 1, bits, bits + 1, 255, 2**32 - 1], np.uint32)
    a, by = np.repeat(numbers, len(amounts)), np.tile(amounts, len(numbers))
    x, target = f"{REGISTER[bits]}1", f"{REGISTER[bits]}9"
    inputs = {x: a, "%r2": by}
    rows = list(zip(a.tolist(), by.tolist(), strict=True))
    left = evaluate(f"shl.b{bits} {target}, {x}, %r2;", inputs, target, dtype)
    assert left.tolist() == [wrapped(v << min(n, 64), kind) for v, n in rows]
    right = evaluate(f"shr.{kind} {target}, {x}, %r2;", inputs, target, dtype)
    assert right.tolist() == [wrapped(v >> min(n, 64), kind) for v, n in rows]


def test_funnel_shifts() -> None:
    def left(a: int, b: int, c: int) -> int:
        return ((b << 32 | a) << (c & 31)) >> 32

    def right(a: int, b: int, c: int) -> int:
        return (b << 32 | a) >> (c & 31)

    check("shf.l.wrap.b32", "u32", 3, left)
    check("shf.r.wrap.b32", "u32", 3, right)


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize(("first", "count"), [(0, 1), (5, 2), (0, 31), (8, 24), (31, 1)])
def test_fields_are_extracted(kind: str, first: int, count: int) -> None:
    numbers = values(kind, 1)[0]
    x, target = f"{REGISTER[int(kind[1:])]}1", f"{REGISTER[int(kind[1:])]}9"
    line = f"bfe.{kind} {target}, {x}, {first}, {count};"
    got = evaluate(line, {x: numbers}, target, dtype_of(kind))
    want = [wrapped(v >> first, f"{kind[0]}{count}") for v in numbers.tolist()]
    assert got.tolist() == want


@pytest.mark.parametrize(("first", "count"), [(0, 1), (5, 2), (8, 16), (0, 16)])
def test_fields_are_inserted(first: int, count: int) -> None:
    a, b = values("u32", 2)
    got = evaluate(
        f"bfi.b32 %r9, %r1, %r2, {first}, {count};", {"%r1": a, "%r2": b}, "%r9", np.uint32
    )
    mask = ((1 << count) - 1) << first
    rows = zip(a.tolist(), b.tolist(), strict=True)
    assert got.tolist() == [(y & ~mask) | (x << first & mask) for x, y in rows]


@pytest.mark.parametrize("bits", [32, 64])
def test_counts_and_reversal(bits: int) -> None:
    kind = f"u{bits}"
    check(f"popc.b{bits}", kind, 1, lambda a: bin(a).count("1"), "u32")
    check(f"clz.b{bits}", kind, 1, lambda a: bits - a.bit_length(), "u32")
    check(f"brev.b{bits}", kind, 1, lambda a: int(f"{a:0{bits}b}"[::-1], 2))


def test_bytes_are_permuted() -> None:
    def one(a: int, b: int, c: int) -> int:
        octets = a.to_bytes(4, "little") + b.to_bytes(4, "little")
        chosen = []
        for k in range(4):
            choice = c >> 4 * k & 15
            octet = octets[choice & 7]
            chosen.append((255 if octet > 127 else 0) if choice & 8 else octet)
        return int.from_bytes(bytes(chosen), "little")

    check("prmt.b32", "u32", 3, one)


@pytest.mark.parametrize("table", [0x00, 0x80, 0x96, 0xE8, 0xCA, 0xFF])
def test_tables_of_three_bits(table: int) -> None:
    columns = values("u32", 3)
    registers = dict(zip(("%r1", "%r2", "%r3"), columns, strict=True))
    got = evaluate(f"lop3.b32 %r9, %r1, %r2, %r3, {table};", registers, "%r9", np.uint32)

    def one(a: int, b: int, c: int) -> int:
        rows = ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1) for k in range(32))
        return sum((table >> row & 1) << k for k, row in enumerate(rows))

    assert got.tolist() == [one(*row) for row in zip(*map(Array.tolist, columns), strict=True)]


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_comparisons_and_selection(kind: str) -> None:
    a, b = values(kind, 2)
    x, y, target = (f"{REGISTER[int(kind[1:])]}{i}" for i in (1, 2, 3))
    rows = list(zip(a.tolist(), b.tolist(), strict=True))
    comparisons = {
        "lt": lambda v, w: v < w,
        "le": lambda v, w: v <= w,
        "gt": lambda v, w: v > w,
        "ge": lambda v, w: v >= w,
        "eq": lambda v, w: v == w,
        "ne": lambda v, w: v != w,
    }
    for word, function in comparisons.items():
        got = evaluate(f"setp.{word}.{kind} %p1, {x}, {y};", {x: a, y: b}, "%p1", bool)
        assert got.tolist() == [function(*row) for row in rows], word
    choice = np.arange(len(a)) % 3 == 0
    inputs = {x: a, y: b, "%p1": choice}
    got = evaluate(f"selp.b{kind[1:]} {target}, {x}, {y}, %p1;", inputs, target, a.dtype)
    chosen = zip(choice.tolist(), rows, strict=True)
    assert got.tolist() == [v if yes else w for yes, (v, w) in chosen]


@pytest.mark.parametrize("to", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_conversions_cut_and_extend(kind: str, to: str) -> None:
    columns = values(kind, 1)
    want = [wrapped(v, to) for v in columns[0].tolist()]
    assert run(f"cvt.{to}.{kind}", kind, columns, to) == want


def test_conversions_of_a_part_of_a_register() -> None:
    a = values("u32", 1)[0]
    got = evaluate("cvt.s32.s8 %r2, %r1;", {"%r1": a}, "%r2", np.int32)
    assert got.tolist() == [wrapped(v, "s8") for v in a.tolist()]
    got = evaluate("cvt.u16.u8 %h2, %r1;", {"%r1": a}, "%h2", np.uint16)
    assert got.tolist() == [v & 255 for v in a.tolist()]


def test_words_are_taken_apart_and_put_together() -> None:
    a = values("u64", 1)[0]
    body = "mov.b64 {%r1, %r2}, %rd1; mov.b64 %rd2, {%r2, %r1};"
    got = evaluate(body, {"%rd1": a}, "%rd2", np.uint64)
    assert got.tolist() == [(v & 0xFFFFFFFF) << 32 | v >> 32 for v in a.tolist()]
    b = values("u32", 1)[0]
    body = "mov.b32 {%h1, %h2}, %r1; mov.b32 %r2, {%h2, %h1};"
    got = evaluate(body, {"%r1": b}, "%r2", np.uint32)
    assert got.tolist() == [(v & 0xFFFF) << 16 | v >> 16 for v in b.tolist()]


def test_a_moved_register_is_a_copy() -> None:
    """What is written to one afterwards, by some lanes, does not reach the other."""
    a = np.arange(64, dtype=np.uint32)
    body = "mov.b32 %r2, %r1; setp.lt.u32 %p1, %r1, 5; @%p1 mov.b32 %r1, 77; add.s32 %r3, %r1, %r2;"
    got = evaluate(body, {"%r1": a}, "%r3", np.uint32)
    assert got.tolist() == [v + (77 if v < 5 else v) for v in a.tolist()]


def test_numbers_in_the_text() -> None:
    none = {"%r1": np.zeros(1, np.uint32)}
    assert evaluate("mov.b32 %r2, -1;", none, "%r2", np.uint32).tolist() == [2**32 - 1]
    assert evaluate("mov.b32 %r2, 0x10;", none, "%r2", np.uint32).tolist() == [16]
    assert evaluate("mov.b32 %r2, 0f3F800000;", none, "%r2", np.float32).tolist() == [1.0]
    wide = evaluate("mov.b64 %rd2, 0d3FF0000000000000;", none, "%rd2", np.float64)
    assert wide.tolist() == [1.0]


@pytest.mark.parametrize(
    "line",
    [
        "foo.b32 %r1, %r2;",
        "add.cc.u32 %r1, %r2, %r3;",
        "add.sat.s32 %r1, %r2, %r3;",
        "add.s32 %r1, %rd1, %r2;",
        "add.s32 %r1, %r2;",
        "mad.hi.u32 %r1, %r2, %r3, %r4;",
        "mul.wide.u64 %rd1, %rd2, %rd3;",
        "shl.s32 %r1, %r2, %r3;",
        "setp.lt.b32 %p1, %r1, %r2;",
        "setp.lt.and.s32 %p1, %r1, %r2, %p2;",
        "cvt.sat.u16.u32 %h1, %r1;",
        "cvt.u32.u64 %r1, %r2;",
        "mov.b32 %r1, %nothing;",
        "mov.b32 %r1, %clock;",
        "shf.l.clamp.b32 %r1, %r2, %r3, %r4;",
        "prmt.b32.f4e %r1, %r2, %r3, %r4;",
    ],
)
def test_unknown_instructions_and_widths_are_refused(line: str) -> None:
    with pytest.raises(Unsupported):
        evaluate(line, {"%r19": np.zeros(1, np.uint32)}, "%r1", np.uint32)
