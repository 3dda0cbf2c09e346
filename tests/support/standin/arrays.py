"""Tensors that claim to be on a GPU: the memory is the host's, DLPack says otherwise."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from gradplan import ElementKind

Array = np.ndarray[Any, Any]
CUDA = 2  # kDLCUDA


class _Tensor(ctypes.Structure):
    """DLManagedTensor: a tensor of DLPack, and who owns it."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_Delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_exported: dict[int, tuple[Any, ...]] = {}


@_Delete
def _delete(address: int) -> None:
    _exported.pop(address, None)


_CODES = {"i": 0, "u": 1, "f": 2}
_BFLOAT = 4
# A prototype of its own: others set the types of ctypes.pythonapi.PyCapsule_New as they like.
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))

LIVING: weakref.WeakSet[GpuArray] = weakref.WeakSet()
"""All of them: what kernels may reach."""


class GpuArray:
    """An ndarray on "cuda:<device>"; `on_host` is what is there."""

    def __init__(self, array: Array, device: int = 0) -> None:
        self.on_host = array
        self.device_id = device
        self.shape, self.dtype = array.shape, array.dtype
        LIVING.add(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device_id

    def __dlpack__(self, **options: Any) -> Any:
        array = self.on_host
        rank = array.ndim
        bfloat = array.dtype == ElementKind.BF16.dtype
        shape = (ctypes.c_int64 * max(rank, 1))(*array.shape)
        strides = (ctypes.c_int64 * max(rank, 1))(*(s // array.itemsize for s in array.strides))
        made = _Tensor(
            data=array.ctypes.data,
            device_type=CUDA,
            device_id=self.device_id,
            ndim=rank,
            code=_BFLOAT if bfloat else _CODES[array.dtype.kind],
            bits=8 * array.itemsize,
            lanes=1,
            shape=shape,
            strides=strides,
            deleter=ctypes.cast(_delete, ctypes.c_void_p),
        )
        _exported[ctypes.addressof(made)] = made, shape, strides, self
        return _new_capsule(ctypes.addressof(made), b"dltensor", None)

    def reach(self) -> tuple[int, int]:
        """The first byte of its elements, and the one behind them."""
        array = self.on_host
        if not array.size:
            return 0, 0
        steps = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
        first = array.ctypes.data + sum(s for s in steps if s < 0)
        return first, array.ctypes.data + sum(s for s in steps if s > 0) + array.itemsize


def scratch(size: int, device: int = 0) -> GpuArray:
    """Memory that holds nothing of use, as on a GPU."""
    return GpuArray(np.full(size, 0xFF, np.uint8), device)
