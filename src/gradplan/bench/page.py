"""The board as one self-contained page: no scripts, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

from gradplan.bench import svg
from gradplan.bench.markdown import power_of_two

Cell = dict[str, Any]


def page(results: dict[str, Any]) -> str:
    """The page for the contents of a `--json` file."""
    cells: list[Cell] = results["cells"]
    calls: list[Cell] = results["calls"]
    peers = _peers(results)
    short = [cell for cell in (*cells, *calls) if cell["short"]]
    total = len(cells) + len(calls)
    parts = [
        "<h1>gradplan: the speed board</h1>",
        f"<p class=soft>{escape(_where(results))}</p>",
        f"<p class=summary>{total - len(short)} of {total} cells reach their figures.</p>",
        *_scores(cells),
        *_ratios(cells, peers),
        *_calls(calls),
        *_sizes(results["nanoseconds_per_element"]),
        *_table(cells, peers),
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
    peers = _peers(results)
    panels = {f"Score against a copy, {element}": _score_plot(element, cells)}
    if peers:
        names = ", ".join(f"{mark} {peer}" for mark, peer in zip(svg.SYMBOLS, peers, strict=False))
        panels[f"Times faster than {names}"] = _ratio_plot(element, cells, peers)
    return svg.side_by_side("gradplan: the speed board", panels, _style())


def _style() -> str:
    return (resources.files("gradplan.bench") / "page.css").read_text(encoding="utf-8")


def _peers(results: dict[str, Any]) -> list[str]:
    """The peers that were measured."""
    return [p for p in results["peers"] if any(p in cell["ratios"] for cell in results["cells"])]


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


def _calls(calls: Sequence[Cell]) -> Iterable[str]:
    if not calls:
        return
    yield "<h2>One call</h2>"
    yield (
        f"<p>Microseconds of <code>plan.run</code> on {escape(calls[0]['problem'])} f32 with "
        "outputs given, and how many times faster than the peer's own call.</p>"
    )
    peers = list(dict.fromkeys(peer for cell in calls for peer in cell["ratios"]))
    heads = ["function", "", "", "microseconds", *(f"x {peer}" for peer in peers)]
    rows = [
        [
            _cell(cell["function"]),
            _cell(""),
            _cell(""),
            _cell(f"{cell['seconds']['gradplan'] * 1e6:.1f}"),
            *(_ratio(cell, peer) for peer in peers),
        ]
        for cell in calls
    ]
    yield _html_table("calls", heads, rows)


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


def _table(cells: Sequence[Cell], peers: Sequence[str]) -> Iterable[str]:
    if not cells:
        return
    yield "<h2>All cells</h2>"
    yield "<p>Figures to reach in brackets; what falls short is marked.</p>"
    heads = ["function", "problem", "type", "score", *(f"x {peer}" for peer in peers)]
    rows = [
        [
            _cell(cell["function"]),
            _cell(cell["problem"]),
            _cell(cell["element"]),
            _cell(f"{cell['score']:.2f}", cell["score"], cell["score_wanted"]),
            *(_ratio(cell, peer) for peer in peers),
        ]
        for cell in cells
    ]
    yield _html_table("board", heads, rows)


def _ratio(cell: Cell, peer: str) -> str:
    ratio = cell["ratios"].get(peer)
    if ratio is None:
        return _cell("")
    return _cell(f"{ratio:.1f}", ratio, cell["ratios_wanted"][peer])


def _cell(text: str, value: float = 0.0, wanted: float | None = None) -> str:
    if wanted is None:
        return f"<td>{escape(text)}</td>"
    low = "" if value >= wanted else " class=low"
    return f"<td{low}>{escape(text)} <small>({wanted:g})</small></td>"


def _html_table(name: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table id="{name}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
