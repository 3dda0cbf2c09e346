"""What is wrong with indices, found without atomics and without waiting.

Two launches: programs of 4096 indices each write the first offence of their own, and one program
takes the first of those and leaves it in the words of launches/errors.py. Reads the indices once;
for ids that have to ascend, the same pass writes them as the 32-bit keys that sums look them up by.
About 12 PTX instructions per index.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.engines.cuda.launches.errors import DESCENT, OUTSIDE
from gradplan.engines.cuda.launches.tiles import CHECKED, FIRSTS
from gradplan.vocabulary import INDICES

from .kernel import Kernel
from .types import POINTERS, signature

NONE = tl.constexpr(2**63 - 1)
OUTSIDE_WORD = tl.constexpr(OUTSIDE)
DESCENT_WORD = tl.constexpr(DESCENT)


@triton.jit
def first(bad, at):
    """The smallest position that is bad, NONE if there is none."""
    return tl.min(tl.where(bad, at, NONE), 0)


@triton.jit
def check_indices(index_ptr, outside_ptr, n, step, count, BLOCK: tl.constexpr):
    """outside: per program the first index outside of [0, count)."""
    pid = tl.program_id(0)
    at = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(index_ptr + at * step, mask=at < n, other=0).to(tl.int64)
    bad = ((v < 0) | (v >= count)) & (at < n)
    tl.store(outside_ptr + pid, first(bad, at))


@triton.jit
def check_ascending(
    index_ptr, outside_ptr, descent_ptr, key_ptr, n, step, count, BLOCK: tl.constexpr
):
    """Both offences, and keys: ids, with -1 and count for those below and behind all."""
    pid = tl.program_id(0)
    at = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ok = at < n
    v = tl.load(index_ptr + at * step, mask=ok, other=0).to(tl.int64)
    earlier = tl.load(index_ptr + (at - 1) * step, mask=ok & (at > 0), other=0).to(tl.int64)
    tl.store(outside_ptr + pid, first(((v < 0) | (v >= count)) & ok, at))
    tl.store(descent_ptr + pid, first((v < earlier) & ok & (at > 0), at))
    key = tl.minimum(tl.maximum(v, -1), count)
    tl.store(key_ptr + at, key.to(tl.int32), mask=ok)


@triton.jit
def earliest(first_ptr, programs, BLOCK: tl.constexpr):
    least = tl.full([BLOCK], NONE, tl.int64)
    for i in range(0, programs, BLOCK):
        k = i + tl.arange(0, BLOCK)
        least = tl.minimum(least, tl.load(first_ptr + k, mask=k < programs, other=NONE))
    return tl.min(least, 0)


@triton.jit
def report_outside(index_ptr, outside_ptr, error_ptr, programs, step, BLOCK: tl.constexpr):
    at = earliest(outside_ptr, programs, BLOCK)
    if at != NONE:
        tl.store(error_ptr + OUTSIDE_WORD, at + 1)
        tl.store(error_ptr + OUTSIDE_WORD + 1, tl.load(index_ptr + at * step).to(tl.int64))


@triton.jit
def report_descent(index_ptr, descent_ptr, error_ptr, programs, step, BLOCK: tl.constexpr):
    at = earliest(descent_ptr, programs, BLOCK)
    if at != NONE:
        tl.store(error_ptr + DESCENT_WORD, at + 1)
        tl.store(error_ptr + DESCENT_WORD + 1, tl.load(index_ptr + at * step).to(tl.int64))
        tl.store(error_ptr + DESCENT_WORD + 2, tl.load(index_ptr + (at - 1) * step).to(tl.int64))


def _kernels() -> dict[str, Kernel]:
    kernels = {}
    blocks = {
        check_indices: CHECKED,
        check_ascending: CHECKED,
        report_outside: FIRSTS,
        report_descent: FIRSTS,
    }
    for index in INDICES:
        types = {
            "index_ptr": POINTERS[index],
            "outside_ptr": "*i64",
            "descent_ptr": "*i64",
            "error_ptr": "*i64",
            "key_ptr": "*i32",
            "programs": "i32",
        }
        for function, block in blocks.items():
            kernels[f"{function.__name__}/{index.value}"] = Kernel(
                function, signature(function, types), {"BLOCK": block}, warps=8
            )
    return kernels


KERNELS = _kernels()
