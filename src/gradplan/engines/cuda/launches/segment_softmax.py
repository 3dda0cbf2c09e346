"""Launches of softmax of segments, its logarithm, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gradplan.declaration import Descriptor
from gradplan.engines.cuda.program import Layout, Program
from gradplan.ops.segment_softmax import (
    SEGMENT_SOFTMAX,
    SEGMENT_SOFTMAX_BACKWARD,
    UNSORTED_SEGMENT_SOFTMAX,
    SegmentSoftmaxBackwardDescriptor,
    SegmentSoftmaxDescriptor,
    UnsortedSegmentSoftmaxDescriptor,
)
from gradplan.vocabulary import Bounds, SoftmaxKind

from .arena import Arena
from .reductions import Reduction, find_members, maxima, room, row_by_row, row_keys, table_of
from .workspace import of_any_layout

_IDS = "segment_ids"


def segment_softmax(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    """The maximum and the sum of each segment, then each row beside those."""
    assert isinstance(desc, SegmentSoftmaxDescriptor | UnsortedSegmentSoftmaxDescriptor)
    arena = Arena()
    ids, segments, bounds = layouts[_IDS], desc.num_segments, desc.bounds is Bounds.RAISE
    ascending = isinstance(desc, SegmentSoftmaxDescriptor)
    members, launches = find_members(_IDS, ids, segments, arena, ascending=ascending, bounds=bounds)
    keys = members.keys
    if not ascending:
        keys, found = row_keys(_IDS, ids, segments, arena, bounds=False)
        launches += found
    if desc.num_inputs and desc.embedding_dim:
        x, y = (table_of(layouts, name) for name in ("input", "output"))
        top, found = maxima(x, members, arena)
        total = room(arena, desc.element.compute, segments, desc.embedding_dim)
        launches += [*found, *Reduction(x, members, top).to("weights", total, arena)]
        launches.append(
            row_by_row(desc.kind.value, keys, y, segments, x=x, beside=top, table=total.pointer)
        )
    return Program(tuple(launches), arena.size)


def segment_softmax_backward(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    assert isinstance(desc, SegmentSoftmaxBackwardDescriptor)
    arena = Arena()
    ids, segments, bounds = layouts[_IDS], desc.num_segments, desc.bounds is Bounds.RAISE
    keys, launches = row_keys(_IDS, ids, segments, arena, bounds=bounds)
    if desc.num_inputs and desc.embedding_dim:
        members, found = find_members(_IDS, ids, segments, arena, ascending=False, bounds=False)
        dy, y, dx = (table_of(layouts, name) for name in ("d_output", "output", "d_input"))
        total = room(arena, desc.element.compute, segments, desc.embedding_dim)
        weighted = desc.kind is SoftmaxKind.SOFTMAX
        products = Reduction(dy, members, y, option=int(weighted))
        launches += [*found, *products.to("products", total, arena)]
        kind = f"{desc.kind.value}_backward"
        launches.append(row_by_row(kind, keys, dx, segments, x=dy, beside=y, table=total.pointer))
    return Program(tuple(launches), arena.size)


PROGRAMS: dict[str, Callable[[Descriptor, Mapping[str, Layout]], Program]] = {
    "segment_softmax": segment_softmax,
    "unsorted_segment_softmax": segment_softmax,
    "segment_softmax_backward": segment_softmax_backward,
}
WORKSPACE: dict[str, Callable[[Descriptor], int]] = {
    op.name: of_any_layout(op, PROGRAMS[op.name])
    for op in (SEGMENT_SOFTMAX, UNSORTED_SEGMENT_SOFTMAX, SEGMENT_SOFTMAX_BACKWARD)
}
