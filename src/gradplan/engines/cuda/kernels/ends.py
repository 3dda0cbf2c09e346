"""An end of every line, which an exclusive scan adds to what it has of the inclusive one.

Neighbouring threads take neighbouring lines. PTX instructions per line, f32, executed: 65.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.engines.cuda.launches.lines import THREADS
from gradplan.engines.cuda.launches.tiles import HELD as _HELD
from gradplan.engines.cuda.launches.tiles import READ as _READ
from gradplan.vocabulary import FLOATS

from .arithmetic import down, up
from .kernel import Kernel
from .lines import start_of
from .types import POINTERS, scalar, signature

HELD = tl.constexpr(_HELD)
READ = tl.constexpr(_READ)


@triton.jit
def ends(
    y_ptr, x_ptr, lines, e0, e1, told, value, y0, y1, y2, x0, x1, x2, C: tl.constexpr
):  # fmt: skip
    """An element of each line of y is `value`, or what is there if HELD; and of x, if READ, one is
    added, which copies it if `value` is -0.0."""
    line = tl.program_id(0) * C + tl.arange(0, C)
    live = line < lines
    y = y_ptr + start_of(line, e0, e1, y0, y1, y2)
    x = x_ptr + start_of(line, e0, e1, x0, x1, x2)
    held = (told & HELD) != 0
    read = (told & READ) != 0
    there = up(tl.load(y, mask=live & held, other=0))
    more = up(tl.load(x, mask=live & read, other=0))
    there = tl.where(held, there, value)
    more = tl.where(read, more, tl.full([C], -0.0, more.dtype))
    tl.store(y, down(there + more, y_ptr.dtype.element_ty), mask=live)


def _kernels() -> dict[str, Kernel]:
    kernels = {}
    for kind in FLOATS:
        types = {"y_ptr": POINTERS[kind], "x_ptr": POINTERS[kind], "value": scalar(kind)}
        types |= dict.fromkeys(("lines", "e0", "e1", "told"), "i32")
        kernels[f"ends/{kind.value}"] = Kernel(
            ends, signature(ends, types), {"C": THREADS}, warps=THREADS // 32
        )
    return kernels


KERNELS = _kernels()
