"""Loading, storing and laying out: the rules of arithmetic that every operation shares."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gradplan.vocabulary import FLOATS, ElementKind, InvalidProblem

Array: TypeAlias = npt.NDArray[Any]

# Overflow, invalid operations and underflow have defined results here, so they are no events. A
# decorator: NumPy's error state belongs to the caller and is restored.
quiet = np.errstate(all="ignore")


def compute_type(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """The type that arithmetic on elements of `dtype` runs in.

    >>> compute_type(np.float16)
    dtype('float32')
    """
    element = ElementKind.from_dtype_name(np.dtype(dtype).name)
    if element not in FLOATS:
        raise InvalidProblem(f"expected a floating-point element type; got {np.dtype(dtype).name}")
    return element.compute.dtype


def load(x: Array) -> Array:
    """A fresh array of the compute type; exact."""
    return np.array(x, dtype=compute_type(x.dtype))


def store(values: Array, dtype: npt.DTypeLike) -> Array:
    """Round once, to nearest even, to the element type; a NaN becomes the canonical one.

    >>> store(np.array([1.0, -np.nan], np.float32), np.float16).view(np.uint16).tolist()
    [15360, 32256]
    """
    values = np.asarray(values)
    out = values.astype(dtype)
    missing = np.isnan(values)
    if missing.any():  # never in positions, which are integers
        out[missing] = np.nan
    return out


def multiply(a: Array, b: Array) -> Array:
    """The product where factors are multiplied along a row; zero times an infinity is 0.

    An infinity is then a product that overflowed, and the zero is what the row really holds.

    >>> multiply(np.array([0.0, np.nan]), np.array([-np.inf, 0.0])).tolist()
    [0.0, nan]
    """
    product = a * b
    return np.where(np.isnan(product) & ~np.isnan(a) & ~np.isnan(b), 0.0, product)


def to_rows(x: Array, axis: int, reverse: bool = False) -> Array:
    """The lines of `x` along `axis` as a fresh `[rows, n]` array of the compute type.

    A reversed axis is reversed here, so nothing behind this function knows about directions. A
    0-d array is one row of length 1.
    """
    moved = np.moveaxis(np.atleast_1d(x), axis, -1)
    if reverse:
        moved = moved[..., ::-1]
    return np.ascontiguousarray(load(moved)).reshape(math.prod(moved.shape[:-1]), moved.shape[-1])


def from_rows(rows: Array, like: Array, axis: int, reverse: bool = False) -> Array:
    """The inverse of `to_rows`: the shape and the element type of `like` again."""
    out = rows.reshape(np.moveaxis(np.atleast_1d(like), axis, -1).shape)
    if reverse:
        out = out[..., ::-1]
    return store(np.moveaxis(out, -1, axis).reshape(like.shape), like.dtype)


def padded(rows: Array, n: int) -> Array:
    """Rows of length n, with zeros behind what there is."""
    out = np.zeros((len(rows), n), rows.dtype)
    out[:, : rows.shape[1]] = rows
    return out


def before(rows: Array, first: float | bool) -> Array:
    """Each element's predecessor in its row, and `first` for the first element.

    >>> before(np.array([[1.0, 2.0, 3.0]]), 0.0).tolist()
    [[0.0, 1.0, 2.0]]
    """
    out = np.full_like(rows, first)
    out[:, 1:] = rows[:, :-1]
    return out
