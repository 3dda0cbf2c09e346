"""The tensors of an op: their axes, their element types and how a kernel uses them."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from gradplan.declaration.descriptor import Descriptor, Only
from gradplan.declaration.fields import AxisOf, AxisRole, Field
from gradplan.vocabulary import INDICES, ElementKind, _Word

# Axes ----------------------------------------------------------------------------------------
# An axis of a declaration is the name of a descriptor field that holds a size or a whole shape, or
# one of the following, which are names with a meaning.


class DerivedAxes(str):
    """Axes that follow from a field of the descriptor."""

    field: str
    keeps: frozenset[AxisRole] = frozenset(AxisRole)
    """The axes of a shape that it has."""

    @property
    def tells(self) -> tuple[str, ...]:
        """The fields that a tensor with such axes tells."""
        return (self.field,)

    def resolve(self, field: Field) -> None:
        """Tells it what its field is, once it is part of an op."""

    def sizes(self, desc: Any) -> tuple[int, ...]:
        """The extents, for a descriptor or anything else that has its fields."""
        raise NotImplementedError


class _OfShape(DerivedAxes):
    shape: str
    """The field that holds the shape, which `field` names an axis of."""

    def resolve(self, field: Field) -> None:
        if not isinstance(field, AxisOf):
            raise TypeError(f"{self.field} is no axis of a shape")
        self.shape = field.shape

    def shape_and_axis(self, desc: Any) -> tuple[tuple[int, ...], int]:
        """Rank 0 is a row of one."""
        return getattr(desc, self.shape) or (1,), getattr(desc, self.field)


class _Without(_OfShape):
    keeps = frozenset({AxisRole.BATCH})

    def sizes(self, desc: Any) -> tuple[int, ...]:
        shape, axis = self.shape_and_axis(desc)
        return shape[:axis] + shape[axis + 1 :]


class _Along(_OfShape):
    keeps = frozenset({AxisRole.ALONG})

    def sizes(self, desc: Any) -> tuple[int, ...]:
        shape, axis = self.shape_and_axis(desc)
        return (shape[axis],)


class Replaced(_OfShape):
    """A shape in which one axis has another extent. A shape of rank 0 is a row of one, which has
    that axis then."""

    keeps = frozenset({AxisRole.BATCH})
    size: str
    """The field that holds that extent."""

    @property
    def tells(self) -> tuple[str, ...]:
        return (self.shape, self.size)

    def sizes(self, desc: Any) -> tuple[int, ...]:
        shape, axis = self.shape_and_axis(desc)
        return (*shape[:axis], getattr(desc, self.size), *shape[axis + 1 :])


class _OneMore(DerivedAxes):
    def sizes(self, desc: Any) -> tuple[int, ...]:
        return (getattr(desc, self.field) + 1,)


def without(axis: str) -> DerivedAxes:
    """A shape without the axis that the field `axis` names: a statistic of each row."""
    return _derived(_Without, f"... without {axis}", axis)


def along(axis: str) -> DerivedAxes:
    """Only the axis that the field `axis` names: one value for each place in a row."""
    return _derived(_Along, f"along {axis}", axis)


def replaced(axis: str, size: str) -> DerivedAxes:
    """A shape whose axis that the field `axis` names has the extent `size`: what indices along that
    axis point into."""
    made = _derived(Replaced, f"... with {size} along {axis}", axis)
    assert isinstance(made, Replaced)
    made.size = size
    return made


def one_more(size: str) -> DerivedAxes:
    """One more than the field `size`: where each of that many segments begins, and the end."""
    return _derived(_OneMore, f"{size} + 1", size)


def _derived(kind: type[DerivedAxes], name: str, field: str) -> DerivedAxes:
    made = kind(name)
    made.field = field
    return made


def sizes_of(axis: str, desc: Any) -> tuple[int, ...]:
    """The extents that an axis of a declaration stands for."""
    if isinstance(axis, DerivedAxes):
        return axis.sizes(desc)
    extent = getattr(desc, axis)
    return extent if isinstance(extent, tuple) else (extent,)


# Tensors -------------------------------------------------------------------------------------


class Role(_Word):
    """How a kernel uses a tensor."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


