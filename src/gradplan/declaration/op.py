"""How an op is declared.

An op is a descriptor class (descriptor.py) and an `Op` record: tensors with named axes, in-place
rules, gradient, functions. Everything else is derived from the two: validation and its messages,
the SKU, what crosses to an engine, the function layer, the bridges. The declarations are in
`gradplan.ops`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import re
from collections.abc import Callable, Mapping

from gradplan.declaration.descriptor import Descriptor, FieldInfo, fields_of
from gradplan.declaration.fields import AxisOf, AxisRole, ShapeField, SizeField
from gradplan.declaration.functions import Function
from gradplan.declaration.tensors import DerivedAxes, Operand, Replaced, Tensor
from gradplan.vocabulary import (
    ElementKind,
    Error,
    InvalidProblem,
    OpCategory,
    PrecisionGuarantee,
)


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
class TensorAxis:
    """One axis of a tensor: its role, and which axis it is. The same one may be in other tensors.

    `number` counts inside of a field that holds a whole shape.
    """

    role: AxisRole
    field: str
    number: int = 0


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
    broadcasts: str = ""
    """Whether functions broadcast the inputs against each other: the function that repeats rows
    for it, so that the gradient of what was repeated is a sum in a fixed order."""

    def __post_init__(self) -> None:
        known = {info.name for info in self.fields}
        for tensor in self.tensors:
            for axis in tensor.axes:
                if isinstance(axis, DerivedAxes) and axis.field in known:
                    axis.resolve(self.field_named[axis.field].field)
            fields = {a.field if isinstance(a, DerivedAxes) else a for a in tensor.axes}
            fields |= {a.size for a in tensor.axes if isinstance(a, Replaced)}
            if not known >= fields:
                raise TypeError(f"{self.name}: {tensor.name} has unknown axes {tensor.axes}")
            if tensor.into and tensor.into not in known:
                raise TypeError(f"{self.name}: {tensor.name} points into unknown {tensor.into}")
            if not set(tensor.inplace) <= {t.name for t in self.inputs}:
                raise TypeError(f"{self.name}: {tensor.name} in place of unknown {tensor.inplace}")
            if tensor.when is not None and not tensor.is_input:
                undecided = set(tensor.when.values).difference(*(f.fixed for f in self.functions))
                if undecided:
                    raise TypeError(
                        f"{self.name}: {tensor.name} depends on {sorted(undecided)}, which a "
                        "function must fix: how many results it has is known beforehand"
                    )
        with_gradient = [t.differentiable for t in self.outputs]
        if with_gradient != sorted(with_gradient, reverse=True):
            raise TypeError(f"{self.name}: outputs without gradient come behind those with one")
        if self.name in OPS:
            raise TypeError(f"{self.name} is declared twice")
        OPS[self.name] = self
        try:
            for forward in OPS.values():
                if forward is self or forward.gradient_name == self.name:
                    _check_gradient(forward)
        except TypeError:
            del OPS[self.name]
            raise
        for listener, _ in _listeners:
            listener(self)

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

    # Fields

    @functools.cached_property
    def fields(self) -> tuple[FieldInfo, ...]:
        return fields_of(self.descriptor)

    @functools.cached_property
    def field_named(self) -> Mapping[str, FieldInfo]:
        return {info.name: info for info in self.fields}

    @functools.cached_property
    def attributes(self) -> tuple[FieldInfo, ...]:
        """The fields that a kernel cannot read off its tensors."""
        axes = [axis for t in self.tensors for axis in t.axes]
        told = {f for a in axes for f in (a.tells if isinstance(a, DerivedAxes) else (a,))}
        return tuple(
            info
            for info in self.fields
            if info.is_attribute or (info.name not in told and info.name != "element")
        )

    @functools.cached_property
    def shape_field(self) -> str | None:
        """The field that holds a whole shape."""
        return next((i.name for i in self.fields if isinstance(i.field, ShapeField)), None)

    @functools.cached_property
    def axis_field(self) -> str | None:
        """The field that names the axis which the op works along."""
        return next((i.name for i in self.fields if i.field.is_axis), None)

    @functools.cached_property
    def packs(self) -> frozenset[str]:
        """The sizes that stand for any number of axes in the function layer."""
        return frozenset(
            i.name for i in self.fields if isinstance(i.field, SizeField) and i.field.pack
        )

    def sizes_with_role(self, role: AxisRole) -> tuple[str, ...]:
        """The fields that hold the size of an axis with that role."""
        return tuple(
            i.name for i in self.fields if isinstance(i.field, SizeField) and i.field.role is role
        )

    @functools.cached_property
    def skipped(self) -> Mapping[str, str]:
        """The fields that hold an index which is skipped, and the sizes that they index."""
        return {i.name: i.field.size for i in self.fields if i.field.size}

    # Tensors

    @functools.cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.tensors if t.is_input)

    @functools.cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.tensors if not t.is_input)

    @functools.cached_property
    def tensor_named(self) -> Mapping[str, Tensor]:
        return {t.name: t for t in self.tensors}

    @property
    def has_indices(self) -> bool:
        return any(t.index for t in self.tensors)

    @property
    def reads_indices(self) -> bool:
        return any(t.index for t in self.inputs)

    def tensors_of(self, fixed: Mapping[str, object]) -> tuple[Tensor, ...]:
        """The tensors of a function with these fields fixed."""
        return tuple(t for t in self.tensors if t.when is None or t.when.allows(fixed))

    def axes_of(self, tensor: Tensor, desc: Descriptor) -> tuple[TensorAxis, ...]:
        """Every axis of a tensor, as it is in a plan for `desc`."""
        found: list[TensorAxis] = []
        for name in tensor.axes:
            source = name.field if isinstance(name, DerivedAxes) else name
            field = self.field_named[source].field
            if isinstance(field, SizeField):
                found.append(TensorAxis(field.role, str(name)))
                continue
            whole = field.shape if isinstance(field, AxisOf) else source
            worked = None if self.axis_field is None else getattr(desc, self.axis_field)
            for number in range(len(getattr(desc, whole))):
                role = AxisRole.ALONG if number == worked else AxisRole.BATCH
                if not isinstance(name, DerivedAxes) or role in name.keeps:
                    found.append(TensorAxis(role, whole, number))
                elif isinstance(name, Replaced):
                    found.append(TensorAxis(role, name.size))
        return tuple(found)

    def has_batch(self, tensor: Tensor) -> bool:
        """Whether a tensor has the batch axes of the shape that the op is about."""
        return any(
            AxisRole.BATCH in axis.keeps
            if isinstance(axis, DerivedAxes)
            else axis == self.shape_field
            for axis in tensor.axes
        )

    def choices_of(self, tensor: Tensor, desc: Descriptor) -> int:
        """How many an index of `tensor` may choose from."""
        field = self.field_named[tensor.into].field
        value = getattr(desc, tensor.into)
        if isinstance(field, AxisOf):
            shape = getattr(desc, field.shape) or (1,)
            value = shape[value]
        extent: int = value
        return extent

    def operands(self, desc: Descriptor) -> tuple[Operand, ...]:
        """The tensors that a plan for `desc` takes, in declared order."""
        operands = []
        for tensor in self.tensors:
            if tensor.when is not None and not tensor.when(desc):
                continue
            shape = tensor.shape(desc)
            kinds = tensor.kind.elements(desc.element, new=not tensor.is_input)
            # Frameworks refuse the same of a tensor without elements, so zeros count as ones.
            if math.prod(n or 1 for n in shape) * max(kind.itemsize for kind in kinds) >= 2**63:
                raise InvalidProblem(
                    f"{self.plan_name}: {tensor.name} of shape {shape} has 2^63 bytes or more"
                )
            role = tensor.role_for(desc)
            operands.append(
                Operand(tensor.name, role, kinds, shape, tensor.inplace_for(desc), tensor.optional)
            )
        return tuple(operands)

    # Numbers and functions

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

    # Derivatives

    @property
    def gradient_name(self) -> str | None:
        return self.gradient.op if self.gradient is not None else None

    def backward(self) -> Op | None:
        """The op that computes this one's gradient."""
        return OPS[self.gradient.op] if self.gradient is not None else None

    def forwards(self) -> tuple[Op, ...]:
        """The ops whose gradient this one computes."""
        return tuple(op for op in OPS.values() if op.gradient_name == self.name)

    def forwards_of(self, function: Function) -> tuple[Op, ...]:
        """The ops whose gradient a function of this one computes."""
        fixed = dict(function.fixed)
        return tuple(
            op for op in self.forwards() if any(dict(f.fixed) == fixed for f in op.functions)
        )

    def sibling(self, function: Function) -> Function:
        """The function of this op with the same fields fixed as one of a related op."""
        return next(f for f in self.functions if dict(f.fixed) == dict(function.fixed))

    def saved(self, function: Function) -> tuple[Tensor, ...]:
        """What the backward of a function reads besides cotangents, as the backward's tensors."""
        backward = self.backward()
        assert backward is not None and self.gradient is not None
        return tuple(
            t
            for t in backward.tensors_of(function.fixed)
            if t.is_input and t.name not in self.gradient.cotangents
        )

    def is_linear(self, function: Function) -> bool:
        """Whether a function is linear in its differentiable inputs: its gradient reads nothing of
        the forward but indices that were given to it."""
        return not self._needs_rule(function)

    def _needs_rule(self, function: Function) -> list[str]:
        """What the gradient reads that depends on the numbers which went into the forward."""
        inputs = {t.name for t in self.inputs}
        saved = self.saved(function)
        return [t.name for t in saved if not t.index or t.name not in inputs]


