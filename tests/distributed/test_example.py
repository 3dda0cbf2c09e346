"""The example trains with the same bits on 1, 2 and 4 processes; plain PyTorch's differ there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "distributed_training.py"


@pytest.mark.slow
def test_the_example_trains_with_the_same_bits() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^ *\d process\w* +(\w{12}) +(\w{12}) +(\w{12}) *$", done.stdout, re.M)
    assert len(rows) == 2 * 3, done.stdout
    for what in (rows[:3], rows[3:]):  # the first gradient, all weights at last
        ours, ddp, dtensor = map(set, zip(*what, strict=True))
        assert len(ours) == 1, done.stdout
        assert len(ddp) > 1 and len(dtensor) > 1, done.stdout
    first, last = map(float, re.findall(r"loss (\S+) -> (\S+)", done.stdout)[0])
    assert last < 0.8 * first
