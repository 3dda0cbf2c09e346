"""The site that `make site` has built, as a reader sees it."""

from __future__ import annotations

import functools
import html
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import browser
import pytest

from gradplan import functional, vocabulary
from gradplan.declaration import OPS
from gradplan.offers import JAX, TORCH, offers_of

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"

# Every page in a frame as wide as a phone. What is wider has to scroll by itself.
_FRAMES = """<title></title>
<script>
const found = {}, pages = PAGES;
const wide = element => element.scrollWidth - element.clientWidth;
for (const page of pages) {
  const frame = document.createElement("iframe");
  frame.style = "width: WIDTHpx; height: 2000px; border: 0";
  frame.onload = () => {
    const inside = frame.contentDocument;
    found[page] = {
      beyond: wide(inside.documentElement),
      pictures: [...inside.querySelectorAll(".picture svg, img")].map(
        e => e.getBoundingClientRect().width),
      words: inside.body.innerText.length,
    };
    document.title = JSON.stringify(found);
  };
  frame.src = page;
  document.body.append(frame);
}
</script>"""


class _Handler(SimpleHTTPRequestHandler):
    frames = ""

    def do_GET(self) -> None:
        if self.path != "/frames":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<body>{self.frames}</body>".encode())
        return None

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def pages() -> list[str]:
    found = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    if not found or find_spec("mkdocs") is None:
        message = "no site: run `make site`"
        # In continuous integration a missing site must not look like a pass.
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    return found


@pytest.fixture(scope="module")
def address(pages: list[str]) -> Iterator[str]:
    """The site, served."""
    handler = functools.partial(_Handler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("width", [browser.PHONE, 1280])
def test_every_page_fits_and_fetches_nothing_from_elsewhere(
    address: str, pages: list[str], tmp_path: Path, width: int
) -> None:
    _Handler.frames = _FRAMES.replace("PAGES", json.dumps(pages)).replace("WIDTH", str(width))
    document, asked = browser.browse(f"{address}/frames", tmp_path, wait=20000)
    assert [url for url in asked if not url.startswith((address, "blob:", "data:"))] == []
    assert any(url.endswith("site.css") for url in asked)  # the log would tell
    title = re.search(r"<title>(.*?)</title>", document)
    assert title is not None
    measured = json.loads(html.unescape(title[1]))
    assert sorted(measured) == pages
    for page, sizes in measured.items():
        assert sizes["words"] > 50, page
        assert sizes["beyond"] <= 0, page
        assert all(100 < picture <= width for picture in sizes["pictures"]), page


def test_what_is_too_wide_would_be_noticed(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wide.html").write_text("<p style='width: 900px'>wide</p>")
    monkeypatch.setattr(_Handler, "translate_path", lambda self, path: str(tmp_path / "wide.html"))
    _Handler.frames = _FRAMES.replace("PAGES", '["wide.html"]').replace("WIDTH", "390")
    document, _ = browser.browse(f"{address}/frames", tmp_path)
    title = re.search(r"<title>(.*?)</title>", document)
    assert title is not None
    assert json.loads(html.unescape(title[1]))["wide.html"]["beyond"] > 400


def test_the_reference_has_everything(pages: list[str]) -> None:
    text = "".join((SITE / page).read_text() for page in pages if page.startswith("api/"))
    wanted = [f"gradplan.functional.{name}" for name in functional.__all__]
    wanted += [f"gradplan.vocabulary.{name}" for name in vocabulary.__all__]
    for op in OPS.values():
        wanted.append(op.plan_name.lower())
        for bridge in (TORCH, JAX):
            wanted += [f"gradplan.{bridge.name}.functions.{o.name}" for o in offers_of(bridge, op)]
    assert [name for name in wanted if f'id="{name}"' not in text] == []


def test_examples_of_docstrings_are_code(pages: list[str]) -> None:
    text = (SITE / "api/functions.html").read_text()
    assert text.count('<span class="gp">&gt;&gt;&gt; </span>') >= len(functional.__all__)


def test_pages_mention_the_reference_with_links(pages: list[str]) -> None:
    text = (SITE / "ops/scan.html").read_text()
    assert "api/functions.html#gradplan.functional.cumsum" in text
    assert "api/plans.html#scanplan" in text


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("[nowhere](nowhere.md)", "'nowhere.md', but the target is not found"),
        ("[nowhere](#nowhere)", "no such anchor"),
        ("fine", "extra.md"),
        ("fine", ""),
    ],
)
def test_a_broken_link_is_an_error(
    pages: list[str], tmp_path: Path, text: str, warning: str
) -> None:
    """With the settings of mkdocs.yml and the flags of the Makefile."""
    command = re.search(r"\$\(MKDOCS\) (build .*?)(?:  #|\n)", (ROOT / "Makefile").read_text())
    assert command is not None
    settings = {"INHERIT": str(ROOT / "mkdocs.yml"), "nav": ["index.md"], "watch": []}
    settings |= {"docs_dir": "docs", "site_dir": "site", "hooks": [], "plugins": []}
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\n{text}\n")
    if warning == "extra.md":
        (tmp_path / "docs" / warning).write_text("# Not in the navigation\n")
    (tmp_path / "mkdocs.yml").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *command[1].split(), "-f", str(tmp_path / "mkdocs.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert warning in done.stderr
    assert bool(done.returncode) == bool(warning), done.stderr


def test_no_markup_is_left_over(pages: list[str]) -> None:
    left = {}
    for page in pages:
        article = re.search(r"<article.*</article>", (SITE / page).read_text(), re.DOTALL)
        text = re.sub(
            r"<(pre|code|svg|style|script)\b.*?</\1>",
            "",
            article[0] if article else "",
            flags=re.DOTALL,
        )
        found = re.findall(r"\]\[|\]\(|```|&lt;!--", re.sub(r"<[^>]+>", "", text))
        if found:
            left[page] = found
    assert left == {}
