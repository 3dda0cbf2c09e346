"""Gradient kernels with plans: the same bits on every run, thread count, layout and CPU.

>>> import numpy as np
>>> import gradplan as gp
>>> gp.cumsum(np.float32([1, 2, 3]))
array([1., 3., 6.], dtype=float32)

`gp.ScanDescriptor`, `gp.ScanPlan` and their siblings are the plans underneath.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradplan import functional, plans, vocabulary
from gradplan.declaration import Descriptor
from gradplan.engines.cpu import get_num_threads, set_num_threads
from gradplan.functional import *  # noqa: F403
from gradplan.plan import Plan
from gradplan.plans import *  # noqa: F403
from gradplan.public import public
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

if not TYPE_CHECKING:  # which would take every name for one of the module's
    __getattr__, __dir__ = public(
        __name__, __all__, plans, functional, submodules=("jax", "reference", "torch")
    )

__all__ += plans.__all__
__all__ += functional.__all__
