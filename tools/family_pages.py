"""Writes what follows from the declarations on the page of each family: docs/ops/*.md.

python tools/family_pages.py            write it
python tools/family_pages.py --check    exit with 1 if it is not current

A page is named after the file of the declarations. What stands above the mark is written by hand.
"""

from __future__ import annotations

import importlib
import inspect
import sys

from stubs import write
from tables import BEGIN, ROOT, SHORT, _called, _code, _family, _forwards, _peer, _table, renewed

import gradplan as gp
from gradplan.bench.bridges import offer_of
from gradplan.declaration import OPS, Function, Op


def family(name: str) -> str:
    """The page of a family: its formulas, and every function wherever it is offered."""
    parts = ["## What it computes\n", _formulas(name)]
    for op, function in _forwards():
        if _family(op) == name:
            parts.append(_described(op, function))
    return "\n".join(parts).rstrip() + "\n"


def _formulas(name: str) -> str:
    """The module's own text."""
    module = importlib.import_module(f"gradplan.ops.{name}")
    text = inspect.cleandoc(module.__doc__ or "").partition("\n\n")[2]
    return text.replace("docs/numerics.md", "[the bit contract](../numerics.md)") + "\n"


def _described(op: Op, function: Function) -> str:
    rows = [["any array", _code(_call(function))]]
    backward = op.backward()
    if backward is not None:
        rows.append(["its gradient", _code(_call(backward.sibling(function)))])
    for bridge, framework in (("torch", "PyTorch"), ("jax", "JAX")):
        offer = offer_of(bridge, op, function)
        shown = _called(bridge, op, function)
        if offer is not None:
            shown[0] = f"{SHORT[bridge]}.{offer.name}({offer.arguments})"
        instead = offer and (offer.like.peer or _peer(bridge, function))
        rows.append([framework, _code(*shown) + (f" for {_code(instead)}" if instead else "")])
    plans = [_code(o.plan_name) for o in (op, backward) if o is not None]
    rows.append(["plans", ", ".join(plans)])
    summary = inspect.cleandoc(function.doc).partition("\n\n")[0]
    return f"## {function.name}\n\n{summary}\n\n{_table(['', 'call'], rows)}"


def _call(function: Function) -> str:
    signature = inspect.signature(getattr(gp, function.name))
    shown = [p for p in signature.parameters.values() if p.name != "out"]
    return f"gp.{function.name}{signature.replace(parameters=shown)}"


if __name__ == "__main__":
    pages = {}
    for name in dict.fromkeys(_family(op) for op in OPS.values()):
        path = ROOT / f"docs/ops/{name}.md"
        if not path.exists():
            raise SystemExit(f"docs/ops/{name}.md: write it, with {BEGIN.format('functions')!r}")
        pages[path] = renewed(path, ("functions", family(name)))
    sys.exit(write(pages))
