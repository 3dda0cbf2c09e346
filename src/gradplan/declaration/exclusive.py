"""Exclusive scans: what they add to the declaration of an inclusive one.

An exclusive scan gives at each element the result of everything before it. "Before" and "after" are
meant in the order of the scan, along the axis `scan_axis` and from the end with `reverse`.
"""

from __future__ import annotations

from typing import Annotated, Any

from gradplan.declaration.derivatives import Namespace, Rule, Values
from gradplan.declaration.descriptor import Only
from gradplan.declaration.fields import Flag

Exclusive = Annotated[bool, Flag(apart=True), "give what is before each element, without itself"]
INCLUSIVE = Only(exclusive={False})
"""An exclusive scan cannot be in place: results are one element behind what they are made of."""


def before(xp: Namespace, x: Any, v: Values, start: Any) -> Any:
    """The element before each one; `start` before the first."""
    return xp.shift(x, v["scan_axis"], -1 if v["reverse"] else 1, start)


def after(xp: Namespace, x: Any, v: Values, end: Any) -> Any:
    """The element after each one; `end` after the last."""
    return xp.shift(x, v["scan_axis"], 1 if v["reverse"] else -1, end)


class Exclusively(Rule):
    """The rule of an inclusive scan for an exclusive one as well.

    With S the shift by one along the scan an exclusive scan is S after the inclusive one, of which
    it has all results but the last; `unknown` stands for that. Names are those of the scan's result
    and of its cotangent.
    """

    def __init__(self, inclusive: Rule, unknown: float, result: str = "y") -> None:
        self.inclusive = inclusive
        self.unknown = unknown
        self.result = result
        self.cotangent = f"d{result}"

    def _inclusive(self, xp: Namespace, v: Values) -> Values:
        """The values of the inclusive scan whose results were shifted."""
        changed = {"exclusive": False}
        for name, end in ((self.cotangent, 0.0), (self.result, self.unknown)):
            if v.get(name) is not None:
                changed[name] = after(xp, v[name], v, end)
        return {**v, **changed}

    def _start(self, t: Values) -> Any:
        """The tangent of the first result: that of what the scan starts from."""
        return 0.0

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        if not v["exclusive"]:
            return self.inclusive.tangent(xp, v, t)
        moved = self.inclusive.tangent(xp, self._inclusive(xp, v), t)
        return before(xp, moved, v, self._start(t))

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        if not v["exclusive"]:
            return self.inclusive.pull_saved(xp, v, c, tangent)
        moved = after(xp, tangent, v, 0.0)
        grads = self.inclusive.pull_saved(xp, self._inclusive(xp, v), c, moved)
        if self.result in grads:
            grads[self.result] = before(xp, grads[self.result], v, 0.0)
        return grads

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        if not v["exclusive"]:
            return self.inclusive.push_saved(xp, v, t)
        if self.result in t:
            t = {**t, self.result: after(xp, t[self.result], v, 0.0)}
        return self.inclusive.push_saved(xp, self._inclusive(xp, v), t)
