"""Elements by index along an axis, for every layout; and the keys that sums by index are sorted by.

Tensors are seen as tiles of one index space, in which those that have no axis (indices that all
lines share) or are chosen from have stride 0 along it. Elements are copied as words of 2, 4 or 8
bytes, never as floats, so payloads of NaN stay.

A key is an index with as many before it as the lines before have places, so the members of all
lines are sorted and summed as the rows of one table of a column (radix.py, segment.py). What lies
otherwise is copied on its way there and back.

Bytes: `pick` reads indices and elements once and writes each element once, the least possible; a
key is 4 bytes, and a copy reads and writes an element. PTX instructions per element, executed:
`pick` 59, `copy` 39, `index_keys` 121.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.engines.cuda.launches.errors import OUTSIDE
from gradplan.engines.cuda.launches.tiles import FIRSTS, TILE
from gradplan.vocabulary import INDICES

from .binary import at, tile
from .embedding import WORDS
from .indices import NONE
from .kernel import Kernel
from .types import POINTERS, signature

OUTSIDE_WORD = tl.constexpr(OUTSIDE)
OUTER = tl.constexpr(3)


@triton.jit
def pick(
    x_ptr, index_ptr, out_ptr, rows, columns, parts, e1, e2, count, step,
    x0, x1, x2, x3, i0, i1, i2, i3, o0, o1, o2, o3, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Zeros where an index is outside of [0, count). step: of x along the axis."""
    r, c, ok = tile(rows, columns, parts, R, C)
    index = tl.load(index_ptr + at(r, c, e1, e2, i0, i1, i2, i3, OUTER), mask=ok, other=-1)
    index = index.to(tl.int64)
    inside = (index >= 0) & (index < count)
    x = x_ptr + at(r, c, e1, e2, x0, x1, x2, x3, OUTER) + index * step
    v = tl.load(x, mask=ok & inside, other=0)
    tl.store(out_ptr + at(r, c, e1, e2, o0, o1, o2, o3, OUTER), v, mask=ok)


@triton.jit
def copy(
    x_ptr, y_ptr, rows, columns, parts, e1, e2,
    x0, x1, x2, x3, y0, y1, y2, y3, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    r, c, ok = tile(rows, columns, parts, R, C)
    v = tl.load(x_ptr + at(r, c, e1, e2, x0, x1, x2, x3, OUTER), mask=ok, other=0)
    tl.store(y_ptr + at(r, c, e1, e2, y0, y1, y2, y3, OUTER), v, mask=ok)


@triton.jit
def index_keys(
    index_ptr, key_ptr, first_ptr, rows, columns, parts, e1, e2, count, keyed, nowhere, origin,
    i0, i1, i2, i3, k0, k1, k2, k3, b0, b1, b2, b3, p0, p1, p2, p3,
    R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Keys, if `keyed`: an index and what is before its line (b), at k; `nowhere` if it is outside.

    first: per program the first position of an index that is outside, in the order of the tensor
    of indices (origin and p), and its value."""
    r, c, ok = tile(rows, columns, parts, R, C)
    v = tl.load(index_ptr + at(r, c, e1, e2, i0, i1, i2, i3, OUTER), mask=ok, other=0)
    v = v.to(tl.int64)
    outside = (v < 0) | (v >= count)
    key = tl.where(outside, nowhere, v + at(r, c, e1, e2, b0, b1, b2, b3, OUTER))
    to = key_ptr + at(r, c, e1, e2, k0, k1, k2, k3, OUTER)
    tl.store(to, key.to(tl.int32), mask=ok & (keyed != 0))
    position = origin + at(r, c, e1, e2, p0, p1, p2, p3, OUTER)
    bad = ok & outside
    first = tl.min(tl.min(tl.where(bad, position, NONE), 1), 0)
    value = tl.min(tl.min(tl.where(bad & (position == first), v, NONE), 1), 0)
    pid = tl.program_id(0).to(tl.int64)
    tl.store(first_ptr + 2 * pid, first)
    tl.store(first_ptr + 2 * pid + 1, value)


@triton.jit
def report_first(first_ptr, error_ptr, programs, BLOCK: tl.constexpr):
    """The first of all, unless the words have an earlier one: of another part of the tensor."""
    least = tl.full([BLOCK], NONE, tl.int64)
    value = tl.full([BLOCK], NONE, tl.int64)
    for i in range(0, programs, BLOCK):
        k = i + tl.arange(0, BLOCK)
        place = tl.load(first_ptr + 2 * k, mask=k < programs, other=NONE)
        v = tl.load(first_ptr + 2 * k + 1, mask=k < programs, other=NONE)
        value = tl.where(place < least, v, value)
        least = tl.minimum(place, least)
    first = tl.min(least, 0)
    value_there = tl.min(tl.where(least == first, value, NONE), 0)
    held = tl.load(error_ptr + OUTSIDE_WORD)
    if first != NONE:
        if (held == 0) | (first + 1 < held):
            tl.store(error_ptr + OUTSIDE_WORD, first + 1)
            tl.store(error_ptr + OUTSIDE_WORD + 1, value_there)


def _kernels() -> dict[str, Kernel]:
    numbers = dict.fromkeys(("rows", "parts", "e1", "e2", "keyed", "programs"), "i32")
    pointers = {"key_ptr": "*i32", "first_ptr": "*i64", "error_ptr": "*i64"}
    tiles = {"R": TILE[0], "C": TILE[1]}
    kernels = {
        "report_first": Kernel(
            report_first, signature(report_first, numbers | pointers), {"BLOCK": FIRSTS}
        )
    }
    for size, word in WORDS.items():
        words = numbers | dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), word)
        kernels[f"copy/{8 * size}"] = Kernel(copy, signature(copy, words), tiles)
        for index in INDICES:
            types = words | {"index_ptr": POINTERS[index]}
            key = f"pick/{8 * size}/{index.value}"
            kernels[key] = Kernel(pick, signature(pick, types), tiles)
    for index in INDICES:
        types = numbers | pointers | {"index_ptr": POINTERS[index]}
        kernels[f"index_keys/{index.value}"] = Kernel(
            index_keys, signature(index_keys, types), tiles
        )
    return kernels


KERNELS = _kernels()
