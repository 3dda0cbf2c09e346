"""gradplan.jax: derivatives in both modes and of second order, checkpoint and scan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from samples import bits

import gradplan as gp

jax = pytest.importorskip("jax")
pytest.importorskip("jax_tvm_ffi")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402
from jax_cases import SCANS, Case, all_cases, scan_case  # noqa: E402

import gradplan.jax as gpj  # noqa: E402
from gradplan.functional import SIGNATURES  # noqa: E402

CASES = all_cases()
F64 = gp.ElementKind.F64


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def test_every_function_is_linear_or_has_a_rule() -> None:
    for name, signature in SIGNATURES.items():
        backward = signature.op.backward()
        if backward is not None:
            fixed = signature.function.fixed
            saved = [
                t
                for t in backward.inputs
                if not t.index
                and t.name not in signature.op.gradient.cotangents
                and (t.when is None or t.when.allows(fixed))
            ]
            assert bool(saved) == (signature.function.rule is not None), name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_modes_and_second_order(case: Case) -> None:
    arguments = [jnp.asarray(x) for x in case.arguments(F64)]
    check_grads(jax.jit(case.ours), arguments, order=2, modes=["fwd", "rev"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SCANS)
def test_hessians_are_those_of_jax(name: str, reverse: bool) -> None:
    case = scan_case(name, (2, 6), 1, reverse)
    assert case.peer is not None
    x = jnp.asarray(case.arguments(F64)[0])
    c = jnp.asarray(np.random.default_rng(1).normal(size=x.shape))
    ours, theirs = (lambda x, f=f: (c * f(jnp.sin(x)) ** 2).sum() for f in (case.ours, case.peer))
    expected = jax.jit(jax.hessian(theirs))(x)
    for hessian in (jax.jacfwd(jax.jacrev(ours)), jax.jacrev(jax.jacfwd(ours))):
        np.testing.assert_allclose(jax.jit(hessian)(x), expected, 1e-8, 1e-10)


def test_third_derivative() -> None:
    third = jax.grad(jax.grad(jax.grad(lambda s: gpj.cumprod(jnp.full(3, s)).sum())))
    assert third(2.0) == 6.0


def _jacobians(f: Any, x: Any) -> tuple[Any, Any]:
    return jax.jit(jax.jacfwd(f))(x), jax.jit(jax.jacrev(f))(x)


@pytest.mark.slow
def test_cumprod_with_zeros() -> None:
    x = jnp.asarray([2.0, 0.0, 3.0, 0.0, 5.0])
    expected = np.array(
        [[np.prod(np.delete(x[: i + 1], j)) if j <= i else 0.0 for j in range(5)] for i in range(5)]
    )
    for jacobian in _jacobians(gpj.cumprod, x):
        np.testing.assert_array_equal(jacobian, expected)
    hessian = jax.hessian(lambda x: gpj.cumprod(x)[3])(x)
    assert hessian[1, 3] == 6.0 and hessian[0, 1] == 0.0
    assert bits(hessian) == bits(hessian.T)


def test_cumprod_that_overflows_behind_a_zero() -> None:
    x = jnp.asarray([0.0, 1e200, 1e200, 1e-300])
    _, tangent = jax.jvp(gpj.cumprod, (x,), (jnp.asarray([0.0, 1.0, 1.0, 1.0]),))
    np.testing.assert_array_equal(tangent, np.zeros(4))


@pytest.mark.parametrize("ties", ["first", "last"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_ties(name: str, reverse: bool, ties: Any) -> None:
    nan = np.nan
    some = [[1.0, 3, 3, 2, 3], [0.0, -0.0, 0.0, 1, 1], [nan, 1.0, nan, 1, 1], [2.0, nan, nan, 5, 5]]
    xs = np.concatenate([some, np.negative(some)])
    wanted = getattr(gp, name + "_backward")
    rows = [[wanted(g, x, reverse=reverse, ties=ties) for g in np.eye(5)] for x in xs]

    def function(x: Any) -> Any:
        return getattr(gpj, name)(x, 0, reverse, ties=ties)

    for jacobian in (jax.jacfwd(function), jax.jacrev(function)):
        np.testing.assert_array_equal(jax.jit(jax.vmap(jacobian))(xs), rows)


def test_jax_shares_ties_out() -> None:
    # The documented difference; if JAX changes its mind the page must follow.
    shared = jax.grad(lambda x: jax.lax.cummax(x)[1])(jnp.asarray([3.0, 3.0]))
    np.testing.assert_array_equal(shared, [0.5, 0.5])


@pytest.mark.parametrize(
    "row", [[-np.inf, -np.inf, 1.0, -np.inf, 2.0], [1.0, np.inf, 2.0], [500.0, -500.0, 800.0]]
)
def test_logcumsumexp_with_infinities(row: list[float]) -> None:
    x = jnp.asarray(row)
    y = gp.logcumsumexp(np.asarray(row))
    rows = [gp.logcumsumexp_backward(g, np.asarray(row), y) for g in np.eye(len(row))]
    for jacobian in _jacobians(gpj.cumlogsumexp, x):
        np.testing.assert_allclose(jacobian, rows, 1e-12, 1e-300)
    second = jax.jit(jax.hessian(lambda x: gpj.cumlogsumexp(x)[-1]))(x)
    assert np.isfinite(second).all()


def test_sparsemax_of_a_nan_row_has_no_gradient() -> None:
    x = jnp.asarray([[1.0, np.nan], [1.0, 0.5]])
    for jacobian in _jacobians(gpj.sparsemax, x):
        assert np.isfinite(jacobian[1]).all() and not jacobian[0].any()


@pytest.mark.slow
def test_narrow_types_in_forward_mode() -> None:
    for case in CASES:
        arguments = [jnp.asarray(x) for x in case.arguments(gp.ElementKind.BF16)]
        _, tangent = jax.jvp(case.ours, arguments, arguments)
        assert tangent.dtype == jnp.bfloat16


@pytest.mark.parametrize("case", CASES, ids=str)
def test_checkpoint_and_scan(case: Case) -> None:
    arguments = [jnp.asarray(x) for x in case.arguments(F64)]

    def loss(*given: Any) -> Any:
        return (case.ours(*given) ** 2).sum()

    positions = tuple(range(len(arguments)))
    expected = jax.jit(jax.grad(loss, positions))(*arguments)
    saved_less = jax.jit(jax.grad(jax.checkpoint(loss), positions))(*arguments)
    assert [bits(g) for g in saved_less] == [bits(g) for g in expected]

    def step(total: Any, given: Any) -> Any:
        return total + loss(*given), None

    def looped(*stacked: Any) -> Any:
        return jax.lax.scan(step, jnp.zeros(()), stacked)[0]

    stacked = [jnp.stack([x, x]) for x in arguments]
    for got, wanted in zip(jax.jit(jax.grad(looped, positions))(*stacked), expected, strict=True):
        assert bits(got[0]) == bits(got[1]) == bits(wanted)
