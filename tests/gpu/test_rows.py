"""Rows by index and sums of rows in executed PTX: bits of the reference, and what is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layouts import LAYOUTS, Array
from row_calls import (
    RUN,
    Where,
    call,
    expected,
    far_apart,
    launches_of,
    mutated,
    program,
    same,
)
from samples import ELEMENTS

import gradplan as gp
from gradplan.cases import floats, hashed
from gradplan.engines.cuda.launches import sums
from gradplan.engines.cuda.launches.errors import offence
from gradplan.engines.cuda.launches.tiles import SCANNED, SORTED
from gradplan.ops.embedding import EmbeddingBackwardDescriptor, EmbeddingDescriptor
from gradplan.ops.segment import (
    SegmentSumBackwardDescriptor,
    SegmentSumDescriptor,
    UnsortedSegmentSumDescriptor,
)
from gradplan.reference import FUNCTIONS
from gradplan.vocabulary import INDICES, ElementKind

FLAVOURS = ("plain", "special", "wide", "huge")
EDGES = np.repeat(np.arange(12), [255, 256, 257, 0, 1, 511, 512, 513, 2, 260, 16, 17])
# How ids are spread, and sizes: rows, segments, columns.
VECTOR = ("one", 300, 2, 256)  # contiguous and aligned, wherever it is used
SUMS = (
    VECTOR,
    ("edges", len(EDGES), 12, 3),
    ("one", 1100, 3, 1),
    ("one", 700, 5, 33),
    ("few", 1500, 300, 8),
    ("few", 40, 4000, 1),
    ("few", 1, 1, 1),
    ("few", 0, 5, 3),
    ("few", 5, 0, 3),
    ("few", 5, 3, 0),
)
FORMS = ("narrow", "middle", "wide")  # and "vector"


def _ids(how: str, rows: int, segments: int, label: str) -> Array:
    """Some of them outside, unless the number of members is the point."""
    drawn = hashed(label, rows)
    if how == "edges":
        return np.asarray(EDGES[np.argsort(drawn, kind="stable")])
    ids = (drawn % np.uint64(segments + 2)).astype(np.int64) - 1
    if how == "one":
        ids[drawn >> np.uint64(59) != 0] = segments // 2
    return ids


def _reported(name: str, tensors: dict[str, Array], **options: Any) -> str | None:
    """The reference's complaint about indices."""
    try:
        FUNCTIONS[name](**tensors, **options)
    except gp.Error as error:
        return str(error)
    return None


def _complaint(words: Array, name: str, count: int) -> str | None:
    error = offence(words.tolist(), name, count)
    return None if error is None else str(error)


def _sum(kind: ElementKind, rows: int, segments: int, width: int, bounds: str) -> dict[str, Any]:
    return dict(
        num_inputs=rows, embedding_dim=width, num_segments=segments, element=kind, bounds=bounds
    )


