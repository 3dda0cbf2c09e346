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
from gradplan.vocabulary import NUMERICS_VERSION, KernelError

_published: dict[int, tuple[Op, Descriptor]] = {}
_lock = threading.Lock()


def _library() -> Any:
    return load()


@functools.cache
def _target(op: Op) -> str:
    """The name under which XLA finds the kernels of an op."""
    name = f"gradplan.{op.name}"
    run = _library().gradplan_published_runner()
    jax_tvm_ffi.register_ffi_target(name, run, ["attrs.problem", "args", "rets"], platform="cpu")
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
            function, _ = CpuEngine().bound(op, desc)
            _library().gradplan_publish(number, function)
            _published[number] = op, desc
        elif _published[number] != (op, desc):
            raise KernelError(f"{desc} and {_published[number][1]} have the same digest")
    return number


def lower(ctx: Any, *args: Any, op: Op, desc: Descriptor) -> Any:
    """The call of a kernel in a program for the CPU. Buffers come row-major, as by default."""
    rule = jax.ffi.ffi_lowering(_target(op))
    return rule(ctx, *args, problem=np.int64(_publish(op, desc)))
