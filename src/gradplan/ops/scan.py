"""Scans along an axis, and their gradients.

With `o` one of +, x, max, min and logaddexp, a scan computes `y[i] = x[0] o x[1] o ... o x[i]`
along one axis. The gradients, for a cotangent g of y:

    cumsum         dx[i] = g[i] + g[i+1] + ...
    cumprod        dx[i] = y[i-1] t[i],  t[i] = g[i] + x[i+1] t[i+1]   (no division: zeros are fine)
    cummax, cummin dx[i] = sum of g over the outputs that took their value from x[i]
    logcumsumexp   dx[i] = r[i] exp(x[i] - y[i]),  r[i] = g[i] + exp(y[i] - y[i+1]) r[i+1]

A reversed scan is the same definition on the reversed axis. An exclusive one is one element behind:
`y[i]` is the result of everything before x[i], and y[0] is what the operation starts from (0, 1,
-inf, inf, -inf). The orders of association are in docs/numerics.md.
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
    Kind,
    Like,
    Namespace,
    Only,
    Op,
    Peer,
    Rule,
    Shape,
    Values,
    after,
    before,
    reads,
    writes,
)
from gradplan.vocabulary import ElementKind, ExtremeKind, OpCategory, ScanKind, Ties

_EXTREMES = {ScanKind.CUMMAX, ScanKind.CUMMIN}
_NEEDS_X = Only(kind=set(ScanKind) - {ScanKind.CUMSUM})
_NEEDS_Y = Only(kind={ScanKind.CUMPROD, ScanKind.LOGCUMSUMEXP})


class _ScanFields(Descriptor):
    kind: Annotated[ScanKind, "the running operation"]
    input_shape: Annotated[Shape, "the shape of every tensor"]
    scan_axis: Annotated[int, AxisOf("input_shape"), "the axis to scan along"]
    reverse: Annotated[bool, "scan from the last element to the first"] = False
    element: Annotated[ElementKind, "the element type"]


class ScanDescriptor(_ScanFields):
    """A scan of `kind` along `scan_axis`."""

    exclusive: Exclusive = False


class ScanBackwardDescriptor(_ScanFields):
    """The gradient of a scan. `ties` says which of equal extremes receives it."""

    ties: Annotated[
        Ties, "which of several equal extremes receives the gradient", Only(kind=_EXTREMES)
    ] = Ties.FIRST
    exclusive: Exclusive = False


class _ExtremeFields(Descriptor):
    kind: Annotated[ExtremeKind, "the running extreme"]
    input_shape: Annotated[Shape, "the shape of every tensor"]
    scan_axis: Annotated[int, AxisOf("input_shape"), "the axis to scan along"]
    reverse: Annotated[bool, "scan from the last element to the first"] = False
    ties: Annotated[Ties, "which of several equal extremes it is"] = Ties.FIRST
    element: Annotated[ElementKind, "the element type"]


class ScanIndicesDescriptor(_ExtremeFields):
    """Where running extremes come from. `ties` says which of equal ones it is."""


class ScanWithIndicesDescriptor(_ExtremeFields):
    """Running extremes, and where they come from. `ties` says which of equal ones that is."""


# Derivatives of the gradients ----------------------------------------------------------------
# "Before" and "after" are meant in the order of the scan.


def _reversed(v: Values) -> dict[str, Any]:
    return {**v, "reverse": not v["reverse"]}


def _from_end(xp: Namespace, b: Any, a: Any, v: Values) -> Any:
    """t[i] = b[i] + a[i+1] t[i+1], any zeros in a: what cumprod's backward is for y = 1."""
    return xp.call("cumprod_backward", **{**v, "dy": b, "x": a, "y": xp.full_like(b, 1.0)})


def _from_start(xp: Namespace, b: Any, a: Any, v: Values) -> Any:
    """t[i] = b[i] + a[i] t[i-1], any zeros in a."""
    return _from_end(xp, b, after(xp, a, v, 1.0), _reversed(v))


