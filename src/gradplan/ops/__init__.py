"""The declarations, one file per family.

Modules of this package are found by their presence: adding an op is adding a file (or an `Op` to
one). Each registers itself in `gradplan.declaration.OPS`.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
