"""What must not stand in the PTX of a kernel that follows the bit contract.

A second look at the text, apart from executing it: code that no test reaches is audited as well.
Whatever mentions a float has to be one of a few forms; `WHY` only finds the words for the rest.
Allowed although they look like it: mad of integers, min and max without a rounding, cvt.rzi
(sparsemax truncates), ldmatrix (a copy).
"""

from __future__ import annotations

import functools
import re
from collections import Counter

from .parse import Instruction, Module, parse

ALLOWED = [
    re.compile(pattern)
    for pattern in (
        r"(add|sub|mul|div)\.rn\.f(32|64)",
        r"(neg|abs|copysign)\.f(32|64)",
        r"(min|max)(\.NaN)?\.f(32|64)",
        r"setp\.(lt|le|gt|ge|eq|ne)u?\.f(16|32|64)",
        r"setp\.(num|nan)\.f(16|32|64)",
        r"(mov|selp|ld\.[\w.:]+|st\.[\w.:]+)\.f(16|32|64)",
        r"cvt\.f32\.f16",
        r"cvt\.f64\.f(16|32)",
        r"cvt\.rn\.f(16\.f32|16\.f64|32\.f64)",
        r"cvt\.rn\.f(32|64)\.[us](16|32|64)",
        r"cvt\.rzi\.[us](32|64)\.f(32|64)",
    )
]
WHY = [
    ("flush to zero", re.compile(r"\.ftz\b")),
    ("matrix unit", re.compile(r"^(mma|wmma|wgmma|tcgen05)\b")),
    ("approximation", re.compile(r"\.approx\b|^div\.full\b|^(ex2|lg2|sin|cos|tanh|rcp|rsqrt)\b")),
    ("contraction", re.compile(r"^(fma|mad)\b")),
    ("float atomic", re.compile(r"^(atom|red|redux)\b")),
    ("saturation", re.compile(r"\.(sat|relu)\b")),
    ("other rounding", re.compile(r"\.(rz|rm|rp|rna|rni|rmi|rpi)\b")),
    ("ptxas may contract it: no .rn", re.compile(r"^(add|sub|mul)\.f(32|64)$")),
    ("call", re.compile(r"^call\b")),
]
_FLOAT = re.compile(r"\.(b?f16|bf16x2|f16x2|tf32|f32|f32x2|f64|e\dm\d)\b")
_NEVER = re.compile(r"^(mma|wmma|wgmma|tcgen05|call|ex2|lg2|sin|cos|tanh|rcp|rsqrt|fma)\b|\.ftz\b")


def audit(ptx: str | bytes) -> list[str]:
    """What is wrong, with the instruction; nothing if all is well."""
    found = []
    for instruction in _module(ptx).code:
        opcode = instruction.opcode
        suspect = _FLOAT.search(opcode) or _NEVER.search(opcode)
        if suspect and not any(form.fullmatch(opcode) for form in ALLOWED):
            why = next((w for w, form in WHY if form.search(opcode)), "not known to be exact")
            found.append(f"{why}: {instruction.text}")
    return found


def rounding_operations(ptx: str | bytes) -> Counter[str]:
    """How often each operation that rounds is written: "add", "sub", "mul", "div"."""
    names = (rounds(i) for i in _module(ptx).code)
    return Counter(name for name in names if name)


def rounds(instruction: Instruction) -> str | None:
    """Its name if it rounds."""
    known = ("add", "sub", "mul", "div")
    return instruction.name if instruction.name in known and ".rn." in instruction.opcode else None


@functools.lru_cache(1000)
def _module(ptx: str | bytes) -> Module:
    return parse(ptx.decode() if isinstance(ptx, bytes) else ptx)
