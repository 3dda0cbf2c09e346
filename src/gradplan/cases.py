"""Canonical problems: the same inputs on every machine, made from the declarations alone.

`gradplan certify` and the golden digests stand on them. Values are assembled as bit patterns out of
an integer hash: no random generator of a library, no libm, no rounding. Which sizes an op has,
which of its axes are independent lines and what its indices may be follows from the named axes of
its declaration, so a new op has cases without a line here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np

from gradplan.descriptor import (
    AxisOf,
    Descriptor,
    Element,
    Flag,
    IndexInto,
    Real,
    ShapeField,
    SizeField,
    Word,
)
from gradplan.plan import plan_class
from gradplan.spec import OPS, Function, Op, Role, Tensor
from gradplan.vocabulary import INDICES, Bounds, ElementKind, PlanPreference

Array = np.ndarray[Any, Any]
_REFERENCE = PlanPreference(engine="reference")


# Values --------------------------------------------------------------------------------------


def hashed(label: str, count: int) -> Array:
    """`count` 64-bit words that depend on the label alone (splitmix64 of a counter).

    >>> [hex(word) for word in hashed("x", 2).tolist()]
    ['0x3dd661bccc3e551a', '0x57df189ae6c0508a']
    """
    seed = int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "little")
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class _Format:
    """The bit layout of a floating-point type."""

    def __init__(self, kind: ElementKind) -> None:
        self.kind = kind
        self.bits = 8 * kind.itemsize
        self.mantissa = kind.significand_bits - 1
        self.bias = 2 ** (self.bits - self.mantissa - 2) - 1
        self.word = np.dtype(f"u{kind.itemsize}")

    def assemble(self, sign: Array, exponent: Array, mantissa: Array) -> Array:
        """Words from a sign bit, a biased exponent and a mantissa, as uint64."""
        shift = np.uint64
        return (sign << shift(self.bits - 1)) | (exponent << shift(self.mantissa)) | mantissa

    @property
    def specials(self) -> Array:
        """Words of the values that are easy to get wrong."""
        infinity = (2 * self.bias + 1) << self.mantissa
        quiet = infinity | 1 << (self.mantissa - 1)
        positive = [0, 1, (1 << self.mantissa) - 1, infinity - 1, infinity]
        negative = [word | 1 << (self.bits - 1) for word in positive]
        # -inf twice as often: it is what people mask with. Of the NaNs one has a payload.
        return np.array([*positive, *negative, negative[-1], quiet, quiet | 5], np.uint64)


FLAVOURS = ("plain", "near_one", "ties", "wide", "special")
"""What values are like: of moderate size; products that stay finite; few different values; a wide
range of exponents; with zeros, subnormals, infinities and NaN among them."""


def floats(label: str, shape: tuple[int, ...], kind: ElementKind, flavour: str) -> Array:
    """Values of a flavour that depend on the arguments alone."""
    f = _Format(kind)
    words = hashed(label, math.prod(shape))
    mantissa = words & np.uint64((1 << f.mantissa) - 1)
    sign = (words >> np.uint64(63)) & np.uint64(1)
    choice = (words >> np.uint64(53)) & np.uint64(0x3FF)
    if flavour == "near_one":  # [1 - 1/16, 1 + 1/16), one in eight negative
        below = choice & np.uint64(1)
        top = np.uint64(f.mantissa - 3)
        kept = mantissa & np.uint64((1 << (f.mantissa - 4)) - 1)
        mantissa = np.where(below == 1, kept | (np.uint64(7) << top), kept)
        exponent = np.uint64(f.bias) - below
        sign = (choice >> np.uint64(1) & np.uint64(7) == 0).astype(np.uint64)
    elif flavour == "ties":  # +-{1, 1.5, 2, 3}
        mantissa = (choice & np.uint64(1)) << np.uint64(f.mantissa - 1)
        exponent = np.uint64(f.bias) + (choice >> np.uint64(1) & np.uint64(1))
    elif flavour == "wide":  # 2^-12 to 2^12
        exponent = np.uint64(f.bias - 12) + choice % np.uint64(24)
    else:  # 2^-3 to 2
        exponent = np.uint64(f.bias - 3) + (choice & np.uint64(3))
    values = f.assemble(sign, exponent, mantissa)
    if flavour == "special":
        rare = choice >> np.uint64(4) == 0
        values[rare] = f.specials[hashed(label + "/which", int(rare.sum())) % len(f.specials)]
    return values.astype(f.word).view(kind.dtype).reshape(shape)


def indices(label: str, count: int, extent: int, *, flavour: str, inside: bool) -> Array:
    """Row numbers below `extent`; unless `inside`, some of them are outside."""
    words = hashed(label, count)
    if extent == 0 or not inside:
        drawn = (words % np.uint64(extent + 4)).astype(np.int64) - 2
    else:
        drawn = (words % np.uint64(extent)).astype(np.int64)
    if flavour in ("ties", "near_one") and extent:  # one row takes half of them
        drawn[words >> np.uint64(63) == 1] = extent // 2
    return drawn


# Problems ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """A problem with the tensors that go in, those that are updated included."""

    op: Op
    function: Function
    descriptor: Descriptor
    tensors: Mapping[str, Array]
    flavour: str

    @property
    def label(self) -> str:
        """What distinguishes it from the other cases of its function and element type."""
        fixed = {*self.function.fixed, "element"}
        fields = (i.name for i in self.op.fields if i.name not in fixed)
        values = (f"{name}={getattr(self.descriptor, name)}" for name in fields)
        return " ".join((*values, f"values={self.flavour}")).replace(", ", ",")

    def lines(self) -> Iterator[Case]:
        """Parts of the problem that do not depend on the rest, as problems of their own.

        For each axis along which the op does nothing: its last position alone.
        """
        for name, axis in _batch_axes(self.op, self.descriptor):
            extent = getattr(self.descriptor, name)
            length = extent if axis is None else extent[axis]
            if length < 2:
                continue
            smaller = 1 if axis is None else (*extent[:axis], 1, *extent[axis + 1 :])
            desc = dataclasses.replace(cast(Any, self.descriptor), **{name: smaller})
            tensors = {
                t.name: _last(self.tensors[t.name], _position(t, name, axis))
                for t in self.op.tensors
                if t.name in self.tensors
            }
            yield Case(self.op, self.function, desc, tensors, self.flavour)

    def line_of(self, results: Mapping[str, Array], line: Case) -> dict[str, Array]:
        """What `results` of this case hold for a line of it."""
        return {
            o.name: results[o.name][tuple(slice(-extent or None, None) for extent in o.shape)]
            for o in line.op.operands(line.descriptor)
            if o.name in results
        }


def _position(tensor: Tensor, name: str, axis: int | None) -> int | None:
    """Where the axis is in a tensor. A field that holds a shape is its only one."""
    if name not in tensor.axes:
        return None
    return tensor.axes.index(name) if axis is None else axis


def _last(array: Array, axis: int | None) -> Array:
    return array if axis is None else np.take(array, [array.shape[axis] - 1], axis)


def _batch_axes(op: Op, desc: Descriptor) -> Iterator[tuple[str, int | None]]:
    """Axes whose positions are independent: fields, with a number where one holds a shape."""
    worked = {
        i.field.shape: getattr(desc, i.name) for i in op.fields if isinstance(i.field, AxisOf)
    }
    for info in op.fields:
        if isinstance(info.field, ShapeField):
            rank = len(getattr(desc, info.name))
            yield from ((info.name, axis) for axis in range(rank) if axis != worked.get(info.name))
        elif isinstance(info.field, SizeField) and info.name in _Axes(op).shared:
            yield info.name, None


# (shape, axis, flavour). Lengths around 16, 256 and 4096 are where orders of association change;
# the large ones are what threads share.
_SHAPES: tuple[tuple[tuple[int, ...], int, str], ...] = (
    ((5, 4113), 1, "plain"),
    ((4113, 3), 0, "near_one"),
    ((3, 257, 2), 1, "special"),
    ((33, 17), 1, "ties"),
    ((2, 70001), 1, "near_one"),
    ((6, 4095), 1, "wide"),
    ((300, 300), 0, "plain"),
    ((64, 31), 0, "special"),
    ((40, 16), 1, "near_one"),
    ((70, 1031), 1, "special"),
    ((2, 2, 2, 2, 15), 4, "ties"),
    ((7,), 0, "plain"),
    ((), 0, "plain"),
    ((0, 3), 0, "plain"),
    ((3, 0), 0, "plain"),
)
_MORE_SHAPES: tuple[tuple[tuple[int, ...], int, str], ...] = (
    *(
        (shape, axis, flavour)
        for n in (1, 2, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097)
        for shape, axis in (((6, n), 1), ((n, 6), 0))
        for flavour in FLAVOURS
    ),
    ((65537,), 0, "plain"),
    ((1, 2**20 + 13), 1, "near_one"),
    ((2**17 + 1, 9), 0, "plain"),
    ((1024, 1025), 1, "special"),
)
# (rows named by indices, rows that are indexed, elements in a row, flavour).
_SIZES: tuple[tuple[int, int, int, str], ...] = (
    (1000, 37, 5, "plain"),
    (257, 500, 33, "special"),
    (4000, 3, 1, "near_one"),
    (1100, 5, 16, "ties"),
    (3000, 700, 40, "wide"),
    (60, 100, 17, "special"),
    (9000, 2000, 16, "near_one"),
    (20000, 11, 3, "plain"),
    (1, 1, 1, "plain"),
    (0, 4, 3, "plain"),
    (5, 0, 3, "plain"),
    (5, 3, 0, "plain"),
)
_MORE_SIZES: tuple[tuple[int, int, int, str], ...] = (
    *(
        (count, extent, width, flavour)
        for count in (255, 256, 257, 513, 5000)
        for extent in (1, 300)
        for width in (1, 15, 16, 130)
        for flavour in FLAVOURS
    ),
    (200000, 1000, 1, "plain"),
    (100000, 50000, 24, "special"),
    (300000, 3, 2, "ties"),
)
_REALS = (0.25, 0.75, 0.0, 1.0, -0.5, 1.5, 0.5, 1 / 3)


class _Axes:
    """What the named axes of an op are to each other."""

    def __init__(self, op: Op) -> None:
        plain = [set(t.axes) for t in op.tensors if not t.index]
        self.counted = {axis for t in op.tensors if t.index for axis in t.axes}
        """Those that indices run along."""
        self.shared = set.intersection(*plain)
        """Those of every tensor: their positions do not meet."""
        self.indexed = set.union(*plain) - self.counted - self.shared
        """Those that indices point into."""


def axis_sizes(op: Op, count: int, extent: int, width: int) -> dict[str, int]:
    """Size fields by what their axes are: counted by indices, indexed, or shared by all."""
    axes = _Axes(op)
    return {
        **dict.fromkeys(axes.counted, count),
        **dict.fromkeys(axes.shared, width),
        **dict.fromkeys(axes.indexed, extent),
    }


def _variants(op: Op, fixed: Mapping[str, Any], sizes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the fields that have few values."""
    choices: dict[str, list[Any]] = {}
    for info in op.fields:
        if info.name in fixed or (info.when is not None and not info.when.allows(fixed)):
            continue
        if isinstance(info.field, Flag):
            choices[info.name] = [False, True]
        elif isinstance(info.field, IndexInto):
            extent = sizes[info.field.size]
            choices[info.name] = [None, extent // 3] if extent else [None]
        elif isinstance(info.field, Word) and not isinstance(info.field, Element):
            choices[info.name] = list(info.field.kind)
            if info.field.kind is Bounds and 0 in sizes.values():
                choices[info.name].remove(Bounds.RAISE)  # there is no valid index
    return [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())
    ]


