"""The kernels as targets of XLA: one per op, told by a number which problem is meant."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax_tvm_ffi
import numpy as np

from gradplan._ffi import tvm_ffi
from gradplan.declaration import Descriptor, Op
from gradplan.engines import BoundKernel
from gradplan.engines.checks import common
from gradplan.forks import LOCK
from gradplan.plan import Plan, plan_class
from gradplan.tensors import CPU_DEVICE, View
from gradplan.vocabulary import NUMERICS_VERSION, ElementKind, KernelError, Unsupported

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""What JAX compiles for; devices are called the same."""
_HERE = "cpu"
_published: dict[int, tuple[str, BoundKernel]] = {}


@functools.cache
def _target(op: str, platform: str, takes_stream: bool) -> str:
    """The name under which XLA finds the kernels of an op."""
    name = f"gradplan.{op}{'.on_stream' if takes_stream else ''}"
    run = common().gradplan_published_runner()
    arguments = ["attrs.problem", "args", "rets", *["ctx.stream"] * takes_stream]
    known = platform if platform == _HERE else "gpu"
    graphs = takes_stream  # such a kernel only launches: XLA may record it
    try:
        jax_tvm_ffi.register_ffi_target(
            name, run, arguments, platform=known, allow_cuda_graph=graphs
        )
    except jax.errors.JaxRuntimeError as error:  # XLA compares the versions of the interface
        raise Unsupported(
            f"gradplan.jax: JAX {jax.__version__} does not go with the installed jax-tvm-ffi "
            f"({error}). These go together: jax>=0.10 with jax-tvm-ffi>=0.1.3, jax 0.9 with 0.1.2, "
            "and before that 0.1.1"
        ) from error
    return name


def _select(op: Op, desc: Descriptor, platform: str) -> Plan[Any]:
    try:
        return plan_class(op).select(desc, device=platform)
    except Unsupported as error:
        if platform == _HERE:
            raise
        raise Unsupported(
            f"gradplan.jax: {op.function_for(desc).name}: expected arrays on the CPU; got a "
            f"program for {platform}. Move them there with jax.device_put(x, "
            f"jax.devices('cpu')[0])\n{error}"
        ) from None


def _publish(plan: Plan[Any], missing: Sequence[int]) -> int:
    """Makes a plan's kernel known under a number; `missing` operands are left out of calls.

    The number is a digest, not a counter: a program from JAX's compilation cache was numbered by
    another process, and must mean the same kernel in this one.
    """
    problem = f"{NUMERICS_VERSION} {plan.engine} {plan.device} {plan.op.name} {plan.descriptor!r}"
    problem += "".join(f" -{position}" for position in missing)
    digest = hashlib.blake2b(problem.encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "little", signed=True)
    with LOCK:
        before, kernel = _published.get(number, (problem, None))
        if before != problem:
            raise KernelError(f"{problem} and {before} have the same digest")
        if kernel is not plan._kernel:  # an engine may have been replaced since
            common().gradplan_publish(number, _callable(plan, missing))
            _published[number] = problem, plan._kernel
    return number


def _callable(plan: Plan[Any], missing: Sequence[int]) -> Any:
    """What XLA calls with its buffers."""
    kernel = plan._kernel
    if kernel.ffi is None:
        return tvm_ffi().convert(_with_none(_on_arrays(plan, kernel), missing))
    return tvm_ffi().convert(_with_none(kernel.ffi, missing)) if missing else kernel.ffi


def _with_none(function: Callable[..., Any], missing: Sequence[int]) -> Callable[..., Any]:
    """`function`, with None for the tensors that a call does without."""

    def call(*tensors: Any) -> None:
        given = list(tensors)
        for position in missing:
            given.insert(position, None)
        function(*given)

    return call


def _on_arrays(plan: Plan[Any], kernel: BoundKernel) -> Callable[..., Any]:
    """A kernel in Python on XLA's buffers, which are there only for as long as the call lasts."""
    if plan.device != _HERE:
        raise Unsupported(f"{plan.op.plan_name}: the engine {plan.engine} has no kernels for XLA")

    def call(*tensors: Any) -> None:
        kernel.run(*(None if x is None else _array(x) for x in tensors), None)

    return call


def _array(x: Any) -> Any:
    """XLA's buffer as an ndarray. It cannot be exported: it belongs to nobody that DLPack knows."""
    name = str(x.dtype)
    kind = ElementKind.from_dtype_name(name)
    assert kind is not None
    view = View(tuple(x.shape), tuple(x.strides), name, CPU_DEVICE, x.data_ptr(), x)
    return view.array(kind.dtype)


def lower(
    ctx: Any,
    args: Sequence[Any],
    platform: str,
    op: Op,
    desc: Descriptor,
    given: Sequence[str],
    made: Sequence[str],
) -> Any:
    """The call of a kernel in a program. Buffers come row-major, as by default.

    `given` and `made` are the names of the arguments and of the results. The workspace of a kernel
    on a GPU is one more result, which nobody looks at: XLA knows how to allocate there.
    """
    operands = [o.name for o in op.operands(desc)]
    order = [given.index(name) for name in operands if name in given]
    missing = [i for i, name in enumerate(operands) if name not in given and name not in made]
    plan = _select(op, desc, platform)
    number = _publish(plan, missing)
    rule = jax.ffi.ffi_lowering(_target(op.name, platform, plan._kernel.takes_stream))
    size = plan.workspace_size if plan._kernel.takes_stream else 0
    scratch = [jax.core.ShapedArray((size,), np.uint8)] if size else []
    ctx = ctx.replace(
        avals_in=[ctx.avals_in[i] for i in order], avals_out=[*ctx.avals_out, *scratch]
    )
    results = rule(ctx, *(args[i] for i in order), problem=np.int64(number))
    return list(results)[: len(ctx.avals_out) - len(scratch)]
