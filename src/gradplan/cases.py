"""Canonical problems: the same inputs on every machine, made from the declarations alone.

`gradplan certify` and the golden digests stand on them. Values are assembled as bit patterns out of
an integer hash: no random generator of a library, no libm, no rounding. Which sizes an op has,
which of its axes are independent lines and what its indices may be follows from the axes of its
declaration and their roles, so a new op has cases without a line here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from gradplan.declaration import AxisRole, Descriptor, Function, Op, Role, Tensor, TensorAxis
from gradplan.plan import plan_class
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


FLAVOURS = ("plain", "near_one", "ties", "wide", "special", "huge")
"""What values are like: of moderate size; products that stay finite; few different values; a wide
range of exponents; with zeros, subnormals, infinities and NaN among them; finite, but many so large
that sums and products overflow, with zeros between them."""


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
    elif flavour == "huge":  # the largest two exponents, or 2^-3 to 2
        moderate = np.uint64(f.bias - 3) + (choice & np.uint64(3))
        largest = np.uint64(2 * f.bias) - (choice & np.uint64(1))
        exponent = np.where(choice & np.uint64(4) == 0, largest, moderate)
        # One in eight is zero, but in long stretches none: there infinities meet.
        zero = (choice >> np.uint64(3) & np.uint64(7) == 0) & (np.arange(len(words)) % 4096 < 1024)
        exponent, mantissa = np.where(zero, 0, exponent), np.where(zero, 0, mantissa)
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


def pointers(label: str, groups: int, members: int) -> Array:
    """Where each of `groups` segments begins, and the end; some of them are empty."""
    inner = np.sort((hashed(label, max(groups - 1, 0)) % np.uint64(members + 1)).astype(np.int64))
    return np.concatenate([np.zeros(1, np.int64), inner, [members]])[: groups + 1]


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
        fixed |= {info.name for info in self.op.fields if info.field.apart}
        fields = (i.name for i in self.op.fields if i.name not in fixed)
        values = (f"{name}={getattr(self.descriptor, name)}" for name in fields)
        return " ".join((*values, f"values={self.flavour}")).replace(", ", ",")

    def lines(self) -> Iterator[Case]:
        """Parts of the problem that do not depend on the rest, as problems of their own.

        For each axis along which the op does nothing: its last position alone.
        """
        op, desc = self.op, self.descriptor
        present = [t for t in op.tensors_of(self.function.fixed) if t.name in self.tensors]
        for axis in _independent_axes(op, desc):
            extent = getattr(desc, axis.field)
            whole = axis.field == op.shape_field
            if (extent[axis.number] if whole else extent) < 2:
                continue
            smaller = (*extent[: axis.number], 1, *extent[axis.number + 1 :]) if whole else 1
            tensors = {
                t.name: _last(self.tensors[t.name], op.axes_of(t, desc), axis) for t in present
            }
            less = dataclasses.replace(cast(Any, desc), **{axis.field: smaller})
            yield Case(op, self.function, less, tensors, self.flavour)

    def line_of(self, results: Mapping[str, Array], line: Case) -> dict[str, Array]:
        """What `results` of this case hold for a line of it."""
        return {
            o.name: results[o.name][tuple(slice(-extent or None, None) for extent in o.shape)]
            for o in line.op.operands(line.descriptor)
            if o.name in results
        }


def _last(array: Array, axes: tuple[TensorAxis, ...], axis: TensorAxis) -> Array:
    """The last position along an axis, if the tensor has it."""
    if axis not in axes:
        return array
    at = axes.index(axis)
    return np.take(array, [array.shape[at] - 1], at)


def _independent_axes(op: Op, desc: Descriptor) -> Iterator[TensorAxis]:
    """Axes whose positions do not meet: every output has them, so that nothing is summed there."""
    outputs = [op.axes_of(t, desc) for t in op.outputs if t.when is None or t.when(desc)]
    for axis in outputs[0]:
        apart = axis.role in (AxisRole.BATCH, AxisRole.FEATURES)
        if apart and all(axis in axes for axes in outputs):
            yield axis


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
    ((40, 600), 1, "huge"),
    ((4500, 3), 0, "huge"),
    ((2, 9000), 1, "huge"),
    ((3, 40), 1, "huge"),
    ((50, 5), 0, "huge"),
)
_MORE_SHAPES: tuple[tuple[tuple[int, ...], int, str], ...] = (
    *(
        (shape, axis, flavour)
        for n in (1, 2, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097)
        for shape, axis in (((6, n), 1), ((n, 6), 0))
        for flavour in FLAVOURS[:5]
    ),
    ((65537,), 0, "plain"),
    ((1, 2**20 + 13), 1, "near_one"),
    ((2**17 + 1, 9), 0, "plain"),
    ((1024, 1025), 1, "special"),
    *(((n, 20), 0, "huge") for n in (1, 16, 17, 256, 257, 4097)),
    *(((20, n), 1, "huge") for n in (2, 15, 255, 513, 4096)),
    ((513, 1025), 1, "huge"),
)
# The other extent of an axis that is worked along, where an op has one: what indices point into.
_EXTENTS = (37, 5000, 3, 300, 1, 40, 700)
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
        for flavour in FLAVOURS[:5]
    ),
    (200000, 1000, 1, "plain"),
    (100000, 50000, 24, "special"),
    (300000, 3, 2, "ties"),
)


def axis_sizes(op: Op, count: int, extent: int, width: int) -> dict[str, int]:
    """Sizes by what they are: `count` members, `extent` groups or table rows, `width` features.

    Indices run along members and point to groups; pointers are one for each group and the end, and
    point to members.
    """
    sizes = dict.fromkeys(op.sizes_with_role(AxisRole.FEATURES), width)
    members: set[str] = set()
    for t in op.tensors:
        if t.index and t.role is Role.IN:
            members.update({t.into} if t.pointers else t.axes)
    for name in op.sizes_with_role(AxisRole.ROWS):
        sizes[name] = count if name in members else extent
    return sizes


def _variants(op: Op, fixed: Mapping[str, Any], sizes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the fields that have few values."""
    choices: dict[str, Sequence[Any]] = {}
    for info in op.fields:
        if info.name in fixed or (info.when is not None and not info.when.allows(fixed)):
            continue
        if info.field.apart:
            continue
        values = info.field.variants(sizes)
        if values:
            choices[info.name] = values
    return [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())
    ]


