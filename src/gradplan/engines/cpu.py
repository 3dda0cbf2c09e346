"""The CPU engine: finds the build for this CPU, loads it and binds its kernels.

The package carries one library of kernels per instruction set level, and one that they share (the
checks of a call, errors, threads), which also says what this CPU can run. The best one is loaded;
`GRADPLAN_ISA` forces one. `GRADPLAN_NUM_THREADS` and `set_num_threads` apply to all of them.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

from gradplan._ffi import tvm_ffi
from gradplan.declaration import Descriptor, Op
from gradplan.declaration.fields import integer
from gradplan.engines import BoundKernel, Engine
from gradplan.engines.checks import COMMON, LIBRARIES, PREFIX, common, described, direct, recover
from gradplan.forks import LOCK
from gradplan.vocabulary import InvalidProblem, Unsupported

__all__ = [
    "ENGINE",
    "LIBRARIES",
    "CpuEngine",
    "get_num_threads",
    "isa",
    "isa_builds",
    "load",
    "num_threads",
    "set_num_threads",
    "supported_isas",
]

# Builds --------------------------------------------------------------------------------------


def isa_builds() -> tuple[str, ...]:
    """The instruction set levels that this package was built for, the best one last."""
    names = (path.stem.removeprefix(PREFIX) for path in LIBRARIES.glob(PREFIX + "*.so"))
    # x86-64-v2 < v3 < v4 is also their order as strings.
    return tuple(sorted(name for name in names if name != COMMON))


@functools.cache
def supported_isas() -> tuple[str, ...]:
    """Those of `isa_builds` that this CPU can run, the best one last."""
    builds = isa_builds()
    if not builds:
        return ()
    supports = common().gradplan_cpu_supports
    return tuple(name for name in builds if supports(name))


def isa() -> str:
    """The build in use: that of `GRADPLAN_ISA`, or the best one that this CPU can run."""
    wanted = os.environ.get("GRADPLAN_ISA") or None
    supported = supported_isas()
    if wanted is None:
        if not supported:
            built = ", ".join(isa_builds()) or "none"
            raise Unsupported(f"no build of the CPU engine runs here (builds found: {built})")
        return supported[-1]
    if wanted not in supported:
        known = "this CPU cannot run it" if wanted in isa_builds() else "there is no such build"
        choices = ", ".join(supported) or "none"
        raise Unsupported(f"GRADPLAN_ISA={wanted}: {known}; choices here: {choices}")
    return wanted


_loaded: dict[str, Any] = {}


def load(name: str | None = None) -> Any:
    """The library for one instruction set level (default: `isa()`) as a tvm_ffi module.

    Several can be loaded at once; they share no state but the number of threads. What the common
    library has is found through each of them.
    """
    name = name or isa()
    with LOCK:
        if name not in _loaded:
            if name not in supported_isas():
                choices = ", ".join(supported_isas()) or "none"
                raise Unsupported(f"no build {name!r} for this CPU; choices here: {choices}")
            library = tvm_ffi().load_module(str(LIBRARIES / f"{PREFIX}{name}.so"))
            common().gradplan_set_num_threads(get_num_threads())
            _loaded[name] = library
        return _loaded[name]


@functools.cache
def kernels(name: str) -> dict[str, Any]:
    """What a build implements: by op, its tensors, its attributes with the words that it knows of
    each (none: any value), and its element types."""
    return {op: dict(has) for op, has in load(name).gradplan_signatures().items()}


# Threads -------------------------------------------------------------------------------------

_num_threads: int | None = None
_ROOT = ""
"""Where the files begin in which the system says what this process may use."""


def _thread_count(value: Any, parse: Callable[[Any], int], source: str) -> int:
    try:
        count = parse(value)
    except (TypeError, ValueError):
        count = 0
    if not 1 <= count <= 4096:
        raise InvalidProblem(
            f"{source}: expected a number of threads from 1 to 4096; got {value!r}"
        )
    return count


def _default_threads() -> int:
    given = os.environ.get("GRADPLAN_NUM_THREADS")
    if given:
        return _thread_count(given, int, "GRADPLAN_NUM_THREADS")
    if isa_builds():
        return int(common().gradplan_processors(_ROOT))
    return os.cpu_count() or 1


def get_num_threads() -> int:
    """How many threads kernels use. Results do not depend on it.

    >>> import gradplan as gp
    >>> before = gp.get_num_threads()
    >>> gp.set_num_threads(2)
    >>> gp.get_num_threads()
    2
    >>> gp.set_num_threads(before)
    """
    global _num_threads
    with LOCK:
        if _num_threads is None:
            _num_threads = _default_threads()
        return _num_threads


def set_num_threads(n: int) -> None:
    """Sets how many threads kernels use, in every thread of this process."""
    global _num_threads
    count = _thread_count(n, integer, "set_num_threads")
    with LOCK:
        _num_threads = count
        if _loaded:
            common().gradplan_set_num_threads(count)


@contextlib.contextmanager
def num_threads(count: int) -> Iterator[None]:
    """So many threads for a while; afterwards as many as before."""
    before = get_num_threads()
    set_num_threads(count)
    try:
        yield
    finally:
        set_num_threads(before)


# The engine ----------------------------------------------------------------------------------


_SHORT = 1 << 14
"""Elements of a problem that is done, in microseconds, before another thread would have started:
letting go of Python's lock for it costs more than it gives."""


class CpuEngine(Engine):
    """C++ kernels; `build` names one instruction set level, None takes the best."""

    name = "cpu"

    def __init__(self, build: str | None = None) -> None:
        self.build = build

    @property
    def arch(self) -> str:
        return self.build or isa()

    def has(self, op: Op) -> bool:
        return op.name in kernels(self.arch)

    def why_not(self, op: Op, desc: Descriptor) -> str | None:
        try:
            known = kernels(self.arch).get(op.name)
        except Unsupported as error:
            return str(error)
        if known is None:
            return f"no kernel for {op.name}"
        for info in op.attributes:
            value = info.field.attribute(getattr(desc, info.name))
            words = known["attributes"][info.name]
            if words and value not in words:
                return f"no kernel for {op.name} with {info.name}={value!r}"
        if desc.element.dtype_name not in known["elements"]:
            return f"no kernel for {op.name} of {desc.element}"
        return None

    def bound(self, op: Op, desc: Descriptor) -> dict[str, Any]:
        """The functions of C++ for a problem, and the bytes of workspace that they need; see
        `bind` in csrc/ffi/bind.h."""
        operands = op.operands(desc)
        attributes = {
            info.name: info.field.attribute(getattr(desc, info.name)) for info in op.attributes
        }
        is_long = sum(math.prod(o.shape) for o in operands) > _SHORT
        bound = load(self.build).gradplan_bind(
            op.name, op.plan_name, described(operands), attributes, is_long
        )
        found = dict(bound)
        for name in ("run", "discarding", "merging"):
            found[name].release_gil = False  # they do it themselves
        found["foreign"].release_gil = is_long
        return found

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        operands = op.operands(desc)
        bound = self.bound(op, desc)
        return BoundKernel(
            direct(bound["run"], operands),
            bound["workspace_size"],
            functools.partial(recover, op.plan_name, operands),
            direct(bound["discarding"], operands),
            bound["merging"],
            ffi=bound["foreign"],
        )


ENGINE = CpuEngine()
