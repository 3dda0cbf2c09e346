"""Writes the README's line about speed, from the board in docs/performance.md.

python tools/speed_line.py            write it
python tools/speed_line.py --check    exit with 1 if it is not current
"""

from __future__ import annotations

import re
import sys
import textwrap

from stubs import write
from tables import ROOT, renewed

_CLAIMS = (
    ("embedding_backward", "torch", "PyTorch's speed for the gradient of an embedding"),
    ("cumsum_backward", "torch", "for that of a running sum"),
    ("sparsemax_backward", "entmax", "entmax's for that of sparsemax"),
)


def speed() -> str:
    """The README's line, from the board in docs/performance.md."""
    board = (ROOT / "docs/performance.md").read_text(encoding="utf-8").split("## The board")[1]
    lines = [[c.strip(" *") for c in line.split("|")[1:-1]] for line in board.splitlines()]
    heads = next(line for line in lines if line[:1] == ["function"])
    claims = []
    for function, peer, text in _CLAIMS:
        row = next(line for line in lines if line[:1] == [function] and "f32" in line)
        column = next(i for i, head in enumerate(heads) if peer in head.lower())
        ratio = re.match(r"[\d.]+", row[column])
        assert ratio is not None, row
        claims.append(f"{float(ratio[0]):.2g} times {text}")
    said = f"{', '.join(claims[:-1])}, {claims[-1]}"
    return textwrap.fill(f"And it is fast: {said} ([the board](docs/performance.md)).", 100) + "\n"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    sys.exit(write({readme: renewed(readme, ("speed", speed()))}))
