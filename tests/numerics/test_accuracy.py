"""How near to the truth: the engine against an independent oracle, and gradients against slopes."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np
import oracle
import pytest
from layouts import Array
from matrix import index_axis, table_axis
from samples import all_elements

import gradplan as gp
from gradplan.declaration import OPS, Function, Op
from gradplan.declaration.fields import AxisOf, IndexInto, ShapeField, SizeField, Word
from gradplan.engines import cpu
from gradplan.plan import plan_class

pytestmark = pytest.mark.skipif(not cpu.supported_isas(), reason="no build for this CPU here")
KINDS = [kind.value for kind in gp.ScanKind]
LENGTHS = (1, 17, 300, 5000)
backward_lengths = pytest.mark.parametrize("n", [1, 17, 300, 900])
reverses = pytest.mark.parametrize("reverse", [False, True])


def values(element: gp.ElementKind, shape: tuple[int, ...], seed: int, kind: str = "") -> Array:
    """Of both signs and several magnitudes; near 1 for products, so that they neither end."""
    rng = np.random.default_rng(seed)
    if kind == "cumprod":
        x = np.exp(rng.uniform(-0.05, 0.05, shape)) * rng.choice([-1, 1], shape)
    else:
        x = rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4, shape)
    return x.astype(element.dtype)


# --- against the oracle --------------------------------------------------------------------------


@reverses
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
@all_elements
def test_scan(element: gp.ElementKind, kind: str, n: int, reverse: bool) -> None:
    x = values(element, (3, n), n, kind)
    y = getattr(gp, kind)(x, axis=1, reverse=reverse)
    depth = {
        "cumprod": n + 8,  # every factor's rounding counts, in whatever order
        "cummax": 0,
        "cummin": 0,
        "logcumsumexp": 3 * oracle.recurrence_depth(n) + 8,
    }.get(kind, oracle.scan_depth(n))
    exact = oracle.along(oracle.scan(kind), x, axis=1, reverse=reverse)
    oracle.assert_close(y, exact, depth)


@reverses
@backward_lengths
@pytest.mark.parametrize("kind", KINDS)
@all_elements
def test_scan_backward(element: gp.ElementKind, kind: str, n: int, reverse: bool) -> None:
    x = values(element, (2, n), n, kind)
    dy = values(element, (2, n), n + 1)
    along = {"axis": 1, "reverse": reverse}
    if kind == "cumsum":
        got, depth = gp.cumsum_backward(dy, **along), oracle.scan_depth(n)
        exact = oracle.along(oracle.cumsum_backward, dy, **along)
    elif kind == "cumprod":
        y = gp.cumprod(x, **along)
        got = gp.cumprod_backward(dy, x, y, **along)
        exact = oracle.along(oracle.cumprod_backward, dy, x, **along)
        # y is rounded to the element type, which the factor y[i-1] then has.
        stored = oracle.roundoff(element.dtype) / oracle.roundoff(element.compute.dtype)
        depth = 3 * n + 16 + stored
    elif kind == "logcumsumexp":
        y = gp.logcumsumexp(x, **along)
        got = gp.logcumsumexp_backward(dy, x, y, **along)
        exact = oracle.along(oracle.logcumsumexp_backward, dy, x, y, **along)
        # Differences of y are rounded before exp, once per step of the recurrence.
        reach = float(np.abs(y.astype(float)).max() + np.abs(x.astype(float)).max()) + 1
        depth = (oracle.recurrence_depth(n) * 3 + 8) * reach
    else:
        got = getattr(gp, f"{kind}_backward")(dy, x, **along)
        exact = oracle.along(
            lambda g, v: oracle.extreme_backward(g, v, kind=kind, ties="first"), dy, x, **along
        )
        depth = oracle.recurrence_depth(n)
    oracle.assert_close(got, exact, depth)


@pytest.mark.parametrize("ties", ["first", "last"])
@pytest.mark.parametrize("kind", ["cummax", "cummin"])
@all_elements
def test_ties(element: gp.ElementKind, kind: str, ties: str) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(-3, 4, (4, 300)).astype(element.dtype)
    dy = values(element, (4, 300), 6)
    got = getattr(gp, f"{kind}_backward")(dy, x, axis=1, ties=ties)
    exact = oracle.along(
        lambda g, v: oracle.extreme_backward(g, v, kind=kind, ties=ties), dy, x, axis=1
    )
    oracle.assert_close(got, exact, oracle.recurrence_depth(300))


@pytest.mark.parametrize("n", [1, 2, 16, 17, 257, 4097])
@all_elements
def test_sparsemax(element: gp.ElementKind, n: int) -> None:
    x = values(element, (5, n), n)
    y = gp.sparsemax(x)
    oracle.assert_close(y, oracle.along(oracle.sparsemax, x, axis=1), 16)
    # Sums of one row's values are 1, up to their roundings.
    total = y.astype(np.longdouble).sum(1)
    assert (np.abs(total - 1) <= (n + 4) * oracle.roundoff(element.dtype)).all()
    dy = values(element, (5, n), n + 1)
    exact = oracle.along(oracle.sparsemax_backward, dy, y, axis=1)
    oracle.assert_close(gp.sparsemax_backward(dy, y), exact, oracle.lane_depth(n) + 4)


@pytest.mark.parametrize(("n", "segments"), [(0, 3), (1, 1), (300, 4), (3000, 2), (500, 900)])
@all_elements
def test_segments_and_tables(element: gp.ElementKind, n: int, segments: int) -> None:
    rng = np.random.default_rng(n)
    x = values(element, (n, 5), n)
    ids = rng.integers(-1, segments + 1, n)
    depth = oracle.segment_depth(n)
    exact = oracle.segment_sum(x, ids, segments)
    got = gp.unsorted_segment_sum(x, ids, segments, bounds="skip")
    oracle.assert_close(got, exact, depth)
    got = gp.embedding_backward(x, ids, segments, bounds="skip")
    oracle.assert_close(got, exact, depth)
    padded = oracle.segment_sum(x, ids, segments, skip=0)
    got = gp.embedding_backward(x, ids, segments, padding_idx=0, bounds="skip")
    oracle.assert_close(got, padded, depth)
    ids.sort()
    got = gp.segment_sum(x, ids, segments, bounds="skip")
    oracle.assert_close(got, oracle.segment_sum(x, ids, segments), depth)


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.25, 0.5, 0.75, 1.0, -2.0, 3.5])
@all_elements
def test_lerp(element: gp.ElementKind, weight: float) -> None:
    a, b = values(element, (400,), 1), values(element, (400,), 2)
    y = gp.lerp(a, b, weight)
    oracle.assert_close(y, oracle.lerp(a, b, weight), 4)
    if weight in (0.0, 1.0):
        assert y.tobytes() == (a if weight == 0 else b).tobytes()


def test_long_sums_do_not_drift() -> None:
    """2^22 times 0.1: a serial f32 loop is off by percents here, the contract's order is not."""
    n = 1 << 22
    x = np.full(n, 0.1, np.float32)
    y = gp.cumsum(x)
    exact = np.arange(1, n + 1) * np.longdouble(x[0])
    relative = np.abs(y.astype(np.longdouble) - exact) / exact
    assert relative.max() < (48 + n / 4096) * oracle.roundoff(np.float32)
    serial = float(np.add.accumulate(x)[-1])
    assert abs(serial / float(exact[-1]) - 1) > 10 * float(relative[-1])


