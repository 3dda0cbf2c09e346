"""Small kernels of PTX, to try one instruction at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ptx.machine import Kernel
from ptx.memory import Memory

Array = np.ndarray[Any, Any]
WARP = 32

HEAD = """
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.visible .entry snippet({parameters})
.reqntid {threads}
{{
.reg .pred %p<20>;
.reg .b16 %h<20>;
.reg .b32 %r<20>;
.reg .b64 %rd<40>;
mov.u32 %r10, %ctaid.x;
mov.u32 %r11, %tid.x;
mad.lo.s32 %r12, %r10, {threads}, %r11;
{body}
ret;
}}
"""
REGISTERS = {1: "%p", 2: "%h", 4: "%r", 8: "%rd"}


def module(body: str, parameters: int, threads: int = WARP) -> str:
    """A kernel with pointers as parameters; %r12 is the number of the thread."""
    listed = ",".join(f".param .u64 .ptr .global .align 1 at_{i}" for i in range(parameters))
    return HEAD.format(parameters=listed, body=body, threads=threads)


def memory_of(arrays: Sequence[Array]) -> Memory:
    return Memory.of_addresses((a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays)


def launch(
    body: str,
    arrays: Sequence[Array],
    *,
    programs: int = 1,
    threads: int = WARP,
    shared: int = 0,
    **options: Any,
) -> Kernel:
    """Runs a body whose pointers (parameters at_0, at_1, ..) are arrays."""
    kernel = Kernel(module(body, len(arrays), threads), shared)
    addresses = [a.ctypes.data for a in arrays]
    kernel.launch((programs, 1, 1), addresses, memory_of(arrays), **options)
    return kernel


def evaluate(instruction: str, inputs: Mapping[str, Array], output: str, dtype: Any) -> Array:
    """What an instruction leaves in register `output`, for each element of the inputs.

    Inputs are by register. Booleans stand for predicates.
    """
    count = len(next(iter(inputs.values())))
    padded = -(-count // WARP) * WARP
    arrays = [np.zeros(padded, "u1" if a.dtype == bool else a.dtype) for a in inputs.values()]
    for array, values in zip(arrays, inputs.values(), strict=True):
        array[:count] = values
    lines = []
    for number, (register, values) in enumerate(inputs.items()):
        size = values.dtype.itemsize
        lines += [
            f"ld.param.b64 %rd30, [at_{number}];",
            f"mad.wide.u32 %rd31, %r12, {size}, %rd30;",
        ]
        if values.dtype == bool:
            lines += ["ld.global.u8 %h19, [%rd31];", f"setp.ne.u16 {register}, %h19, 0;"]
        else:
            lines += [f"ld.global.b{8 * size} {register}, [%rd31];"]
    result = np.zeros(padded, "u2" if dtype is bool else dtype)
    size = result.itemsize
    lines += [instruction]
    if dtype is bool:
        lines += [f"selp.b16 %h18, 1, 0, {output};"]
        output = "%h18"
    lines += [
        f"ld.param.b64 %rd30, [at_{len(arrays)}];",
        f"mad.wide.u32 %rd31, %r12, {size}, %rd30;",
        f"st.global.b{8 * size} [%rd31], {output};",
    ]
    launch("\n".join(lines), [*arrays, result], programs=padded // WARP)
    return result[:count].astype(bool) if dtype is bool else result[:count]
