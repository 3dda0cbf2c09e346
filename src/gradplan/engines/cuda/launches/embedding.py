"""Launches of embedding and the gradient of its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gradplan.declaration import Descriptor
from gradplan.engines.cuda.program import Launch, Layout, Program
from gradplan.ops.embedding import (
    EMBEDDING,
    EMBEDDING_BACKWARD,
    EmbeddingBackwardDescriptor,
    EmbeddingDescriptor,
)
from gradplan.vocabulary import Bounds

from .arena import Arena
from .gather import gather
from .indices import NOTHING, bounds_check
from .sums import sums_in_any_order
from .workspace import of_any_layout

_IDS = "indices"


def _skip(desc: EmbeddingDescriptor | EmbeddingBackwardDescriptor) -> int:
    return NOTHING if desc.padding_idx is None else desc.padding_idx


def embedding(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    assert isinstance(desc, EmbeddingDescriptor)
    table, ids, out = (layouts[name] for name in ("weight", _IDS, "output"))
    arena = Arena()
    launches: list[Launch] = []
    if desc.bounds is Bounds.RAISE:
        launches += bounds_check(_IDS, ids, desc.num_embeddings, arena)
    launches += gather(("weight", _IDS, "output"), table, ids, out, _skip(desc))
    return Program(tuple(launches), arena.size)


def embedding_backward(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    assert isinstance(desc, EmbeddingBackwardDescriptor)
    x, ids, y = (layouts[name] for name in ("dout", _IDS, "dweight"))
    arena = Arena()
    launches: list[Launch] = []
    if desc.bounds is Bounds.RAISE:
        launches += bounds_check(_IDS, ids, desc.num_embeddings, arena)
    launches += sums_in_any_order(
        ("dout", "dweight"), _IDS, x, ids, y, _skip(desc), arena, accumulate=desc.accumulate
    )
    return Program(tuple(launches), arena.size)


PROGRAMS: dict[str, Callable[[Descriptor, Mapping[str, Layout]], Program]] = {
    "embedding": embedding,
    "embedding_backward": embedding_backward,
}
WORKSPACE: dict[str, Callable[[Descriptor], int]] = {
    op.name: of_any_layout(op, PROGRAMS[op.name]) for op in (EMBEDDING, EMBEDDING_BACKWARD)
}
