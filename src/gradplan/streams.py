"""What `stream=` takes: streams of PyTorch and CuPy, objects with `__cuda_stream__`, handles."""

from __future__ import annotations

import operator
from typing import Any

from gradplan.vocabulary import InvalidProblem

# Where frameworks keep the handle: PyTorch's streams, CuPy's.
_ATTRIBUTES = ("cuda_stream", "ptr")


def stream_handle(plan: str, stream: Any) -> int:
    """The driver's handle of a stream, as a number.

    >>> stream_handle("ScanPlan", 0)
    0
    """
    protocol = getattr(type(stream), "__cuda_stream__", None)
    if protocol is not None:
        _, handle = protocol(stream)
    else:
        handle = next((getattr(stream, n) for n in _ATTRIBUTES if hasattr(stream, n)), stream)
    try:
        if isinstance(handle, bool):
            raise TypeError
        number = operator.index(handle)
    except TypeError:
        number = -1
    if number < 0:
        raise InvalidProblem(
            f"{plan}: stream: expected a stream of PyTorch or CuPy, an object with "
            f"__cuda_stream__, or a handle as a number; got {stream!r}"
        )
    return number
