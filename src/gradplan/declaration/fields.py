"""What a descriptor field may hold.

A field type owns everything that depends on it: conversion and messages, its value in samples, its
type in PyTorch's schemas, its form in keys and on the way to an engine. Nobody else asks which one
it is.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from gradplan.vocabulary import Bounds, ElementKind, Unsupported, _Word

if TYPE_CHECKING:
    from gradplan.declaration.descriptor import Descriptor


class AxisRole(enum.Enum):
    """What an op does along an axis; batching, sharding, samples and layouts follow from it."""

    BATCH = "batch"
    """Independent problems."""
    ALONG = "along"
    """The axis that the op works along."""
    ROWS = "rows"
    """What indices point into, or run along."""
    FEATURES = "features"
    """Carried along unchanged."""


def integer(value: Any) -> int:
    """`value` if it is an integer of any library; TypeError otherwise."""
    # True is an int to Python, but never what somebody means by a size or an axis.
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


class Field:
    """What a descriptor field may hold: converts a value or says what was expected."""

    accepts: str
    """The type of what may be given, as written in stubs."""
    stores: str
    """The type of what is stored."""
    schema: str
    """The type in a schema of PyTorch's."""
    parameter: str | None = None
    """What the function layer calls it, if not by its own name."""
    parameter_default: Any = None
    """The function layer's default, where the descriptor has none or another one."""
    is_extent = False
    """Whether it holds the sizes of axes, which tensors tell."""
    is_axis = False
    """Whether it names the axis that the op works along."""
    size = ""
    """For an index: the field whose extent it has to be below."""
    series: Sequence[Any] = ()
    """Values that canonical problems take in turn."""
    apart = False
    """Whether problems with another value than the default are certified by themselves: an option
    that came later must not change the problems that there were."""

    def expected(self, desc: Descriptor) -> str:
        """The accepted values, for messages."""
        raise NotImplementedError

    def convert(self, value: Any, desc: Any) -> Any:
        """The stored form of `value`; raises TypeError or ValueError for anything else.

        `desc` is the descriptor in the making: earlier fields are set. Only fields that refer to
        others look at it.
        """
        raise NotImplementedError

    def closest(self, value: Any) -> str:
        """The end of a message about a value that is not accepted: what may have been meant."""
        return ""

    # Samples

    def sample(self, position: int) -> Any:
        """A value for a small problem. Sizes differ by position, so that mixed-up axes show."""
        raise NotImplementedError

    def variants(self, extents: Mapping[str, Any]) -> Sequence[Any]:
        """The values of a field that has few, all of which canonical problems try."""
        return ()

    # Forms of a value

    plain_test = ""
    """A Python expression that is true of a value `{0}` that is not yet in normal form."""
    plain_expected = ""
    """What `plain` expects, for messages; empty for fields whose values need no normal form."""

    def plain(self, value: Any) -> Any:
        """`value` as a plain Python object that may stand in a key; TypeError or ValueError.

        Anything else would be a trap there: a tensor hashes by identity, so changing it in place
        would find what was made for its old value.
        """
        return value

    key_parts: Sequence[str] = ("{0}",)
    """Python expressions that tell two plain values `{0}` apart."""

    def key(self, value: Any) -> Any:
        """What stands for a stored value in a descriptor's key."""
        return value

    def attribute(self, value: Any) -> Any:
        """A stored value as an engine gets it."""
        return value


class Word(Field):
    """One of an enumeration's members, or its string."""

    schema = "str"
    plain_test = "type({0}) is not str"

    def __init__(self, kind: type[_Word]) -> None:
        self.kind = kind
        self.stores = kind.__name__
        self.accepts = self.accepts_of(kind)
        self.plain_expected = kind.choices()

    def accepts_of(self, words: Iterable[_Word]) -> str:
        """The type that admits only these members."""
        literal = ", ".join(f'"{word}"' for word in self.kind if word in words)
        return f"{self.stores} | Literal[{literal}]"

    def expected(self, desc: Descriptor) -> str:
        return self.kind.choices()

    def convert(self, value: Any, desc: Any) -> _Word:
        return self.kind.parse(value)

    def closest(self, value: Any) -> str:
        return self.kind.closest(value)

    def plain(self, value: Any) -> str:
        # A string that is no word is refused by whoever converts it.
        return value if type(value) is str else self.kind.parse(value).value

    def sample(self, position: int) -> Any:
        return next(iter(self.kind))

    def variants(self, extents: Mapping[str, Any]) -> Sequence[Any]:
        return list(self.kind)

    def attribute(self, value: Any) -> Any:
        return value.value


