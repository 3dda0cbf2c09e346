"""What MkDocs builds the site of, besides the pages in docs/ (a hook of mkdocs.yml).

The README is the first page. The reference is written from the declarations and the stubs. Links
between documents are those of the repository, where they work as well; they are translated here.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Documents of the repository, and the site's pages of them."""

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r'<img alt="([^"]*)" src="([^"]+\.svg)"\s*/?>')


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that do not stand in docs/."""
    made = {page: (ROOT / source).read_text(encoding="utf-8") for source, page in PAGES.items()}
    made["examples.md"] = _examples()
    made["LICENSE.txt"] = (ROOT / "LICENSE").read_text(encoding="utf-8")
    made.update(_reference())
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def _examples() -> str:
    parts = ["# Examples\n\nEach runs by itself, and in the tests.\n"]
    for path in sorted((ROOT / "examples").glob("*.py")):
        parts.append(f"\n## {path.name}\n\n```python\n{path.read_text(encoding='utf-8')}```\n")
    return "".join(parts)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Translates links between files of the repository into links between pages."""
    page_of = {"LICENSE": "LICENSE.txt", **PAGES}
    source_of = {page: source for source, page in page_of.items()}
    source = source_of.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def translated(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        if target.startswith("examples/"):
            return (
                _relative("examples.md", page) + "#" + posixpath.basename(target).replace(".", "")
            )
        if target in page_of:
            return _relative(page_of[target], page)
        return _relative(target.removeprefix("docs/"), page) if target[:5] == "docs/" else match[1]

    parts, end = [], 0
    for code in _CODE.finditer(markdown):
        parts += [_LINK.sub(translated, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(translated, markdown[end:])])


def _relative(target: str, page: Any) -> str:
    return posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Puts pictures into the page itself, where they follow its light and dark colours."""

    def inlined(match: re.Match[str]) -> str:
        folder = posixpath.dirname(page.file.dest_uri)
        path = ROOT / "docs" / posixpath.normpath(posixpath.join(folder, match[2]))
        picture = path.read_text(encoding="utf-8")
        if "--md-" not in picture:  # one that knows nothing of the site
            return match[0]
        return f'<div class="picture" role="img" aria-label="{match[1]}">{picture}</div>'

    return _PICTURE.sub(inlined, html)


# The reference ---------------------------------------------------------------------------------


def _reference() -> dict[str, str]:
    return {
        "api/functions.md": "# Functions\n\n::: gradplan.functional\n",
        "api/torch.md": "# gradplan.torch\n\n::: gradplan.torch.functions\n\n::: gradplan.torch.nn\n",
        "api/jax.md": "# gradplan.jax\n\n::: gradplan.jax.functions\n",
        "api/plans.md": "# Plans\n\n::: gradplan.plans\n",
        "api/vocabulary.md": "# Types and errors\n\n::: gradplan.vocabulary\n",
    }
