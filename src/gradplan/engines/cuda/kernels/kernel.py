"""One entry of a family's table of kernels: a Triton function and how it is specialised."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

POINTER = "p"
NULL = "0"
"""A pointer that Triton adds at the end of every kernel, and that is null for all of ours."""
PARAMETERS = {"i32": "i", "i64": "l", "fp32": "f", "fp64": "d"}
"""One letter for each type of argument, as the archive and the launcher write it."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    function: Any
    """What `@triton.jit` made of it."""
    signature: Mapping[str, str]
    """Types by argument, in the function's order, without its constants: "*fp32", "*u16" (which is
    how bf16 travels), "i32", "i64", "fp32", "fp64"."""
    constants: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """Values of the arguments that are tl.constexpr."""
    aligned: tuple[str, ...] = ()
    """Arguments that are known to be multiples of 16: of pointers the address in bytes, of numbers
    the value."""
    warps: int = 4

    def __post_init__(self) -> None:
        names = tuple(self.function.arg_names)
        given = tuple(name for name in names if name in self.signature)
        if given != tuple(self.signature) or {*given, *self.constants} != {*names}:
            raise ValueError(
                f"{self.function.__name__}{names}: types of {tuple(self.signature)} and constants "
                f"{tuple(self.constants)} are not its arguments in their order"
            )
        if overlap := {*self.signature} & {*self.constants}:
            raise ValueError(f"{self.function.__name__}: both typed and constant: {overlap}")
        if unknown := {*self.aligned} - {*self.signature}:
            raise ValueError(f"{self.function.__name__}: aligned, but no arguments: {unknown}")

    @property
    def parameters(self) -> str:
        """A letter per argument of a launch, without what Triton adds."""
        return "".join(
            POINTER if kind.startswith("*") else PARAMETERS[kind]
            for kind in self.signature.values()
        )
