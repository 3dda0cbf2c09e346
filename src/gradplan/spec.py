"""How an op is declared.

An op is a descriptor (a frozen dataclass whose annotations say what each field is) and an `Op`
record (tensors with named axes, in-place rules, gradient, functions). Everything else is derived
from the two: validation and its messages, the SKU, what crosses to an engine, the function layer.
The declarations themselves are in `gradplan.ops`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import operator
import re
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from gradplan.vocabulary import (
    FLOATS,
    INDICES,
    ElementKind,
    Error,
    InvalidProblem,
    OpCategory,
    PrecisionGuarantee,
    Unsupported,
    _Word,
)

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda cls: cls


# Fields of descriptors -----------------------------------------------------------------------


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

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


# Tensors -------------------------------------------------------------------------------------


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


class Role(_Word):
    """How a kernel uses a tensor."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of an op. `axes` names descriptor fields: sizes, or one that holds a whole shape."""

    name: str
    axes: tuple[str, ...]
    role: Role
    doc: str
    index: bool = False
    when: Only | None = None
    """Present only where this holds."""
    updates: Only | None = None
    """An output that is read as well where this holds (role "inout")."""
    inplace: tuple[str, ...] = ()
    """Inputs whose memory this output may be: the same address, shape and strides."""
    called: str = ""
    """Its name in the function layer."""

    @property
    def is_input(self) -> bool:
        return self.role is Role.IN

    @property
    def function_name(self) -> str:
        return self.called or self.name

    def role_for(self, desc: Descriptor) -> Role:
        return Role.INOUT if self.updates is not None and self.updates(desc) else self.role


def reads(name: str, *axes: str, doc: str, when: Only | None = None, called: str = "") -> Tensor:
    """An input with elements of the descriptor's type."""
    return Tensor(name, axes, Role.IN, doc, when=when, called=called)


def reads_indices(name: str, *axes: str, doc: str) -> Tensor:
    """An input of i32 or i64; which of the two is decided by each call."""
    return Tensor(name, axes, Role.IN, doc, index=True)


def writes(
    name: str, *axes: str, doc: str, inplace: tuple[str, ...] = (), updates: Only | None = None
) -> Tensor:
    """An output."""
    return Tensor(name, axes, Role.OUT, doc, inplace=inplace, updates=updates)


@dataclasses.dataclass(frozen=True)
class Operand:
    """A tensor of one plan: what a kernel may assume once the checks have passed."""

    name: str
    role: Role
    kinds: tuple[ElementKind, ...]
    shape: tuple[int, ...]
    inplace: tuple[str, ...]

    @property
    def is_input(self) -> bool:
        return self.role is Role.IN

    @property
    def dtype_names(self) -> list[str]:
        return [kind.dtype_name for kind in self.kinds]


# Ops -----------------------------------------------------------------------------------------


class Arithmetic(enum.Enum):
    """What a kernel computes with, for the precision guarantee."""

    COPY = "no arithmetic: elements are moved, all bits kept"
    COMPUTE = "in the compute type, sums as well"
    FIXED_POINT = "in the compute type, with exact 64-bit integer sums"


@dataclasses.dataclass(frozen=True)
class Gradient:
    """Which op is the backward, and how its tensors relate to the forward's.

    `cotangents` maps the backward's inputs to the forward outputs whose gradient they are, `grads`
    the backward's outputs to the forward inputs. The other tensors of the backward are saved ones:
    the forward's tensors of the same name. So are the descriptor's fields.
    """

    op: str
    cotangents: Mapping[str, str]
    grads: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of the function layer: the op with some descriptor fields fixed."""

    name: str
    doc: str
    fixed: Mapping[str, object] = dataclasses.field(default_factory=dict)
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Descriptor fields that are called differently here."""


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


