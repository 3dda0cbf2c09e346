"""Launches that check indices; see errors.py for what they leave behind."""

from __future__ import annotations

from gradplan.engines.cuda.program import ERRORS, I32, I64, Argument, Launch, Layout, Pointer

from .arena import Arena
from .layouts import element
from .tiles import CHECKED

NOTHING = -1
"""In place of a padding index: outside anyway."""


def bounds_check(name: str, ids: Layout, count: int, arena: Arena) -> list[Launch]:
    """Find the first index outside of [0, count), where a padding index always is inside."""
    (n,), (step,) = ids.shape, ids.strides
    programs = -(-n // CHECKED)
    if not programs:
        return []
    outside = arena.take(8 * programs)
    kind = element(ids.dtype).value
    return [
        Launch(
            f"check_indices/{kind}",
            (programs, 1, 1),
            (Pointer(name), outside, I64(n), I64(step), I64(count)),
        ),
        _report("outside", kind, name, outside, programs, step),
    ]


def ascending_check(
    name: str, ids: Layout, count: int, arena: Arena, *, bounds: bool, order: bool = True
) -> tuple[Pointer, list[Launch]]:
    """Find the first descent, and with `bounds` the first index outside; returns keys, too.

    Without `order` ids may descend, and the keys are all that is wanted of them.
    """
    (n,), (step,) = ids.shape, ids.strides
    programs = -(-n // CHECKED)
    outside, descent = arena.take(8 * programs), arena.take(8 * programs)
    keys = arena.take(4 * n)
    if not programs:
        return keys, []
    kind = element(ids.dtype).value
    launches = [
        Launch(
            f"check_ascending/{kind}",
            (programs, 1, 1),
            (Pointer(name), outside, descent, keys, I64(n), I64(step), I64(count)),
        ),
    ]
    if order:
        launches.append(_report("descent", kind, name, descent, programs, step))
    if bounds:
        launches.append(_report("outside", kind, name, outside, programs, step))
    return keys, launches


def _report(what: str, kind: str, name: str, firsts: Argument, programs: int, step: int) -> Launch:
    return Launch(
        f"report_{what}/{kind}",
        (1, 1, 1),
        (Pointer(name), firsts, Pointer(ERRORS), I32(programs), I64(step)),
    )
