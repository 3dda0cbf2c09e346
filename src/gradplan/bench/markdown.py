"""The board as Markdown, for docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradplan.bench.measure import OURS, Measured
from gradplan.bench.results import Results
from gradplan.machine import machine

BEGIN, END = "<!-- board: gradplan bench --markdown -->", "<!-- end of board -->"


def board(results: Results) -> str:
    """Machine, cells, calls and sizes as Markdown tables."""
    here, peers = machine(), results.peers
    measured = len(results.cells) + len(results.calls)
    parts = [
        f"Measured on: {here['cpu']}, {here['threads']} threads, build {here['isa']}. "
        f"{measured - len(results.short)} of {measured} cells reach their figures.",
        _table(
            ["function", "problem", "type", "score", *(f"x {peer}" for peer in peers)],
            (
                [
                    m.cell.function.name,
                    m.cell.problem.label,
                    m.cell.element.value,
                    _figure(m.score, m.cell.score, "{:.2f}"),
                    *(_ratio(m, peer) for peer in peers),
                ]
                for m in results.cells
            ),
        ),
    ]
    if results.calls:
        parts += [
            "One call of `plan.run` on 32 x 64 f32, PyTorch tensors, outputs given:",
            _table(
                ["function", "microseconds", "x torch", "x entmax"],
                (
                    [
                        m.cell.function.name,
                        f"{m.times[OURS] * 1e6:.1f}",
                        _ratio(m, "torch"),
                        _ratio(m, "entmax"),
                    ]
                    for m in results.calls
                ),
            ),
        ]
    sizes = results.per_element()
    if sizes:
        known = sorted({size for by_size in sizes.values() for size in by_size})
        parts += [
            "Nanoseconds per element, f32, by number of elements:",
            _table(
                ["function", *(power_of_two(size) for size in known)],
                (
                    [name, *(f"{by[size]:.2f}" if size in by else "" for size in known)]
                    for name, by in sizes.items()
                ),
            ),
        ]
    return "\n\n".join(parts)


def power_of_two(size: int) -> str:
    """
    >>> power_of_two(2**24), power_of_two(100)
    ('2^24', '100')
    """
    exponent = size.bit_length() - 1
    return f"2^{exponent}" if size == 1 << exponent else str(size)


def replaced(text: str, results: Results) -> str | None:
    """The text with the board between the marks renewed; None without marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        return None
    return f"{head}{BEGIN}\n\n{board(results)}\n\n{END}{tail}"


def _figure(value: float | None, wanted: float | None, form: str) -> str:
    if value is None:
        return ""
    text = form.format(value)
    if wanted is None:
        return text
    return f"{text} ({form.format(wanted)})" if value >= wanted else f"**{text}** ({wanted:.2f})"


def _ratio(m: Measured, peer: str) -> str:
    ratio = m.ratios.get(peer)
    if ratio is None:
        return ""
    wanted = m.cell.figure(peer)
    return f"{ratio:.1f} ({wanted:g})" if ratio >= wanted else f"**{ratio:.2f}** ({wanted:g})"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