class _Product(Rule):
    """dx[i] = y[i-1] r[i] with r[i] = dy[i] + x[i+1] r[i+1]; its derivatives divide by nothing."""

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        # dy[i] = x[i] dy[i-1] + y[i-1] dx[i]
        return _from_start(xp, t["x"] * before(xp, v["y"], v, 1.0), v["x"], v)

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        r = _from_end(xp, v["dy"], v["x"], v)
        return {"x": r * before(xp, tangent, v, 0.0), "y": after(xp, c["x"] * r, v, 0.0)}

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        r = _from_end(xp, v["dy"], v["x"], v)
        change = _from_end(xp, after(xp, t["x"] * r, v, 0.0), v["x"], v)
        return before(xp, v["y"], v, 1.0) * change + before(xp, t["y"], v, 0.0) * r


class _LogSumExp(Rule):
    """dx[j] = sum over i >= j of dy[i] exp(x[j] - y[i])."""

    def _backward(self, xp: Namespace, v: Values, **changed: Any) -> Any:
        return xp.call("logcumsumexp_backward", **{**v, **changed})

    def _weighted(self, xp: Namespace, v: Values, g: Any, x: Any, y: Any) -> Any:
        """g exp(x - y), 0 where x = -inf: the backward along an axis of length 1."""
        g, x, y = (xp.new_axis(z) for z in (g, x, y))
        return xp.first(self._backward(xp, v, dy=g, x=x, y=y, scan_axis=0))

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        # The sum over j <= i of t[j] exp(x[j] - y[i]), by a recurrence with factors of at most 1.
        x, y = v["x"], v["y"]
        one = xp.full_like(y, 1.0)
        factor = self._weighted(xp, v, one, before(xp, y, v, -float("inf")), y)
        return _from_start(xp, self._weighted(xp, v, t["x"], x, y), factor, v)

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Any) -> dict[str, Any]:
        return {"x": c["x"] * self._backward(xp, v), "y": -v["dy"] * tangent}

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Any:
        from_y = self._backward(xp, v, dy=-v["dy"] * t["y"])
        return t["x"] * self._backward(xp, v) + from_y


class _Selection(Rule):
    """Each output is a copy of one element of x, the last record so far: J selects."""

    def __init__(self, scan: str) -> None:
        self.scan = scan

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Any:
        x, axis = xp.stop_gradient(v["x"]), v["scan_axis"]
        y = xp.call(self.scan, **{**v, "x": x})
        previous = before(xp, y, v, 0.0)
        last = v["ties"] == Ties.LAST
        # y is x where x is an extreme so far, an earlier element that is equal included.
        extreme = x == y if last else (x == y) & (x != previous)
        missing = xp.isnan(x) if last else xp.isnan(x) & ~xp.isnan(previous)
        return xp.take_along(t["x"], xp.latest(extreme | missing, axis, v["reverse"]), axis)


# What others call them -----------------------------------------------------------------------


def _torch_peer(name: str) -> Peer:
    def bind(torch: Any, v: Any, out: Any) -> Any:
        function, x, axis = getattr(torch, name), v.x, v.axis
        pair = name in _EXTREMES  # values and indices
        if out is not None:
            into = (out, torch.empty(out.shape, dtype=torch.int64)) if pair else out
            return lambda: function(x, axis, out=into)
        flip = v.reverse and x.ndim > 0

        def call() -> Any:
            result = function(x.flip(axis) if flip else x, axis)
            values = result.values if pair else result
            return values.flip(axis) if flip else values

        return call

    return Peer("torch", f"torch.{name}", bind)


def _jax_peer(name: str) -> Peer:
    def bind(jax: Any, v: Any, out: Any) -> Any:
        function = getattr(jax.lax, name)
        return lambda: function(v.x, v.axis % max(v.x.ndim, 1), v.reverse)

    return Peer("jax", f"jax.lax.{name}", bind)


