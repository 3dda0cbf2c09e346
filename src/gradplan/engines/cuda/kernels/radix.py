"""A stable sort of ids by passes of 4 bits, least significant first; integers only.

A pass is: counts of each digit in each tile of 1024 keys; the exclusive scan of all counts, digit
by digit and tile by tile; and the move of each key to where its digit's count begins, plus its rank
among the tile's keys of that digit. Ranks are sums over a tile, and sums of integers are the same
in any order. The 16 counters of a tile have 16 bits each, four to a word, so that four sums do.

The first pass reads the ids themselves. What takes no part (outside of the range, padding) gets
the key behind the last segment. Bytes per key and pass: 4 + 8 read, 8 written, of 16 at least in a
sort of this kind; about 60 PTX instructions to count and 145 to move a key (325 where ids have
gaps). No more keys than a tile has are sorted by one program, in one launch.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.engines.cuda.launches.tiles import DIGIT, SCANNED, SORTED
from gradplan.vocabulary import INDICES

from .kernel import Kernel
from .types import POINTERS, signature

BITS = tl.constexpr(DIGIT)
DIGITS = tl.constexpr(2**DIGIT)
FIELD = tl.constexpr(16)  # bits of a counter: SORTED is less than 2^16


@triton.jit
def keys_of_tile(
    key_ptr, start, live, step, count, skip,
    FIRST: tl.constexpr, UNIT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """UNIT: step is 1. Neighbours are then in one lane, which makes ranks cheap."""
    i = tl.arange(0, TILE)
    if FIRST:
        at = start + i if UNIT else (start + i) * step
        v = tl.load(key_ptr + at, mask=live, other=-1).to(tl.int64)
        takes_part = (v >= 0) & (v < count) & (v != skip)
        return tl.where(takes_part, v, count).to(tl.int32)
    else:
        return tl.load(key_ptr + start + i, mask=live, other=0)


@triton.jit
def counter(digit, live, WORD: tl.constexpr):
    """A 1 in the field of the digit, if that is in this word of four."""
    one = tl.full(digit.shape, 1, tl.int64) << ((digit & 3) * FIELD).to(tl.int64)
    return tl.where(live & ((digit >> 2) == WORD), one, tl.zeros_like(one))


@triton.jit
def radix_count(
    key_ptr, count_ptr, n, tiles, shift, step, count, skip,
    FIRST: tl.constexpr, UNIT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """count_ptr: [digits, tiles]."""
    t = tl.program_id(0)
    start = t.to(tl.int64) * TILE
    live = tl.arange(0, TILE) < n - start
    key = keys_of_tile(key_ptr, start, live, step, count, skip, FIRST, UNIT, TILE)
    digit = (key >> shift) & (DIGITS - 1)
    for word in tl.static_range(0, DIGITS // 4):
        total = tl.sum(counter(digit, live, word), 0)
        for k in tl.static_range(0, 4):
            some = ((total >> (FIELD * k)) & 0xFFFF).to(tl.int32)
            tl.store(count_ptr + (4 * word + k) * tiles.to(tl.int64) + t, some)


@triton.jit
def radix_move(
    key_ptr, pos_ptr, base_ptr, key_out_ptr, pos_out_ptr, n, tiles, shift, step, count, skip,
    FIRST: tl.constexpr, UNIT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0)
    start = t.to(tl.int64) * TILE
    i = tl.arange(0, TILE)
    live = i < n - start
    key = keys_of_tile(key_ptr, start, live, step, count, skip, FIRST, UNIT, TILE)
    if FIRST:
        pos = (start + i).to(tl.int32)
    else:
        pos = tl.load(pos_ptr + start + i, mask=live, other=0)
    digit = (key >> shift) & (DIGITS - 1)
    upto = tl.zeros([TILE], tl.int64)
    for word in tl.static_range(0, DIGITS // 4):
        here = tl.cumsum(counter(digit, live, word), 0)
        upto = tl.where((digit >> 2) == word, here, upto)
    rank = ((upto >> ((digit & 3) * FIELD).to(tl.int64)) & 0xFFFF).to(tl.int32) - 1
    base = tl.load(base_ptr + digit.to(tl.int64) * tiles + t, mask=live, other=0)
    tl.store(key_out_ptr + base + rank, key, mask=live)
    tl.store(pos_out_ptr + base + rank, pos, mask=live)


@triton.jit
def radix_small(id_ptr, key_ptr, pos_ptr, n, passes, step, count, skip, TILE: tl.constexpr):
    """The whole sort by one program, of no more keys than a tile has."""
    i = tl.arange(0, TILE)
    live = i < n
    start = tl.full([], 0, tl.int64)
    key = keys_of_tile(id_ptr, start, live, step, count, skip, True, False, TILE)
    tl.store(key_ptr + i, key, mask=live)
    tl.store(pos_ptr + i, i, mask=live)
    for k in range(passes):
        tl.debug_barrier()
        key = tl.load(key_ptr + i, mask=live, other=0)
        pos = tl.load(pos_ptr + i, mask=live, other=0)
        tl.debug_barrier()
        digit = (key >> (k * BITS)) & (DIGITS - 1)
        upto = tl.zeros([TILE], tl.int64)
        before = tl.zeros([], tl.int64)
        for word in tl.static_range(0, DIGITS // 4):
            ones = counter(digit, live, word)
            total = tl.sum(ones, 0)
            # A field of the product is the sum of the fields below it.
            lower = total * 0x0001000100010000 + before * 0x0001000100010001
            upto = tl.where((digit >> 2) == word, tl.cumsum(ones, 0) + lower, upto)
            before += (total * 0x0001000100010001) >> (3 * FIELD)
        to = ((upto >> ((digit & 3) * FIELD).to(tl.int64)) & 0xFFFF).to(tl.int32) - 1
        tl.store(key_ptr + to, key, mask=live)
        tl.store(pos_ptr + to, pos, mask=live)


@triton.jit
def scan_totals(count_ptr, total_ptr, n, BLOCK: tl.constexpr):
    """The sum of each block of counts."""
    pid = tl.program_id(0)
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(total_ptr + pid, tl.sum(tl.load(count_ptr + i, mask=i < n, other=0), 0))


@triton.jit
def scan_serial(count_ptr, n, BLOCK: tl.constexpr):
    """The exclusive scan in place, by one program."""
    carry = tl.full([], 0, tl.int32)
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        v = tl.load(count_ptr + i, mask=i < n, other=0)
        tl.store(count_ptr + i, carry + tl.cumsum(v, 0) - v, mask=i < n)
        carry += tl.sum(v, 0)


@triton.jit
def scan_blocks(count_ptr, base_ptr, n, BLOCK: tl.constexpr):
    """The exclusive scan in place; base: of the blocks before."""
    pid = tl.program_id(0)
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(count_ptr + i, mask=i < n, other=0)
    tl.store(count_ptr + i, tl.load(base_ptr + pid) + tl.cumsum(v, 0) - v, mask=i < n)


def _kernels() -> dict[str, Kernel]:
    names = ("pos_ptr", "count_ptr", "total_ptr", "base_ptr", "key_out_ptr", "pos_out_ptr")
    types = dict.fromkeys(names, "*i32") | dict.fromkeys(("tiles", "shift"), "i32")
    kernels = {}
    for function in (scan_totals, scan_blocks):
        kernels[function.__name__] = Kernel(
            function, signature(function, types), {"BLOCK": SCANNED}, warps=8
        )
    kernels["scan_serial"] = Kernel(
        scan_serial, signature(scan_serial, {**types, "n": "i32"}), {"BLOCK": SCANNED}, warps=8
    )
    for index in INDICES:
        small = {"id_ptr": POINTERS[index], "key_ptr": "*i32", "n": "i32", "passes": "i32"}
        kernels[f"radix_small/{index.value}"] = Kernel(
            radix_small,
            signature(radix_small, types | small),
            {"TILE": SORTED},
            aligned=("key_ptr", "pos_ptr"),
        )
    forms = {"next": ("*i32", False, True)}
    for index in INDICES:
        forms[index.value] = (POINTERS[index], True, True)
        forms[f"{index.value}/strided"] = (POINTERS[index], True, False)
    for function in (radix_count, radix_move):
        for form, (pointer, first, unit) in forms.items():
            kernels[f"{function.__name__}/{form}"] = Kernel(
                function,
                signature(function, {**types, "key_ptr": pointer}),
                {"FIRST": first, "UNIT": unit, "TILE": SORTED},
                aligned=("key_ptr",) if unit else (),
            )
    return kernels


KERNELS = _kernels()
