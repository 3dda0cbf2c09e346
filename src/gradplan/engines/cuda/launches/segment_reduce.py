"""Launches of reductions of segments other than the sum, and of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gradplan.declaration import Descriptor
from gradplan.engines.cuda.program import I32, I64, Argument, Launch, Layout, Program
from gradplan.ops.segment_reduce import (
    SEGMENT_REDUCE,
    SEGMENT_REDUCE_BACKWARD,
    UNSORTED_SEGMENT_REDUCE,
    SegmentReduceBackwardDescriptor,
    SegmentReduceDescriptor,
    UnsortedSegmentReduceDescriptor,
)
from gradplan.reference.segment import BLOCK
from gradplan.vocabulary import Bounds, ElementKind, SegmentKind, SegmentTies

from .arena import Arena
from .reductions import (
    Members,
    Reduction,
    find_members,
    maxima,
    room,
    row_by_row,
    row_keys,
    table_of,
    tiles,
)
from .tiles import LANES
from .workspace import of_any_layout

_IDS = "segment_ids"


def segment_reduce(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    """Ids in any order are sorted first; those that ascend are their own order."""
    assert isinstance(desc, SegmentReduceDescriptor | UnsortedSegmentReduceDescriptor)
    arena = Arena()
    members, launches = find_members(
        _IDS,
        layouts[_IDS],
        desc.num_segments,
        arena,
        ascending=isinstance(desc, SegmentReduceDescriptor),
        bounds=desc.bounds is Bounds.RAISE,
    )
    if desc.num_segments and desc.embedding_dim:
        x, beside = table_of(layouts, "input"), None
        if desc.kind is SegmentKind.LOGSUMEXP:
            beside, found = maxima(x, members, arena)
            launches += found
        assert desc.fill is not None  # it became a number in the descriptor
        empty = 1.0 if desc.kind is SegmentKind.PROD else desc.fill
        reduction = Reduction(x, members, beside)
        launches += reduction.to(desc.kind.value, table_of(layouts, "output"), arena, empty)
    return Program(tuple(launches), arena.size)


# Gradients -----------------------------------------------------------------------------------


def segment_reduce_backward(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    assert isinstance(desc, SegmentReduceBackwardDescriptor)
    arena = Arena()
    bounds = desc.bounds is Bounds.RAISE
    ids, segments = layouts[_IDS], desc.num_segments
    if desc.kind is SegmentKind.PROD:
        members, launches = find_members(_IDS, ids, segments, arena, ascending=False, bounds=bounds)
        if desc.num_inputs and desc.embedding_dim:
            launches += _others(members, desc.element, layouts, arena)
        return Program(tuple(launches), arena.size)
    keys, launches = row_keys(_IDS, ids, segments, arena, bounds=bounds)
    if not desc.num_inputs or not desc.embedding_dim:
        return Program(tuple(launches), arena.size)
    kind, option = desc.kind.value, 0
    given = {name: table_of(layouts, name) for name in ("input", "output") if name in layouts}
    x, y, table = given.get("input"), given.get("output"), None
    if desc.kind is not SegmentKind.LOGSUMEXP:
        members, found = find_members(_IDS, ids, segments, arena, ascending=False, bounds=False)
        launches += found
        table = members.starts
    if x is not None and desc.kind is not SegmentKind.LOGSUMEXP:
        share = desc.ties is SegmentTies.SHARE
        kind, result = ("share", "matches") if share else ("chosen", "places")
        option = -1 if desc.ties is SegmentTies.LAST else 0
        held = desc.element.compute if share else ElementKind.I32
        tied = room(arena, held, segments, desc.embedding_dim)
        launches += Reduction(x, members, y, option).to(result, tied, arena)
        table = tied.pointer
    launches.append(
        row_by_row(
            kind,
            keys,
            table_of(layouts, "d_input"),
            segments,
            x=x,
            beside=y,
            g=table_of(layouts, "d_output"),
            table=table,
            option=option,
        )
    )
    return Program(tuple(launches), arena.size)


def _others(
    members: Members, kind: ElementKind, layouts: Mapping[str, Layout], arena: Arena
) -> list[Launch]:
    """The gradient of products."""
    x, g, dx = (table_of(layouts, name) for name in ("input", "d_output", "d_input"))
    rows, width = x.layout.shape
    segments = members.segments
    partial, launches = Reduction(x, members).blocks("prod", arena)
    before = behind = partial
    if members.huge and segments:
        before, behind = (
            room(arena, kind.compute, members.halves, width).pointer for _ in range(2)
        )
        grid, parts, shift = tiles(LANES, segments, width)
        tables = (partial, before, behind, members.starts)
        sizes = (I64(segments), I64(width), parts, shift)
        launches.append(Launch(f"segment_sides/{kind.compute.value}", grid, (*tables, *sizes)))
    kept = room(arena, kind.compute, rows, width).pointer
    outside = -(-rows // BLOCK)
    grid, parts, shift = tiles(LANES, members.halves + segments + outside, width)
    arguments: tuple[Argument, ...] = (
        *(x.pointer, g.pointer, members.keys, members.places, members.starts),
        *(before, behind, kept, dx.pointer),
        *(I32(rows), I32(members.halves), I64(segments), I64(width), parts, shift),
        *(*x.strides, *g.strides, *dx.strides),
    )
    launches.append(Launch(f"segment_others/{kind.value}", grid, arguments))
    return launches


PROGRAMS: dict[str, Callable[[Descriptor, Mapping[str, Layout]], Program]] = {
    "segment_reduce": segment_reduce,
    "unsorted_segment_reduce": segment_reduce,
    "segment_reduce_backward": segment_reduce_backward,
}
WORKSPACE: dict[str, Callable[[Descriptor], int]] = {
    op.name: of_any_layout(op, PROGRAMS[op.name])
    for op in (SEGMENT_REDUCE, UNSORTED_SEGMENT_REDUCE, SEGMENT_REDUCE_BACKWARD)
}
