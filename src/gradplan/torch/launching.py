"""Kernels as functions of PyTorch's tensors: `launch(*inputs)` gives new outputs.

With flags behind the inputs, one for each of several outputs, those that are False are not computed
where the kernel allows that, and may be None. Whatever the kernel refuses goes on to `otherwise`,
which says what is wrong, or mends it.

Small problems go through a function in C (csrc/python/launch.cc), which saves 2 or 3 microseconds;
where that module or the tensors' exchange table is missing, and for large problems, the one in
Python serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradplan._ffi import tvm_ffi
from gradplan.memory import LARGE
from gradplan.torch.outputs import Output, allocate

try:
    tvm_ffi()  # the module needs its library
    from gradplan.torch import _launch
except ImportError:  # built without Python's headers, or a Python without the stable interface
    _launch = None  # type: ignore[assignment]

Launch = Callable[..., Any]

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""The types whose tensors have memory of their own; others go through PyTorch's dispatcher."""

EXPORTS_GRAD = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
"""Newer tensors have a faster way out than `__dlpack__`, which refuses those with gradients."""


def make_launch(run: Any, inputs: int, outputs: Sequence[Output], otherwise: Launch) -> Launch:
    """`run` is what takes the inputs and then the outputs; it may know its kernels."""
    small = all(output.size < LARGE for output in outputs)
    kernels = [getattr(run, name, None) for name in ("kernel", "merging")]
    for kernel in kernels if _launch is not None and EXPORTS_GRAD and small else ():
        if isinstance(kernel, tvm_ffi().Function):
            return _launch.make(
                kernel,
                kernel.__chandle__(),
                kernel.release_gil,
                torch.Tensor,
                inputs,
                tuple((o.described, -1 if o.like is None else o.like) for o in outputs),
                allocate,
                torch.empty_like,
                otherwise,
            )
    return _launch_in_python(kernels[0] or _without_workspace(run), inputs, outputs, otherwise)


def _without_workspace(run: Launch) -> Launch:
    """A call that reshapes its arguments has no kernel to go to directly."""
    return lambda *tensors: run(*tensors[:-1])


def _launch_in_python(
    kernel: Launch, inputs: int, outputs: Sequence[Output], otherwise: Launch
) -> Launch:
    # Without generators: this is the way of every call where the module in C is missing.
    def launch(*arguments: Any) -> Any:
        given, wanted = arguments[:inputs], arguments[inputs:]
        try:
            if wanted:
                chosen = zip(outputs, wanted, strict=True)
                made = [o.new(given) if want else None for o, want in chosen]
            else:
                made = [o.new(given) for o in outputs]
            exported = given if EXPORTS_GRAD else [x.detach() for x in given]
            kernel(*exported, *made, None)
        except Exception:
            return otherwise(*given, *[None for _ in outputs])
        return tuple(made) if len(made) > 1 else made[0]

    return launch


# Keys ----------------------------------------------------------------------------------------


is_batch = torch._C._functorch.is_legacy_batchedtensor
"""Of the old vmap, that is of `is_grads_batched`."""


def _python_key(*tensors: Any) -> Any:
    for x in tensors:
        if not x.is_cpu:
            return None
    return tuple([(x.shape, x.dtype) for x in tensors])


def _plain_python_key(*tensors: Any) -> Any:
    for x in tensors:
        if type(x) not in PLAIN or is_batch(x):
            return None
    return _python_key(*tensors)


def _make_key(exactly: tuple[type, ...] | None, otherwise: Callable[..., Any]) -> Any:
    if _launch is None or not EXPORTS_GRAD:
        return otherwise
    return _launch.make_key(torch.Tensor, exactly)


any_key = _make_key(None, _python_key)
"""The shapes and element types of tensors in the CPU's memory, in short; of others None."""

plain_key = _make_key(tuple(PLAIN), _plain_python_key)
"""The same, and None for types that are not plain."""
