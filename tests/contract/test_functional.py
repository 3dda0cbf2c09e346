"""The function layer: every function on every framework, views, options, and its cache."""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from samples import ELEMENTS, all_elements, bits, sample_descriptor, sample_inputs

import gradplan as gp
from gradplan.declaration import OPS
from gradplan.functional import SIGNATURES
from gradplan.plan import plan_class
from gradplan.signatures import Signature

all_functions = pytest.mark.parametrize("name", SIGNATURES)


def arguments(signature: Signature, element: Any) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Inputs and options of a call, and what the plan underneath makes of them."""
    op = signature.op
    desc = sample_descriptor(op, element, **signature.function.fixed)
    tensors = sample_inputs(op, desc)
    inputs = {t.function_name: tensors[t.name] for t in signature.inputs}
    options = {p.name: getattr(desc, p.info.name) for p in signature.parameters}
    return inputs, options, plan_class(op).select(desc).run(**tensors)


def as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.every_op("name")
@all_functions
@all_elements
def test_functions_are_their_plans(
    name: str, element: gp.ElementKind, framework: Callable[[Any], Any], engine: str
) -> None:
    inputs, options, expected = arguments(SIGNATURES[name], element)
    function = getattr(gp, name)
    results = function(**{n: framework(x) for n, x in inputs.items()}, **options)
    for got, want in zip(as_tuple(results), as_tuple(expected), strict=True):
        assert type(got) is type(framework(want))
        assert bits(got) == bits(want)
    # Once more: now the recipe is known.
    given = {**{n: framework(x) for n, x in inputs.items()}, **options}
    order = [n for n, _ in SIGNATURES[name].arguments]  # what is required may stand between tensors
    again = function(*(given[n] for n in order if n in given))
    assert [bits(y) for y in as_tuple(again)] == [bits(y) for y in as_tuple(expected)]


@all_functions
def test_out_is_written_and_returned(
    name: str, framework: Callable[[Any], Any], engine: str
) -> None:
    inputs, options, expected = arguments(SIGNATURES[name], "f32")
    outs = tuple(framework(np.full_like(y, np.nan)) for y in as_tuple(expected))
    given = {n: framework(x) for n, x in inputs.items()}
    call: Callable[[], Any] = lambda: getattr(gp, name)(  # noqa: E731
        **given, **options, out=outs if len(outs) > 1 else outs[0]
    )
    if type(outs[0]).__module__.startswith("jax"):
        with pytest.raises(gp.InvalidProblem, match="expected a tensor that can be written"):
            call()
        return
    for got, out, want in zip(as_tuple(call()), outs, as_tuple(expected), strict=True):
        assert got is out
        assert bits(got) == bits(want)


@all_functions
def test_integers_and_non_tensors_are_refused(name: str, engine: str) -> None:
    inputs, options, _ = arguments(SIGNATURES[name], "f32")
    first = next(iter(inputs))
    function = getattr(gp, name)
    for dtype in (np.int64, np.bool_, np.complex64, np.longdouble):
        wrong = {**inputs, first: inputs[first].astype(dtype)}
        with pytest.raises(gp.Unsupported) as caught:
            function(**wrong, **options)
        assert str(caught.value) == (
            f"{name}: {first}: expected one of float16, bfloat16, float32, float64; "
            f"got {np.dtype(dtype).name}"
        ) + "; convert it with x.astype('float32')" * (np.dtype(dtype).kind in "ib")
    optional = {t.function_name for t in SIGNATURES[name].inputs if t.optional}
    for tensor in inputs:
        for nothing in ([1.0, 2.0], None, 3, "x", object()):
            if nothing is None and tensor in optional:
                continue
            with pytest.raises(gp.InvalidProblem, match=f"{name}: {tensor}: expected a tensor"):
                function(**{**inputs, tensor: nothing}, **options)


# Axes, packs and broadcasting


def test_any_axis_of_any_rank(engine: str) -> None:
    x = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    for axis in range(-3, 3):
        assert (gp.cumsum(x, axis) == np.cumsum(x, axis)).all()
        flipped = np.flip(np.cumsum(np.flip(x, axis), axis), axis)
        assert (gp.cumsum(x, axis=axis, reverse=True) == flipped).all()
    assert gp.cumsum(np.float32(3)).tolist() == 3
    assert gp.cumsum(np.zeros((0, 3), np.float32)).shape == (0, 3)
    deep = np.ones((1,) * 9 + (2, 2), np.float32)
    assert gp.cumsum(deep, axis=9).sum() == 6


def test_rows_have_any_shape(framework: Callable[[Any], Any], engine: str) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    ids = np.array([0, 0, 2, 2])
    sums = gp.segment_sum(framework(x), framework(ids), 3)
    assert tuple(sums.shape) == (3, 3, 2)
    assert np.asarray(sums).tolist() == [x[:2].sum(0).tolist(), [[0, 0]] * 3, x[2:].sum(0).tolist()]
    flat = gp.segment_sum(framework(x[:, 0, 0]), framework(ids), 3)
    assert np.asarray(flat).tolist() == [6, 0, 30]
    back = gp.segment_sum_backward(sums, framework(ids))
    assert (np.asarray(back) == np.asarray(sums)[ids]).all()


def test_indices_have_any_shape(framework: Callable[[Any], Any], engine: str) -> None:
    weight = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    indices = np.array([[2, 0, 1], [1, 1, 2]])
    rows = gp.embedding(framework(weight), framework(indices))
    assert (np.asarray(rows) == weight[indices]).all()
    one = gp.embedding(framework(weight), framework(np.array(2)))
    assert (np.asarray(one) == weight[2]).all()
    gradient = gp.embedding_backward(rows, framework(indices), 3)
    counts = np.array([1, 3, 2], np.float32)[:, None, None]
    assert (np.asarray(gradient) == weight * counts).all()


def test_packed_outputs_are_views(engine: str) -> None:
    weight = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    indices = np.array([[2, 0], [1, 1]])
    big = np.zeros((2, 2, 2, 4), np.float32)
    out = np.zeros((2, 2, 2, 2), np.float32)
    assert gp.embedding(weight, indices, out=out) is out
    assert (out == weight[indices]).all()
    with pytest.raises(gp.InvalidProblem, match="strides that allow a view"):
        gp.embedding(weight, indices, out=big[..., :2])
    with pytest.raises(gp.InvalidProblem, match=r"embedding: out .*expected a tensor of shape"):
        gp.embedding(weight, indices, out=big)
    assert not big.any()


def test_broadcasting(framework: Callable[[Any], Any], engine: str) -> None:
    a, b = np.float32([[0], [8]]), np.float32([4, 12, 20])
    y = gp.lerp(framework(a), framework(b), 0.25)
    assert np.asarray(y).tolist() == [[1, 3, 5], [7, 9, 11]]
    assert np.asarray(gp.lerp(framework(b), framework(np.zeros((), np.float32)), 0.5)).tolist() == [
        2,
        6,
        10,
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gp.cumsum(x, axis=2), r"cumsum: axis: expected an axis of .*got 2"),
        (lambda x: gp.cumsum(x, axis=True), r"cumsum: axis: expected an integer; got True"),
        (lambda x: gp.cumsum(x, axis=None), r"cumsum: axis: expected an integer; got None"),
        (lambda x: gp.cumsum(x, reverse=1), r"cumsum: reverse: expected True or False; got 1"),
        (lambda x: gp.cummax_backward(x, x, ties="all"), r"cummax_backward: ties: .*got 'all'"),
        (lambda x: gp.lerp(x, x, "0.5"), r"lerp: weight: expected a real number; got '0.5'"),
        (lambda x: gp.lerp(x, x[:, :2], 0.5), r"lerp: expected shapes that broadcast"),
        (lambda x: gp.lerp_backward(x, 0.5, out=x), r"lerp_backward: out: expected a tuple of 2"),
        (
            lambda x: gp.segment_sum(x, np.zeros(3, int), 2),
            r"segment_sum: segment_ids: expected num_inputs 2 as in x; got 3",
        ),
        (
            lambda x: gp.segment_sum(x, np.zeros((2, 1), int), 2),
            r"ids: expected shape \[num_inputs\]",
        ),
        (lambda x: gp.segment_sum(x, np.zeros(2, int), -1), r"segment_sum: num_segments: .*got -1"),
        (lambda x: gp.segment_sum(np.float32(1), np.zeros(2, int), 1), r"segment_sum: x: expected"),
        (lambda x: gp.embedding(x, np.zeros(2, int), 7), r"embedding: padding_idx: .*got 7"),
        (lambda x: gp.embedding(x, np.zeros(2, int), bounds=0), r"embedding: bounds: .*got 0"),
        (
            lambda x: gp.embedding_backward(x, np.zeros(3, int), 4),
            r"indices: expected num_indices 2 as in dout; got 3",
        ),
        (
            lambda x: gp.cumprod_backward(x, x[:1], x),
            r"cumprod_backward: x: expected shape \[2, 3\] as in the other tensors",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[Any], Any], message: str, engine: str) -> None:
    x = np.ones((2, 3), np.float32)
    for _ in range(2):  # an error leaves no recipe behind
        with pytest.raises(gp.InvalidProblem, match=message):
            call(x)


# Options


def test_bounds(engine: str) -> None:
    x, ids = np.float32([1, 2, 4]), np.array([0, 5, 1])
    assert gp.unsorted_segment_sum(x, ids, 2, bounds="skip").tolist() == [1, 4]
    out = np.full(2, 7, np.float32)
    for options in ({}, {"bounds": "raise"}):
        with pytest.raises(gp.IndexOutOfRange, match=r"UnsortedSegmentSumPlan.*1.*5"):
            gp.unsorted_segment_sum(x, ids, 2, **options, out=out)
        assert out.tolist() == [7, 7]
    with pytest.raises(gp.InvalidProblem, match="SegmentSumPlan"):
        gp.segment_sum(x, np.array([1, 0, 1]), 2)


def test_accumulate(engine: str) -> None:
    dout, indices = np.float32([[1], [2]]), np.array([1, 1])
    assert gp.embedding_backward(dout, indices, 2, accumulate=True).tolist() == [[0], [3]]
    out = np.float32([[5], [5]])
    assert gp.embedding_backward(dout, indices, 2, accumulate=True, out=out) is out
    assert out.tolist() == [[5], [8]]
    assert gp.embedding_backward(dout, indices, 2, out=out).tolist() == [[0], [3]]


def test_a_new_tensor_to_add_to_starts_at_zero(engine: str) -> None:
    torch = pytest.importorskip("torch")
    dout, indices = torch.tensor([[1.0], [2.0]]), torch.tensor([1, 1])
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # what is not initialised is NaN then
    try:
        for _ in range(2):  # the first call may go another way than the others
            made = gp.embedding_backward(dout, indices, 2, accumulate=True)
            assert made.tolist() == [[0], [3]]
    finally:
        torch.use_deterministic_algorithms(before)


def test_ties_and_enumerations(engine: str) -> None:
    dy, x = np.ones(3, np.float32), np.float32([2, 2, 1])
    assert gp.cummax_backward(dy, x).tolist() == [3, 0, 0]
    assert gp.cummax_backward(dy, x, ties=gp.Ties.LAST).tolist() == [1, 2, 0]
    assert gp.cummax_backward(dy, x, ties="last").tolist() == [1, 2, 0]


# The cache


def test_the_sign_of_a_zero_weight_counts(engine: str) -> None:
    minus = np.float32([-0.0])
    for weight, sign in [(0.0, False), (-0.0, True), (0, False), (-0.0, True)]:
        assert np.signbit(gp.lerp_backward(-minus, weight)[1])[0] == sign


def test_an_option_that_changes_in_place_is_read_again(engine: str) -> None:
    torch = pytest.importorskip("torch")
    a, b = np.float32([0]), np.float32([4])
    weight = torch.tensor(0.25)
    assert gp.lerp(a, b, weight).tolist() == [1]
    weight.fill_(0.5)
    assert gp.lerp(a, b, weight).tolist() == [2]
    count = torch.tensor(1)
    ids = np.array([0])
    assert gp.segment_sum(b, ids, count).shape == (1,)
    count.fill_(3)
    assert gp.segment_sum(b, ids, count).shape == (3,)
    boxed = np.array(0.25)
    assert gp.lerp(a, b, boxed).tolist() == [1]
    boxed[()] = 0.5
    assert gp.lerp(a, b, boxed).tolist() == [2]


def test_the_cache_is_bounded(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    globals_ = gp.cummin.__globals__
    monkeypatch.setitem(globals_, "limit", 10)
    for n in range(50):
        assert gp.cummin(np.zeros(n, np.float32)).shape == (n,)
        assert len(globals_["calls"]) <= 10


def test_cached_calls_do_not_outlive_their_engine() -> None:
    from gradplan.engines import BoundKernel, registered
    from gradplan.engines.reference import ReferenceEngine

    class Sevens(ReferenceEngine):
        name, automatic = "sevens", True

        def bind(self, op: Any, desc: Any) -> BoundKernel:
            return BoundKernel(lambda *args: args[-2].fill(7))

    class Right(ReferenceEngine):
        name, automatic = "right", True

    x = np.float32([1, 2])
    with registered(Right(), first=True):
        assert gp.cumsum(x).tolist() == [1, 3]
        with registered(Sevens(), first=True):
            assert gp.cumsum(x).tolist() == [7, 7]
        assert gp.cumsum(x).tolist() == [1, 3]


# Documentation


@all_functions
def test_functions_explain_themselves(name: str) -> None:
    function, signature = getattr(gp, name), SIGNATURES[name]
    doc = function.__doc__
    assert function.__module__ == "gradplan" and function.__name__ == name
    for argument in [t.function_name for t in signature.inputs] + ["out"]:
        assert f"    {argument}: " in doc
    for parameter in signature.parameters:
        assert f"    {parameter.name}: {parameter.info.doc}" in doc and parameter.info.doc
    assert "Returns:" in doc and ">>> gp." in doc


def run_examples(owner: Any, name: str) -> int:
    runner = doctest.DocTestRunner()
    finder = doctest.DocTestFinder(exclude_empty=False)
    for example in finder.find(owner, name, extraglobs={"np": np, "gp": gp}):
        output: list[str] = []
        runner.run(example, out=output.append)
        assert not output, "".join(output)
    return runner.tries


@all_functions
def test_the_examples_of_functions_are_true(name: str, engine: str) -> None:
    assert run_examples(getattr(gp, name), name) > 0


def own_modules() -> list[str]:
    """By file, because finding them through importlib would import the bridges' frameworks."""
    root = Path(gp.__path__[0])
    paths = [path.relative_to(root.parent).with_suffix("") for path in sorted(root.rglob("*.py"))]
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    others = ("gradplan.torch", "gradplan.jax", "gradplan.engines.cuda", "gradplan.__main__")
    return [name for name in names if not name.startswith(others)]


@pytest.mark.parametrize("name", own_modules())
def test_the_examples_of_modules_are_true(name: str, engine: str) -> None:
    module: ModuleType = importlib.import_module(name)
    run_examples(module, name)


def test_every_declaration_is_documented() -> None:
    for op in OPS.values():
        assert op.doc and op.descriptor.__doc__ and plan_class(op).__doc__
        assert all(t.doc for t in op.tensors)
        assert all(i.doc for i in op.fields)
    assert len(ELEMENTS) == 4
