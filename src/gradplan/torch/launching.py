"""Kernels as functions of PyTorch's tensors: `launch(*inputs)` gives new outputs.

With flags behind the inputs, one for each of several outputs, those that are False are not computed
where the kernel allows that, and may be None. Whatever the kernel refuses goes on to `otherwise`,
which says what is wrong, or mends it.

Small problems go through a function in C (csrc/python/launch.cc), which saves two microseconds;
where that is missing, and for large problems, the one in Python serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradplan._ffi import tvm_ffi
from gradplan.memory import LARGE
from gradplan.torch import native
from gradplan.torch.outputs import Output, allocate

Launch = Callable[..., Any]


def make_launch(run: Any, inputs: int, outputs: Sequence[Output], otherwise: Launch) -> Launch:
    """`run` is what takes the inputs and then the outputs; it may know its kernels."""
    small = all(output.size < LARGE for output in outputs)
    kernels = [getattr(run, name, None) for name in ("kernel", "merging")]
    for kernel in kernels if native.MODULE is not None and small else ():
        if isinstance(kernel, tvm_ffi().Function):
            made: Launch = native.MODULE.make_launch(
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
            return made
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
            exported = given if native.EXPORTS_GRAD else [x.detach() for x in given]
            kernel(*exported, *made, None)
        except Exception:
            return otherwise(*given, *[None for _ in outputs])
        return tuple(made) if len(made) > 1 else made[0]

    return launch
