"""Declarations are claims: these tests check that they hold, for every op, without naming any."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from samples import (
    ELEMENTS,
    REFERENCE,
    all_elements,
    all_ops,
    sample_descriptor,
    sample_descriptors,
    sample_inputs,
)

import gradplan as gp
from gradplan.declaration import (
    OPS,
    Descriptor,
    FieldInfo,
    Function,
    Op,
    reads,
    withdraw,
    writes,
)
from gradplan.declaration.fields import (
    AxisOf,
    Fill,
    Flag,
    IndexInto,
    Real,
    Shape,
    ShapeField,
    SizeField,
    Word,
)
from gradplan.engines import BoundKernel, Engine, cpu, registered
from gradplan.functions import make_function
from gradplan.plan import plan_class
from gradplan.reference import FUNCTIONS
from gradplan.signatures import Signature

PLANS = [
    *("SegmentSum", "UnsortedSegmentSum", "SegmentSumBackward"),
    *("Embedding", "EmbeddingBackward"),
    *("BinaryParam", "BinaryParamBackward"),
    *("Scan", "ScanBackward"),
    *("Sparsemax", "SparsemaxBackward"),
    *("LinearScan", "LinearScanBackward"),
]

SIGNATURES = """
cumsum(x, axis=-1, reverse=False, exclusive=False, *, out=None)
cumprod(x, axis=-1, reverse=False, exclusive=False, *, out=None)
cummax(x, axis=-1, reverse=False, exclusive=False, *, out=None)
cummin(x, axis=-1, reverse=False, exclusive=False, *, out=None)
logcumsumexp(x, axis=-1, reverse=False, exclusive=False, *, out=None)
cumsum_backward(dy, axis=-1, reverse=False, exclusive=False, *, out=None)
cumprod_backward(dy, x, y, axis=-1, reverse=False, exclusive=False, *, out=None)
cummax_backward(dy, x, axis=-1, reverse=False, ties='first', exclusive=False, *, out=None)
cummin_backward(dy, x, axis=-1, reverse=False, ties='first', exclusive=False, *, out=None)
logcumsumexp_backward(dy, x, y, axis=-1, reverse=False, exclusive=False, *, out=None)
segment_sum(x, segment_ids, num_segments, bounds='raise', *, out=None)
unsorted_segment_sum(x, segment_ids, num_segments, bounds='raise', *, out=None)
segment_sum_backward(d_output, segment_ids, bounds='raise', *, out=None)
embedding(weight, indices, padding_idx=None, bounds='raise', *, out=None)
embedding_backward(dout, indices, num_embeddings, padding_idx=None, accumulate=False, \
bounds='raise', *, out=None)
lerp(a, b, weight, *, out=None)
lerp_backward(dy, weight, *, out=None)
sparsemax(x, axis=-1, *, out=None)
sparsemax_backward(dy, y, axis=-1, *, out=None)
linear_scan(a, b, initial=None, axis=-1, reverse=False, exclusive=False, *, out=None)
linear_scan_backward(dh, a, h, initial=None, axis=-1, reverse=False, exclusive=False, *, out=None)
"""


def test_the_plans_are_there() -> None:
    """Public names do not change by accident; the stubs, which are reviewed, have those to come."""
    assert {op.title for op in OPS.values()} >= set(PLANS)
    for name in PLANS:
        assert getattr(gp, f"{name}Plan").op is OPS[getattr(gp, f"{name}Plan").op.name]
        assert issubclass(getattr(gp, f"{name}Descriptor"), gp.Descriptor)


def test_functions_have_the_documented_signatures() -> None:
    lines = SIGNATURES.split("\n")[1:-1]
    actual = [f"{n}{inspect.signature(getattr(gp, n))}" for n in gp.functional.__all__]
    assert set(actual) >= set(lines)


def test_everything_is_exported_once() -> None:
    assert len(gp.__all__) == len(set(gp.__all__))
    for name in gp.__all__:
        assert hasattr(gp, name)


# Descriptors


@all_ops
def test_descriptors_are_frozen_values(op: Op) -> None:
    desc = sample_descriptor(op)
    same = sample_descriptor(op, gp.ElementKind.F32)
    assert desc == same and hash(desc) == hash(same) and desc is not same
    assert {desc: 1}[same] == 1
    assert desc != sample_descriptor(op, "f64")
    assert desc != object()
    with pytest.raises(dataclasses.FrozenInstanceError):
        desc.element = gp.ElementKind.F64  # type: ignore[misc]
    assert dataclasses.replace(desc, element="f64") == sample_descriptor(op, "f64")
    assert pickle.loads(pickle.dumps(desc)) == copy.deepcopy(desc) == desc
    assert repr(desc).startswith(op.descriptor.__name__)
    with pytest.raises(TypeError):
        op.descriptor("f32")  # type: ignore[call-arg]


@all_ops
def test_descriptors_of_different_ops_differ(op: Op) -> None:
    for other in OPS.values():
        assert (sample_descriptor(op) == sample_descriptor(other)) == (op is other)


@all_ops
def test_an_undeclared_element_is_refused(op: Op) -> None:
    undeclared = set(gp.ElementKind) - op.descriptor.elements
    assert undeclared
    for kind in undeclared:
        with pytest.raises(gp.Unsupported, match=f"{op.descriptor.__name__}: element: .*{kind}"):
            sample_descriptor(op, kind.value)


# The first one that fits a field counts: None is a Fill, but no other Real.
WRONG: dict[type, list[Any]] = {
    SizeField: [-1, 1.5, "3", None, True, 2**63],
    ShapeField: [5, "ab", (2, -1), (2, 1.5), None, (True,)],
    AxisOf: [2, -3, 1.0, None, "x", True],
    Word: ["nonsense", None, 0, "F32"],
    Flag: [0, 1, "yes", None],
    Fill: ["0.5", 1j, True],
    Real: ["0.5", None, 1j, True],
    IndexInto: [-1, 10**6, 0.5, "0", True],
}


@all_ops
def test_a_wrong_field_is_named(op: Op) -> None:
    for info in op.fields:
        kinds = [cls for cls in WRONG if isinstance(info.field, cls)]
        assert kinds, info
        for wrong in WRONG[kinds[0]]:
            with pytest.raises(gp.InvalidProblem) as caught:
                sample_descriptor(op, **{info.name: wrong})
            message = str(caught.value)
            assert message.startswith(f"{op.descriptor.__name__}: {info.name}: expected ")
            assert re.search(rf"got {re.escape(repr(wrong))}(; did you mean '\w+'\?)?$", message)


@all_ops
def test_fields_accept_what_other_libraries_call_numbers(op: Op) -> None:
    numbers = {SizeField: np.int32(4), AxisOf: np.int64(-2), Flag: np.bool_(True), Real: 1}
    numbers |= {ShapeField: [np.int64(2), 3], IndexInto: np.uint8(1)}  # type: ignore[dict-item]
    for info in op.fields:
        for cls, value in numbers.items():
            if isinstance(info.field, cls):
                stored = getattr(sample_descriptor(op, **{info.name: value}), info.name)
                assert type(stored) in (int, bool, float, tuple)


@all_ops
def test_axes_count_from_the_end_and_rank_0_is_a_row(op: Op) -> None:
    for info in op.fields:
        if isinstance(info.field, AxisOf):
            for shape, axis, stored in [
                ((2, 5, 3), -3, 0),
                ((2, 5, 3), 2, 2),
                ((), -1, 0),
                ((), 0, 0),
            ]:
                fields = {info.field.shape: shape, info.name: axis}
                assert getattr(sample_descriptor(op, **fields), info.name) == stored
            with pytest.raises(gp.InvalidProblem, match="-1 to 0"):
                sample_descriptor(op, **{info.field.shape: (), info.name: 1})


@all_ops
def test_signed_zeros_differ_and_nans_agree(op: Op) -> None:
    for info in op.fields:
        if isinstance(info.field, Real):
            zero, minus = (sample_descriptor(op, **{info.name: w}) for w in (0.0, -0.0))
            assert zero != minus
            nan = [sample_descriptor(op, **{info.name: float("nan")}) for _ in range(2)]
            assert nan[0] == nan[1] and hash(nan[0]) == hash(nan[1])
            assert plan_class(op).select(nan[0], REFERENCE) is plan_class(op).select(
                nan[1], REFERENCE
            )


@all_ops
def test_a_problem_that_no_address_space_holds_is_refused(op: Op) -> None:
    huge = {
        i.name: (2**31, 2**31) if isinstance(i.field, ShapeField) else 2**31
        for i in op.fields
        if isinstance(i.field, (ShapeField, SizeField))
    }
    with pytest.raises(gp.InvalidProblem, match="2\\^63"):
        plan_class(op).select(sample_descriptor(op, "f64", **huge), REFERENCE)


# Relations


@all_ops
def test_gradients_fit_their_forward(op: Op) -> None:
    backward = op.backward()
    if op.gradient is None or backward is None:
        return
    forward_tensors = {t.name: t for t in op.tensors}
    own = {*op.gradient.cotangents, *op.gradient.grads}
    for tensor in backward.tensors:
        relation = {**op.gradient.cotangents, **op.gradient.grads}
        twin = forward_tensors[relation.get(tensor.name, tensor.name)]
        assert tensor.axes == twin.axes and tensor.index == twin.index
        assert tensor.is_input == (tensor.name not in op.gradient.grads)
        assert tensor.name in own or tensor.name in forward_tensors
    names = {info.name for info in backward.fields}
    for info in op.fields:
        assert info.name in names or only_chooses_constants(op, info), info.name
    assert all(not i.required for i in backward.fields if i.name not in {f.name for f in op.fields})


def only_chooses_constants(op: Op, info: FieldInfo) -> bool:
    """Whether all that a field changes are elements of the outputs that no input has a part in.

    A gradient may do without such a field, and without no other.
    """
    if info.required or not info.is_attribute:
        return False
    changes = False
    for desc in sample_descriptors(op):
        inputs = sample_inputs(op, desc)
        # No input is anywhere near what it was.
        moved = {n: x if op.tensor_named[n].index else x + 2 for n, x in inputs.items()}
        first, *others = [
            plan_class(op).select(dataclasses.replace(desc, **{info.name: value}), REFERENCE)
            for value in info.field.variants({})
        ]
        for other in others:
            y, z = _results(first, inputs), _results(other, inputs)
            differ = [a != b for a, b in zip(y, z, strict=True)]
            changes |= any(map(np.any, differ))
            for plan, was in ((first, y), (other, z)):
                now = _results(plan, moved)
                if any((a != b)[d].any() for a, b, d in zip(now, was, differ, strict=True)):
                    return False
    return changes


def _results(plan: Any, inputs: dict[str, Any]) -> tuple[Any, ...]:
    made = plan.run(**inputs)
    return made if isinstance(made, tuple) else (made,)


@all_ops
def test_every_op_has_a_reference_that_takes_what_is_declared(op: Op) -> None:
    takes = set(inspect.signature(FUNCTIONS[op.name]).parameters)
    known = {t.name for t in op.tensors} | {i.name for i in op.fields}
    assert takes <= known
    assert {t.name for t in op.inputs} | {i.name for i in op.attributes} <= takes


@pytest.mark.skipif(not cpu.isa_builds(), reason="no build beside these sources")
@pytest.mark.parametrize("isa", cpu.supported_isas())
def test_the_kernels_take_what_is_declared(isa: str) -> None:
    signatures = cpu.load(isa).gradplan_signatures()
    assert set(signatures) == set(OPS)
    for name, op in OPS.items():
        known = signatures[name]
        assert list(known["tensors"]) == [t.name for t in op.tensors]
        assert sorted(known["attributes"]) == sorted(i.name for i in op.attributes)


def test_the_stubs_are_current() -> None:
    tool = Path(__file__).resolve().parents[2] / "tools" / "stubs.py"
    result = subprocess.run(
        [sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


# What plans say about themselves


@all_ops
@all_elements
def test_skus_parse_back_and_guarantees_are_true(op: Op, element: gp.ElementKind) -> None:
    for desc in sample_descriptors(op, element):
        plan = plan_class(op).select(desc, REFERENCE)
        assert gp.KernelSku.parse(str(plan.sku)) == plan.sku
        assert plan.sku.op == op.function_for(desc).name
        assert plan.sku.element is element
        assert (plan.sku.aux_element is None) == (not op.has_indices)
        guarantee = plan.precision_guarantee
        assert guarantee == plan.sku.precision_guarantee
        assert guarantee.deterministic and guarantee.bit_stable_on_same_hardware
        assert guarantee.reproducible_across == {"threads", "layout", "batch", "isa", "engine"}


def test_guarantees_name_the_types() -> None:
    def of(name: str, element: str) -> tuple[str, str]:
        guarantee = OPS[name].guarantee(sample_descriptor(OPS[name], element))
        return guarantee.math_precision.value, guarantee.accumulator.value

    assert of("scan", "f16") == of("scan", "bf16") == of("scan", "f32") == ("f32", "f32")
    assert of("scan", "f64") == of("binary_param", "f64") == ("f64", "f64")
    assert of("embedding", "bf16") == of("segment_sum_backward", "bf16") == ("bf16", "bf16")
    assert of("sparsemax", "f32") == ("f32", "i64")
    assert of("sparsemax_backward", "f16") == ("f32", "f32")


def test_skus_are_all_different() -> None:
    skus = {
        str(plan_class(op).select(desc, REFERENCE).sku)
        for op in OPS.values()
        for element in ELEMENTS
        for desc in sample_descriptors(op, element)
    }
    assert len(skus) == sum(len(op.functions) for op in OPS.values()) * len(ELEMENTS)


# Declaring


def test_an_op_is_a_declaration_and_a_kernel() -> None:
    """A new op gets its plan, its checks and its function from nothing but these lines."""

    class NegateDescriptor(Descriptor):
        shape: Annotated[Shape, "the shape"]
        element: Annotated[gp.ElementKind, "the element type"]

    class NegateEngine(Engine):
        name = "negate"

        def why_not(self, op: Op, desc: Descriptor) -> str | None:
            return None if op.name == "negate" else "only negates"

        def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
            return BoundKernel(lambda x, y, workspace: np.negative(x, out=y))

    op = Op(
        NegateDescriptor,
        gp.OpCategory.BINARY,
        "Minus x.",
        tensors=(reads("x", "shape", doc="the input"), writes("y", "shape", doc="minus it")),
        functions=(Function("negate", "Minus x."),),
    )
    try:
        with registered(NegateEngine(), first=True):
            x = np.float32([[1, -2]])
            plan = plan_class(op).select(NegateDescriptor(shape=(1, 2), element="f32"))
            assert str(plan.sku).startswith("binary/negate/f32/-/strided/-/any/negate/")
            assert plan.run(x=x).tolist() == [[-1, 2]]
            negate = make_function(Signature(op, op.functions[0]))
            assert negate(x).tolist() == [[-1, 2]]
            assert str(inspect.signature(negate)) == "(x, *, out=None)"
            with pytest.raises(gp.InvalidProblem, match=r"NegatePlan.run: .*missing 'x'"):
                plan.run()
            assert gp.negate is gp.functional.negate  # type: ignore[attr-defined]
    finally:
        withdraw(op)
    assert not hasattr(gp, "negate") and not hasattr(gp, "NegatePlan")


def test_a_declaration_with_a_typo_is_refused() -> None:
    op = OPS["scan"]
    with pytest.raises(TypeError, match="unknown axes"):
        dataclasses.replace(op, tensors=(reads("x", "inputshape", doc=""),))
    with pytest.raises(TypeError, match="in place of unknown"):
        dataclasses.replace(op, tensors=(writes("y", "input_shape", doc="", inplace=("z",)),))
    with pytest.raises(TypeError, match="declared twice"):
        dataclasses.replace(op)
    assert OPS["scan"] is op


@all_ops
def test_samples_fit(op: Op) -> None:
    for desc in sample_descriptors(op):
        plan_class(op).select(desc, REFERENCE).run(**sample_inputs(op, desc))
