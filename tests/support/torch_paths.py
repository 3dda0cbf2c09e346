"""Fast paths with launches that show which of them was found, for the tests of the object in C."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gradplan._ffi import tvm_ffi
from gradplan.torch import private
from gradplan.torch.fast_path import NATIVE

if NATIVE is None:
    reason = "built without Python's headers, or a PyTorch without what the module needs"
    pytest.skip(reason, allow_module_level=True)


def make_path(inputs: int = 1, options: int = 0, outputs: int = 1, **how: Any) -> Any:
    floats, kept = how.get("floats", tuple(range(inputs))), how.get("kept", ())
    outside = how.get("dispatcher", private.DISPATCHER), how.get("allocate", private.allocate)
    counts = inputs, options, outputs, how.get("first", outputs), how.get("limit", 100)
    return NATIVE(torch.Tensor, *outside, how.get("apply"), floats, kept, *counts)


def launch(mark: int, saved: Any = ()) -> Any:
    """One that takes any tensors; the number is its output's extent."""
    kernel = tvm_ffi().convert(lambda *tensors: None)
    output = ((mark,), (1,), torch.float32), None, -1
    return kernel, kernel.__chandle__(), False, (output,), saved


def marks(path: Any, *arguments: Any) -> list[Any]:
    """Of the launches that are found from inside of the dispatcher and from outside."""
    with torch.no_grad():
        found = path.run(*arguments), path.call(*arguments)
    return [x.numel() if isinstance(x, torch.Tensor) else x for x in found]
