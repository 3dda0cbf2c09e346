"""The function layer: gradplan without plans.

Every function takes tensors of any framework, `out=` and the descriptor's options, and returns a
tensor of the first argument's framework. None of them records gradients; `gradplan.torch` and
`gradplan.jax` do.

Made from the declarations. Types are in functional.pyi, which `make stubs` writes.
"""

from __future__ import annotations

import gradplan.ops  # noqa: F401  (fills OPS)
from gradplan.recipes import Signature, make_function
from gradplan.spec import OPS

SIGNATURES = {f.name: Signature(op, f) for op in OPS.values() for f in op.functions}
"""What each function takes, by name."""

for _name, _signature in SIGNATURES.items():
    globals()[_name] = make_function(_signature)

__all__ = sorted(SIGNATURES)
