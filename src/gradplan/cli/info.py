"""`gradplan info`: what is installed here, and the table of plans."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import gradplan
from gradplan.cases import problems
from gradplan.cli.terminal import console
from gradplan.declaration import OPS, Op
from gradplan.engines import ENGINES
from gradplan.machine import bridges, machine, version_of
from gradplan.plan import plan_class
from gradplan.vocabulary import NUMERICS_VERSION, ElementKind, Unsupported

NAME = "info"
HELP = "show versions, this CPU, engines, bridges and the table of plans"
DESCRIPTION = """\
Shows what is installed: versions, the CPU and the builds for it, threads, engines, bridges to
PyTorch and JAX, and every plan with its element types, the engine that serves it here, and what
its numbers promise (math precision, accumulator, determinism, and what bits do not depend on).
"""
EPILOG = """\
examples:
  gradplan info
  gradplan info --json | python -m json.tool
  GRADPLAN_ISA=x86-64-v2 gradplan info        another build; GRADPLAN_NUM_THREADS=4 likewise
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for machines, on standard output")


def run(options: argparse.Namespace) -> int:
    facts = collect()
    if options.json:
        print(json.dumps(facts, indent=1))
    else:
        show(console(), facts)
    return 0


def collect() -> dict[str, Any]:
    """Everything that `info` shows."""
    return {
        "gradplan": gradplan.__version__,
        "numerics_version": NUMERICS_VERSION,
        "machine": machine(),
        "requirements": {
            name: version_of(name) for name in ("numpy", "ml-dtypes", "apache-tvm-ffi")
        },
        "engines": _engines(),
        "bridges": bridges(),
        "plans": [plan for op in OPS.values() for plan in _plans(op)],
    }


def _engines() -> dict[str, dict[str, Any]]:
    op = next(iter(OPS.values()))
    desc, _ = next(problems(op, op.functions[0], ElementKind.F32))
    found = {}
    for name, engine in ENGINES.items():
        reason = engine.why_not(op, desc)
        found[name] = {
            "available": reason is None,
            "arch": engine.arch if reason is None else None,
            "devices": sorted(engine.devices),
            "automatic": engine.automatic,
            "last_resort": engine.last_resort,
            "reason": reason,
            **engine.facts,
        }
    return found


def _plans(op: Op) -> list[dict[str, Any]]:
    rows = []
    for function in op.functions:
        served: dict[str, dict[str, str | None]] = {}
        for element in ElementKind:
            if element not in op.descriptor.elements:
                continue
            desc, _ = next(problems(op, function, element))
            try:
                engine: str | None = plan_class(op).select(desc).engine
            except Unsupported:
                engine = None
            served[element.value] = {"engine": engine, "guarantee": str(op.guarantee(desc))}
        rows.append({"plan": op.plan_name, "function": function.name, "elements": served})
    return rows


def show(out: Console, facts: dict[str, Any]) -> None:
    where = facts["machine"]
    head = Table.grid(padding=(0, 2))
    head.add_column(style="bold")
    head.add_column(overflow="fold")
    head.add_row("gradplan", f"{facts['gradplan']}, numerics version {facts['numerics_version']}")
    head.add_row("CPU", escape(f"{where['cpu']} ({where['architecture']})"))
    builds = [
        f"{name} (in use)"
        if name == where["isa"]
        else name
        if name in where["builds_for_this_cpu"]
        else f"{name} (not for this CPU)"
        for name in where["builds"]
    ]
    head.add_row("builds", ", ".join(builds) or "none: the package was not built")
    head.add_row("threads", str(where["threads"]))
    head.add_row("Python", f"{where['python']}, " + _versions(facts["requirements"]))
    for name, engine in facts["engines"].items():
        state = engine["arch"] if engine["available"] else f"not here, {engine['reason']}"
        devices = ", ".join(engine["devices"])
        state += "".join(f", {name} {gpu['name']} ({gpu['arch']})" for name, gpu in _gpus(engine))
        state += f", driver {engine['driver']}" if "driver" in engine else ""
        head.add_row(f"engine {name}", escape(f"on {devices}: {state}{_when(engine)}"))
    for name, bridge in facts["bridges"].items():
        state = "" if bridge["available"] else "not available: "
        head.add_row(f"bridge {name}", state + _versions(bridge["versions"]))
    out.print(head)
    out.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("plan", "function", "element types", "engine", "guarantee"):
        table.add_column(heading, no_wrap=True)
    for row in facts["plans"]:
        elements = row["elements"]
        table.add_row(
            row["plan"],
            row["function"],
            " ".join(elements),
            _together({e: _served(served["engine"]) for e, served in elements.items()}),
            _together({e: served["guarantee"] for e, served in elements.items()}),
        )
    out.print(table)


def _gpus(engine: dict[str, Any]) -> Iterable[tuple[str, dict[str, str]]]:
    found: dict[str, dict[str, str]] = engine.get("gpus", {})
    return found.items()


def _when(engine: dict[str, Any]) -> str:
    if engine["automatic"]:
        return ""
    else_too = ", and for ops without a kernel" if engine["last_resort"] else ""
    return f" (only when asked for{else_too})"


def _served(engine: str | None) -> str:
    """Who serves a plan, and whether that is only because nobody has a kernel."""
    if engine is None:
        return "none"
    return engine if ENGINES[engine].automatic else f"{engine} (no kernel)"


def _versions(versions: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or 'not installed'}" for name, version in versions.items())


def _together(values: dict[str, str]) -> str:
    """Values by element type, each once.

    >>> _together({"f16": "a", "f32": "a", "f64": "b"})
    'a; f64: b'
    """
    groups: dict[str, list[str]] = {}
    for element, value in values.items():
        groups.setdefault(value, []).append(element)
    common = max(groups, key=lambda value: len(groups[value]))
    rest = [f"{' '.join(e)}: {value}" for value, e in groups.items() if value != common]
    return "; ".join([common, *rest])