@pytest.mark.parametrize("kind", ELEMENTS)
@pytest.mark.slow
def test_sums_of_segments(kind: ElementKind) -> None:
    where = Where()
    for number, (how, rows, segments, width) in enumerate(SUMS):
        index, bounds = INDICES[number % 2], ("skip", "raise")[number // 2 % 2]
        ids = _ids(how, rows, segments, f"{number}").astype(index.dtype)
        values = floats(f"{number}", (rows, width), kind, FLAVOURS[number % 4])
        values[ids == 2] = -0.0
        vector = (how, rows, segments, width) == VECTOR
        x = values if vector else where.place(values)
        room = LAYOUTS["contiguous"] if vector else where.room
        sizes = _sum(kind, rows, segments, width, bounds)
        for name, desc, order in (
            ("unsorted_segment_sum", UnsortedSegmentSumDescriptor(**sizes), ids),
            ("segment_sum", SegmentSumDescriptor(**sizes), np.sort(ids)),
        ):
            inputs = {"input": x, "segment_ids": where.place(order)}
            y = room((segments, width), kind.dtype)
            (want,) = expected(name, desc, inputs)
            words = call(name, desc, {**inputs, "output": y.array})
            assert same(y.array, want), (name, number)
            assert y.only_itself_written()
            options = {"num_segments": segments, "bounds": bounds}
            complaint = _complaint(words, "segment_ids", segments)
            assert complaint == _reported(name, inputs, **options), (name, number)
    for name in ("huge_blocks", "segment_sums"):
        for order in ("ascending", "sorted"):
            for form in (*FORMS, "vector"):
                assert f"{name}/{kind.value}/{order}/{form}" in RUN


@pytest.mark.parametrize("kind", ELEMENTS)
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.slow
def test_gradient_of_a_table(kind: ElementKind, accumulate: bool) -> None:
    where = Where(accumulate)
    for number, (how, rows, segments, width) in enumerate(SUMS):
        if not segments:
            continue
        index, padding = INDICES[number % 2], (None, segments // 2)[number // 2 % 2]
        ids = where.place(_ids(how, rows, segments, f"{number}").astype(index.dtype))
        dout = where.place(floats(f"{number}", (rows, width), kind, FLAVOURS[number % 4]))
        desc = EmbeddingBackwardDescriptor(
            num_embeddings=segments,
            embedding_dim=width,
            num_indices=rows,
            padding_idx=padding,
            element=kind,
            accumulate=accumulate,
        )
        # What the table holds has NaN with payloads, and those of rows without members stay.
        held = hashed(f"{number} held", segments * width).view(np.uint8)
        held = held[: segments * width * kind.itemsize].view(kind.dtype).reshape(segments, width)
        dweight = where.room((segments, width), kind.dtype).put(held)
        inputs = {"dout": dout, "indices": ids}
        (want,) = expected(
            "embedding_backward", desc, {**inputs, **({"dweight": held} if accumulate else {})}
        )
        call("embedding_backward", desc, {**inputs, "dweight": dweight.array})
        assert same(dweight.array, want), number
        assert dweight.only_itself_written()


# Rows of the table, of the output, and columns: for each form, words of each size.
LOOKUPS = (
    (1, 1, 1),
    (10, 50, 3),
    (40, 33, 130),
    (7, 257, 5),
    (9, 17, 256),
    (20, 40, 8),
    (300, 40, 64),
    (1, 6, 64),
    (3, 0, 4),
    (0, 3, 4),
    (4, 3, 0),
)


@pytest.mark.parametrize("kind", ELEMENTS)
def test_rows_are_copied_with_every_bit(kind: ElementKind) -> None:
    where = Where()
    for number, (count, rows, width) in enumerate(LOOKUPS * 2):
        index, bounds = INDICES[number % 2], ("skip", "raise")[number // 2 % 2]
        padding = count // 2 if number % 3 == 0 and count else None
        bits = hashed(f"{number}", count * width).view(np.uint8)[: count * width * kind.itemsize]
        weight = bits.view(kind.dtype).reshape(count, width)
        ids = _ids("few", rows, count, f"{number}").astype(index.dtype)
        if index is ElementKind.I64 and rows > 3:
            ids[3] = 2**40
        contiguous = number < len(LOOKUPS)
        if not contiguous:
            weight, ids = where.place(weight), where.place(ids)
        sizes = dict(num_embeddings=count, embedding_dim=width, num_indices=rows, element=kind)
        desc = EmbeddingDescriptor(**sizes, padding_idx=padding, bounds=bounds)
        inputs = {"weight": weight, "indices": ids}
        room = LAYOUTS["contiguous"] if contiguous else where.room
        out = room((rows, width), kind.dtype)
        (want,) = expected("embedding", desc, inputs)
        words = call("embedding", desc, {**inputs, "output": out.array})
        assert same(out.array, want), number
        assert out.only_itself_written()
        wrong = _reported("embedding", inputs, padding_idx=padding, bounds=bounds)
        assert _complaint(words, "indices", count) == wrong

        desc = SegmentSumBackwardDescriptor(**_sum(kind, rows, count, width, bounds))
        inputs = {"d_output": weight, "segment_ids": ids}
        d_input = where.room((rows, width), kind.dtype)
        (want,) = expected("segment_sum_backward", desc, inputs)
        words = call("segment_sum_backward", desc, {**inputs, "d_input": d_input.array})
        assert same(d_input.array, want) and d_input.only_itself_written()
        wrong = _reported("segment_sum_backward", inputs, bounds=bounds)
        assert _complaint(words, "segment_ids", count) == wrong
    for form in FORMS:
        assert any(f"gather/{8 * kind.itemsize}/{i.value}/{form}" in RUN for i in INDICES)
    assert {"gather/32/i32/vector", "gather/32/i64/vector"} & RUN


@pytest.mark.parametrize("index", INDICES)
def test_the_first_offence_is_reported(index: ElementKind) -> None:
    rows = 9000  # three programs look at them
    sizes = _sum(ElementKind.F32, rows, 50, 1, "raise")
    x, y = np.ones((rows, 1), np.float32), np.empty((50, 1), np.float32)
    ids = np.sort(hashed("ids", rows) % np.uint64(50)).astype(index.dtype)

    def check(*changes: tuple[int, int]) -> None:
        changed = ids.copy()
        for at, value in changes:
            changed[at] = value
        inputs = {"input": x, "segment_ids": changed}
        for name, desc in (
            ("segment_sum", SegmentSumDescriptor(**sizes)),
            ("unsorted_segment_sum", UnsortedSegmentSumDescriptor(**sizes)),
        ):
            words = call(name, desc, {**inputs, "output": y})
            want = _reported(name, inputs, num_segments=50, bounds="raise")
            assert _complaint(words, "segment_ids", 50) == want

    check()
    check((0, -1))
    check((rows - 1, 50))
    check((8500, 50), (8400, -7), (4200, 99))
    check((4096, 0))  # a descent between two programs
    check((5000, 3), (8000, 2))


@pytest.mark.slow
def test_many_keys_are_scanned_by_several_programs() -> None:
    """With more counts than a program scans, and digits in every pass."""
    rows, segments = SORTED * (SCANNED // 16) + 700, 300
    kind = ElementKind.F32
    sizes = _sum(kind, rows, segments, 1, "skip")
    ids = (hashed("ids", rows) % np.uint64(segments + 1)).astype(np.int64)
    x = floats("x", (rows, 1), kind, "wide")
    y = np.empty((segments, 1), np.float32)
    desc = UnsortedSegmentSumDescriptor(**sizes)
    tensors = {"input": x, "segment_ids": ids, "output": y}
    assert len(launches_of(program("unsorted_segment_sum", desc, tensors), "scan_blocks")) == 3
    call("unsorted_segment_sum", desc, tensors)
    (want,) = expected("unsorted_segment_sum", desc, {"input": x, "segment_ids": ids})
    assert same(y, want)


def test_more_than_32_bits_of_elements() -> None:
    kind = ElementKind.F16
    table, out = (far_apart(3, 4, kind.dtype, 2**31 + 8) for _ in range(2))
    table[...] = floats("x", (3, 4), kind, "plain")
    ids = np.array([2, 0, 2])
    sizes = dict(num_embeddings=3, embedding_dim=4, num_indices=3, element=kind)
    call(
        "embedding", EmbeddingDescriptor(**sizes), {"weight": table, "indices": ids, "output": out}
    )
    assert same(out, table[ids])
    desc = EmbeddingBackwardDescriptor(**sizes)
    (want,) = expected("embedding_backward", desc, {"dout": table, "indices": ids})
    call("embedding_backward", desc, {"dout": table, "indices": ids, "dweight": out})
    assert same(out, want)


def test_more_rows_than_keys_can_count_are_refused() -> None:
    def launches(rows: int, segments: int) -> int:
        x, y = (np.broadcast_to(np.float32(0), (n, 1)) for n in (rows, segments))
        ids = np.broadcast_to(np.int64(0), (rows,))
        desc = UnsortedSegmentSumDescriptor(**_sum(ElementKind.F32, rows, segments, 1, "skip"))
        tensors = {"input": x, "segment_ids": ids, "output": y}
        return len(program("unsorted_segment_sum", desc, tensors).launches)

    assert launches(sums.MOST_ROWS, sums.MOST_SEGMENTS) == 8 * 5 + 3
    for rows, segments in ((sums.MOST_ROWS + 1, 1), (1, sums.MOST_SEGMENTS + 1)):
        with pytest.raises(gp.Unsupported, match=f"{max(rows, segments)}"):
            launches(rows, segments)


@pytest.mark.parametrize("rows", [900, 3000])
@pytest.mark.slow
def test_sums_do_not_depend_on_the_schedule(rows: int) -> None:
    """Not on which warp is first between two barriers, nor on which program."""
    kind = ElementKind.F32
    ids = _ids("one", rows, 40, "ids")
    desc = UnsortedSegmentSumDescriptor(**_sum(kind, rows, 40, 5, "raise"))
    inputs = {"input": floats("x", (rows, 5), kind, "wide"), "segment_ids": ids}
    results = []
    for warp_by_warp, backwards in ((False, False), (True, False), (True, True)):
        y = np.empty((40, 5), np.float32)
        tensors = {**inputs, "output": y}
        schedule = {"warp_by_warp": warp_by_warp, "backwards": backwards}
        words = call("unsorted_segment_sum", desc, tensors, **schedule)
        results.append((y.tobytes(), words.tobytes()))
    assert results == results[:1] * 3


def test_launches_do_not_depend_on_ids() -> None:
    """So a graph that was captured may be replayed with others."""
    desc = UnsortedSegmentSumDescriptor(**_sum(ElementKind.F32, 600, 9, 2, "raise"))
    x, y = np.zeros((600, 2), np.float32), np.empty((9, 2), np.float32)
    made = [
        program("unsorted_segment_sum", desc, {"input": x, "segment_ids": ids, "output": y})
        for ids in (np.zeros(600, np.int64), np.arange(600) - 5)
    ]
    assert made[0] == made[1]


# Wrong kernels --------------------------------------------------------------------------------


def _sums_are_right(binaries: Any) -> bool:
    """Segments of one, several and many blocks, one of -0.0 alone, an empty one; a held NaN."""
    kind, ids = ElementKind.F32, _ids("edges", len(EDGES), 12, "ids")
    x = floats("x", (len(ids), 3), kind, "wide")
    x[ids == 4] = -0.0
    held = np.full((12, 3), 0xFFC00001, np.uint32).view(np.float32)
    desc = EmbeddingBackwardDescriptor(
        num_embeddings=12, embedding_dim=3, num_indices=len(ids), element=kind, accumulate=True
    )
    table = held.copy()
    call("embedding_backward", desc, {"dout": x, "indices": ids, "dweight": table}, binaries)
    (want,) = expected("embedding_backward", desc, {"dout": x, "indices": ids, "dweight": held})
    y = np.empty((12, 3), np.float32)
    plain = UnsortedSegmentSumDescriptor(**_sum(kind, len(ids), 12, 3, "skip"))
    inputs = {"input": x, "segment_ids": ids}
    call("unsorted_segment_sum", plain, {**inputs, "output": y}, binaries)
    return same(table, want) and same(y, expected("unsorted_segment_sum", plain, inputs)[0])


def _lookup_is_right(binaries: Any) -> bool:
    weight, ids = floats("w", (5, 3), ElementKind.F32, "plain"), np.array([0, 4, -1, 5, 2])
    desc = EmbeddingDescriptor(
        num_embeddings=5, embedding_dim=3, num_indices=5, padding_idx=2, element=ElementKind.F32
    )
    out = np.empty((5, 3), np.float32)
    inputs = {"weight": weight, "indices": ids}
    call("embedding", desc, {**inputs, "output": out}, binaries)
    return same(out, expected("embedding", desc, inputs)[0])


def _checks_are_right(binaries: Any) -> bool:
    desc = SegmentSumDescriptor(**_sum(ElementKind.F32, 6, 3, 1, "raise"))
    tensors = {
        "input": np.ones((6, 1), np.float32),
        "segment_ids": np.array([0, 1, 1, 2, 3, 2]),
        "output": np.empty((3, 1), np.float32),
    }
    words = call("segment_sum", desc, tensors, binaries)
    return words.tolist() == [5, 3, 6, 2, 3]


@pytest.mark.parametrize(
    ("family", "old", "new", "right"),
    [
        (
            "members",
            "SLOT = tl.constexpr(BLOCK)",
            "SLOT = tl.constexpr(2 * BLOCK)",
            _sums_are_right,
        ),
        (
            "members",
            "tl.uint16 else -0.0",
            "tl.uint16 else 0.0",
            _sums_are_right,
        ),
        ("segment", "mask=live & some)\n    else", "mask=live)\n    else", None),
        (
            "radix",
            "live, word), 0)\n        upto",
            "live, word), 0, reverse=True)\n        upto",
            None,
        ),
        ("embedding", " & (index != skip)", "", _lookup_is_right),
        ("indices", "first((v < earlier)", "first((v <= earlier)", _checks_are_right),
        (
            "indices",
            "(v < 0) | (v >= count)) & ok",
            "(v < 0) | (v > count)) & ok",
            _checks_are_right,
        ),
    ],
)
@pytest.mark.slow
def test_a_wrong_kernel_is_noticed(
    family: str, old: str, new: str, right: Callable[[Any], bool] | None, tmp_path: Path
) -> None:
    from gradplan.engines.cuda.kernels import embedding, indices, members, radix, segment

    modules = {"segment": segment, "radix": radix, "embedding": embedding, "indices": indices}
    modules["members"] = segment
    right = right or _sums_are_right
    assert right(None)
    within = members if family == "members" else None
    assert not right(mutated(modules[family], {old: new}, tmp_path, within))
