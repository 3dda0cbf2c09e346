"""The checks of a call: made in one place (csrc/ffi), for every engine and `Plan.can_implement`."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradplan._ffi import tvm_ffi
from gradplan.declaration import Operand
from gradplan.forks import LOCK
from gradplan.tensors import View, describe, exportable, tensor_name, view_of
from gradplan.vocabulary import ElementKind, Error, InvalidProblem, KernelError

Array = np.ndarray[Any, Any]
LIBRARIES = Path(__file__).resolve().parent.parent / "lib"
PREFIX = "libgradplan_"
COMMON = "common"
_DEVICE_TYPES = {"cpu": 1, "cuda": 2}  # DLPack's numbers
ANY_DEVICE = -1


@functools.cache
def common() -> Any:
    """The library that all engines share, as a tvm_ffi module. Loading it starts nothing."""
    with LOCK:
        library = tvm_ffi().load_module(str(LIBRARIES / f"{PREFIX}{COMMON}.so"))
        library.gradplan_use_python(*map(_address, _PYTHON))
        return library


# How kernels let go of Python's lock, and ask it for signals.
_PYTHON = ("PyGILState_Check", "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals")


def _address(function: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, function), ctypes.c_void_p).value or 0


def described(operands: Sequence[Operand]) -> list[list[Any]]:
    """Operands as they cross to C++."""
    return [
        [o.name, o.role.value, o.dtype_names, list(o.shape), list(o.inplace), o.optional]
        for o in operands
    ]


def exported(plan: str, operand: Operand, x: Any) -> Any:
    """A tensor as C++ takes it; NumPy refuses to export bfloat16 and read-only arrays."""
    if not isinstance(x, np.ndarray):
        return x
    what = tensor_name(plan, operand.name)
    array, bfloat16 = exportable(x, what, operand.dtype_names, write=not operand.is_input)
    return common()["gradplan_as_bfloat16"](array) if bfloat16 else array


def direct(function: Callable[..., Any], operands: Sequence[Operand]) -> Callable[..., Any]:
    """A function of C++ for tensors as they come, bfloat16 of NumPy's included."""
    bfloat16 = ElementKind.BF16
    if all(bfloat16 not in o.kinds for o in operands):
        return function
    as_bfloat16 = common()["gradplan_as_bfloat16"]

    def run(*args: Any) -> Any:
        return function(
            *[
                as_bfloat16(x.view(np.uint16))
                if type(x) is np.ndarray and x.dtype == bfloat16.dtype
                else x
                for x in args
            ]
        )

    return run


def recover(
    plan: str,
    operands: Sequence[Operand],
    function: Callable[..., Any],
    error: Exception,
    tensors: Sequence[Any],
    workspace: Any,
) -> Exception | None:
    """What to do when a direct call failed: NumPy may just have refused to export an array."""
    if isinstance(error, (Error, MemoryError)):
        return error
    try:
        given = [exported(plan, o, x) for o, x in zip(operands, tensors, strict=True)]
        # Nothing else is tried again: the kernel may have run, and a signal's handler raised.
        if any(map(_is_refused, tensors)):
            try:
                function(*given, workspace)
                return None
            except Exception as second:
                error = second
        if not isinstance(error, (Error, MemoryError)):
            _check_exports(plan, operands, given, workspace)
    except Exception as final:
        return final
    if type(error) is not RuntimeError:
        return error
    wrapped = KernelError(f"{plan}: {error}")
    wrapped.__cause__ = error
    return wrapped


def _is_refused(x: Any) -> bool:
    """Whether it is an array that NumPy never exports, and `exported` does."""
    if not isinstance(x, np.ndarray):
        return False
    return not x.flags.writeable or (
        x.dtype == ElementKind.BF16.dtype and type(x) is not np.ndarray
    )


def _check_exports(
    plan: str, operands: Sequence[Operand], given: Sequence[Any], workspace: Any
) -> None:
    """Raises if there is a tensor that cannot be handed to C++."""
    for o, x in zip(operands, given, strict=True):
        if x is not None:
            view_of(x, tensor_name(plan, o.name), o.dtype_names)
    if workspace is not None:
        _check_export(workspace, plan)


def _check_export(workspace: Any, plan: str) -> None:
    """Raises if it is the workspace that cannot be handed to C++."""
    try:
        tvm_ffi().from_dlpack(workspace)
    except Exception as error:
        raise InvalidProblem(
            f"{plan}: workspace: expected a writable contiguous tensor, got {describe(workspace)} "
            f"({error})"
        ) from error


class CallChecks:
    """The checks of one plan's calls, without the call."""

    def __init__(self, plan: str, operands: Sequence[Operand], device: str = "cpu") -> None:
        self.plan = plan
        self.operands = operands
        kind, _, index = device.partition(":")
        checks = common().gradplan_checks(
            plan,
            described(operands),
            _DEVICE_TYPES[kind],
            int(index) if index.isdecimal() else ANY_DEVICE,
        )
        self._direct = direct(checks, operands)

    def __call__(self, tensors: Sequence[Any], workspace: Any = None) -> None:
        """Raises unless all tensors fit. An output that is not there yet may be None."""
        try:
            self._direct(*tensors, workspace)
        except Exception as error:
            failure = recover(self.plan, self.operands, self._direct, error, tensors, workspace)
            if failure is not None:
                raise failure from None

    def arrays(self, tensors: Sequence[Any], workspace: Any = None) -> list[Array | None]:
        """The tensors as ndarrays on their own memory, checked."""
        self(tensors, workspace)
        return [
            None if x is None else _array(view_of(x, tensor_name(self.plan, o.name), o.dtype_names))
            for o, x in zip(self.operands, tensors, strict=True)
        ]


def _array(view: View) -> Array:
    kind = ElementKind.from_dtype_name(view.dtype_name)
    assert kind is not None  # checked before
    return view.array(kind.dtype)
