"""How much workspace a problem may need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from gradplan.declaration import Descriptor, Op
from gradplan.engines.cuda.program import Layout, Program


def contiguous(op: Op, desc: Descriptor) -> dict[str, Layout]:
    """Every tensor of a problem, in C order and aligned."""
    layouts = {}
    for operand in op.operands(desc):
        shape = tuple(operand.shape)
        strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        layouts[operand.name] = Layout(operand.dtype_names[0], shape, strides, aligned=True)
    return layouts


def of_any_layout(
    op: Op, program: Callable[[Descriptor, Mapping[str, Layout]], Program]
) -> Callable[[Descriptor], int]:
    """For programs whose workspace does not depend on how tensors lie."""

    def size(desc: Descriptor) -> int:
        return program(desc, contiguous(op, desc)).workspace_size

    return size
