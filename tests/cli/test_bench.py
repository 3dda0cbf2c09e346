"""`gradplan bench`: the board, its peers, and what it writes. The page has tests of its own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from board_sample import sample_results

from gradplan.bench import board, data, jax_bridge, markdown, measure, results, torch_bridge
from gradplan.bench.board import Cell, Problem
from gradplan.bench.peers import PEERS, Library
from gradplan.cli import main
from gradplan.declaration import OPS, Figure
from gradplan.plan import plan_class
from gradplan.vocabulary import FLOATS, ElementKind

SMALL_PROBLEM = Problem("small", (6, 40), rows=(50, 7, 5))


def small_cells() -> list[Cell]:
    return [
        Cell(op, function, ElementKind.F32, SMALL_PROBLEM)
        for op, function in board.functions().values()
    ]


@pytest.fixture
def small_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board with problems and efforts of no size."""
    reachable, not_so = Figure("small", 0.75, "torch", 5), Figure("small", 1e-9, "torch", 1e9)
    figures = {"cumsum": reachable, "lerp": reachable, "segment_sum": not_so}
    functions = {
        name: (op, dataclasses.replace(f, figures=(figures[name],) if name in figures else ()))
        for name, (op, f) in board.functions().items()
    }
    monkeypatch.setattr(board, "functions", lambda: functions)
    monkeypatch.setattr(board, "PROBLEMS", {"small": SMALL_PROBLEM})
    monkeypatch.setattr(results, "SIZES", (2**8, 2**10))
    monkeypatch.setattr(results, "_QUICK_SIZES", (2**8,))
    # JAX compiles for a second per cell; that its calls work is tested below.
    monkeypatch.setattr(measure, "PEERS", [peer for peer in PEERS if peer.name != "jax"])
    for name in ("FULL", "QUICK"):
        monkeypatch.setattr(results, name, measure.Effort(seconds=1e-3, rounds=2, least=1))


# The board -----------------------------------------------------------------------------------


def test_the_board_is_complete() -> None:
    """Every function but the twins of others is on it, for every element type."""
    cells = list(board.board_cells())
    twins = {"cummin", "cummin_backward", "cummin_indices"}
    functions = {f.name for op in OPS.values() for f in op.functions}
    for element in FLOATS:
        on_it = {cell.function.name for cell in cells if cell.element is element}
        assert on_it == functions - twins
    assert {cell.function.name for cell in board.call_cells()} == functions
    assert {cell.function.name for cell in board.size_cells(2**16)} == functions


def test_figures_of_other_types_follow_f32() -> None:
    cells = {
        (c.element.value, c.problem.label): c
        for c in board.board_cells()
        if c.function.name == "cumsum"
    }
    plain, narrow = cells["f32", "4096 x 4096"], cells["bf16", "4096 x 4096"]
    assert plain.score == 0.75
    assert narrow.score == pytest.approx(0.6)
    assert plain.figure("torch") == 5
    assert narrow.figure("torch") == 1
    assert plain.figure("jax") == 1


def test_bytes_are_counted_once_each() -> None:
    op, function = board.functions()["embedding_backward"]
    cell = Cell(op, function, ElementKind.F32, Problem("", rows=(10, 4, 3)))
    tensors = data.tensors(cell)
    assert data.bytes_moved(op.operands(cell.descriptor()), tensors) == (30 + 12) * 4 + 10 * 8


def test_distributions_of_indices() -> None:
    count = 30000
    hot = data.row_numbers(count, 1000, "hot", ascending=False)
    assert 0.3 < (hot == 500).mean() < 0.37
    zipf = data.row_numbers(count, 1000, "zipf", ascending=True)
    assert (np.diff(zipf) >= 0).all()
    assert (zipf == 0).mean() > 0.1
    for drawn in (hot, zipf):
        assert drawn.min() >= 0
        assert drawn.max() < 1000


# Peers ---------------------------------------------------------------------------------------


def test_figures_name_problems_and_peers() -> None:
    libraries = {peer.name for peer in PEERS}
    for _, function in board.functions().values():
        assert {figure.problem for figure in function.figures} <= set(board.PROBLEMS)
        assert {figure.peer for figure in function.figures} <= libraries
        assert {peer.library for peer in function.peers} <= libraries


def compared(library: Library) -> int:
    """The comparison is fair only if they do our work."""
    count = 0
    for cell in small_cells():
        tensors = data.tensors(cell)
        operands = cell.op.operands(cell.descriptor())
        outputs = [o.name for o in operands if not o.is_input]
        plan_class(cell.op).select(cell.descriptor()).run(**tensors)
        ours = [tensors[name].copy() for name in outputs]
        call = library.calls(cell, tensors)
        if call is None or cell.function.name == "sparsemax_backward":
            continue  # entmax's is that of its own forward
        theirs = call()
        theirs = theirs[: len(ours)] if isinstance(theirs, tuple) else (theirs,)
        for name, want, got in zip(outputs, ours, theirs, strict=True):
            np.testing.assert_allclose(
                np.asarray(got), want, rtol=1e-4, atol=1e-5, err_msg=f"{cell.name} {name}"
            )
        count += 1
    return count


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_peers_compute_the_same(peer: Library) -> None:
    pytest.importorskip(peer.name)
    assert compared(peer) >= {"torch": 17, "jax": 17, "entmax": 1}[peer.name]


