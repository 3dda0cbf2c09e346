"""Our own functions in a bridge, in the form of peers: what calls others calls them as well."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradplan.bench.board import functions
from gradplan.bench.peers import Call
from gradplan.declaration import Function, Like, Op, Peer
from gradplan.offers import JAX, TORCH, Offer
from gradplan.signatures import Parameter

_BRIDGES = {bridge.name: bridge for bridge in (TORCH, JAX)}


def offer_of(bridge: str, op: Op, function: Function) -> Offer | None:
    """How a bridge offers a function; None if it does not, by itself."""
    like: Like | None = getattr(function, bridge)
    if like is None or op.forwards():
        return None
    return Offer(_BRIDGES[bridge], op, function, like)


def bridge_peer(bridge: str, op: Op, function: Function) -> Peer | None:
    """The function as `gradplan.torch` or `gradplan.jax` offers it; None for gradients.

    It may be another one of the bridge with a flag set: segment_sum(..., sorted=True).
    """
    own = offer_of(bridge, op, function)
    if own is not None:
        # One that wants a tensor more, such as what sums are added to, does more than the op.
        wants = (p.name for p in own.parameters if p.default is p.empty)
        more = any(own.meaning(name) is None for name in wants)
        return None if more else _peer(bridge, own, {})
    for other in functions().values():
        offer = offer_of(bridge, *other)
        chooses = {} if offer is None else offer.like.chooses
        flags = {flag: True for flag, chosen in chooses.items() if chosen == function.name}
        if offer is not None and flags:
            return _peer(bridge, offer, flags)
    return None


def _peer(bridge: str, offer: Offer, flags: dict[str, bool]) -> Peer:
    def bind(module: Any, v: SimpleNamespace, out: Any) -> Call:
        call = getattr(module, offer.name)
        values: list[Any] = []
        options: dict[str, Any] = dict(flags)
        for parameter in offer.parameters:
            what = offer.meaning(parameter.name)
            if what is None or (isinstance(what, Parameter) and not what.info.required):
                continue  # the bridge's default: what its framework does
            value = getattr(v, offer.names.get(parameter.name, parameter.name))
            if parameter.default is parameter.empty:
                values.append(value)
            else:
                options[parameter.name] = value
        if offer.like.adds:  # indices as well, as its framework's function does
            return lambda: call(*values, **options)[0]
        return lambda: call(*values, **options)

    return Peer(f"gradplan.{bridge}", offer.name, bind)
