"""`gradplan certify`: the promise, verified on the user's own machine."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

import gradplan
from gradplan import certify as work
from gradplan.cases import problems
from gradplan.cli.files import check_writable, is_standard_output, write_file
from gradplan.cli.terminal import UserError, choose, console, progress
from gradplan.declaration import OPS
from gradplan.engines import ENGINES, Engine
from gradplan.hints import did_you_mean
from gradplan.machine import machine
from gradplan.vocabulary import FLOATS, NUMERICS_VERSION, ElementKind

NAME = "certify"
HELP = "verify on this machine that every plan computes the promised bits"
DESCRIPTION = """\
Runs canonical problems of every plan and element type and compares bits:

  cases     the engine's result with that of the NumPy reference
  threads   1, 2, 3 and 7 threads
  layouts   transposed, negative strides, with an offset, in place, i32 and i64 indices
  builds    every instruction set build that this CPU can run
  batch     a line alone and the same line among others
  digest    the result with the golden digest that this version of the numerics froze

The certificate at the end is one digest of all results: it is equal on every machine.
"""
EPILOG = """\
examples:
  gradplan certify                            everything, in under a minute
  gradplan certify --op cumsum,sparsemax      two functions
  gradplan certify --op scan --dtype f32      all scans (also ScanPlan), one element type
  gradplan certify --engine cuda --json g.json  on a GPU, with a report to send back
  gradplan certify --thorough --json a.json   ten times the problems, and a file to compare
  gradplan certify --compare a.json b.json    where two machines differ

FILE may be - for standard output; everything else is then said on standard error.

