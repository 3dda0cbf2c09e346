"""Reductions of segments other than the sum, softmax of segments, and their gradients.

Two kernels reduce, whatever is reduced (members.py): the blocks of huge segments, and segments from
their members or blocks. What a reduction needs of another one it finds in a table with a row for
each segment: the maximum for a log-sum-exp, the forward's result for the matches of an extreme.

A third goes through all rows, each beside its segment's rows of such tables: gradients and softmax
are an expression of those. Rows of no segment become zeros there.

The gradient of a product takes those before and behind a member without dividing: along a block and
back, with what is behind a member in the workspace meanwhile, and the products of whole blocks of
huge segments along the segment and back before that.

Bytes: reductions read each row once, "product" two of them; the rest reads what its expression
names once, and writes each row once. Gradients of products: each row twice, and a row of the
compute type written and read. PTX instructions per member and column, f32: 19 (mean) to 58 (the sum
of a log-sum-exp) in reductions, 6 to 10 in the vector form; 57 (mean) to 101 (softmax) for a row's
expression, and 84 for the gradient of a product.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.engines.cuda.launches.tiles import (
    LANES,
    REDUCTIONS,
    RESULTS,
    ROW_LANES,
    ROWWISE,
    TABLES,
    UNDERWAY,
    VECTOR_LINES,
    vector_columns,
)
from gradplan.vocabulary import FLOATS

from .arithmetic import divide, down, exp, log, multiply, up
from .kernel import Kernel
from .members import (
    SLOT,
    across_rows,
    block_count,
    block_of,
    half_of,
    one,
    row_of,
    same,
    serial,
    tile,
    weight,
    with_blocks,
)
from .recurrence_lines import difference
from .types import POINTERS, scalar, signature


@triton.jit
def segment_extents(s, start_ptr, segments):
    """The first sorted position of each segment, and the number of its members."""
    begin = tl.load(start_ptr + s, mask=s < segments, other=0)
    return begin, tl.load(start_ptr + s + 1, mask=s < segments, other=0) - begin


@triton.jit
def own_of(w_ptr, s, live, c, w_row, w_step, UNIT: tl.constexpr, VALUE: tl.constexpr):
    """What a table has of each line's segment, if members are looked at beside that."""
    if VALUE == "itself" or VALUE == "product":
        return 0.0
    else:
        at = w_ptr + (s * w_row)[:, None] + across_rows(c, w_step, UNIT)
        return up(tl.load(at, mask=live, other=0))


@triton.jit
def segment_blocks(
    x_ptr, w_ptr, key_ptr, pos_ptr, start_ptr, part_ptr,
    n, segments, width, parts, shift, ascending, option, x_row, x_step, w_row, w_step,
    VALUE: tl.constexpr, OP: tl.constexpr,
    UNIT: tl.constexpr, S: tl.constexpr, C: tl.constexpr, U: tl.constexpr,
):  # fmt: skip
    """The blocks of segments with more than 256 members."""
    half, c = tile(width, parts, shift, S, C)
    s, first, count = block_of(half, key_ptr, start_ptr, n, segments)
    live = (count > 0)[:, None] & (c < width)
    own = own_of(w_ptr, s, live, c, w_row, w_step, UNIT, VALUE)
    total = serial(
        x_ptr, w_ptr, own, pos_ptr, first, count, c, width, x_row, x_step, w_row, w_step,
        ascending, option, UNIT, U, VALUE, OP,
    )  # fmt: skip
    tl.store(part_ptr + (half * width)[:, None] + c, total, mask=live)


