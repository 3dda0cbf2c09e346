"""Engines: where kernels come from.

`ENGINES` lists them by name, in the order in which `Plan.select` asks. An engine says why it cannot
serve a problem, or binds a kernel to it. Tests register their own, wrong ones included.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gradplan.declaration import Descriptor, Op
from gradplan.vocabulary import PrecisionGuarantee

__all__ = ["ENGINES", "BoundKernel", "Engine", "register_engine", "registered", "unregister_engine"]


def _no_recovery(
    run: Callable[..., Any], error: Exception, tensors: Sequence[Any], workspace: Any
) -> Exception:
    return error


@dataclasses.dataclass(frozen=True)
class BoundKernel:
    """A kernel for one problem.

    `run` takes the plan's tensors in declared order, then the workspace (or None) and, if it
    `takes_stream`, the stream; it checks them all before it writes anything. An output may be None,
    which leaves it out, where the kernel allows that. `recover` is called with the function that
    was run, what it raised, and the same arguments; it returns None if it could finish the call,
    and otherwise what to raise. `discarding`, if there is one, is `run` for outputs that nobody
    else has seen: it may leave them unfinished when the handler of a signal raises (Ctrl-C). So may
    `merging`, which, if there is one, is for tensors that DLPack exports and that may have more or
    fewer axes than the plan wants, as [4, 8, 64] for [32, 64]. `ffi`, if there is one, is `run` as
    a function of tvm_ffi that takes the tensors alone (and the stream): what XLA calls without
    Python.
    """

    run: Callable[..., Any]
    workspace_size: int = 0
    recover: Callable[[Callable[..., Any], Exception, Sequence[Any], Any], Exception | None] = (
        _no_recovery
    )
    discarding: Callable[..., Any] | None = None
    merging: Callable[..., Any] | None = None
    takes_stream: bool = False
    ffi: Any = None


class Engine:
    """Base of engines."""

    name: str
    devices: frozenset[str] = frozenset({"cpu"})
    """The kinds of devices whose tensors it takes."""
    automatic = True
    """Whether it may be chosen without being asked for by name."""
    has_threads = True
    """Whether `set_num_threads` is for it, too."""
    last_resort = False
    """Whether it may be chosen all the same if no other engine has a kernel for an op."""

    @property
    def arch(self) -> str:
        """What its kernels are built for; part of the SKU."""
        return "any"

    @property
    def facts(self) -> Mapping[str, Any]:
        """What else there is to know about it here, for `gradplan info` and certificates."""
        return {}

    @property
    def place(self) -> str:
        """The device that it runs on, where nobody says which."""
        return "cpu"

    def on(self, device: str) -> Engine:
        """The engine for tensors on one device, such as "cuda:1"; it may be the same for all."""
        return self

    def has(self, op: Op) -> bool:
        """Whether it has any kernel for an op."""
        return True

    def why_not(self, op: Op, desc: Descriptor) -> str | None:
        """Why it cannot serve this problem, or None if it can."""
        return None

    def guarantee(self, op: Op, desc: Descriptor) -> PrecisionGuarantee:
        """What it promises; by default the bit contract."""
        return op.guarantee(desc)

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        raise NotImplementedError

    def run_arrays(self, plan: Any, arrays: Mapping[str, Any]) -> None:
        """Runs a plan of its on ndarrays by name, wherever it computes: for who verifies it."""
        plan.run(**arrays)


ENGINES: dict[str, Engine] = {}
_on_change: list[Callable[[], None]] = []


def on_change(forget: Callable[[], None]) -> None:
    """Calls `forget` whenever engines come or go: cached plans are stale then."""
    _on_change.append(forget)


def _changed() -> None:
    for forget in _on_change:
        forget()


def register_engine(engine: Engine, *, first: bool = False) -> None:
    """Adds an engine, in place of the one that has its name if there is one."""
    if first:
        others = {name: e for name, e in ENGINES.items() if name != engine.name}
        ENGINES.clear()
        ENGINES[engine.name] = engine
        ENGINES.update(others)
    else:
        ENGINES[engine.name] = engine
    _changed()


def unregister_engine(name: str) -> None:
    """Removes an engine."""
    del ENGINES[name]
    _changed()


@contextlib.contextmanager
def registered(engine: Engine, *, first: bool = False) -> Iterator[Engine]:
    """Registers an engine for a while; afterwards everything is as it was."""
    before = dict(ENGINES)
    register_engine(engine, first=first)
    try:
        yield engine
    finally:
        ENGINES.clear()
        ENGINES.update(before)
        _changed()


def _register_own() -> None:
    """The engines of this package are its modules that have an ENGINE, in the order of names."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        engine = getattr(importlib.import_module(f"{__name__}.{module.name}"), "ENGINE", None)
        if engine is not None:
            found[engine.name] = engine
    for _, engine in sorted(found.items()):
        register_engine(engine)


_register_own()
