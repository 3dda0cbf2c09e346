"""Launches that sum rows by id: keys in order, the segments' starts, and the sums.

How many there are depends on sizes alone, never on what the ids are, so a graph of them can be
replayed with other ids.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradplan.engines.cuda.program import I32, I64, Argument, Launch, Layout, Pointer
from gradplan.reference.segment import BLOCK
from gradplan.vocabulary import Unsupported

from .arena import Arena
from .choices import chosen
from .layouts import element
from .tiles import DIGIT, SCANNED, SORTED, STARTS, SUMMED, VECTOR, sum_form, vector_columns

MOST_ROWS = 2**31 - 1
MOST_SEGMENTS = 2**31 - 2
"""Keys, one of which is behind all segments, and positions have 32 bits."""


def refuse_large(rows: int, segments: int) -> None:
    """Raises if a key or a position does not fit."""
    for what, count, most in (("rows", rows, MOST_ROWS), ("segments", segments, MOST_SEGMENTS)):
        if count > most:
            raise Unsupported(f"sums of {count} {what} on a GPU: at most {most}")


def sums_in_any_order(
    names: tuple[str, str],
    ids_name: str,
    x: Layout,
    ids: Layout,
    y: Layout,
    skip: int,
    arena: Arena,
    *,
    accumulate: bool = False,
) -> Iterator[Launch]:
    """Row s of y is the sum of the rows of x whose id is s, which is not `skip`."""
    refuse_large(x.shape[0], y.shape[0])
    if not y.shape[0] or not y.shape[1]:
        return
    keys, positions, launches = sort(ids_name, ids, y.shape[0], skip, arena)
    yield from launches
    yield from sums(names, x, y, keys, positions, arena, accumulate=accumulate)


def sort(
    name: str, ids: Layout, count: int, skip: int, arena: Arena
) -> tuple[Pointer, Pointer, list[Launch]]:
    """Keys in order and the position of each; those that take no part come last."""
    (n,), (step,) = ids.shape, ids.strides
    if n <= SORTED:
        return _sort_small(name, ids, count, skip, arena)
    tiles = -(-n // SORTED)
    counts = arena.take(4 * 2**DIGIT * tiles)
    keys, positions = ([arena.take(4 * n) for _ in range(2)] for _ in range(2))
    scan = list(exclusive_scan(counts, 2**DIGIT * tiles, arena))
    launches = []
    source, form = Pointer(name), element(ids.dtype).value
    if step != 1 or not ids.aligned:
        form += "/strided"
    for k, shift in enumerate(range(0, count.bit_length(), DIGIT)):
        now, before = k % 2, 1 - k % 2
        numbers = (I64(n), I32(tiles), I32(shift), I64(step), I64(count), I64(skip))
        launches.append(Launch(f"radix_count/{form}", (tiles, 1, 1), (source, counts, *numbers)))
        launches += scan
        moved = (source, positions[before], counts, keys[now], positions[now], *numbers)
        launches.append(Launch(f"radix_move/{form}", (tiles, 1, 1), moved))
        source, form = keys[now], "next"
    return source, positions[now], launches


def _sort_small(
    name: str, ids: Layout, count: int, skip: int, arena: Arena
) -> tuple[Pointer, Pointer, list[Launch]]:
    """As `sort`, by one program."""
    (n,), (step,) = ids.shape, ids.strides
    keys, positions = (arena.take(4 * n) for _ in range(2))
    passes = -(-count.bit_length() // DIGIT)
    numbers = (I32(n), I32(passes), I64(step), I64(count), I64(skip))
    arguments = (Pointer(name), keys, positions, *numbers)
    launch = Launch(f"radix_small/{element(ids.dtype).value}", (1, 1, 1), arguments)
    return keys, positions, [launch] if n else []


def exclusive_scan(counts: Pointer, n: int, arena: Arena) -> Iterator[Launch]:
    """In place, by several programs if there is more than one block."""
    blocks = -(-n // SCANNED)
    if blocks > 1:
        totals = arena.take(4 * blocks)
        yield Launch("scan_totals", (blocks, 1, 1), (counts, totals, I64(n)))
        yield Launch("scan_serial", (1, 1, 1), (totals, I32(blocks)))
        yield Launch("scan_blocks", (blocks, 1, 1), (counts, totals, I64(n)))
    else:
        yield Launch("scan_serial", (1, 1, 1), (counts, I32(n)))


def starts_of(keys: Pointer, rows: int, segments: int, arena: Arena) -> tuple[Pointer, Launch]:
    """Where each segment begins among keys in order, and where the last one ends."""
    starts = arena.take(4 * (segments + 1))
    return starts, Launch(
        "segment_starts",
        (-(-(segments + 1) // STARTS), 1, 1),
        (keys, starts, I32(rows), I64(segments), I32(rows.bit_length())),
    )


def is_vector(table: Layout) -> bool:
    """Whether rows are contiguous, and each begins at a multiple of 16 elements."""
    row, step = row_strides(table)
    lies = step == 1 and table.aligned and table.shape[1] % VECTOR == 0 and row % VECTOR == 0
    return lies and bool(chosen("sums.vectors"))


def row_strides(table: Layout) -> tuple[int, int]:
    """A single row may have any stride, and then has 0."""
    row, step = table.strides
    return (row if table.shape[0] > 1 else 0), step


def sums(
    names: tuple[str, str],
    x: Layout,
    y: Layout,
    keys: Pointer,
    positions: Pointer | None,
    arena: Arena,
    *,
    accumulate: bool = False,
) -> Iterator[Launch]:
    """From keys in order; without positions the rows are in that order themselves."""
    rows, width = x.shape
    segments = y.shape[0]
    if not segments or not width or (accumulate and not rows):
        return
    kind = element(x.dtype)
    starts, launch = starts_of(keys, rows, segments, arena)
    yield launch
    form = sum_form(width)
    lines, columns = SUMMED[form]
    if width >= vector_columns(kind.itemsize) and all(map(is_vector, (x, y))):
        form, columns = "vector", vector_columns(kind.itemsize)
    parts = -(-width // columns)
    order = "ascending" if positions is None else "sorted"
    at = keys if positions is None else positions  # not read then
    halves = 2 * -(-rows // BLOCK)
    sizes = (I64(segments), I64(width), I32(parts))
    strides: list[Argument] = [I64(s) for s in row_strides(x)]
    partial = keys  # not read unless a segment is huge
    if rows > BLOCK:
        partial = arena.take(halves * width * kind.compute.itemsize)
        yield Launch(
            f"huge_blocks/{kind.value}/{order}/{form}",
            (-(-halves // lines) * parts, 1, 1),
            (Pointer(names[0]), keys, at, starts, partial, I32(rows), *sizes, *strides),
        )
    yield Launch(
        f"segment_sums/{kind.value}/{order}/{form}",
        (-(-segments // lines) * parts, 1, 1),
        (
            *(Pointer(names[0]), at, starts, partial, Pointer(names[1])),
            *sizes,
            I32(accumulate),
            *strides,
            *(I64(s) for s in row_strides(y)),
        ),
    )