# --- gradients, from the declarations ------------------------------------------------------------

DIFFERENTIABLE = [
    (op, function) for op in OPS.values() if op.gradient is not None for function in op.functions
]
LINEAR = {"lerp", "cumsum", "segment_sum", "unsorted_segment_sum", "embedding"}
differentiable = pytest.mark.parametrize(
    ("op", "function"), DIFFERENTIABLE, ids=[f.name for _, f in DIFFERENTIABLE]
)


class Derivative:
    """An op and its gradient on one problem in f64, tensors by name."""

    def __init__(self, op: Op, function: Function, reverse: bool, seed: int) -> None:
        assert op.gradient is not None
        self.op, self.gradient = op, op.gradient
        backward = op.backward()
        assert backward is not None
        self.backward_op = backward
        fields = self.fields(op, function, reverse)
        self.desc = op.descriptor(**fields)
        # Words as strings: the backward may have an enumeration of its own.
        shared = {
            i.name: v.value if isinstance(v := fields[i.name], enum.Enum) else v
            for i in backward.fields
            if i.name in fields
        }
        self.backward_desc = backward.descriptor(**shared)
        self.rng = np.random.default_rng(seed)
        self.inputs = {o.name: self.value(o) for o in op.operands(self.desc) if o.is_input}

    @staticmethod
    def fields(op: Op, function: Function, reverse: bool) -> dict[str, Any]:
        sizes = {index_axis(op): 40, table_axis(op): 7}
        fields: dict[str, Any] = {**function.fixed}
        for info in op.fields:
            field = info.field
            if isinstance(field, ShapeField):
                fields[info.name] = (3, 41)
            elif isinstance(field, AxisOf):
                fields[info.name] = 1
            elif isinstance(field, SizeField):
                fields[info.name] = sizes.get(info.name, 3)
            elif isinstance(field, IndexInto):
                fields[info.name] = 2
            elif info.name == "reverse":
                fields[info.name] = reverse
            elif info.required and not isinstance(field, Word):
                fields[info.name] = 0.3
        return {**fields, "element": "f64"}

    def value(self, operand: Any) -> Array:
        tensor = self.op.tensor_named[operand.name]
        if tensor.pointers:
            # No empty segments: slopes of what is infinite there say nothing.
            extent = self.op.choices_of(tensor, self.desc)
            inner = self.rng.choice(extent - 1, operand.shape[0] - 2, replace=False) + 1
            return np.array([0, *np.sort(inner), extent])
        if tensor.index:
            ids = self.rng.integers(-1, 8, operand.shape)
            return np.sort(ids)
        # Apart from each other, so that a small step changes no order; and not zero.
        grid = self.rng.permutation(math.prod(operand.shape)).reshape(operand.shape)
        return np.where(grid % 2, 1.0, -1.0) * (0.7 + 0.4 * grid / grid.size)

    def forward(self, inputs: dict[str, Array]) -> dict[str, Array]:
        results = plan_class(self.op).select(self.desc).run(**inputs)
        return self.named(self.op.operands(self.desc), results)

    def backward(self, cotangents: dict[str, Array]) -> dict[str, Array]:
        """The gradients by the name of the input that they belong to."""
        known = {**self.inputs, **self.forward(self.inputs)}
        given = {}
        operands = self.backward_op.operands(self.backward_desc)
        for operand in operands:
            if operand.is_input:
                output = self.gradient.cotangents.get(operand.name)
                given[operand.name] = known[operand.name] if output is None else cotangents[output]
        results = plan_class(self.backward_op).select(self.backward_desc).run(**given)
        return {self.gradient.grads[n]: g for n, g in self.named(operands, results).items()}

    @staticmethod
    def named(operands: Any, results: Any) -> dict[str, Array]:
        names = [o.name for o in operands if not o.is_input]
        return dict(zip(names, results if isinstance(results, tuple) else (results,), strict=True))


