"""The module in C that small calls go through (csrc/python), where it can be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gradplan._ffi import tvm_ffi

if TYPE_CHECKING:
    from types import ModuleType

EXPORTS_GRAD = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
"""Newer tensors have a faster way out than `__dlpack__`, which refuses those with gradients."""


def _native() -> ModuleType | None:
    try:
        tvm_ffi()  # the module needs its library
        from gradplan.torch import _launch
    except ImportError:  # built without Python's headers, or a Python without the stable interface
        return None
    return _launch if EXPORTS_GRAD else None


MODULE: Any = _native()
"""None where it is missing, or the tensors' exchange table: then Python does the same, slower."""
