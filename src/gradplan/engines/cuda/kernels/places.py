"""Where a line of an index space begins."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def place(line, e1, e2, s0, s1, s2):
    """The offset of a line in a space of three outer axes, of which the last two have e1, e2.

    Lines are numbered in 32 bits (a launch has no more of them), which makes division cheap.
    """
    q = line // e2
    i0 = q // e1
    i1, i2 = q - i0 * e1, line - q * e2
    return i0.to(tl.int64) * s0 + i1.to(tl.int64) * s1 + i2.to(tl.int64) * s2


@triton.jit
def numbers(COUNT: tl.constexpr):
    """COUNT consecutive numbers, the first of them this program's; 64 bits."""
    return tl.program_id(0).to(tl.int64) * COUNT + tl.arange(0, COUNT)
