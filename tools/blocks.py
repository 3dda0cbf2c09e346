"""Runs the code blocks of the documents.

python tools/blocks.py [PAGE ...]            run them, and say what is not as printed
python tools/blocks.py --write [PAGE ...]    write what they print now into the pages

    ```python    run, the blocks of a page one after another in one process
    ```text      behind `<!-- output -->`, what the block before it prints
    ```console   the commands behind `$ ` are run, and print what stands below them
    ```sh        every line names something that is there: a target, an option, an example

`<!-- output but for REGEX -->` before a block leaves out of the comparison what is different on
every machine; `<!-- not run: REASON -->` checks a command's options without running it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_FENCE = re.compile(
    r"^(?:[ ]*<!-- (?P<mark>[^\n]*) -->\n\n?)?"
    r"(?P<indent>[ ]*)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_LANGUAGES = {"python", "console", "sh", "text"}


def pages() -> list[Path]:
    """The documents of this checkout."""
    return sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))


@dataclass
class Block:
    """A fenced block. `start` and `end` are where its text stands in the page."""

    language: str
    text: str
    mark: str
    line: int
    start: int
    end: int
    indent: str

    @property
    def left_out(self) -> str | None:
        """A pattern of what is not compared; None if the text is no output at all."""
        if self.mark.startswith("output"):
            return self.mark.removeprefix("output").removeprefix(" but for ")
        return "" if self.language == "console" else None

    @property
    def is_run(self) -> bool:
        return not self.mark.startswith("not run:")


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, without their indentation."""
    found = []
    for match in _FENCE.finditer(page):
        indent = match["indent"]
        text = (
            re.sub(f"^{indent}", "", match["text"], flags=re.MULTILINE) if indent else match["text"]
        )
        line = page.count("\n", 0, match.start("text"))
        span = match.span("text")
        found.append(Block(match["language"], text, match["mark"] or "", line, *span, indent))
    return found


@dataclass
class Result:
    """What is wrong with a page, and the page as it would be right."""

    problems: list[str] = field(default_factory=list)
    renewed: str = ""


def check(path: Path) -> Result:
    """Runs a page."""
    page = path.read_text(encoding="utf-8")
    found = blocks(page)
    result = Result()
    texts = {}
    where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path

    def compare(block: Block, printed: str) -> None:
        if _compared(block.text, block.left_out) != _compared(printed, block.left_out):
            result.problems.append(
                f"{where}:{block.line}: expected\n{block.text}\nprinted\n{printed}"
            )
            texts[block.start] = printed

    try:
        printed = _run_python([b for b in found if b.language == "python"], where)
    except RuntimeError as error:
        result.problems.append(str(error))
        printed = {}
    before = None
    for block in found:
        if block.language not in _LANGUAGES:
            result.problems.append(
                f"{where}:{block.line}: expected one of {sorted(_LANGUAGES)}; "
                f"got {block.language!r}"
            )
        elif block.language == "console" and block.is_run:
            compare(block, _run_commands(block.text))
        elif block.language in ("console", "sh"):
            result.problems += [
                f"{where}:{block.line}: {line!r}: {wrong}"
                for line in _commands(block)
                if (wrong := _wrong_command(line))
            ]
        elif block.language == "text" and block.left_out is not None:
            if before is None or before.language != "python":
                result.problems.append(f"{where}:{block.line}: no block that it is the output of")
            elif before.line in printed:
                compare(block, printed[before.line])
        before = block
    result.renewed = _renewed(page, found, texts)
    return result


def _compared(text: str, left_out: str | None) -> list[str]:
    lines = text.splitlines()
    if left_out:
        lines = [re.sub(left_out, "", line) for line in lines]
    return [" ".join(line.split()) for line in lines]  # columns are as wide as what stands in them


def _renewed(page: str, found: Sequence[Block], texts: dict[int, str]) -> str:
    for block in reversed(found):
        if block.start in texts:
            text = re.sub(r"^(?=.)", block.indent, texts[block.start], flags=re.MULTILINE)
            page = page[: block.start] + text + page[block.end :]
    return page


# Running ---------------------------------------------------------------------------------------

_RUNNER = """
import contextlib, io, json, sys
given = json.load(sys.stdin)
names = {"__name__": "__main__"}
printed = {}
for line, source in given["sources"]:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile("\\n" * line + source, given["page"], "exec"), names)
    printed[line] = output.getvalue()
print(json.dumps(printed))
"""


def _run_python(found: Sequence[Block], page: Path) -> dict[int, str]:
    """What each block prints, by line."""
    sources = [(b.line, b.text) for b in found if b.is_run]
    if not sources:
        return {}
    done = subprocess.run(
        [sys.executable, "-c", _RUNNER],
        input=json.dumps({"page": str(page), "sources": sources}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return {int(line): text for line, text in json.loads(done.stdout.splitlines()[-1]).items()}


def _run_commands(text: str) -> str:
    """A console block as it is now."""
    lines = []
    for command in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
        done = subprocess.run(
            ["bash", "-c", 'gradplan() { "$PYTHON" -m gradplan "$@"; }\n' + command],
            env={**os.environ, "PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        lines += [f"$ {command}", *(line.rstrip() for line in done.stdout.splitlines())]
    return "\n".join(lines) + "\n"


# Checking without running ----------------------------------------------------------------------


def _commands(block: Block) -> Iterator[str]:
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    yield from (line for line in lines if line.strip() and not line.startswith("#"))


def _wrong_command(line: str) -> str:
    """Why a command would not work; empty if nothing speaks against it."""
    words = shlex.split(line, comments=True)
    match words:
        case ["make", *targets]:
            missing = [t for t in targets if "=" not in t and t not in _targets()]
            return f"no such target: {missing}" if missing else ""
        case ["pip", "install", what]:
            extras = re.search(r"\[(.*)\]", what)
            missing = [e for e in extras[1].split(",") if e not in _extras()] if extras else []
            return f"no such extra: {missing}" if missing else ""
        case ["gradplan", *arguments]:
            return _wrong_arguments(arguments[: [*arguments, "|"].index("|")])
        case ["python", "-m", module, *_]:
            return "" if find_spec(module) else "no such module"
        case ["python", script, *_]:
            return "" if (ROOT / script).exists() else "no such file"
        case ["git", "clone", *_] | ["cd", *_]:
            return ""
    return "a command that this check does not know"


def _targets() -> list[str]:
    return re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def _extras() -> list[str]:
    text = (ROOT / "pyproject.toml").read_text()
    section = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    return re.findall(r"^(\w+) =", section, re.MULTILINE)


def _wrong_arguments(arguments: Sequence[str]) -> str:
    from gradplan.cli import parser

    try:
        parser().parse_args(arguments)
    except SystemExit as stop:
        return "" if not stop.code else "no such option"
    return ""


def main(arguments: Sequence[str]) -> int:
    write = "--write" in arguments
    given = [Path(a).resolve() for a in arguments if not a.startswith("--")] or pages()
    failed = False
    for path in given:
        result = check(path)
        if write and result.renewed != path.read_text(encoding="utf-8"):
            path.write_text(result.renewed, encoding="utf-8")
            print("wrote", path.name)
        elif result.problems:
            failed = True
            print("\n".join(result.problems))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