def problems(
    op: Op, function: Function, element: ElementKind, *, thorough: bool = False
) -> Iterator[tuple[Descriptor, str]]:
    """The canonical problems of a function for one element type, each with its flavour.

    The thorough ones are others, not more.
    """
    extents: list[tuple[dict[str, Any], str]] = []
    shape_field = next((i.name for i in op.fields if isinstance(i.field, ShapeField)), None)
    if shape_field is not None:
        axis_field = next((i.name for i in op.fields if isinstance(i.field, AxisOf)), None)
        for shape, axis, flavour in _MORE_SHAPES if thorough else _SHAPES:
            along = {} if axis_field is None else {axis_field: axis}
            extents.append(({shape_field: shape, **along}, flavour))
    else:
        for count, extent, width, flavour in _MORE_SIZES if thorough else _SIZES:
            extents.append((axis_sizes(op, count, extent, width), flavour))
    reals = [i.name for i in op.fields if isinstance(i.field, Real)]
    descriptor: Any = op.descriptor
    for number, (sizes, flavour) in enumerate(extents):
        variants = _variants(op, function.fixed, sizes)
        chosen = variants[number % len(variants)]
        chosen.update((name, _REALS[number % len(_REALS)]) for name in reals)
        yield descriptor(element=element, **function.fixed, **sizes, **chosen), flavour


