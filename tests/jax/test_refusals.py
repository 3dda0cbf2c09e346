"""What gradplan.jax refuses, when it is asked to: indices out of range, options, arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradplan as gp

jax = pytest.importorskip("jax")
pytest.importorskip("jax_tvm_ffi")

import jax.numpy as jnp  # noqa: E402

import gradplan.jax as gpj  # noqa: E402
from gradplan.declaration import OPS, Like  # noqa: E402
from gradplan.jax.functions import OFFERS  # noqa: E402
from gradplan.offers import JAX, TORCH, Bridge, Offer  # noqa: E402

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
INSIDE, OUTSIDE = jnp.array([1, 0]), jnp.array([0, 5])
Function = Callable[[Any, Any], Any]

LOOKUPS: dict[str, Callable[..., Any]] = {
    "embedding": lambda x, ids, **o: gpj.embedding(x, ids, **o),
    "padded": lambda x, ids, **o: gpj.embedding(x, ids, 1, **o),
    "segment_sum": lambda x, ids, **o: gpj.segment_sum(x, ids, 2, **o),
    "sorted": lambda x, ids, **o: gpj.segment_sum(x, ids, 2, indices_are_sorted=True, **o),
}
TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "eager": lambda f: f,
    "jit": jax.jit,
    "grad": lambda f: jax.grad(lambda x, ids: (f(x, ids) ** 2).sum()),
    "grad of a linear loss": lambda f: jax.grad(lambda x, ids: f(x, ids).sum()),
    "jit of grad": lambda f: jax.jit(jax.grad(lambda x, ids: (f(x, ids) ** 2).sum())),
    "jvp": lambda f: lambda x, ids: jax.jvp(lambda x: f(x, ids), (x,), (x,)),
    "vmap": lambda f: lambda x, ids: jax.vmap(f)(x[None], ids[None]),
    "vmap of ids": lambda f: lambda x, ids: jax.vmap(f, (None, 0))(x, ids[None]),
    "vmap of rows": lambda f: lambda x, ids: jax.vmap(f, (0, None))(x[None], ids),
    "grad of vmap": lambda f: jax.grad(
        lambda x, ids: (jax.vmap(f)(jnp.stack([x, x]), jnp.stack([ids, ids])) ** 2).sum()
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("lookup", LOOKUPS)
def test_bounds(lookup: str, transform: str) -> None:
    """Out of range: dropped by default, an error if asked for. In range they are the same."""
    inside = jnp.sort(INSIDE) if lookup == "sorted" else INSIDE

    def made(**options: Any) -> Function:
        return TRANSFORMS[transform](lambda x, ids: LOOKUPS[lookup](x, ids, **options))

    with pytest.raises(jax.errors.JaxRuntimeError, match=r"expected an index in \[0, "):
        jax.block_until_ready(made(bounds="raise")(X, OUTSIDE))
    for options in ({}, {"bounds": "skip"}):
        jax.block_until_ready(made(**options)(X, OUTSIDE))
    kept, raised = made()(X, inside), made(bounds="raise")(X, inside)
    for a, b in zip(jax.tree.leaves(kept), jax.tree.leaves(raised), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_what_is_dropped() -> None:
    assert gpj.embedding(X, OUTSIDE).tolist() == [[0, 1, 2], [0, 0, 0]]
    assert gpj.segment_sum(X, OUTSIDE, 2).tolist() == [[0, 1, 2], [0, 0, 0]]
    dropped = jax.ops.segment_sum(X, OUTSIDE, 2)
    assert (gpj.segment_sum(X, OUTSIDE, 2) == dropped).all()


@pytest.mark.parametrize("name", sorted(gpj.functions.__all__))
def test_functions_say_first_that_they_drop(name: str) -> None:
    parameters = inspect.signature(getattr(gpj, name)).parameters
    if "bounds" not in parameters:
        inputs = OFFERS.offered[name].signature.inputs
        assert not any(t.index and not t.pointers for t in inputs)  # those raise
        return
    assert parameters["bounds"].default == "skip"
    first = getattr(gpj, name).__doc__.splitlines()[0]
    assert "as in JAX" in first and ("dropped" in first or "zeros" in first)


@pytest.mark.parametrize(("bridge", "bounds"), [(TORCH, "raise"), (JAX, "skip")])
def test_a_record_need_not_say_so(bridge: Bridge, bounds: str) -> None:
    """Where a signature is derived, the default is the framework's."""
    found = [
        Offer(bridge, op, function, Like())
        for op in OPS.values()
        for function in op.functions
        if any(info.name == "bounds" for info in op.fields)
    ]
    assert found and all(f"bounds='{bounds}'" in offer.arguments for offer in found)


# Options


@pytest.mark.parametrize(
    ("call", "right", "wrongs"),
    [
        (lambda v: gpj.cumsum(X, 0, v), True, [1, 1.0, "True", None]),
        (lambda v: gpj.cumsum(X, v), 1, [True, 1.0, "1", None]),
        (lambda v: gpj.lerp(X, X, v), 1.0, [True, "1.0", None, 10**400]),
        (lambda v: gpj.segment_sum(X, INSIDE, v), 3, [3.0, "3", True]),
        (lambda v: gpj.segment_sum(X, jnp.sort(INSIDE), 3, v), True, [1, 1.0, None]),
        (lambda v: gpj.segment_sum(X, INSIDE, 3, v), False, [0, 0.0, None]),
        (lambda v: gpj.segment_sum(X, INSIDE, 3, bounds=v), "raise", [np.str_("raise"), 1, None]),
        (lambda v: gpj.cummax(X, ties=v), "last", [np.str_("last"), "lats"]),
        (lambda v: gpj.embedding(X, INSIDE, v), 1, [True, 1.0, "1"]),
    ],
)
def test_an_option_that_is_refused_once_is_refused_always(
    call: Callable[[Any], Any], right: Any, wrongs: list[Any]
) -> None:
    for wrong in wrongs:
        for _ in range(2):
            with pytest.raises(gp.InvalidProblem, match="expected"):
                call(wrong)
            call(right)


def test_a_traced_option_is_explained() -> None:
    message = r"lerp: weight: .*got a JAX tracer: .*static_argnames='weight'"
    with pytest.raises(gp.InvalidProblem, match=message):
        jax.jit(lambda w: gpj.lerp(X, X, w))(0.5)
    with pytest.raises(gp.InvalidProblem, match=message):
        jax.grad(lambda w: gpj.lerp(X, X, w).sum())(0.5)
    jitted = jax.jit(gpj.lerp, static_argnames="weight")
    assert (jitted(X, X * 2, weight=0.5) == X * 1.5).all()


# Arguments


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gpj.cumsum(X, dim=0), r"cumsum\(\) .*'dim'; did you mean 'axis'\?"),
        (lambda: gpj.cumsum(X, revers=True), r"'revers'; did you mean 'reverse'\?"),
        (lambda: gpj.cumsum(), r"cumsum\(\) missing 1 required argument: 'operand'"),
        (lambda: gpj.segment_sum(X), r"missing 1 required argument: 'segment_ids'"),
    ],
)
def test_misspelt_arguments(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_names_of_the_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'cumsun'; did you mean 'cumsum'"):
        gpj.cumsun  # noqa: B018


def test_a_tracer_in_the_function_layer_is_told_where_to_go() -> None:
    with pytest.raises(gp.Unsupported, match=r"use gradplan\.jax\.cumlogsumexp there"):
        jax.jit(gp.logcumsumexp)(X)
