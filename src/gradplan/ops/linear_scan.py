"""The linear recurrence along an axis, and its gradients.

    h[t] = a[t] h[t-1] + b[t],   h[-1] = initial

Without `initial` the first element is b[0], and a[0] has no influence. For a cotangent g of h:

    db[t]      = g[t] + a[t+1] db[t+1]
    da[t]      = h[t-1] db[t]
    d_initial  = a[0] db[0]

An exclusive scan is one state behind: h[t] is the state before the element t, and h[0] is `initial`
or 0; then d_initial has dh[0] as well.

Nothing is divided and no logarithm is taken: factors may be zero, negative, and of any size. A zero
starts anew, whatever came before it. A reversed scan is the same definition on the reversed axis.
"""

from __future__ import annotations

from typing import Annotated, Any

from gradplan.declaration import (
    INCLUSIVE,
    AxisOf,
    Descriptor,
    Exclusive,
    Exclusively,
    Figure,
    Function,
    Gradient,
    Like,
    Namespace,
    Op,
    Peer,
    Rule,
    Shape,
    Values,
    reads,
    without,
    writes,
)
from gradplan.vocabulary import ElementKind, OpCategory


class _LinearScanFields(Descriptor):
    input_shape: Annotated[Shape, "the shape of every tensor but `initial`"]
    scan_axis: Annotated[int, AxisOf("input_shape"), "the axis to scan along"]
    reverse: Annotated[bool, "scan from the last element to the first"] = False
    element: Annotated[ElementKind, "the element type"]


class LinearScanDescriptor(_LinearScanFields):
    """A linear recurrence along `scan_axis`."""

    exclusive: Exclusive = False


class LinearScanBackwardDescriptor(_LinearScanFields):
    """The gradients of a linear recurrence."""

    exclusive: Exclusive = False


class _Linear(Rule):
    """With g the gradient of b: da = h_before g, db = g, d_initial = a[0] g[0].

    "Before" and "after" are meant in the order of the scan.
    """

    def _before(self, xp: Namespace, x: Any, v: Values, start: Any) -> Any:
        start = 0.0 if start is None else start
        return xp.shift(x, v["scan_axis"], -1 if v["reverse"] else 1, start)

    def _after(self, xp: Namespace, x: Any, v: Values) -> Any:
        return xp.shift(x, v["scan_axis"], 1 if v["reverse"] else -1, 0.0)

    def _from_end(self, xp: Namespace, b: Any, v: Values) -> Any:
        """g[t] = b[t] + a[t+1] g[t+1]."""
        changed = {"a": self._after(xp, v["a"], v), "b": b, "initial": None}
        return xp.call("linear_scan", **{**v, **changed, "reverse": not v["reverse"]})

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        # The tangent of h goes the same way: h'[t] = a[t] h'[t-1] + (b'[t] + a'[t] h[t-1]).
        change = t["b"] + t["a"] * self._before(xp, v["h"], v, v["initial"])
        return xp.call("linear_scan", **{**v, "b": change, "initial": t.get("initial")})

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        g = self._from_end(xp, v["dh"], v)
        to_state = c["a"] * g
        grads = {
            "a": g * self._before(xp, tangent, v, c.get("initial")),
            "h": self._after(xp, to_state, v),
        }
        if v["initial"] is not None:
            grads["initial"] = xp.edge(to_state, v["scan_axis"], v["reverse"])
        return grads

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        g = self._from_end(xp, v["dh"], v)
        carried = t["a"] * g
        change = self._from_end(xp, self._after(xp, carried, v), v)
        h_before = self._before(xp, v["h"], v, v["initial"])
        return {
            "a": change * h_before + g * self._before(xp, t["h"], v, t.get("initial")),
            "b": change,
            "initial": xp.edge(carried + v["a"] * change, v["scan_axis"], v["reverse"]),
        }


class _MaybeExclusive(Exclusively):
    """The first state of an exclusive recurrence is `initial` itself."""

    def _start(self, t: Values) -> Any:
        start = t.get("initial")
        return 0.0 if start is None else start


# What others would write -----------------------------------------------------------------------


def _torch_loop(torch: Any, v: Any, out: Any) -> Any:
    """One step after the other: for any values."""

    def call() -> Any:
        if v.a.ndim == 0:
            return v.b + (0 * v.a if v.initial is None else v.a * v.initial)
        h, states = v.initial, []
        steps = list(zip(v.a.unbind(v.axis), v.b.unbind(v.axis), strict=True))
        for a, b in reversed(steps) if v.reverse else steps:
            h = b if h is None else a * h + b
            states.append(h)
        states = states[::-1] if v.reverse else states
        return torch.stack(states, v.axis) if states else v.a * v.b

    return call


def _torch_logarithms(torch: Any, v: Any, out: Any) -> Any:
    """By two of PyTorch's scans: for positive values, whose products stay in range."""

    def call() -> Any:
        axis = v.axis
        a, b = (x.flip(axis) if v.reverse else x for x in (v.a, v.b))
        if v.initial is not None:
            b = torch.cat([v.initial.unsqueeze(axis), b], axis)
            a = torch.cat([torch.ones_like(v.initial).unsqueeze(axis), a], axis)
        products = torch.cumsum(torch.log(a), axis)
        h = torch.exp(products + torch.logcumsumexp(torch.log(b) - products, axis))
        if v.initial is not None:
            h = h.narrow(axis, 1, h.shape[axis] - 1)
        return h.flip(axis) if v.reverse else h

    return call