def cases(
    op: Op, function: Function, element: ElementKind, *, thorough: bool = False
) -> Iterator[Case]:
    """The canonical problems of a function for one element type, with their tensors."""
    for number, (desc, flavour) in enumerate(problems(op, function, element, thorough=thorough)):
        label = f"{function.name}/{element}/{number}"
        yield Case(op, function, desc, _tensors(op, desc, label, number, flavour), flavour)


def _tensors(op: Op, desc: Descriptor, label: str, number: int, flavour: str) -> dict[str, Array]:
    tensors = {}
    declared = {t.name: t for t in op.tensors}
    saved = saved_results(op, desc)
    for operand in op.operands(desc):
        if operand.role is Role.OUT or operand.name in saved:
            continue
        name = f"{label}/{operand.name}"
        tensor = declared[operand.name]
        if tensor.index:
            ids = _ids(op, desc, tensor, name, flavour)
            tensors[operand.name] = ids.astype(INDICES[number % len(INDICES)].dtype)
        else:
            tensors[operand.name] = floats(name, operand.shape, desc.element, flavour)
    if saved:
        tensors.update(forward_results(op, desc, tensors, _REFERENCE))
    order = [o.name for o in op.operands(desc)]
    return {name: tensors[name] for name in order if name in tensors}


def _ids(op: Op, desc: Descriptor, tensor: Tensor, label: str, flavour: str) -> Array:
    (extent,) = _Axes(op).indexed
    inside = getattr(desc, "bounds", Bounds.RAISE) is Bounds.RAISE
    (count,) = op.tensor_shape(tensor, desc)
    drawn = indices(label, count, getattr(desc, extent), flavour=flavour, inside=inside)
    return np.sort(drawn) if tensor.ascending else drawn


