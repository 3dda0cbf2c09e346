"""What MkDocs builds the site of, besides the pages in docs/ (a hook of mkdocs.yml).

The README is the first page. The reference is written from the declarations and the stubs. Links
between documents are those of the repository, where they work as well; they are translated here.
"""

from __future__ import annotations

import functools
import json
import posixpath
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

from tables import _code, _table  # noqa: E402

from gradplan import functional, vocabulary  # noqa: E402
from gradplan.declaration import OPS, FieldInfo, Op, Tensor  # noqa: E402
from gradplan.offers import JAX, TORCH, Bridge, offers_of  # noqa: E402

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
    made["index.md"] = "---\nhide: [navigation]\n---\n" + made["index.md"]
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
    for found in _CODE.finditer(markdown):
        text, before = found[0], markdown[end : found.start()]
        if not text.startswith("```") and not before.endswith("["):
            text = _linked(text, page)
        parts += [_LINK.sub(translated, before), text]
        end = found.end()
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


def _entry(identifier: str, level: int = 3, **options: object) -> str:
    """What mkdocstrings replaces with an object's signature and text."""
    given = {"heading_level": level, **options}
    return f"::: {identifier}\n    options: {json.dumps(given)}\n"


def _by_family(entries: Iterable[tuple[Op, str]]) -> str:
    """Entries under the titles of the families' pages."""
    families: dict[str, list[str]] = {}
    for op, entry in entries:
        families.setdefault(op.descriptor.__module__.rpartition(".")[2], []).append(entry)
    parts = []
    for name, found in families.items():
        page = (ROOT / f"docs/ops/{name}.md").read_text(encoding="utf-8")
        title = page.partition("\n")[0].removeprefix("# ")
        parts.append(f"## {title}\n\n[What it computes](../ops/{name}.md)\n")
        parts += found
    return "\n".join(parts)


def _functions_page() -> str:
    found = [
        (op, _entry(f"gradplan.functional.{f.name}")) for op in OPS.values() for f in op.functions
    ]
    return f"""# Functions

`import gradplan as gp`. Every function takes arrays of any framework that speaks DLPack (`T`:
NumPy, PyTorch, JAX, CuPy and others), and returns arrays of the first argument's framework. None of
them records gradients: [gradplan.torch](torch.md) and [gradplan.jax](jax.md) do.

{_by_family(found)}

## Threads

{_entry("gradplan.engines.cpu.set_num_threads")}
{_entry("gradplan.engines.cpu.get_num_threads")}
"""


def _bridge_page(bridge: Bridge, title: str, text: str) -> str:
    module = f"gradplan.{bridge.name}"
    offers = [offer for op in OPS.values() for offer in offers_of(bridge, op)]
    found = []
    for offer in offers:
        entry = _entry(f"{module}.functions.{offer.name}")
        also = ", ".join(f"`{alias}`" for alias in offer.like.aliases)
        found.append((offer.op, entry + (f"\nAlso called {also}.\n" if also else "")))
        if offer.like.module is not None:
            found.append((offer.op, _entry(f"{module}.nn.{offer.like.module.name}")))
    return f"# {title}\n\n{text}\n\n{_by_family(found)}"


def _plans_page() -> str:
    members = ["select", "can_implement", "run"]
    parts = [
        "# Plans and descriptors\n\nA descriptor is a problem, a plan a kernel for it: "
        "[how they are used](../guides/plans.md). All arguments are given by name.\n",
        _entry("gradplan.plan.Plan", 2, members=members, merge_init_into_class=False),
    ]
    for op in OPS.values():
        fields = [[_code(i.name), _kind(i), _default(i), _sentence(i)] for i in op.fields]
        tensors = [
            [_code(t.name), "reads" if t.is_input else "writes", _shape(op, t), _sentence(t)]
            for t in op.tensors
        ]
        functions = ", ".join(f"`gp.{f.name}`" for f in op.functions)
        parts += [
            f"## {op.plan_name}\n\n{op.doc} Behind {functions}.\n",
            f"`{op.descriptor.__name__}` has the fields\n",
            _table(["field", "type", "default", ""], fields),
            "and `run` takes the tensors\n",
            _table(["tensor", "", "shape", ""], tensors),
        ]
    return "\n".join(parts)


