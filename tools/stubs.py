"""Writes the stubs of everything that is made from the declarations: plans, functions, bridges.

python tools/stubs.py            write them
python tools/stubs.py --check    exit with 1 if they are not current
"""

from __future__ import annotations

import enum
import inspect
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

SOURCE = Path(__file__).resolve().parent.parent / "src"
sys.path.insert(0, str(SOURCE))  # the declarations of this checkout, installed or not

from gradplan import functional, plans, vocabulary  # noqa: E402
from gradplan.declaration import OPS, FieldInfo, Op, Tensor  # noqa: E402
from gradplan.declaration.fields import Word  # noqa: E402
from gradplan.offers import JAX, TORCH, Bridge, Offer, offers_of  # noqa: E402
from gradplan.signatures import Parameter, Signature, docstring, run_tensors  # noqa: E402

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


def _returns(outputs: Sequence[Tensor]) -> str:
    if any(t.when is not None for t in outputs):
        return "Any"  # how many there are depends on the descriptor
    return "T" if len(outputs) == 1 else f"tuple[{', '.join('T' for _ in outputs)}]"


def _tensor(name: str, tensor: Tensor, *, required: bool) -> str:
    # Indices may be of any framework; results are of the first argument's.
    kind = "SupportsDLPack" if tensor.index and tensor.is_input else "T"
    return f"{name}: {kind}" if required else f"{name}: {kind} | None = None"


def _words(infos: Iterable[FieldInfo]) -> set[str]:
    """The enumerations that fields hold."""
    return {i.field.stores for i in infos if hasattr(vocabulary, i.field.stores)}


def _imports(words: set[str], *, plans: bool) -> str:
    lines = ["from collections.abc import Iterable"] if plans else []
    names = ["Any", "Literal", "ClassVar" if plans else "Protocol"]
    names += ["SupportsFloat", "SupportsIndex"] + ([] if plans else ["TypeVar"])
    lines.append(f"from typing import {', '.join(sorted(names))}")
    lines.append("")
    if plans:
        lines += [
            "from gradplan.declaration import Descriptor, Op",
            "from gradplan.functional import SupportsDLPack, T",
            "from gradplan.plan import Plan",
        ]
        words |= {"DType", "PlanPreference"}
    else:
        lines.append("from gradplan.signatures import Signature")
    lines.append(_import("gradplan.vocabulary", words))
    return "\n".join(lines) + "\n"


def _import(module: str, names: Iterable[str]) -> str:
    """An import, broken as the formatter would."""
    line = f"from {module} import {', '.join(sorted(names))}"
    if len(line) <= _WIDTH:
        return line
    return f"from {module} import (\n{''.join(f'    {name},{chr(10)}' for name in sorted(names))})"


def _function(signature: Signature) -> str:
    arguments = []
    for name, argument in signature.arguments:
        if isinstance(argument, Parameter):
            default = "" if argument.required else f" = {_literal(argument.default)}"
            arguments.append(f"{name}: {argument.info.field.accepts}{default}")
        else:
            arguments.append(_tensor(name, argument, required=not argument.optional))
    out = _returns(signature.outputs)
    arguments += ["*", f"out: {out} | None = None"]
    declared = _call(f"def {signature.function.name}", arguments, out)
    doc = textwrap.indent(docstring(signature), "    ", lambda line: bool(line.strip()))
    return declared.replace(": ...\n", f':\n    """{doc.strip()}\n    """\n\n')


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def functional_stub() -> str:
    signatures = list(functional.SIGNATURES.values())
    words = _words(p.info for s in signatures for p in s.parameters)
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
        if i.name == "element":
            accepts = cast(Word, i.field).accepts_of(op.descriptor.elements)
        default = "..." if isinstance(i.default, enum.Enum) else i.default
        arguments.append(f"{i.name}: {accepts}" + ("" if i.required else f" = {default}"))
    return f"\nclass {op.descriptor.__name__}(Descriptor):\n{fields}" + _call(
        "    def __init__", arguments, "None"
    )


def _plan(op: Op) -> str:
    descriptor = op.descriptor.__name__
    tensors = [_tensor(t.name, t, required=needed) for t, needed in run_tensors(op)]
    arguments = ["self", "*", *tensors, "workspace: Any = None", "stream: Any = None"]
    ignore = "  # type: ignore[override]"
    select = ["cls", f"desc: {descriptor}", "prefer: PlanPreference = ...", 'device: str = "cpu"']
    return (
        f"\nclass {op.plan_name}(Plan[{descriptor}]):\n"
        "    op: ClassVar[Op]\n"
        "    @classmethod\n"
        + _call("    def select", select, op.plan_name)
        + _call("    def can_implement", arguments, "None", ignore)
        + _call("    def run", arguments, _returns(op.outputs), ignore)
    )


