"""Bridges, benchmark and command line are made from the declarations: they name no op."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gradplan
from gradplan.declaration import OPS

PACKAGE = Path(gradplan.__file__).parent
FOLDERS = ("torch", "jax", "bench", "cli")
NAMES = {f.name for op in OPS.values() for f in op.functions} | set(OPS)


def named(source: str) -> Iterator[str]:
    """The names of ops in code: identifiers and whole strings, but not in prose."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found = node.id
        elif isinstance(node, ast.Attribute):
            found = node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = node.value.removesuffix("_backward")
        else:
            continue
        if found in NAMES:
            yield found


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_op_is_named(folder: str) -> None:
    # A namespace speaks the framework's language: its own running maximum of integers, say. What
    # several ranks compute together is made of particular ops, and so are another library's
    # functions.
    files = [
        p
        for p in (PACKAGE / folder).rglob("*.py")
        if p.stem not in ("namespace", "scatter", "distributed") and p.parent.name != "distributed"
    ]
    assert len(files) > 3
    for path in files:
        assert not list(named(path.read_text())), path.name


def test_an_op_that_is_named_is_noticed() -> None:
    assert list(named('"""cumsum, in prose."""\nx = 1')) == []
    for code in (
        "torch.cumsum(x)",
        "lerp(a, b)",
        'OPERATORS["segment_sum"]',
        "f = 'scan_backward'",
    ):
        assert len(list(named(code))) == 1
