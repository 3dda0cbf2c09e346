"""The text of all shipped kernels: nothing that the contract forbids, and no operation too many."""

from __future__ import annotations

from collections import Counter

import pytest
from ptx.audit import audit, rounding_operations
from ptx.run import kernels
from ptx_snippets import module

from gradplan.engines.cuda.launches.tiles import FLAT, ROW_LANES, UNDERWAY
from gradplan.reference.prefix import FAN


@pytest.mark.slow
def test_no_kernel_has_what_the_contract_forbids() -> None:
    found = [f"{key}: {what}" for key, b in kernels().items() for what in audit(b.ptx)]
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("fma.rn.f32 %r1, %r2, %r3, %r4;", "contraction"),
        ("fma.rn.f64 %rd1, %rd2, %rd3, %rd4;", "contraction"),
        ("add.f32 %r1, %r2, %r3;", "ptxas may contract it: no .rn"),
        ("mul.f64 %rd1, %rd2, %rd3;", "ptxas may contract it: no .rn"),
        ("add.rz.f32 %r1, %r2, %r3;", "other rounding"),
        ("cvt.rz.f16.f32 %h1, %r2;", "other rounding"),
        ("cvt.rni.f32.f32 %r1, %r2;", "other rounding"),
        ("add.rn.ftz.f32 %r1, %r2, %r3;", "flush to zero"),
        ("setp.lt.ftz.f32 %p1, %r2, %r3;", "flush to zero"),
        ("ex2.approx.ftz.f32 %r1, %r2;", "flush to zero"),
        ("ex2.approx.f32 %r1, %r2;", "approximation"),
        ("div.full.f32 %r1, %r2, %r3;", "approximation"),
        ("rcp.rn.f32 %r1, %r2;", "approximation"),
        ("add.rn.sat.f32 %r1, %r2, %r3;", "saturation"),
        ("add.rn.f16 %h1, %h2, %h3;", "not known to be exact"),
        ("add.rn.f16x2 %r1, %r2, %r3;", "not known to be exact"),
        ("atom.global.add.f32 %r1, [%rd1], %r2;", "float atomic"),
        ("red.global.add.f64 [%rd1], %rd2;", "float atomic"),
        ("mma.sync.aligned.m16n8k8.f32.tf32 %r1, %r2, %r3, %r4;", "matrix unit"),
        ("call.uni (%r1), __nv_expf, (%r2);", "call"),
    ],
)
def test_what_is_forbidden_is_found(line: str, why: str) -> None:
    assert audit(module(line, 0)) == [f"{why}: {line[:-1]}"]


@pytest.mark.parametrize(
    "line",
    [
        "add.rn.f32 %r1, %r2, %r3;",
        "div.rn.f64 %rd1, %rd2, %rd3;",
        "mad.lo.s32 %r1, %r2, %r3, %r4;",
        "mad.wide.s32 %rd1, %r2, %r3, %rd4;",
        "max.f32 %r1, %r2, %r3;",
        "setp.gtu.f64 %p1, %rd1, %rd2;",
        "cvt.rn.f16.f32 %h1, %r2;",
        "cvt.rzi.s64.f64 %rd1, %rd2;",
        "ld.global.v4.f32 {%r1, %r2, %r3, %r4}, [%rd1];",
        "atom.global.min.u64 %rd1, [%rd2], %rd3;",
    ],
)
def test_what_is_allowed_is_not(line: str) -> None:
    assert audit(module(line, 0)) == []


# Operations that round -----------------------------------------------------------------------

