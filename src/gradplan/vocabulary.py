"""The words of gradplan: element types, kinds, guarantees, kernel names and errors.

Plain data without behaviour of its own, so every other module may import it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import Literal, Protocol, TypeVar

import ml_dtypes
import numpy as np

from gradplan.hints import did_you_mean, shown, suggest_fields

__all__ = [
    "NUMERICS_VERSION",
    "REPRODUCIBLE_AXES",
    "BinaryKind",
    "Bounds",
    "BufferTooSmall",
    "ElementKind",
    "Error",
    "ExtremeKind",
    "IndexOutOfRange",
    "InvalidProblem",
    "KernelError",
    "KernelSku",
    "MisalignedOperand",
    "OpCategory",
    "PlanPreference",
    "PrecisionGuarantee",
    "ScanKind",
    "ScatterKind",
    "SegmentKind",
    "SegmentTies",
    "SoftmaxKind",
    "Ties",
    "Unsupported",
    "WorkspaceTooSmall",
]

NUMERICS_VERSION = 2
"""Version of the bit contract (docs/numerics.md). Results may change bits only when it changes."""

REPRODUCIBLE_AXES = frozenset({"threads", "layout", "batch", "isa", "engine"})
"""What a result can be independent of; the values of `PrecisionGuarantee.reproducible_across`."""


# Errors. Each is also the builtin that fits, so code which knows nothing of gradplan catches it.


class Error(Exception):
    """Base of everything that gradplan raises on purpose."""


class InvalidProblem(Error, ValueError):
    """A descriptor, an argument or a tensor does not describe a problem of this plan."""


class BufferTooSmall(InvalidProblem):
    """A tensor has fewer elements than the plan needs."""


class MisalignedOperand(InvalidProblem):
    """A tensor's address or strides are not multiples of its element size."""


class WorkspaceTooSmall(Error, ValueError):
    """The workspace given to `run` is smaller than the plan's `workspace_size`."""


class Unsupported(Error, NotImplementedError):
    """A well-formed request that no available kernel, engine or device can serve."""


class IndexOutOfRange(Error, IndexError):
    """With `bounds="raise"`: an index lies outside of its range."""


class KernelError(Error, RuntimeError):
    """A kernel failed for a reason that is not the caller's."""


# Tracebacks then name the errors as users import them.
for _error in (Error, *Error.__subclasses__(), *InvalidProblem.__subclasses__()):
    _error.__module__ = "gradplan"

_W = TypeVar("_W", bound="_Word")


class _Word(str, enum.Enum):
    """An enumeration whose members are strings: "f32" and `ElementKind.F32` mean the same."""

    @classmethod
    def parse(cls: type[_W], value: object) -> _W:
        """The member for a member or its string.

        >>> ScanKind.parse("cumsum")
        ScanKind.CUMSUM
        >>> Ties.parse("firts")
        Traceback (most recent call last):
        ...
        gradplan.InvalidProblem: expected one of 'first', 'last'; got 'firts'; did you mean 'first'?
        """
        if isinstance(value, cls):
            return value
        found = cls._find(value)
        if found is None:
            raise InvalidProblem(
                f"expected {cls.choices()}; got {shown(value)}{cls.closest(value)}"
            )
        return found

    @classmethod
    def _find(cls: type[_W], value: object) -> _W | None:
        # Only a plain string is looked up: a member of another enumeration is a mistake.
        if type(value) is not str:
            return None
        return next((member for member in cls if member.value == value), None)

    @classmethod
    def closest(cls, value: object) -> str:
        """The end of a message about something that is no member: what may have been meant."""
        return did_you_mean(value, [member.value for member in cls])

    @classmethod
    def choices(cls) -> str:
        """The accepted strings, for messages."""
        return "one of " + ", ".join(repr(member.value) for member in cls)

    # Equal to its string, so it must hash like it.
    __hash__ = str.__hash__

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, spec: str) -> str:
        return format(str(self.value), spec)


