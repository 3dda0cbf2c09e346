"""lerp and its gradients: one element at a time, as fast as memory.

Three forms of each. "contiguous" is for tensors that lie alike without gaps, begin at multiples of
16 bytes and have a multiple of 16 elements, which vectorises (a rest of up to 15 elements is a
launch of its own); "rows" has one outer axis, and "strided" three (layouts.py). The last
two put neighbours along the last axis side by side in a warp.

Bytes are the least possible in every form: each input is read once and each output written once.
PTX instructions per element of the contiguous form, f32: lerp 22, both gradients 11, one of them 8.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.engines.cuda.launches.tiles import FLAT, TILE
from gradplan.vocabulary import FLOATS

from .arithmetic import down, up
from .kernel import Kernel
from .places import numbers, place
from .types import POINTERS, scalar, signature


@triton.jit
def interpolation(a, b, w, rest, near):
    """near: |w| < 0.5. Where the difference of finite numbers overflows, each is weighted alone."""
    span = b - a
    value = tl.where(near != 0, a + w * span, b - span * rest)
    inf = float("inf")
    overflows = (tl.abs(span) == inf) & (tl.abs(a) < inf) & (tl.abs(b) < inf)
    return tl.where(overflows, a * rest + b * w, value)


@triton.jit
def lerp(a_ptr, b_ptr, y_ptr, n, w, rest, near, BLOCK: tl.constexpr):
    i = numbers(BLOCK)
    ok = i < n
    a = up(tl.load(a_ptr + i, mask=ok, other=0))
    b = up(tl.load(b_ptr + i, mask=ok, other=0))
    y = interpolation(a, b, w, rest, near)
    tl.store(y_ptr + i, down(y, y_ptr.dtype.element_ty), mask=ok)


@triton.jit
def lerp_backward(dy_ptr, da_ptr, db_ptr, n, w, rest, BLOCK: tl.constexpr):
    i = numbers(BLOCK)
    ok = i < n
    g = up(tl.load(dy_ptr + i, mask=ok, other=0))
    tl.store(da_ptr + i, down(rest * g, da_ptr.dtype.element_ty), mask=ok)
    tl.store(db_ptr + i, down(w * g, db_ptr.dtype.element_ty), mask=ok)


@triton.jit
def scale(dy_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    """One of the two gradients, if the other is left out."""
    i = numbers(BLOCK)
    ok = i < n
    g = up(tl.load(dy_ptr + i, mask=ok, other=0))
    tl.store(out_ptr + i, down(factor * g, out_ptr.dtype.element_ty), mask=ok)


@triton.jit
def tile(rows, columns, parts, R: tl.constexpr, C: tl.constexpr):
    """The rows and columns of this program's tile, and which of them exist."""
    pid = tl.program_id(0)
    r = (pid // parts) * R + tl.arange(0, R)
    c = (pid % parts).to(tl.int64) * C + tl.arange(0, C)
    return r, c, (r < rows)[:, None] & (c < columns)[None, :]


@triton.jit
def at(r, c, e1, e2, s0, s1, s2, s3, OUTER: tl.constexpr):
    """Offsets in a tensor; with one outer axis only s2 and s3 count."""
    if OUTER == 1:
        return (r.to(tl.int64) * s2)[:, None] + (c * s3)[None, :]
    else:
        return place(r, e1, e2, s0, s1, s2)[:, None] + (c * s3)[None, :]


@triton.jit
def lerp_strided(
    a_ptr, b_ptr, y_ptr, rows, columns, parts, e1, e2,
    a0, a1, a2, a3, b0, b1, b2, b3, y0, y1, y2, y3,
    w, rest, near, OUTER: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    r, c, ok = tile(rows, columns, parts, R, C)
    a = up(tl.load(a_ptr + at(r, c, e1, e2, a0, a1, a2, a3, OUTER), mask=ok, other=0))
    b = up(tl.load(b_ptr + at(r, c, e1, e2, b0, b1, b2, b3, OUTER), mask=ok, other=0))
    y = down(interpolation(a, b, w, rest, near), y_ptr.dtype.element_ty)
    tl.store(y_ptr + at(r, c, e1, e2, y0, y1, y2, y3, OUTER), y, mask=ok)


@triton.jit
def lerp_backward_strided(
    dy_ptr, da_ptr, db_ptr, rows, columns, parts, e1, e2,
    g0, g1, g2, g3, a0, a1, a2, a3, b0, b1, b2, b3,
    w, rest, OUTER: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    r, c, ok = tile(rows, columns, parts, R, C)
    g = up(tl.load(dy_ptr + at(r, c, e1, e2, g0, g1, g2, g3, OUTER), mask=ok, other=0))
    da, db = down(rest * g, da_ptr.dtype.element_ty), down(w * g, db_ptr.dtype.element_ty)
    tl.store(da_ptr + at(r, c, e1, e2, a0, a1, a2, a3, OUTER), da, mask=ok)
    tl.store(db_ptr + at(r, c, e1, e2, b0, b1, b2, b3, OUTER), db, mask=ok)


@triton.jit
def scale_strided(
    dy_ptr, out_ptr, rows, columns, parts, e1, e2,
    g0, g1, g2, g3, o0, o1, o2, o3,
    factor, OUTER: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    r, c, ok = tile(rows, columns, parts, R, C)
    g = up(tl.load(dy_ptr + at(r, c, e1, e2, g0, g1, g2, g3, OUTER), mask=ok, other=0))
    out = down(factor * g, out_ptr.dtype.element_ty)
    tl.store(out_ptr + at(r, c, e1, e2, o0, o1, o2, o3, OUTER), out, mask=ok)


def _kernels() -> dict[str, Kernel]:
    forms = {
        "lerp": (lerp, lerp_strided),
        "lerp_backward": (lerp_backward, lerp_backward_strided),
        "scale": (scale, scale_strided),
    }
    kernels = {}
    for kind in FLOATS:
        for name, (contiguous, strided) in forms.items():
            pointers = tuple(n for n in contiguous.arg_names if n.endswith("_ptr"))
            types = dict.fromkeys(pointers, POINTERS[kind])
            types |= dict.fromkeys(("w", "rest", "factor"), scalar(kind))
            types |= dict.fromkeys(("near", "parts", "rows", "e1", "e2"), "i32")
            key = f"{name}/{kind.value}"
            kernels[f"{key}/contiguous"] = Kernel(
                contiguous, signature(contiguous, types), {"BLOCK": FLAT}, (*pointers, "n")
            )
            for form, outer in (("rows", 1), ("strided", 3)):
                constants = {"OUTER": outer, "R": TILE[0], "C": TILE[1]}
                kernels[f"{key}/{form}"] = Kernel(strided, signature(strided, types), constants)
    return kernels


KERNELS = _kernels()