NOTHING: set[str] = set()
KINDS = {"cumsum": {"add"}, "cumprod": {"mul"}, "cummax": NOTHING}
"""Of a plain scan."""
ROUNDING: dict[str, set[str]] = {
    "gather": NOTHING,
    "pick": NOTHING,
    "copy": NOTHING,
    "index_keys": NOTHING,
    "report_first": NOTHING,
    "radix_count": NOTHING,
    "radix_move": NOTHING,
    "check_indices": NOTHING,
    "check_ascending": NOTHING,
    "report_outside": NOTHING,
    "report_descent": NOTHING,
    "segment_starts": NOTHING,
    "scan_serial": NOTHING,
    "scan_totals": NOTHING,
    "scan_blocks": NOTHING,
    "index_lines": NOTHING,
    "index_compose": NOTHING,
    "index_chain": NOTHING,
    "records": NOTHING,
    "ends": {"add"},
    "segment_sums": {"add"},
    "huge_blocks": {"add"},
    "segment_blocks/sum": {"add"},
    "segment_blocks/prod": {"mul"},
    "segment_blocks/max": NOTHING,
    "segment_blocks/min": NOTHING,
    "segment_blocks/matches": {"add"},
    "segment_blocks/places": NOTHING,
    "segment_results/max": NOTHING,
    "segment_results/min": NOTHING,
    "segment_results/places": NOTHING,
    "segment_rows/chosen": NOTHING,
    "scale": {"mul"},
    "lerp_backward": {"mul"},
}
"""What may round, by the first word of a key or two; others have longer formulas."""


@pytest.mark.slow
def test_kernels_round_only_by_the_operation_of_their_formula() -> None:
    wrong = []
    for key, binary in kernels().items():
        name, *rest = key.split("/")
        allowed = ROUNDING.get(name, ROUNDING.get("/".join([name, *rest[:1]])))
        if name.startswith("scan_") and rest:
            allowed = KINDS[rest[0]]
        found = {*rounding_operations(binary.ptx)}
        if allowed is not None and found != allowed:
            wrong.append(f"{key}: {found} instead of {allowed}")
    assert not wrong, "\n".join(wrong)


# How often they round --------------------------------------------------------------------------

BLOCKS = Counter(add=UNDERWAY)
"""Sums of the blocks of a huge segment, behind those of the members of a small one."""
LOADED = 8
"""Steps of a linear recurrence that are written out."""
CHAINED = 8
"""Chunks of a chain that are."""
PASSED = Counter(mul=4, add=1)
"""base + A carry: the carry is split (one multiplication, for subnormals), mantissas multiplied,
and two powers of two."""
STEP = Counter(mul=1, add=1)
PRODUCT = Counter(mul=3)
"""One more factor in A: it is split, multiplied, and the product is split."""


def times(count: int, what: Counter[str]) -> Counter[str]:
    return Counter({name: count * each for name, each in what.items()})


def linear(phase: str, result: int, behind: int) -> Counter[str]:
    """`result`: multiplications of an element behind the recurrence, and `behind` of a line."""
    results = Counter(mul=LOADED * result + behind)
    if phase == "local":
        return times(LOADED, STEP + PRODUCT)
    if phase == "apply":
        return times(LOADED, STEP) + PASSED + results
    chained = Counter(mul=2)  # A2: one product, which is split
    return times(LOADED, STEP + STEP + PRODUCT) + times(2, PASSED) + chained + results


def extreme(phase: str) -> Counter[str]:
    return Counter(add={"local": FAN, "apply": FAN + 1, "whole": 2 * FAN + 2}[phase])


