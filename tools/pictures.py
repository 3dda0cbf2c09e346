"""Draws what each family computes, with numbers that the library has computed: docs/ops/*.svg.

python tools/pictures.py            write them
python tools/pictures.py --check    exit with 1 if they are not current
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

# isort: off
import gradplan as gp  # the installed one, with kernels: stubs would import the checkout's
from stubs import SOURCE, write
# isort: on

# A page of the site gives its own colours, which follow its switch; elsewhere the system's.
_STYLE = """
.drawing { --ink: var(--md-typeset-color, #1b1f24); --soft: var(--gp-soft, #59636e);
  --rule: var(--gp-rule, #b6bfc9); --a: var(--gp-a, #0b6bcb); --b: var(--gp-b, #c2410c);
  --c: var(--gp-c, #047857); font: 14px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  .drawing { --ink: var(--md-typeset-color, #e6edf3); --soft: var(--gp-soft, #9da7b3);
  --rule: var(--gp-rule, #4d5661); --a: var(--gp-a, #58a6ff); --b: var(--gp-b, #fb923c);
  --c: var(--gp-c, #4ade80); } }
.drawing text { fill: var(--ink); text-anchor: middle; dominant-baseline: central; }
.drawing .start { text-anchor: start; } .drawing .end { text-anchor: end; }
.drawing .soft { fill: var(--soft); font-size: 13px; }
.drawing .name { font: 13px ui-monospace, monospace; }
.drawing .cell { fill: none; stroke: var(--rule); }
.drawing .line { fill: none; stroke-width: 1.6; }
.drawing .a { stroke: var(--a); } .drawing .b { stroke: var(--b); }
.drawing .c { stroke: var(--c); }
.drawing .rule { stroke: var(--rule); }
.drawing .dash { stroke-dasharray: 5 4; stroke: var(--ink); }
.drawing .in { fill: var(--a); stroke: none; } .drawing .out { fill: var(--b); stroke: none; }
.drawing .third { fill: var(--c); stroke: none; } .drawing .tint { fill-opacity: .16; }
"""

CELL, HIGH = 58, 30
COLOURS = ("a", "b", "c")
FILLS = ("in", "out", "third")


def _f32(values: Any) -> Any:
    return np.asarray(values, np.float32)


def _number(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return ("0" if text == "-0" else text).replace("-", "\N{MINUS SIGN}")


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def _cells(x: float, y: float, values: Iterable[float], fill: str = "", wide: int = CELL) -> str:
    parts = []
    for i, value in enumerate(values):
        box = f'x="{x + i * wide:g}" y="{y:g}" width="{wide}" height="{HIGH}"'
        parts += [f'<rect {box} class="{fill} tint"/>'] if fill else []
        parts.append(f'<rect {box} class="cell"/>')
        parts.append(_text(x + (i + 0.5) * wide, y + HIGH / 2 + 1, _number(float(value))))
    return "".join(parts)


def _line(kind: str, *points: tuple[float, float]) -> str:
    return f'<polyline class="line {kind}" points="{" ".join(f"{x:g},{y:g}" for x, y in points)}"/>'


def _arrow(kind: str, x0: float, y0: float, x1: float, y1: float) -> str:
    """A horizontal or vertical arrow."""
    along = np.sign([x1 - x0, y1 - y0])
    side = along[::-1]
    tip = np.array([x1, y1])
    wings = (tip - 6 * along + 4 * side, tip - 6 * along - 4 * side)
    head = _line(kind, *((float(p[0]), float(p[1])) for p in (wings[0], tip, wings[1])))
    return _line(kind, (x0, y0), (x1, y1)) + head


def _curve(kind: str, x0: float, y0: float, x1: float, y1: float) -> str:
    middle = (x0 + x1) / 2
    path = f"M{x0:g},{y0:g} C{middle:g},{y0:g} {middle:g},{y1:g} {x1:g},{y1:g}"
    return f'<path class="line {kind}" d="{path}"/>'


def _note(wide: float, y: float, text: str) -> list[str]:
    """Below a picture, a line for each part of the sentence: to be read on a phone too."""
    lines = text.split("; ")
    return [_text(wide / 2, y + 20 * i, line, "soft") for i, line in enumerate(lines)]


def _picture(title: str, wide: int, high: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" class="drawing">'
    return f"{head}<title>{escape(title)}</title><style>{_STYLE}</style>{''.join(parts)}</svg>\n"


# The pictures, by the module of the declarations ----------------------------------------------


def scan() -> str:
    """x, the five scans of it, and the gradient of the first."""
    x = _f32([2, -1, 3, 0, 1, 2])
    left, wide = 170, 170 + len(x) * CELL
    parts = [_text(left - 14, 17, "x", "end name"), _cells(left, 2, x, "in")]
    y = 56.0
    parts.append(_arrow("a", left + 8, y - 9, wide - 8, y - 9))
    for function in (gp.cumsum, gp.cumprod, gp.cummax, gp.cummin, gp.logcumsumexp):
        name = function.__name__
        parts += [_text(left - 14, y + 15, name, "end name"), _cells(left, y, function(x), "out")]
        y += HIGH + 8
    y += 20
    parts.append(_text(left, y, "and back: where each gradient comes from", "start soft"))
    y += 18
    dy = np.ones_like(x)
    parts += [_text(left - 14, y + 15, "dy", "end name"), _cells(left, y, dy, "out")]
    parts.append(_arrow("b", wide - 8, y + HIGH + 9, left + 8, y + HIGH + 9))
    y += HIGH + 18
    made = [("of cumsum", gp.cumsum_backward(dy)), ("of cummax", gp.cummax_backward(dy, x))]
    made.insert(1, ("of cumprod", gp.cumprod_backward(dy, x, gp.cumprod(x))))
    for name, dx in made:
        parts += [_text(left - 14, y + 15, f"dx {name}", "end name"), _cells(left, y, dx, "in")]
        y += HIGH + 8
    return _picture("Scans along a row, and their gradients", wide + 10, int(y), parts)


def linear_scan() -> str:
    """Factors, terms and states, and the gradients that go back."""
    a, b = _f32([0.5, 0.5, 2, 0, 0.5, 0.5]), _f32([4, 1, 0, 3, 1, 2])
    h = gp.linear_scan(a, b)
    da, db, _ = gp.linear_scan_backward(np.ones_like(a), a, h)
    left, wide = 130, 130 + len(a) * CELL
    parts, y = [], 2.0
    for name, values, fill in (("a", a, "in"), ("b", b, "in"), ("h", h, "out")):
        if name == "h":
            parts.append(_arrow("a", left + 8, y + 7, wide - 8, y + 7))
            y += 16
        parts += [_text(left - 14, y + 15, name, "end name"), _cells(left, y, values, fill)]
        y += HIGH + 8
    parts.append(_text(left, y + 14, "each state is a times the one before, plus b", "start soft"))
    parts.append(_text(left, y + 34, "a zero in a starts anew", "start soft"))
    y += 54
    dh = np.ones_like(a)
    parts += [_text(left - 14, y + 15, "dh", "end name"), _cells(left, y, dh, "out")]
    parts.append(_arrow("b", wide - 8, y + HIGH + 9, left + 8, y + HIGH + 9))
    y += HIGH + 18
    for name, values in (("db", db), ("da", da)):
        parts += [_text(left - 14, y + 15, name, "end name"), _cells(left, y, values, "in")]
        y += HIGH + 8
    return _picture("A linear recurrence along a row, and its gradients", wide + 10, int(y), parts)


def _by_row(
    pairs: Sequence[tuple[int, int, int]],
    left: Any,
    right: Any,
    words: tuple[str, str, str],
    note: str,
) -> str:
    """Rows on both sides; `pairs` are lines between them: a row, a row and a colour."""
    step, wide, x0, x1 = HIGH + 10, 2 * 52, 40, 300
    tall = max(len(left), len(right)) * step
    tops = [34 + (tall - len(rows) * step) / 2 for rows in (left, right)]
    parts = [_text(x0 + wide / 2, 14, words[0], "name"), _text(x1 + wide / 2, 14, words[2], "name")]
    parts.append(_text((x0 + wide + x1) / 2, 14, words[1], "soft"))
    for source, target, colour in pairs:
        y0, y1 = tops[0] + source * step + HIGH / 2, tops[1] + target * step + HIGH / 2
        parts.append(_curve(COLOURS[colour], x0 + wide + 4, y0, x1 - 4, y1))
    sides = ((x0, tops[0], left, x0 - 14, "end soft"), (x1, tops[1], right, x1 + 118, "start soft"))
    for side, (x, top, rows, label, kind) in enumerate(sides):
        fills = {pair[side]: FILLS[pair[2]] for pair in pairs}
        for n, row in enumerate(rows):
            parts.append(_cells(x, top + n * step, row, fills.get(n, ""), 52))
            parts.append(_text(label, top + n * step + 16, str(n), kind))
    parts += _note(x0 + x1 + wide, tall + 52, note)
    return _picture(note, x0 + x1 + wide, tall + 90, parts)


def segment() -> str:
    ids = np.array([0, 2, 0, 1, 2, 0])
    x = _f32([[1, 2], [5, 0], [3, 1], [4, 4], [-2, 1], [1, 6]])
    sums = gp.unsorted_segment_sum(x, ids, 3)
    pairs = [(n, int(s), int(s)) for n, s in enumerate(ids)]
    note = "rows of one id are added, in ascending order; back, each row gets its sum's gradient"
    return _by_row(pairs, x, sums, ("x", f"segment_ids = {ids.tolist()}", "sums"), note)


def embedding() -> str:
    weight = _f32([[1, 2], [3, 4], [5, 6], [7, 8]])
    indices = np.array([2, 0, 2, 3, 0])
    colours = {2: 0, 0: 1, 3: 2}
    pairs = [(int(i), n, colours[int(i)]) for n, i in enumerate(indices)]
    note = "rows are copied; back, the gradients of all copies of a row are added in their order"
    words = ("weight", f"indices = {indices.tolist()}", "rows")
    return _by_row(pairs, weight, gp.embedding(weight, indices), words, note)


def gather() -> str:
    x, indices = _f32([[1, 2], [3, 4], [5, 6], [7, 8]]), np.array([2, 0, 2, 3, 0])
    colours = {2: 0, 0: 1, 3: 2}
    pairs = [(n, int(i), colours[int(i)]) for n, i in enumerate(indices)]
    picked = gp.index_select(x, indices, axis=0)
    note = "index_add: what has the same index is added in its order; index_select is the way back"
    sums = gp.index_add(picked, indices, 4, axis=0)
    return _by_row(pairs, picked, sums, ("x", f"indices = {indices.tolist()}", "sums"), note)


def _bars(
    x: float, base: float, values: Any, scale: float, fill: str, wide: int = 44, gap: int = 14
) -> list[str]:
    parts = []
    for i, value in enumerate(np.asarray(values, dtype=float)):
        high, at = abs(value) * scale, x + i * (wide + gap)
        y = base - high if value > 0 else base
        parts.append(
            f'<rect x="{at:g}" y="{y:g}" width="{wide}" height="{high:.1f}" class="{fill}"/>'
        )
        label = y - 10 if value >= 0 else y + high + 11
        parts.append(_text(at + wide / 2, label, _number(value), "soft"))
    return parts


def sparsemax() -> str:
    x = _f32([1.2, 0.9, 0.1, -0.6, 0.7])
    soft = np.exp(x) / np.exp(x).sum()
    panels = [
        ("x", x, "in"),
        ("softmax(x)", soft, "third"),
        ("sparsemax(x)", gp.sparsemax(x), "out"),
    ]
    parts, step, base = [], 166, 150
    for i, (name, values, fill) in enumerate(panels):
        left = 10 + i * step
        scale = 75.0 if i == 0 else 170.0
        parts += _bars(left, base, values, scale, fill, 24, 6)
        parts.append(_line("rule", (left - 4, base), (left + 5 * 30, base)))
        parts.append(_text(left + 72, 14, name, "name"))
    tau = float(x[0] - gp.sparsemax(x)[0])
    height = base - 75 * tau
    parts.append(_line("dash", (6, height), (162, height)))
    parts.append(_text(97, height - 12, f"\N{GREEK SMALL LETTER TAU} = {_number(tau)}"))
    note = "what is above \N{GREEK SMALL LETTER TAU} stays, less \N{GREEK SMALL LETTER TAU}; "
    note += "the rest is exactly 0, and so is its gradient"
    parts += _note(500, 224, note)
    return _picture("Sparsemax beside softmax", 500, 262, parts)


def binary() -> str:
    a, b = _f32([-1, 0.5, 2, 3]), _f32([3, 2.5, -1, 1])
    weights = (0, 0.25, 0.5, 0.75, 1)
    left, right, base, scale = 80, 406, 168, 38
    at = [left + w * (right - left) for w in weights]
    parts = [_line("rule", (x, 32), (x, 222)) for x in at]
    parts += [_text(x, 18, f"w = {_number(w)}", "soft") for x, w in zip(at, weights, strict=True)]
    results = [gp.lerp(a, b, w) for w in weights]
    for i in range(len(a)):
        colour, fill = COLOURS[i % 3], FILLS[i % 3]
        ends = ((left, base - scale * float(a[i])), (right, base - scale * float(b[i])))
        parts.append(_line(colour, *ends))
        for x, result in zip(at, results, strict=True):
            y = base - scale * float(result[i])
            parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="4.5" class="{fill}"/>')
        parts.append(_text(left - 16, ends[0][1], f"a = {_number(float(a[i]))}", "end"))
        parts.append(_text(right + 16, ends[1][1], f"b = {_number(float(b[i]))}", "start"))
    parts += _note(480, 244, "exact at both ends; back, b gets w dy and a gets (1 - w) dy")
    return _picture("Interpolation from a to b", 480, 282, parts)


PICTURES: dict[str, Callable[[], str]] = {
    made.__name__: made
    for made in (scan, linear_scan, segment, embedding, gather, sparsemax, binary)
}

if __name__ == "__main__":
    folder = SOURCE.parent / "docs" / "ops"
    sys.exit(write({folder / f"{name}.svg": draw() for name, draw in PICTURES.items()}))
