"""Arrays on a GPU without a framework: copied there and back by the driver, strides and all."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradplan._ffi import tvm_ffi
from gradplan.engines.checks import common

Array = np.ndarray[Any, Any]


class DeviceArray:
    """A copy of an array on a GPU; `tensor` is what plans take."""

    def __init__(self, array: Array, library: str, device: int) -> None:
        self._library = library
        self._array = array
        steps = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
        before = -sum(s for s in steps if s < 0)
        behind = sum(s for s in steps if s > 0)
        self._size = before + behind + array.itemsize if array.size else 0
        self._origin = before if array.size else 0
        self.tensor = common().gradplan_cuda_upload(
            library,
            device,
            array.ctypes.data - self._origin,
            self._size,
            self._origin,
            list(array.shape),
            [s // array.itemsize for s in array.strides],
            tvm_ffi().dtype(array.dtype.name),
        )

    def fetched(self) -> Array:
        """What it holds once the device has done its work, as an array of the same strides."""
        memory = np.empty(max(self._size, 1), np.uint8)
        common().gradplan_cuda_download(
            self._library, self.tensor, self._origin, memory.ctypes.data, self._size
        )
        array = self._array
        made: Array = np.ndarray(
            array.shape, array.dtype, memory, self._origin if array.size else 0, array.strides
        )
        return made if array.size else np.empty_like(array)
