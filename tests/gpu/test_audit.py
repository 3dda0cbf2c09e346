"""The text of all shipped kernels: nothing that the contract forbids, and no operation too many."""

from __future__ import annotations

import pytest
from ptx.audit import audit, rounding_operations
from ptx.run import kernels
from ptx_snippets import module


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
    "segment_sums": {"add"},
    "huge_blocks": {"add"},
    "scale": {"mul"},
    "lerp_backward": {"mul"},
}
"""What may round, by the first word of a key; others have longer formulas."""


def test_kernels_round_only_by_the_operation_of_their_formula() -> None:
    wrong = []
    for key, binary in kernels().items():
        name, *rest = key.split("/")
        allowed = ROUNDING.get(name)
        if name.startswith("scan_") and rest:
            allowed = KINDS[rest[0]]
        found = {*rounding_operations(binary.ptx)}
        if allowed is not None and found != allowed:
            wrong.append(f"{key}: {found} instead of {allowed}")
    assert not wrong, "\n".join(wrong)