class WordInTurn(Word):
    """One of a few words, each of which canonical problems take in turn, whatever else varies."""

    def __init__(self, kind: type[_Word]) -> None:
        super().__init__(kind)
        self.series = list(kind)


class BoundsField(Word):
    """What happens to indices out of range. Functions raise unless they are asked to skip."""

    parameter_default = Bounds.RAISE.value

    def __init__(self) -> None:
        super().__init__(Bounds)

    def variants(self, extents: Mapping[str, Any]) -> Sequence[Any]:
        # In nothing there is no valid index.
        return [Bounds.SKIP] if 0 in extents.values() else list(Bounds)


class Element(Word):
    """The element type, one of those that the op declares."""

    is_extent = True  # as sizes are: tensors tell

    def __init__(self) -> None:
        super().__init__(ElementKind)

    def accepts_of(self, words: Iterable[_Word]) -> str:
        return f"{super().accepts_of(words)} | DType"

    def expected(self, desc: Descriptor) -> str:
        return "one of " + ", ".join(repr(k.value) for k in ElementKind if k in desc.elements)

    def convert(self, value: Any, desc: Any) -> _Word:
        kind = ElementKind.parse(value)
        if kind not in desc.elements:
            raise Unsupported
        return kind

    def sample(self, position: int) -> Any:
        return ElementKind.F32

    def variants(self, extents: Mapping[str, Any]) -> Sequence[Any]:
        return ()


class Flag(Field):
    """True or False; `apart` as in every field."""

    def __init__(self, *, apart: bool = False) -> None:
        self.apart = apart

    accepts = stores = "bool"
    schema = "bool"
    plain_test = "{0} is not False and {0} is not True"
    plain_expected = "True or False"

    def expected(self, desc: Descriptor) -> str:
        return self.plain_expected

    def convert(self, value: Any, desc: Any) -> bool:
        return self.plain(value)

    def plain(self, value: Any) -> bool:
        # NumPy's bool is not a bool; of 0 and 1 it is not clear that they are meant as flags.
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            return bool(value)
        raise TypeError

    def sample(self, position: int) -> bool:
        return False

    def variants(self, extents: Mapping[str, Any]) -> Sequence[bool]:
        return (False, True)


class Real(Field):
    """Any float, infinities and NaN included."""

    accepts, stores, schema = "SupportsFloat", "float", "float"
    plain_test = "type({0}) is not float"
    plain_expected = "a real number"
    key_parts = ("{0}", "copysign(1.0, {0})")  # 0.0 equals -0.0, which is a different weight
    series: Sequence[float] = (0.25, 0.75, 0.0, 1.0, -0.5, 1.5, 0.5, 1 / 3)

    def expected(self, desc: Descriptor) -> str:
        return self.plain_expected

    def convert(self, value: Any, desc: Any) -> float:
        return self.plain(value)

    def plain(self, value: Any) -> float:
        if isinstance(value, (str, bytes, bytearray, bool)):
            raise TypeError
        # Of a tensor that requires grad the gradient would be lost without a word.
        if getattr(value, "requires_grad", False):
            raise TypeError
        try:
            number = float(value)
        except OverflowError:
            raise ValueError from None
        # One NaN object, so that descriptors with NaN compare equal.
        return math.nan if number != number else number

    def key(self, value: float) -> str:
        return value.hex()

    def sample(self, position: int) -> float:
        return 0.25


