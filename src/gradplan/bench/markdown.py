"""The board as Markdown, for docs/performance.md."""

from __future__ import annotations

from gradplan.bench.results import Results
from gradplan.bench.tables import Entry, Table, summary, tables

BEGIN, END = "<!-- board: gradplan bench --markdown -->", "<!-- end of board -->"


def board(results: Results) -> str:
    """Machine, cells, calls and sizes as Markdown tables."""
    found = results.as_json()
    here = found["machine"]
    where = f"Measured on: {here['cpu']}, {here['threads']} threads, build {here['isa']}."
    parts = [f"{where} {summary(found)}."]
    for table in tables(found):
        parts += [f"{table.title}:"] if table.title else []
        parts.append(_table(table))
    return "\n\n".join(parts)


def replaced(text: str, results: Results) -> str | None:
    """The text with the board between the marks renewed; None without marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        return None
    return f"{head}{BEGIN}\n\n{board(results)}\n\n{END}{tail}"


def _entry(entry: Entry) -> str:
    text = f"**{entry.text}**" if entry.short else entry.text
    return f"{text} ({entry.wanted})" if entry.wanted else text


def _table(table: Table) -> str:
    lines = [table.heads, ["---"] * len(table.heads), *(map(_entry, row) for row in table.rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
