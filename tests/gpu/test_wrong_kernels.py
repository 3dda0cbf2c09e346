"""Checks of the checks: what is wrong with a kernel makes the comparison or the audit fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_matrix import wrong
from mutants import cases_with, changed_module, is_noticed, replacing, with_function_of
from ptx.audit import audit
from ptx.errors import Unsupported
from ptx.run import kernels

from gradplan.engines.cuda.archive import Binary
from gradplan.engines.cuda.kernels.catalogue import catalogue
from gradplan.engines.cuda.kernels.compiler import compile

ROWS = "scan_rows/cumsum/f32/whole/unit"
"""The kernel that most wrong ones are made of, and what is replaced in it by what."""
CHANGES = {
    "another association": (
        "op(c3, op(mine, op(c1, local[k], KIND), KIND), KIND)",
        "op(op(c3, mine, KIND), op(c1, local[k], KIND), KIND)",
    ),
    "tl.cumsum": (
        "c1 = groups_before(t, g, KIND)",
        "sums = tl.reshape(tl.cumsum(tl.reshape(t, [t.shape[0], 2, 16]), 2), [t.shape[0], 32])\n"
        "        before = tl.gather(sums, tl.where(g == 0, 0, g - 1), 1)\n"
        "        c1 = tl.where((g & 15) == 0, neutral(t.shape, t.dtype, KIND), before)",
    ),
    "the carry of the wrong block": ("lane(total, 2 * GROUP - 1)", "lane(total, GROUP - 1)"),
    "a carry that is lost": ("c3 = op(c3, c2, KIND)", "c3 = c2"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.slow
def test_a_wrong_kernel_is_noticed(change: tuple[str, str], tmp_path: Path) -> None:
    module = changed_module("scan_rows", tmp_path, *change)
    assert is_noticed(ROWS, with_function_of(ROWS, module))


@pytest.mark.slow
def test_the_same_kernel_from_another_file_is_not(tmp_path: Path) -> None:
    assert not is_noticed(ROWS, with_function_of(ROWS, changed_module("scan_rows", tmp_path)))


def test_contraction_is_noticed() -> None:
    key = "lerp/f32/contiguous"
    made = compile(catalogue()[key], fusion=True)
    shipped = kernels()[key]
    assert not audit(shipped.ptx)
    assert any(found.startswith("contraction: fma.rn.f32") for found in audit(made.ptx))
    fused = Binary(
        key, made.entry, made.threads, made.shared, made.parameters, made.ptx, shipped.source
    )
    with pytest.raises(Unsupported, match=r"(fma|sub|add|mul)\.\S*f32"):
        for case in cases_with(key):
            wrong(case, replacing(fused))
