"""Launches of segment sums and their gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gradplan.declaration import Descriptor
from gradplan.engines.cuda.program import Launch, Layout, Program
from gradplan.ops.segment import (
    SEGMENT_SUM,
    SEGMENT_SUM_BACKWARD,
    UNSORTED_SEGMENT_SUM,
    SegmentSumBackwardDescriptor,
    SegmentSumDescriptor,
    UnsortedSegmentSumDescriptor,
)
from gradplan.vocabulary import Bounds

from .arena import Arena
from .gather import gather
from .indices import NOTHING, ascending_check, bounds_check
from .sums import refuse_large, sums, sums_in_any_order
from .workspace import of_any_layout

_IDS = "segment_ids"
_SUMS = ("input", "output")


def segment_sum(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    """Ascending ids are their own order: nothing is sorted."""
    assert isinstance(desc, SegmentSumDescriptor)
    x, ids, y = (layouts[name] for name in ("input", _IDS, "output"))
    refuse_large(desc.num_inputs, desc.num_segments)
    arena = Arena()
    raises = desc.bounds is Bounds.RAISE
    keys, launches = ascending_check(_IDS, ids, desc.num_segments, arena, bounds=raises)
    launches += sums(_SUMS, x, y, keys, None, arena)
    return Program(tuple(launches), arena.size)


def unsorted_segment_sum(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    assert isinstance(desc, UnsortedSegmentSumDescriptor)
    x, ids, y = (layouts[name] for name in ("input", _IDS, "output"))
    arena = Arena()
    launches: list[Launch] = []
    if desc.bounds is Bounds.RAISE:
        launches += bounds_check(_IDS, ids, desc.num_segments, arena)
    launches += sums_in_any_order(_SUMS, _IDS, x, ids, y, NOTHING, arena)
    return Program(tuple(launches), arena.size)


def segment_sum_backward(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    assert isinstance(desc, SegmentSumBackwardDescriptor)
    table, ids, out = (layouts[name] for name in ("d_output", _IDS, "d_input"))
    arena = Arena()
    launches: list[Launch] = []
    if desc.bounds is Bounds.RAISE:
        launches += bounds_check(_IDS, ids, desc.num_segments, arena)
    launches += gather(("d_output", _IDS, "d_input"), table, ids, out, NOTHING)
    return Program(tuple(launches), arena.size)


PROGRAMS: dict[str, Callable[[Descriptor, Mapping[str, Layout]], Program]] = {
    "segment_sum": segment_sum,
    "unsorted_segment_sum": unsorted_segment_sum,
    "segment_sum_backward": segment_sum_backward,
}
WORKSPACE: dict[str, Callable[[Descriptor], int]] = {
    op.name: of_any_layout(op, PROGRAMS[op.name])
    for op in (SEGMENT_SUM, UNSORTED_SEGMENT_SUM, SEGMENT_SUM_BACKWARD)
}