def plans_stub() -> str:
    words = _words(i for op in OPS.values() for i in op.fields)
    names = "".join(f'    "{name}",\n' for name in plans.__all__)
    parts = [_NOTE, _imports(words, plans=True), f"\n__all__ = [\n{names}]\n"]
    for op in OPS.values():
        parts += [_descriptor(op), _plan(op)]
    return "".join(parts)


def _value(default: object) -> str:
    return f'"{default}"' if isinstance(default, str) else repr(default)


def _offered(offer: Offer) -> str:
    """A function of a bridge; one overload for each kind of result, if a flag adds to it."""
    doc = textwrap.indent(offer.doc(), "    ", lambda line: bool(line.strip()))
    body = f':\n    """{doc.strip()}\n    """\n\n'
    adds = list(offer.like.adds)
    if not adds:
        made = _declared(offer, offer.returns).replace(": ...\n", body)
    else:
        given = offer.bridge.gives
        both = f"{offer.returns} | {given}"
        kinds = {"Literal[True]": offer.returns, "Literal[False]": given, "bool": both}
        overloads = [_declared(offer, gives, (adds[0], flag)) for flag, gives in kinds.items()]
        overloads[0] = overloads[0].replace(": ...\n", body)
        made = "".join(f"@overload\n{one}" for one in overloads)
    return made + "".join(f"{alias} = {offer.name}\n\n" for alias in offer.like.aliases)


def _declared(offer: Offer, returns: str, flag: tuple[str, str] = ("", "")) -> str:
    """The `def` line, with the type of a flag; only a true one is the default."""
    arguments, by_name = [], False
    for p in offer.parameters:
        if p.kind is p.KEYWORD_ONLY and not by_name:
            arguments.append("*")
            by_name = True
        kind = flag[1] if p.name == flag[0] else p.annotation
        has_default = p.default is not p.empty and (p.name != flag[0] or kind == "Literal[True]")
        default = f" = {_value(p.default)}" if has_default else ""
        arguments.append(f"{p.name}: {kind}{default}")
    return _call(f"def {offer.name}", arguments, returns)


_PAIR = """\
class ValuesAndIndices(NamedTuple):
    values: torch.Tensor
    indices: torch.Tensor

"""


def bridge_stub(bridge: Bridge, imports: Sequence[str]) -> str:
    offers = [offer for op in OPS.values() for offer in offers_of(bridge, op)]
    names = sorted(name for o in offers for name in (o.name, *o.like.aliases))
    text = "".join(map(_offered, offers))
    result = _PAIR if "ValuesAndIndices" in text else ""
    known = ("Any", "Literal", "NamedTuple", "SupportsFloat", "SupportsIndex", "overload")
    typing = [n for n in known if n in text + result]
    words = sorted(w for w in vocabulary.__all__ if f": {w} |" in text)
    lines = [
        _NOTE,
        f"from typing import {', '.join(typing)}\n\n",
        *(f"{line}\n" for line in imports),
        "\nfrom gradplan.offers import Offers\n",
        f"from gradplan.vocabulary import {', '.join(words)}\n\n",
        "OFFERS: Offers\n",
        "__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n\n",
    ]
    return "".join(lines) + result + text.rstrip() + "\n"


def modules_stub() -> str:
    parts = [_NOTE, "from typing import SupportsIndex\n\nimport torch\n"]
    for offer in (o for op in OPS.values() for o in offers_of(TORCH, op)):
        record = offer.like.module
        if record is None:
            continue
        parts.append(f"\nclass {record.name}(torch.nn.{record.base or 'Module'}):\n")
        doc = textwrap.indent(inspect.cleandoc(record.doc), "    ", lambda s: bool(s.strip()))
        parts.append(f'    """{doc.strip()}\n    """\n\n')
        if not record.base:
            options = [p for p in offer.parameters if p.default is not p.empty]
            given = [f"{p.name}: {p.annotation} = {_value(p.default)}" for p in options]
            parts.append(_call("    def __init__", ["self", *given], "None"))
        parts.append(_call("    def forward", ["self", "*tensors: torch.Tensor"], offer.returns))
    return "".join(parts)


def write(files: Mapping[Path, str]) -> int:
    """Writes what is not current; with `--check` only says so and returns 1."""
    check = "--check" in sys.argv
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print("stale, run `make stubs`:" if check else "wrote", path.name)
        if not check:
            path.write_text(files[path])
    return int(check and bool(stale))


if __name__ == "__main__":
    package = SOURCE / "gradplan"
    stubs = {
        "functional.pyi": functional_stub(),
        "plans.pyi": plans_stub(),
        "torch/functions.pyi": bridge_stub(TORCH, ["import torch"]),
        "torch/nn.pyi": modules_stub(),
        "jax/functions.pyi": bridge_stub(
            JAX, ["from jax import Array", "from jax.typing import ArrayLike"]
        ),
    }
    sys.exit(write({package / name: text for name, text in stubs.items()}))
