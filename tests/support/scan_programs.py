"""Problems of the scan family for the GPU engine: one for each way through its launches."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from layouts import INPUT_LAYOUTS, LAYOUTS, Array, Placed, words
from ptx.run import layout_of, run_program

import gradplan.reference as reference
from gradplan.cases import floats
from gradplan.engines.cuda.launches.choices import choosing
from gradplan.engines.cuda.launches.scan import PROGRAMS, WORKSPACE
from gradplan.engines.cuda.program import Program
from gradplan.ops import scan as ops
from gradplan.vocabulary import ElementKind, ScanKind

# What a kernel is for, as an op, a kind and how ties go; flavours that are hard for it.
FUNCTIONS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "cumsum": ("scan", "cumsum", "first", ("special", "wide", "huge")),
    "cumprod": ("scan", "cumprod", "first", ("huge", "near_one", "special")),
    "cummax": ("scan", "cummax", "first", ("special", "ties")),
    "cummin": ("scan", "cummin", "first", ("special", "ties")),
    "logcumsumexp": ("scan", "logcumsumexp", "first", ("special", "plain", "huge")),
    "cumsum_backward": ("scan_backward", "cumsum", "first", ("wide", "special")),
    "cumprod_backward": ("scan_backward", "cumprod", "first", ("huge", "near_one", "special")),
    "cummax_backward": ("scan_backward", "cummax", "last", ("ties", "special")),
    "cummin_backward": ("scan_backward", "cummin", "first", ("special", "ties")),
    "logcumsumexp_backward": ("scan_backward", "logcumsumexp", "first", ("plain", "special")),
    "cummax_indices": ("scan_indices", "cummax", "first", ("ties", "special")),
    "cummin_indices": ("scan_indices", "cummin", "last", ("special", "ties")),
}


@dataclasses.dataclass(frozen=True)
class Way:
    """A shape and a layout that lead through certain kernels."""

    shape: tuple[int, ...]
    axis: int
    layout: str = "contiguous"
    many: int | None = None
    """As many lines as are said to be enough for a thread each."""


WAYS = {
    "short": Way((5, 17), 1),
    "short, aligned": Way((70, 16), 1),
    "columns": Way((255, 3), 0, "stepped"),
    "long columns": Way((4400, 3), 0, "offset"),
    "many long columns": Way((4353, 2), 0, "transposed", many=1),
    "rows": Way((5, 257), 1, "backwards"),
    "rows, aligned": Way((5, 2000), 1),
    "long rows": Way((2, 4401), 1, "offset"),
    "long rows, aligned": Way((2, 4368), 1),
    "many long rows, aligned": Way((2, 4368), 1, many=1),
    "axes": Way((2, 3, 18, 2), 2, "tangled"),
}
AWKWARD = (0, 1, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097, 9000)


class Problem:
    """A function of the family with tensors of one way, and what has to come out."""

    def __init__(
        self, function: str, element: str, way: Way, number: int, *, index: str = "i64"
    ) -> None:
        self.op, kind, ties, flavours = FUNCTIONS[function]
        self.flavour = flavours[number % len(flavours)]
        self.reverse = bool(number % 2)
        self.way = way
        self.output = {"scan": "y", "scan_backward": "dx", "scan_indices": "indices"}[self.op]
        fields: dict[str, Any] = {
            "kind": kind,
            "input_shape": way.shape,
            "scan_axis": way.axis,
            "reverse": self.reverse,
        }
        extreme = kind in (ScanKind.CUMMAX, ScanKind.CUMMIN)
        if extreme and self.op != "scan":
            fields["ties"] = ties
        descriptor: Any = {
            "scan": ops.ScanDescriptor,
            "scan_backward": ops.ScanBackwardDescriptor,
            "scan_indices": ops.ScanIndicesDescriptor,
        }[self.op]
        self.descriptor = descriptor(element=ElementKind(element), **fields)
        names = ["dy"] * (self.op == "scan_backward")
        names += ["x"] * (self.op != "scan_backward" or kind != "cumsum")
        make = functools.partial(floats, shape=way.shape, kind=ElementKind(element))
        place = INPUT_LAYOUTS[way.layout]
        label = f"{function}/{element}/{way}"
        self.inputs = {n: place(make(label + n, flavour=self.flavour)) for n in names}
        along = {"kind": kind, "scan_axis": way.axis, "reverse": self.reverse}
        if self.op == "scan_backward" and kind in ("cumprod", "logcumsumexp"):
            self.inputs["y"] = place(reference.scan(self.inputs["x"], **along))
        del fields["input_shape"]
        wanted = getattr(reference, self.op)(**self.inputs, **fields)
        integers = self.op == "scan_indices"
        self.wanted: Array = wanted.astype(ElementKind(index).dtype) if integers else wanted

    def program(self, tensors: Mapping[str, Array]) -> Program:
        with thresholds(self.way.many):
            made = PROGRAMS[self.op](
                self.descriptor, {name: layout_of(array) for name, array in tensors.items()}
            )
            assert made.workspace_size <= WORKSPACE[self.op](self.descriptor)
        return made

    def place(self, *, inplace: bool = False) -> tuple[dict[str, Array], Placed | None]:
        """The tensors, and the memory of the output where it has its own."""
        if inplace:
            first = next(iter(self.inputs))
            return {**self.inputs, self.output: self.inputs[first]}, None
        out = LAYOUTS[self.way.layout](self.wanted.shape, self.wanted.dtype)
        return {**self.inputs, self.output: out.array}, out

    def differing(self, *, inplace: bool = False, **run: Any) -> int:
        """Executes the program. How many elements are wrong; -1: something beside them is."""
        tensors, out = self.place(inplace=inplace)
        run_program(self.program(tensors), tensors, **run)
        got = tensors[self.output].copy()
        if out is not None and not out.only_itself_written():
            return -1
        return int(np.count_nonzero(words(got) != words(self.wanted)))


@contextlib.contextmanager
def thresholds(many: int | None) -> Iterator[None]:
    """Says that as many lines are enough for a thread each, and for a warp each."""
    with choosing({} if many is None else {"scan.many": many, "scan.many_rows": many}):
        yield


def problems(function: str) -> Iterator[tuple[str, Problem]]:
    """One of every way; but what is executed one element after the other only once."""
    serial = function.startswith("log") or function.endswith(("backward", "indices"))
    for number, (name, way) in enumerate(WAYS.items()):
        if serial and name == "many long columns":
            continue
        yield name, Problem(function, "f32", way, number, index=("i32", "i64")[number % 2])
