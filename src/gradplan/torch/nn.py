"""Modules that take the place of PyTorch's, made from the records (`Like.module`)."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from gradplan.declaration import Op, for_every_op
from gradplan.offers import Offer
from gradplan.public import public
from gradplan.torch import functions
from gradplan.vocabulary import Unsupported

__all__: list[str] = []


def _make(offer: Offer) -> type[Any]:
    record = offer.like.module
    assert record is not None
    function = getattr(functions, offer.name)
    base = getattr(torch.nn, record.base) if record.base else torch.nn.Module
    options = [p for p in offer.parameters if p.default is not inspect.Parameter.empty]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if record.base:
            base.__init__(self, *args, **kwargs)
        else:
            base.__init__(self)
            given = inspect.Signature(options).bind(*args, **kwargs)
            given.apply_defaults()
            vars(self).update(given.arguments)
        for option in record.refuses:
            if getattr(self, option):
                raise Unsupported(
                    f"{record.name}: {option}: expected it not to be set; "
                    f"got {getattr(self, option)!r}"
                )

    def forward(self: Any, *tensors: Any) -> Any:
        given = iter(tensors)
        values = {
            p.name: getattr(self, p.name) if hasattr(self, p.name) else next(given)
            for p in offer.parameters
            if hasattr(self, p.name) or p.default is inspect.Parameter.empty
        }
        return function(**values)

    def extra_repr(self: Any) -> str:
        return ", ".join(f"{p.name}={getattr(self, p.name)!r}" for p in options)

    methods: dict[str, Any] = {"__init__": __init__, "forward": forward}
    if not record.base:
        methods["extra_repr"] = extra_repr
        shown = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        __init__.__signature__ = inspect.Signature([shown, *options])  # type: ignore[attr-defined]
    members = {**methods, "__doc__": inspect.cleandoc(record.doc), "__module__": __name__}
    return type(record.name, (base,), members)


_MODULES: dict[str, type[Any]] = {}


def _add(op: Op) -> None:
    for offer in functions.OFFERS.offered.values():  # whose listener comes before this one
        record = offer.like.module
        if record is not None and record.name not in _MODULES:
            _MODULES[record.name] = globals()[record.name] = _make(offer)
    __all__[:] = sorted(_MODULES)


def _remove(op: Op) -> None:
    for offer in functions.OFFERS.offered.values():
        if offer.like.module is not None and offer.op is op:
            del _MODULES[offer.like.module.name], globals()[offer.like.module.name]
    __all__[:] = sorted(_MODULES)


for_every_op(_add, _remove)
__getattr__, __dir__ = public(__name__, (), _MODULES)
