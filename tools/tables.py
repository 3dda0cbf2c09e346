"""Writes the tables of functions in the documents, between their marks, from the declarations.

python tools/tables.py            write them
python tools/tables.py --check    exit with 1 if they are not current
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from stubs import SOURCE, write

from gradplan import functional
from gradplan.bench.bridges import offer_of
from gradplan.declaration import OPS, Function, Op
from gradplan.declaration.fields import BoundsField
from gradplan.offers import JAX, TORCH, Bridge, Offer, gradient_parameters
from gradplan.signatures import Parameter, signature_of
from gradplan.vocabulary import Ties

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
            if function.name in offer.like.adds.values():
                yield offer.name
            if function.part_of in offer.like.adds.values():
                yield f"{offer.name}(...).{op.outputs[0].name}"


def _called(bridge: str, op: Op, function: Function) -> list[str]:
    """The same as a user writes it, and the module if there is one."""
    names = list(_names(bridge, op, function))
    own = offer_of(bridge, op, function)
    if own is not None and own.like.module is not None:
        names.append(f"nn.{own.like.module.name}")
    return [f"{SHORT[bridge]}.{name}" for name in names]


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


# What differs between the layers -----------------------------------------------------------------


def conventions() -> str:
    """Each function in each layer: what it calls its arguments, their order and its conventions."""
    rows = []
    for op, function in _forwards():
        backward = op.backward()
        calls = [(op, _own_call(op, function))]
        if backward is not None:
            calls.append((backward, _own_call(backward, backward.sibling(function))))
        calls += [(op, _bridge_call(bridge, op, function)) for bridge in (TORCH, JAX)]
        for number, (of, (call, *cells)) in enumerate(calls):
            name = _code(function.name) if number == 0 else ""
            rows.append([name, _code(call), *cells, _order_of_ids(of)])
    heads = ["", "call", "axis by default", "equal extremes", "index out of range", "order of ids"]
    return _table(heads, rows)


def _order_of_ids(op: Op) -> str:
    ascending = [t.ascending for t in op.tensors if t.index]
    return "" if not ascending else "must not descend" if any(ascending) else "any order"


_CONVENTIONS: tuple[Callable[[Parameter], bool], ...] = (
    lambda p: p.info.field.is_axis,
    lambda p: isinstance(p.info.default, Ties),
    lambda p: isinstance(p.info.field, BoundsField),
)


def _own_call(op: Op, function: Function) -> list[str]:
    signature = signature_of(op, function.name)
    shown = inspect.signature(getattr(functional, function.name))
    cells = [
        next((str(p.default) for p in signature.parameters if is_it(p)), "")
        for is_it in _CONVENTIONS
    ]
    return [f"gp.{function.name}{shown}", *cells]


def _bridge_call(bridge: Bridge, op: Op, function: Function) -> list[str]:
    short = SHORT[bridge.name]
    own = offer_of(bridge.name, op, function)
    if own is None:  # another one with a flag
        names = [f"{short}.{name}" for name in _names(bridge.name, op, function)]
        chooser = next(
            offer
            for other in _forwards()
            if (offer := offer_of(bridge.name, *other)) is not None
            and {function.name, function.part_of}
            & {*offer.like.chooses.values(), *offer.like.adds.values()}
        )
        return [names[0], *(_bridge_default(chooser, is_it) for is_it in _CONVENTIONS)]
    shown = f"{short}.{own.name}({own.arguments})"
    return [shown, *(_bridge_default(own, is_it) for is_it in _CONVENTIONS)]


def _bridge_default(offer: Offer, is_it: Callable[[Parameter], bool]) -> str:
    for p in offer.parameters:
        what = offer.meaning(p.name)
        if isinstance(what, Parameter) and is_it(what):
            return "must be given" if p.default is p.empty else str(p.default)
    hidden = [*offer.signature.parameters, *gradient_parameters(offer.signature)]
    fixed = (offer.like.defaults.get(p.name, "") for p in hidden if is_it(p))
    return str(next(fixed, ""))


def renewed(document: Path, *tables: tuple[str, str]) -> str:
    """The document with what stands between the marks of each name replaced."""
    text = document.read_text(encoding="utf-8")
    for name, table in tables:
        begin, end = BEGIN.format(name), END.format(name)
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"{document.name}: expected the lines {begin!r} and {end!r}")
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{table}\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    tables = {
        "README.md": [("functions", functions())],
        "docs/guides/migrating.md": [
            ("replacements of torch", replacements("torch")),
            ("replacements of jax", replacements("jax")),
        ],
        "docs/conventions.md": [("conventions", conventions())],
    }
    sys.exit(write({ROOT / path: renewed(ROOT / path, *made) for path, made in tables.items()}))
