"""The functions of gradplan.jax with arguments, for the tests of the bridge."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from peers import peer_of

import gradplan as gp


@dataclasses.dataclass(frozen=True)
class Case:
    """One function: `ours` of the bridge, `plain` of gradplan, and JAX's own where it has one.

    Each takes the float arguments alone; `backward` takes the cotangent, these arguments and the
    result, and gives their gradients.
    """

    name: str
    ours: Callable[..., Any]
    plain: Callable[..., Any]
    backward: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    peer: Callable[..., Any] | None = None

    def __str__(self) -> str:
        return self.name

    def arguments(self, kind: gp.ElementKind, seed: int = 0) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [rng.normal(size=shape).astype(kind.dtype) for shape in self.shapes]


def _backward(name: str, **options: Any) -> Callable[..., Any]:
    """The gradient from the function layer, given what it saves."""
    function = getattr(gp, name + "_backward")
    saved = {
        "cumsum": lambda x, y: (),
        "cumprod": lambda x, y: (x, y),
        "cummax": lambda x, y: (x,),
        "cummin": lambda x, y: (x,),
        "logcumsumexp": lambda x, y: (x, y),
        "sparsemax": lambda x, y: (y,),
    }[name]
    return lambda g, x, y: [function(g, *saved(x, y), **options)]


SCANS = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")


def scan_case(name: str, shape: tuple[int, ...], axis: int, reverse: bool = False) -> Case:

    import gradplan.jax as gpj

    plain = {"cumlogsumexp": "logcumsumexp"}.get(name, name)
    options: dict[str, Any] = {"axis": axis, "reverse": reverse}
    return Case(
        f"{name}-{shape}-{axis}{'-reverse' if reverse else ''}",
        lambda x: getattr(gpj, name)(x, axis, reverse),
        lambda x: getattr(gp, plain)(x, **options),
        _backward(plain, **options),
        (shape,),
        peer_of("jax", plain, axis=axis, reverse=reverse),
    )


def linear_scan_case(shape: tuple[int, ...], axis: int, reverse: bool, initial: bool) -> Case:
    """With and without a state before the first, which has no such axis."""
    import gradplan.jax as gpj

    rest = (*shape[:axis], *shape[axis + 1 :])
    options: dict[str, Any] = {"axis": axis, "reverse": reverse}
    peer = peer_of("jax", "linear_scan", **options)
    return Case(
        f"linear_scan-{shape}-{axis}{'-reverse' * reverse}{'-initial' * initial}",
        lambda a, b, *i: gpj.linear_scan(a, b, *i, **options),
        lambda a, b, *i: gp.linear_scan(a, b, *i, **options),
        lambda g, a, b, *i: list(
            gp.linear_scan_backward(g, a, i[-1], *i[:-1], **options)[: 2 + initial]
        ),
        (shape, shape, rest) if initial else (shape, shape),
        peer if initial else lambda a, b: peer(a, b, None),
    )


IDS = np.array([0, 0, -1, 2, 5, 2])
INDICES = np.array([[3, 0, 9], [-1, 3, 1]])


REDUCTIONS = {
    "mean": lambda x, y, i: (i,),
    "max": lambda x, y, i: (x, y, i),
    "min": lambda x, y, i: (x, y, i),
    "prod": lambda x, y, i: (x, i),
    "logsumexp": lambda x, y, i: (x, y, i),
    "softmax": lambda x, y, i: (y, i, 3),
    "log_softmax": lambda x, y, i: (y, i, 3),
}
"""What the gradients of reductions of segments save."""


def reduction_case(kind: str, in_order: bool) -> Case:
    """No segment is empty, so that every result is a number."""
    import gradplan.jax as gpj

    ids = np.array([0, 2, 1, 2, 5, 2])
    ids = np.sort(ids) if in_order else ids
    plain = getattr(gp, f"segment_{kind}" if in_order else f"unsorted_segment_{kind}")
    backward = getattr(gp, f"segment_{kind}_backward")
    options = {"ties": "share"} if kind in ("max", "min") else {}
    return Case(
        f"segment_{kind}{'-sorted' if in_order else ''}",
        lambda x: getattr(gpj, f"segment_{kind}")(x, ids, 3, in_order),
        lambda x: plain(x, ids, 3, bounds="skip"),
        lambda g, x, y: [backward(g, *REDUCTIONS[kind](x, y, ids), bounds="skip", **options)],
        ((6, 5),),
    )


def weighted_case(kind: str, in_order: bool) -> Case:
    """With weights of their own gradient."""
    import gradplan.jax as gpj

    ids = np.array([0, 2, 1, 2, 5, 2])
    ids = np.sort(ids) if in_order else ids
    name = f"segment_weighted_{kind}"
    plain = getattr(gp, name if in_order else f"unsorted_{name}")
    backward = getattr(gp, f"{name}_backward")
    saved: Callable[[Any], tuple[Any, ...]] = (lambda y: (y,)) if kind == "mean" else lambda y: ()
    return Case(
        f"{name}{'-sorted' if in_order else ''}",
        lambda x, w: getattr(gpj, name)(x, w, ids, 3, in_order),
        lambda x, w: plain(x, w, ids, 3, bounds="skip"),
        lambda g, x, w, y: list(backward(g, x, w, *saved(y), ids, bounds="skip")),
        ((6, 5), (6,)),
    )


def csr_case(kind: str) -> Case:
    """By pointers, which leave a row in front and one behind out."""
    import gradplan.jax as gpj

    indptr = np.array([1, 2, 4, 5])
    name = f"segment_{kind}_csr"
    plain, backward = getattr(gp, name), getattr(gp, f"{name}_backward")
    gradients: dict[str, Callable[[Any, Any, Any], Any]] = {
        "sum": lambda g, x, y: backward(g, indptr, len(x)),
        "max": lambda g, x, y: backward(g, x, y, indptr, ties="share"),
        "prod": lambda g, x, y: backward(g, x, indptr),
        "softmax": lambda g, x, y: backward(g, y, indptr),
    }
    return Case(
        name,
        lambda x: getattr(gpj, name)(x, indptr),
        lambda x: plain(x, indptr),
        lambda g, x, y: [gradients[kind](g, x, y)],
        ((6, 5),),
    )


def all_cases() -> list[Case]:
    """Every function, small."""

    import gradplan.jax as gpj

    ascending = np.sort(IDS)
    cases = [scan_case(name, (3, 20), axis, axis == 0) for name in SCANS for axis in (0, -1)]
    for ids, is_sorted in ((IDS, False), (ascending, True)):
        plain = gp.segment_sum if is_sorted else gp.unsorted_segment_sum
        cases.append(
            Case(
                f"segment_sum-{'sorted' if is_sorted else 'unsorted'}",
                lambda x, i=ids, s=is_sorted: gpj.segment_sum(x, i, 4, s),
                lambda x, i=ids, f=plain: f(x, i, 4, bounds="skip"),
                lambda g, x, y, i=ids: [gp.segment_sum_backward(g, i, bounds="skip")],
                ((6, 5),),
                peer_of("jax", plain.__name__, segment_ids=ids, num_segments=4),
            )
        )
    return [
        *cases,
        *(reduction_case(kind, in_order) for kind in REDUCTIONS for in_order in (False, True)),
        *(weighted_case(kind, in_order) for kind in ("sum", "mean") for in_order in (False, True)),
        *map(csr_case, ("sum", "max", "prod", "softmax")),
        Case(
            "embedding",
            lambda w: gpj.embedding(w, INDICES, 1),
            lambda w: gp.embedding(w, INDICES, padding_idx=1, bounds="skip"),
            lambda g, w, y: [
                gp.embedding_backward(g, INDICES, len(w), padding_idx=1, bounds="skip")
            ],
            ((4, 5),),
        ),
        linear_scan_case((3, 20), 1, reverse=False, initial=True),
        linear_scan_case((6, 2, 3), 0, reverse=True, initial=True),
        linear_scan_case((3, 20), 0, reverse=False, initial=False),
        Case(
            "lerp",
            lambda a, b: gpj.lerp(a, b, 0.7),
            lambda a, b: gp.lerp(a, b, 0.7),
            lambda g, a, b, y: list(gp.lerp_backward(g, 0.7)),
            ((3, 5), (3, 5)),
            peer_of("jax", "lerp", weight=0.7),
        ),
        Case(
            "sparsemax",
            lambda x: gpj.sparsemax(x),
            lambda x: gp.sparsemax(x),
            _backward("sparsemax"),
            ((4, 7),),
        ),
    ]