@dataclasses.dataclass(frozen=True, eq=False)
class Op:
    """The declaration of one op. Creating it registers it in `OPS`."""

    descriptor: type[Descriptor]
    category: OpCategory
    doc: str
    tensors: tuple[Tensor, ...]
    functions: tuple[Function, ...]
    arithmetic: Arithmetic = Arithmetic.COMPUTE
    gradient: Gradient | None = None
    broadcasts: bool = False
    """The function layer broadcasts the inputs against each other."""

    def __post_init__(self) -> None:
        known = {info.name for info in fields_of(self.descriptor)}
        for tensor in self.tensors:
            if not known.issuperset(tensor.axes):
                raise TypeError(f"{self.name}: {tensor.name} has unknown axes {tensor.axes}")
            if not set(tensor.inplace) <= {t.name for t in self.inputs}:
                raise TypeError(f"{self.name}: {tensor.name} in place of unknown {tensor.inplace}")
        if self.name in OPS:
            raise TypeError(f"{self.name} is declared twice")
        OPS[self.name] = self

    @functools.cached_property
    def title(self) -> str:
        """The name in class names, such as "ScanBackward"."""
        return self.descriptor.__name__.removesuffix("Descriptor")

    @functools.cached_property
    def plan_name(self) -> str:
        return f"{self.title}Plan"

    @functools.cached_property
    def name(self) -> str:
        """The name of the kernel and of the reference, such as "scan_backward"."""
        return _snake(self.title)

    @functools.cached_property
    def fields(self) -> tuple[FieldInfo, ...]:
        return fields_of(self.descriptor)

    @functools.cached_property
    def attributes(self) -> tuple[FieldInfo, ...]:
        """The fields that a kernel cannot read off its tensors."""
        return tuple(info for info in self.fields if info.is_attribute)

    @functools.cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.tensors if t.is_input)

    @functools.cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.tensors if not t.is_input)

    @property
    def has_indices(self) -> bool:
        return any(t.index for t in self.tensors)

    def tensor_shape(self, tensor: Tensor, desc: Descriptor) -> tuple[int, ...]:
        """The shape that a plan expects of `tensor`."""
        shape: list[int] = []
        for axis in tensor.axes:
            extent = getattr(desc, axis)
            if isinstance(extent, tuple):
                shape.extend(extent)
            else:
                shape.append(extent)
        return tuple(shape)

    def operands(self, desc: Descriptor) -> tuple[Operand, ...]:
        """The tensors that a plan for `desc` takes, in declared order."""
        operands = []
        for tensor in self.tensors:
            if tensor.when is not None and not tensor.when(desc):
                continue
            shape = self.tensor_shape(tensor, desc)
            kinds = INDICES if tensor.index else (desc.element,)
            if math.prod(shape) * max(kind.itemsize for kind in kinds) >= 2**63:
                raise InvalidProblem(
                    f"{self.plan_name}: {tensor.name} of shape {shape} has 2^63 bytes or more"
                )
            role = tensor.role_for(desc)
            operands.append(Operand(tensor.name, role, kinds, shape, tensor.inplace))
        return tuple(operands)

    def guarantee(self, desc: Descriptor) -> PrecisionGuarantee:
        """What every engine that follows the bit contract promises for `desc`."""
        if self.arithmetic is Arithmetic.COPY:
            return PrecisionGuarantee(desc.element, desc.element)
        compute = desc.element.compute
        fixed = self.arithmetic is Arithmetic.FIXED_POINT
        return PrecisionGuarantee(compute, ElementKind.I64 if fixed else compute)

    def function_for(self, desc: Descriptor) -> Function:
        """The function of the function layer that `desc` belongs to."""
        for function in self.functions:
            if all(getattr(desc, name) == value for name, value in function.fixed.items()):
                return function
        raise Error(f"{self.name}: no function for {desc}")  # a declaration that forgot one

    def backward(self) -> Op | None:
        """The op that computes this one's gradient."""
        return OPS[self.gradient.op] if self.gradient is not None else None


OPS: dict[str, Op] = {}
"""All ops by name; filled by importing `gradplan.ops`."""