def _shifted(torch: Any, y: Any, dim: int, kind: ScanKind) -> Any:
    """The exclusive scan of integers, from the inclusive one: the least and the largest number are
    the infinities of integers."""
    limits = torch.iinfo(y.dtype)
    start = {ScanKind.CUMPROD: 1, ScanKind.CUMMAX: limits.min, ScanKind.CUMMIN: limits.max}
    if y.ndim == 0:
        return torch.full_like(y, start.get(kind, 0))
    moved = y.roll(1, dim)
    moved.narrow(dim, 0, min(1, y.shape[dim])).fill_(start.get(kind, 0))
    return moved


def _other_elements(name: str) -> Any:
    """PyTorch's own; for integers, whose sums have no rounding to agree about."""

    def scan(
        torch: Any,
        x: Any,
        dim: int,
        reverse: bool,
        exclusive: bool,
        return_indices: bool = False,
    ) -> Any:
        if x.dtype.is_complex or (exclusive and x.dtype is torch.bool):
            return NotImplemented
        flip = reverse and x.ndim > 0
        result = getattr(torch, name)(x.flip(dim) if flip else x, dim)
        values, indices = (result, None) if isinstance(result, torch.Tensor) else result
        if exclusive:
            values = _shifted(torch, values, dim, ScanKind(name))
        if flip:
            values = values.flip(dim)
            indices = None if indices is None else x.shape[dim] - 1 - indices.flip(dim)
        return (values, indices) if return_indices else values

    return scan


def _function(
    kind: ScanKind,
    doc: str,
    *,
    torch: str = "",
    jax: str = "",
    jax_name: str = "",
    rule: Rule | None = None,
    figures: tuple[Figure, ...] = (),
) -> Function:
    """A scan, with docstrings for the bridges."""
    extreme = kind in _EXTREMES
    more = ", return_indices=True" if extreme else ""
    takes_dtype = kind in (ScanKind.CUMSUM, ScanKind.CUMPROD)
    jax_name = jax_name or kind.value
    jax_arguments = "operand, axis=0, reverse=False, *, exclusive=False"
    return Function(
        kind.value,
        doc,
        fixed={"kind": kind},
        rule=rule,
        torch=Like(
            f"torch.{kind}",
            arguments="x, dim, reverse=False, *, exclusive=False"
            + (", dtype=None" if takes_dtype else more),
            doc=torch,
            defaults={"ties": "last"} if extreme else {},
            adds={"return_indices": f"{kind}_with_indices"} if extreme else {},
            float32_under_autocast=takes_dtype,
            other_elements=_other_elements(kind.value),
        ),
        jax=Like(
            f"jax.lax.{jax_name}",
            name=jax_name,
            aliases=() if jax_name == kind.value else (kind.value,),
            arguments=jax_arguments + (", ties='first'" if extreme else ""),
            names={"operand": "x"},
            doc=jax,
            differs="one of equal extremes receives the gradient, not all" if extreme else "",
        ),
        peers=(_torch_peer(kind.value), _jax_peer(jax_name)),
        figures=figures,
        near_one=kind is ScanKind.CUMPROD,
        beside_other_work=kind is ScanKind.CUMSUM,
    )


def _gradient(kind: ScanKind, doc: str, figures: tuple[Figure, ...] = ()) -> Function:
    return Function(
        f"{kind}_backward",
        doc,
        fixed={"kind": kind},
        figures=figures,
        near_one=kind is ScanKind.CUMPROD,
    )


_PLAIN = (Figure("square", 0.75, "torch", 5), Figure("columns", 0.60, "torch", 10))

