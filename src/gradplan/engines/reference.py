"""The reference engine: the bit contract in NumPy (`gradplan.reference`) behind plans."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from gradplan.descriptor import Descriptor
from gradplan.engines import BoundKernel, Engine
from gradplan.engines.checks import checked
from gradplan.spec import Op, Role
from gradplan.vocabulary import Error


class ReferenceEngine(Engine):
    """Slow and readable; for comparing with, so it is chosen only by name."""

    name = "reference"
    automatic = False

    def why_not(self, op: Op, desc: Descriptor) -> str | None:
        from gradplan.reference import FUNCTIONS

        return None if op.name in FUNCTIONS else f"no reference for {op.name}"

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        from gradplan.reference import FUNCTIONS

        function = FUNCTIONS[op.name]
        takes = inspect.signature(function).parameters
        options = {i.name: getattr(desc, i.name) for i in op.fields if i.name in takes}
        operands = op.operands(desc)

        def run(*args: Any) -> None:
            arrays = checked(op.plan_name, operands, args[:-1])
            named = dict(zip((o.name for o in operands), arrays, strict=True))
            given = {o.name: named[o.name] for o in operands if o.role is not Role.OUT}
            try:
                results = function(**given, **options)
            except Error as error:
                raise type(error)(f"{op.plan_name}: {error}") from None
            outputs = [o.name for o in operands if not o.is_input]
            for name, result in zip(outputs, _as_tuple(results), strict=True):
                target = named[name]
                if target is not None:
                    np.copyto(target, result, casting="no")

        return BoundKernel(run)


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)
