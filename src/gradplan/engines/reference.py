"""The reference engine: the bit contract in NumPy (`gradplan.reference`) behind plans."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from gradplan.declaration import Descriptor, Op, Role
from gradplan.engines import BoundKernel, Engine
from gradplan.engines.checks import CallChecks
from gradplan.vocabulary import Error


class ReferenceEngine(Engine):
    """Slow and readable; for comparing with, so it is chosen only by name.

    An op that has no kernel yet is served by it all the same: a declaration and a reference are
    enough to try an op everywhere.
    """

    name = "reference"
    automatic = False
    last_resort = True

    def has(self, op: Op) -> bool:
        from gradplan.reference import FUNCTIONS

        return op.name in FUNCTIONS

    def why_not(self, op: Op, desc: Descriptor) -> str | None:
        return None if self.has(op) else f"no reference for {op.name}"

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        from gradplan.reference import FUNCTIONS

        function = FUNCTIONS[op.name]
        takes = inspect.signature(function).parameters
        options = {i.name: getattr(desc, i.name) for i in op.fields if i.name in takes}
        operands = op.operands(desc)
        checks = CallChecks(op.plan_name, operands)

        def run(*args: Any) -> None:
            *tensors, workspace = args
            arrays = checks.arrays(tensors, workspace)
            for operand, array in zip(operands, arrays, strict=True):
                if array is not None and operand.is_input:
                    array.flags.writeable = False  # whoever gave it has been promised so
            named = dict(zip((o.name for o in operands), arrays, strict=True))
            given = {o.name: named[o.name] for o in operands if o.role is not Role.OUT}
            given = {name: x for name, x in given.items() if x is not None}
            try:
                results = function(**given, **options)
            except Error as error:
                raise type(error)(f"{op.plan_name}: {error}") from None
            outputs = [o for o in operands if not o.is_input]
            for operand, result in zip(outputs, _as_tuple(results), strict=True):
                target = named[operand.name]
                if target is not None:
                    # Only indices come in two types.
                    casting: Any = "no" if len(operand.kinds) == 1 else "same_kind"
                    np.copyto(target, result, casting=casting)

        return BoundKernel(run)


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


ENGINE = ReferenceEngine()
