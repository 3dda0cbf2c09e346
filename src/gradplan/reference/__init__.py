"""The bit contract of docs/numerics.md, executed in NumPy operation by operation.

One function per operation, with the descriptor's fields as keywords and plain strings for its
enums. Tensors are NumPy arrays of any strides; bfloat16 is ml_dtypes'. Made to be read and to be
compared with, not to be fast.

>>> import numpy as np
>>> FUNCTIONS["scan"](np.float32([1, 2, 3]), kind="cumsum", scan_axis=0).tolist()
[1.0, 3.0, 6.0]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .embedding import embedding, embedding_backward
from .lerp import binary_param, binary_param_backward
from .scan import scan, scan_backward
from .segment import segment_sum, segment_sum_backward, unsorted_segment_sum
from .sparsemax import sparsemax, sparsemax_backward

__all__ = [
    "FUNCTIONS",
    "binary_param",
    "binary_param_backward",
    "embedding",
    "embedding_backward",
    "scan",
    "scan_backward",
    "segment_sum",
    "segment_sum_backward",
    "sparsemax",
    "sparsemax_backward",
    "unsorted_segment_sum",
]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: globals()[name] for name in __all__ if name != "FUNCTIONS"
}
"""Every operation by its name."""
