"""The functions, with PyTorch's names, argument order and conventions.

Made from the declarations (`Function.torch`), those that are yet to come included: each is an
operator (operators.py) behind a PyTorch-like signature. Element types that gradplan has no kernels
for, integers above all, go to PyTorch's own function where the record says so. Types are in
functions.pyi, which `make stubs` writes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

import gradplan.torch.autograd  # noqa: F401  (operators need their derivatives)
from gradplan.declaration import Field, Tensor
from gradplan.hints import check_given
from gradplan.offers import TORCH, Offer, Offers, offered_as
from gradplan.signatures import Parameter, plain_option
from gradplan.tensors import check_one_device, describe
from gradplan.torch.fast_path import is_compiling
from gradplan.torch.operators import OPERATORS, Operator
from gradplan.vocabulary import (
    FLOATS,
    Bounds,
    ElementKind,
    IndexOutOfRange,
    InvalidProblem,
    Unsupported,
)

__all__: list[str] = []

_PLAIN = {"SymInt": int, "float": float, "bool": bool, "str": str}
"""The Python types of options in schemas."""
_ELEMENTS = frozenset(getattr(torch, kind.dtype_name) for kind in FLOATS)


class ValuesAndIndices(NamedTuple):
    """What PyTorch's functions of that kind give."""

    values: torch.Tensor
    indices: torch.Tensor


def _check_tensors(offer: Offer, given: Sequence[tuple[str, Any]]) -> None:
    """Raises for what is no tensor, and for tensors on several devices."""
    for name, x in given:
        if not isinstance(x, torch.Tensor):
            raise InvalidProblem(
                f"{offer.name}: {name}: expected a torch.Tensor; got {describe(x)}"
                f"{_instead_of_tensor(offer, x)}"
            )
    if len({x.device for _, x in given}) > 1:
        check_one_device(offer.name, given)


def _instead_of_tensor(offer: Offer, x: Any) -> str:
    """How to go on with something that is no tensor."""
    function = offer.signature.function
    if type(x).__module__.partition(".")[0] in ("jax", "jaxlib"):
        return f"; use {offered_as('gradplan.jax', offer.op, function)}"
    if type(x) is np.ndarray:
        return f"; use gradplan.{function.name}, or pass torch.from_numpy(x)"
    if isinstance(x, np.ma.MaskedArray):
        return "; pass torch.from_numpy(x.filled(value))"
    if hasattr(x, "to_numpy"):  # pandas, polars, xarray
        return "; pass torch.from_numpy(x.to_numpy())"
    return "; convert it with torch.tensor(x)" if isinstance(x, (list, tuple)) else ""


