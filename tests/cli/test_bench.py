"""`gradplan bench`: the board, its peers, and what it writes. The page has tests of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from board_sample import sample_results

import gradplan as gp
from gradplan.bench import (
    board,
    contention,
    data,
    jax_bridge,
    load,
    markdown,
    measure,
    page,
    results,
    styles,
    tables,
    torch_bridge,
)
from gradplan.bench.board import Cell, Problem
from gradplan.bench.contention import Reading, Watch, warning_after, warning_before
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
    monkeypatch.setattr(results, "STYLES", ["near 1", "half -inf"])
    monkeypatch.setattr(results, "_LOAD_SECONDS", 0.01)
    monkeypatch.setattr(results, "_STYLE_TURNS", 1)
    monkeypatch.setattr(measure, "_BURST", 1e-5)
    monkeypatch.setattr(measure, "_SPIN", 0.0)
    monkeypatch.setattr(board, "STYLED", 2**10)
    monkeypatch.setattr(board, "LOADS", (2**8,))
    # JAX compiles for a second per cell; that its calls work is tested below.
    monkeypatch.setattr(measure, "PEERS", [peer for peer in PEERS if peer.name != "jax"])
    for name in ("FULL", "QUICK", "SIZED"):
        monkeypatch.setattr(results, name, measure.Effort(seconds=1e-3, rounds=2, least=1))


# The board -----------------------------------------------------------------------------------


def test_the_board_is_complete() -> None:
    """Every function but the twins of others is on it, for every element type."""
    cells = list(board.board_cells())
    twins = {"cummin", "cummin_backward", "cummin_indices", "cummin_with_indices"}
    twins |= {"segment_min", "unsorted_segment_min", "segment_min_backward"}
    twins |= {"segment_min_with_indices", "unsorted_segment_min_with_indices"}
    functions = {f.name for op in OPS.values() for f in op.functions}
    # By pointers the kernels by ids run; parts of scans are the scans' own sweeps.
    twins |= {name for name in functions if "_csr" in name or name.startswith("scan_part")}
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
    assert found.short == [
        "0.50 of memcpy, not 0.75",
        "3.00x torch, not 5x",
        "0.50x jax, not 1x",
    ]


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
    document.write_text(f"before\n{markdown.BEGIN}\nlast year's\n{markdown.END}\nafter\n")
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
    assert "of memcpy" in text
    assert "x PyTorch" in text
    assert "\x1b" not in text
    found = json.loads((tmp_path / "b.json").read_text())
    assert {cell["element"] for cell in found["cells"]} == {e.value for e in FLOATS}
    assert set(found["nanoseconds_per_element"]["cumsum"]) == {"256", "1024"}
    assert found["other_processes"]["cpus"] == len(os.sched_getaffinity(0))
    assert {(m["function"], m["elements"], m["across"]) for m in found["sizes"]} >= {
        ("cumsum", 1024, False),
        ("cumsum", 1024, True),
        ("lerp", 256, False),
    }
    assert {m["problem"] for m in found["values"]} == {"near 1", "half -inf"}
    cpus = len(os.sched_getaffinity(0))
    assert [(m["busy"], m["alternating"]) for m in found["other_work"]] == [
        (busy, alternating) for alternating in (False, True) for busy in sorted({0, 1, cpus})
    ]
    for heading in ("Every size", "Every value", "Other work on the machine"):
        assert heading in (tmp_path / "b.html").read_text()
    assert "<svg" in (tmp_path / "b.html").read_text()
    renewed = document.read_text()
    assert renewed.startswith("before\n")
    assert renewed.endswith("\nafter\n")
    assert "last year's" not in renewed
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


def test_markdown() -> None:
    text = markdown.board(sample_results())
    assert "| function | problem | type | of memcpy | x PyTorch | x JAX | x entmax |" in text
    sizes = " | ".join(f"2^{p}" for p in (12, 14, 16, 18, 20, 22, 24, 26, 27))
    assert f"| function | {sizes} |" in text
    assert "| function | 16 KiB | 64 KiB | 256 KiB | 1 MiB | 4 MiB | 16 MiB | 64 MiB |" in text
    assert "**" not in text  # nothing disturbed it


# Goals ---------------------------------------------------------------------------------------

GOALS = re.compile("goal|figure|wanted|short|score", re.IGNORECASE)


def visible(text: str) -> str:
    return re.sub("<style>.*?</style>|<[^>]*>", "", text, flags=re.DOTALL)


def test_goals_are_the_projects_own_business() -> None:
    """What users see has none of them."""
    found = sample_results().as_json()
    for text in (markdown.board(sample_results()), json.dumps(found)):
        assert not GOALS.search(text)
    for text in (page.picture(found), page.page(found)):
        assert not GOALS.search(visible(text))
        assert "memcpy" in visible(text)
    assert not any(entry.goal for t in tables.tables(found) for row in t.rows for entry in row)


@pytest.mark.usefixtures("small_board")
def test_goals_on_demand(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    only = ["bench", "--quick", "--op", "segment_sum", "--json", str(path)]
    assert main(only) == 0
    assert not GOALS.search(capsys.readouterr().out.partition("written to")[0])
    assert main([*only, "--goals"]) == 0
    text = capsys.readouterr().out
    assert "short segment_sum f32 small" in text
    assert "goals are reached" in text
    assert "(1e+09)" in text
    (cell,) = json.loads(path.read_text())["cells"]
    assert cell["goals"]["ratios"]["torch"] == 1e9


def test_summary() -> None:
    found = sample_results().as_json()
    found["cells"] = [
        {**found["cells"][0], "of_memcpy": speed, "ratios": ratios}
        for speed, ratios in ((0.9, {"torch": 6.14, "jax": 0.5}), (0.5, {"torch": 2}), (1.2, {}))
    ]
    found |= {"sizes": [], "calls": [], "values": []}
    assert tables.summary(found) == (
        "Median of 3 problems: 0.90 of memcpy, 4.1x PyTorch, 0.50x JAX; "
        "slower in 1 of 3 comparisons, at best 6.1x"
    )
    found["sizes"] = [{"ratios": {"torch": 98.7}}]
    assert tables.summary(found).endswith("slower in 1 of 4 comparisons, at best 98.7x")
    found["cells"][0]["ratios"]["jax"] = 1.0
    assert tables.summary(found).endswith("never slower in 4 comparisons, at best 98.7x")
    found["cells"][0]["ratios"]["jax"] = 0.98
    assert "never more than 3% slower in 4 comparisons" in tables.summary(found)
    assert tables.summary({**found, "cells": []}) == ""


# Values and load -----------------------------------------------------------------------------


def test_styles_are_what_they_say() -> None:
    drawn = {name: styles.draw(name, (70, 1000)) for name in styles.STYLES}
    assert all(x.dtype == np.float32 and x.shape == (70, 1000) for x in drawn.values())
    tiny = np.finfo(np.float32).tiny
    assert (np.abs(drawn["1e-39"]) < tiny).mean() > 0.99
    assert (np.diff(drawn["ascending"]) >= 0).all() and (np.diff(drawn["descending"]) <= 0).all()
    assert 0.005 < (drawn["1 % zeros"] == 0).mean() < 0.02
    assert 0.005 < np.isnan(drawn["1 % NaN"]).mean() < 0.02
    assert (np.isposinf(drawn["one inf"]).sum(1) == 1).all()
    assert 0.45 < np.isneginf(drawn["half -inf"]).mean() < 0.55
    assert len({row.tobytes() for row in drawn["N(0, 1)"]}) > 50
    assert styles.draw("zeros", (0, 5)).shape == (0, 5) and styles.draw("zeros", ()).shape == ()


def test_the_spread_of_a_call_is_its_mean_and_its_slow_end() -> None:
    found = load.Spread.of([1.0] * 96 + [11.0] * 4)
    assert (found.mean, found.slow) == (1.4, 11.0)
    before, seen, between = gp.get_num_threads(), [], []

    def call() -> None:
        seen.append(gp.get_num_threads())

    spread = load.spreads(call, {"one": 1, "three": 3}, 0.1, lambda: between.append(1))
    assert set(spread) == {"one", "three"} and set(seen) == {1, 3}
    assert len(between) == len(seen) and gp.get_num_threads() == before


def test_busy_processes_end() -> None:
    with load.busy_processes(2):
        mine = [p for p in _children() if "getppid" in p[1]]
        assert len(mine) == 2
    assert not any(Path(f"/proc/{number}").exists() for number, _ in mine)


def _children() -> list[tuple[str, str]]:
    own = str(os.getpid())
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "stat").read_text().rpartition(")")[2].split()[1] == own:
                found.append((path.name, (path / "cmdline").read_text()))
    return found


# Other processes -----------------------------------------------------------------------------


def readings(*used: tuple[float, float]) -> Callable[[], Reading]:
    """Two seconds apart: CPUs that we use, and others."""
    clock = busy = own = 0.0
    made = [Reading(clock, busy, own)]
    for ours, others in used:
        clock, busy, own = clock + 2, busy + 2 * (ours + others), own + 2 * ours
        made.append(Reading(clock, busy, own))
    return iter(made).__next__


def watched(*used: tuple[float, float]) -> dict[str, Any]:
    watch = Watch(readings(*used))
    watch.look(pause=lambda seconds: None)
    for _ in used[1:]:
        watch.step()
    return watch.as_json()


def test_others_are_told_apart_from_ourselves() -> None:
    found = watched((0, 0.5), (2, 0.02), (1.5, 0.7), (2, 0))
    assert found["used_before"] == 0.5
    assert found["used_at_most"] == 0.7
    assert (found["stretches"], found["stretches_disturbed"]) == (3, 1)
    assert "using 0.5 of" in str(warning_before(found))
    assert "up to 0.7 of" in str(warning_after(found))
    assert "33% of the time" in str(warning_after(found))


def test_no_warning_on_a_quiet_machine() -> None:
    """However busy we are ourselves; what an idle machine does is not a disturbance."""
    found = watched((0, 0.08), (64, 0.1), (2, 0.05), (0.1, 0))
    assert found["used_at_most"] == 0.1
    assert warning_before(found) is None
    assert warning_after(found) is None


def test_a_busy_process_is_noticed() -> None:
    spin = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    watch = Watch()
    with subprocess.Popen(spin, stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        watch.look()
        busy.kill()
    assert warning_before(watch.as_json()) is not None


def test_counters_of_the_kernel(tmp_path: Path) -> None:
    first, *_ = sorted(os.sched_getaffinity(0))
    stat, tick = tmp_path / "stat", 1 / os.sysconf("SC_CLK_TCK")
    stat.write_text(f"cpu 9 9 9 9 9 9 9 9 9 9\ncpu{first} 1 2 4 800 1600 8 16 32 0 0\nintr 5\n")
    found = contention.read(stat)
    assert found is not None
    assert found.busy == pytest.approx(63 * tick)  # all but idle and waiting
    stat.write_text("cpu 1 2 3\n")
    assert contention.read(stat) is None
    assert contention.read(tmp_path / "absent") is None


def test_counters_that_do_not_count() -> None:
    """Where nothing can be known nothing is said."""
    standing = Reading(0, 5, 0), Reading(2, 5, 3)
    assert contention.used_by_others(*standing) is None
    absent = Watch(lambda: None)
    absent.look(pause=lambda seconds: None)
    absent.step(last=True)
    found = absent.as_json()
    assert found["used_before"] is None
    assert warning_before(found) is None
    assert warning_after(found) is None


def test_who_reads_the_results_is_warned() -> None:
    results = sample_results()
    assert "Disturbed" not in page.page(results.as_json())
    results.watch.stretches[:] = [0.0, 1.5]
    assert "up to 1.5 of" in page.page(results.as_json())
    assert "up to 1.5 of" in markdown.board(results)


@pytest.mark.usefixtures("small_board")
def test_the_command_warns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*used: tuple[float, float]) -> str:
        turns = readings(*used, *[used[-1]] * 20)
        monkeypatch.setattr(results, "Watch", lambda: Watch(turns))
        monkeypatch.setattr(contention.time, "sleep", lambda seconds: None)
        assert main(["bench", "--quick", "--op", "lerp"]) == 0
        return capsys.readouterr().out

    text = run((0, 1.0), (2, 0.9))
    assert text.startswith("warning other processes are using 1.0 of")
    assert "warning other processes used up to 0.9 of" in text.splitlines()[-1]
    assert "warning" not in run((0, 0.0), (2, 0.0))
