"""Exclusive scans under JAX: values and derivatives against shifted ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradplan.jax as gpj


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives(name: str, reverse: bool) -> None:
    x = jnp.float32(np.random.default_rng(0).standard_normal((2, 6)))
    function, kept = getattr(gpj, name), slice(0, 5) if reverse else slice(1, 6)

    def exclusive(x: Any) -> Any:
        return function(x, 1, reverse, exclusive=True)[:, kept]

    def shifted(x: Any) -> Any:
        return function(x[:, 1:] if reverse else x[:, :-1], 1, reverse)

    assert (exclusive(x) == shifted(x)).all()
    for derivative in (jax.jacrev, jax.jacfwd):
        np.testing.assert_allclose(derivative(exclusive)(x), derivative(shifted)(x), 1e-6, 1e-6)
    np.testing.assert_allclose(jax.hessian(exclusive)(x), jax.hessian(shifted)(x), 1e-5, 1e-5)
    batch = jnp.stack([x, 2 * x])
    assert (jax.jit(jax.vmap(exclusive))(batch) == jnp.stack([*map(exclusive, batch)])).all()
