"""`gradplan bench`: the speed board in one run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradplan.bench import markdown, page
from gradplan.bench.measure import OURS, Measured
from gradplan.bench.results import Results, steps
from gradplan.cli.certify import element_names, names
from gradplan.cli.terminal import UserError, check_writable, choose, console, progress, write_file
from gradplan.machine import machine, version_of

NAME = "bench"
HELP = "measure the speed board: against memcpy, PyTorch, JAX and entmax"
DESCRIPTION = """\
Measures the speed board in one run. Ours, a parallel memcpy of the bytes that the problem must move
at least once, and the peers that are installed take turns with the same threads and preallocated
outputs; the best of several counts.

  score     time of the memcpy / our time: 1.0 is the physical limit
  x torch   how many times faster than the peer

Each cell has the figures that it has to reach (in brackets); those that fall short are listed.
Close other programs first: a busy machine measures itself.
"""
EPILOG = """\
examples:
  gradplan bench --quick                      f32 only, fewer rounds: a minute or two
  gradplan bench --op cumsum,scan_backward    some functions or ops
  gradplan bench --dtype bf16                 one element type
  gradplan bench --json b.json --html b.html  everything in about ten minutes, and a page

exit status: 0 measured (also where cells fall short), 2 misuse
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--op", action="append", metavar="NAME", help="only these functions or ops, comma-separated"
    )
    parser.add_argument(
        "--dtype", action="append", metavar="TYPE", help="only these element types: f16, f32, ..."
    )
    parser.add_argument("--quick", action="store_true", help="f32 unless --dtype, fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a picture of the f32 cells")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="renew the board between its marks in a file"
    )


def run(options: argparse.Namespace) -> int:
    for path in (options.json, options.html, options.svg):
        if path is not None:
            check_writable(path)
    if options.markdown is not None:
        _check_marks(options.markdown)
    out = console()
    results = measured(
        out,
        Results(quick=options.quick),
        names=choose(options.op, names(), "--op"),
        elements=choose(options.dtype, element_names(), "--dtype"),
    )
    show(out, results)
    if options.json is not None:
        _write(out, options.json, json.dumps(results.as_json(), indent=1) + "\n")
    if options.html is not None:
        _write(out, options.html, page.page(results.as_json()))
    if options.svg is not None:
        _write(out, options.svg, page.picture(results.as_json()))
    if options.markdown is not None:
        text = markdown.replaced(options.markdown.read_text(encoding="utf-8"), results)
        assert text is not None  # checked before
        _write(out, options.markdown, text)
    return 0


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
    out.print(f"written to {escape(str(path))}")


def measured(
    out: Console, results: Results, *, names: list[str] | None, elements: list[str] | None
) -> Results:
    """Measures what was asked for."""
    todo = steps(names=names, elements=elements, quick=results.quick)
    with progress(out) as bar:
        task = bar.add_task("starting", total=len(todo))
        for cell, step in todo:
            bar.update(task, description=f"{cell.function.name} {cell.element}")
            step(results)
            bar.advance(task)
    return results


# The tables ----------------------------------------------------------------------------------


def show(out: Console, results: Results) -> None:
    here = machine()
    versions = ", ".join(f"{name} {version_of(name)}" for name in results.peers)
    out.print(
        escape(f"{here['cpu']}, {here['threads']} threads, build {here['isa']}; {versions}\n")
    )
    if results.cells:
        out.print(_board(results))
        out.print()
    if results.calls:
        out.print(_calls(results.calls))
        out.print()
    if results.sizes:
        out.print(_sizes(results.per_element()))
        out.print()
    _conclude(out, results)


def _plain_table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        number = head not in ("function", "problem", "type")
        table.add_column(head, no_wrap=True, justify="right" if number else "left")
    return table


def _board(results: Results) -> Table:
    peers = results.peers
    table = _plain_table("function", "problem", "type", "score", *(f"x {peer}" for peer in peers))
    for m in results.cells:
        table.add_row(
            m.cell.function.name,
            m.cell.problem.label,
            m.cell.element.value,
            _coloured(m.score, m.cell.score, "{:.2f}"),
            *(_ratio(m, peer) for peer in peers),
        )
    return table


def _calls(calls: list[Measured]) -> Table:
    peers = [peer for peer in ("torch", "entmax") if any(peer in m.ratios for m in calls)]
    table = _plain_table("function", "us per call", *(f"x {peer}" for peer in peers))
    for m in calls:
        table.add_row(
            m.cell.function.name,
            f"{m.times[OURS] * 1e6:.1f}",
            *(_ratio(m, peer) for peer in peers),
        )
    table.title = f"One call of plan.run, {calls[0].cell.problem.label} f32"
    table.title_justify = "left"
    return table


def _sizes(per_element: dict[str, dict[int, float]]) -> Table:
    sizes = sorted({size for by_size in per_element.values() for size in by_size})
    table = _plain_table("function", *(markdown.power_of_two(size) for size in sizes))
    for name, by_size in per_element.items():
        table.add_row(name, *(f"{by_size[s]:.2f}" if s in by_size else "" for s in sizes))
    table.title = "Nanoseconds per element, f32, by number of elements"
    table.title_justify = "left"
    return table


def _coloured(value: float | None, wanted: float | None, form: str) -> str:
    if value is None:
        return ""
    if wanted is None:
        return form.format(value)
    colour = "green" if value >= wanted else "bold red"
    return f"[{colour}]{form.format(value)}[/] ({wanted:g})"


def _ratio(m: Measured, peer: str) -> str:
    return _coloured(m.ratios.get(peer), m.cell.figure(peer), "{:.1f}")


def _conclude(out: Console, results: Results) -> None:
    total = len(results.cells) + len(results.calls)
    if not results.short:
        out.print(f"[bold green]all {total} cells reach their figures[/]")
        return
    for m in results.short:
        out.print(f"[bold red]short[/] {escape(m.cell.name)}: {escape('; '.join(m.short))}")
    out.print(f"\n{total - len(results.short)} of {total} cells reach their figures")
