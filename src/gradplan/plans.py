"""The descriptor and plan classes, by name: `ScanDescriptor`, `ScanPlan` and so on.

Made from the declarations. Types are in plans.pyi, which `make stubs` writes.
"""

from __future__ import annotations

import gradplan.ops  # noqa: F401  (fills OPS)
from gradplan.declaration import Op, for_every_op
from gradplan.plan import plan_class

__all__: list[str] = []


def _add(op: Op) -> None:
    globals()[op.descriptor.__name__] = op.descriptor
    globals()[op.plan_name] = plan_class(op)
    __all__[:] = sorted({*__all__, op.descriptor.__name__, op.plan_name})


def _remove(op: Op) -> None:
    for name in (op.descriptor.__name__, op.plan_name):
        __all__.remove(name)
        del globals()[name]


for_every_op(_add, _remove)