class Fill(Real):
    """What stands where nothing is: any float, or None for what `natural` has for the word that
    the field `by` holds."""

    accepts, schema = "SupportsFloat | None", "float?"
    plain_test = "{0} is not None and type({0}) is not float"
    plain_expected = "None or a real number"
    key_parts = ("{0}", "{0} is not None and copysign(1.0, {0})")
    series = ()

    def __init__(self, by: str, natural: Mapping[Any, float]) -> None:
        self.by = by
        self.natural = natural

    def convert(self, value: Any, desc: Any) -> float:
        if value is None:
            return self.natural.get(getattr(desc, self.by), 0.0)
        return super().plain(value)

    def plain(self, value: Any) -> Any:
        return None if value is None else super().plain(value)

    def key(self, value: Any) -> Any:
        return None if value is None else super().key(value)

    def sample(self, position: int) -> Any:
        return None

    def variants(self, extents: Mapping[str, Any]) -> Sequence[float | None]:
        return [None, -0.75]


class _Integer(Field):
    accepts, stores, schema = "SupportsIndex", "int", "int"
    plain_test = "type({0}) is not int"
    plain_expected = "an integer"

    def plain(self, value: Any) -> Any:
        return integer(value)


class SizeField(_Integer):
    """The extent of one axis. A pack stands for any number of axes in the function layer."""

    schema = "SymInt"
    is_extent = True

    def __init__(self, role: AxisRole, *, pack: bool = False) -> None:
        self.role = role
        self.pack = pack

    def expected(self, desc: Descriptor) -> str:
        return "a non-negative integer"

    def convert(self, value: Any, desc: Any) -> int:
        size = integer(value)
        if not 0 <= size < 2**63:
            raise ValueError
        return size

    def sample(self, position: int) -> int:
        return 3 + position


class ShapeField(Field):
    """A whole shape, of any rank."""

    accepts, stores = "Iterable[SupportsIndex]", "tuple[int, ...]"
    schema = "SymInt[]"
    is_extent = True

    def expected(self, desc: Descriptor) -> str:
        return "a sequence of non-negative integers"

    def convert(self, value: Any, desc: Any) -> tuple[int, ...]:
        if isinstance(value, (str, bytes)):
            raise TypeError
        one = SizeField(AxisRole.BATCH)
        return tuple(one.convert(size, desc) for size in value)

    def sample(self, position: int) -> tuple[int, ...]:
        return (2, 5)


class AxisOf(_Integer):
    """An axis of the shape held by another field. A 0-d shape counts as a row of length 1."""

    parameter = "axis"
    parameter_default = -1
    is_axis = True

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

    def sample(self, position: int) -> int:
        return -1


class IndexInto(_Integer):
    """None, or an index to skip in the axis whose extent another field holds."""

    accepts, stores, schema = "SupportsIndex | None", "int | None", "int?"
    plain_test = "{0} is not None and type({0}) is not int"
    plain_expected = "None or an integer"

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

    def plain(self, value: Any) -> Any:
        return None if value is None else integer(value)

    def sample(self, position: int) -> None:
        return None

    def variants(self, extents: Mapping[str, Any]) -> Sequence[int | None]:
        extent = extents[self.size]
        return [None, extent // 3] if extent else [None]

    def attribute(self, value: int | None) -> int:
        return -1 if value is None else value


Shape = Annotated[tuple[int, ...], ShapeField()]
Extent = Annotated[int, SizeField(AxisRole.ALONG)]
Rows = Annotated[int, SizeField(AxisRole.ROWS)]
PackedRows = Annotated[int, SizeField(AxisRole.ROWS, pack=True)]
Features = Annotated[int, SizeField(AxisRole.FEATURES, pack=True)]


_BY_ANNOTATION: Mapping[Any, type[Any]] = {
    ElementKind: Element,
    Bounds: BoundsField,
    bool: Flag,
    float: Real,
}


def field_for(annotation: Any, metadata: Iterable[object]) -> Field:
    """The field type of an annotation and what stands beside it."""
    for item in metadata:
        if isinstance(item, Field):
            return item
    if annotation in _BY_ANNOTATION:
        made: Field = _BY_ANNOTATION[annotation]()
        return made
    if isinstance(annotation, type) and issubclass(annotation, _Word):
        return Word(annotation)
    raise TypeError(f"no Field for the annotation {annotation!r}")
