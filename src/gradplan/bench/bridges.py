"""Our own functions in a bridge, in the form of peers: what calls others calls them as well."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

from gradplan.bench.board import functions
from gradplan.bench.peers import Call
from gradplan.declaration import Function, Like, Op, Peer
from gradplan.signatures import Signature, signature_of


def bridge_peer(bridge: str, op: Op, function: Function) -> Peer | None:
    """The function as `gradplan.torch` or `gradplan.jax` offers it; None for gradients.

    It may be another one of the bridge with a flag set: segment_sum(..., sorted=True).
    """
    if op.forwards():
        return None
    for _, offered in functions().values():
        like: Like | None = getattr(offered, bridge)
        if like is None:
            continue
        flags = {flag: True for flag, chosen in like.chooses.items() if chosen == function.name}
        if offered is function or flags:
            name = like.name or offered.name
            return _peer(bridge, name, like, signature_of(op, function.name), flags)
    return None


def _peer(bridge: str, name: str, like: Like, signature: Signature, flags: dict[str, bool]) -> Peer:
    needed = {t.function_name for t in signature.inputs}
    needed |= {p.name for p in signature.parameters if p.info.required}

    def bind(module: Any, v: SimpleNamespace, out: Any) -> Call:
        call = getattr(module, name)
        values: list[Any] = []
        options: dict[str, Any] = dict(flags)
        for parameter in inspect.signature(call).parameters.values():
            ours = "axis" if parameter.name == "dim" else parameter.name
            ours = like.names.get(parameter.name, ours)
            if ours not in needed:
                continue  # the bridge's default: what its framework does
            if parameter.default is parameter.empty:
                values.append(getattr(v, ours))
            else:
                options[parameter.name] = getattr(v, ours)
        return lambda: call(*values, **options)

    return Peer(f"gradplan.{bridge}", name, bind)
