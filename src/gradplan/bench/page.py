"""The board as one self-contained page: no scripts, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

from gradplan.bench import svg
from gradplan.bench.contention import warning_after
from gradplan.bench.tables import (
    TEXT,
    Cell,
    Entry,
    Table,
    peers_in,
    power_of_two,
    summary,
    tables,
    title_of,
)

_WHY_MORE_THAN_ONE = (
    "A memcpy is a yardstick, not a limit: a kernel that writes past the caches, or writes less "
    "than it reads, can be faster."
)


def page(results: dict[str, Any]) -> str:
    """The page for the contents of a `--json` file."""
    cells: list[Cell] = results["cells"]
    made = {table.name: table for table in tables(results)}
    parts = [
        "<h1>gradplan: the speed board</h1>",
        f"<p class=soft>{escape(_where(results))}</p>",
        *_summary(results),
        *_of_memcpy(cells),
        *_ratios(cells, peers_in(results)),
        *_calls(made.get("calls")),
        *_sizes(results["nanoseconds_per_element"]),
        *_section("Every size", _EVERY_SIZE, made, "sizes-"),
        *_section("Every value", _EVERY_VALUE, made, "values"),
        *_section("Other work on the machine", _OTHER_WORK, made, "other-work"),
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
    """Both ratios of the first element type, and the other sections, as one SVG."""
    element, cells = next(iter(_by_element(results["cells"]).items()), ("", []))
    peers = peers_in(results)
    panels = {f"Speed as a multiple of memcpy's, {element}": _memcpy_plot(element, cells)}
    if peers:
        marked = zip(svg.SYMBOLS, peers, strict=False)
        names = " ".join(f"{mark} {title_of(peer)}" for mark, peer in marked)
        panels[f"Times faster than {names}"] = _ratio_plot(element, cells, peers)
    panels |= _ranges(results)
    return svg.side_by_side("gradplan: the speed board", panels, _style())


def _ranges(results: dict[str, Any]) -> dict[str, str]:
    """The other sections: what is the least and the most over all sizes, styles and loads."""
    least, most = list(svg.SYMBOLS)[:2]
    panels: dict[str, str] = {}
    for what, cells in (("sizes", results["sizes"]), ("styles of values", results["values"])):
        found: dict[str, list[float]] = {}
        for cell in cells:
            across = ", axis 0" if cell.get("across") else ""
            for ratio in list(cell["ratios"].values())[:1]:
                found.setdefault(cell["function"] + across, []).append(ratio)
        heading = f"Times faster, all {what}: {least} least {most} most"
        panels |= _range_panel(heading, {n: (min(r), max(r)) for n, r in found.items()})
    loads = {
        f"{load['function']}  {load['problem']}, {load['busy']} busy"
        + (", PyTorch between" if load["alternating"] else ""): (
            1 / load["mean_of_one"],
            1 / load["slow_of_one"],
        )
        for load in results["other_work"]
    }
    heading = f"All threads against one: {least} mean {most} 99th percentile"
    return panels | _range_panel(heading, loads)


def _range_panel(heading: str, rows: dict[str, tuple[float, float]]) -> dict[str, str]:
    if not rows:
        return {}
    series = ("first", "second")
    marks = [svg.Mark(n, dict(zip(series, pair, strict=True))) for n, pair in rows.items()]
    return {heading: svg.dots(heading, marks, series, one="as fast")}


def _style() -> str:
    return (resources.files("gradplan.bench") / "page.css").read_text(encoding="utf-8")


def _where(results: dict[str, Any]) -> str:
    here = results["machine"]
    found = results["peers"].items()
    versions = ", ".join(f"{title_of(name)} {version}" for name, version in found)
    compared = f"Compared with {versions}." if versions else "Nothing to compare with is installed."
    quick = " A quick run: fewer rounds." if results["quick"] else ""
    return (
        f"gradplan {results['gradplan']} on {here['cpu']}, {here['threads']} threads, "
        f"build {here['isa']}. {compared}{quick}"
    )


def _summary(results: dict[str, Any]) -> Iterable[str]:
    said, disturbed = summary(results), warning_after(results["other_processes"])
    if said:
        yield f"<p class=summary>{escape(said)}.</p>"
    if disturbed:
        yield f"<p class=warning><strong>Disturbed:</strong> {escape(disturbed)}.</p>"


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


def _of_memcpy(cells: Sequence[Cell]) -> Iterable[str]:
    if not cells:
        return
    yield "<h2>Against memcpy</h2>"
    yield (
        "<p>The time of a parallel memcpy of as many bytes as the problem must move, divided by "
        f"ours: at the dashed line we are as fast. {_WHY_MORE_THAN_ONE}</p>"
    )
    yield _panels(
        _panel(_memcpy_plot(element, group), element)
        for element, group in _by_element(cells).items()
    )


def _memcpy_plot(element: str, cells: Sequence[Cell]) -> str:
    rows = [svg.Mark(_label(cell), {"memcpy": cell["of_memcpy"]}) for cell in cells]
    return svg.bars(f"Against memcpy, {element}", rows, one="memcpy")


def _ratio_plot(element: str, cells: Sequence[Cell], peers: Sequence[str]) -> str:
    rows = [svg.Mark(_label(cell), cell["ratios"]) for cell in cells if cell["ratios"]]
    names = ", ".join(map(title_of, peers))
    return svg.dots(f"Times faster than {names}, {element}", rows, peers, one="as fast")


def _ratios(cells: Sequence[Cell], peers: Sequence[str]) -> Iterable[str]:
    if not peers:
        return
    marks = (f"{svg.symbol(n)}{escape(title_of(peer))}" for n, peer in enumerate(peers))
    yield f"<h2>Against {escape(_either(list(map(title_of, peers))))}</h2>"
    yield (
        "<p>How many times faster than what one would call instead, logarithmic; left of the "
        f"dashed line the other one is faster.{''.join(marks)}</p>"
    )
    yield _panels(
        _panel(_ratio_plot(element, group, peers), element)
        for element, group in _by_element(cells).items()
        if any(cell["ratios"] for cell in group)
    )


def _either(names: Sequence[str]) -> str:
    """
    >>> _either(["PyTorch"]), _either(["PyTorch", "JAX", "entmax"])
    ('PyTorch', 'PyTorch, JAX and entmax')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _calls(table: Table | None) -> Iterable[str]:
    if table is not None:
        yield "<h2>One call</h2>"
        yield f"<p>{escape(table.title)}; and how many times faster than a call of the others.</p>"
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


