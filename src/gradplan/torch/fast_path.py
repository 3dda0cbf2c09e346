"""The fast path: plain tensors go past PyTorch's dispatcher to the kernel.

The dispatcher costs 10 us for an operator written in Python, and as much again for its gradient:
more than the kernels of a small problem. It is needed only for what it notices: a subclass, a mode,
a transform, a profiler. So each operator has an object in C (csrc/torch) that

    call(*arguments)   gives the result of a call like one that has been made before; None if it is
                       the first one, the dispatcher would notice anything or the kernel refuses
    call_backward(...) the same as a Function's `backward` has the arguments, in several tuples, the
                       last of them `needs_input_grad`: of several outputs only what is needed is
                       computed; gives what `backward` returns, a None and the results
    run(*arguments)    the same as `call` for a caller inside of the dispatcher: no questions, no
                       gradients; NotImplemented if the kernel refuses or there is none
    add(launch, ...)   says what to do for calls with such arguments
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from gradplan._ffi import tvm_ffi
from gradplan.engines import on_change
from gradplan.torch import private
from gradplan.torch.memory import Output

if TYPE_CHECKING:
    from gradplan.torch._fast_path import FastPath

_CALLS = 4096  # that one operator remembers; a program with more shapes than that starts over
is_compiling = torch.compiler.is_dynamo_compiling


def _native() -> type[FastPath] | None:
    try:
        tvm_ffi()  # the module needs its library
        from gradplan.torch._fast_path import FastPath
    except ImportError:  # built without Python's headers, or a Python without the stable interface
        return None
    return FastPath


NATIVE = _native() if private.DISPATCHER is not None else None
"""None where it is missing: then everything goes through the dispatcher."""


class Recorder(NamedTuple):
    """How derivatives of an operator are recorded."""

    apply: Callable[..., Any]
    """Takes (the first results, options, kept tensors, all tensors if this is forward mode) and the
    inputs that may need gradients, without those behind the last one that does; gives the first
    results, recorded. One result stands for itself, several are a tuple."""
    options: Callable[[Sequence[Any]], tuple[Any, ...]]
    """What the gradient has to know besides tensors, for the arguments of a call."""
    kept: Sequence[int]
    """The tensors that the gradient reads, among the inputs and then the outputs."""
    first: int
    """How many of the results may have gradients. Those behind them, indices, go past autograd: to
    it an output more is 5 us, also one that is marked as without gradient."""


def make_fast_path(
    recorder: Recorder, floats: Sequence[int], inputs: int, options: int, outputs: int
) -> FastPath | None:
    """For an operator of that many tensors and options; `floats` are those that may need gradients.

    None if there is no such way here.
    """
    if NATIVE is None or private.DISPATCHER is None:
        return None
    made = NATIVE(
        torch.Tensor,
        private.DISPATCHER,
        private.allocate,
        recorder.apply,
        tuple(floats),
        tuple(recorder.kept),
        inputs,
        options,
        outputs,
        recorder.first,
        _CALLS,
    )
    on_change(made.clear)
    return made


def make_launch(call: Any, outputs: Sequence[Output], options: tuple[Any, ...]) -> Any:
    """What `add` takes, if `call` (of a plan) knows a kernel in C++; otherwise None."""
    for kernel in (getattr(call, name, None) for name in ("kernel", "merging")):
        if isinstance(kernel, tvm_ffi().Function):
            described = tuple(o.described for o in outputs)
            return kernel, kernel.__chandle__(), kernel.release_gil, described, options
    return None


class Ways(NamedTuple):
    """To call an operator."""

    fast: Callable[..., Any]
    """The result, or None: then it is for the dispatcher. Not for code that Dynamo compiles."""
    call: Callable[..., Any]
    """The result, from whoever has it."""


def make_ways(path: FastPath | None, overload: Callable[..., Any]) -> Ways:
    """Those of an operator."""
    if path is None:
        return Ways(lambda *arguments: None, overload)
    fast = path.call

    def call(*arguments: Any) -> Any:
        result = None if is_compiling() else fast(*arguments)
        return overload(*arguments) if result is None else result

    return Ways(fast, call)
