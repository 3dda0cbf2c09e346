"""Every code block of the README and of docs/ does what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from blocks import blocks, check, pages  # noqa: E402

# Another test runs those that say more than that they run (tests/distributed/test_example.py).
EXAMPLES = [p for p in sorted(ROOT.glob("examples/*.py")) if not p.stem.startswith("distributed")]
WITH_BLOCKS = [path for path in pages() if "```" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_page_does_what_it_says(page: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    assert not (problems := check(page).problems), "\n\n".join(problems)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```python\n{example.read_text(encoding='utf-8')}```\n", encoding="utf-8")
    assert not check(page).problems


@pytest.mark.slow
def test_the_gradients_of_the_readme_differ_without_gradplan() -> None:
    """The README's problem is one: four runs of its script, and PyTorch's digests differ."""
    pytest.importorskip("torch")
    from blocks import _run_python

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    script = next(block for block in blocks(text) if block.language == "python")
    (printed,) = _run_python([script], Path("README.md")).values()
    plain = re.findall(r"PyTorch (\w+)", printed)
    ours = re.findall(r"gradplan (\w+)", printed)
    assert len(plain) == len(ours) == 4
    assert len(set(plain)) > 1
    assert len(set(ours)) == 1
    assert plain[0] == ours[0]  # one thread adds in the order of the contract


# That the check would notice ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "noticed"),
    [
        ("```python\nassert 1 == 2\n```", "AssertionError"),
        ("```python\nx = 1\n```\n\n```python\nprint(y)\n```", "NameError"),
        ("```python\nprint(1)\n```\n\n<!-- output -->\n```text\n2\n```", "printed\n1"),
        ("<!-- output -->\n```text\n2\n```", "no block"),
        ("```console\n$ echo a\nb\n```", "printed\n$ echo a\na"),
        ("1. A list:\n\n   ```console\n   $ echo a\n   b\n   ```", "printed\n$ echo a\na"),
        ("```sh\nmake nonsense\n```", "no such target"),
        ("```sh\npip install '.[nonsense]'\n```", "no such extra"),
        ("```sh\ngradplan bench --nonsense\n```", "no such option"),
        ("<!-- not run: slow -->\n```console\n$ gradplan bench --nonsense\n```", "no such option"),
        ("```sh\npython nonsense.py\n```", "no such file"),
        ("```sh\npython -m nonsense\n```", "no such module"),
        ("```sh\nnonsense\n```", "does not know"),
        ("```\nnonsense\n```", "expected one of"),
    ],
)
def test_what_is_wrong_is_noticed(tmp_path: Path, page: str, noticed: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(page + "\n", encoding="utf-8")
    assert any(noticed in problem for problem in check(path).problems)


def test_what_varies_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    text = "```python\nprint('took', 3, 's: equal')\n```\n\n<!-- output but for \\d+ s -->\n"
    path.write_text(text + "```text\ntook 4 s: equal\n```\n", encoding="utf-8")
    assert not check(path).problems
    path.write_text(text + "```text\ntook 4 s: other\n```\n", encoding="utf-8")
    result = check(path)
    assert result.problems
    assert "took 3 s: equal\n```" in result.renewed
    path.write_text(result.renewed, encoding="utf-8")
    assert not check(path).problems
