"""The names of PyTorch that are not public, all of them, and what serves where one is missing."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, cast

import torch
import torch._functorch.autograd_function
import torch.autograd.profiler
from torch.autograd import forward_ad

Context = contextlib.AbstractContextManager[Any]

NAMES = {
    # Without one of these there is no fast path.
    "_C._len_torch_dispatch_stack": "is there a TorchDispatchMode",
    "_C._is_torch_function_mode_enabled": "is there a TorchFunctionMode",
    "_C._are_functorch_transforms_active": "is there a transform: vmap, grad, jvp",
    "_C._is_tracing": "does torch.jit.trace record",
    "autograd.forward_ad._current_level": "-1 outside of forward mode",
    "autograd.profiler._is_profiler_enabled": "does a profiler record",
    "Tensor.__dlpack_c_exchange_api__": "DLPack's table of functions; older tensors export slower",
    # Without this one torch.empty_strided serves.
    "_C._dynamo.guards._empty_strided_cpu": "allocates, in half the time",
    # Without these no memory is kept for coming outputs.
    "_C._storage_Use_Count": "the number of references to a storage",
    "UntypedStorage._cdata": "its address",
    # Without this one gradients take longer.
    "autograd.Function._backward_cls": "the node of the graph; its `apply` looks for `backward`",
    # PyTorch's own torch.library.register_autograd is made of these.
    "_C._AutoDispatchBelowAutograd": "the rest of the dispatcher, from an autograd kernel",
    "_C._after_autograd_keyset": "which keys that is",
    "_C._FunctionBase.apply": "Function.apply without its look for transforms around the call",
    "_functorch.autograd_function.enable_single_level_autograd_function": "allows that",
    "library.Library._destroy": "takes operators back, for ops that are tried out",
}
"""What each is for."""


def find(name: str) -> Any:
    """What PyTorch calls that, or None."""
    assert name in NAMES
    try:
        return functools.reduce(getattr, name.split("."), torch)
    except AttributeError:
        return None


_QUESTIONS = (
    "_C._len_torch_dispatch_stack",
    "_C._is_torch_function_mode_enabled",
    "_C._are_functorch_transforms_active",
    "_C._is_tracing",
)
_VARIABLES = {
    "autograd.forward_ad._current_level": -1,
    "autograd.profiler._is_profiler_enabled": False,
}
"""With the value that each has if nothing is going on."""


def _dispatcher() -> tuple[Any, ...] | None:
    needed = (*_QUESTIONS, *_VARIABLES, "Tensor.__dlpack_c_exchange_api__")
    if any(find(name) is None for name in needed):
        return None
    modules = {"forward_ad": forward_ad, "profiler": torch.autograd.profiler}
    variables = []
    for name, idle in _VARIABLES.items():
        _, module, variable = name.split(".")
        variables.append((vars(modules[module]), variable, idle))
    return (
        (torch.Tensor, torch.nn.Parameter),
        tuple(find(name) for name in _QUESTIONS),
        tuple(variables),
        torch.empty(0).is_neg,  # the function behind it serves for all tensors
        torch.is_grad_enabled,
    )


DISPATCHER = _dispatcher()
"""How the fast path finds out what the dispatcher would notice; None if it cannot."""


def _empty_strided(shape: Any, strides: Any, dtype: torch.dtype) -> Any:
    return torch.empty_strided(shape, strides, dtype=dtype, device="cpu")


allocate: Callable[..., Any] = find("_C._dynamo.guards._empty_strided_cpu") or _empty_strided
"""A tensor from its shape, strides and element type; what compiled code allocates with."""

_use_count = find("_C._storage_Use_Count") if find("UntypedStorage._cdata") else None


def count_references(storage: Any) -> int | None:
    """Those of PyTorch to a storage (of tensors, graphs); None if that cannot be told."""
    return None if _use_count is None else int(_use_count(storage._cdata))


BelowAutograd = find("_C._AutoDispatchBelowAutograd")
KEYS_AFTER_AUTOGRAD = find("_C._after_autograd_keyset")
_is_transforming = find("_C._are_functorch_transforms_active")
_allow_function = find("_functorch.autograd_function.enable_single_level_autograd_function")


def plain_apply_allowed() -> Context:
    """Inside of a transform `plain_apply` has to be allowed.

    Elsewhere that would do harm: from the first time on all of autograd takes 0.6 us longer.
    """
    return cast(Context, _allow_function() if _is_transforming() else contextlib.nullcontext())


def is_transforming() -> bool:
    """Is this inside of vmap, grad or another transform of torch.func?"""
    return bool(_is_transforming())


def is_forward_mode() -> bool:
    """Is this inside of `forward_ad.dual_level`, or of jvp?"""
    return bool(forward_ad._current_level >= 0)


def plain_apply(function: Any, *attributes: str) -> Callable[..., Any]:
    """`function.apply` for callers that know of no transform around the call, or of one level.

    `attributes` are what it keeps in its context.
    """
    node = getattr(function, "_backward_cls", None)
    if node is not None:  # slots are faster than a dictionary, `backward` than a look for it
        members = {"__slots__": attributes, "apply": function.backward}
        function._backward_cls = type(node.__name__, (node,), members)
    apply: Callable[..., Any] = super(torch.autograd.Function, function).apply
    return apply


def destroy(library: Any) -> None:
    """Takes back what a library has defined."""
    library._destroy()
