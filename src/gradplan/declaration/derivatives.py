"""Derivatives of gradients: what a declaration says once for PyTorch and JAX.

The Jacobian J of a forward op maps tangents of its inputs to tangents of its outputs, and its
backward op applies the transpose of J to cotangents. A forward op whose backward reads nothing but
cotangents and indices that the forward was given is linear: it is its own tangent, and needs no
rule. For every other function a `Rule` says the rest, in formulas over a `Namespace`: our own
functions, arithmetic, and a few ways to look along an axis. Every formula is made of what has
derivatives itself, so any order works.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Array = Any
Values = Mapping[str, Any]


class Namespace(Protocol):
    """Arrays of one framework. +, -, * and comparisons are the arrays' own."""

    def call(self, function: str, **values: Any) -> Any:
        """A function of gradplan, with tensors and options under the declaration's names.

        Of options that it does not take nothing is said; those that are missing have defaults.
        """

    def where(self, condition: Array, a: Any, b: Any) -> Array: ...

    def full_like(self, x: Array, value: float) -> Array: ...

    def isnan(self, x: Array) -> Array: ...

    def stop_gradient(self, x: Array) -> Array:
        """`x`, without derivatives."""

    def new_axis(self, x: Array) -> Array:
        """`x[None]`: a first axis of length 1."""

    def first(self, x: Array) -> Array:
        """`x[0]`."""

    def shift(self, x: Array, axis: int, by: int, fill: float | Array) -> Array:
        """`x[i - by]` at i along an axis, `fill` where there is none; `by` is 1 or -1.

        `fill` is a number, or an array without the axis.
        """

    def edge(self, x: Array, axis: int, last: bool) -> Array:
        """The first element along an axis, or the last; without the axis, 0 if there is none."""

    def latest(self, mask: Array, axis: int, reverse: bool) -> Array:
        """The position of the last true element up to each one; from the end with `reverse`.

        The element that is first in that order counts as true.
        """

    def order(self, ids: Array) -> Array:
        """The positions that sort `ids`, stably."""

    def rows(self, x: Array, positions: Array) -> Array:
        """`x[positions]`."""

    def segment_ids(self, indptr: Array, rows: int) -> Array:
        """For each of so many rows the segment whose pointers it is between; for rows before the
        first and behind the last pointer no segment's id."""

    def take_along(self, x: Array, positions: Array, axis: int) -> Array:
        """`x[..., positions[..., i], ...]` along an axis."""


class Rule:
    """The derivatives of one function; by default J is constant almost everywhere.

    `v` has the values of the backward op by name: cotangents, saved tensors and options. An
    optional input that a call does without is None there. Saved outputs that have no cotangent,
    such as a statistic, have no tangent either: a rule derives through them as functions of the
    inputs.
    """

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Array:
        """J t, for tangents `t` of the forward's inputs by name.

        Of several outputs with cotangents it is a mapping by their names.
        """
        raise NotImplementedError

    def pull_saved(self, xp: Namespace, v: Values, c: Values, tangent: Array) -> dict[str, Array]:
        """Gradients of the saved tensors, for the gradient `c` of the backward's results.

        `c` goes by the names of the forward's inputs; `tangent` is J c.
        """
        return {}

    def push_saved(self, xp: Namespace, v: Values, t: Values) -> Array | None:
        """The tangent of the backward's result for tangents `t` of the saved tensors, None for 0.

        It must be linear in `t`. Of several results it is a mapping by the names of the forward's
        inputs; one that is missing there is 0.
        """
        return None


class Symmetric(Rule):
    """J is its own transpose: the backward, with the tangent in place of the cotangent."""

    def __init__(self, backward: str, cotangent: str) -> None:
        self.backward = backward
        self.cotangent = cotangent

    def tangent(self, xp: Namespace, v: Values, t: Values) -> Array:
        (tangent,) = t.values()
        return xp.call(self.backward, **{**v, self.cotangent: tangent})