SCAN = Op(
    ScanDescriptor,
    OpCategory.SCAN,
    "A running sum, product, maximum, minimum or log-sum-exp along an axis.",
    tensors=(
        reads("x", "input_shape", doc="what is scanned"),
        writes(
            "y", "input_shape", doc="the running result", inplace=("x",), inplace_when=INCLUSIVE
        ),
    ),
    functions=(
        _function(
            ScanKind.CUMSUM,
            """Running sum along an axis.

            >>> gp.cumsum(np.float32([1, 2, 3]))
            array([1., 3., 6.], dtype=float32)
            >>> gp.cumsum(np.float32([1, 2, 3]), reverse=True)
            array([6., 5., 3.], dtype=float32)
            >>> gp.cumsum(np.float32([1, 2, 3]), exclusive=True)
            array([0., 1., 3.], dtype=float32)
            """,
            torch="""Running sum along `dim`; from the end with `reverse`.

            >>> cumsum(torch.tensor([1.0, 2.0, 3.0]), 0)
            tensor([1., 3., 6.])
            >>> cumsum(torch.tensor([1, 2, 3]), 0, reverse=True)
            tensor([6, 5, 3])
            >>> cumsum(torch.tensor([1.0, 2.0, 3.0]), 0, exclusive=True)
            tensor([0., 1., 3.])
            """,
            jax="""Running sum along an axis, as `jax.lax.cumsum`.

            >>> cumsum(jnp.float32([1, 2, 3]), reverse=True)
            Array([6., 5., 3.], dtype=float32)
            """,
            figures=(*_PLAIN, Figure("one_row", 0.60, "torch", 2)),
        ),
        _function(
            ScanKind.CUMPROD,
            """Running product along an axis.

            >>> gp.cumprod(np.float32([[1, 2], [3, 4]]), axis=0)
            array([[1., 2.],
                   [3., 8.]], dtype=float32)
            """,
            torch="""Running product along `dim`; gradients of any order are right with zeros in x.

            >>> x = torch.tensor([2.0, 0.0, 5.0], requires_grad=True)
            >>> cumprod(x, 0).sum().backward()
            >>> x.grad
            tensor([ 1., 12.,  0.])
            """,
            jax="""Running product, as `jax.lax.cumprod`. Gradients are right with zeros.

            >>> cumprod(jnp.float32([[1, 2], [3, 4]]))
            Array([[1., 2.],
                   [3., 8.]], dtype=float32)
            """,
            rule=Exclusively(_Product(), 1.0),
            figures=_PLAIN,
        ),
        _function(
            ScanKind.CUMMAX,
            """Running maximum along an axis. NaN sticks once seen.

            >>> gp.cummax(np.float32([1, 3, 2, 4]))
            array([1., 3., 3., 4.], dtype=float32)
            """,
            torch="""Running maximum along `dim`, and where it comes from.

            >>> values, indices = cummax(torch.tensor([1.0, 3.0, 2.0, 4.0]), 0)
            >>> values, indices
            (tensor([1., 3., 3., 4.]), tensor([0, 1, 1, 3]))
            >>> cummax(torch.tensor([1.0, 3.0, 2.0, 4.0]), 0, return_indices=False)
            tensor([1., 3., 3., 4.])
            """,
            jax="""Running maximum along an axis, as `jax.lax.cummax`.

            Of equal maxima the first one (or the last, as `ties` says) receives the whole gradient;
            JAX shares it out.

            >>> cummax(jnp.float32([1, 3, 2, 4]))
            Array([1., 3., 3., 4.], dtype=float32)
            >>> jax.grad(lambda x: cummax(x).sum())(jnp.float32([1, 3, 3, 2]))
            Array([1., 3., 0., 0.], dtype=float32)
            """,
            rule=Exclusively(_Selection("cummax"), 0.0),
            figures=_PLAIN,
        ),
        _function(
            ScanKind.CUMMIN,
            """Running minimum along an axis. NaN sticks once seen.

            >>> gp.cummin(np.float32([3, 1, 2, 0]))
            array([3., 1., 1., 0.], dtype=float32)
            """,
            torch="""Running minimum along `dim`, and where it comes from.

            >>> cummin(torch.tensor([3.0, 1.0, 2.0, 0.0]), 0).indices
            tensor([0, 1, 1, 3])
            """,
            jax="""Running minimum along an axis, as `jax.lax.cummin`; `ties` as for `cummax`.

            >>> cummin(jnp.float32([3, 1, 2, 0]))
            Array([3., 1., 1., 0.], dtype=float32)
            """,
            rule=Exclusively(_Selection("cummin"), 0.0),
        ),
        _function(
            ScanKind.LOGCUMSUMEXP,
            """Logarithm of the running sum of exponentials, without overflow.

            >>> gp.logcumsumexp(np.float64([-np.inf, 1000.0, -np.inf]))
            array([ -inf, 1000., 1000.])
            """,
            torch="""Logarithm of the running sum of exponentials along `dim`.

            >>> logcumsumexp(torch.tensor([-torch.inf, 1000.0, -torch.inf]), 0)
            tensor([ -inf, 1000., 1000.])
            """,
            jax="""Logarithm of the running sum of exponentials, as `jax.lax.cumlogsumexp`.

            >>> cumlogsumexp(jnp.float32([-jnp.inf, 1000, -jnp.inf]))
            Array([ -inf, 1000., 1000.], dtype=float32)
            """,
            jax_name="cumlogsumexp",
            rule=Exclusively(_LogSumExp(), float("inf")),
            figures=(Figure("square", 0.25, "torch", 10),),
        ),
    ),
    gradient=Gradient("scan_backward", cotangents={"dy": "y"}, grads={"dx": "x"}),
)

