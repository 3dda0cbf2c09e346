"""The function layer: gradplan without plans.

Every function takes tensors of any framework, `out=` and the descriptor's options, and returns a
tensor of the first argument's framework. None of them records gradients; `gradplan.torch` and
`gradplan.jax` do.

Made from the declarations, those that are yet to come included. Types are in functional.pyi, which
`make stubs` writes.
"""

from __future__ import annotations

import gradplan.ops  # noqa: F401  (fills OPS)
from gradplan.declaration import Op, for_every_op
from gradplan.functions import make_function
from gradplan.signatures import Signature, signature_of

SIGNATURES: dict[str, Signature] = {}
"""What each function takes, by name."""
__all__: list[str] = []


def _add(op: Op) -> None:
    for function in op.functions:
        SIGNATURES[function.name] = signature = signature_of(op, function.name)
        globals()[function.name] = make_function(signature)
    __all__[:] = sorted(SIGNATURES)


def _remove(op: Op) -> None:
    for function in op.functions:
        del SIGNATURES[function.name], globals()[function.name]
    __all__[:] = sorted(SIGNATURES)


for_every_op(_add, _remove)
