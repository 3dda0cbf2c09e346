"""mypy --strict as users run it: with the frameworks' own types, and gradplan not theirs.

That functions and plans of `gp` are typed is checked with the project's sources (typed_usage.py).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradplan as gp

SAMPLE = Path(__file__).parent / "typed_bridges.py"


def complaints(path: Path, folder: Path) -> set[tuple[int, str]]:
    """Lines of a file, and what mypy calls its objections."""
    package = Path(gp.__path__[0])
    assert (package / "py.typed").exists()
    # What is installed is found, and mypy refuses to be told where.
    installed = package.parent.name == "site-packages"
    path_of_sources = {} if installed else {"MYPYPATH": str(package.parent)}
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary",
            "--follow-imports=silent",  # as for what is installed: only the file is reported on
            f"--cache-dir={folder}", str(path),
        ],
        env={**os.environ, **path_of_sources},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )  # fmt: skip
    lines = re.findall(r"^.*?\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    assert len(lines) == done.stdout.count(" error: "), done.stdout
    assert done.returncode == bool(lines), done.stdout + done.stderr
    return {(int(number), code) for number, code in lines}


@pytest.mark.slow
def test_wrong_calls_are_caught_and_right_ones_pass(tmp_path: Path) -> None:
    for needed in ("mypy", "torch", "jax"):
        pytest.importorskip(needed)
    marks = re.compile(r"# error: ([a-z-]+)$")
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    marked = {(n, found[1]) for n, line in enumerate(lines, 1) if (found := marks.search(line))}
    assert len(marked) > 30
    assert complaints(SAMPLE, tmp_path) == marked
