"""Types of arguments as Triton spells them, for the tables of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradplan.vocabulary import ElementKind

POINTERS = {
    ElementKind.F16: "*fp16",
    ElementKind.BF16: "*u16",
    ElementKind.F32: "*fp32",
    ElementKind.F64: "*fp64",
    ElementKind.I32: "*i32",
    ElementKind.I64: "*i64",
}


def scalar(kind: ElementKind) -> str:
    """An argument of the compute type of `kind`.

    >>> scalar(ElementKind.BF16)
    'fp32'
    """
    return POINTERS[kind.compute].removeprefix("*")


def signature(function: Any, types: Mapping[str, str]) -> dict[str, str]:
    """Types of a kernel's arguments: those named, and i64 for all sizes and strides.

    What is written in capitals is a constant.
    """
    return {name: types.get(name, "i64") for name in function.arg_names if not name.isupper()}
