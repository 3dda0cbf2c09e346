"""What the operations mean, by their textbook definitions in higher precision.

Shares no code with gradplan: long doubles, exact fractions and `math.fsum`, in whatever order is
shortest to write. Every accuracy function returns the result and the *magnitude* that errors are
measured against, the sum of the absolute values of the terms: a result that cancels to zero has no
meaningful relative error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Exact: TypeAlias = tuple[Array, Array]  # result, magnitude
Wide = np.longdouble
_finfo: Callable[[Any], Any] = ml_dtypes.finfo  # NumPy's own does not know bfloat16


# --- bounds ---------------------------------------------------------------------------------------


def roundoff(dtype: npt.DTypeLike) -> float:
    """The largest relative error of one rounding: half an ulp."""
    return float(_finfo(np.dtype(dtype)).eps) / 2


def compute_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    return np.result_type(np.dtype(dtype), np.float32)


def scan_depth(n: int) -> int:
    """Roundings that a term of a scan goes through: 16 per level, and one per chunk of 4096."""
    return min(n, 3 * 16 + -(-n // 4096))


def recurrence_depth(n: int) -> int:
    """Multiply-adds that a term of a recurrence goes through."""
    return min(n, 256 + 16 + -(-n // 4096))


def segment_depth(members: int) -> int:
    return min(members, 256) + -(-members // 256)


def lane_depth(n: int) -> int:
    return -(-n // 16) + 4


def allowed(exact: Array, magnitude: Array, depth: float, dtype: npt.DTypeLike) -> Array:
    """The error that `depth` roundings in the compute type and one store can make.

    The long double's own roundings are counted too: on some platforms it is a double.
    """
    compute = compute_dtype(dtype)
    unit = roundoff(compute) + (roundoff(np.longdouble) if compute == np.float64 else 0)
    growth = math.expm1(depth * unit)  # (1 + u)^depth - 1
    error = growth * magnitude
    tiny = float(_finfo(np.dtype(dtype)).smallest_subnormal)
    return error + roundoff(dtype) * (np.abs(exact) + error) + tiny


def assert_close(got: Array, exact: Exact, depth: float) -> None:
    """Every element within its bound; infinities and NaN where the definition has them."""
    want, magnitude = exact
    actual = got.astype(Wide)
    assert actual.shape == want.shape
    finite = np.isfinite(want)
    np.testing.assert_array_equal(actual[~finite], want[~finite])
    error = np.abs(actual[finite] - want[finite])
    bound = allowed(want[finite], magnitude[finite], depth, got.dtype)
    if not (error <= bound).all():  # NaN fails too
        worst = int(np.argmax(np.where(np.isnan(error), np.inf, error / bound)))
        raise AssertionError(
            f"error {error[worst]:.3e} exceeds the bound {bound[worst]:.3e} at finite element "
            f"{worst}: {actual[finite][worst]!r} instead of {want[finite][worst]!r}"
        )


# --- lines ----------------------------------------------------------------------------------------


def along(
    function: Callable[..., Exact], *tensors: Array, axis: int, reverse: bool = False
) -> Exact:
    """Apply `function` to every line of the tensors along `axis`."""
    step = -1 if reverse else 1
    wide = [np.moveaxis(tensor.astype(Wide), axis, -1)[..., ::step] for tensor in tensors]
    result, magnitude = np.empty_like(wide[0]), np.empty_like(wide[0])
    for line in np.ndindex(wide[0].shape[:-1]):
        result[line], magnitude[line] = function(*(tensor[line] for tensor in wide))
    return (
        np.moveaxis(result[..., ::step], -1, axis),
        np.moveaxis(magnitude[..., ::step], -1, axis),
    )


def scan(kind: str) -> Callable[[Array], Exact]:
    return {
        "cumsum": cumsum,
        "cumprod": cumprod,
        "cummax": lambda x: running_extreme(x, lambda new, old: new > old),
        "cummin": lambda x: running_extreme(x, lambda new, old: new < old),
        "logcumsumexp": logcumsumexp,
    }[kind]


def cumsum(x: Array) -> Exact:
    return np.add.accumulate(x), np.add.accumulate(np.abs(x))


def cumprod(x: Array) -> Exact:
    y = np.multiply.accumulate(x)
    return y, np.abs(y)


def running_extreme(x: Array, beats: Callable[[Any, Any], bool]) -> Exact:
    y = x.copy()
    for i in range(1, len(x)):
        if math.isnan(y[i - 1]) or not (math.isnan(x[i]) or beats(x[i], y[i - 1])):
            y[i] = y[i - 1]
    return y, np.zeros_like(y)


def logcumsumexp(x: Array) -> Exact:
    """Errors of the sum are relative, so absolute for its logarithm: one unit each."""
    y = np.logaddexp.accumulate(x)
    return y, np.abs(y) + np.abs(np.maximum.accumulate(x)) + 1


def cumsum_backward(dy: Array) -> Exact:
    n = len(dy)
    terms = [dy[i:] for i in range(n)]
    return _sums(terms)


def cumprod_backward(dy: Array, x: Array) -> Exact:
    """dx[k] is the sum over i >= k of dy[i] times the product of x[0..i] without x[k]."""
    terms = []
    for k in range(len(x)):
        without = x.copy()
        without[k] = 1
        terms.append(np.multiply.accumulate(without)[k:] * dy[k:])
    return _sums(terms)


def extreme_backward(dy: Array, x: Array, *, kind: str, ties: str) -> Exact:
    """dy[i] goes to where the extreme of x[0..i] stands, NaN counting as more than anything."""
    sign = 1 if kind == "cummax" else -1
    terms: list[list[Any]] = [[] for _ in x]
    for i in range(len(x)):
        prefix = sign * x[: i + 1]
        prefix[np.isnan(prefix)] = np.inf  # the callers' rows hold no infinities beside NaN
        best = prefix.max()
        places = np.flatnonzero(prefix == best)
        terms[places[0] if ties == "first" else places[-1]].append(dy[i])
    return _sums([np.array(term, Wide) for term in terms])


def logcumsumexp_backward(dy: Array, x: Array, y: Array) -> Exact:
    """dx[k] is the sum over i >= k of dy[i] exp(x[k] - y[i])."""
    terms = []
    for k in range(len(x)):
        empty = np.isneginf(x[k])
        terms.append(dy[k:] * (0 if empty else np.exp(x[k] - y[k:])))
    return _sums(terms)


def linear_scan(a: Array, b: Array, initial: Any) -> Exact:
    """h[t] is b[t] and every earlier term times the factors since; `initial` is one before b[0]."""
    h, size = np.empty_like(b), np.empty_like(b)
    last, reach = Wide(initial), abs(Wide(initial))
    for t in range(len(b)):
        last, reach = a[t] * last + b[t], abs(a[t]) * reach + abs(b[t])
        h[t], size[t] = last, reach
    return h, size


def sparsemax(x: Array) -> Exact:
    """By sorting: the largest k with 1 + k z[k] > z[1] + ... + z[k]. Errors are absolute."""
    if not len(x) or np.isnan(x).any() or not np.isfinite(x.max()):
        return np.full_like(x, np.nan), np.ones_like(x)
    z = x - x.max()
    ordered = np.sort(z)[::-1]
    finite = ordered[np.isfinite(ordered)]
    totals = np.add.accumulate(finite)
    k = int(np.flatnonzero(1 + np.arange(1, len(finite) + 1) * finite > totals)[-1]) + 1
    return np.maximum(z - (totals[k - 1] - 1) / k, 0), np.ones_like(x)


def sparsemax_backward(dy: Array, y: Array) -> Exact:
    support = y > 0
    if not support.any():
        return np.zeros_like(dy), np.zeros_like(dy)
    mean, magnitude = dy[support].mean(), np.abs(dy[support]).mean()
    return np.where(support, dy - mean, 0), np.where(support, np.abs(dy) + magnitude, 0)


def _sums(terms: list[Array]) -> Exact:
    """The sum of each list of terms: in long double, whose error is below every bound here."""
    return (
        np.array([term.sum() for term in terms], Wide),
        np.array([np.abs(term).sum() for term in terms], Wide),
    )


# --- everything else ------------------------------------------------------------------------------


def segment_sum(values: Array, ids: Array, count: int, skip: int | None = None) -> Exact:
    """Exactly rounded sums of the rows with each id, column by column; `skip` is one id to drop."""
    rows = values.astype(np.float64)
    result = np.zeros((count, *rows.shape[1:]), Wide)
    magnitude = np.zeros_like(result)
    for segment in set(range(count)) - {skip}:
        members = rows[ids == segment]
        for column in np.ndindex(rows.shape[1:]):
            line = members[(slice(None), *column)]
            result[(segment, *column)] = math.fsum(line)
            magnitude[(segment, *column)] = math.fsum(np.abs(line))
    return result, magnitude


def lerp(a: Array, b: Array, weight: float) -> Exact:
    """a + w (b - a) in exact fractions, w rounded to the compute type of `a`."""
    w = Fraction(float(compute_dtype(a.dtype).type(weight)))
    pairs = [(Fraction(float(p)), Fraction(float(q))) for p, q in zip(a.flat, b.flat, strict=True)]
    scale = abs(w) + abs(1 - w)
    result = np.array([float(p + w * (q - p)) for p, q in pairs], Wide)
    magnitude = np.array([float((abs(p) + abs(q)) * scale) for p, q in pairs], Wide)
    return result.reshape(a.shape), magnitude.reshape(a.shape)