def _jax_associative(jax: Any, v: Any, out: Any) -> Any:
    def join(earlier: Any, later: Any) -> Any:
        return earlier[0] * later[0], later[0] * earlier[1] + later[1]

    def call() -> Any:
        axis, b = v.axis % v.a.ndim, v.b
        if v.initial is not None:
            at = (slice(None),) * axis + (-1 if v.reverse else 0,)
            b = b.at[at].add(v.a[at] * v.initial)
        return jax.lax.associative_scan(join, (v.a, b), reverse=v.reverse, axis=axis)[1]

    return call


LINEAR_SCAN = Op(
    LinearScanDescriptor,
    OpCategory.SCAN,
    "A linear recurrence along an axis.",
    tensors=(
        reads("a", "input_shape", doc="what the state before is multiplied by"),
        reads("b", "input_shape", doc="what is added"),
        reads("initial", without("scan_axis"), optional=True, doc="the state before the first"),
        writes("h", "input_shape", doc="the states", inplace=("a", "b"), inplace_when=INCLUSIVE),
    ),
    functions=(
        Function(
            "linear_scan",
            """Linear recurrence h[t] = a[t] h[t-1] + b[t] along an axis.

            `initial` is the state before the first element and has no such axis; without it the
            first state is b[0]. A zero in a starts anew, whatever came before it.

            >>> a, b = np.float32([0.5, 0.5, 0, 0.5]), np.float32([1, 1, 1, 1])
            >>> gp.linear_scan(a, b)
            array([1. , 1.5, 1. , 1.5], dtype=float32)
            >>> gp.linear_scan(a, b, np.float32(8))
            array([5. , 3.5, 1. , 1.5], dtype=float32)
            """,
            rule=_MaybeExclusive(_Linear(), 0.0, "h"),
            torch=Like(
                doc="""Linear recurrence h[t] = a[t] h[t-1] + b[t] along `dim`.

                `initial` is the state before the first element and has no such axis. Gradients of
                any order for a, b and initial, right with zeros in a.

                >>> a = torch.tensor([0.5, 0.5, 0.0, 0.5], requires_grad=True)
                >>> h = linear_scan(a, torch.ones(4), torch.tensor(8.0))
                >>> h.sum().backward()
                >>> a.grad
                tensor([12.0000,  5.0000,  5.2500,  1.0000])
                """,
            ),
            jax=Like(
                doc="""Linear recurrence h[t] = a[t] h[t-1] + b[t] along an axis.

                `initial` is the state before the first element and has no such axis. Gradients of
                any order for a, b and initial, right with zeros in a.

                >>> a, b = jnp.float32([0.5, 0.5, 0, 0.5]), jnp.float32([1, 1, 1, 1])
                >>> linear_scan(a, b, jnp.float32(8))
                Array([5. , 3.5, 1. , 1.5], dtype=float32)
                """,
            ),
            peers=(
                Peer("torch", "a loop of h = a * h + b", _torch_loop, on_board=False),
                Peer("torch", "torch.logcumsumexp of logarithms", _torch_logarithms),
                Peer("jax", "jax.lax.associative_scan", _jax_associative),
            ),
            figures=(
                Figure("square", 0.45, "torch", 5),
                Figure("columns", 0.45, "torch", 5),
                Figure("one_row", None, "torch", 5),
            ),
            near_one=True,
        ),
    ),
    gradient=Gradient(
        "linear_scan_backward",
        cotangents={"dh": "h"},
        grads={"da": "a", "db": "b", "d_initial": "initial"},
    ),
)

LINEAR_SCAN_BACKWARD = Op(
    LinearScanBackwardDescriptor,
    OpCategory.SCAN,
    "The gradients of a linear recurrence.",
    tensors=(
        reads("dh", "input_shape", doc="the gradient of the states"),
        reads("a", "input_shape", doc="the factors"),
        reads("h", "input_shape", doc="the states"),
        reads("initial", without("scan_axis"), optional=True, doc="the state before the first"),
        writes(
            "da",
            "input_shape",
            doc="the gradient of a",
            inplace=("dh",),
            inplace_when=INCLUSIVE,
        ),
        writes(
            "db",
            "input_shape",
            doc="the gradient of b",
            inplace=("dh",),
            inplace_when=INCLUSIVE,
        ),
        writes(
            "d_initial",
            without("scan_axis"),
            optional=True,
            doc="the gradient of initial",
        ),
    ),
    functions=(
        Function(
            "linear_scan_backward",
            """Gradients of `linear_scan` with respect to a, b and initial.

            >>> a, b = np.float32([0.5, 0.5, 0, 0.5]), np.float32([1, 1, 1, 1])
            >>> h = gp.linear_scan(a, b)
            >>> gp.linear_scan_backward(b, a, h)[0]
            array([0.  , 1.  , 2.25, 1.  ], dtype=float32)
            >>> gp.linear_scan_backward(b, a, h)[1]
            array([1.5, 1. , 1.5, 1. ], dtype=float32)
            """,
            figures=(Figure("square", 0.45, "torch", 5),),
            near_one=True,
        ),
    ),
)
