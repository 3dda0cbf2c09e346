"""The contract's constants stand in one place: C++ and the document have the reference's."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def contract() -> Iterator[Any]:
    """tools/contract.py."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        yield importlib.import_module("contract")
    finally:
        sys.path.remove(str(ROOT / "tools"))


FILES = ("csrc/lanes/order.h", "csrc/lanes/exp_log.h", "docs/numerics.md")


@pytest.mark.parametrize("name", FILES)
def test_constants_are_those_of_the_reference(name: str, contract: Any) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert {*contract.FILES} == {*FILES}
    assert contract.FILES[name](text) == text


@pytest.mark.parametrize(
    ("name", "number", "other"),
    [
        ("csrc/lanes/order.h", "kBlock = 256", "kBlock = 128"),
        ("csrc/lanes/order.h", "kChunk = 4096", "kChunk = 2048"),
        ("csrc/lanes/exp_log.h", "0x1.55545ap-3f", "0x1.55545cp-3f"),
        ("csrc/lanes/exp_log.h", "0x1.3337969c7dcc2p-3", "0x1.3337969c7dcc4p-3"),
        ("csrc/lanes/exp_log.h", "kExpZero = -746.0", "kExpZero = -745.0"),
        ("csrc/lanes/exp_log.h", "kLogLeast = 0x1.62p-1", "kLogLeast = 0x1.63p-1"),
        ("docs/numerics.md", "0x1.6999ep-10", "0x1.6999cp-10"),
    ],
)
def test_another_number_is_noticed_and_put_right(
    name: str, number: str, other: str, contract: Any
) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    wrong = text.replace(number, other)
    assert wrong != text
    assert contract.FILES[name](wrong) == text


def test_a_constant_that_is_not_there_is_an_error(contract: Any) -> None:
    text = (ROOT / "csrc/lanes/order.h").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="kChunk: expected a definition with 1 numbers"):
        contract.lengths(text.replace("kChunk", "kOther"))


def test_nobody_else_states_a_coefficient(contract: Any) -> None:
    """Numbers of exp and log stand in the reference and where they are written to."""
    written = {ROOT / name for name in FILES} | {ROOT / "src/gradplan/reference/elementary.py"}
    terms = set(
        re.findall(r"0x1\.[\da-f]{5,}p[+-]\d+", contract.table((ROOT / FILES[2]).read_text()))
    )
    assert len(terms) > 20
    sources = [*ROOT.glob("csrc/**/*.h"), *ROOT.glob("csrc/**/*.cc"), *ROOT.glob("src/**/*.py")]
    copies = [
        f"{path.relative_to(ROOT)}: {term}"
        for path in sources
        if path not in written
        for term in terms
        if term in path.read_text(encoding="utf-8")
    ]
    assert not copies
