"""Writes what documents say of functions, between their marks, from the declarations.

python tools/tables.py            write them
python tools/tables.py --check    exit with 1 if they are not current
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from stubs import SOURCE, write

import gradplan as gp
from gradplan.bench.bridges import offer_of
from gradplan.declaration import OPS, Function, Op

ROOT = SOURCE.parent
SHORT = {"torch": "gpt", "jax": "gpj"}
"""What the documents call a bridge."""

BEGIN, END = "<!-- {}: `make stubs` writes this table -->\n", "<!-- end of {} -->\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _code(*names: str) -> str:
    return ", ".join(f"`{name}`" for name in names if name)


def _forwards() -> Iterator[tuple[Op, Function]]:
    for op in OPS.values():
        if not op.forwards():
            for function in op.functions:
                yield op, function


# Every function, everywhere ------------------------------------------------------------------


def _family(op: Op) -> str:
    """The module of the declaration, after which its page is named."""
    return op.descriptor.__module__.rpartition(".")[2]


def functions() -> str:
    """Forward and backward of the function layer, and what the bridges call it."""
    rows = []
    for op, function in _forwards():
        backward = op.backward()
        gradient = "" if backward is None else f"gp.{backward.sibling(function).name}"
        page = f"[{_code(function.name)}](docs/ops/{_family(op)}.md#{function.name})"
        here = [_code(*_called(bridge, op, function)) for bridge in SHORT]
        rows.append([page, _code(f"gp.{function.name}"), _code(gradient), *here])
    heads = ["", "any array: forward", "backward", "PyTorch, with autograd", "JAX, with grad"]
    return _table(heads, rows)


def _names(bridge: str, op: Op, function: Function) -> Iterator[str]:
    """What a bridge calls a function; perhaps another one with a flag."""
    own = offer_of(bridge, op, function)
    if own is not None:
        yield from (own.name, *own.like.aliases)
        return
    for other in _forwards():
        offer = offer_of(bridge, *other)
        if offer is not None:
            for flag, chosen in offer.like.chooses.items():
                if chosen == function.name:
                    yield f"{offer.name}(..., {flag}=True)"


def _called(bridge: str, op: Op, function: Function) -> list[str]:
    """The same as a user writes it, and the module if there is one."""
    names = list(_names(bridge, op, function))
    own = offer_of(bridge, op, function)
    if own is not None and own.like.module is not None:
        names.append(f"nn.{own.like.module.name}")
    return [f"{SHORT[bridge]}.{name}" for name in names]


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
    rows = [["any array", _code(_call("gp", function))]]
    backward = op.backward()
    if backward is not None:
        rows.append(["its gradient", _code(_call("gp", backward.sibling(function)))])
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


def _call(short: str, function: Function) -> str:
    signature = inspect.signature(getattr(gp, function.name))
    shown = [p for p in signature.parameters.values() if p.name != "out"]
    return f"{short}.{function.name}{signature.replace(parameters=shown)}"


# What to replace with what --------------------------------------------------------------------


def replacements(bridge: str) -> str:
    """A bridge's functions, and what each takes the place of."""
    rows, short = [], SHORT[bridge]
    for op, function in _forwards():
        offer = offer_of(bridge, op, function)
        if offer is None:
            continue
        like = offer.like
        new = [f"{short}.{offer.name}({offer.arguments})"]
        new += [f"{short}.{alias}" for alias in like.aliases]
        old = [like.peer or _peer(bridge, function)]
        if like.module is not None:
            new.append(f"{short}.nn.{like.module.name}")
            old.append(like.module.base and f"torch.nn.{like.module.base}")
        rows.append([_code(*old) or "(it has none)", _code(*new), like.differs])
    return _table(["instead of", "write", "what differs"], rows)


def _peer(bridge: str, function: Function) -> str:
    """What a user would write where the framework has no function for it."""
    return next((p.name for p in function.peers if p.library == bridge and p.on_board), "")


# How much faster ------------------------------------------------------------------------------

_CLAIMS = (
    ("embedding_backward", "torch", "PyTorch's speed for the gradient of an embedding"),
    ("cumsum_backward", "torch", "for that of a running sum"),
    ("sparsemax_backward", "entmax", "entmax's for that of sparsemax"),
)


def speed() -> str:
    """The README's line, from the board in docs/performance.md."""
    board = (ROOT / "docs/performance.md").read_text(encoding="utf-8").split("## The board")[1]
    lines = [[c.strip(" *") for c in line.split("|")[1:-1]] for line in board.splitlines()]
    heads = next(line for line in lines if line[:1] == ["function"])
    claims = []
    for function, peer, text in _CLAIMS:
        row = next(line for line in lines if line[:1] == [function] and "f32" in line)
        column = next(i for i, head in enumerate(heads) if peer in head.lower())
        ratio = re.match(r"[\d.]+", row[column])
        assert ratio is not None, row
        claims.append(f"{float(ratio[0]):.2g} times {text}")
    said = f"{', '.join(claims[:-1])}, {claims[-1]}"
    return textwrap.fill(f"And it is fast: {said} ([the board](docs/performance.md)).", 100) + "\n"


def _renewed(text: str, document: str, name: str, table: str) -> str:
    begin, end = BEGIN.format(name), END.format(name)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit(f"{document}: expected the lines {begin!r} and {end!r}")
    head, rest = text.split(begin)
    return f"{head}{begin}\n{table}\n{end}{rest.split(end)[1]}"


def documents() -> dict[Path, str]:
    """The documents as they should be."""
    tables = {
        "README.md": {"speed": speed(), "functions": functions()},
        "docs/guides/migrating.md": {
            "replacements of torch": replacements("torch"),
            "replacements of jax": replacements("jax"),
        },
    }
    for name in dict.fromkeys(_family(op) for op in OPS.values()):
        tables[f"docs/ops/{name}.md"] = {"functions": family(name)}
    made = {}
    for document, parts in tables.items():
        path = ROOT / document
        if not path.exists():
            raise SystemExit(f"{document}: write it; it needs {BEGIN.format('functions')!r}")
        text = path.read_text(encoding="utf-8")
        for name, table in parts.items():
            text = _renewed(text, document, name, table)
        made[path] = text
    return made


if __name__ == "__main__":
    sys.exit(write(documents()))
