"""Writes src/gradplan/functional.pyi and plans.pyi from the declarations.

python tools/stubs.py            write them
python tools/stubs.py --check    exit with 1 if they are not current
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
sys.path.insert(0, str(SOURCE))  # the declarations of this checkout, installed or not

from gradplan import functional, plans  # noqa: E402
from gradplan.descriptor import Element, Word  # noqa: E402
from gradplan.recipes import Signature, docstring  # noqa: E402
from gradplan.spec import OPS, Op, Tensor  # noqa: E402

_WIDTH = 100
_NOTE = "# Written by tools/stubs.py from the declarations; do not edit.\n"


def _call(head: str, arguments: list[str], returns: str, tail: str = "") -> str:
    """`def` line, broken as the formatter would."""
    line = f"{head}({', '.join(arguments)}) -> {returns}: ...{tail}"
    if len(line) <= _WIDTH and not tail:
        return line + "\n"
    pad = " " * (len(head) - len(head.lstrip()))
    first = f"{head}({tail}" if tail else f"{head}("
    body = "".join(f"{pad}    {argument},\n" for argument in arguments)
    return f"{first}\n{body}{pad}) -> {returns}: ...\n"


def _returns(outputs: tuple[Tensor, ...]) -> str:
    return "T" if len(outputs) == 1 else f"tuple[{', '.join('T' for _ in outputs)}]"


def _tensor_type(tensor: Tensor) -> str:
    return "SupportsDLPack" if tensor.index else "T"


def _imports(words: set[str], *, plans: bool) -> str:
    lines = ["from collections.abc import Iterable"] if plans else []
    names = ["Any", "Literal", "ClassVar" if plans else "Protocol"]
    names += ["SupportsFloat", "SupportsIndex"] + ([] if plans else ["TypeVar"])
    lines.append(f"from typing import {', '.join(sorted(names))}")
    lines.append("")
    if plans:
        lines += [
            "from gradplan.descriptor import Descriptor",
            "from gradplan.functional import SupportsDLPack, T",
            "from gradplan.plan import Plan",
            "from gradplan.spec import Op",
        ]
        words |= {"PlanPreference"}
    else:
        lines.append("from gradplan.recipes import Signature")
    lines.append(f"from gradplan.vocabulary import {', '.join(sorted(words))}")
    return "\n".join(lines) + "\n"


def _function(signature: Signature) -> str:
    arguments = [f"{t.function_name}: {_tensor_type(t)}" for t in signature.inputs]
    for p in signature.parameters:
        default = "" if p.default is inspect.Parameter.empty else f" = {_literal(p.default)}"
        arguments.append(f"{p.name}: {p.info.field.accepts}{default}")
    out = _returns(signature.outputs)
    arguments += ["*", f"out: {out} | None = None"]
    declared = _call(f"def {signature.function.name}", arguments, out)
    doc = textwrap.indent(docstring(signature), "    ", lambda line: bool(line.strip()))
    return declared.replace(": ...\n", f':\n    """{doc.strip()}\n    """\n\n')


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def functional_stub() -> str:
    signatures = list(functional.SIGNATURES.values())
    words = {
        p.info.field.stores
        for s in signatures
        for p in s.parameters
        if isinstance(p.info.field, Word)
    }
    names = "".join(f'    "{name}",\n' for name in functional.__all__)
    parts = [
        _NOTE,
        _imports(words, plans=False),
        "\nclass SupportsDLPack(Protocol):\n"
        "    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...\n",
        '\nT = TypeVar("T", bound=SupportsDLPack)\n',
        "SIGNATURES: dict[str, Signature]\n",
        f"__all__ = [\n{names}]\n\n",
        *map(_function, signatures),
    ]
    return "".join(parts).rstrip() + "\n"


def _descriptor(op: Op) -> str:
    fields = "".join(f"    {i.name}: {i.field.stores}\n" for i in op.fields)
    arguments = ["self", "*"]
    for i in op.fields:
        accepts = i.field.accepts
        if isinstance(i.field, Element):
            accepts = i.field.accepts_of(op.descriptor.elements)
        default = "" if i.required else f" = {'...' if isinstance(i.field, Word) else i.default}"
        arguments.append(f"{i.name}: {accepts}{default}")
    return f"\nclass {op.descriptor.__name__}(Descriptor):\n{fields}" + _call(
        "    def __init__", arguments, "None"
    )


def _plan(op: Op) -> str:
    descriptor = op.descriptor.__name__
    required = [f"{t.name}: {_tensor_type(t)}" for t in op.inputs if t.when is None]
    optional = [f"{t.name}: T | None = None" for t in op.inputs if t.when is not None]
    optional += [f"{t.name}: T | None = None" for t in op.outputs]
    optional += ["workspace: Any = None", "stream: Any = None"]
    arguments = ["self", "*", *required, *optional]
    ignore = "  # type: ignore[override]"
    select = ["cls", f"desc: {descriptor}", "prefer: PlanPreference = ..."]
    return (
        f"\nclass {op.plan_name}(Plan[{descriptor}]):\n"
        "    op: ClassVar[Op]\n"
        "    @classmethod\n"
        + _call("    def select", select, op.plan_name)
        + _call("    def can_implement", arguments, "None", ignore)
        + _call("    def run", arguments, _returns(op.outputs), ignore)
    )


def plans_stub() -> str:
    words = {i.field.stores for op in OPS.values() for i in op.fields if isinstance(i.field, Word)}
    names = "".join(f'    "{name}",\n' for name in plans.__all__)
    parts = [_NOTE, _imports(words, plans=True), f"\n__all__ = [\n{names}]\n"]
    for op in OPS.values():
        parts += [_descriptor(op), _plan(op)]
    return "".join(parts)


STUBS = {"functional.pyi": functional_stub, "plans.pyi": plans_stub}


def main() -> int:
    stale = []
    for name, make in STUBS.items():
        path, text = SOURCE / "gradplan" / name, make()
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if stale:
        print(
            ("stale, run `make stubs`: " if "--check" in sys.argv else "wrote ") + ", ".join(stale)
        )
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
