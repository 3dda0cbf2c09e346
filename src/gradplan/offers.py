"""How a bridge offers functions: names, arguments, types and texts, from the records (`Like`).

What is the same for PyTorch and JAX. How a call goes on from there is the bridge's business.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gradplan.declaration import OPS, Function, Like, Op, Tensor, for_every_op
from gradplan.declaration.fields import Flag
from gradplan.hints import MISSING, refuse_unknown, show_signature
from gradplan.signatures import Parameter, Signature, argument_doc, plain_option, signature_of
from gradplan.vocabulary import Bounds

_FLAG = Flag()


def updating(outputs: Sequence[Tensor]) -> set[str]:
    """The options that ask an op to add to an output: of no use where outputs are new."""
    return {name for t in outputs if t.updates is not None for name in t.updates.values}


def own_parameters(signature: Signature) -> list[Parameter]:
    """The options of a function whose outputs are new."""
    useless = updating(signature.outputs)
    return [p for p in signature.parameters if p.info.name not in useless]


def gradient_parameters(signature: Signature) -> list[Parameter]:
    """The options that the gradient has and the function itself does not, such as `ties`.

    What changes every result (`apart`) is not among them: a function without it cannot do it.
    """
    backward = signature.op.backward()
    if backward is None:
        return []
    known = {*signature.op.field_named, *updating(backward.outputs)}
    sibling = signature_of(backward, backward.sibling(signature.function).name)
    options = [p for p in sibling.parameters if p.info.name not in known]
    return [p for p in options if not p.info.field.apart]


class Bridge(NamedTuple):
    """The words of a framework."""

    name: str
    """The field of `Function` that has its record."""
    takes: str
    """The type of its arrays as arguments."""
    gives: str
    """The type of its arrays as results."""
    axis: str
    """What it calls an axis."""
    defaults: Mapping[str, Any] = {}
    """Its conventions, where they are others than the function layer's."""


TORCH = Bridge("torch", "torch.Tensor", "torch.Tensor", "dim")
# JAX drops indices out of range: what XLA compiles by itself has no way to refuse a value.
JAX = Bridge("jax", "ArrayLike", "Array", "axis", {"bounds": Bounds.SKIP.value})


class Offer:
    """A function and its record: everything that follows from the two.

    Options that only the gradient has are offered by name, unless the record says what they are.
    """

    def __init__(self, bridge: Bridge, op: Op, function: Function, like: Like) -> None:
        self.op = op
        self.like = like
        self.bridge = bridge
        self.name = like.name or function.name
        self.signature = signature_of(op, function.name)
        self.names = {bridge.axis: "axis", **like.names}
        """The bridge's names of arguments, and the function layer's where those differ."""
        extra = [p for p in gradient_parameters(self.signature) if p.name not in like.defaults]
        known = {**dict(self.signature.arguments), **{p.name: p for p in extra}}
        self._known: dict[str, Tensor | Parameter] = known
        self.arguments = like.arguments or self._derived_arguments(extra)
        shown = inspect.signature(eval(f"lambda {self.arguments}: None"))
        self.parameters = [
            p.replace(annotation=self._annotation(p)) for p in shown.parameters.values()
        ]

    def _derived_arguments(self, extra: Sequence[Parameter]) -> str:
        """Those of the function layer, and by name what only the gradient has."""
        outer = {inner: outer for outer, inner in self.names.items()}
        own = {p.name for p in own_parameters(self.signature)}

        def one(name: str, what: Tensor | Parameter) -> str:
            default = self.bridge.defaults.get(name, self.signature.default_of(what))
            name = outer.get(name, name)
            return name if default is inspect.Parameter.empty else f"{name}={default!r}"

        shown = [
            one(name, what)
            for name, what in self.signature.arguments
            if isinstance(what, Tensor) or name in own
        ]
        return ", ".join([*shown, *["*"] * bool(extra), *(one(p.name, p) for p in extra)])

    def meaning(self, name: str) -> Tensor | Parameter | None:
        """What an argument stands for; None for a flag that chooses, or something of the bridge."""
        return self._known.get(self.names.get(name, name))

    def _annotation(self, parameter: inspect.Parameter) -> str:
        what = self.meaning(parameter.name)
        if what is None:
            if parameter.name in self.like.takes and parameter.default is parameter.empty:
                return self.bridge.takes
            return "bool" if parameter.name in self.flags else "Any"
        kind = self.bridge.takes if isinstance(what, Tensor) else what.info.field.accepts
        may_be_none = parameter.default is None and "None" not in kind
        return f"{kind} | None" if may_be_none else kind

    @property
    def flags(self) -> tuple[str, ...]:
        """The arguments that choose another function, or add one."""
        return (*self.like.chooses, *self.like.adds)

    def check_flags(self, values: dict[str, Any]) -> None:
        """Raises for a flag that is neither True nor False."""
        for flag in self.flags:
            values[flag] = plain_option(self.name, flag, _FLAG, values[flag])

    @property
    def returns(self) -> str:
        """The type of the result; with indices added, of that."""
        if self.like.adds:
            return "ValuesAndIndices"
        count = len(self.signature.outputs)
        return (
            f"tuple[{', '.join([self.bridge.gives] * count)}]" if count > 1 else self.bridge.gives
        )

    def _compiled_arguments(self) -> str:
        """The signature, in which everything has a default."""
        shown = []
        for p in self.parameters:
            if p.kind is p.KEYWORD_ONLY and "*" not in shown:
                shown.append("*")
            shown.append(f"{p.name}={'missing' if p.default is p.empty else repr(p.default)}")
        return ", ".join(shown)

    def compile(self, body: str, module: str, **context: Any) -> Callable[..., Any]:
        """The Python function with this signature and `body`.

        What must be given and was not is `MISSING` there.
        """
        lines = ["if unknown: refuse(unknown)", *body.splitlines()]
        source = f"def {self.name}({self._compiled_arguments()}, **unknown):\n"
        source += "".join(f"    {line}\n" for line in lines)
        context["refuse"] = lambda unknown: refuse_unknown(function, unknown)
        context["missing"] = MISSING
        exec(compile(source, f"<{module} {self.name}>", "exec"), context)
        function: Callable[..., Any] = context[self.name]
        function.__module__ = module
        function.__annotations__ = {p.name: p.annotation for p in self.parameters}
        without = f" | {self.bridge.gives}" if self.like.adds else ""
        function.__annotations__["return"] = self.returns + without
        function.__doc__ = self.doc()
        show_signature(function)
        return function

    def doc(self) -> str:
        """The record's text, with the arguments before the examples."""
        written = inspect.cleandoc(self.like.doc)
        if not written:
            written = inspect.cleandoc(self.signature.function.doc).partition("\n\n")[0]
        summary, mark, examples = written.partition(">>>")
        lines = [summary.rstrip()]
        if self.like.peer and self.like.peer not in summary:
            differs = f"; {self.like.differs}" if self.like.differs else ""
            lines += ["", textwrap.fill(f"Replaces `{self.like.peer}`{differs}.", 92)]
        lines += ["", "Args:", *(f"    {p.name}: {self._says(p)}" for p in self.parameters)]
        returned = [t.doc for t in self.signature.outputs]
        for flag, name in self.like.adds.items():
            returned.append(f"and indices, as `gradplan.{name}`, if {flag}")
        lines += ["", "Returns:", f"    {'; '.join(returned)}"]
        return "\n".join([*lines, "", mark + examples]).rstrip() + "\n"

    def _says(self, parameter: inspect.Parameter) -> str:
        name = parameter.name
        what = self.meaning(name)
        if what is None:
            if name in self.like.adds:
                return "whether to give a pair of values and indices"
            if name in self.like.takes:
                return self.like.takes[name]
            chosen = self.like.chooses.get(name)
            return f"as `gradplan.{chosen}` does it" if chosen else _BRIDGE_ARGUMENTS[name]
        text = argument_doc(self.op, what)
        if name in self.like.inferred:
            text += f"; by default the largest of {self.like.inferred[name]} plus one"
        return text


