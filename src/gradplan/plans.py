"""The descriptor and plan classes, by name: `ScanDescriptor`, `ScanPlan` and so on.

Made from the declarations. Types are in plans.pyi, which `make stubs` writes.
"""

from __future__ import annotations

import gradplan.ops  # noqa: F401  (fills OPS)
from gradplan.plan import plan_class
from gradplan.spec import OPS

for _op in OPS.values():
    globals()[_op.descriptor.__name__] = _op.descriptor
    globals()[_op.plan_name] = plan_class(_op)

__all__ = sorted(n for op in OPS.values() for n in (op.descriptor.__name__, op.plan_name))