class ElementKind(_Word):
    """The type of a tensor's elements.

    Wherever one is expected, names and types of the frameworks do as well.

    >>> ElementKind("bf16").itemsize, ElementKind.BF16.dtype_name, ElementKind.BF16.compute
    (2, 'bfloat16', ElementKind.F32)
    >>> ElementKind.parse("float32"), ElementKind.parse(np.float16)
    (ElementKind.F32, ElementKind.F16)
    """

    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    I32 = "i32"
    I64 = "i64"

    @property
    def dtype_name(self) -> str:
        """The name that NumPy, PyTorch, JAX and DLPack use, such as "float32"."""
        return _NAMES_AND_BITS[self.value][0]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy dtype; bfloat16 is that of ml_dtypes."""
        return _DTYPES[self.value]

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def is_float(self) -> bool:
        """True for the types that kernels compute with, False for those of indices."""
        return self in FLOATS

    @property
    def compute(self) -> ElementKind:
        """The type in which arithmetic on this element happens."""
        narrow = self in (ElementKind.F16, ElementKind.BF16)
        return ElementKind.F32 if narrow else self

    @property
    def significand_bits(self) -> int:
        """Bits of precision, the hidden bit included."""
        return _NAMES_AND_BITS[self.value][1]

    @classmethod
    def _find(cls, value: object) -> ElementKind | None:
        return super()._find(value) or cls.from_dtype_name(_dtype_name(value))

    @classmethod
    def closest(cls, value: object) -> str:
        return did_you_mean(value, [word for kind in cls for word in (kind.value, kind.dtype_name)])

    @classmethod
    def from_dtype_name(cls, name: str) -> ElementKind | None:
        """The kind called `name` by the frameworks, or None.

        >>> ElementKind.from_dtype_name("float16")
        ElementKind.F16
        """
        for kind in cls:
            if kind.dtype_name == name:
                return kind
        return None


class _FrameworkType(Protocol):
    """An element type of NumPy or PyTorch."""

    @property
    def itemsize(self) -> int: ...


DType = _FrameworkType | type[np.generic] | Literal["float16", "bfloat16", "float32", "float64"]
"""What may stand for a kind that kernels compute with, for the type checker."""


def _dtype_name(value: object) -> str:
    """What a framework's element type is called: of a name, np.float32, torch.float32 and so on."""
    if type(value) is str:
        return value
    if isinstance(value, type):  # np.float32, or jnp.float32, which has a dtype
        dtype = getattr(value, "dtype", None)
        if not isinstance(dtype, np.dtype):
            dtype = np.dtype(value) if issubclass(value, np.generic) else None
        value = dtype
    if isinstance(value, np.dtype):
        return value.name if value.isnative else ""
    is_torch = type(value).__module__ == "torch" and type(value).__name__ == "dtype"
    return str(value).removeprefix("torch.") if is_torch else ""


_NAMES_AND_BITS = {
    "f16": ("float16", 11),
    "bf16": ("bfloat16", 8),
    "f32": ("float32", 24),
    "f64": ("float64", 53),
    "i32": ("int32", 31),
    "i64": ("int64", 63),
}
FLOATS = frozenset({ElementKind.F16, ElementKind.BF16, ElementKind.F32, ElementKind.F64})
"""The element types that kernels compute with."""
INDICES = (ElementKind.I32, ElementKind.I64)
"""The element types of ids and indices."""
_DTYPES: dict[str, np.dtype[np.generic]] = {
    kind: np.dtype(ml_dtypes.bfloat16 if kind == "bf16" else name)
    for kind, (name, _) in _NAMES_AND_BITS.items()
}


class ScanKind(_Word):
    """Which running operation a scan computes."""

    CUMSUM = "cumsum"
    CUMPROD = "cumprod"
    CUMMAX = "cummax"
    CUMMIN = "cummin"
    LOGCUMSUMEXP = "logcumsumexp"


class ExtremeKind(_Word):
    """Which running extreme."""

    CUMMAX = "cummax"
    CUMMIN = "cummin"


class ScatterKind(_Word):
    """How the elements with the same index become one; PyTorch's words."""

    SUM = "sum"
    MEAN = "mean"
    PROD = "prod"
    AMAX = "amax"
    AMIN = "amin"


