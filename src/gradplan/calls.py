"""From `run` to the kernel.

`run` is generated for each plan, as dataclasses generate `__init__`: keywords become positions,
outputs that were left out are allocated, and one call goes to the kernel, which checks every tensor
itself. On ndarrays that costs less than half a microsecond beyond the kernel's own call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from gradplan.declaration import Op, Operand, Role
from gradplan.engines import BoundKernel
from gradplan.hints import did_you_mean
from gradplan.streams import stream_handle
from gradplan.tensors import (
    CALL_GLOBALS,
    READERS,
    TORCH,
    WRITERS,
    Instead,
    count_writes,
    framework_of,
    tensor_name,
)
from gradplan.vocabulary import Error, InvalidProblem, KernelError, Unsupported

Call = Callable[..., Any]


def make_calls(
    op: Op, operands: Sequence[Operand], kernel: BoundKernel, instead: Instead
) -> tuple[Call, Call]:
    """`call`, which takes tensors by position (None for a new output), and `run`, by name.

    `instead` says what a bridge has in their place.
    """
    names = tuple(t.name for t in op.tensors)
    described = tuple((o.name, o.role, o.optional) for o in operands)
    bind = _compiled(op.plan_name, names, described, kernel.takes_stream)
    discarding = kernel.run if kernel.discarding is None else kernel.discarding
    call, run = bind(
        kernel.run,
        discarding,
        kernel.recover,
        _Allocator(op.plan_name, operands),
        functools.partial(reject, op.plan_name, operands),
        functools.partial(_reject_positional, op.plan_name, [o.name for o in operands]),
        functools.partial(_reject_stream, op.plan_name),
        [o.shape for o in operands],
        [o.kinds[0] for o in operands],
        [o.kinds[0].dtype for o in operands],
        instead,
    )
    # For a caller that knows its tensors to be exportable and makes outputs of its own; `call` says
    # what is wrong if they fail.
    cast(Any, call).kernel = discarding
    cast(Any, call).merging = kernel.merging
    return call, run


class _Allocator:
    """Allocates what a call left out; the generated code does it for NumPy and PyTorch itself."""

    def __init__(self, plan: str, operands: Sequence[Operand]) -> None:
        self.plan = plan
        self.made = [
            (position, o.shape, o.kinds[0], o.role is Role.INOUT)
            for position, o in enumerate(operands)
            if not o.is_input
        ]

    def __call__(self, call: Call, workspace: Any, stream: Any, *tensors: Any) -> Any:
        """`call` with new outputs in the framework of the first tensor."""
        like = tensors[0]
        framework = framework_of(like)
        given = list(tensors)
        handle = None if stream is None else stream_handle(self.plan, stream)
        try:
            with framework.on_stream(handle, like):
                for position, shape, kind, updated in self.made:
                    if given[position] is None:
                        new = framework.zeros if updated else framework.empty
                        given[position] = new(shape, kind, like)
        except Unsupported as error:
            raise Unsupported(f"{self.plan}: {error}") from None
        all_new = all(tensors[position] is None for position, *_ in self.made)
        results = call(*given, workspace, stream, all_new)
        if not framework.immutable:
            return results
        finished = tuple(
            framework.finished(given[i]) if tensors[i] is None else tensors[i]
            for i, *_ in self.made
        )
        return finished if len(finished) > 1 else finished[0]


def reject(plan: str, operands: Sequence[Operand], given: dict[str, Any]) -> NoReturn:
    """Says what is wrong with the names given to `run`."""
    needed = [o.name for o in operands if o.is_required]
    optional = [
        f"{o.name} ({'optional' if o.is_input else 'output, optional'})"
        for o in operands
        if not o.is_required
    ]
    missing = [f"missing {name!r}" for name in needed if given.get(name) is None]
    known = {o.name for o in operands}
    others = [n for n, x in given.items() if n not in known and x is not None]
    unknown = [f"unknown {name!r}" for name in others]
    hint = did_you_mean(others[0], [n for n in known if given.get(n) is None]) if others else ""
    raise InvalidProblem(
        f"{plan}.run: expected tensors {', '.join(needed + optional)}; "
        f"got {', '.join(missing + unknown)}{hint}"
    )


def _reject_positional(plan: str, names: Sequence[str]) -> NoReturn:
    by_name = ", ".join(f"{name}={name}" for name in names)
    raise InvalidProblem(
        f"{plan}.run: expected tensors by name: run({by_name}); got positional ones"
    )


def _reject_stream(plan: str, stream: Any) -> NoReturn:
    raise InvalidProblem(
        f"{plan}: stream: expected None: this plan's engine has no streams; got {stream!r}"
    )


def _cleaned(failure: Exception) -> Exception:
    """Our errors are about the call, not about where inside we noticed: drop the inner frames."""
    return failure.with_traceback(None) if isinstance(failure, Error) else failure


def _may_have_written(failure: Exception) -> bool:
    """Whether a call that failed may have written: not if its arguments were refused."""
    return not isinstance(failure, Error) or isinstance(failure, KernelError)


CALL_GLOBALS.update(
    empty=np.empty,
    zeros=np.zeros,
    torch_empty=TORCH.empty,
    torch_zeros=TORCH.zeros,
    readers=READERS,
    writers=WRITERS,
    cleaned=_cleaned,
    count_writes=count_writes,
    may_have_written=_may_have_written,
)


@functools.cache
def _compiled(
    plan: str,
    tensors: tuple[str, ...],
    operands: tuple[tuple[str, Role, bool], ...],
    takes_stream: bool,
) -> Callable[..., tuple[Call, Call]]:
    """Compiles the two for a set of operands; shapes and types come when they are bound."""
    names = [name for name, *_ in operands]
    required = [name for name, role, optional in operands if role is Role.IN and not optional]
    outputs = [name for name, role, _ in operands if role is not Role.IN]
    everything = ", ".join(names)

    elsewhere = "first is not ndarray and first is not Tensor"
    if takes_stream:
        elsewhere = f"stream is not None or {elsewhere}"

    def adapted(name: str, adapters: str, what: str) -> str:
        return f"{name} = {adapters}[type({name})]({name}, {what!r}, instead)"

    body = [
        f"first = type({names[0]})",
        f"kernel = discarding if new or {_all_are_none(outputs)} else finishing",
        # Outputs of other frameworks, or for another stream: allocated there, then handed in.
        f"if ({elsewhere}) and ({_any_is_none(outputs)}):",
        f"    return allocate(call, workspace, stream, {everything})",
        "written = ()",  # what the caller gave, and autograd may be interested in
    ]
    for i, (name, role, optional) in enumerate(operands):
        what = tensor_name(plan, name)
        # What _torch_reader and _torch_writer ask, here to save their calls.
        kind = "first" if i == 0 else f"type({name})"
        odd = f"{kind} is not Tensor or {name}.is_neg() or {name}.requires_grad"
        if role is Role.IN:
            there = f"{name} is not None and " if optional else ""
            body.append(
                f"if {there}{kind} is not ndarray and ({odd}): " + adapted(name, "readers", what)
            )
            continue
        new = "zeros" if role is Role.INOUT else "empty"
        body += [
            f"given_{name} = {name}",
            f"if {name} is None:",
            f"    if first is ndarray: {name} = given_{name} = {new}(shapes[{i}], dtypes[{i}])",
            f"    else: {name} = given_{name} = torch_{new}(shapes[{i}], kinds[{i}], {names[0]})",
            f"elif {kind} is not ndarray:",
            f"    if {odd}: {adapted(name, 'writers', what)}",
            f"    written += (given_{name},)",
        ]
    if not takes_stream:
        body.append("if stream is not None: reject_stream(stream)")
    body += [
        "if workspace is not None:",
        "    written += (workspace,)",
        f"    {adapted('workspace', 'writers', f'{plan}: workspace')}",
        "try:",
        f"    kernel({everything}, workspace{', stream' if takes_stream else ''})",
        "except Exception as error:",
        f"    failure = recover(kernel, error, ({everything},), workspace)",
        "    if failure is not None:",
        "        if may_have_written(failure): count_writes(written)",
        "        raise cleaned(failure) from failure.__cause__",
        "if written: count_writes(written)",
        "return " + ", ".join(f"given_{name}" for name in outputs),
    ]
    lines = [
        "def bind(finishing, discarding,",
        "         recover, allocate, reject, reject_positional, reject_stream,",
        "         shapes, kinds, dtypes, instead):",
        f"    def call({everything}, workspace=None, stream=None, new=False):",
        *(f"        {line}" for line in body),
        f"    def run(*args, {', '.join(f'{name}=None' for name in tensors)},",
        "            workspace=None, stream=None, **unknown):",
        "        new = False",
        "        if args: reject_positional()",
        f"        if unknown or {_any_is_none(required)}:",
        f"            reject(dict({', '.join(f'{n}={n}' for n in names)}, **unknown))",
        *(f"        {line}" for line in body),
        "    return call, run",
    ]
    made: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<gradplan {plan}>", "exec"), CALL_GLOBALS, made)
    return cast(Callable[..., tuple[Call, Call]], made["bind"])


def _all_are_none(names: Sequence[str]) -> str:
    return " is ".join([*names, "None"])


def _any_is_none(names: Sequence[str]) -> str:
    return " or ".join(f"{name} is None" for name in names)
