"""The bit contract of docs/numerics.md, executed in NumPy operation by operation.

One function per operation, with the descriptor's fields as keywords and plain strings for its
enums. Tensors are NumPy arrays of any strides; bfloat16 is ml_dtypes'. Made to be read and to be
compared with, not to be fast. The files are found by their presence; `@operation` marks what is the
reference of an op.

>>> import numpy as np
>>> FUNCTIONS["scan"](np.float32([1, 2, 3]), kind="cumsum", scan_axis=0).tolist()
[1.0, 3.0, 6.0]
"""

from __future__ import annotations

import importlib
import pkgutil

from gradplan.public import public

from .operations import FUNCTIONS, operation

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

globals().update(FUNCTIONS)  # some are called like their modules

__all__ = ["FUNCTIONS", "operation"]
__getattr__, __dir__ = public(__name__, __all__, FUNCTIONS)
__all__.extend(FUNCTIONS)
