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

from gradplan.reference.prefix import FAN as _FAN
from gradplan.reference.recurrence import BLOCK as _BLOCK
from gradplan.reference.recurrence import CHUNK as _CHUNK

from .arithmetic import down, up
from .lanes import columns, together

GROUP = tl.constexpr(_FAN)
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
    return fetch(p, step, 0, live, left, U, 1, False)


@triton.jit
def fetch(p, step, i, live, left, U: tl.constexpr, V: tl.constexpr, UNIT: tl.constexpr):
    """The elements i to i + U of each line, as a tuple in the order of the line.

    UNIT: they are neighbours in memory. Then V of them (16 bytes) are one load; `step` is 1 or -1,
    `p` points to the lower end of the line's first V elements, which is aligned, and the length of
    a line is a multiple of V.
    """
    if UNIT:
        v = _vector(p, step, i, live, left, V)
        for j in tl.static_range(1, U // V):
            v = v + _vector(p, step, i + j * V, live, left, V)
        return v
    else:
        v = (up(tl.load(p + i * step, mask=live & (i < left), other=0)),)
        for k in tl.static_range(1, U):
            v = v + (up(tl.load(p + (i + k) * step, mask=live & (i + k < left), other=0)),)
        return v


@triton.jit
def _vector(p, step, i, live, left, V: tl.constexpr):
    at = (p + i * step)[:, None, None] + tl.arange(0, V)[None, None, :]
    here = (live & (i < left))[:, None, None]
    c = in_order(columns(up(tl.load(at, mask=here, other=0)), V), step, V)
    out = (tl.reshape(c[0], [p.shape[0]]),)
    for k in tl.static_range(1, V):
        out = out + (tl.reshape(c[k], [p.shape[0]]),)
    return out


@triton.jit
def in_order(c, step, V: tl.constexpr):
    """Between the order of a line and that of memory, for V values of a vector."""
    out = (tl.where(step < 0, c[V - 1], c[0]),)
    for k in tl.static_range(1, V):
        out = out + (tl.where(step < 0, c[V - 1 - k], c[k]),)
    return out


@triton.jit
def put(p, step, i, live, left, values, U: tl.constexpr, V: tl.constexpr, UNIT: tl.constexpr):
    """The inverse of `fetch`; of floats only, which are rounded here."""
    if UNIT:
        for j in tl.static_range(0, U // V):
            c = in_order(values[j * V : j * V + V], step, V)
            at = (p + (i + j * V) * step)[:, None, None] + tl.arange(0, V)[None, None, :]
            here = (live & (i + j * V < left))[:, None, None]
            tl.store(at, _stored(_joined(c, V), p), mask=here)
    else:
        for k in tl.static_range(0, U):
            tl.store(p + (i + k) * step, _stored(values[k], p), mask=live & (i + k < left))


@triton.jit
def _joined(c, V: tl.constexpr):
    rows = (c[0][:, None],)
    for k in tl.static_range(1, V):
        rows = rows + (c[k][:, None],)
    return together(rows, V)


@triton.jit
def _stored(v, p):
    """Of the type that p points to: numbers are rounded, positions cut."""
    if v.dtype.is_int():
        return v.to(p.dtype.element_ty)
    else:
        return down(v, p.dtype.element_ty)


@triton.jit
def element(p, step, i, V: tl.constexpr, UNIT: tl.constexpr):
    """The address of one element."""
    if UNIT:
        return p + i * step + tl.where(step < 0, V - 1, 0)
    else:
        return p + i * step
