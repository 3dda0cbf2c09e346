"""Launches of embedding and the gradient of its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gradplan.declaration import Descriptor
from gradplan.engines.cuda.program import Launch, Layout, Program
from gradplan.ops.embedding import EmbeddingBackwardDescriptor, EmbeddingDescriptor
from gradplan.vocabulary import Bounds

from .arena import Arena
from .gather import gather
from .indices import NOTHING, bounds_check


def _skip(desc: EmbeddingDescriptor | EmbeddingBackwardDescriptor) -> int:
    return NOTHING if desc.padding_idx is None else desc.padding_idx


def embedding(desc: Descriptor, layouts: Mapping[str, Layout]) -> Program:
    assert isinstance(desc, EmbeddingDescriptor)
    table, ids, out = (layouts[name] for name in ("weight", "indices", "output"))
    arena = Arena()
    launches: list[Launch] = []
    if desc.bounds is Bounds.RAISE and desc.num_indices:
        launches += bounds_check("indices", ids, desc.num_embeddings, arena)
    launches += gather(("weight", "indices", "output"), table, ids, out, _skip(desc))
    return Program(tuple(launches), arena.size)


PROGRAMS: dict[str, Callable[[Descriptor, Mapping[str, Layout]], Program]] = {
    "embedding": embedding,
}