SCAN_BACKWARD = Op(
    ScanBackwardDescriptor,
    OpCategory.SCAN,
    "The gradient of a scan with respect to its input.",
    tensors=(
        reads("dy", "input_shape", doc="the gradient of the scan's output"),
        reads("x", "input_shape", doc="the scan's input", when=_NEEDS_X),
        reads("y", "input_shape", doc="the scan's output", when=_NEEDS_Y),
        writes(
            "dx",
            "input_shape",
            doc="the gradient of the scan's input",
            inplace=("dy",),
            inplace_when=INCLUSIVE,
        ),
    ),
    functions=(
        _gradient(
            ScanKind.CUMSUM,
            """Gradient of `cumsum`: the sum of dy in the other direction.

            >>> gp.cumsum_backward(np.float32([1, 2, 3]))
            array([6., 5., 3.], dtype=float32)
            """,
            figures=(Figure("square", 0.75, "torch", 5),),
        ),
        _gradient(
            ScanKind.CUMPROD,
            """Gradient of `cumprod`; right with zeros in x, and no NaN where y overflows.

            >>> x = np.float32([2, 0, 5])
            >>> gp.cumprod_backward(np.ones_like(x), x, gp.cumprod(x))
            array([ 1., 12.,  0.], dtype=float32)
            """,
            figures=(Figure("square", 0.55, "torch", 10),),
        ),
        _gradient(
            ScanKind.CUMMAX,
            """Gradient of `cummax`: dy goes to the element that was the maximum.

            >>> x = np.float32([1, 3, 3, 2])
            >>> gp.cummax_backward(np.float32([1, 1, 1, 1]), x)
            array([1., 3., 0., 0.], dtype=float32)
            >>> gp.cummax_backward(np.float32([1, 1, 1, 1]), x, ties="last")
            array([1., 1., 2., 0.], dtype=float32)
            """,
            figures=(Figure("square", 0.55, "torch", 3),),
        ),
        _gradient(
            ScanKind.CUMMIN,
            """Gradient of `cummin`: dy goes to the element that was the minimum.

            >>> gp.cummin_backward(np.float32([1, 1, 1]), np.float32([2, 1, 3]))
            array([1., 2., 0.], dtype=float32)
            """,
        ),
        _gradient(
            ScanKind.LOGCUMSUMEXP,
            """Gradient of `logcumsumexp`.

            >>> x = np.float64([0, 0])
            >>> gp.logcumsumexp_backward(np.float64([0, 1]), x, gp.logcumsumexp(x))
            array([0.5, 0.5])
            """,
            figures=(Figure("square", 0.30, "torch", 30),),
        ),
    ),
)