def certified(op: Op) -> Iterator[Function]:
    """The functions of an op, and then those with an option set that is certified by itself."""
    yield from op.functions
    for info in op.fields:
        if info.field.apart:
            for function in op.functions:
                fixed = {**function.fixed, info.name: True}
                name = f"{function.name} {info.name}"
                yield dataclasses.replace(function, name=name, fixed=fixed)


def problems(
    op: Op, function: Function, element: ElementKind, *, thorough: bool = False
) -> Iterator[tuple[Descriptor, str]]:
    """The canonical problems of a function for one element type, each with its flavour.

    The thorough ones are others, not more.
    """
    extents: list[tuple[dict[str, Any], str]] = []
    resized = op.sizes_with_role(AxisRole.ALONG)
    if op.shape_field is not None:
        for shape, axis, flavour in _MORE_SHAPES if thorough else _SHAPES:
            along = {} if op.axis_field is None else {op.axis_field: axis}
            sizes = {name: _EXTENTS[len(extents) % len(_EXTENTS)] for name in resized}
            extents.append(({op.shape_field: shape, **along, **sizes}, flavour))
    else:
        for count, extent, width, flavour in _MORE_SIZES if thorough else _SIZES:
            extents.append((axis_sizes(op, count, extent, width), flavour))
    descriptor: Any = op.descriptor
    for number, (sizes, flavour) in enumerate(extents):
        variants = _variants(op, function.fixed, sizes)
        chosen = variants[number % len(variants)]
        for info in op.fields:
            if info.field.series:
                chosen[info.name] = info.field.series[number % len(info.field.series)]
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
    saved = saved_results(op, desc)
    for operand in op.operands(desc):
        if operand.role is Role.OUT or operand.name in saved:
            continue
        if operand.optional and number % 2:  # every other problem does without
            continue
        name = f"{label}/{operand.name}"
        tensor = op.tensor_named[operand.name]
        if tensor.index:
            ids = _ids(op, desc, tensor, name, flavour)
            tensors[operand.name] = ids.astype(INDICES[number % len(INDICES)].dtype)
        else:
            tensors[operand.name] = floats(name, operand.shape, operand.kinds[0], flavour)
    if saved:
        tensors.update(forward_results(op, desc, tensors, _REFERENCE))
    order = [o.name for o in op.operands(desc)]
    return {name: tensors[name] for name in order if name in tensors}


def _ids(op: Op, desc: Descriptor, tensor: Tensor, label: str, flavour: str) -> Array:
    extent, shape = op.choices_of(tensor, desc), tensor.shape(desc)
    if tensor.pointers:
        return pointers(label, shape[0] - 1, extent)
    inside = getattr(desc, "bounds", Bounds.RAISE) is Bounds.RAISE
    drawn = indices(label, math.prod(shape), extent, flavour=flavour, inside=inside)
    return (np.sort(drawn) if tensor.ascending else drawn).reshape(shape)


# Tensors of a backward that the forward made --------------------------------------------------


def forward_of(op: Op) -> Op | None:
    """The op whose gradient this one computes, or the first of several."""
    return next(iter(op.forwards()), None)


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

    What the forward takes and the backward does not may have any values: here those of another
    tensor of that shape, or else some of its own.
    """
    forward = forward_of(op)
    assert forward is not None
    fields = {i.name: getattr(desc, i.name, i.default) for i in forward.fields}
    forward_desc = forward.descriptor(**fields)
    operands = forward.operands(forward_desc)
    inputs = {}
    for o in operands:
        if o.is_required or o.name in tensors:
            like = (x for x in tensors.values() if x.shape == o.shape)
            other = next(like, None)
            inputs[o.name] = tensors.get(
                o.name,
                floats(o.name, o.shape, o.kinds[0], "plain") if other is None else other,
            )
    results = plan_class(forward).select(forward_desc, prefer).run(**inputs)
    outputs = [o.name for o in operands if not o.is_input]
    named = dict(zip(outputs, results if isinstance(results, tuple) else (results,), strict=True))
    return {name: named[name] for name in saved_results(op, desc)}
