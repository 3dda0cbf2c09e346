"""Renews the outputs of commands in a document: `python tools/command_outputs.py docs/*.md`.

In every block marked "console", what stands behind `$ gradplan ...` is replaced with what the
command prints now.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

_BLOCK = re.compile(r"(?<=^```console\n)\$ gradplan (.*)\n(?:.*\n)*?(?=^```$)", re.MULTILINE)


def _run(match: re.Match[str]) -> str:
    arguments = match[1]
    done = subprocess.run(
        [sys.executable, "-m", "gradplan", *shlex.split(arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (done.stdout + done.stderr).splitlines()
    return "\n".join([f"$ gradplan {arguments}", *(line.rstrip() for line in lines)]) + "\n"


def main(paths: list[str]) -> int:
    for path in map(Path, paths):
        path.write_text(_BLOCK.sub(_run, path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
