"""The reference's functions together: gradients, inputs, choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from oracle import Array
from reference_cases import EXTREMES, KINDS, f32, random

from gradplan import reference
from gradplan.declaration import OPS
from gradplan.vocabulary import InvalidProblem

Forward: TypeAlias = Callable[[Array], Array]
Backward: TypeAlias = Callable[[Array, Array], Array]


def smooth_operations(n: int) -> dict[str, tuple[Forward, Backward, Array]]:
    """Forward, backward and a point where the operation is differentiable; all on rows of n."""
    rng = random("smooth", n)
    operations: dict[str, tuple[Forward, Backward, Array]] = {}
    for kind in KINDS:
        x = rng.standard_normal(n)
        if kind == "cumprod":
            x = 1 + 0.1 * x

        def forward(x: Array, kind: str = kind) -> Array:
            return reference.scan(x, kind=kind, scan_axis=-1)

        def backward(dy: Array, x: Array, kind: str = kind) -> Array:
            y = reference.scan(x, kind=kind, scan_axis=-1)
            return reference.scan_backward(dy, x, y, kind=kind, scan_axis=-1)

        operations[kind] = forward, backward, x
    operations["sparsemax"] = (
        lambda x: reference.sparsemax(x, softmax_axis=-1),
        lambda dy, x: reference.sparsemax_backward(
            dy, reference.sparsemax(x, softmax_axis=-1), softmax_axis=-1
        ),
        rng.standard_normal(n),
    )
    return operations


@pytest.mark.parametrize("n", [1, 40, 300])
@pytest.mark.parametrize("name", [*KINDS, "sparsemax"])
def test_gradient_equals_numerical_differentiation(name: str, n: int) -> None:
    forward, backward, x = smooth_operations(n)[name]
    dy = random(name, n).standard_normal(n)
    h = 1e-6
    step = h * np.eye(n)
    numerical = ((forward(x + step) - forward(x - step)) / (2 * h)) @ dy
    np.testing.assert_allclose(backward(dy, x), numerical, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n", [17, 257, 4097])
@pytest.mark.parametrize("name", [*KINDS, "sparsemax"])
def test_adjoint_identity(name: str, n: int) -> None:
    """<dy, J v> = <J^T dy, v>, with J v from a central difference."""
    forward, backward, x = smooth_operations(n)[name]
    rng = random(name, n)
    dy, v = rng.standard_normal(n), rng.standard_normal(n)
    h = 1e-7
    if name == "cumprod":
        x = 1 + (x - 1) / n
    if name in EXTREMES:  # keep the records apart by more than the step
        x = rng.permutation(n).astype(np.float64)
    jv = (forward(x + h * v) - forward(x - h * v)) / (2 * h)
    right = backward(dy, x) * v
    assert abs(np.dot(dy, jv) - right.sum()) <= 1e-6 * (np.abs(dy * jv).sum() + 1)


def test_adjoint_identity_is_exact_for_linear_operations() -> None:
    """On small integers nothing rounds, so the two sides are equal."""
    rng = random("linear")

    def integers(*shape: int) -> Array:
        return rng.integers(-9, 10, shape).astype(np.float32)

    x, dy = integers(5000), integers(5000)
    for reverse in (False, True):
        y = reference.scan(x, kind="cumsum", scan_axis=0, reverse=reverse)
        dx = reference.scan_backward(dy, kind="cumsum", scan_axis=0, reverse=reverse)
        assert np.dot(y.astype(np.float64), dy) == np.dot(dx.astype(np.float64), x)

    ids = rng.integers(-1, 8, 900)
    values, d_output = integers(900, 3), integers(7, 3)
    sums = reference.unsorted_segment_sum(values, ids, num_segments=7)
    back = reference.segment_sum_backward(d_output, ids)
    assert (sums * d_output).sum() == (back * values).sum()

    weight, dout = integers(7, 3), integers(900, 3)
    rows = reference.embedding(weight, ids, padding_idx=2)
    dweight = reference.embedding_backward(dout, ids, num_embeddings=7, padding_idx=2)
    assert (rows * dout).sum() == (dweight * weight).sum()

    a, b, g = integers(50), integers(50), integers(50)
    da, db = reference.binary_param_backward(g, param=0.25)
    assert (reference.binary_param(a, b, param=0.25) * g).sum() == (a * da + b * db).sum()


def test_inputs_are_left_alone_and_results_are_fresh() -> None:
    x = f32([[1, 2], [3, 4]])
    ids = np.array([0, 1])
    x.flags.writeable = False
    results = [
        *(reference.scan(x, kind=kind, scan_axis=0) for kind in KINDS),
        *(reference.scan_backward(x, x, x, kind=kind, scan_axis=0) for kind in KINDS),
        reference.segment_sum(x, ids, num_segments=2),
        reference.segment_sum_backward(x, ids),
        reference.embedding(x, ids),
        reference.embedding_backward(x, ids, num_embeddings=2, accumulate=True, dweight=x),
        reference.binary_param(x, x, param=0.5),
        *reference.binary_param_backward(x, param=0.5),
        reference.sparsemax(x, softmax_axis=0),
        reference.sparsemax_backward(x, x, softmax_axis=0),
        reference.linear_scan(x, x, x[0], scan_axis=0),
        *reference.linear_scan_backward(x, x, x, x[0], scan_axis=0),
    ]
    for result in results:
        assert result.flags.writeable and not np.shares_memory(result, x)


def test_functions_is_every_operation() -> None:
    assert all(
        reference.FUNCTIONS[name] is getattr(reference, name) for name in reference.FUNCTIONS
    )
    assert set(reference.FUNCTIONS) == set(OPS) and len(OPS) >= 11


def test_unknown_choices_are_refused() -> None:
    x = f32([1])
    ids = np.array([0])
    calls: list[Callable[[], Any]] = [
        lambda: reference.scan(x, kind="cumsums", scan_axis=0),
        lambda: reference.scan_backward(x, x, kind="cummax", scan_axis=0, ties="middle"),
        lambda: reference.scan_backward(x, kind="cumprod", scan_axis=0),
        lambda: reference.segment_sum(x, ids, num_segments=1, bounds="wrap"),
        lambda: reference.binary_param(x, x, kind="slerp", param=0.5),
        lambda: reference.embedding_backward(x, ids, num_embeddings=1, accumulate=True),
        lambda: reference.scan(np.array([1]), kind="cumsum", scan_axis=0),
    ]
    for call in calls:
        with pytest.raises(InvalidProblem):
            call()