def formula(key: str, threads: int) -> Counter[str] | None:
    """How often a kernel rounds in its text, where that follows from its formula."""
    name, *rest = key.split("/")
    each = FLAT // threads  # elements of a thread
    row_each = ROW_LANES // threads
    match name, *rest:
        case "linear_lines", _, phase, _:
            return linear(phase, 0, 0)
        case "linear_gradient_lines", _, phase, _:
            return linear(phase, 1, 1)
        case "gradient_lines", "cumprod", _, phase, _:
            return linear(phase, 1, 0)
        case "gradient_lines", "extreme", _, phase, _:
            return extreme(phase)
        case "chain", "cumprod" | "linear", _:
            return times(CHAINED, PASSED)
        case "chain", "extreme", _:
            return Counter(add=CHAINED)
        case "compose", "cumprod", _:
            return PASSED + Counter(mul=2)
        case ("compose", "extreme", _) | ("ends", _):
            return Counter(add=1)
        case "scan_lines", "cumsum" | "cumprod" as kind, _, "totals", _:
            return times(FAN, Counter(KINDS[kind]))
        case "scan_lines", "cumsum" | "cumprod" as kind, _, "apply", _:
            return times(FAN - 1 + 3 * FAN, Counter(KINDS[kind]))
        case "lerp", *_:  # a + w (b - a), b - (b - a) (1 - w), a (1 - w) + b w
            return times(each, Counter(add=2, sub=2, mul=4))
        case "lerp_backward", *_:
            return times(each, Counter(mul=2))
        case "scale", *_:
            return times(each, Counter(mul=1))
        case "segment_results", "mean", _, "any":
            return times(UNDERWAY, Counter(add=1)) + BLOCKS + Counter(div=1)
        case "segment_results", "matches", *_:
            return times(UNDERWAY, Counter(add=1)) + BLOCKS
        case "segment_results", "products", *_:
            return times(UNDERWAY, Counter(mul=1, add=1)) + BLOCKS
        case "segment_results", "prod", _, "any":
            return times(2 * UNDERWAY, Counter(mul=1))
        case "segment_sides", _:
            return times(2 * UNDERWAY, Counter(mul=1))
        case "segment_others", _:  # what is behind; (E p) (q L), g times that, and p
            return times(UNDERWAY // 2, Counter(mul=1 + 4 + 1))
        case "segment_rows", "mean" | "share", _:
            return times(row_each, Counter(div=1))
        case "segment_rows", "softmax_backward", _:
            return times(row_each, Counter(sub=1, mul=1))
    return None


EXP = {"f32": Counter(mul=11, add=11), "f64": Counter(mul=16, add=16)}
LOG = {"f32": Counter(mul=8, add=12, div=1), "f64": Counter(mul=13, add=16, div=1)}
"""exp and log of the contract; here and below, additions and subtractions are counted together,
since the compiler turns a difference with a constant into a sum."""
ADD, MUL = Counter(add=1), Counter(mul=1)


def longer(key: str, threads: int) -> Counter[str] | None:
    """The same for formulas with exp and log, and for rows, blocks and vectors of them."""
    name, *rest = key.split("/")
    kind = next((word for word in rest if word in ("f16", "bf16", "f32", "f64")), "f32")
    exp, log = (each["f64" if kind == "f64" else "f32"] for each in (EXP, LOG))
    size = {"f64": 8, "f32": 4}.get(kind, 2)
    vector = 16 // size if rest and rest[-1] == "vector" else 1  # elements of a lane
    few = max(16 // size, 4)  # steps that are written out where there is an exp in each
    decay = exp + ADD  # exp of a difference
    step = decay + MUL + ADD  # b + a t; and of blocks, whose A is one, too
    row_each = ROW_LANES // threads
    match name, *rest:
        case "compose" | "chain", "log" | "log_backward", _:
            return times(CHAINED if name == "chain" else 1, step)
        case ("log_lines", _, "local", _) | ("gradient_lines", "log_backward", _, "local", _):
            return times(few, step)
        case "log_lines", _, phase, _:  # M + log(S)
            more = MUL + ADD if phase == "whole" else Counter()
            return times(few, step + log + ADD + more) + times(2 if more else 1, step)
        case "gradient_lines", "log_backward", _, phase, _:  # t exp(x - y)
            more = MUL + ADD if phase == "whole" else Counter()
            return times(few, step + decay + MUL + more) + times(2 if more else 1, step)
        case "scan_chain" | "scan_compose", "cumsum" | "cumprod" as one, _:
            return times(FAN if name == "scan_chain" else FAN - 1, Counter(KINDS[one]))
        case "scan_rows", "cumsum" | "cumprod" as one, _, phase, *_:
            # Inside groups, C1 (the first is what it is), a block's total, and two times C2.
            count = FAN - 1 + FAN - 2 + 1 + 2
            if phase != "totals":  # three carries an element; one of them is the total
                count += 3 * FAN - 1
            return times(count + (phase == "whole"), Counter(KINDS[one]))
        case "huge_blocks", *_:
            return times(UNDERWAY * vector, ADD)
        case "segment_sums", *_:  # members, or the blocks of a huge segment; what accumulates
            return times((2 * UNDERWAY + 1) * vector, ADD)
        case "segment_blocks", "matches" | "sum", *_:
            return times(UNDERWAY * vector, ADD)
        case "segment_blocks", "prod", *_:
            return times(UNDERWAY * vector, MUL)
        case "segment_blocks", "products", *_:
            return times(UNDERWAY, MUL + ADD)
        case "segment_blocks", "weights", *_:
            return times(UNDERWAY, decay + ADD)
        case "segment_results", "weights", *_:
            return times(UNDERWAY, decay + ADD) + BLOCKS
        case "segment_results", "logsumexp", *_:
            return times(UNDERWAY, decay + ADD) + BLOCKS + log + ADD
        case "segment_results", "mean", _, "vector":
            return times(vector, times(2 * UNDERWAY, ADD) + Counter(div=1))
        case "segment_results", "prod", _, "vector":
            return times(2 * UNDERWAY * vector, MUL)
        case "segment_rows", "softmax", _:
            return times(row_each, decay + Counter(div=1))
        case "segment_rows", "log_softmax", _:  # (x - M) - log(S)
            return times(row_each, log + ADD + ADD)
        case "segment_rows", "log_softmax_backward", _:  # g - exp(y) T
            return times(row_each, exp + MUL + ADD)
        case "segment_rows", "logsumexp", _:  # g exp(x - y)
            return times(row_each, decay + MUL)
    return None


def together(found: Counter[str]) -> Counter[str]:
    """Additions and subtractions as one."""
    return Counter({**found, "add": found["add"] + found["sub"], "sub": 0})


UNCOUNTED = {"sparsemax", "sparsemax_backward", "scan_lines"}
"""How often their loops are written out is the compiler's business: of them only what is counted
for some forms, or executed, is known."""


def miscounted(key: str, threads: int, found: Counter[str]) -> str:
    """What is wrong with a kernel's count; nothing if there is no formula."""
    wanted = formula(key, threads)
    if wanted is None and (wanted := longer(key, threads)) is not None:
        found, wanted = together(found), together(wanted)
    if wanted is None:
        uncounted = found and key.split("/")[0] not in UNCOUNTED
        return f"{key}: {found}, and no formula" if uncounted else ""
    return "" if found == wanted else f"{key}: {found} instead of {wanted}"


@pytest.mark.slow
def test_kernels_round_as_often_as_their_formula() -> None:
    found = [
        miscounted(key, binary.threads, rounding_operations(binary.ptx))
        for key, binary in kernels().items()
    ]
    assert not [*filter(None, found)], "\n".join(filter(None, found))


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["add", "mul", "div"])
def test_one_operation_more_is_found_in_every_kernel_that_is_counted(operation: str) -> None:
    noticed = 0
    for key, binary in kernels().items():
        found = rounding_operations(binary.ptx)
        if found and (formula(key, binary.threads) or longer(key, binary.threads)) is not None:
            assert miscounted(key, binary.threads, found + Counter({operation: 1})), key
            noticed += 1
    assert noticed > 300


def test_one_operation_too_many_is_found() -> None:
    binary = kernels()["linear_lines/f32/whole/unit"]
    line = next(each for each in binary.ptx.splitlines() if b"add.rn.f32" in each)
    found = rounding_operations(binary.ptx.replace(line, line + b"\n" + line, 1))
    assert found != formula(binary.key, binary.threads)
