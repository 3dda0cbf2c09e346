"""Differentiable operators for PyTorch: the same bits on every run, eager or compiled.

>>> import torch
>>> from gradplan import torch as gpt
>>> x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> gpt.cumsum(x, dim=0).sum().backward()
>>> x.grad
tensor([3., 2., 1.])

Functions have PyTorch's argument order; `gradplan.torch.nn` has the modules. What has to be
imported by itself: `gradplan.torch.distributed`, what several processes compute together, and
`gradplan.torch.scatter`, torch_scatter's functions.
docs/guides/migrating.md says what to replace with what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import torch as _torch
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "gradplan.torch needs PyTorch: pip install 'gradplan[torch]' (or torch itself, as "
        "https://pytorch.org/get-started says for your hardware)",
        name="torch",
    ) from None

# 2.5 has all the calls, but its vmap of an operator fails inside of grad.
if _torch.__version__ < (2, 6):
    raise ImportError(f"gradplan.torch needs PyTorch 2.6 or later; found {_torch.__version__}")

from gradplan.engines.checks import common as _common
from gradplan.public import public
from gradplan.torch import functions, nn
from gradplan.torch.functions import *  # noqa: F403
from gradplan.torch.memory import release_memory

_common().gradplan_share_openmp()  # PyTorch's threads serve while they are awake

__all__ = ["nn", "release_memory"]

if not TYPE_CHECKING:  # which would take every name for one of the module's
    __getattr__, __dir__ = public(
        __name__, __all__, functions, submodules=["distributed", "scatter"]
    )

__all__ += functions.__all__
