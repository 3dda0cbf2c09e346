"""gradplan.jax: ops that are declared at run time, with a reference and without a kernel."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
import pytest
from samples import ELEMENTS, bits

import gradplan as gp

jax = pytest.importorskip("jax")
pytest.importorskip("jax_tvm_ffi")

import jax.numpy as jnp  # noqa: E402
import jax_ops  # noqa: E402
from jax.test_util import check_grads  # noqa: E402
from six_ops import SIX, declared  # noqa: E402

import gradplan.jax as gpj  # noqa: E402
from gradplan.declaration import (  # noqa: E402
    OPS,
    Descriptor,
    Function,
    Gradient,
    Kind,
    Op,
    Shape,
    reads,
    withdraw,
    writes,
)
from gradplan.engines import BoundKernel, Engine, registered  # noqa: E402
from gradplan.reference import operation  # noqa: E402
from gradplan.vocabulary import ElementKind, OpCategory  # noqa: E402


@pytest.fixture(autouse=True)
def ops() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    with declared(*jax_ops.ALL, *SIX):
        yield
    jax.config.update("jax_enable_x64", before)


def _ours(name: str) -> Any:
    return getattr(gpj, name)


def _values(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(dtype))


# How they look -------------------------------------------------------------------------------


def test_names_signatures_and_documentation() -> None:
    made = {name for name in gpj.__all__ if name not in ("cumsum", "lerp", "segment_sum")}
    assert {"square", "times_sum", "gain", "bias", "share", "rms_norm"} <= made
    assert not any(name.endswith("_backward") for name in gpj.__all__)
    assert _names("times_sum") == "(x, axis=-1)"
    assert _names("gain") == "(x, factor=None)"
    assert _names("share") == "(x, segment_ids, num_segments)"
    assert _ours("gain").__annotations__["factor"] == "ArrayLike | None"
    assert _ours("times_sum").__annotations__["return"] == "tuple[Array, Array, Array]"
    doc = _ours("times_sum").__doc__
    assert doc.startswith("x times its sum.\n\nArgs:\n    x: the values\n    axis: the axis\n")
    with pytest.raises(AttributeError, match="square_backward"):
        _ours("square_backward")


def _names(function: str) -> str:
    made = _ours(function)
    plain = [p.replace(annotation=p.empty) for p in inspect.signature(made).parameters.values()]
    return str(inspect.Signature(plain))


# Values and derivatives against formulas ------------------------------------------------------


def _square(x: Any) -> Any:
    return x * x


def _times_sum(x: Any, axis: int) -> Any:
    return x * x.sum(axis, keepdims=True)


PAIRS = [
    "square",
    "square of a scalar",
    "square of nothing",
    "times_sum",
    "times_sum along 0",
    "gain",
    "no gain",
    "the same twice",
    "bias",
    "no bias",
]
Pair = tuple[Callable[..., Any], Callable[..., Any], list[Any]]


def _pairs() -> dict[str, Pair]:
    """Ours, the formula, and arguments."""
    x, factor = _values(3, 4), _values(3, 4, seed=1)
    return {
        "square": (_ours("square"), _square, [x]),
        "square of a scalar": (_ours("square"), _square, [x[0, 0]]),
        "square of nothing": (_ours("square"), _square, [x[:0]]),
        "times_sum": (lambda x: _ours("times_sum")(x)[0], lambda x: _times_sum(x, -1), [x]),
        "times_sum along 0": (
            lambda x: _ours("times_sum")(x, axis=0)[0],
            lambda x: _times_sum(x, 0),
            [x],
        ),
        "gain": (_ours("gain"), lambda x, f: x * f, [x, factor]),
        "no gain": (_ours("gain"), lambda x: x, [x]),
        "the same twice": (lambda x: _ours("gain")(x, x), _square, [x]),
        "bias": (_ours("bias"), lambda x, b: x + b, [x, factor[0]]),
        "no bias": (_ours("bias"), lambda x: x, [x]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_against_formulas(name: str) -> None:
    ours, formula, arguments = _pairs()[name]
    positions = tuple(range(len(arguments)))

    def loss(function: Any) -> Any:
        return lambda *given: jnp.sin(function(*given)).sum()

    def twice(function: Any) -> Any:
        def norm(*given: Any) -> Any:
            return sum((g**2).sum() for g in jax.grad(loss(function), positions)(*given))

        return jax.grad(norm, positions)

    for make in (lambda f: f, lambda f: jax.grad(loss(f), positions), twice):
        got, wanted = jax.jit(make(ours))(*arguments), make(formula)(*arguments)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-12, 1e-12), got, wanted)
    if arguments[0].size:
        check_grads(ours, arguments, order=2, modes=["fwd", "rev"], rtol=1e-5, atol=1e-5)
    batched = [jnp.stack([x, 2 * x, -x]) for x in arguments]
    for dims in itertools.product((0, None), repeat=len(arguments)):
        if any(d == 0 for d in dims):
            given = [b if d == 0 else x for b, x, d in zip(batched, arguments, dims, strict=True)]
            for make in (lambda f: f, lambda f: jax.grad(loss(f), positions), twice):
                got = jax.jit(jax.vmap(make(ours), dims))(*given)
                wanted = jax.vmap(make(formula), dims)(*given)
                jax.tree.map(
                    lambda a, b: np.testing.assert_allclose(a, b, 1e-12, 1e-12), got, wanted
                )


@pytest.mark.parametrize("kind", ELEMENTS, ids=str)
def test_bits_are_those_of_the_function_layer(kind: gp.ElementKind) -> None:
    x = np.asarray(_values(3, 4, dtype=kind.dtype))
    for name in ("square", "times_sum", "gain", "bias"):
        got, wanted = _ours(name)(x), getattr(gp, name)(x)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            assert a.dtype == b.dtype and bits(a) == bits(b)
    y, pull = jax.vjp(_ours("square"), x)
    assert bits(pull(y)[0]) == bits(gp.square_backward(x, np.asarray(y)))  # type: ignore[attr-defined]
    _, tangent = jax.jvp(lambda x: _ours("times_sum")(x)[0], (x,), (x,))
    assert tangent.dtype == kind.dtype


def test_indices_and_statistics_have_no_derivatives() -> None:
    x = _values(3, 4)
    (_, largest, total), (_, none, zero) = jax.jvp(_ours("times_sum"), (x,), (x,))
    assert largest.dtype == np.int64 and none.dtype == jax.dtypes.float0
    assert total.dtype == np.float64 and not zero.any()
    assert bits(largest) == bits(x.argmax(-1))

    def picked(x: Any) -> Any:
        y, at, _ = _ours("times_sum")(x)
        return jnp.take_along_axis(y, at[:, None], 1).sum()

    def formula(x: Any) -> Any:
        return jnp.take_along_axis(_times_sum(x, -1), x.argmax(-1)[:, None], 1).sum()

    np.testing.assert_allclose(jax.jit(jax.grad(picked))(x), jax.grad(formula)(x), 1e-12)


def test_indices_are_int32_where_jax_has_no_others() -> None:
    jax.config.update("jax_enable_x64", False)
    y, largest, total = jax.jit(_ours("times_sum"))(np.float32([[1, 3, 2]]))
    assert (y.dtype, largest.dtype, total.dtype) == (np.float32, np.int32, np.float32)
    assert largest.tolist() == [1]


def test_an_op_without_gradient_says_so() -> None:
    a = _values(2, 3)
    with pytest.raises(gp.Unsupported, match="leaky_sum has no gradient"):
        jax.grad(lambda a: _ours("leaky_sum")(a, a).sum())(a)


@pytest.mark.slow
def test_errors_of_references_arrive() -> None:
    x = _values(2, 3)
    with pytest.raises(gp.InvalidProblem, match="gain: factor: expected shape"):
        _ours("gain")(x, x[0])
    with pytest.raises(gp.InvalidProblem, match="gain: factor: expected element type float64"):
        _ours("gain")(x, x.astype(jnp.float32))

    def careless() -> None:
        @operation
        def square(x: Any) -> Any:
            x *= x
            return x

    careless()
    with pytest.raises(Exception, match="read-only"):
        jax.block_until_ready(_ours("square")(_values(7)))


# Batches --------------------------------------------------------------------------------------

_ENDS = np.array([[0, 2, 2, 5], [1, 1, 4, 5], [0, 0, 0, 3]])
_IDS = np.array([[0, 2, 0, 9, 1], [1, 1, -1, 0, 2], [2, 2, 2, 2, 2]])
BATCHED: dict[str, tuple[Any, ...]] = {
    "running_max": ((3, 2, 4),),
    "pooled_rows": ((3, 5, 2), _ENDS, (3, 5)),
    "bag": ((3, 4, 2), _IDS.clip(0, 3), _IDS.clip(0, 3), _ENDS, (3, 5)),
    "rms_norm": ((3, 2, 4), (3, 4)),
    "cross_entropy": ((3, 2, 4), _IDS[:, :2].clip(0, 3), (3, 4)),
    "leaky_sum": ((3, 2, 4), (3, 2, 4), (3, 2)),
    "share": ((3, 5, 2), _IDS),
    "bias": ((3, 2, 4), (3, 4)),
}


@pytest.mark.parametrize("name", BATCHED)
def test_batches_are_the_loop(name: str) -> None:
    made = [
        jnp.asarray(x) if isinstance(x, np.ndarray) else _values(*x, seed=i)
        for i, x in enumerate(BATCHED[name])
    ]
    rest = (3,) if name == "share" else ()

    def function(*given: Any) -> Any:
        return jax.tree.leaves(_ours(name)(*given, *rest))

    for dims in itertools.product((None, 0, 1), repeat=len(made)):
        if all(d is None for d in dims) or (len(made) > 3 and 1 in dims):
            continue
        given = [
            x[0] if d is None else jnp.moveaxis(x, 0, d) for x, d in zip(made, dims, strict=True)
        ]
        results = jax.jit(jax.vmap(function, dims))(*given)
        for i in range(3):
            one = [x if d is None else jnp.take(x, i, d) for x, d in zip(given, dims, strict=True)]
            for got, wanted in zip(results, function(*one), strict=True):
                assert bits(got[i]) == bits(wanted), dims


def _is_loop(function: Callable[..., Any], dims: Any, *given: Any) -> bool:
    return "while" in jax.jit(jax.vmap(function, dims)).lower(*given).as_text()


def test_loops_are_where_no_axis_takes_the_batch() -> None:
    x, scale = _values(3, 2, 4), _values(3, 4)
    assert not _is_loop(_ours("rms_norm"), (0, None), x, scale[0])
    assert _is_loop(_ours("rms_norm"), (0, 0), x, scale)
    assert not _is_loop(_ours("leaky_sum"), 0, x, x, x[..., 0])
    ends, rows = jnp.asarray(_ENDS), _values(3, 5, 2)
    assert not _is_loop(_ours("pooled_rows"), (0, None), rows, ends[0])
    assert _is_loop(_ours("pooled_rows"), (0, 0), rows, ends)
    # Rows of several segment sums may stand in one, apart from each other.
    assert not _is_loop(lambda x, i: _ours("share")(x, i, 3), (0, 0), rows, jnp.asarray(_IDS))
    pull = jax.grad(lambda b, x: jnp.sin(_ours("bias")(x, b)).sum())
    assert _is_loop(pull, (None, 0), scale[0], x)


# Selection ------------------------------------------------------------------------------------


class _OnGpu(Engine):
    """An engine for another device; its kernel is never run."""

    name = "on_gpu"
    devices = frozenset({"cuda"})

    def why_not(self, op: Op, desc: Descriptor) -> str | None:
        return None if op.name == "scan" else "has scans only"

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        from gradplan._ffi import tvm_ffi

        def run(*tensors: Any) -> None:
            raise AssertionError

        return BoundKernel(run, ffi=tvm_ffi().convert(run))


class _Doubling(Engine):
    """Twice the sum, to be recognised by; in Python, so that XLA needs a callback."""

    name = "doubling"

    def why_not(self, op: Op, desc: Descriptor) -> str | None:
        return None if op.name == "scan" else "has scans only"

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        def run(x: Any, y: Any, workspace: Any) -> None:
            y[...] = 2 * np.cumsum(x, axis=-1)

        return BoundKernel(run)


def test_another_device_is_served_by_its_engine() -> None:
    traced = jax.jit(lambda x: gpj.cumsum(x)).trace(jnp.ones(5))
    with registered(_OnGpu()):
        assert "@gradplan.scan(" in traced.lower(lowering_platforms=("cuda",)).as_text()
        other = jax.jit(lambda x: gpj.sparsemax(x)).trace(jnp.ones(5))
        with pytest.raises(gp.Unsupported, match="on_gpu: has scans only"):
            other.lower(lowering_platforms=("cuda",))


def test_reasons_of_all_engines_are_given() -> None:
    traced = jax.jit(lambda x: _ours("square")(x)).trace(jnp.ones(5))
    with pytest.raises(gp.Unsupported, match=r"(?s)program for cuda.*cuda: no .*reference: takes"):
        traced.lower(lowering_platforms=("cuda",))
    with pytest.raises(gp.Unsupported, match="program for tpu"):
        traced.lower(lowering_platforms=("tpu",))


def test_the_first_engine_that_can_is_taken() -> None:
    x = jnp.asarray([1.0, 2.0])
    assert gpj.cumsum(x).tolist() == [1.0, 3.0]
    with registered(_Doubling(), first=True):
        assert gpj.cumsum(x).tolist() == [2.0, 6.0]
        assert jax.jit(lambda x: gpj.cumsum(x))(x).tolist() == [2.0, 6.0]
    assert gpj.cumsum(x).tolist() == [1.0, 3.0]


# Refused --------------------------------------------------------------------------------------


def test_a_saved_float_without_a_rule_is_refused() -> None:
    with declared():
        for name in ("square", "square_backward"):
            withdraw(OPS[name])
        with pytest.raises(TypeError, match=r"square: its gradient reads x, .* needs a rule"):
            jax_ops.square_without_rule()


class PickDescriptor(Descriptor):
    """The place of something, and the thing."""

    shape: Annotated[Shape, "the shape"]
    element: Annotated[ElementKind, "the element type"]


class PickBackwardDescriptor(PickDescriptor):
    """Its gradient."""


def test_a_saved_place_without_a_rule_is_refused() -> None:
    # The gradient is a lookup, but the forward is not linear: it found the place out itself.
    place = dict(kind=Kind.INDEX, doc="where")
    with declared():
        Op(
            PickDescriptor,
            OpCategory.SCAN,
            "Something.",
            tensors=(
                reads("x", "shape", doc="the values"),
                writes("y", "shape", doc="what was picked"),
                writes("place", "shape", **place),
            ),
            functions=(Function("pick", "Something."),),
            gradient=Gradient("pick_backward", {"dy": "y"}, {"dx": "x"}),
        )
        with pytest.raises(TypeError, match=r"pick: its gradient reads place, .* needs a rule"):
            Op(
                PickBackwardDescriptor,
                OpCategory.SCAN,
                "Its gradient.",
                tensors=(
                    reads("dy", "shape", doc="the gradient"),
                    reads("place", "shape", **place),
                    writes("dx", "shape", doc="the gradient"),
                ),
                functions=(Function("pick_backward", "Its gradient."),),
            )