exit status: 0 all bits are as promised, 1 something differs (named in full), 2 misuse
"""
FORMAT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--op", action="append", metavar="NAME", help="only these functions or ops, comma-separated"
    )
    parser.add_argument(
        "--dtype", action="append", metavar="TYPE", help="only these element types: f16, f32, ..."
    )
    parser.add_argument(
        "--engine", metavar="NAME", default="cpu", help="the engine to verify (default: cpu)"
    )
    parser.add_argument("--device", metavar="NAME", help="which of several GPUs: cuda:1, ...")
    parser.add_argument("--thorough", action="store_true", help="other, larger and more problems")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the certificate")
    parser.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("A.json", "B.json"),
        help="explain where two certificates differ, without running anything",
    )


def run(options: argparse.Namespace) -> int:
    if options.compare:
        return compare(console(), *options.compare)
    out = console(stderr=check_writable([options.json]))
    engine = _engine(options.engine, options.device)
    certificate = certified(
        out,
        engine,
        names=choose(options.op, names(), "--op"),
        elements=choose(options.dtype, element_names(), "--dtype"),
        level=work.THOROUGH if options.thorough else work.STANDARD,
    )
    if options.json:
        write_file(options.json, json.dumps(certificate.as_json(), indent=1) + "\n")
        if not is_standard_output(options.json):
            out.print(f"written to {escape(str(options.json))}")
    return 0 if certificate.passed else 1


def names() -> list[str]:
    """What `--op` takes: functions, and ops by either name."""
    functions = [f.name for op in OPS.values() for f in op.functions]
    return list(dict.fromkeys([*functions, *OPS, *(op.plan_name for op in OPS.values())]))


def element_names() -> list[str]:
    return [kind.value for kind in ElementKind if kind in FLOATS]


def _engine(name: str, device: str | None) -> Engine:
    if name not in ENGINES:
        hint = did_you_mean(name, ENGINES) or ";"
        raise UserError(f"--engine {name}: no such engine{hint} choose from {', '.join(ENGINES)}")
    engine = ENGINES[name]
    if device is not None and device.partition(":")[0] not in engine.devices:
        devices = ", ".join(sorted(engine.devices))
        raise UserError(f"--device {device}: the engine {name} runs on {devices}")
    return engine if device is None else engine.on(device)


def _check_engine(engine: Engine, wanted: Sequence[work.PlanKey]) -> None:
    """Complains about an engine that can do nothing here; what it lacks otherwise is a finding."""
    reasons = [engine.why_not(op, next(problems(op, f, element))[0]) for op, f, element in wanted]
    if reasons and None not in reasons:
        others = ", ".join(name for name in ENGINES if name != engine.name)
        raise UserError(f"--engine {engine.name}: {reasons[0]}; others: {others}")


@dataclasses.dataclass
class Certificate:
    """All lines of one run."""

    engine: Engine
    level: str
    complete: bool
    lines: list[work.Line] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    @property
    def failed(self) -> list[work.Line]:
        return [line for line in self.lines if not line.passed]

    @property
    def passed(self) -> bool:
        return not self.failed

    @property
    def runs(self) -> int:
        return sum(sum(line.checked.values()) for line in self.lines)

    @property
    def digest(self) -> str | None:
        """The certificate; None if anything differs."""
        if not self.passed:
            return None
        return work.certificate_digest({line.key: line.digest for line in self.lines}, self.level)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "gradplan": gradplan.__version__,
            "numerics_version": NUMERICS_VERSION,
            "engine": self.engine.name,
            "device": self.engine.place,
            **self.engine.facts,
            "level": self.level,
            "complete": self.complete,
            "passed": self.passed,
            "certificate": self.digest,
            "machine": machine(),
            "plans": {
                line.key: {**vars(line), "difference": line.difference and vars(line.difference)}
                for line in self.lines
            },
        }


# The table -----------------------------------------------------------------------------------

_WIDTHS = {"cases": 6, "threads": 8, "layouts": 8, "builds": 7, "batch": 6}


def certified(
    out: Console,
    engine: Engine,
    *,
    names: Sequence[str] | None,
    elements: Sequence[str] | None,
    level: str,
) -> Certificate:
    """Runs everything that was asked for, with a line of the table for each plan."""
    wanted = work.plans(names, elements)
    _check_engine(engine, wanted)
    complete = len(wanted) == len(work.plans())
    certificate = Certificate(engine, level, complete)
    heading = "".join(f"{name:>{width}}" for name, width in _WIDTHS.items())
    width = 1 + max(len(name) for name in ("plan", *(f.name for _, f, _ in work.plans())))
    out.print(f"[bold]{'plan':<{width}} {'element types':<16}{heading}  digest[/]")
    began = time.perf_counter()
    with progress(out) as bar:
        task = bar.add_task("starting", total=len(wanted))
        for (_, function), group in itertools.groupby(wanted, key=lambda plan: plan[:2]):
            lines = []
            for op, function, element in group:
                bar.update(task, description=f"{function.name} {element}")
                lines.append(work.certify_line(op, function, element, engine, level=level))
                bar.advance(task)
            certificate.lines += lines
            out.print(_row(f"{function.name:<{width}}", lines))
    certificate.seconds = time.perf_counter() - began
    _conclude(out, certificate)
    return certificate


def _row(name: str, lines: Sequence[work.Line]) -> str:
    counts = sum((line.checked for line in lines), collections.Counter[str]())
    elements = " ".join(
        f"[{'green' if line.passed else 'bold red'}]{line.element}[/]" for line in lines
    )
    padding = " " * (16 - len(" ".join(line.element for line in lines)))
    columns = "".join(
        f"{counts[check]:>{width}}"
        for check, width in zip(work.CHECKS, _WIDTHS.values(), strict=True)
    )
    if all(line.passed for line in lines):
        verdict = f"[green]{work.line_digest({line.key: line.digest for line in lines})[:12]}[/]"
    else:
        wrong = " ".join(line.element for line in lines if not line.passed)
        verdict = f"[bold red]failed: {wrong}[/]"
    return f"{name} {elements}{padding}{columns}  {verdict}"


def _conclude(out: Console, certificate: Certificate) -> None:
    engine = certificate.engine
    where = f"engine {engine.name} ({engine.arch})"
    gpu = engine.facts.get("gpus", {}).get(engine.place)
    where += f" on {escape(gpu['name'])} ({gpu['arch']})" if gpu is not None else ""
    done = f"{certificate.runs} runs in {certificate.seconds:.0f} s"
    if not certificate.passed:
        out.print()
        for line in certificate.failed:
            out.print(f"[bold red]failed[/] {escape(str(line))}")
        count = len(certificate.failed)
        out.print(
            f"\n[bold red]{count} of {len(certificate.lines)} plan x element type failed[/] "
            f"on {where}; {done}. No certificate."
        )
        return
    part = "" if certificate.complete else "partial "
    level = "" if certificate.level == work.STANDARD else f"{certificate.level} "
    out.print(
        f"\n[bold green]all {len(certificate.lines)} plan x element type equal[/] on {where}; "
        f"{done}\n{part}{level}certificate, numerics version {NUMERICS_VERSION}: "
        f"[bold]{certificate.digest}[/]"
    )


# Two machines --------------------------------------------------------------------------------


def compare(out: Console, first: Path, second: Path) -> int:
    """Says where two certificates differ; 1 if they do."""
    a, b = _load(first), _load(second)
    for path, data in ((first, a), (second, b)):
        result = f"certificate {data['certificate'][:16]}" if data["passed"] else "failed"
        scope = f"{data['level']}{'' if data['complete'] else ', partial'}"
        out.print(
            f"[bold]{escape(str(path))}[/]: gradplan {data['gradplan']}, numerics "
            f"{data['numerics_version']}, {scope}; {data['engine']} on {escape(_ran_on(data))}; "
            f"{result}"
        )
    if a["numerics_version"] != b["numerics_version"]:
        out.print(
            "[bold red]different numerics versions[/]: bits may change between them; "
            "compare certificates of the same version"
        )
        return 1
    if a["level"] != b["level"]:
        out.print("[bold red]different problems[/]: one run was --thorough, the other was not")
        return 1
    findings = _findings(a["plans"], b["plans"], first.name, second.name)
    for finding in findings:
        out.print(finding)
    both = len(a["plans"].keys() & b["plans"].keys())
    if findings:
        return 1
    out.print(f"[bold green]equal[/]: the same bits in all {both} plan x element type of both")
    return 0


def _ran_on(data: dict[str, Any]) -> str:
    gpu = data.get("gpus", {}).get(data.get("device"))
    if gpu is not None:
        return f"{gpu['name']} ({gpu['arch']})"
    where = data["machine"]
    return f"{where['cpu']} ({where['isa'] or 'no build'})"


def _findings(a: dict[str, Any], b: dict[str, Any], first: str, second: str) -> list[str]:
    findings = []
    for key in dict.fromkeys([*a, *b]):
        if key not in a or key not in b:
            findings.append(f"{key}: only in {escape(first if key in a else second)}")
            continue
        for name, line in ((first, a[key]), (second, b[key])):
            difference = line["difference"]
            if line["error"]:
                findings.append(f"{key}: {escape(name)} could not run it: {escape(line['error'])}")
            elif difference is not None:
                told = work.Difference(**{**difference, "index": tuple(difference["index"])})
                findings.append(escape(f"{key}: {name} differs from its own reference: {told}"))
            elif line["golden"] != "equal":
                findings.append(f"{key}: {escape(name)}: golden digest {line['golden']}")
        ours, theirs = a[key]["cases"], b[key]["cases"]
        differing = [case for case in ours if case in theirs and ours[case] != theirs[case]]
        if differing:
            findings.append(
                f"{key}: {len(differing)} of {len(ours)} problems have other bits; "
                f"the first: {escape(differing[0])}"
            )
    return findings


def _load(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file; make one with `gradplan certify --json {path}`"
        ) from None
    except (ValueError, UnicodeDecodeError):
        data = None
    if not isinstance(data, dict) or data.get("format") != FORMAT or "plans" not in data:
        raise UserError(
            f"{path}: not a certificate; make one with `gradplan certify --json {path}`"
        )
    return data
