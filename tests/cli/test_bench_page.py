"""The page of `gradplan bench --html`, in a real browser."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import browser
import pytest
from board_sample import sample_results
from browser import PHONE

from gradplan.bench.page import page
from gradplan.bench.results import Results
from gradplan.bench.tables import tables


@pytest.fixture
def browse(tmp_path: Path) -> Any:
    """Opens a page; returns its document after rendering, and every address asked for."""

    def open_page(content: str, *flags: str) -> tuple[str, list[str]]:
        document = tmp_path / "page.html"
        document.write_text(content)
        return browser.browse(document.as_uri(), tmp_path, *flags)

    return open_page


@pytest.fixture(scope="module")
def sample() -> Results:
    return sample_results()


def test_the_page_fetches_nothing_and_shows_everything(browse: Any, sample: Results) -> None:
    document, asked = browse(page(sample.as_json()))
    assert asked == []
    plots = document.count('<svg class="plot"')
    # Score and ratio for each of four element types, and time per element for each function.
    assert plots == 4 + 4 + len(sample.per_element())
    # A table of problems for each element type; time per element is plots alone.
    others = [t for t in tables(sample.as_json()) if t.name not in ("board", "sizes")]
    assert {t.name for t in others} >= {"calls", "sizes-torch", "values", "other-work"}
    rows = 4 + len(sample.cells) + sum(1 + len(t.rows) for t in others)
    assert document.count("<tr>") == rows
    for cell in sample.cells:
        assert cell.cell.function.name in document


def test_a_fetch_would_be_noticed(browse: Any) -> None:
    _, asked = browse('<img src="http://192.0.2.1/picture.png">')
    assert any("192.0.2.1" in url for url in asked)


def test_nothing_in_the_page_could_fetch(sample: Results) -> None:
    text = page(sample.as_json())
    assert not re.search(r"https?://|<script|<link|<img|@import|url\(", text)
    assert "default-src 'none'" in text


# Runs in a copy of the page without its policy, which forbids scripts.
_MEASURE = """
<script>
addEventListener("load", () => {
  const boxes = [...document.querySelectorAll("svg.plot")].map(e => e.getBoundingClientRect());
  const page = document.documentElement;
  const text = [...document.querySelectorAll("svg.plot text")];
  const size = Math.min(...text.map(e => e.getBoundingClientRect().height));
  const outside = text.filter(e => {
    const box = e.getBoundingClientRect(), plot = e.closest("svg").getBoundingClientRect();
    return box.left < plot.left - 1 || box.right > plot.right + 1;
  }).map(e => e.textContent);
  parent.document.title = JSON.stringify({
    least: Math.min(...boxes.map(b => Math.min(b.width, b.height))),
    right: Math.max(...boxes.map(b => b.right)),
    tables: document.querySelector(".tables").getBoundingClientRect().right,
    wide: page.scrollWidth, size, outside,
  });
});
</script>
"""


@pytest.mark.parametrize("width", [PHONE, 1280, 1920, 2560])
def test_the_page_fits(browse: Any, sample: Results, width: int) -> None:
    text = re.sub(r"<meta http-equiv[^>]*>", "", page(sample.as_json()))
    text = text.replace("</body>", _MEASURE + "</body>")
    frame = f'<iframe style="width:{width}px;height:9000px;border:0" srcdoc="{html.escape(text)}">'
    document, _ = browse(f"<title></title>{frame}</iframe>", "--window-size=2700,1000")
    found = re.search(r"<title>(.*?)</title>", document)
    assert found is not None
    measured = json.loads(html.unescape(found[1]))
    assert measured["least"] > 50  # every plot is really there
    assert 0.9 * width < measured["right"] <= width  # all of the window is used
    assert measured["tables"] > 0.9 * width
    assert measured["wide"] <= width  # no sideways scrolling, but for the table in its own box
    assert measured["size"] > 8  # pixels: text can be read
    assert measured["outside"] == []


def test_a_page_of_a_partial_run() -> None:
    text = page(Results(quick=True).as_json())
    assert "A quick run" in text
    assert "<svg" not in text