def _kind(info: FieldInfo) -> str:
    stores = info.field.stores
    return f"`gp.{stores}`" if stores in vocabulary.__all__ else f"`{stores}`"


def _default(info: FieldInfo) -> str:
    if info.required:
        return ""
    return f"`{getattr(info.default, 'value', info.default)!r}`"


def _shape(op: Op, tensor: Tensor) -> str:
    return f"`[{', '.join(map(str, tensor.axes))}]`"


def _sentence(what: FieldInfo | Tensor) -> str:
    """The text, and for which problems it is there at all."""
    if what.when is None:
        return what.doc
    only = "; ".join(
        f"{name} {', '.join(sorted(str(getattr(v, 'value', v)) for v in values))}"
        for name, values in what.when.values.items()
    )
    return f"{what.doc} (only for {only})"


def _vocabulary_page() -> str:
    names = [name for name in vocabulary.__all__ if isinstance(getattr(vocabulary, name), type)]
    errors = [name for name in names if issubclass(getattr(vocabulary, name), vocabulary.Error)]
    types = [name for name in names if name not in errors]
    entries = {
        name: _entry(f"gradplan.vocabulary.{name}", show_bases=name in errors) for name in names
    }
    return "\n".join(
        [
            "# Types and errors\n\n## Errors\n\nA message names the function or plan, the tensor, "
            "what was expected and what came.\n",
            *(entries[name] for name in errors),
            '\n## Types\n\nWherever a word is wanted, its string will do: `element="f32"`.\n',
            *(entries[name] for name in types),
            *(
                _entry(f"gradplan.vocabulary.{name}")
                for name in vocabulary.__all__
                if name not in names
            ),
        ]
    )


def _reference() -> dict[str, str]:
    torch = (
        "`from gradplan import torch as gpt`. Functions have PyTorch's argument order, autograd "
        "and `torch.compile`; [what holds, and what differs](../torch.md)."
    )
    jax = (
        "`import gradplan.jax as gpj`. Functions have the arguments of `jax.lax` and `jax.ops`, "
        "and work inside of `jit`, `grad` and `vmap`; [what holds, and what differs](../jax.md)."
    )
    memory = f"\n## Memory\n\n{_entry('gradplan.torch.memory.release_memory')}"
    return {
        "api/functions.md": _functions_page(),
        "api/torch.md": _bridge_page(TORCH, "gradplan.torch", torch) + memory,
        "api/jax.md": _bridge_page(JAX, "gradplan.jax", jax),
        "api/plans.md": _plans_page(),
        "api/vocabulary.md": _vocabulary_page(),
    }


@functools.cache
def _places() -> dict[str, str]:
    """Where the reference has a name that pages mention."""
    found = {f"gp.{name}": f"gradplan.functional.{name}" for name in functional.__all__}
    found |= {f"gp.{name}": f"gradplan.vocabulary.{name}" for name in vocabulary.__all__}
    for threads in ("set_num_threads", "get_num_threads"):
        found[f"gp.{threads}"] = f"gradplan.engines.cpu.{threads}"
    for op in OPS.values():
        place = f"api/plans.md#{op.plan_name.lower()}"
        for name in (op.plan_name, op.descriptor.__name__):
            found |= dict.fromkeys((name, f"gp.{name}"), place)
        for bridge, short in ((TORCH, "gpt"), (JAX, "gpj")):
            for offer in offers_of(bridge, op):
                place = f"gradplan.{bridge.name}.functions.{offer.name}"
                names = (offer.name, *offer.like.aliases)
                found |= {f"{short}.{name}": place for name in names}
                if offer.like.module is not None:
                    name = offer.like.module.name
                    found[f"{short}.nn.{name}"] = f"gradplan.{bridge.name}.nn.{name}"
    return found


def _linked(code: str, page: Any) -> str:
    """Inline code, with a link to the reference if it is a name or a call that is found there."""
    name = code.strip("`").partition("(")[0]
    place = _places().get(name)
    if place is None:
        return code
    return f"[{code}]({_relative(place, page)})" if "/" in place else f"[{code}][{place}]"