_EVERY_SIZE = "Tensors that fit a cache, and those that do not; outputs are preallocated."
_EVERY_VALUE = (
    "Subnormal numbers, zeros, infinities and NaN cost time on many CPUs, and kernels have ways "
    "for ordinary numbers alone. 1.00 is the style that is fastest."
)
_OTHER_WORK = (
    "Mean and 99th percentile of a call on all threads, as multiples of what one thread takes "
    "while so many other processes compute. Above 1 the threads do harm."
)


def _section(heading: str, text: str, made: dict[str, Table], name: str) -> Iterable[str]:
    """Tables whose names begin like that."""
    found = [table for key, table in made.items() if key.startswith(name)]
    if found:
        yield f"<h2>{escape(heading)}</h2>"
        yield f"<p>{escape(text)}</p>"
    for table in found:
        yield f"<h3>{escape(table.title)}</h3>"
        yield _html(table)


def _board(table: Table | None) -> Iterable[str]:
    if table is not None:
        yield "<h2>All problems</h2>"
        yield f'<div class="tables">{"".join(map(_html, _split(table)))}</div>'


def _split(table: Table) -> Iterable[Table]:
    """A table for each element type: side by side where there is room."""
    column = table.heads.index("type")
    groups: dict[str, list[list[Entry]]] = {}
    for row in table.rows:
        groups.setdefault(row[column].text, []).append(row)
    for element, rows in groups.items():
        yield Table(f"{table.name}-{element}", table.title, table.heads, rows)


def _entry(head: str, entry: Entry) -> str:
    kind = " class=text" if head in TEXT else ""
    return f"<td{kind}>{escape(entry.text)}</td>"


def _html(table: Table) -> str:
    heads = "".join(f"<th{' class=text' * (h in TEXT)}>{escape(h)}</th>" for h in table.heads)
    rows = (map(_entry, table.heads, row) for row in table.rows)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table id="{table.name}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
