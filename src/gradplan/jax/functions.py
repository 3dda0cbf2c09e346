"""The functions of `gradplan.jax`, with the names and arguments of JAX.

Made from the declarations (`Function.jax`), those that are yet to come included. Types are in
functions.pyi, which `make stubs` writes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gradplan.functional import SIGNATURES
from gradplan.hints import check_given
from gradplan.jax.calls import Callee, largest_plus_one
from gradplan.offers import JAX, Offer, Offers

__all__: list[str] = []


class _Calls:
    """How an offered function goes on."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer

    @functools.cached_property
    def _callees(self) -> dict[str, Callee]:
        """The function, and those that flags choose instead of it, by flag."""
        offer = self.offer
        chosen = {"": offer.signature}
        chosen.update({flag: SIGNATURES[name] for flag, name in offer.like.chooses.items()})
        return {flag: Callee(s, offer.name, offer.like) for flag, s in chosen.items()}

    @functools.cached_property
    def _own(self) -> Callee:
        """The function by its own names, for what is made of it (`Like.adapts`)."""
        like = dataclasses.replace(self.offer.like, names={})
        return Callee(self.offer.signature, self.offer.name, like)

    def _inner(self, **values: Any) -> Any:
        return self._own(values)

    def __call__(self, values: dict[str, Any]) -> Any:
        like = self.offer.like
        check_given(self.offer.name, values)
        self.offer.check_flags(values)
        if like.adapts is not None:
            return like.adapts(jax, self._inner, **values)
        flag = next((flag for flag in like.chooses if values[flag]), "")
        for size, indices in like.inferred.items():
            if values[size] is None:
                values[size] = largest_plus_one(self.offer.name, size, indices, values[indices])
        return self._callees[flag](values)


def _make(offer: Offer) -> Callable[..., Any]:
    values = ", ".join(f"{p.name}={p.name}" for p in offer.parameters)
    body = f"return call(dict({values}))"
    return offer.compile(body, __name__, call=_Calls(offer), jax=jax, jnp=jnp)


OFFERS = Offers(JAX, globals(), _make)