@pytest.mark.parametrize("bridge", [torch_bridge.Bridge(), jax_bridge.Bridge(), jax_bridge.Jax()])
def test_bridges_and_what_they_are_measured_against_compute_the_same(bridge: Library) -> None:
    pytest.importorskip(bridge.name)
    assert compared(bridge) >= 18


def test_a_gradient_through_the_peer_of_its_forward() -> None:
    """What the gradient does not have may be any tensor: the result does not depend on it."""
    pytest.importorskip("torch")
    op, function = board.functions()["segment_sum_backward"]
    cell = Cell(op, dataclasses.replace(function, peers=()), ElementKind.F32, SMALL_PROBLEM)
    tensors = data.tensors(cell)
    call = PEERS[0].calls(cell, tensors)
    assert call is not None
    (got,) = call()
    want = plan_class(op).select(cell.descriptor()).run(**tensors)
    np.testing.assert_array_equal(np.asarray(got), want)


# Measuring -----------------------------------------------------------------------------------


def test_contenders_alternate_and_the_best_counts() -> None:
    order: list[str] = []
    calls = {name: (lambda name=name: order.append(name)) for name in "abc"}
    times = measure.best_times(calls, measure.Effort(seconds=10, rounds=3))
    assert order == list("abcabcabc")
    assert set(times) == set("abc")


def test_scores_and_shortfalls() -> None:
    cell = Cell(*board.functions()["cumsum"], ElementKind.F32, SMALL_PROBLEM, 0.75, {"torch": 5.0})
    times = {measure.OURS: 2.0, measure.COPY: 1.0, "torch": 6.0, "jax": 1.0}
    found = measure.Measured(cell, 0, times)
    assert found.score == 0.5
    assert found.ratios == {"torch": 3.0, "jax": 0.5}
    assert found.short == ["score 0.50 of 0.75", "3.00x torch of 5x", "0.50x jax of 1x"]


def test_a_peer_that_cannot_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Limited(Library):
        def calls(self, cell: Cell, tensors: Any) -> Any:
            raise TypeError("not this element type\nand more")

    monkeypatch.setattr(measure, "PEERS", (Limited("numpy"),))
    found = measure.measure(small_cells()[0], measure.Effort(seconds=1e-3, rounds=1))
    assert found.absent == {"numpy": "TypeError: not this element type"}
    assert found.score is not None


def test_memory_that_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "available_memory", lambda: 1000)
    assert measure.measure_size(small_cells()[0], measure.QUICK) is None


# The command ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("small_board")
def test_the_command_writes_everything(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text(f"before\n{markdown.BEGIN}\nold\n{markdown.END}\nafter\n")
    files = [
        "--json",
        str(tmp_path / "b.json"),
        "--html",
        str(tmp_path / "b.html"),
        "--svg",
        str(tmp_path / "b.svg"),
        "--markdown",
        str(document),
    ]
    assert main(["bench", *files]) == 0
    text = capsys.readouterr().out
    assert "short segment_sum f32 small" in text
    assert "cells reach their figures" in text
    assert "\x1b" not in text
    found = json.loads((tmp_path / "b.json").read_text())
    assert {cell["element"] for cell in found["cells"]} == {e.value for e in FLOATS}
    assert set(found["nanoseconds_per_element"]["cumsum"]) == {"256", "1024"}
    assert "<svg" in (tmp_path / "b.html").read_text()
    renewed = document.read_text()
    assert renewed.startswith("before\n")
    assert renewed.endswith("\nafter\n")
    assert "old" not in renewed
    assert "| cumsum | small | f32 |" in renewed
    assert {p.name for p in tmp_path.iterdir()} == {
        "b.json",
        "b.html",
        "b.svg",
        "performance.md",
    }


@pytest.mark.usefixtures("small_board")
def test_choices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    assert main(["bench", "--quick", "--op", "scan", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert [(c["function"], c["element"]) for c in found["cells"]] == [("cumsum", "f32")]
    assert found["quick"]
    assert main(["bench", "--op", "lerp", "--dtype", "bf16,f64", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert [(c["function"], c["element"]) for c in found["cells"]] == [
        ("lerp", "bf16"),
        ("lerp", "f64"),
    ]


def test_a_document_without_marks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("nothing")
    assert main(["bench", "--markdown", str(path)]) == 2
    assert markdown.BEGIN in capsys.readouterr().err
    assert path.read_text() == "nothing"


@pytest.mark.slow
@pytest.mark.usefixtures("small_board")
def test_interruption_leaves_no_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(results, "measure_call", interrupted)
    assert main(["bench", "--html", str(tmp_path / "a.html")]) == 130
    assert list(tmp_path.iterdir()) == []


def test_markdown_marks_what_falls_short() -> None:
    text = markdown.board(sample_results())
    assert "**0.30** (0.75)" in text
    assert "| function | 2^16 | 2^20 | 2^24 | 2^27 |" in text