@triton.jit
def segment_results(
    x_ptr, w_ptr, pos_ptr, start_ptr, part_ptr, y_ptr,
    segments, width, parts, shift, ascending, option, x_row, x_step, w_row, w_step,
    y_row, y_step, fill,
    VALUE: tl.constexpr, OP: tl.constexpr, RESULT: tl.constexpr,
    UNIT: tl.constexpr, S: tl.constexpr, C: tl.constexpr, U: tl.constexpr,
):  # fmt: skip
    """Small segments from their members, huge ones from their blocks. Empty ones are `fill`."""
    s, c = tile(width, parts, shift, S, C)
    begin, members = segment_extents(s, start_ptr, segments)
    live = (s < segments)[:, None] & (c < width)
    own = own_of(w_ptr, s, live, c, w_row, w_step, UNIT, VALUE)
    few = tl.where(members > SLOT, 0, members)
    total = serial(
        x_ptr, w_ptr, own, pos_ptr, begin, few, c, width, x_row, x_step, w_row, w_step,
        ascending, option, UNIT, U, VALUE, OP,
    )  # fmt: skip
    total = with_blocks(total, part_ptr, begin, block_count(members), c, width, U, OP)
    to = y_ptr + (s * y_row)[:, None] + across_rows(c, y_step, UNIT)
    if RESULT == "places":
        tl.store(to, total, mask=live)
    else:
        if RESULT == "mean":
            total = divide(total, tl.broadcast_to(members.to(total.dtype)[:, None], total.shape))
        elif RESULT == "logsumexp":
            total = own + log(total)
        total = tl.where((members > 0)[:, None], total, fill)
        tl.store(to, down(total, y_ptr.dtype.element_ty), mask=live)


# Row by row -----------------------------------------------------------------------------------