class _Call:
    """How a call goes on where the fast path has not served it: everything is looked at."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.name = offer.name
        self.outer = {inner: outer for outer, inner in offer.names.items()}
        """What the function layer's names are here."""
        self.shown = {p.name for p in offer.parameters}
        meanings = [(p.name, offer.meaning(p.name)) for p in offer.parameters]
        self.options = [(name, what) for name, what in meanings if isinstance(what, Parameter)]
        self.tensors = [(name, what) for name, what in meanings if isinstance(what, Tensor)]
        self.first = self._outer(offer.signature.first.function_name)

    def _outer(self, name: str) -> str:
        return self.outer.get(name, name)

    @functools.cached_property
    def operators(self) -> dict[str, Operator]:
        """The operator, and those that flags choose instead or add, by flag."""
        like = self.offer.like
        main = like.operator or self.offer.signature.function.name
        names = {"": main, **like.chooses, **like.adds}
        return {flag: OPERATORS[name] for flag, name in names.items()}

    def _constants(self, operator: Operator) -> dict[str, Any]:
        """What the operator takes and the signature does not have: the framework's conventions."""
        return {
            p.name: self.offer.like.defaults.get(p.name, p.default)
            for p in operator.options
            if self._outer(p.name) not in self.shown
        }

    def only_without(self, flag: str) -> list[tuple[str, Any]]:
        """Options that the operator of a flag does not have, and what they must be there."""
        known = {self._outer(name) for name in self.operators[flag].arguments}
        main = {self._outer(name) for name in self.operators[""].arguments}
        return [(n, p.default) for n, p in self.options if n in main and n not in known]

    def arguments(self, flag: str = "") -> list[str]:
        """The operator's arguments as expressions over the names here."""
        constants = self._constants(self.operators[flag])
        return [
            repr(constants[name]) if name in constants else self._outer(name)
            for name in self.operators[flag].arguments
        ]

    def __call__(self, **values: Any) -> Any:
        like = self.offer.like
        check_given(self.name, values)
        _check_tensors(
            self.offer,
            [(n, values[n]) for n, t in self.tensors if not (t.optional and values[n] is None)],
        )
        x = values[self.first]
        dtype = values.pop("dtype", None)
        if dtype is not None:
            x = x.to(_dtype(f"{self.name}: dtype", dtype))
        elif like.float32_under_autocast and x.is_cuda:
            x = _as_float32(x)
        values[self.first] = x
        self._check_ranks(values)
        for name, parameter in self.options:
            values[name] = self._normal(name, parameter, values)
        self.offer.check_flags(values)
        if x.dtype not in _ELEMENTS:
            return self._other_elements(x, values)
        flag = next((flag for flag in self.offer.flags if values[flag]), "")
        for name, default in self.only_without(flag):
            if values[name] != default:
                raise Unsupported(f"{self.name}: {name}={values[name]!r} needs {flag}=False")
        result = self._call_operator(self.operators[flag], values)
        return ValuesAndIndices(*result) if flag in like.adds else result

    def _call_operator(self, operator: Operator, values: dict[str, Any]) -> Any:
        constants = self._constants(operator)
        given = [
            constants[name] if name in constants else values[self._outer(name)]
            for name in operator.arguments
        ]
        if self.offer.op.broadcasts:
            count = len(operator.tensors)
            repeat = OPERATORS[self.offer.op.broadcasts].call
            given[:count] = _broadcast(given[:count], repeat)
        return operator.call(*given)

    def _check_ranks(self, values: dict[str, Any]) -> None:
        for name, rank in self.offer.like.ranks.items():
            if values[name].ndim != rank:
                tensor = self.offer.meaning(name)
                assert isinstance(tensor, Tensor)
                raise InvalidProblem(
                    f"{self.name}: {name}: expected [{', '.join(tensor.axes)}]; "
                    f"got {list(values[name].shape)}"
                )

    def _normal(self, name: str, parameter: Parameter, values: dict[str, Any]) -> Any:
        """An option as the operator takes it."""
        field, value = parameter.info.field, values[name]
        if field.is_axis:
            return self._axis(name, field, values[self.first], value)
        if isinstance(value, torch.Tensor):
            if not field.is_extent or value.is_floating_point() or value.dtype is torch.bool:
                hint = f" (use {self.offer.like.peer})" if self.offer.like.peer else ""
                raise Unsupported(f"{self.name}: {name}: expected a number; got a tensor{hint}")
            return int(value)
        # Numbers may be symbols while compiling; what has its type already is left alone.
        symbol = field.is_extent and isinstance(value, torch.SymInt)
        if not symbol and type(value) is not _PLAIN.get(field.schema):
            value = plain_option(self.name, name, field, value)
        if field.size and value is not None:
            return self._index(name, field.size, value, values)
        return value

    def _axis(self, name: str, field: Field, x: Any, dim: Any) -> int:
        """`dim` as a plain integer; what PyTorch calls an IndexError is one here."""
        rank = x.ndim or 1
        axis: int = dim if type(dim) is int else plain_option(self.name, name, field, dim)
        if not -rank <= axis < rank:
            raise IndexOutOfRange(
                f"{self.name}: {name}: expected {-rank} to {rank - 1} for a tensor of rank "
                f"{x.ndim}; got {axis}"
            )
        return axis

    def _index(self, name: str, size: str, value: int, values: dict[str, Any]) -> int:
        """An index that may count from the end, as PyTorch's do."""
        tensor = next(t for t in self.offer.signature.inputs if size in t.axes)
        rows = values[self._outer(tensor.function_name)].shape[tensor.axes.index(size)]
        if not -rows <= value < rows:
            raise InvalidProblem(
                f"{self.name}: {name}: expected None or {-rows} to {rows - 1}; got {value}"
            )
        return int(value % rows)

    def _other_elements(self, x: Any, values: dict[str, Any]) -> Any:
        serve = self.offer.like.other_elements
        result = NotImplemented if serve is None else serve(torch, **values)
        if result is NotImplemented:
            known = ", ".join(sorted(str(dtype) for dtype in _ELEMENTS))
            raise Unsupported(f"{self.name}: expected one of {known}; got {x.dtype}")
        return ValuesAndIndices(*result) if isinstance(result, tuple) else result


def _dtype(what: str, value: Any) -> torch.dtype:
    """PyTorch's element type; the names of others do as well."""
    if isinstance(value, torch.dtype):
        return value
    try:
        made: torch.dtype = getattr(torch, ElementKind.parse(value).dtype_name)
    except InvalidProblem as error:
        raise InvalidProblem(f"{what}: {error}") from None
    return made


