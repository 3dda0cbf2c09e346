"""What a descriptor is: a frozen dataclass whose annotations say what each field may hold.

    class ScanDescriptor(Descriptor):
        kind: ScanKind
        input_shape: Annotated[Shape, "the shape of every tensor"]
        scan_axis: Annotated[int, AxisOf("input_shape"), "the axis to scan along"]
        element: ElementKind

Conversion, validation and its messages follow from the annotations; a string beside the type is the
field's documentation.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from gradplan.vocabulary import FLOATS, ElementKind, InvalidProblem, Unsupported, _Word

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda cls: cls


class Only:
    """A condition on descriptors: each named field holds one of the given values.

    >>> only = Only(kind={"cummax", "cummin"})
    >>> only.allows({"kind": "cumsum"}), only.allows({"kind": "cummax"}), only.allows({})
    (False, True, True)
    """

    def __init__(self, **values: Iterable[object]) -> None:
        self.values: Mapping[str, frozenset[object]] = {k: frozenset(v) for k, v in values.items()}

    def __call__(self, desc: Descriptor) -> bool:
        return all(getattr(desc, name) in values for name, values in self.values.items())

    def allows(self, fixed: Mapping[str, object]) -> bool:
        """False if the fields fixed so far already exclude it."""
        return all(fixed[n] in values for n, values in self.values.items() if n in fixed)

    def __repr__(self) -> str:
        return "only for " + ", ".join(
            f"{name} in {sorted(map(str, values))}" for name, values in self.values.items()
        )


class Field:
    """What a descriptor field may hold: converts a value or says what was expected."""

    accepts: str
    """The type of what may be given, as written in stubs."""
    stores: str
    """The type of what is stored."""

    def expected(self, desc: Descriptor) -> str:
        """The accepted values, for messages."""
        raise NotImplementedError

    def convert(self, value: Any, desc: Any) -> Any:
        """The stored form of `value`; raises TypeError or ValueError for anything else.

        `desc` is the descriptor in the making: earlier fields are set. Only fields that refer to
        others look at it.
        """
        raise NotImplementedError


def integer(value: Any) -> int:
    """`value` if it is an integer of any library; TypeError otherwise."""
    # True is an int to Python, but never what somebody means by a size or an axis.
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


class Word(Field):
    """One of an enumeration's members, or its string."""

    def __init__(self, kind: type[_Word]) -> None:
        self.kind = kind
        self.stores = kind.__name__
        self.accepts = self.accepts_of(kind)

    def accepts_of(self, words: Iterable[_Word]) -> str:
        """The type that admits only these members."""
        literal = ", ".join(f'"{word}"' for word in self.kind if word in words)
        return f"{self.stores} | Literal[{literal}]"

    def expected(self, desc: Descriptor) -> str:
        return self.kind.choices()

    def convert(self, value: Any, desc: Any) -> _Word:
        return self.kind.parse(value)


class Element(Word):
    """The element type, one of those that the op declares."""

    def __init__(self) -> None:
        super().__init__(ElementKind)

    def expected(self, desc: Descriptor) -> str:
        return "one of " + ", ".join(repr(k.value) for k in ElementKind if k in desc.elements)

    def convert(self, value: Any, desc: Any) -> _Word:
        kind = ElementKind.parse(value)
        if kind not in desc.elements:
            raise Unsupported
        return kind


class Flag(Field):
    """True or False."""

    accepts = stores = "bool"

    def expected(self, desc: Descriptor) -> str:
        return "True or False"

    def convert(self, value: Any, desc: Any) -> bool:
        # NumPy's bool is not a bool; of 0 and 1 it is not clear that they are meant as flags.
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            return bool(value)
        raise TypeError


class Real(Field):
    """Any float, infinities and NaN included."""

    accepts, stores = "SupportsFloat", "float"

    def expected(self, desc: Descriptor) -> str:
        return "a real number"

    def convert(self, value: Any, desc: Any) -> float:
        if isinstance(value, (str, bytes, bytearray, bool)):
            raise TypeError
        number = float(value)
        # One NaN object, so that descriptors with NaN compare equal.
        return math.nan if number != number else number


class SizeField(Field):
    """The extent of one axis. A pack stands for any number of axes in the function layer."""

    accepts, stores = "SupportsIndex", "int"

    def __init__(self, pack: bool = False) -> None:
        self.pack = pack

    def expected(self, desc: Descriptor) -> str:
        return "a non-negative integer"

    def convert(self, value: Any, desc: Any) -> int:
        size = integer(value)
        if not 0 <= size < 2**63:
            raise ValueError
        return size


class ShapeField(Field):
    """A whole shape, of any rank."""

    accepts, stores = "Iterable[SupportsIndex]", "tuple[int, ...]"

    def expected(self, desc: Descriptor) -> str:
        return "a sequence of non-negative integers"

    def convert(self, value: Any, desc: Any) -> tuple[int, ...]:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return tuple(SizeField().convert(size, desc) for size in value)


