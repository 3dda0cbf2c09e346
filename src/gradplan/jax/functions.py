"""The functions of `gradplan.jax`, with the names and arguments of JAX.

Made from the declarations (`Function.jax`), those that are yet to come included. Types are in
functions.pyi, which tools/jax_stub.py writes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax  # noqa: F401  (for the examples)
import jax.numpy as jnp  # noqa: F401

from gradplan.declaration import OPS, Function, Like, Op, Tensor, for_every_op
from gradplan.functional import SIGNATURES
from gradplan.jax.calls import Callee, gradient_parameters, largest_plus_one, own_parameters
from gradplan.signatures import Parameter, Signature, argument_doc, signature_of

__all__: list[str] = []


class _Offer:
    """A function and its record: everything that follows from the two."""

    def __init__(self, op: Op, function: Function, like: Like) -> None:
        self.op = op
        self.like = like
        self.name = like.name or function.name
        self.signature = signature_of(op, function.name)
        extra = gradient_parameters(self.signature)
        self.known: dict[str, Tensor | Parameter] = dict(self.signature.arguments)
        self.known.update({p.name: p for p in extra})
        self.arguments = like.arguments or _arguments(self.signature, extra)
        shown = inspect.signature(eval(f"lambda {self.arguments}: None"))
        self.parameters = [
            p.replace(annotation=self._annotation(p)) for p in shown.parameters.values()
        ]

    def _meaning(self, name: str) -> Tensor | Parameter | None:
        """What an argument stands for; None for a flag that chooses."""
        return self.known.get(self.like.names.get(name, name))

    def _annotation(self, parameter: inspect.Parameter) -> str:
        what = self._meaning(parameter.name)
        if what is None:
            return "bool"
        kind = "Array" if isinstance(what, Tensor) else what.info.field.accepts
        may_be_none = parameter.default is None and "None" not in kind
        return f"{kind} | None" if may_be_none else kind

    def make(self) -> Callable[..., Any]:
        values = ", ".join(f"{p.name}={p.name}" for p in self.parameters)
        source = f"def {self.name}({self.arguments}): return call(dict({values}))"
        made: dict[str, Any] = {}
        text = f"def make(call):\n    {source}\n    return {self.name}"
        exec(compile(text, f"<gradplan.jax {self.name}>", "exec"), globals(), made)
        function: Callable[..., Any] = made["make"](self._call)
        function.__qualname__ = self.name
        function.__annotations__ = {p.name: p.annotation for p in self.parameters}
        count = len(self.signature.outputs)
        function.__annotations__["return"] = (
            f"tuple[{', '.join(['Array'] * count)}]" if count > 1 else "Array"
        )
        function.__doc__ = self.doc()
        return function

    # A call

    @functools.cached_property
    def _callees(self) -> dict[str, Callee]:
        """The function, and those that flags choose instead of it, by flag."""
        chosen = {"": self.signature}
        chosen.update({flag: SIGNATURES[name] for flag, name in self.like.chooses.items()})
        return {flag: Callee(s, self.name, self.like) for flag, s in chosen.items()}

    def _call(self, values: dict[str, Any]) -> Any:
        flag = next((flag for flag in self.like.chooses if values[flag]), "")
        for size, indices in self.like.inferred.items():
            if values[size] is None:
                values[size] = largest_plus_one(self.name, size, indices, values[indices])
        return self._callees[flag](values)

    # Its text

    def doc(self) -> str:
        """The record's text, with the arguments before the examples unless it describes them."""
        written = inspect.cleandoc(self.like.doc)
        if not written:
            written = inspect.cleandoc(self.signature.function.doc).partition("\n\n")[0]
        summary, mark, examples = written.partition(">>>")
        lines = [summary.rstrip()]
        if "Args:" not in summary:
            lines += ["", "Args:", *(f"    {p.name}: {self._says(p)}" for p in self.parameters)]
            lines += ["", "Returns:", f"    {'; '.join(t.doc for t in self.signature.outputs)}"]
        return "\n".join([*lines, "", mark + examples]).rstrip() + "\n"

    def _says(self, parameter: inspect.Parameter) -> str:
        name = parameter.name
        what = self._meaning(name)
        if what is None:
            return f"as `gradplan.{self.like.chooses[name]}` does it"
        text = argument_doc(self.op, what)
        if name in self.like.inferred:
            text += f"; by default the largest of {self.like.inferred[name]} plus one"
        return text


def _arguments(signature: Signature, extra: list[Parameter]) -> str:
    """The arguments of the function layer, and by name what only the gradient has."""
    offered = {p.name for p in own_parameters(signature)}

    def one(name: str, what: Tensor | Parameter) -> str:
        default = signature.default_of(what)
        return name if default is inspect.Parameter.empty else f"{name}={default!r}"

    own = [
        one(name, what)
        for name, what in signature.arguments
        if isinstance(what, Tensor) or name in offered
    ]
    return ", ".join([*own, *["*"] * bool(extra), *(one(p.name, p) for p in extra)])


def _add(op: Op) -> None:
    """Offers the functions of an op as soon as its gradient is there too.

    A gradient is reached through `jax.grad` alone, whichever of the two was declared first.
    """
    for changed in {op, *op.forwards()}:
        ready = changed.gradient_name is None or changed.gradient_name in OPS
        for function in changed.functions:
            like = function.jax
            if like is not None and ready and not changed.forwards():
                offer = _Offer(changed, function, like)
                names = dict.fromkeys((offer.name, *like.aliases), offer.make())
                globals().update(names)
                __all__[:] = sorted({*__all__, *names})
    if op.gradient_name in OPS:
        _remove(OPS[op.gradient_name])


def _remove(gradient: Op) -> None:
    for function in gradient.functions:
        if function.name in __all__:
            __all__.remove(function.name)
            del globals()[function.name]


for_every_op(_add)
