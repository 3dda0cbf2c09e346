"""Peers of our functions, from the records that the benchmark and the tables use as well."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gradplan.functional import SIGNATURES


def peer_of(library: str, function: str, **options: Any) -> Callable[..., Any]:
    """What `library` has for a function, of tensors in the function layer's order.

    `options` are the function's, and tensors that are not to be varied.
    """
    signature = SIGNATURES[function]
    record = next(p for p in signature.function.peers if p.library == library)
    defaults = {p.name: p.default for p in signature.parameters}
    names = [t.function_name for t in signature.inputs if t.function_name not in options]

    def call(*tensors: Any) -> Any:
        given = dict(zip(names, tensors, strict=True))
        v = SimpleNamespace(**{**defaults, **options, **given})
        return record.bind(importlib.import_module(library), v, None)()

    return call
