"""What a declaration can say, shown on six ops that have a declaration and a reference, no more."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pytest
from six_ops import SIX, declared

import gradplan as gp
from gradplan.cases import cases
from gradplan.certify import certify_line
from gradplan.declaration import (
    OPS,
    AxisRole,
    Descriptor,
    Function,
    Gradient,
    Kind,
    Only,
    Op,
    Shape,
    reads,
    writes,
)
from gradplan.engines import ENGINES
from gradplan.plan import plan_class
from gradplan.reference import operation
from gradplan.vocabulary import ElementKind, OpCategory


@pytest.fixture(autouse=True)
def six() -> Iterator[None]:
    with declared(*SIX):
        yield


def _function(name: str) -> Any:
    return getattr(gp, name)


NAMES = [declare.__name__ for declare in SIX]


def test_signatures_follow_from_the_declarations() -> None:
    signatures = {name: str(inspect.signature(_function(name))) for name in NAMES}
    assert signatures == {
        "running_max": "(x, axis=-1, *, out=None)",
        "pooled_rows": "(input, indptr, weights=None, *, out=None)",
        "bag": "(weight, indices, kept, offsets, factors=None, *, out=None)",
        "rms_norm": "(x, scale, axis=-1, *, out=None)",
        "cross_entropy": "(logits, target, class_weights=None, axis=-1, *, out=None)",
        "leaky_sum": "(a, b, initial=None, axis=-1, *, out=None)",
    }


def test_an_output_may_be_indices() -> None:
    y, position = _function("running_max")(np.float32([[1, 3, 2], [5, 4, 6]]))
    assert y.tolist() == [[1, 3, 3], [5, 5, 6]] and y.dtype == np.float32
    assert position.tolist() == [[0, 1, 1], [0, 0, 2]] and position.dtype == np.int64
    mine = np.zeros((2, 3), np.int32)  # the other type of indices, for somebody who wants it
    with pytest.raises(gp.InvalidProblem, match="position"):
        _function("running_max")(np.zeros((2, 3), np.float32), out=(y, mine.astype(np.float32)))


def test_pointers_have_one_more_and_weights_may_be_left_out() -> None:
    x, ends = np.float32([[1], [2], [4]]), np.array([0, 2, 2, 3])
    pooled = _function("pooled_rows")
    assert pooled(x, ends).tolist() == [[3], [0], [4]]
    assert pooled(x, ends, np.float32([1, 10, 100])).tolist() == [[21], [0], [400]]
    assert pooled(x, ends).tolist() == [[3], [0], [4]]  # not the call that was remembered last
    with pytest.raises(gp.InvalidProblem, match=r"indptr: expected shape \[num_segments \+ 1\]"):
        pooled(x, np.zeros(0, np.int64))
    with pytest.raises(gp.InvalidProblem, match="weights: expected num_inputs 3"):
        pooled(x, ends, np.float32([1, 2]))


def test_several_index_tensors_of_an_op() -> None:
    table, ids = np.float64([[1], [10], [100]]), np.array([0, 2, 2])
    bag = _function("bag")
    ends = np.array([0, 1, 3], np.int32)
    assert bag(table, ids, np.array([1, 1, 1]), ends).tolist() == [[1], [200]]
    assert bag(table, ids, np.array([1, 0, 1]), ends).tolist() == [[1], [100]]
    assert bag(table, ids, ids, ends, np.float64([1, 2, 3])).tolist() == [[0], [500]]


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_a_row_statistic_has_the_compute_type(element: str) -> None:
    kind = ElementKind(element)
    x = np.array([[3, 4], [6, 8]], kind.dtype)
    y, rstd = _function("rms_norm")(x, np.array([1, 2], kind.dtype))
    assert rstd.dtype == kind.compute.dtype and rstd.shape == (2,)
    assert y.dtype == kind.dtype
    assert np.allclose(np.float64(rstd), [12.5**-0.5, 50**-0.5], rtol=1e-3)
    assert np.allclose(np.float64(y), [[0.8485, 2.2627]] * 2, rtol=1e-2)
    grads = _function("rms_norm_backward")(x, x, np.array([1, 2], kind.dtype), rstd)
    assert [g.shape for g in grads] == [(2, 2), (2,)]
    if element == "bf16":
        with pytest.raises(gp.InvalidProblem, match="'rstd': expected element type float32"):
            _function("rms_norm_backward")(
                x, x, np.array([1, 2], kind.dtype), rstd.astype(kind.dtype)
            )


def test_indices_of_any_rank_into_the_axis_that_is_worked_along() -> None:
    logits = np.zeros((2, 3, 4), np.float32)
    target = np.zeros((2, 4), np.int32)
    loss, total = _function("cross_entropy")(logits, target, axis=1)
    assert loss.shape == total.shape == (2, 4)
    assert np.allclose(loss, np.log(3))
    weighted, _ = _function("cross_entropy")(logits, target, np.float32([2, 1, 1]), axis=1)
    assert np.allclose(weighted, 2 * np.log(3))
    with pytest.raises(gp.InvalidProblem, match=r"target: expected shape \[2, 4\]; got \[2, 3\]"):
        _function("cross_entropy")(logits, np.zeros((2, 3), np.int32), axis=1)


def test_an_optional_input_without_an_axis() -> None:
    a, b = np.float64([[1, 2], [3, 4]]), np.ones((2, 2))
    scan = _function("leaky_sum")
    assert scan(a, b).tolist() == [[1, 3], [1, 5]]
    assert scan(a, b, np.float64([1, 0])).tolist() == [[2, 5], [1, 5]]
    assert scan(a, b, np.float64([1, 0]), axis=0).tolist() == [[2, 1], [7, 5]]
    plan = plan_class(OPS["leaky_sum"]).select(
        OPS["leaky_sum"].descriptor(input_shape=(2, 2), axis=0, element="f64")
    )
    assert plan.run(a=a, b=b).tolist() == [[1, 1], [4, 5]]
    with pytest.raises(gp.InvalidProblem, match=r"initial \(optional\)"):
        plan.run(a=a)


@pytest.mark.parametrize("name", [*NAMES, "rms_norm_backward"])
def test_canonical_problems_and_their_lines_follow_from_axis_roles(name: str) -> None:
    """Certified against themselves: layouts, both index types, and lines alone."""
    op = OPS[name]
    for element in ("f32", "bf16"):
        line = certify_line(op, op.functions[0], ElementKind(element), ENGINES["reference"])
        assert line.error == "" and line.difference is None, str(line)
        assert line.golden == "missing" and line.checked["layouts"] > 0
        alone = line.checked["batch"]
        # Where an output is summed over the batch, or only rows are there, no line stands alone.
        assert (alone > 0) == (name != "rms_norm_backward")
    given = [set(case.tensors) for case in cases(op, op.functions[0], ElementKind.F32)]
    optional = {t.name for t in op.inputs if t.optional}
    assert all(any(o in g for g in given) and any(o not in g for g in given) for o in optional)


def test_roles_say_what_an_axis_is() -> None:
    op = OPS["rms_norm"]
    desc = op.descriptor(input_shape=(2, 3, 4), axis=1, element="f32")
    batch, worked = AxisRole.BATCH, AxisRole.ALONG
    roles = {t.name: [a.role for a in op.axes_of(t, desc)] for t in op.tensors}
    assert roles == {
        "x": [batch, worked, batch],
        "scale": [worked],
        "y": [batch, worked, batch],
        "rstd": [batch, batch],
    }
    op = OPS["bag"]
    desc = op.descriptor(num_embeddings=5, dim=2, num_indices=7, num_bags=3, element="f32")
    rows, features = AxisRole.ROWS, AxisRole.FEATURES
    assert [a.role for a in op.axes_of(op.tensor_named["weight"], desc)] == [rows, features]
    assert [a.role for a in op.axes_of(op.tensor_named["offsets"], desc)] == [rows]
    assert op.choices_of(op.tensor_named["offsets"], desc) == 7


def test_a_line_that_is_not_independent_is_noticed() -> None:
    """The negative control of the check above: a result that leaks from one row into another."""
    op = OPS["running_max"]
    honest = gp.reference.FUNCTIONS["running_max"]

    def leaking(x: Any, *, axis: int) -> Any:
        y, position = honest(x, axis=axis)
        return (y + y.dtype.type(x.size), position)

    gp.reference.FUNCTIONS["running_max"] = leaking
    line = certify_line(op, op.functions[0], ElementKind.F64, ENGINES["reference"])
    assert line.difference is not None and line.difference.variation == "a line alone"


def test_a_gradient_that_reads_saved_numbers_needs_a_rule() -> None:
    class CubeDescriptor(Descriptor):
        shape: Annotated[Shape, "the shape"]
        element: Annotated[ElementKind, "the element type"]

    class CubeBackwardDescriptor(CubeDescriptor):
        pass

    def forward() -> Op:
        return Op(
            CubeDescriptor,
            OpCategory.BINARY,
            "x cubed.",
            tensors=(reads("x", "shape", doc="x"), writes("y", "shape", doc="its cube")),
            functions=(Function("cube", "x cubed."),),
            gradient=Gradient("cube_backward", {"dy": "y"}, {"dx": "x"}),
        )

    def backward() -> Op:
        return Op(
            CubeBackwardDescriptor,
            OpCategory.BINARY,
            "3 x x dy.",
            tensors=(
                reads("dy", "shape", doc="the gradient of y"),
                reads("x", "shape", doc="x"),
                writes("dx", "shape", doc="the gradient of x"),
            ),
            functions=(Function("cube_backward", "Gradient of `cube`."),),
        )

    for first, second in ((forward, backward), (backward, forward)):
        with declared(first), pytest.raises(TypeError, match="cube: its gradient reads x"):
            second()
    assert "cube" not in OPS and "cube_backward" not in OPS


def test_outputs_without_gradient_come_last() -> None:
    class IndexFirstDescriptor(Descriptor):
        shape: Annotated[Shape, "the shape"]
        element: Annotated[ElementKind, "the element type"]

    with pytest.raises(TypeError, match="outputs without gradient come behind those with one"):
        Op(
            IndexFirstDescriptor,
            OpCategory.BINARY,
            "Positions before values.",
            tensors=(
                reads("x", "shape", doc="x"),
                writes("at", "shape", kind=Kind.INDEX, doc="positions"),
                writes("y", "shape", doc="values"),
            ),
            functions=(Function("index_first", "Positions before values."),),
        )
    assert "index_first" not in OPS


def test_how_many_results_a_function_has_is_known_beforehand() -> None:
    class MaybeDescriptor(Descriptor):
        shape: Annotated[Shape, "the shape"]
        more: Annotated[bool, "whether there is a second result"] = False
        element: Annotated[ElementKind, "the element type"]

    def declare(*functions: Function) -> Op:
        return Op(
            MaybeDescriptor,
            OpCategory.BINARY,
            "One result or two.",
            tensors=(
                reads("x", "shape", doc="x"),
                writes("y", "shape", doc="x again"),
                writes("z", "shape", doc="and again", when=Only(more={True})),
            ),
            functions=functions,
        )

    with pytest.raises(TypeError, match=r"z depends on \['more'\], which a function must fix"):
        declare(Function("maybe", "One or two."))

    def maybe() -> None:
        @operation
        def maybe(x: Any, *, more: bool) -> Any:
            return (x.copy(), x.copy()) if more else x.copy()

        declare(
            Function("once", "One.", fixed={"more": False}),
            Function("twice", "Two.", fixed={"more": True}),
        )

    with declared(maybe):
        x = np.float32([1, 2])
        assert _function("once")(x).tolist() == [1, 2]
        assert [z.tolist() for z in _function("twice")(x)] == [[1, 2], [1, 2]]


def test_an_op_without_a_kernel_is_served_by_the_reference_and_says_so() -> None:
    op = OPS["leaky_sum"]
    desc = op.descriptor(input_shape=(3,), axis=0, element="f32")
    plan = plan_class(op).select(desc)
    assert plan.engine == "reference" and "/reference/" in str(plan.sku)
    with pytest.raises(gp.Unsupported, match="cpu: no kernel for leaky_sum"):
        plan_class(op).select(desc, gp.PlanPreference(engine="cpu"))
    # An op that has a kernel is never served by it unasked.
    scan = gp.ScanDescriptor(kind="cumsum", input_shape=(2,), scan_axis=0, element="f32")
    with pytest.raises(gp.Unsupported, match=r"reference: takes tensors on cpu; these are on cuda"):
        gp.ScanPlan.select(scan, device="cuda")
