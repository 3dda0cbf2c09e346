"""Where a line of an index space begins."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def place(line, e1, e2, s0, s1, s2):
    """The offset of a line in a space of three outer axes, of which the last two have e1, e2."""
    q = line // e2
    i0 = q // e1
    return i0 * s0 + (q - i0 * e1) * s1 + (line - q * e2) * s2


@triton.jit
def numbers(COUNT: tl.constexpr):
    """COUNT consecutive numbers, the first of them this program's; 64 bits."""
    return tl.program_id(0).to(tl.int64) * COUNT + tl.arange(0, COUNT)
