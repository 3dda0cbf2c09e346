"""The kernels as targets of XLA: one per op, told by a number which problem is meant."""

from __future__ import annotations

import functools
import hashlib
import threading
from typing import Any

import jax
import jax_tvm_ffi
import numpy as np

from gradplan.descriptor import Descriptor
from gradplan.engines.cpu import CpuEngine, load
from gradplan.spec import Op
from gradplan.vocabulary import NUMERICS_VERSION, KernelError, Unsupported

_published: dict[int, tuple[Op, Descriptor]] = {}
_lock = threading.Lock()


@functools.cache
def _target(op: Op) -> str:
    """The name under which XLA finds the kernels of an op."""
    name = f"gradplan.{op.name}"
    run = load().gradplan_published_runner()
    try:
        jax_tvm_ffi.register_ffi_target(
            name, run, ["attrs.problem", "args", "rets"], platform="cpu"
        )
    except jax.errors.JaxRuntimeError as error:  # XLA compares the versions of the interface
        raise Unsupported(
            f"gradplan.jax: JAX {jax.__version__} does not go with the installed jax-tvm-ffi "
            f"({error}). These go together: jax>=0.10 with jax-tvm-ffi>=0.1.3, jax 0.9 with 0.1.2, "
            "and before that 0.1.1"
        ) from error
    return name


def _number(op: Op, desc: Descriptor) -> int:
    """A digest, not a counter: a program from JAX's compilation cache was numbered by another
    process, and must mean the same kernel in this one."""
    text = f"{NUMERICS_VERSION} {op.name} {desc!r}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _publish(op: Op, desc: Descriptor) -> int:
    number = _number(op, desc)
    with _lock:
        if number not in _published:
            function, _, _ = CpuEngine().bound(op, desc)
            load().gradplan_publish(number, function)
            _published[number] = op, desc
        elif _published[number] != (op, desc):
            raise KernelError(f"{desc} and {_published[number][1]} have the same digest")
    return number


def lower(ctx: Any, *args: Any, op: Op, desc: Descriptor) -> Any:
    """The call of a kernel in a program for the CPU. Buffers come row-major, as by default."""
    rule = jax.ffi.ffi_lowering(_target(op))
    return rule(ctx, *args, problem=np.int64(_publish(op, desc)))