class AxisOf(Field):
    """An axis of the shape held by another field. A 0-d shape counts as a row of length 1."""

    accepts, stores = "SupportsIndex", "int"

    def __init__(self, shape: str) -> None:
        self.shape = shape

    def expected(self, desc: Descriptor) -> str:
        shape = getattr(desc, self.shape)
        rank = max(len(shape), 1)
        return f"an axis of {self.shape} {shape}, {-rank} to {rank - 1}"

    def convert(self, value: Any, desc: Any) -> int:
        rank = max(len(getattr(desc, self.shape)), 1)
        axis = integer(value)
        if not -rank <= axis < rank:
            raise ValueError
        return axis % rank


class IndexInto(Field):
    """None, or an index into the axis whose extent another field holds."""

    accepts, stores = "SupportsIndex | None", "int | None"

    def __init__(self, size: str) -> None:
        self.size = size

    def expected(self, desc: Descriptor) -> str:
        return f"None or an integer in [0, {self.size}) = [0, {getattr(desc, self.size)})"

    def convert(self, value: Any, desc: Any) -> int | None:
        if value is None:
            return None
        index = integer(value)
        if not 0 <= index < getattr(desc, self.size):
            raise ValueError
        return index


Shape = Annotated[tuple[int, ...], ShapeField()]
Size = Annotated[int, SizeField()]
Pack = Annotated[int, SizeField(pack=True)]


@dataclasses.dataclass(frozen=True)
class FieldInfo:
    """One field of a descriptor class, as its annotation declares it."""

    name: str
    field: Field
    doc: str
    default: Any
    when: Only | None = None

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def is_attribute(self) -> bool:
        """True for what a kernel cannot read off its tensors."""
        return not isinstance(self.field, (SizeField, ShapeField, Element))


def _field_for(annotation: Any, metadata: Iterable[object]) -> Field:
    for item in metadata:
        if isinstance(item, Field):
            return item
    if annotation is ElementKind:
        return Element()
    if isinstance(annotation, type) and issubclass(annotation, _Word):
        return Word(annotation)
    if annotation is bool:
        return Flag()
    if annotation is float:
        return Real()
    raise TypeError(f"no Field for the annotation {annotation!r}")


_FIELDS: dict[type, tuple[FieldInfo, ...]] = {}


def fields_of(descriptor: type[Descriptor]) -> tuple[FieldInfo, ...]:
    """The fields of a descriptor class, in declared order."""
    if descriptor in _FIELDS:
        return _FIELDS[descriptor]
    hints = typing.get_type_hints(descriptor, include_extras=True)
    infos = []
    for field in dataclasses.fields(typing.cast(Any, descriptor)):
        hint = hints[field.name]
        annotated = typing.get_origin(hint) is Annotated
        annotation, *metadata = typing.get_args(hint) if annotated else (hint,)
        infos.append(
            FieldInfo(
                field.name,
                _field_for(annotation, metadata),
                next((m for m in metadata if isinstance(m, str)), ""),
                field.default,
                next((m for m in metadata if isinstance(m, Only)), None),
            )
        )
    _FIELDS[descriptor] = tuple(infos)
    return _FIELDS[descriptor]


def convert_field(info: FieldInfo, value: Any, desc: Descriptor, where: str) -> Any:
    """`value` as the field stores it; an error that starts with `where` otherwise."""
    try:
        return info.field.convert(value, desc)
    except (TypeError, ValueError, OverflowError, Unsupported) as error:
        kind = Unsupported if isinstance(error, Unsupported) else InvalidProblem
        expected = info.field.expected(desc)
        raise kind(f"{where}: expected {expected}; got {value!r}") from None


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Descriptor:
    """Base of all descriptors: subclasses are frozen, hashable, keyword-only dataclasses."""

    elements: ClassVar[frozenset[ElementKind]] = FLOATS
    element: ElementKind

    def __init_subclass__(cls) -> None:
        # eq=False: the generated comparison would call the weights 0.0 and -0.0 equal, and the
        # plan of one would be served for the other.
        dataclasses.dataclass(frozen=True, kw_only=True, eq=False)(cls)

    def __post_init__(self) -> None:
        cls = type(self)
        key = []
        for info in fields_of(cls):
            where = f"{cls.__name__}: {info.name}"
            value = convert_field(info, getattr(self, info.name), self, where)
            object.__setattr__(self, info.name, value)
            key.append(value.hex() if isinstance(value, float) else value)
        object.__setattr__(self, "_key", tuple(key))

    if TYPE_CHECKING:
        _key: ClassVar[tuple[object, ...]]

        # For code that makes descriptors of ops that it does not know.
        def __init__(self, **fields: Any) -> None: ...

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)