_INDICES = writes(
    "indices",
    "input_shape",
    kind=Kind.INDEX,
    into="scan_axis",
    doc="positions along the axis, counted from its beginning",
)


def _positions(kind: ExtremeKind, doc: str, figures: tuple[Figure, ...] = ()) -> Function:
    def bind(torch: Any, v: Any, out: Any) -> Any:
        function, x, axis = getattr(torch, kind.value), v.x, v.axis
        return lambda: function(x, axis).indices

    # PyTorch's function gives them together with the values.
    peer = Peer("torch", f"torch.{kind}(...).indices", bind)
    return Function(
        f"{kind}_indices",
        doc,
        fixed={"kind": kind},
        torch=None,
        part_of=f"{kind}_with_indices",
        peers=(peer,),
        figures=figures,
    )


SCAN_INDICES = Op(
    ScanIndicesDescriptor,
    OpCategory.SCAN,
    "Where a running maximum or minimum along an axis comes from.",
    tensors=(reads("x", "input_shape", doc="what is scanned"), _INDICES),
    functions=(
        _positions(
            ExtremeKind.CUMMAX,
            """Where the running maximum comes from, along an axis; `ties` as in its gradient.

            >>> x = np.float32([1, 3, 2, 3])
            >>> gp.cummax_indices(x)
            array([0, 1, 1, 1])
            >>> gp.cummax_indices(x, ties="last")
            array([0, 1, 1, 3])
            """,
            figures=(Figure("square", 0.30, "torch", 4), Figure("columns", 0.30, "torch", 10)),
        ),
        _positions(
            ExtremeKind.CUMMIN,
            """Where the running minimum comes from, along an axis; `ties` as in its gradient.

            >>> gp.cummin_indices(np.float32([3, 1, 2, 0]), reverse=True)
            array([3, 3, 3, 3])
            """,
        ),
    ),
)


def _pair(kind: ExtremeKind, doc: str, figures: tuple[Figure, ...] = ()) -> Function:
    def bind(torch: Any, v: Any, out: Any) -> Any:
        function, x, axis = getattr(torch, kind.value), v.x, v.axis
        return lambda: function(x, axis)

    return Function(
        f"{kind}_with_indices",
        doc,
        fixed={"kind": kind},
        rule=_Selection(kind.value),
        torch=None,
        peers=(Peer("torch", f"torch.{kind}", bind),),
        figures=figures,
    )


SCAN_WITH_INDICES = Op(
    ScanWithIndicesDescriptor,
    OpCategory.SCAN,
    "A running maximum or minimum along an axis, and where it comes from.",
    tensors=(
        reads("x", "input_shape", doc="what is scanned"),
        writes("y", "input_shape", doc="the running extreme", inplace=("x",)),
        _INDICES,
    ),
    functions=(
        _pair(
            ExtremeKind.CUMMAX,
            """Running maximum along an axis, and where it comes from: `cummax`, `cummax_indices`.

            >>> gp.cummax_with_indices(np.float32([1, 3, 2, 3]))
            (array([1., 3., 3., 3.], dtype=float32), array([0, 1, 1, 1]))
            """,
            figures=(Figure("square", 0.40, "torch", 4), Figure("columns", 0.40, "torch", 10)),
        ),
        _pair(
            ExtremeKind.CUMMIN,
            """Running minimum along an axis, and where it comes from: `cummin`, `cummin_indices`.

            >>> gp.cummin_with_indices(np.float32([3, 1, 2, 0]))
            (array([3., 1., 1., 0.], dtype=float32), array([0, 1, 1, 3]))
            """,
        ),
    ),
    gradient=Gradient("scan_backward", cotangents={"dy": "y"}, grads={"dx": "x"}),
)
