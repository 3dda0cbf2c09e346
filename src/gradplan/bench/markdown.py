"""The board as Markdown, for docs/performance.md."""

from __future__ import annotations

from gradplan.bench.contention import warning_after
from gradplan.bench.results import Results
from gradplan.bench.tables import Table, summary, tables

BEGIN, END = "<!-- board: gradplan bench --markdown -->", "<!-- end of board -->"
SUMMARY = ("<!-- summary: gradplan bench --markdown -->", "<!-- end of summary -->")
"""Where the sentence of the summary stands, for a page that wants it at the top."""


def board(results: Results) -> str:
    """Machine, cells, calls and sizes as Markdown tables."""
    found = results.as_json()
    here = found["machine"]
    where = f"Measured on: {here['cpu']}, {here['threads']} threads, build {here['isa']}."
    said = summary(found)
    parts = [f"{where} {said}." if said else where]
    disturbed = warning_after(found["other_processes"])
    parts += [f"**Disturbed:** {disturbed}."] if disturbed else []
    for table in tables(found):
        parts += [f"{table.title}:"] if table.title else []
        parts.append(_table(table))
    return "\n\n".join(parts)


def replaced(text: str, results: Results) -> str | None:
    """The text with the board between the marks renewed; None without marks."""
    said = summary(results.as_json())
    with_summary = _between(text, SUMMARY, f"**{said}.**" if said else "")
    return _between(with_summary or text, (BEGIN, END), board(results))


def _between(text: str, marks: tuple[str, str], new: str) -> str | None:
    head, begin, rest = text.partition(marks[0])
    _, end, tail = rest.partition(marks[1])
    return f"{head}{begin}\n\n{new}\n\n{end}{tail}" if begin and end else None


def _table(table: Table) -> str:
    rows = ([entry.text for entry in row] for row in table.rows)
    lines = [table.heads, ["---"] * len(table.heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
