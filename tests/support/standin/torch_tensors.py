"""PyTorch's tensors that claim to be on a GPU, for a PyTorch that was built without CUDA.

Operators of PyTorch's run on the host's memory; those of gradplan get what the dispatcher would
give them for tensors of CUDA: their implementation for every device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

from gradplan import ElementKind
from gradplan._ffi import tvm_ffi
from gradplan.torch.operators import NAMESPACE, OPERATORS

from .arrays import GpuArray


class _Missing:
    """A plain tensor's way to export itself would find no memory here."""

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        raise AttributeError("__dlpack_c_exchange_api__")


class CudaTensor(torch.Tensor):
    """A tensor on "cuda:<device>" whose memory is that of `inner`."""

    __dlpack_c_exchange_api__ = _Missing()
    inner: torch.Tensor
    array: GpuArray

    @staticmethod
    def __new__(cls, inner: torch.Tensor, device: int = 0) -> CudaTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=f"cuda:{device}"
        )
        made.inner = inner
        if inner.dtype is torch.bfloat16:
            on_host = inner.view(torch.int16).numpy().view(ElementKind.BF16.dtype)
        else:
            on_host = inner.numpy()
        made.array = GpuArray(on_host, device)
        return made

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function.namespace == NAMESPACE:
            return OPERATORS[function._opname]._run(*args)
        given = {name: value for name, value in (kwargs or {}).items() if name != "device"}
        device = next(x.device.index for x in args if isinstance(x, CudaTensor))
        results = function(*tree_map(_inner, args), **tree_map(_inner, given))
        if function.overloadpacket._qualified_op_name in ("aten::zero_", "aten::copy_"):
            return args[0]
        return tree_map(
            lambda x: CudaTensor(x, device) if isinstance(x, torch.Tensor) else x, results
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__()

    def __tvm_ffi_object__(self) -> Any:
        return tvm_ffi().from_dlpack(self.array)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"CudaTensor({self.inner})"


def _inner(x: Any) -> Any:
    return x.inner if isinstance(x, CudaTensor) else x


class Stream:
    """As torch.cuda.Stream."""

    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle


@contextlib.contextmanager
def streams(patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """torch.cuda's functions for streams; gives the stack of those that are current."""
    stack = [0]

    @contextlib.contextmanager
    def entered(stream: Stream) -> Iterator[None]:
        stack.append(stream.cuda_stream)
        yield
        stack.pop()

    def empty(size: int, *, dtype: Any, device: Any) -> CudaTensor:
        return CudaTensor(torch.full((size,), 0xFF, dtype=dtype), device.index)

    with patch.context() as patched:
        patched.setattr(torch.cuda, "current_stream", lambda device: Stream(stack[-1]))
        patched.setattr(torch.cuda, "ExternalStream", lambda handle, device: Stream(handle))
        patched.setattr(torch.cuda, "stream", entered)
        original = torch.empty
        patched.setattr(
            torch,
            "empty",
            lambda *size, device=None, **rest: (
                empty(*size, device=device, **rest)
                if getattr(device, "type", "") == "cuda"
                else original(*size, device=device, **rest)
            ),
        )
        yield stack
