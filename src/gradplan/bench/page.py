"""The board as one self-contained page: no scripts, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

from gradplan.bench import svg
from gradplan.bench.tables import TEXT, Cell, Entry, Table, peers_in, power_of_two, summary, tables


def page(results: dict[str, Any]) -> str:
    """The page for the contents of a `--json` file."""
    cells: list[Cell] = results["cells"]
    made = {table.name: table for table in tables(results)}
    parts = [
        "<h1>gradplan: the speed board</h1>",
        f"<p class=soft>{escape(_where(results))}</p>",
        f"<p class=summary>{summary(results)}.</p>",
        *_scores(cells),
        *_ratios(cells, peers_in(results)),
        *_calls(made.get("calls")),
        *_sizes(results["nanoseconds_per_element"]),
        *_board(made.get("board")),
        "<footer><p>Repeat with <code>gradplan bench --html FILE</code>. Times are the best of "
        "several; absolute times are those of one machine and no claim.</p></footer>",
    ]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>gradplan: the speed board</title>
<style>
{_style()}</style>
</head>
<body>
{chr(10).join(parts)}
</body>
</html>
"""


def picture(results: dict[str, Any]) -> str:
    """Scores and ratios of the first element type as one SVG."""
    element, cells = next(iter(_by_element(results["cells"]).items()), ("", []))
    peers = peers_in(results)
    panels = {f"Score against a copy, {element}": _score_plot(element, cells)}
    if peers:
        names = ", ".join(f"{mark} {peer}" for mark, peer in zip(svg.SYMBOLS, peers, strict=False))
        panels[f"Times faster than {names}"] = _ratio_plot(element, cells, peers)
    return svg.side_by_side("gradplan: the speed board", panels, _style())


def _style() -> str:
    return (resources.files("gradplan.bench") / "page.css").read_text(encoding="utf-8")


def _where(results: dict[str, Any]) -> str:
    here = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in results["peers"].items())
    quick = " A quick run: fewer rounds." if results["quick"] else ""
    return (
        f"gradplan {results['gradplan']} on {here['cpu']}, {here['threads']} threads, "
        f"build {here['isa']}. Peers: {versions or 'none installed'}.{quick}"
    )


def _by_element(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell["element"], []).append(cell)
    return groups


def _label(cell: Cell) -> str:
    return f"{cell['function']}  {cell['problem']}"


def _panel(plot: str, heading: str = "") -> str:
    head = f"<h3>{escape(heading)}</h3>" if heading else ""
    return f"<figure>{head}{plot}</figure>"


def _panels(figures: Iterable[str], kind: str = "") -> str:
    return f'<div class="panels {kind}">{"".join(figures)}</div>'


def _scores(cells: Sequence[Cell]) -> Iterable[str]:
    if not cells:
        return
    yield "<h2>Score against the physical limit</h2>"
    yield (
        "<p>Time of a parallel memcpy of the bytes that must be moved, divided by our time. The "
        "dashed line is that copy; the upright mark is the figure to reach.</p>"
    )
    yield _panels(
        _panel(_score_plot(element, group), element)
        for element, group in _by_element(cells).items()
    )


def _score_plot(element: str, cells: Sequence[Cell]) -> str:
    rows = [
        svg.Mark(
            _label(cell),
            {"score": cell["score"]},
            {"score": cell["score_wanted"]} if cell["score_wanted"] else {},
        )
        for cell in cells
    ]
    return svg.bars(f"Score, {element}", rows, limit="copy")


def _ratio_plot(element: str, cells: Sequence[Cell], peers: Sequence[str]) -> str:
    rows = [
        svg.Mark(_label(cell), cell["ratios"], cell["ratios_wanted"])
        for cell in cells
        if cell["ratios"]
    ]
    return svg.dots(f"Ratio to peers, {element}", rows, peers, par="at par")


def _ratios(cells: Sequence[Cell], peers: Sequence[str]) -> Iterable[str]:
    if not peers:
        return
    legend = "".join(f"{svg.symbol(n)}{escape(peer)}" for n, peer in enumerate(peers))
    yield "<h2>Times faster than each peer</h2>"
    yield (
        "<p>The peer's time divided by ours, logarithmic; left of the dashed line the peer is "
        f"faster. Peers:{legend}</p>"
    )
    yield _panels(
        _panel(_ratio_plot(element, group, peers), element)
        for element, group in _by_element(cells).items()
        if any(cell["ratios"] for cell in group)
    )


def _calls(table: Table | None) -> Iterable[str]:
    if table is not None:
        yield "<h2>One call</h2>"
        yield f"<p>{escape(table.title)}; and how many times faster than the peer's own call.</p>"
        yield _html(table)


def _sizes(per_element: dict[str, dict[Any, float]]) -> Iterable[str]:
    if not per_element:
        return
    yield "<h2>Time per element as sizes grow</h2>"
    yield (
        "<p>Nanoseconds per element, f32, over the number of elements. Flat once past the caches "
        "means that cost grows with the work and nothing else.</p>"
    )
    yield _panels(
        (
            _panel(
                svg.small_line(name, {power_of_two(int(size)): v for size, v in by_size.items()})
            )
            for name, by_size in per_element.items()
        ),
        "small",
    )


def _board(table: Table | None) -> Iterable[str]:
    if table is not None:
        yield "<h2>All cells</h2>"
        yield "<p>Figures to reach in brackets; what falls short is marked.</p>"
        yield _html(table)


def _entry(head: str, entry: Entry) -> str:
    kind = " class=low" if entry.short else " class=text" if head in TEXT else ""
    wanted = f" <small>({escape(entry.wanted)})</small>" if entry.wanted else ""
    return f"<td{kind}>{escape(entry.text)}{wanted}</td>"


def _html(table: Table) -> str:
    heads = "".join(f"<th{' class=text' * (h in TEXT)}>{escape(h)}</th>" for h in table.heads)
    rows = (map(_entry, table.heads, row) for row in table.rows)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table id="{table.name}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
