"""`gradplan bench`: the speed board in one run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from gradplan.bench import contention, gpu, markdown, page, tables, tune
from gradplan.bench.board import Cell, board_cells
from gradplan.bench.measure import FULL, OURS, QUICK, Measured
from gradplan.bench.results import SECTIONS, Results, chosen_cells, steps
from gradplan.cli.certify import element_names, names
from gradplan.cli.files import check_writable, is_standard_output, write_file
from gradplan.cli.terminal import UserError, choose, console, progress
from gradplan.engines import ENGINES
from gradplan.engines.cuda.launches.choices import CHOICES, VARIABLE, as_text
from gradplan.machine import machine

NAME = "bench"
HELP = "measure the speed board: against memcpy, PyTorch, JAX and entmax"
DESCRIPTION = """\
Measures the speed board in one run. Ours, a parallel memcpy of the bytes that the problem must move
at least once, and what is installed of PyTorch, JAX and entmax take turns with the same threads and
preallocated outputs; the best of several counts.

  of memcpy   our speed as a multiple of the memcpy's: 1.0 is as fast as copying
  x PyTorch   how many times faster than PyTorch: 6.1 is 6.1x PyTorch

Close other programs first; a warning says if others used the CPUs before or during the run.
"""
EPILOG = """\
examples:
  gradplan bench --quick                      f32 only, fewer rounds: a minute or two
  gradplan bench --op cumsum,scan_backward    some functions or ops
  gradplan bench --dtype bf16                 one element type
  gradplan bench --section values,load        every style of values; beside other work
  gradplan bench --engine cuda --quick        on a GPU, against PyTorch there
  gradplan bench --engine cuda --tune         which thresholds and variants suit that GPU
  gradplan bench --json b.json --html b.html  everything in about ten minutes, and a page

FILE may be - for standard output; everything else is then said on standard error.

exit status: 0 measured, 2 misuse
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--op", action="append", metavar="NAME", help="only these functions or ops, comma-separated"
    )
    parser.add_argument(
        "--dtype", action="append", metavar="TYPE", help="only these element types: f16, f32, ..."
    )
    parser.add_argument(
        "--section",
        action="append",
        metavar="NAME",
        help=f"only these parts, comma-separated: {', '.join(SECTIONS)}",
    )
    parser.add_argument(
        "--engine", choices=("cpu", "cuda"), default="cpu", help="cuda: the board on a GPU"
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="with --engine cuda: measure what only hardware can settle, and say what suits it",
    )
    parser.add_argument("--quick", action="store_true", help="f32 unless --dtype, fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a picture of the f32 part")
    parser.add_argument(
        "--goals",
        action="store_true",
        help="also what the project wants to reach, in brackets, and where it falls short",
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="renew the board between its marks in a file"
    )


def run(options: argparse.Namespace) -> int:
    if options.engine == "cuda":
        return _run_on_gpu(options)
    if options.tune:
        raise UserError("--tune: with --engine cuda; on a CPU there is nothing to choose")
    if options.markdown is not None:
        _check_marks(options.markdown)
    files = [options.json, options.html, options.svg, options.markdown]
    out = console(stderr=check_writable(files))
    results = measured(
        out,
        Results(quick=options.quick),
        names=choose(options.op, names(), "--op"),
        elements=choose(options.dtype, element_names(), "--dtype"),
        sections=choose(options.section, list(SECTIONS), "--section"),
    )
    show(out, results, goals=options.goals)
    if options.json is not None:
        _write(out, options.json, json.dumps(results.as_json(goals=options.goals), indent=1) + "\n")
    if options.html is not None:
        _write(out, options.html, page.page(results.as_json()))
    if options.svg is not None:
        _write(out, options.svg, page.picture(results.as_json()))
    if options.markdown is not None:
        text = markdown.replaced(options.markdown.read_text(encoding="utf-8"), results)
        assert text is not None  # checked before
        _write(out, options.markdown, text)
    return 0


def _run_on_gpu(options: argparse.Namespace) -> int:
    """Fewer tables, for there is less to say: ours against a copy and PyTorch, on the device."""
    for name in ("html", "svg", "markdown", "goals"):
        if getattr(options, name):
            raise UserError(f"--{name}: not with --engine cuda; --json is")
    out = console(stderr=check_writable([options.json]))
    reason = gpu.why_not()
    if reason is not None:
        raise UserError(f"--engine cuda: {reason}")
    effort = QUICK if options.quick else FULL
    wanted = choose(options.op, names(), "--op")
    elements = choose(options.dtype, element_names(), "--dtype")
    cells = chosen_cells(
        tune.problems() if options.tune else board_cells(),
        names=wanted,
        elements=elements,
        quick=options.quick,
    )
    facts: dict[str, Any] = {"engine": "cuda", **ENGINES["cuda"].facts}
    if options.tune:
        tuned = [each for cell in _shown(out, cells) for each in tune.measure(cell, effort)]
        out.print(tune_table(tuned))
        _advise(out, tune.advice(tuned))
        facts |= {"tuned": [each.as_json() for each in tuned], "advice": tune.advice(tuned)}
    else:
        found = [gpu.measure(cell, effort) for cell in _shown(out, cells)]
        out.print(gpu_table(found))
        facts["cells"] = [m.as_json() for m in found]
    if options.json is not None:
        _write(out, options.json, json.dumps(facts, indent=1) + "\n")
    return 0


