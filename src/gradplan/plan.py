"""Descriptor -> select -> can_implement -> run.

A plan is a descriptor with a kernel that an engine has bound to it. How a call gets from `run` to
the kernel is in calls.py.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Generic, TypeVar, cast

from gradplan.calls import make_calls, reject
from gradplan.declaration import Descriptor, Op, Role
from gradplan.engines import ENGINES, Engine, on_change
from gradplan.engines.checks import CallChecks
from gradplan.hints import did_you_mean, shown
from gradplan.offers import offered_as
from gradplan.plan_help import describe_tensors, document_run, methods
from gradplan.tensors import readable, tensor_name, writable
from gradplan.vocabulary import (
    INDICES,
    InvalidProblem,
    KernelSku,
    PlanPreference,
    PrecisionGuarantee,
    Unsupported,
)

D = TypeVar("D", bound=Descriptor)
P = TypeVar("P", bound="Plan[Any]")

_NO_PREFERENCE = PlanPreference()
_CACHED_PLANS = 1024


class Plan(Generic[D]):
    """A kernel bound to a problem. Made by `select`; immutable, threads may share it."""

    op: ClassVar[Op]

    descriptor: D
    """The problem."""
    engine: str
    """The name of the engine that runs it."""
    device: str
    """The device that its tensors are on."""
    sku: KernelSku
    """The name of the kernel."""
    precision_guarantee: PrecisionGuarantee
    """What the numbers promise."""
    workspace_size: int
    """Bytes of scratch memory that a call needs; allocated by the call unless it is given some."""

    def __init__(
        self, desc: D, engine: Engine, prefer: PlanPreference, device: str = "cpu"
    ) -> None:
        op = self.op
        kernel = engine.bind(op, desc)
        self._kernel = kernel
        self.descriptor = desc
        self.engine = engine.name
        self.device = device
        self.precision_guarantee = engine.guarantee(op, desc)
        self.workspace_size = kernel.workspace_size
        self._operands = op.operands(desc)
        self._prefer = prefer
        roles = {o.role for o in self._operands}
        self.sku = KernelSku(
            category=op.category,
            op=op.function_for(desc).name,
            element=desc.element,
            aux_element=INDICES[-1] if op.has_indices else None,
            layout="strided",
            epilogue="accumulate" if Role.INOUT in roles else None,
            arch=engine.arch,
            backend=engine.name,
            precision_guarantee=self.precision_guarantee,
        )
        self._call, run = make_calls(op, self._operands, kernel, self._instead)
        document_run(op, run, Plan.run)
        self.__dict__["run"] = run

    @classmethod
    def select(
        cls: type[P], desc: Any, prefer: PlanPreference = _NO_PREFERENCE, device: str = "cpu"
    ) -> P:
        """The plan for a problem, from the first engine that can serve it as `prefer` asks.

        `device` is where the tensors are, such as "cpu" or "cuda:1". Plans are cached: selecting
        the same problem again returns the same plan.
        """
        _check_selection(cls.op, desc, prefer, device)
        return cast(P, _select(cast(Any, cls), desc, prefer, device))

    def can_implement(self, *, workspace: Any = None, stream: Any = None, **tensors: Any) -> None:
        """Returns None if `run` would accept these tensors; raises what it would raise otherwise.

        Outputs may be left out. Values (indices out of range) are not looked at.
        """
        missing = [o.name for o in self._operands if o.is_required and tensors.get(o.name) is None]
        unknown = tensors.keys() - {t.name for t in self.op.tensors}
        if missing or unknown:
            reject(self.op.plan_name, self._operands, tensors)
        given = []
        for operand in self._operands:
            x = tensors.get(operand.name)
            adapt = readable if operand.is_input else writable
            what = tensor_name(self.op.plan_name, operand.name)
            given.append(None if x is None else adapt(x, what, self._instead))
        self._checks(given, workspace)

    def _instead(self, bridge: str) -> str:
        """What a bridge has in place of it, for messages."""
        return offered_as(bridge, self.op, self.op.function_for(self.descriptor))

    @functools.cached_property
    def _checks(self) -> CallChecks:
        return CallChecks(self.op.plan_name, self._operands, self.device)

    def run(self, *, workspace: Any = None, stream: Any = None, **tensors: Any) -> Any:
        """Runs the kernel on tensors given by name and returns the output, or a tuple of them.

        Outputs that are left out are allocated in the framework of the first input. A `workspace`
        of `workspace_size` bytes saves the call an allocation; `stream` is for GPU engines.
        """
        raise NotImplementedError  # every instance has its own, made in __init__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.sku}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _select, (type(self), self.descriptor, self._prefer, self.device)


@functools.cache
def plan_class(op: Op) -> type[Plan[Any]]:
    """The plan class of an op."""
    members = {"op": op, "__doc__": f"{op.doc}\n\n{describe_tensors(op)}", "__module__": "gradplan"}
    return type(op.plan_name, (Plan,), {**members, **methods(op, Plan)})


# Selection -----------------------------------------------------------------------------------


def _check_selection(op: Op, desc: Any, prefer: Any, device: Any) -> None:
    """Before anything is looked up: what cannot be a key is refused here as well."""
    where = f"{op.plan_name}.select"
    if type(desc) is not op.descriptor:
        how = f"{op.descriptor.__name__}(**fields)" if isinstance(desc, dict) else ""
        hint = f"; make one with {how}" if how else ""
        raise InvalidProblem(
            f"{where}: expected a {op.descriptor.__name__}; got {shown(desc)}{hint}"
        )
    if not isinstance(prefer, PlanPreference):
        raise InvalidProblem(f"{where}: expected a PlanPreference; got {shown(prefer)}")
    if not isinstance(device, str):
        raise InvalidProblem(
            f"{where}: expected a device such as 'cpu' or 'cuda:0'; got {shown(device)}"
        )
    if prefer.engine is not None and prefer.engine not in list(ENGINES):
        raise InvalidProblem(
            f"{where}: expected an engine out of {', '.join(ENGINES)}; "
            f"got {shown(prefer.engine)}{did_you_mean(prefer.engine, ENGINES)}"
        )


@functools.lru_cache(maxsize=_CACHED_PLANS)
def _select(
    cls: type[Plan[Any]], desc: Descriptor, prefer: PlanPreference, device: str
) -> Plan[Any]:
    op = cls.op
    reasons = []
    for each in ENGINES.values():
        engine = each.on(device)
        reason = _why_not(engine, op, desc, prefer, device)
        if reason is None:
            return cls(desc, engine, prefer, device)
        reasons.append(f"\n  {engine.name}: {reason}")
    raise Unsupported(f"{op.plan_name}: no engine can serve {desc} on {device}:{''.join(reasons)}")


def _why_not(
    engine: Engine, op: Op, desc: Descriptor, prefer: PlanPreference, device: str
) -> str | None:
    if prefer.engine is not None and prefer.engine != engine.name:
        return f"engine {prefer.engine!r} was asked for"
    if device.partition(":")[0] not in engine.devices:
        return f"takes tensors on {', '.join(sorted(engine.devices))}; these are on {device}"
    if prefer.engine is None and not engine.automatic and not _is_last_resort(engine, op, device):
        return f"only used when asked for (engine={engine.name!r})"
    return engine.why_not(op, desc) or prefer.why_not(engine.guarantee(op, desc))


def _is_last_resort(engine: Engine, op: Op, device: str) -> bool:
    """Whether nobody else has a kernel for an op, of whatever kind or element type."""
    others = (e for e in ENGINES.values() if e.automatic and device in e.devices)
    try:
        return engine.last_resort and not any(e.has(op) for e in others)
    except Unsupported:  # an engine that cannot run here may have one
        return False


on_change(_select.cache_clear)
