"""gradplan.jax: values, bits, edge cases, errors, and what XLA is told."""

from __future__ import annotations

import doctest
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from samples import ELEMENTS, bits

import gradplan as gp

jax = pytest.importorskip("jax")
pytest.importorskip("jax_tvm_ffi")

import jax.numpy as jnp  # noqa: E402
import jax_tvm_ffi  # noqa: E402
from jax_cases import SCANS, Case, all_cases, scan_case  # noqa: E402

import gradplan.jax as gpj  # noqa: E402

CASES = all_cases()
TOLERANCE = {"f16": 4e-3, "bf16": 4e-2, "f32": 1e-5, "f64": 1e-12}


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.every_op("case")
@pytest.mark.parametrize("kind", ELEMENTS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_bits_are_those_of_the_function_layer(case: Case, kind: gp.ElementKind) -> None:
    arguments = case.arguments(kind)
    expected = case.plain(*arguments)
    given = [jnp.asarray(x) for x in arguments]
    jitted = jax.jit(case.ours)
    result, pull = jax.vjp(jitted, *given)
    assert result.dtype == kind.dtype
    assert bits(case.ours(*given)) == bits(expected)
    assert bits(result) == bits(expected)
    cotangent = np.random.default_rng(9).normal(size=expected.shape).astype(kind.dtype)
    grads = case.backward(cotangent, *arguments, expected)
    for got, wanted in zip(pull(jnp.asarray(cotangent)), grads, strict=True):
        assert bits(got) == bits(wanted)


@pytest.mark.parametrize("kind", ELEMENTS, ids=str)
@pytest.mark.parametrize("case", [c for c in CASES if c.peer], ids=str)
def test_values_are_those_of_jax(case: Case, kind: gp.ElementKind) -> None:
    arguments = [jnp.asarray(x) for x in case.arguments(kind)]
    assert case.peer is not None
    tolerance = TOLERANCE[kind]
    wide = [x.astype(jnp.float64) for x in arguments]
    np.testing.assert_allclose(
        case.ours(*arguments).astype(jnp.float64), case.peer(*wide), tolerance, tolerance
    )


SHAPES = [((1,), 0), ((17,), 0), ((300,), -1), ((0,), 0), ((3, 0), 0), ((2, 3, 4), 1), ((), 0)]


@pytest.mark.parametrize("shape, axis", SHAPES, ids=str)
@pytest.mark.parametrize("name", SCANS)
def test_shapes(name: str, shape: tuple[int, ...], axis: int) -> None:
    case = scan_case(name, shape, axis, reverse=True)
    (x,) = case.arguments(gp.ElementKind.F64)
    y = jax.jit(case.ours)(x)
    assert y.shape == shape
    assert bits(y) == bits(case.plain(x))
    if shape:  # jax.lax has no scans of scalars
        np.testing.assert_allclose(y, case.peer(jnp.asarray(x)), 1e-10, 1e-12)
    cotangent = np.ones(shape)
    (grad,) = jax.vjp(case.ours, jnp.asarray(x))[1](jnp.asarray(cotangent))
    assert bits(grad) == bits(case.backward(cotangent, x, np.asarray(y))[0])


ROWS = {
    "zeros": [2.0, 0.0, 3.0, 0.0, -1.0],
    "nan": [1.0, np.nan, 3.0, 0.5, np.nan],
    "-inf": [-np.inf, -np.inf, 1.0, -np.inf, 2.0],
    "inf": [1.0, np.inf, 2.0, 3.0, 1.0],
    "ties": [1.0, 2.0, 2.0, 1.0, 2.0],
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", SCANS)
def test_edge_values_as_in_jax(name: str, row: str) -> None:
    case = scan_case(name, (5,), 0)
    x = jnp.asarray(ROWS[row])
    assert case.peer is not None
    np.testing.assert_allclose(jax.jit(case.ours)(x), case.peer(x))


def test_embedding_is_take() -> None:
    weight = jnp.arange(12.0).reshape(4, 3)
    indices = jnp.asarray([[3, 0], [1, 1]], jnp.int32)
    assert bits(gpj.embedding(weight, indices)) == bits(jnp.take(weight, indices, axis=0))
    skipped = gpj.embedding(weight, jnp.asarray([-1, 4, 2]), padding_idx=2)
    assert bits(skipped) == bits(np.zeros((3, 3)))


@pytest.mark.parametrize("ids", [np.int32, np.int64])
def test_segment_sum_as_in_jax_ops(ids: type) -> None:
    data = jnp.asarray(np.random.default_rng(0).integers(-9, 9, (6, 2, 3)).astype(float))
    segments = jnp.asarray(np.array([0, 4, 1, 4, -2, 7], ids))
    for count in (None, 5, 0):
        theirs = jax.ops.segment_sum(data, segments, count)
        assert bits(gpj.segment_sum(data, segments, count)) == bits(theirs)
    assert gpj.segment_sum(data[:0], segments[:0]).shape == (0, 2, 3)


def test_arguments_by_name() -> None:
    x = jnp.asarray([[1.0, 2.0]])
    assert gpj.logcumsumexp is gpj.cumlogsumexp
    assert bits(gpj.cumsum(operand=x, axis=1, reverse=True)) == bits(np.array([[3.0, 2.0]]))
    assert gpj.segment_sum(
        data=x, segment_ids=jnp.zeros(1, int), num_segments=2, indices_are_sorted=True
    ).shape == (2, 2)
    assert gpj.lerp(x, x[0, :1], 0.5).shape == (1, 2)
    assert gpj.lerp([0.0], [1.0], -0.0) == 0.0
    assert gpj.sparsemax(operand=x, axis=0).shape == (1, 2)


def test_without_x64_doubles_become_floats_as_in_jax() -> None:
    jax.config.update("jax_enable_x64", False)
    assert gpj.cumsum(np.ones(3)).dtype == np.float32
    ids = np.array([1, 0, 1])
    assert bits(gpj.segment_sum(np.ones(3), ids)) == bits(np.float32([1, 2]))


# Errors ----------------------------------------------------------------------------------------


def test_errors_say_what_was_expected() -> None:
    x = jnp.ones((2, 3))
    with pytest.raises(
        gp.Unsupported, match=r"cumsum: operand: expected one of .*float32.*got int"
    ):
        gpj.cumsum(jnp.arange(3))
    with pytest.raises(gp.InvalidProblem, match=r"cumsum: axis: expected an axis of .*; got 2"):
        jax.jit(lambda x: gpj.cumsum(x, 2))(x)
    with pytest.raises(gp.InvalidProblem, match="ties"):
        gpj.cummax(x, ties="both")
    with pytest.raises(gp.InvalidProblem, match="b: expected element type float64; got float32"):
        gpj.lerp(x, x.astype(jnp.float32), 0.5)
    with pytest.raises(gp.InvalidProblem, match="broadcast"):
        gpj.lerp(x, jnp.ones(2), 0.5)
    with pytest.raises(gp.InvalidProblem, match=r"indices: .* int32 or int64; got uint8"):
        gpj.embedding(x, jnp.zeros(2, jnp.uint8))
    with pytest.raises(gp.InvalidProblem, match="num_inputs"):
        gpj.segment_sum(x, jnp.zeros(3, int), 1)


def test_options_of_other_libraries() -> None:
    x = jnp.ones((2, 3))
    assert bits(gpj.cumsum(x, np.int64(1), np.bool_(True))) == bits(gpj.cumsum(x, 1, True))
    assert gpj.segment_sum(x, jnp.zeros(2, int), jnp.asarray(4)).shape == (4, 3)
    with pytest.raises(gp.InvalidProblem, match="axis: expected an integer"):
        gpj.cumsum(x, 1.0)


def test_without_jit() -> None:
    x = jnp.asarray([1.0, 2.0])
    with jax.disable_jit():
        assert bits(jax.grad(lambda x: gpj.cumprod(x).sum())(x)) == bits(np.array([3.0, 1.0]))


def test_traced_ids_need_a_number_of_segments() -> None:
    with pytest.raises(jax.errors.ConcretizationTypeError, match="num_segments"):
        jax.jit(gpj.segment_sum)(jnp.ones(2), jnp.zeros(2, int))


def test_ids_said_to_be_sorted_must_be() -> None:
    with pytest.raises(Exception, match="segment_ids"):
        gpj.segment_sum(jnp.ones(3), jnp.asarray([1, 0, 1]), 2, indices_are_sorted=True)


def test_other_platforms_are_refused() -> None:
    for function in (gpj.cumsum, jax.grad(lambda x: gpj.cumprod(x).sum())):
        traced = jax.jit(function).trace(jnp.ones(3))
        with pytest.raises(gp.Unsupported, match=r"arrays on the CPU; got a program for cuda.*put"):
            traced.lower(lowering_platforms=("cuda",))


def test_without_jax_the_import_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['jax'] = None\n"
        "try:\n    import gradplan.jax\nexcept ModuleNotFoundError as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'gradplan[jax]'" in run.stdout


# What XLA is told ------------------------------------------------------------------------------


def test_kernels_run_without_python() -> None:
    text = jax.jit(jax.grad(lambda x: gpj.cumprod(x).sum())).lower(jnp.ones(4)).as_text()
    assert "@gradplan.scan(" in text
    assert "@gradplan.scan_backward(" in text
    assert "callback" not in text


@pytest.mark.slow
def test_many_problems_share_the_targets() -> None:
    for n in range(1, 12):
        gpj.cumsum(jnp.ones(n))
    before = jax_tvm_ffi.registered_count()
    for n in range(12, 24):
        gpj.cumsum(jnp.ones(n))
    assert jax_tvm_ffi.registered_count() == before


def test_threads_and_layouts() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(64, 4096)))
    turned = jax.jit(lambda x: gpj.cumsum(x.T @ x[:, :8], 0).T)
    expected = bits(turned(x))
    results: list[bytes] = []

    def work() -> None:
        results.extend(bits(turned(x)) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 15
    plain = np.asarray(jax.jit(lambda x: x.T @ x[:, :8])(x))
    assert bits(gp.cumsum(plain, axis=0).T) == expected


def test_examples_in_the_documentation() -> None:
    from gradplan.jax import functions

    jax.config.update("jax_enable_x64", False)
    for module in (gpj, functions):
        outcome: Any = doctest.testmod(module)
        assert outcome.attempted and not outcome.failed