def _as_float32(x: Any) -> Any:
    """What PyTorch's autocast does on a GPU, and not on a CPU, for its own cumsum and softmax."""
    half = x.dtype in (torch.float16, torch.bfloat16)
    return x.float() if half and torch.is_autocast_enabled("cuda") else x


def _broadcast(tensors: Sequence[Any], repeat: Callable[..., Any]) -> list[Any]:
    if len({x.shape for x in tensors}) == 1:
        return list(tensors)
    shape = torch.broadcast_shapes(*(x.shape for x in tensors))
    return [_expanded(x, shape, repeat) for x in tensors]


def _expanded(x: Any, shape: Sequence[int], repeat: Callable[..., Any]) -> Any:
    """`x.expand(shape)`; where a gradient will be summed over copies, with an order for the sum.

    PyTorch's sums depend on the number of threads. `repeat` copies rows by index, and its gradient
    adds them up in ascending order.
    """
    if x.shape == shape or not x.requires_grad:
        return x.expand(shape)
    x = x.reshape([1] * (len(shape) - x.ndim) + list(x.shape))
    new = [i for i, n in enumerate(shape) if x.shape[i] == 1 and n != 1]
    old = [i for i in range(len(shape)) if i not in new]
    rows = x.permute(*new, *old).reshape(1, *(x.shape[i] for i in old))
    copies = 1
    for i in new:  # sizes that are symbols while compiling
        copies *= shape[i]
    ids = torch.zeros(copies, dtype=torch.int64, device=x.device)
    made = repeat(rows, ids, Bounds.SKIP.value)
    order = new + old
    back = [order.index(i) for i in range(len(shape))]
    return made.reshape([shape[i] for i in order]).permute(back)


class _Adapted:
    """A function that PyTorch's is made of (`Like.adapts`)."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        required = [p for p in offer.parameters if p.default is p.empty]
        self.tensors = [p.name for p in required if p.annotation == TORCH.takes]

    @functools.cached_property
    def operator(self) -> Operator:
        return OPERATORS[self.offer.signature.function.name]

    @functools.cached_property
    def options(self) -> list[tuple[str, Field]]:
        return [
            (p.name, what.info.field)
            for p in self.offer.parameters
            if isinstance(what := self.offer.meaning(p.name), Parameter)
            and not what.info.field.is_axis
        ]

    def _inner(self, **values: Any) -> Any:
        return self.operator.call(*[values[name] for name in self.operator.arguments])

    def __call__(self, **values: Any) -> Any:
        name, adapts = self.offer.name, self.offer.like.adapts
        assert adapts is not None
        check_given(name, values)
        _check_tensors(self.offer, [(tensor, values[tensor]) for tensor in self.tensors])
        for option, field in self.options:
            values[option] = plain_option(name, option, field, values[option])
        return adapts(torch, self._inner, **values)


def _make(offer: Offer) -> Callable[..., Any]:
    """The function. The fast path knows calls as there have been: what was checked then still
    holds. It gives None for others, whatever their arguments are."""
    names = [p.name for p in offer.parameters]
    if offer.like.adapts is not None:
        body = f"return call({', '.join(f'{name}={name}' for name in names)})"
        return offer.compile(body, __name__, call=_Adapted(offer))
    call = _Call(offer)
    condition = "dtype is None and " if "dtype" in names else ""
    condition += "not is_compiling() and "
    # 1 equals True, and is refused: only by whoever looks at everything.
    for flag in offer.flags:
        condition += f"({flag} is False or {flag} is True) and "
        for name, default in call.only_without(flag):
            condition += f"({name} is {default!r} or not {flag}) and "
    # Each flag has its operator; without any it is the function's own.
    context: dict[str, Any] = {}
    known, result = "", "known"
    for number, flag in enumerate((*offer.flags, "")):
        context[f"fast_{number}"] = call.operators[flag].ways.fast
        known += f"fast_{number}({', '.join(call.arguments(flag))})"
        known += f" if {flag} else " if flag else ""
        if flag in offer.like.adds:  # a named tuple's own constructor takes 0.3 us more
            result = f"new_tuple(ValuesAndIndices, known) if {flag} else {result}"
    body = (
        f"if {condition}(known := {known}) is not None:\n"
        f"    return {result}\n"
        f"return call({', '.join(f'{name}={name}' for name in names)})"
    )
    context |= {"ValuesAndIndices": ValuesAndIndices, "new_tuple": tuple.__new__}
    return offer.compile(body, __name__, call=call, is_compiling=is_compiling, **context)


OFFERS = Offers(TORCH, globals(), _make)
OPERATORS.make_all()  # gradients and variants, for whoever looks at torch.ops.gradplan