def _shown(out: Console, cells: Iterable[Cell]) -> Iterator[Cell]:
    """The cells, while a line says which it is."""
    everything = list(cells)
    with progress(out) as bar:
        task = bar.add_task("starting", total=len(everything))
        for cell in everything:
            bar.update(task, description=f"{cell.function.name} {cell.element}")
            yield cell
            bar.advance(task)


def tune_table(found: Sequence[tune.Tuned]) -> Table:
    """A line for each value of each choice."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("choice", no_wrap=True)
    for head in ("value", "time of default", "best", "worst", "problems"):
        table.add_column(head, no_wrap=True, justify="right")
    table.add_column("what it is")
    advice = tune.advice(found)
    for name, by_value in tune.means(found).items():
        choice = CHOICES[name]
        for value, (mean, best, worst, count) in by_value.items():
            style = "bold green" if advice.get(name) == value else ""
            shown = f"{value} (default)" if value == choice.default else str(value)
            numbers = (f"{mean:.2f}", f"{best:.2f}", f"{worst:.2f}", str(count))
            doc = choice.doc if value == min(by_value) else ""
            table.add_row(name, shown, *numbers, escape(doc), style=style)
    return table


def _advise(out: Console, advice: Mapping[str, int]) -> None:
    if not advice:
        out.print("\nNo choice is worth making: the defaults suit this GPU.")
        return
    out.print("\nFaster here in the mean. To keep it, in the environment of every process:\n")
    out.print(f"  export {VARIABLE}={as_text(advice)}\n", soft_wrap=True)
    out.print("Results do not depend on it.")


def gpu_table(found: Sequence[Measured]) -> Table:
    """A line for each cell."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("function", "type", "problem"):
        table.add_column(head, no_wrap=True)
    for head in ("us", "of copy", "x PyTorch", "x deterministic"):
        table.add_column(head, no_wrap=True, justify="right")
    for m in found:
        ratios = [m.ratios.get(name) for name in (gpu.TORCH, gpu.DETERMINISTIC)]
        table.add_row(
            m.cell.function.name,
            m.cell.element.value,
            m.cell.problem.label,
            f"{m.times[OURS] * 1e6:.1f}",
            "-" if m.score is None else f"{m.score:.2f}",
            *("-" if ratio is None else f"{ratio:.1f}" for ratio in ratios),
        )
    return table


def _check_marks(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"{path}: no such file; --markdown renews a section of an existing one")
    text = path.read_text(encoding="utf-8")
    if markdown.replaced(text, Results(quick=True)) is None:
        raise UserError(
            f"{path}: no section to renew; add the lines '{markdown.BEGIN}' and '{markdown.END}'"
        )


def _write(out: Console, path: Path, text: str) -> None:
    write_file(path, text)
    if not is_standard_output(path):
        out.print(f"written to {escape(str(path))}")


def measured(
    out: Console,
    results: Results,
    *,
    names: list[str] | None,
    elements: list[str] | None,
    sections: list[str] | None = None,
) -> Results:
    """Measures what was asked for."""
    todo = steps(names=names, elements=elements, quick=results.quick, sections=sections)
    results.watch.look()
    _warn(out, contention.warning_before(results.watch.as_json()))
    with progress(out) as bar:
        task = bar.add_task("starting", total=len(todo))
        for cell, step in todo:
            bar.update(task, description=f"{cell.function.name} {cell.element}")
            step(results)
            results.watch.step()
            bar.advance(task)
    results.watch.step(last=True)
    return results


def _warn(out: Console, text: str | None) -> None:
    if text is not None:
        out.print(f"[bold yellow]warning[/] {escape(text)}")


# The tables ----------------------------------------------------------------------------------


def show(out: Console, results: Results, *, goals: bool) -> None:
    here, found = machine(), results.as_json(goals=goals)
    peers = tables.peers_in(found)
    versions = ", ".join(f"{tables.title_of(name)} {found['peers'][name]}" for name in peers)
    out.print(
        escape(f"{here['cpu']}, {here['threads']} threads, build {here['isa']}; {versions}\n")
    )
    for table in tables.tables(found):
        out.print(_table(table))
        out.print()
    if goals:
        _show_goals(out, results)
    out.print(tables.summary(found))
    _warn(out, contention.warning_after(found["other_processes"]))


def _show_goals(out: Console, results: Results) -> None:
    for m in results.short:
        out.print(f"[bold red]short[/] {escape(m.cell.name)}: {escape('; '.join(m.short))}")
    total = len(results.cells) + len(results.calls)
    out.print(f"{total - len(results.short)} of {total} goals are reached")


def _table(table: tables.Table) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.title, made.title_justify = table.title or None, "left"
    for head in table.heads:
        justify: JustifyMethod = "left" if head in tables.TEXT else "right"
        made.add_column(head, no_wrap=True, justify=justify)
    for row in table.rows:
        made.add_row(*map(_entry, row))
    return made


def _entry(entry: tables.Entry) -> str:
    if not entry.goal:
        return entry.text
    return f"[{'bold red' if entry.short else 'green'}]{entry.text}[/] ({entry.goal})"
