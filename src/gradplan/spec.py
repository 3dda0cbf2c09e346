"""How an op is declared.

An op is a descriptor class (descriptor.py) and an `Op` record: tensors with named axes, in-place
rules, gradient, functions. Everything else is derived from the two: validation and its messages,
the SKU, what crosses to an engine, the function layer. The declarations are in `gradplan.ops`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import re
from collections.abc import Mapping

from gradplan.descriptor import Descriptor, FieldInfo, Only, fields_of
from gradplan.vocabulary import (
    INDICES,
    ElementKind,
    Error,
    InvalidProblem,
    OpCategory,
    PrecisionGuarantee,
    _Word,
)

# Tensors -------------------------------------------------------------------------------------


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
    ascending: bool = False
    """Indices that must not descend."""
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


def reads_indices(name: str, *axes: str, doc: str, ascending: bool = False) -> Tensor:
    """An input of i32 or i64; which of the two is decided by each call."""
    return Tensor(name, axes, Role.IN, doc, index=True, ascending=ascending)


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