@triton.jit
def segment_rows(
    x_ptr, w_ptr, g_ptr, table_ptr, key_ptr, y_ptr,
    rows, segments, width, parts, shift, option, x_row, x_step, w_row, w_step,
    g_row, g_step, y_row, y_step,
    KIND: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """x: of rows. w: of rows for gradients of softmax, else of segments; g and table: of segments.

    mean                 g / the number of members, of which table has the beginnings
    share                g / table, where x is w
    chosen               g, where x is w and the row (xor option) is the table's
    logsumexp            g exp(x - w)
    softmax              exp(x - w) / table
    log_softmax          x - w - log(table)
    softmax_backward     w (x - table)
    log_softmax_backward x - exp(w) table
    """
    r, c = tile(width, parts, shift, S, 0)
    s = tl.load(key_ptr + r, mask=r < rows, other=-1).to(tl.int64)
    inside = ((s >= 0) & (s < segments))[:, None] & (c < width)
    if KIND != "mean":
        x = up(tl.load(x_ptr + (r * x_row)[:, None] + c * x_step, mask=inside, other=0))
        of_rows: tl.constexpr = KIND == "softmax_backward" or KIND == "log_softmax_backward"
        w_at = r if of_rows else s
        w = up(tl.load(w_ptr + (w_at * w_row)[:, None] + c * w_step, mask=inside, other=0))
    if KIND == "mean" or KIND == "share" or KIND == "chosen" or KIND == "logsumexp":
        g = up(tl.load(g_ptr + (s * g_row)[:, None] + c * g_step, mask=inside, other=0))
    if KIND != "mean" and KIND != "logsumexp":
        t = tl.load(table_ptr + (s * width)[:, None] + c, mask=inside, other=0)
    if KIND == "mean":
        _, members = segment_extents(tl.where(s >= 0, s, segments), table_ptr, segments)
        y = divide(g, tl.broadcast_to(members.to(g.dtype)[:, None], g.shape))
    elif KIND == "share":
        y = tl.where(same(x, w), divide(g, t), tl.zeros_like(g))
    elif KIND == "chosen":
        here = same(x, w) & ((r.to(tl.int32) ^ option)[:, None] == t)
        y = tl.where(here, g, tl.zeros_like(g))
    elif KIND == "logsumexp":
        y = tl.where(x == float("-inf"), tl.zeros_like(x), g * exp(difference(x, w)))
    elif KIND == "softmax":
        y = tl.where(t == 0.0, tl.zeros_like(x), divide(weight(x, w), t))
    elif KIND == "log_softmax":
        lowest = tl.full(x.shape, float("-inf"), x.dtype)
        y = tl.where(t == 0.0, lowest, difference(x, w) - log(t))
    elif KIND == "softmax_backward":
        y = w * (x - t)
    else:
        tl.static_assert(KIND == "log_softmax_backward")
        y = x - exp(w) * t
    y = tl.where(inside, y, tl.zeros_like(y))
    to = y_ptr + (r * y_row)[:, None] + c * y_step
    tl.store(to, down(y, y_ptr.dtype.element_ty), mask=(r < rows)[:, None] & (c < width))


# The gradient of a product --------------------------------------------------------------------


@triton.jit
def segment_sides(
    part_ptr, before_ptr, behind_ptr, start_ptr, segments, width, parts, shift,
    S: tl.constexpr, U: tl.constexpr,
):  # fmt: skip
    """For each block of a huge segment the products of the blocks before it, and behind it."""
    s, c = tile(width, parts, shift, S, 0)
    begin, members = segment_extents(s, start_ptr, segments)
    blocks = block_count(members)
    side(part_ptr, before_ptr, begin, blocks, c, width, U, False)
    side(part_ptr, behind_ptr, begin, blocks, c, width, U, True)


@triton.jit
def side(part_ptr, out_ptr, begin, blocks, c, width, U: tl.constexpr, REVERSE: tl.constexpr):
    across = c < width
    total = tl.full((begin.shape[0], c.shape[1]), 1.0, part_ptr.dtype.element_ty)
    for k in range(0, tl.max(blocks, 0), U):
        for u in tl.static_range(0, U):
            b = blocks - 1 - (k + u) if REVERSE else tl.zeros_like(blocks) + (k + u)
            live = (k + u < blocks)[:, None] & across
            at = (half_of(begin, b) * width)[:, None] + c
            v = tl.load(part_ptr + at, mask=live, other=1.0)
            if u == 0:
                found = ((v, at, live),)
            else:
                found = found + ((v, at, live),)
        for u in tl.static_range(0, U):
            tl.store(out_ptr + found[u][1], total, mask=found[u][2])
            total = multiply(total, found[u][0])


@triton.jit
def segment_others(
    x_ptr, g_ptr, key_ptr, pos_ptr, start_ptr, before_ptr, behind_ptr, kept_ptr, y_ptr,
    n, halves, segments, width, parts, shift, x_row, x_step, g_row, g_step, y_row, y_step,
    S: tl.constexpr, U: tl.constexpr,
):  # fmt: skip
    """The product of the others for each member, times g of its segment.

    Lines are the blocks of huge segments, then all segments, of which small ones are a block, and
    then the rows that belong to no segment (they come last), 256 in each.
    """
    line, c = tile(width, parts, shift, S, 0)
    across = c < width
    huge = line < halves
    s, first, count = block_of(tl.where(huge, line, halves), key_ptr, start_ptr, n, segments)
    own = tl.where(huge, s, line - halves)
    begin, members = segment_extents(tl.where(huge, segments, own), start_ptr, segments)
    few = tl.where(members > SLOT, 0, members)
    rest = tl.load(start_ptr + segments) + (own - segments) * SLOT
    alone = own >= segments
    left = tl.minimum(tl.maximum(n - rest, 0), SLOT).to(tl.int32)
    first = tl.where(huge, first, tl.where(alone, rest.to(tl.int32), begin))
    count = tl.where(huge, count, tl.where(alone, left, few))
    belongs = (count > 0)[:, None] & across & (alone == 0)[:, None]
    outer = (line * width)[:, None] + c
    split = belongs & huge[:, None]
    before = tl.load(before_ptr + outer, mask=split, other=1.0)
    behind = tl.load(behind_ptr + outer, mask=split, other=1.0)
    g = up(tl.load(g_ptr + (own * g_row)[:, None] + c * g_step, mask=belongs, other=0))
    most = tl.max(count, 0)
    total = tl.full(before.shape, 1.0, before.dtype)
    for k in range(0, most, U):
        for u in tl.static_range(0, U):
            at = first + (count - 1 - (k + u))
            ok = k + u < count
            live = belongs & ok[:, None]
            row = row_of(pos_ptr, at, ok, 0)
            x = tl.load(x_ptr + (row * x_row)[:, None] + c * x_step, mask=live, other=one(x_ptr))
            keep = (at.to(tl.int64) * width)[:, None] + c
            if u == 0:
                found = ((up(x), keep, live),)
            else:
                found = found + ((up(x), keep, live),)
        for u in tl.static_range(0, U):
            tl.store(kept_ptr + found[u][1], total, mask=found[u][2])
            total = multiply(found[u][0], total)
    tl.debug_barrier()
    total = tl.full(before.shape, 1.0, before.dtype)
    for k in range(0, most, U):
        for u in tl.static_range(0, U):
            at = first + (k + u)
            ok = k + u < count
            live = belongs & ok[:, None]
            row = row_of(pos_ptr, at, ok, 0)
            x = tl.load(x_ptr + (row * x_row)[:, None] + c * x_step, mask=live, other=one(x_ptr))
            q = tl.load(kept_ptr + (at.to(tl.int64) * width)[:, None] + c, mask=live, other=1.0)
            to = (row * y_row)[:, None] + c * y_step
            if u == 0:
                taken = ((up(x), q, to, ok[:, None] & across),)
            else:
                taken = taken + ((up(x), q, to, ok[:, None] & across),)
        for u in tl.static_range(0, U):
            others = multiply(multiply(before, total), multiply(taken[u][1], behind))
            y = tl.where(belongs, multiply(g, others), tl.zeros_like(g))
            tl.store(y_ptr + taken[u][2], down(y, y_ptr.dtype.element_ty), mask=taken[u][3])
            total = multiply(total, taken[u][0])


def _kernels() -> dict[str, Kernel]:
    whole = dict.fromkeys(("key_ptr", "pos_ptr", "start_ptr"), "*i32")
    whole |= dict.fromkeys(("n", "parts", "shift", "ascending", "option", "halves"), "i32")
    kernels = {}
    for kind in FLOATS:
        element, compute = POINTERS[kind], POINTERS[kind.compute]
        types = dict.fromkeys(("x_ptr", "w_ptr", "g_ptr", "y_ptr"), element) | whole
        outer = dict.fromkeys(("part_ptr", "before_ptr", "behind_ptr", "kept_ptr"), compute)
        forms = {"any": (LANES, 0), "vector": (VECTOR_LINES, vector_columns(kind.itemsize))}
        for name, (value, op) in REDUCTIONS.items():
            part = "*i32" if op == "least" else compute
            for form, (lines, columns) in forms.items():
                if form == "vector" and value != "itself":
                    continue
                constants = {"VALUE": value, "OP": op, "UNIT": form == "vector"}
                constants |= {"S": lines, "C": columns, "U": UNDERWAY}
                kernels[f"segment_blocks/{name}/{kind.value}/{form}"] = Kernel(
                    segment_blocks,
                    signature(segment_blocks, types | {"part_ptr": part}),
                    constants,
                    ("x_ptr", "part_ptr", "width", "x_row") if form == "vector" else (),
                )
                for result in (r for r, reduction in RESULTS.items() if reduction == name):
                    y = part if result in TABLES else element
                    given = {"part_ptr": part, "y_ptr": y, "fill": scalar(kind)}
                    kernels[f"segment_results/{result}/{kind.value}/{form}"] = Kernel(
                        segment_results,
                        signature(segment_results, types | given),
                        constants | {"RESULT": result},
                        ("x_ptr", "part_ptr", "y_ptr", "width", "x_row", "y_row")
                        if form == "vector"
                        else (),
                    )
        for row, table in ROWWISE.items():
            kernels[f"segment_rows/{row}/{kind.value}"] = Kernel(
                segment_rows,
                signature(segment_rows, types | {"table_ptr": table or compute}),
                {"KIND": row, "S": ROW_LANES},
            )
        kernels[f"segment_others/{kind.value}"] = Kernel(
            segment_others,
            signature(segment_others, types | outer),
            {"S": LANES, "U": UNDERWAY // 2},
        )
        if kind is kind.compute:
            kernels[f"segment_sides/{kind.value}"] = Kernel(
                segment_sides, signature(segment_sides, types | outer), {"S": LANES, "U": UNDERWAY}
            )
    return kernels


KERNELS = _kernels()