def dot(a: dict[str, Array], b: dict[str, Array]) -> float:
    return math.fsum(x for name in a for x in (a[name].astype(float) * b[name]).flat)


@reverses
@differentiable
def test_gradients_equal_slopes(op: Op, function: Function, reverse: bool) -> None:
    """Central differences along random directions, through the engine itself."""
    problem = Derivative(op, function, reverse, seed=1)
    outputs = problem.forward(problem.inputs)
    h = 1e-6
    for seed in range(3):
        rng = np.random.default_rng(seed)
        cotangents = {name: rng.standard_normal(y.shape) for name, y in outputs.items()}
        grads = problem.backward(cotangents)
        direction = {name: rng.standard_normal(g.shape) for name, g in grads.items()}
        ends = [
            problem.forward(
                {
                    **problem.inputs,
                    **{n: problem.inputs[n] + s * h * v for n, v in direction.items()},
                }
            )
            for s in (1, -1)
        ]
        slope = (dot(ends[0], cotangents) - dot(ends[1], cotangents)) / (2 * h)
        scale = sum(float(np.abs(g * direction[n]).sum()) for n, g in grads.items())
        assert abs(slope - dot(grads, direction)) < 1e-7 * scale + 1e-8


@reverses
@pytest.mark.parametrize(
    ("op", "function"),
    [(op, f) for op, f in DIFFERENTIABLE if f.name in LINEAR],
    ids=[f.name for _, f in DIFFERENTIABLE if f.name in LINEAR],
)
def test_linear_ops_and_their_gradients_are_adjoint(
    op: Op, function: Function, reverse: bool
) -> None:
    """<A x, g> = <x, A' g>: exactly, on small integers (a quarter of them for lerp's weight)."""
    problem = Derivative(op, function, reverse, seed=2)
    rng = np.random.default_rng(3)
    for name, x in problem.inputs.items():
        if x.dtype == np.float64:
            problem.inputs[name] = rng.integers(-64, 64, x.shape).astype(float)
    if "param" in problem.desc.__dataclass_fields__:
        fields = {i.name: getattr(problem.desc, i.name) for i in op.fields} | {"param": 0.25}
        problem.desc = op.descriptor(**fields)
        problem.backward_desc = problem.backward_op.descriptor(**fields)
    outputs = problem.forward(problem.inputs)
    cotangents = {n: rng.integers(-64, 64, y.shape).astype(float) for n, y in outputs.items()}
    grads = problem.backward(cotangents)
    assert dot(outputs, cotangents) == dot(grads, problem.inputs)
