"""gradplan.jax: `vmap` is one kernel call with the bits of the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from samples import bits

import gradplan as gp

jax = pytest.importorskip("jax")
pytest.importorskip("jax_tvm_ffi")

import jax.numpy as jnp  # noqa: E402
from jax_cases import Case, all_cases  # noqa: E402

import gradplan.jax as gpj  # noqa: E402

CASES = all_cases()
F32 = gp.ElementKind.F32
BATCH = 3


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def _check(function: Callable[..., Any], arguments: list[Any], dims: tuple[Any, ...]) -> None:
    """`vmap` of a function against the loop; each argument comes with its batch axis."""
    batched = jax.jit(jax.vmap(function, dims))
    result = batched(*arguments)
    for i in range(BATCH):
        one = [
            x if d is None else jnp.take(x, i, axis=d) for x, d in zip(arguments, dims, strict=True)
        ]
        assert bits(result[i]) == bits(function(*one))
    text = batched.lower(*arguments).as_text()
    assert text.count("custom_call @gradplan.") == 1
    assert "while" not in text


def _stacked(case: Case, dims: Sequence[int]) -> list[Any]:
    given = [case.arguments(F32, seed) for seed in range(BATCH)]
    batches = zip(zip(*given, strict=True), dims, strict=True)
    return [jnp.stack(list(map(jnp.asarray, xs)), dim) for xs, dim in batches]


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_batches_of_values(case: Case, dim: int) -> None:
    dims = tuple(min(dim, len(shape)) for shape in case.shapes)  # not all have as many axes
    _check(case.ours, _stacked(case, dims), dims)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_batches_of_gradients(case: Case) -> None:
    arguments = _stacked(case, (0,) * len(case.shapes))
    result = jax.eval_shape(case.ours, *(x[0] for x in arguments))
    drawn = np.random.default_rng(5).normal(size=(BATCH, *result.shape))
    cotangents = jnp.asarray(drawn, F32.dtype)

    def pull(g: Any, *given: Any) -> Any:
        return jax.vjp(case.ours, *given)[1](g)[0]

    whole = jax.jit(jax.vmap(pull))(cotangents, *arguments)
    shared = jax.jit(jax.vmap(pull, (0, *[None] * len(arguments))))(
        cotangents, *(x[0] for x in arguments)
    )
    for i in range(BATCH):
        assert bits(whole[i]) == bits(pull(cotangents[i], *(x[i] for x in arguments)))
        assert bits(shared[i]) == bits(pull(cotangents[i], *(x[0] for x in arguments)))


def _ids(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(1).integers(-1, 6, shape))


@pytest.mark.parametrize("ids_dim", [None, 0, 1])
@pytest.mark.parametrize("data_dim", [None, 0, 1])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_segment_sums_with_their_own_ids(data_dim: Any, ids_dim: Any, is_sorted: bool) -> None:
    if data_dim is None and ids_dim is None:
        return
    data = jnp.asarray(np.random.default_rng(0).normal(size=(7, 4)), F32.dtype)
    ids = jnp.sort(_ids(BATCH, 7), axis=1)
    if data_dim is not None:
        data = jnp.stack([data, data + 1, -data], data_dim)
    ids = ids[0] if ids_dim is None else jnp.moveaxis(ids, 0, ids_dim)

    def function(data: Any, ids: Any) -> Any:
        return gpj.segment_sum(data, ids, 5, is_sorted)

    _check(function, [data, ids], (data_dim, ids_dim))

    def gradient(data: Any, ids: Any) -> Any:
        return jax.grad(lambda x: (function(x, ids) * jnp.arange(4)).sum())(data)

    got = jax.jit(jax.vmap(gradient, (data_dim, ids_dim)))(data, ids)
    for i in range(BATCH):
        one = data if data_dim is None else jnp.take(data, i, data_dim)
        assert bits(got[i]) == bits(
            gradient(one, ids if ids_dim is None else jnp.take(ids, i, ids_dim))
        )


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("dims", [(0, None), (None, 0), (1, 0), (2, 1)], ids=str)
def test_embeddings_with_their_own_tables(dims: tuple[Any, Any], padding: int | None) -> None:
    rng = np.random.default_rng(2)
    weight = jnp.asarray(rng.normal(size=(BATCH, 5, 4)), F32.dtype)
    indices = _ids(BATCH, 6)
    weight = weight[0] if dims[0] is None else jnp.moveaxis(weight, 0, dims[0])
    indices = indices[0] if dims[1] is None else jnp.moveaxis(indices, 0, dims[1])

    def function(weight: Any, indices: Any) -> Any:
        return gpj.embedding(weight, indices, padding)

    _check(function, [weight, indices], dims)

    def gradient(weight: Any, indices: Any) -> Any:
        return jax.grad(lambda w: (function(w, indices) ** 2).sum())(weight)

    got = jax.jit(jax.vmap(gradient, dims))(weight, indices)
    for i in range(BATCH):
        given = zip((weight, indices), dims, strict=True)
        one = [x if d is None else jnp.take(x, i, d) for x, d in given]
        assert bits(got[i]) == bits(gradient(*one))


def test_a_joint_table_beyond_the_index_type_is_a_loop() -> None:
    def function(data: Any, ids: Any) -> Any:
        return gpj.segment_sum(data, ids, 2**30)

    shapes = jax.ShapeDtypeStruct((3, 2), jnp.float32), jax.ShapeDtypeStruct((3, 2), jnp.int32)
    assert "while" in jax.jit(jax.vmap(function)).lower(*shapes).as_text()


def test_one_operand_and_nested_batches() -> None:
    a = jnp.asarray(np.random.default_rng(0).normal(size=(BATCH, 2, 5)))
    _check(lambda a, b: gpj.lerp(a, b, 0.3), [a[0, 0], a[:, 1]], (None, 0))
    twice = jax.vmap(jax.vmap(gpj.cumprod))(a)
    assert bits(twice) == bits(gp.cumprod(np.asarray(a)))
    scalars = jax.vmap(gpj.cumsum)(a[:, 0, 0])
    assert bits(scalars) == bits(a[:, 0, 0])
    assert jax.vmap(lambda x, i: gpj.segment_sum(x, i, 4))(a[:0], _ids(0, 2)).shape == (0, 4, 5)
