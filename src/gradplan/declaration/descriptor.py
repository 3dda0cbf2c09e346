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
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from gradplan.declaration.fields import Field, field_for
from gradplan.hints import shown, suggest_fields
from gradplan.vocabulary import FLOATS, ElementKind, InvalidProblem, Unsupported

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
        return not self.field.is_extent


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
                field_for(annotation, metadata),
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
        hint = info.field.closest(value)
        raise kind(f"{where}: expected {expected}; got {shown(value)}{hint}") from None


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Descriptor:
    """Base of all descriptors: subclasses are frozen, hashable, keyword-only dataclasses."""

    elements: ClassVar[frozenset[ElementKind]] = FLOATS
    element: ElementKind

    def __init_subclass__(cls) -> None:
        # eq=False: the generated comparison would call the weights 0.0 and -0.0 equal, and the
        # plan of one would be served for the other.
        dataclasses.dataclass(frozen=True, kw_only=True, eq=False)(cls)
        suggest_fields(cls)

    def __post_init__(self) -> None:
        cls = type(self)
        key = []
        for info in fields_of(cls):
            where = f"{cls.__name__}: {info.name}"
            value = convert_field(info, getattr(self, info.name), self, where)
            object.__setattr__(self, info.name, value)
            key.append(info.field.key(value))
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
