"""The mathematics that declarations do not hold: second derivatives, and PyTorch's conventions.

The Jacobian J of a forward op maps tangents of its input to tangents of its output, and its
backward op applies the transpose of J to a cotangent. A rule says, for one backward op,

    apply_jacobian   J c: the forward op's tangent, and also the derivative of the backward op with
                     respect to its cotangent, transposed
    pull_saved       the gradients of the tensors that the backward op reads besides (x, y)
    push_saved       the tangent of its result for tangents of those tensors

all made of operators, so that they have derivatives themselves. A backward op that reads nothing
but cotangents and indices is the transpose of a linear function and needs no rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from gradplan.torch.operators import Operator

Values = Mapping[str, Any]

CONVENTIONS: Mapping[str, Any] = {"ties": "last"}
"""Options that only a backward op has, as PyTorch's gradients want them."""

VARIANTS: Mapping[str, tuple[str, Sequence[str]]] = {
    "embedding_with_padding": ("embedding", ("padding_idx",)),
}
"""Further operators: the function they come from, and its options that only the gradient obeys.

PyTorch's embedding returns the padding row like any other; only its gradient skips it."""


class Rule:
    """The derivatives of a backward operator; by default J is constant almost everywhere."""

    def apply_jacobian(self, backward: Operator, v: Values, c: Sequence[Any]) -> Any:
        """J c for tangents `c` of the forward's inputs. `v` has the backward's other arguments."""
        raise NotImplementedError

    def pull_saved(self, backward: Operator, v: Values, c: Any, pulled: Any) -> dict[str, Any]:
        """Gradients by name, for the gradient `c` of the result; `pulled` is J c."""
        return {}

    def push_saved(self, backward: Operator, v: Values, tangents: Values) -> Any:
        """The tangent of the result, or None for zero."""
        return None


class Linear(Rule):
    """The forward is linear: J c is the forward itself."""

    def __init__(self, forward: Operator) -> None:
        assert forward.op.gradient is not None
        self.forward = forward
        self.inputs = forward.op.gradient.grads

    def apply_jacobian(self, backward: Operator, v: Values, c: Sequence[Any]) -> Any:
        inputs = {self.inputs[t.name]: x for t, x in zip(backward.outputs, c, strict=True)}
        return self.forward.invoke({**v, **inputs})


# Scans ---------------------------------------------------------------------------------------
# "Before" and "after" are meant in the order of the scan.


def _before(x: Any, v: Values, start: float) -> Any:
    """The element before each one; `start` before the first."""
    if x.ndim == 0:
        return torch.full_like(x, start)
    axis, n = v["scan_axis"], x.shape[v["scan_axis"]]
    if n == 0:
        return x
    edge = torch.full_like(x.narrow(axis, 0, 1), start)
    if v["reverse"]:
        return torch.cat([x.narrow(axis, 1, n - 1), edge], axis)
    return torch.cat([edge, x.narrow(axis, 0, n - 1)], axis)


def _reversed(v: Values) -> dict[str, Any]:
    return {**v, "reverse": not v["reverse"]}


def _after(x: Any, v: Values, end: float) -> Any:
    return _before(x, _reversed(v), end)


def _from_end(b: Any, a: Any, v: Values) -> Any:
    """t[i] = b[i] + a[i+1] t[i+1], any zeros in a: what cumprod's backward is for y = 1."""
    backward = torch.ops.gradplan.cumprod_backward
    return backward(b, a, torch.ones_like(b), v["scan_axis"], v["reverse"])


def _from_start(b: Any, a: Any, v: Values) -> Any:
    """t[i] = b[i] + a[i] t[i-1], any zeros in a."""
    return _from_end(b, _after(a, v, 1.0), _reversed(v))


class _Product(Rule):
    """dx[i] = y[i-1] r[i] with r[i] = dy[i] + x[i+1] r[i+1]; its derivatives divide by nothing."""

    def apply_jacobian(self, backward: Operator, v: Values, c: Sequence[Any]) -> Any:
        # dy[i] = x[i] dy[i-1] + y[i-1] dx[i]
        return _from_start(c[0] * _before(v["y"], v, 1.0), v["x"], v)

    def pull_saved(self, backward: Operator, v: Values, c: Any, pulled: Any) -> dict[str, Any]:
        r = _from_end(v["dy"], v["x"], v)
        return {"x": r * _before(pulled, v, 0.0), "y": _after(c[0] * r, v, 0.0)}

    def push_saved(self, backward: Operator, v: Values, tangents: Values) -> Any:
        r = _from_end(v["dy"], v["x"], v)
        change = _from_end(_after(tangents["x"] * r, v, 0.0), v["x"], v)
        return _before(v["y"], v, 1.0) * change + _before(tangents["y"], v, 0.0) * r


class _LogSumExp(Rule):
    """dx[j] = sum over i >= j of dy[i] exp(x[j] - y[i])."""

    def _weighted(self, backward: Operator, v: Values, g: Any, x: Any, y: Any) -> Any:
        """g exp(x - y), 0 where x = -inf: the backward along an axis of length 1."""
        one = {"dy": g[None], "x": x[None], "y": y[None], "scan_axis": 0}
        return backward.invoke({**v, **one})[0]

    def apply_jacobian(self, backward: Operator, v: Values, c: Sequence[Any]) -> Any:
        # The sum over j <= i of c[j] exp(x[j] - y[i]), by a recurrence with factors of at most 1.
        x, y = v["x"], v["y"]
        factor = self._weighted(backward, v, torch.ones_like(y), _before(y, v, -torch.inf), y)
        return _from_start(self._weighted(backward, v, c[0], x, y), factor, v)

    def pull_saved(self, backward: Operator, v: Values, c: Any, pulled: Any) -> dict[str, Any]:
        return {"x": c[0] * backward.invoke(v), "y": -v["dy"] * pulled}

    def push_saved(self, backward: Operator, v: Values, tangents: Values) -> Any:
        from_y = backward.invoke({**v, "dy": -v["dy"] * tangents["y"]})
        return tangents["x"] * backward.invoke(v) + from_y


class _Selection(Rule):
    """Each output is a copy of one element of x: J selects."""

    def __init__(self, scan: Any) -> None:
        self.scan = scan
        """PyTorch's function, for its indices: of equal extremes the last, as in CONVENTIONS."""

    def apply_jacobian(self, backward: Operator, v: Values, c: Sequence[Any]) -> Any:
        x, axis = v["x"].detach(), v["scan_axis"]
        if x.ndim == 0:
            return c[0].clone()
        if not v["reverse"]:
            return c[0].gather(axis, self.scan(x, axis).indices)
        indices = self.scan(x.flip(axis), axis).indices
        return c[0].flip(axis).gather(axis, indices).flip(axis)


class _Symmetric(Rule):
    """J is its own transpose."""

    def apply_jacobian(self, backward: Operator, v: Values, c: Sequence[Any]) -> Any:
        cotangent = next(t.name for t in backward.tensors)
        return backward.invoke({**v, cotangent: c[0]})


RULES: Mapping[str, Rule] = {
    "cumprod_backward": _Product(),
    "logcumsumexp_backward": _LogSumExp(),
    "cummax_backward": _Selection(torch.cummax),
    "cummin_backward": _Selection(torch.cummin),
    "sparsemax_backward": _Symmetric(),
}
