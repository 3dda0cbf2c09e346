"""Lines of tensors with any strides: what the general kernels share.

A tensor is seen as lines along the axis that a kernel works along. A line is found by its number,
which counts positions on three other axes; tensors of more axes that do not merge are several
launches. A *piece* is a block of a line (256 elements), and a thread takes one, or a whole line.
Pieces are numbered so that neighbouring threads read neighbouring memory: `across` is the step from
line to line in these numbers and `along` the one from block to block; one of them is 1.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.reference.recurrence import BLOCK as _BLOCK
from gradplan.reference.recurrence import CHUNK as _CHUNK

from .arithmetic import up

BLOCK = tl.constexpr(_BLOCK)
CHUNK = tl.constexpr(_CHUNK)
"""Blocks of a chunk."""


@triton.constexpr_function
def compute_type(element):
    """The type that elements are computed in."""
    return tl.float64 if element == tl.float64 else tl.float32


@triton.jit
def my_piece(lines, blocks, across, along, C: tl.constexpr):
    """Number, line and block of each thread's piece, and whether there is one."""
    p = tl.program_id(0) * C + tl.arange(0, C)
    return p, (p // across) % lines, (p // along) % blocks, p < lines * blocks


@triton.jit
def start_of(line, e0, e1, s0, s1, s2):
    """Where lines begin: extents and strides of the axes, the fastest one first."""
    rest = line // e0
    at = (line % e0).to(tl.int64) * s0
    return at + (rest % e1).to(tl.int64) * s1 + (rest // e1).to(tl.int64) * s2


@triton.jit
def blocks_of(n):
    return ((n + (BLOCK - 1)) // BLOCK).to(tl.int32)


@triton.jit
def ahead(p, step, live, left, U: tl.constexpr):
    """U elements of each line, loaded before any of them is needed: a tuple."""
    v = (up(tl.load(p, mask=live & (0 < left), other=0)),)
    for k in tl.static_range(1, U):
        v = v + (up(tl.load(p + k * step, mask=live & (k < left), other=0)),)
    return v
