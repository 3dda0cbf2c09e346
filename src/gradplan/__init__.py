"""Gradient kernels with plans: the same bits on every run, thread count, layout and CPU.

>>> import numpy as np
>>> import gradplan as gp
>>> gp.cumsum(np.float32([1, 2, 3]))
array([1., 3., 6.], dtype=float32)

`gp.ScanDescriptor`, `gp.ScanPlan` and their siblings are the plans underneath.
"""

from __future__ import annotations

from gradplan import functional, plans, vocabulary
from gradplan.declaration import Descriptor
from gradplan.engines.cpu import get_num_threads, set_num_threads
from gradplan.functional import *  # noqa: F403
from gradplan.hints import did_you_mean
from gradplan.plan import Plan
from gradplan.plans import *  # noqa: F403
from gradplan.vocabulary import *  # noqa: F403

__version__ = "0.1.0"

__all__ = [
    "Descriptor",
    "Plan",
    "__version__",
    "get_num_threads",
    "set_num_threads",
]
__all__ += vocabulary.__all__
__all__ += plans.__all__
__all__ += functional.__all__


def __getattr__(name: str) -> object:
    """Functions, descriptors and plans of ops that were declared after the import."""
    for module in (functional, plans):
        if name in module.__all__:
            return getattr(module, name)
    hint = did_you_mean(name, __all__)
    raise AttributeError(f"module 'gradplan' has no attribute {name!r}{hint}")