class SegmentKind(_Word):
    """How the rows of a segment become one."""

    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    LOGSUMEXP = "logsumexp"


class SegmentExtremeKind(_Word):
    """Extremes of the rows of a segment."""

    MAX = "max"
    MIN = "min"


class CsrKind(_Word):
    """How the rows between two pointers become one."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    LOGSUMEXP = "logsumexp"


class WeightedKind(_Word):
    """How the rows of a segment become one, each with its weight."""

    SUM = "sum"
    MEAN = "mean"


class SoftmaxKind(_Word):
    """The shares of the members of a segment, or their logarithms."""

    SOFTMAX = "softmax"
    LOG_SOFTMAX = "log_softmax"


class BinaryKind(_Word):
    """Elementwise functions of two tensors and a scalar parameter."""

    LERP = "lerp"


class Ties(_Word):
    """Which of several equal running extremes counts: for its gradient, and for its position."""

    FIRST = "first"
    LAST = "last"


class SegmentTies(_Word):
    """Which of several equal extremes of a segment receives the gradient.

    "share" divides it equally among all of them.
    """

    FIRST = "first"
    LAST = "last"
    SHARE = "share"


class Bounds(_Word):
    """What happens to an index outside of its range."""

    SKIP = "skip"
    RAISE = "raise"


class OpCategory(_Word):
    """The family that an op belongs to."""

    SEGMENT = "segment"
    EMBEDDING = "embedding"
    BINARY = "binary"
    POINTWISE = "pointwise"
    SCAN = "scan"
    SOFTMAX = "softmax"


@dataclasses.dataclass(frozen=True)
class PrecisionGuarantee:
    """What a plan promises about its numbers.

    `math_precision` is the type arithmetic happens in (for pure copies, which do none, the element
    type); `accumulator` the type that sums are carried in (i64: fixed point, exact sums).
    `reproducible_across` names what the bits do not depend on.

    >>> g = PrecisionGuarantee(ElementKind.F32, ElementKind.F32)
    >>> str(g)
    'f32.f32.det.stable.all'
    >>> PrecisionGuarantee.parse(str(g)) == g
    True
    """

    math_precision: ElementKind
    accumulator: ElementKind
    deterministic: bool = True
    bit_stable_on_same_hardware: bool = True
    reproducible_across: frozenset[str] = REPRODUCIBLE_AXES

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "math_precision", ElementKind.parse(self.math_precision))
        set_field(self, "accumulator", ElementKind.parse(self.accumulator))
        set_field(self, "reproducible_across", _axes(self.reproducible_across))

    def __str__(self) -> str:
        across = self.reproducible_across
        reach = "all" if across == REPRODUCIBLE_AXES else "+".join(sorted(across)) or "none"
        return ".".join(
            (
                self.math_precision.value,
                self.accumulator.value,
                _DETERMINISTIC[self.deterministic],
                _STABLE[self.bit_stable_on_same_hardware],
                reach,
            )
        )

    @classmethod
    def parse(cls, text: str) -> PrecisionGuarantee:
        """The guarantee that prints as `text`."""
        try:
            math, accumulator, deterministic, stable, reach = text.split(".")
            return cls(
                ElementKind.parse(math),
                ElementKind.parse(accumulator),
                bool(_DETERMINISTIC.index(deterministic)),
                bool(_STABLE.index(stable)),
                _REACH[reach] if reach in _REACH else frozenset(reach.split("+")),
            )
        except ValueError as error:
            raise InvalidProblem(
                f"expected a guarantee such as 'f32.f32.det.stable.all'; got {text!r}"
            ) from error


_DETERMINISTIC = ("nondet", "det")
_STABLE = ("unstable", "stable")
_REACH: dict[str, frozenset[str]] = {"all": REPRODUCIBLE_AXES, "none": frozenset()}


def _axes(names: Iterable[str]) -> frozenset[str]:
    axes = frozenset((names,) if isinstance(names, str) else names)
    if not axes <= REPRODUCIBLE_AXES:
        raise InvalidProblem(
            f"reproducible_across: expected some of {sorted(REPRODUCIBLE_AXES)}; "
            f"got {sorted(axes - REPRODUCIBLE_AXES)}"
        )
    return axes


@dataclasses.dataclass(frozen=True)
class KernelSku:
    """The name of one kernel: which problem it serves, where it runs and what it promises.

    `aux_element` is the widest index type taken (narrower ones are accepted too), None without
    indices; `layout` is "strided" where any strides are served; `epilogue` is what happens to the
    result before the store; `backend` is the engine and `arch` what it was built for.

    >>> sku = KernelSku(OpCategory.SCAN, "cumsum", ElementKind.F32, arch="x86-64-v3",
    ...                 backend="cpu", layout="strided",
    ...                 precision_guarantee=PrecisionGuarantee("f32", "f32"))
    >>> str(sku)
    'scan/cumsum/f32/-/strided/-/x86-64-v3/cpu/f32.f32.det.stable.all'
    >>> KernelSku.parse(str(sku)) == sku
    True
    """

    category: OpCategory
    op: str
    element: ElementKind
    aux_element: ElementKind | None = None
    layout: str | None = None
    epilogue: str | None = None
    arch: str | None = None
    backend: str | None = None
    precision_guarantee: PrecisionGuarantee | None = None

    def __str__(self) -> str:
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return "/".join("-" if value is None else str(value) for value in values)

    @classmethod
    def parse(cls, text: str) -> KernelSku:
        """The SKU that prints as `text`."""
        names = [field.name for field in dataclasses.fields(cls)]
        parts = text.split("/")
        if len(parts) != len(names):
            raise InvalidProblem(f"expected a SKU of the form {'/'.join(names)}; got {text!r}")
        values = {n: None if p == "-" else p for n, p in zip(names, parts, strict=True)}
        aux, promise = values["aux_element"], values["precision_guarantee"]
        return cls(
            category=OpCategory.parse(values["category"]),
            op=values["op"] or "-",
            element=ElementKind.parse(values["element"]),
            aux_element=None if aux is None else ElementKind.parse(aux),
            layout=values["layout"],
            epilogue=values["epilogue"],
            arch=values["arch"],
            backend=values["backend"],
            precision_guarantee=None if promise is None else PrecisionGuarantee.parse(promise),
        )


@dataclasses.dataclass(frozen=True)
class PlanPreference:
    """What `Plan.select` must find: an engine by name, and the least guarantee wanted.

    Fields left at their defaults ask for nothing. What cannot be met raises `Unsupported`.

    >>> PlanPreference(engine="cpu", math_precision="f32").math_precision
    ElementKind.F32
    """

    engine: str | None = None
    math_precision: ElementKind | None = None
    accumulator: ElementKind | None = None
    deterministic: bool = False
    bit_stable_on_same_hardware: bool = False
    reproducible_across: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("math_precision", "accumulator"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, ElementKind.parse(value))
        object.__setattr__(self, "reproducible_across", _axes(self.reproducible_across))

    def why_not(self, guarantee: PrecisionGuarantee) -> str | None:
        """What `guarantee` lacks, or None if it is enough.

        >>> PlanPreference(math_precision="f64").why_not(PrecisionGuarantee("f32", "f32"))
        'math_precision is f32, wanted at least f64'
        """
        lacks = []
        for name, has in (
            ("math_precision", guarantee.math_precision),
            ("accumulator", guarantee.accumulator),
        ):
            wanted: ElementKind | None = getattr(self, name)
            # A fixed-point accumulator holds what the arithmetic delivers, no more.
            bits = min(has.significand_bits, guarantee.math_precision.significand_bits)
            if wanted is not None and bits < wanted.significand_bits:
                lacks.append(f"{name} is {has}, wanted at least {wanted}")
        for name in ("deterministic", "bit_stable_on_same_hardware"):
            if getattr(self, name) and not getattr(guarantee, name):
                lacks.append(f"not {name}")
        missing = self.reproducible_across - guarantee.reproducible_across
        if missing:
            lacks.append("not reproducible across " + ", ".join(sorted(missing)))
        return "; ".join(lacks) or None


suggest_fields(PlanPreference)