def _check_gradient(forward: Op) -> None:
    """Refuses a gradient without a rule for its own derivatives, as soon as both ops are there."""
    if forward.gradient is None or forward.gradient.op not in OPS:
        return
    backward = OPS[forward.gradient.op]
    for function in forward.functions:
        if not any(dict(f.fixed) == dict(function.fixed) for f in backward.functions):
            raise TypeError(f"{backward.name}: no function for the gradient of {function.name}")
        saved = forward._needs_rule(function)
        if saved and function.rule is None:
            raise TypeError(
                f"{function.name}: its gradient reads {', '.join(saved)}, so a second derivative "
                "needs a rule (declaration/derivatives.py); none is declared"
            )


OPS: dict[str, Op] = {}
"""All ops by name; filled by importing `gradplan.ops`."""
Listener = Callable[[Op], None]
_listeners: list[tuple[Listener, Listener]] = []


def for_every_op(listener: Listener, withdrawn: Listener) -> None:
    """Calls `listener` with every op that is declared, and with those to come.

    `withdrawn` is called with those that go again.
    """
    for op in OPS.values():
        listener(op)
    _listeners.append((listener, withdrawn))


def withdraw(op: Op) -> None:
    """Takes a declaration back: for ops that are tried out."""
    del OPS[op.name]
    for _, withdrawn in reversed(_listeners):
        withdrawn(op)
