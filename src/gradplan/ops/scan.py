"""Scans along an axis, and their gradients.

With `o` one of +, x, max, min and logaddexp, a scan computes `y[i] = x[0] o x[1] o ... o x[i]`
along one axis. The gradients, for a cotangent g of y:

    cumsum         dx[i] = g[i] + g[i+1] + ...
    cumprod        dx[i] = y[i-1] t[i],  t[i] = g[i] + x[i+1] t[i+1]   (no division: zeros are fine)
    cummax, cummin dx[i] = sum of g over the outputs that took their value from x[i]
    logcumsumexp   dx[i] = r[i] exp(x[i] - y[i]),  r[i] = g[i] + exp(y[i] - y[i+1]) r[i+1]

A reversed scan is the same definition on the reversed axis. The orders of association are in
docs/numerics.md.
"""

from __future__ import annotations

from typing import Annotated

from gradplan.descriptor import AxisOf, Descriptor, Only, Shape
from gradplan.spec import Function, Gradient, Op, reads, writes
from gradplan.vocabulary import ElementKind, OpCategory, ScanKind, Ties

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


class ScanBackwardDescriptor(_ScanFields):
    """The gradient of a scan. `ties` says which of equal extremes receives it."""

    ties: Annotated[
        Ties, "which of several equal extremes receives the gradient", Only(kind=_EXTREMES)
    ] = Ties.FIRST


def _function(kind: ScanKind, doc: str, suffix: str = "") -> Function:
    return Function(kind.value + suffix, doc, fixed={"kind": kind})


SCAN = Op(
    ScanDescriptor,
    OpCategory.SCAN,
    "A running sum, product, maximum, minimum or log-sum-exp along an axis.",
    tensors=(
        reads("x", "input_shape", doc="what is scanned"),
        writes("y", "input_shape", doc="the running result", inplace=("x",)),
    ),
    functions=(
        _function(
            ScanKind.CUMSUM,
            """Running sum along an axis.

            >>> gp.cumsum(np.float32([1, 2, 3]))
            array([1., 3., 6.], dtype=float32)
            >>> gp.cumsum(np.float32([1, 2, 3]), reverse=True)
            array([6., 5., 3.], dtype=float32)
            """,
        ),
        _function(
            ScanKind.CUMPROD,
            """Running product along an axis.

            >>> gp.cumprod(np.float32([[1, 2], [3, 4]]), axis=0)
            array([[1., 2.],
                   [3., 8.]], dtype=float32)
            """,
        ),
        _function(
            ScanKind.CUMMAX,
            """Running maximum along an axis. NaN sticks once seen.

            >>> gp.cummax(np.float32([1, 3, 2, 4]))
            array([1., 3., 3., 4.], dtype=float32)
            """,
        ),
        _function(
            ScanKind.CUMMIN,
            """Running minimum along an axis. NaN sticks once seen.

            >>> gp.cummin(np.float32([3, 1, 2, 0]))
            array([3., 1., 1., 0.], dtype=float32)
            """,
        ),
        _function(
            ScanKind.LOGCUMSUMEXP,
            """Logarithm of the running sum of exponentials, without overflow.

            >>> gp.logcumsumexp(np.float64([-np.inf, 1000.0, -np.inf]))
            array([ -inf, 1000., 1000.])
            """,
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
        writes("dx", "input_shape", doc="the gradient of the scan's input", inplace=("dy",)),
    ),
    functions=(
        _function(
            ScanKind.CUMSUM,
            """Gradient of `cumsum`: the sum of dy in the other direction.

            >>> gp.cumsum_backward(np.float32([1, 2, 3]))
            array([6., 5., 3.], dtype=float32)
            """,
            "_backward",
        ),
        _function(
            ScanKind.CUMPROD,
            """Gradient of `cumprod`; right with any number of zeros in x.

            >>> x = np.float32([2, 0, 5])
            >>> gp.cumprod_backward(np.ones_like(x), x, gp.cumprod(x))
            array([ 1., 12.,  0.], dtype=float32)
            """,
            "_backward",
        ),
        _function(
            ScanKind.CUMMAX,
            """Gradient of `cummax`: dy goes to the element that was the maximum.

            >>> x = np.float32([1, 3, 3, 2])
            >>> gp.cummax_backward(np.float32([1, 1, 1, 1]), x)
            array([1., 3., 0., 0.], dtype=float32)
            >>> gp.cummax_backward(np.float32([1, 1, 1, 1]), x, ties="last")
            array([1., 1., 2., 0.], dtype=float32)
            """,
            "_backward",
        ),
        _function(
            ScanKind.CUMMIN,
            """Gradient of `cummin`: dy goes to the element that was the minimum.

            >>> gp.cummin_backward(np.float32([1, 1, 1]), np.float32([2, 1, 3]))
            array([1., 2., 0.], dtype=float32)
            """,
            "_backward",
        ),
        _function(
            ScanKind.LOGCUMSUMEXP,
            """Gradient of `logcumsumexp`.

            >>> x = np.float64([0, 0])
            >>> gp.logcumsumexp_backward(np.float64([0, 1]), x, gp.logcumsumexp(x))
            array([0.5, 0.5])
            """,
            "_backward",
        ),
    ),
)
