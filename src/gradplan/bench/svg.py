"""Plots as SVG text: bars, dots on a log scale, and small lines.

Panels are as wide as a phone, so that their text stays readable there; wide screens show several
side by side. Colours come from the page's style sheet, which knows light, dark and print.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from html import escape

from gradplan.bench.tables import times

WIDTH = 380
_LEFT, _RIGHT = 8, 40
_LETTER = 7.0  # the width of a letter of a label, about
_ROW = 30
_TOP, _BOTTOM = 22, 22
_LONGEST_BAR = 1.3  # in memcpys; what is longer (small problems, in a cache) is cut


@dataclasses.dataclass(frozen=True)
class Mark:
    """One row of a panel: values by series."""

    label: str
    values: Mapping[str, float]


def _svg(width: int, height: float, title: str, body: Sequence[str]) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {width} {height:.0f}" role="img">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


def side_by_side(title: str, panels: Mapping[str, str], style: str) -> str:
    """Panels with headings as one picture that stands alone, for a README."""
    head, gap = 34, 24
    heights = [int(re.findall(r'viewBox="0 0 \d+ (\d+)"', panel)[0]) for panel in panels.values()]
    width = WIDTH * len(panels) + gap * (len(panels) + 1)
    height = head + max(heights) + gap
    body = [f"<style>{style}</style>", '<rect class="paper" width="100%" height="100%"/>']
    for number, ((name, panel), tall) in enumerate(zip(panels.items(), heights, strict=True)):
        x = gap + number * (WIDTH + gap)
        body.append(_text(x + _LEFT, 24, name, "head"))
        body.append(
            panel.replace("<svg ", f'<svg x="{x}" y="{head}" width="{WIDTH}" height="{tall}" ', 1)
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>\n"
    )


def _text(
    x: float, y: float, text: str, kind: str = "", anchor: str = "start", within: float = math.inf
) -> str:
    """Letters are set closer where they would not stay within a width."""
    tight = len(text) * _LETTER > within
    fitted = f' textLength="{within:.1f}" lengthAdjust="spacingAndGlyphs"' if tight else ""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{fitted}>'
        f"{escape(text)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def bars(title: str, rows: Sequence[Mark], *, one: str) -> str:
    """Horizontal bars of one series, with a line at 1 that is called `one`."""
    plot = WIDTH - _LEFT - _RIGHT
    height = _TOP + _ROW * len(rows) + _BOTTOM

    def x(value: float) -> float:
        return _LEFT + plot * min(value, _LONGEST_BAR) / _LONGEST_BAR

    body = []
    for tick in (0.25, 0.5, 0.75):
        body.append(_line(x(tick), _TOP, x(tick), height - _BOTTOM, "grid"))
        body.append(_text(x(tick), height - 6, f"{tick:g}", "tick", "middle"))
    body.append(_line(x(1), _TOP - 6, x(1), height - _BOTTOM, "one"))
    body.append(_text(x(1), _TOP - 10, one, "tick", "middle"))
    body.append(_text(x(1), height - 6, "1", "tick", "middle"))
    for number, row in enumerate(rows):
        y = _TOP + _ROW * number
        body.append(_text(_LEFT, y + 12, row.label, "label"))
        for value in row.values.values():
            body.append(
                f'<rect class="bar" x="{_LEFT}" y="{y + 16}" height="9" '
                f'width="{x(value) - _LEFT:.1f}" rx="2"/>'
            )
            body.append(_text(x(value) + 5, y + 24, f"{value:.2f}", "value"))
    return _svg(WIDTH, height, title, body)


_SHAPES = {
    0: lambda x, y: f'<circle class="dot s0" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>',
    1: lambda x, y: (
        f'<rect class="dot s1" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" rx="1"/>'
    ),
    2: lambda x, y: f'<path class="dot s2" d="M{x:.1f} {y - 5:.1f}l5 9h-10z"/>',
}


SYMBOLS = "\N{BLACK CIRCLE}\N{BLACK SQUARE}\N{BLACK UP-POINTING TRIANGLE}"
"""The marks of the series as characters, for headings."""


def symbol(number: int) -> str:
    """The mark of a series, for legends."""
    return f'<svg class="symbol" viewBox="0 0 12 12">{_SHAPES[number % len(_SHAPES)](6, 6)}</svg>'


def dots(title: str, rows: Sequence[Mark], series: Sequence[str], *, one: str) -> str:
    """Ratios on a log scale, a mark per series, with a line at 1 that is called `one`."""
    values = [v for row in rows for v in (*row.values.values(), 1.0)]
    low = math.floor(math.log10(min(values)))
    high = max(math.ceil(math.log10(max(values))), low + 1)
    plot = WIDTH - _LEFT - _RIGHT
    height = _TOP + _ROW * len(rows) + _BOTTOM

    def x(value: float) -> float:
        return _LEFT + 6 + (plot - 6) * (math.log10(value) - low) / (high - low)

    body = []
    for power in range(low, high + 1):
        body.append(_line(x(10**power), _TOP, x(10**power), height - _BOTTOM, "grid"))
        body.append(_text(x(10**power), height - 6, f"{10.0**power:g}x", "tick", "middle"))
    body.append(_line(x(1), _TOP - 6, x(1), height - _BOTTOM, "one"))
    body.append(_text(x(1), _TOP - 10, one, "tick", "start" if x(1) < WIDTH / 2 else "end"))
    for number, row in enumerate(rows):
        y = _TOP + _ROW * number
        body.append(_text(_LEFT, y + 12, row.label, "label"))
        body.append(_line(_LEFT, y + 21, WIDTH - _RIGHT, y + 21, "rail"))
        for name, value in row.values.items():
            body.append(_SHAPES[series.index(name) % len(_SHAPES)](x(value), y + 21))
        ratios = ", ".join(times(row.values[name]) for name in series if name in row.values)
        body.append(_text(WIDTH - 2, y + 12, ratios, "value", "end"))
    return _svg(WIDTH, height, title, body)


def small_line(title: str, points: Mapping[str, float]) -> str:
    """A small panel: one line over a few named positions, from zero."""
    width, height = 200, 130
    left, right, top, bottom = 22, 22, 34, 22
    highest = max(points.values()) or 1.0
    step = (width - left - right) / max(len(points) - 1, 1)
    at = [
        (left + step * n, height - bottom - (height - top - bottom) * value / highest)
        for n, value in enumerate(points.values())
    ]
    body = [
        _text(4, 13, title, "label", within=width - 8),
        _line(left - 8, height - bottom, width - right + 8, height - bottom, "rail"),
        '<polyline class="line" points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y in at) + '"/>',
    ]
    for (x, y), (name, value) in zip(at, points.items(), strict=True):
        body.append(f'<circle class="dot s0" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
        body.append(_text(x, y - 6, f"{value:.2f}", "value", "middle"))
        body.append(_text(x, height - 7, name, "tick", "middle"))
    return _svg(width, height, title, body)
