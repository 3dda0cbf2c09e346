"""Streaming stores: the bits of a call that writes past the caches, whatever their size here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from matrix import FUNCTIONS, Prepared, cases

from gradplan.declaration import Function, Op
from gradplan.engines import cpu

pytestmark = pytest.mark.skipif(not cpu.supported_isas(), reason="no build for this CPU here")
_SOME = 12
"""Of the problems of a function: they are pairwise different in layout, type, size and values."""


@pytest.fixture
def no_caches() -> Iterator[None]:
    cpu.load()["gradplan_set_cache_of_thread"](0)
    try:
        yield
    finally:
        cpu.load()["gradplan_set_cache_of_thread"](-1)


@pytest.mark.every_op("function")
@pytest.mark.parametrize(("op", "function"), FUNCTIONS, ids=[f.name for _, f in FUNCTIONS])
def test_streaming_stores_do_not_change_bits(no_caches: None, op: Op, function: Function) -> None:
    chosen = cases(op, function)
    for case in chosen[:: max(1, len(chosen) // _SOME)]:
        prepared = Prepared.of(case)
        for build in cpu.supported_isas():
            assert prepared.run(cpu.CpuEngine(build)) == []
