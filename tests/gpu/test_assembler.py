"""What ptxas says of the kernels, and that the same sources compile for AMD."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ptx_snippets import module

from gradplan.engines.cuda import archive
from gradplan.engines.cuda.kernels.catalogue import catalogue
from gradplan.engines.cuda.kernels.compiler import AMD, compile_for_amd

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def table() -> Iterator[Any]:
    """tools/gpu_table.py."""
    sys.path.insert(0, str(TOOLS))
    try:
        yield importlib.import_module("gpu_table")
    finally:
        sys.path.remove(str(TOOLS))


def test_the_table_is_about_the_shipped_kernels_and_nothing_spills(table: Any) -> None:
    lines = table.read_table(table.DOCUMENT.read_text())
    shipped = {key: b.digest[: table.DIGITS] for key, b in archive.load().items()}
    assert {key: line.digest for key, line in lines.items()} == shipped
    assert not [key for key, line in lines.items() if line.spilled]
    assert max(r for line in lines.values() for r in line.registers) < 255


@pytest.mark.slow
def test_every_generation_takes_a_kernel(table: Any) -> None:
    """The check of tools/gpu_table.py has another sample every day."""
    lines = table.read_table(table.DOCUMENT.read_text())
    largest = max(lines.values(), key=lambda line: line.ptx)
    assert table.line_of(archive.load()[largest.key]) == largest


def test_a_line_is_read_as_it_is_written(table: Any) -> None:
    line = table.Line("a/b", (1, 2, 3, 4, 5, 6), 0, 512, 3, 40, 50, "0123456789ab")
    assert table.Line.parse(str(line)) == line
    text = f"before\n{table.BEGIN}{table.END}after\n"
    assert table.read_table(table.document(text, [line])) == {"a/b": line}


def test_spills_are_seen(table: Any) -> None:
    """More values than registers, each needed again at the end."""
    loads = "".join(f"ld.global.b32 %v{i}, [%rd1 + {4 * i}];" for i in range(400))
    stores = "".join(f"st.global.b32 [%rd1 + {4 * i}], %v{(i * 7 + 3) % 400};" for i in range(400))
    body = f".reg .b32 %v<400>; ld.param.b64 %rd1, [at_0]; {loads} bar.sync 0; {stores}"
    _, spilled, _ = table.assemble(module(body, 1).encode(), "sm_80")
    assert spilled > 0


def test_what_ptxas_refuses_is_an_error(table: Any) -> None:
    with pytest.raises(ValueError, match="ptxas for sm_90"):
        table.assemble(module("add.rn.f32 %r1, %r2;", 0).encode(), "sm_90")


# AMD -----------------------------------------------------------------------------------------


def one_of_each_module(which: int) -> list[str]:
    """A kernel of every file of sources."""
    by_module: dict[str, list[str]] = {}
    for key, kernel in catalogue().items():
        by_module.setdefault(kernel.function.__module__, []).append(key)
    return [keys[(number + which) % len(keys)] for number, keys in enumerate(by_module.values())]


@pytest.mark.parametrize("target", AMD)
@pytest.mark.slow
def test_sources_compile_for_amd(target: str) -> None:
    for key in one_of_each_module(list(AMD).index(target)):
        code = compile_for_amd(catalogue()[key], AMD[target])
        assert code[:4] == b"\x7fELF", key
