"""Launches that copy rows by index."""

from __future__ import annotations

from gradplan.engines.cuda.program import I32, I64, Launch, Layout, Pointer

from .choices import chosen
from .layouts import element, itemsize
from .tiles import GATHERED, gather_form

_LARGEST = 8  # bytes of a word
_VECTOR = 16  # words of 4 bytes that rows of the vector form come in multiples of


def _word(tables: tuple[Layout, Layout]) -> int:
    """Bytes of the largest word that rows of both tensors are made of."""
    size = itemsize(tables[0].dtype)
    width = tables[0].shape[1]
    while size < _LARGEST and all(_is_made_of(2 * size, table, width) for table in tables):
        size *= 2
    return size


def _is_made_of(word: int, table: Layout, width: int) -> bool:
    size = itemsize(table.dtype)
    unit = table.strides[1] == 1 or width == 1
    sizes = (width * size, _row_stride(table) * size)
    return unit and table.aligned and all(s % word == 0 for s in sizes)


def _row_stride(table: Layout) -> int:
    """0 for a single row, whose stride may be anything."""
    return table.strides[0] if table.shape[0] > 1 else 0


def gather(
    names: tuple[str, str, str], table: Layout, ids: Layout, out: Layout, skip: int
) -> tuple[Launch, ...]:
    """Row i of `out` is row ids[i] of `table`, or zeros; the names are in this order."""
    rows, width = out.shape
    if not rows or not width:
        return ()
    both = (table, out)
    size = itemsize(table.dtype)
    word = _word(both)
    words = width * size // word
    form = gather_form(words)
    vector = form == "wide" and chosen("gather.vectors")
    if vector and all(_is_made_of(4 * _VECTOR, each, width) for each in both):
        word, form = 4, "vector"
        words = width * size // word
    tile_rows, tile_words = GATHERED[form]
    parts = -(-words // tile_words)

    def row(layout: Layout) -> int:
        return _row_stride(layout) * size // word

    def step(layout: Layout) -> int:
        return layout.strides[1] if word == size else 1

    return (
        Launch(
            f"gather/{8 * word}/{element(ids.dtype).value}/{form}",
            (-(-rows // tile_rows) * parts, 1, 1),
            (
                *(Pointer(name) for name in names),
                I64(rows),
                I64(table.shape[0]),
                I64(words),
                I32(parts),
                I64(skip),
                I64(ids.strides[0]),
                I64(row(table)),
                I64(step(table)),
                I64(row(out)),
                I64(step(out)),
            ),
        ),
    )