_BRIDGE_ARGUMENTS = {"dtype": "an element type to convert to first"}
"""What bridges know besides the declarations."""


def offers_of(bridge: Bridge, op: Op) -> list[Offer]:
    """What a bridge offers of an op: nothing of a gradient, or before its gradient is there."""
    if op.forwards() or (op.gradient_name is not None and op.gradient_name not in OPS):
        return []
    likes = [(function, getattr(function, bridge.name)) for function in op.functions]
    return [Offer(bridge, op, function, like) for function, like in likes if like is not None]


def offered_as(bridge: str, op: Op, function: Function) -> str:
    """What a bridge ("gradplan.torch") calls a function, or the one whose gradient it is."""
    forward = next(iter(op.forwards_of(function)), op)
    for other in (forward.sibling(function), *(f for o in OPS.values() for f in o.functions)):
        like: Like | None = getattr(other, bridge.rpartition(".")[2])
        if like is None:
            continue
        name = f"{bridge}.{like.name or other.name}"
        if other.name == forward.sibling(function).name:
            return name
        for flag, chosen in like.chooses.items():
            if chosen == forward.sibling(function).name:
                return f"{name}(..., {flag}=True)"
        if {forward.sibling(function).name, function.part_of} & {*like.adds.values()}:
            return name
    return bridge


class Offers:
    """The functions of one bridge in its module, those of ops that are yet to come included.

    A gradient is reached through automatic differentiation alone, whichever of the two was declared
    first.
    """

    def __init__(
        self,
        bridge: Bridge,
        module: dict[str, Any],
        make: Callable[[Offer], Callable[..., Any]],
    ) -> None:
        self.bridge = bridge
        self.module = module
        self.make = make
        self.offered: dict[str, Offer] = {}
        for_every_op(self._add, self._remove)

    def _add(self, op: Op) -> None:
        for changed in {op, *op.forwards()}:
            for offer in offers_of(self.bridge, changed):
                self._offer(offer)
        if op.gradient_name in OPS:
            self._remove(OPS[op.gradient_name])
        self.module["__all__"][:] = sorted(self.offered)

    def _remove(self, op: Op) -> None:
        gone = {name for name, offer in self.offered.items() if offer.op is op}
        for name in gone:
            del self.offered[name], self.module[name]
        self.module["__all__"][:] = sorted(self.offered)

    def _offer(self, offer: Offer) -> None:
        function = self.make(offer)
        for name in (offer.name, *offer.like.aliases):
            self.offered[name] = offer
            self.module[name] = function
