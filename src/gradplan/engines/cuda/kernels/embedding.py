"""Copying rows by index: embedding and the gradient of segment sums.

Rows are copied as words of 2, 4 or 8 bytes, never as floats, so payloads of NaN stay. Where rows of
both tensors are contiguous, pairs and fours of narrow elements travel as one word, and where rows
are multiples of 64 bytes and aligned, four words of 4 bytes in one instruction ("vector").

Bytes are the least possible: indices once, rows once, the output once. About 13 PTX instructions
per word, a quarter of that in the vector form.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gradplan.engines.cuda.launches.tiles import GATHERED
from gradplan.vocabulary import INDICES

from .kernel import Kernel
from .types import POINTERS, signature

WORDS = {2: "*u16", 4: "*u32", 8: "*u64"}


@triton.jit
def gather(
    table_ptr, index_ptr, out_ptr, rows, count, width, parts, skip,
    index_step, table_row, table_step, out_row, out_step,
    UNIT: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Zeros where an index is `skip` or outside of [0, count). UNIT: both steps are 1."""
    pid = tl.program_id(0)
    r = (pid // parts).to(tl.int64) * R + tl.arange(0, R)
    c = (pid % parts).to(tl.int64) * C + tl.arange(0, C)
    index = tl.load(index_ptr + r * index_step, mask=r < rows, other=-1).to(tl.int64)
    inside = (index >= 0) & (index < count) & (index != skip)
    across = (c < width)[None, :]
    source = c if UNIT else c * table_step
    target = c if UNIT else c * out_step
    v = tl.load(
        table_ptr + (index * table_row)[:, None] + source[None, :],
        mask=inside[:, None] & across,
        other=0,
    )
    to = out_ptr + (r * out_row)[:, None] + target[None, :]
    tl.store(to, v, mask=(r < rows)[:, None] & across)


def _kernels() -> dict[str, Kernel]:
    kernels = {}
    for index in INDICES:
        for size, word in WORDS.items():
            types = {
                "table_ptr": word,
                "index_ptr": POINTERS[index],
                "out_ptr": word,
                "parts": "i32",
            }
            for form, (rows, words) in GATHERED.items():
                vector = form == "vector"
                if vector and size != 4:
                    continue
                kernels[f"gather/{8 * size}/{index.value}/{form}"] = Kernel(
                    gather,
                    signature(gather, types),
                    {"UNIT": vector, "R": rows, "C": words},
                    ("table_ptr", "out_ptr", "width", "table_row", "out_row") if vector else (),
                )
    return kernels


KERNELS = _kernels()