class Kind(enum.Enum):
    """What the elements of a tensor are."""

    ELEMENT = "element"
    """Of the descriptor's element type."""
    COMPUTE = "compute type"
    """Of the type that arithmetic happens in: a statistic that keeps its precision."""
    INDEX = "i32 or i64"
    """Indices; which of the two types is decided by each call. New ones are i64."""

    def elements(self, element: ElementKind, *, new: bool = False) -> tuple[ElementKind, ...]:
        """The element types that are accepted; the first is that of new tensors."""
        if self is Kind.INDEX:
            return INDICES[::-1] if new else INDICES
        return (element if self is Kind.ELEMENT else element.compute,)


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of an op. `axes` names descriptor fields: sizes, or one that holds a whole shape."""

    name: str
    axes: tuple[str, ...]
    role: Role
    doc: str
    kind: Kind = Kind.ELEMENT
    into: str = ""
    """For indices: the field that says how many there are to choose from, a size or an axis."""
    ascending: bool = False
    """Indices that must not descend."""
    optional: bool = False
    """A call may do without it."""
    differentiable: bool = True
    """Whether it has a gradient (an input) or a cotangent (an output); indices never do."""
    when: Only | None = None
    """Present only where this holds."""
    updates: Only | None = None
    """An output that is read as well where this holds (role "inout")."""
    inplace: tuple[str, ...] = ()
    """Inputs whose memory this output may be: the same address, shape and strides."""
    inplace_when: Only | None = None
    """Only where this holds."""
    called: str = ""
    """Its name in the function layer."""
    last: bool = False
    """Whether it stands behind the options there."""

    def __post_init__(self) -> None:
        if self.index:
            object.__setattr__(self, "differentiable", False)

    @property
    def index(self) -> bool:
        return self.kind is Kind.INDEX

    @property
    def pointers(self) -> bool:
        """Indices that say where segments begin: one more than there are segments."""
        return self.index and any(isinstance(axis, _OneMore) for axis in self.axes)

    @property
    def is_input(self) -> bool:
        return self.role is Role.IN

    @property
    def function_name(self) -> str:
        return self.called or self.name

    def role_for(self, desc: Descriptor) -> Role:
        return Role.INOUT if self.updates is not None and self.updates(desc) else self.role

    def inplace_for(self, desc: Descriptor) -> tuple[str, ...]:
        allowed = self.inplace_when is None or self.inplace_when(desc)
        return self.inplace if allowed else ()

    def shape(self, desc: Descriptor) -> tuple[int, ...]:
        """The shape that a plan expects."""
        return tuple(size for axis in self.axes for size in sizes_of(axis, desc))


def reads(name: str, *axes: str, doc: str, **rest: Any) -> Tensor:
    """An input of numbers; `rest` are other fields of `Tensor`."""
    return Tensor(name, axes, Role.IN, doc, **rest)


def reads_indices(name: str, *axes: str, into: str, doc: str, **rest: Any) -> Tensor:
    """An input of i32 or i64 that chooses out of `into`."""
    return Tensor(name, axes, Role.IN, doc, kind=Kind.INDEX, into=into, **rest)


def writes(name: str, *axes: str, doc: str, **rest: Any) -> Tensor:
    """An output."""
    return Tensor(name, axes, Role.OUT, doc, **rest)


@dataclasses.dataclass(frozen=True)
class Operand:
    """A tensor of one plan: what a kernel may assume once the checks have passed."""

    name: str
    role: Role
    kinds: tuple[ElementKind, ...]
    shape: tuple[int, ...]
    inplace: tuple[str, ...]
    optional: bool = False

    @property
    def is_input(self) -> bool:
        return self.role is Role.IN

    @property
    def is_required(self) -> bool:
        """Whether every call must give it."""
        return self.is_input and not self.optional

    @property
    def dtype_names(self) -> list[str]:
        return [kind.dtype_name for kind in self.kinds]