# Tensors of a backward that the forward made --------------------------------------------------


def forward_of(op: Op) -> Op | None:
    """The op whose gradient this one computes."""
    for other in OPS.values():
        if other.gradient is not None and other.gradient.op == op.name:
            return other
    return None


def saved_results(op: Op, desc: Descriptor) -> set[str]:
    """Inputs of a backward that are results of its forward."""
    forward = forward_of(op)
    if forward is None:
        return set()
    results = {t.name for t in forward.outputs}
    return {o.name for o in op.operands(desc) if o.is_input and o.name in results}


def forward_results(
    op: Op, desc: Descriptor, tensors: Mapping[str, Array], prefer: PlanPreference
) -> dict[str, Array]:
    """The saved results, from the engine that is preferred.

    What the forward takes and the backward does not may have any values: here those of another.
    """
    forward = forward_of(op)
    assert forward is not None
    fields = {i.name: getattr(desc, i.name) for i in forward.fields}
    forward_desc = forward.descriptor(**fields)
    operands = forward.operands(forward_desc)
    spare = next(iter(tensors.values()))
    inputs = {o.name: tensors.get(o.name, spare) for o in operands if o.is_input}
    results = plan_class(forward).select(forward_desc, prefer).run(**inputs)
    outputs = [o.name for o in operands if not o.is_input]
    named = dict(zip(outputs, results if isinstance(results, tuple) else (results,), strict=True))
    return {name: named[name] for name in saved_results(op, desc)}
