"""The life of a plan: select, can_implement, run, and everything that can go wrong."""

from __future__ import annotations

import array
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from processes import run_python
from samples import (
    REFERENCE,
    all_elements,
    all_ops,
    bits,
    sample_descriptor,
    sample_descriptors,
    sample_inputs,
    sample_tensor,
)

import gradplan as gp
from gradplan.declaration import Descriptor, Op, Role
from gradplan.engines import ENGINES, BoundKernel, Engine, cpu, registered
from gradplan.engines.cuda import CudaEngine
from gradplan.engines.reference import ReferenceEngine
from gradplan.plan import Plan, plan_class


def scan_plan(shape: tuple[int, ...] = (2, 3), element: Any = "f32", **fields: Any) -> gp.ScanPlan:
    fields = {"kind": "cumsum", "scan_axis": -1, **fields}
    return gp.ScanPlan.select(gp.ScanDescriptor(input_shape=shape, element=element, **fields))


X = np.float32([[1, 2, 3], [4, 5, 6]])
CUMSUM = [[1, 3, 6], [4, 9, 15]]


# Selection


def test_there_is_a_build_for_this_cpu() -> None:
    assert cpu.supported_isas(), f"none of {cpu.isa_builds()} in {cpu.LIBRARIES}"
    assert cpu.load().gradplan_isa() == cpu.isa()


def test_plans_are_cached_by_value(engine: str) -> None:
    assert scan_plan() is scan_plan(scan_axis=1)
    assert scan_plan() is not scan_plan(reverse=True)
    assert scan_plan().engine == engine


def test_selecting_from_many_threads_gives_working_plans(engine: str) -> None:
    results: list[Any] = []

    def work(n: int) -> None:
        for i in range(20):
            plan = scan_plan((2, i))
            results.append(plan.run(x=np.ones((2, i), np.float32))[0].tolist())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160
    assert all(row == list(range(1, len(row) + 1)) for row in results)


def test_a_plan_refuses_the_descriptor_of_another(engine: str) -> None:
    desc = sample_descriptor(gp.ScanBackwardPlan.op)
    with pytest.raises(gp.InvalidProblem, match=r"ScanPlan.select: expected a ScanDescriptor; got"):
        gp.ScanPlan.select(desc)  # type: ignore[arg-type]
    with pytest.raises(gp.InvalidProblem, match="expected a PlanPreference"):
        gp.ScanPlan.select(scan_plan().descriptor, "cpu")  # type: ignore[arg-type]


def test_what_no_engine_can_do_lists_every_reason() -> None:
    desc = gp.ScanDescriptor(kind="cumsum", input_shape=(2,), scan_axis=0, element="f32")
    with pytest.raises(gp.Unsupported) as caught:
        gp.ScanPlan.select(desc, gp.PlanPreference(engine="cuda"))
    message = str(caught.value)
    assert "cuda: takes tensors on cuda; these are on cpu" in message
    assert all(f"\n  {name}: " in message for name in ENGINES)
    with (
        registered(CudaEngine("/nowhere/libcuda.so.1")),
        pytest.raises(gp.Unsupported, match="cuda: no NVIDIA driver found"),
    ):
        gp.ScanPlan.select(desc, gp.PlanPreference(engine="cuda"), device="cuda:0")
    with pytest.raises(gp.Unsupported, match="math_precision is f32, wanted at least f64"):
        gp.ScanPlan.select(desc, gp.PlanPreference(engine="reference", math_precision="f64"))
    with pytest.raises(gp.InvalidProblem, match=r"out of cpu, cuda, reference; got 'gpu'"):
        gp.ScanPlan.select(desc, gp.PlanPreference(engine="gpu"))


def test_a_weaker_engine_is_not_chosen_when_more_is_wanted(engine: str) -> None:
    class Weak(ReferenceEngine):
        name = "weak"
        automatic = True

        def guarantee(self, op: Op, desc: Descriptor) -> gp.PrecisionGuarantee:
            return gp.PrecisionGuarantee("f32", "f32", False, False, frozenset())

    desc = scan_plan().descriptor
    with registered(Weak(), first=True):
        assert gp.ScanPlan.select(desc).engine == "weak"
        wish = gp.PlanPreference(reproducible_across={"threads"})
        assert gp.ScanPlan.select(desc, wish).engine == engine
    assert gp.ScanPlan.select(desc).engine == engine


def test_a_plan_prints_and_pickles(engine: str) -> None:
    plan = scan_plan()
    assert repr(plan) == f"<ScanPlan {plan.sku}>"
    assert pickle.loads(pickle.dumps(plan)) is plan


# Running


@all_ops
@all_elements
def test_outputs_are_allocated_or_taken(op: Op, element: gp.ElementKind, engine: str) -> None:
    for desc in sample_descriptors(op, element):
        plan: Plan[Any] = plan_class(op).select(desc)
        inputs = sample_inputs(op, desc)
        made = plan.run(**inputs)
        made = made if isinstance(made, tuple) else (made,)
        outputs = [o for o in op.operands(desc) if not o.is_input]
        given = {o.name: np.full(o.shape, 7, o.kinds[0].dtype) for o in outputs}
        taken = plan.run(**inputs, **given)
        taken = taken if isinstance(taken, tuple) else (taken,)
        for operand, new, old in zip(outputs, made, taken, strict=True):
            assert old is given[operand.name]
            assert new.shape == operand.shape and new.dtype == operand.kinds[0].dtype
            assert bits(new) == bits(old)


@all_ops
@all_elements
def test_every_framework_gives_the_same_bits(
    op: Op, element: gp.ElementKind, framework: Callable[[Any], Any], engine: str
) -> None:
    for desc in sample_descriptors(op, element):
        plan = plan_class(op).select(desc)
        inputs = sample_inputs(op, desc)
        expected = plan.run(**inputs)
        results = plan.run(**{name: framework(x) for name, x in inputs.items()})
        if not isinstance(expected, tuple):
            expected, results = (expected,), (results,)
        for want, got in zip(expected, results, strict=True):
            assert type(got) is type(framework(want))
            assert bits(got) == bits(want)


@pytest.mark.skipif(not cpu.isa_builds(), reason="no build beside these sources")
@all_ops
@all_elements
def test_engines_agree(op: Op, element: gp.ElementKind) -> None:
    for desc in sample_descriptors(op, element):
        inputs = sample_inputs(op, desc)
        results = plan_class(op).select(desc).run(**inputs)
        wanted = plan_class(op).select(desc, REFERENCE).run(**inputs)
        assert [bits(y) for y in results] == [bits(y) for y in wanted]


def test_accumulation_starts_from_zero_unless_something_is_there(engine: str) -> None:
    desc = gp.EmbeddingBackwardDescriptor(
        num_embeddings=2, embedding_dim=1, num_indices=3, element="f32", accumulate=True
    )
    plan = gp.EmbeddingBackwardPlan.select(desc)
    assert plan.sku.epilogue == "accumulate"
    inputs = {"dout": np.float32([[1], [2], [4]]), "indices": np.array([1, 0, 1])}
    assert plan.run(**inputs).tolist() == [[2], [5]]
    there = np.float32([[10], [20]])
    assert plan.run(**inputs, dweight=there) is there
    assert there.tolist() == [[12], [25]]


def test_indices_of_both_widths(engine: str) -> None:
    desc = gp.EmbeddingDescriptor(
        num_embeddings=3, embedding_dim=1, num_indices=2, element="f32", padding_idx=1
    )
    plan = gp.EmbeddingPlan.select(desc)
    assert plan.sku.aux_element is gp.ElementKind.I64
    weight = np.float32([[1], [2], [3]])
    for dtype in (np.int32, np.int64):
        assert plan.run(weight=weight, indices=np.array([2, 1], dtype)).tolist() == [[3], [0]]
    for wrong in (np.int16, np.uint32, np.float64):
        with pytest.raises(gp.InvalidProblem, match=r"'indices': expected .*int32 or int64"):
            plan.run(weight=weight, indices=np.array([2, 1], wrong))


def test_tensors_that_are_not_needed_may_be_given(engine: str) -> None:
    desc = gp.ScanBackwardDescriptor(kind="cumsum", input_shape=(3,), scan_axis=0, element="f32")
    dy = np.float32([1, 2, 3])
    assert gp.ScanBackwardPlan.select(desc).run(dy=dy, x=dy, y=None).tolist() == [6, 5, 3]


def test_any_buffer_will_do(engine: str) -> None:
    plan = scan_plan((3,))
    x = np.float32([1, 2, 3])
    out = array.array("f", [0, 0, 0])
    assert plan.run(x=memoryview(x)).tolist() == [1, 3, 6]
    assert plan.run(x=array.array("f", x), y=out) is out
    assert out.tolist() == [1, 3, 6]
    assert plan.run(x=x.view(np.recarray)).tolist() == [1, 3, 6]
    assert scan_plan(()).run(x=np.float32(7)).tolist() == 7


@all_elements
def test_inputs_may_be_read_only(element: gp.ElementKind, engine: str) -> None:
    x = X.astype(element.dtype)
    x.flags.writeable = False
    assert scan_plan(element=element).run(x=x).astype(float).tolist() == CUMSUM
    row = np.broadcast_to(x[0], (2, 3))
    result = scan_plan(element=element).run(x=row[:, ::-1])
    assert result.astype(float).tolist() == [[3, 5, 6]] * 2
    assert not x.flags.writeable


def test_a_read_only_output_is_refused(engine: str) -> None:
    y = np.zeros_like(X)
    y.flags.writeable = False
    with pytest.raises(gp.InvalidProblem, match=r"'y': expected an array that can be written"):
        scan_plan().run(x=X, y=y)
    assert not y.any()


def test_a_workspace_is_taken(engine: str) -> None:
    plan = gp.UnsortedSegmentSumPlan.select(
        gp.UnsortedSegmentSumDescriptor(
            num_inputs=5000, embedding_dim=2, num_segments=9, element="f32"
        )
    )
    rng = np.random.default_rng(0)
    inputs = {
        "input": rng.standard_normal((5000, 2), np.float32),
        "segment_ids": rng.integers(0, 9, 5000),
    }
    expected = plan.run(**inputs)
    workspaces = [np.zeros(plan.workspace_size, np.uint8), bytearray(plan.workspace_size)]
    for workspace in [*workspaces, np.full(plan.workspace_size // 8 + 1, np.nan)]:
        assert bits(plan.run(**inputs, workspace=workspace, stream=None)) == bits(expected)
    if plan.workspace_size:
        small = np.zeros(plan.workspace_size - 1, np.uint8)
        with pytest.raises(gp.WorkspaceTooSmall, match=rf"{plan.workspace_size}.*{small.size}"):
            plan.run(**inputs, workspace=small)


def test_nothing_is_kept_alive(engine: str) -> None:
    for element in ("f32", "bf16"):
        x = X.astype(gp.ElementKind.parse(element).dtype)
        x.flags.writeable = False
        y = scan_plan(element=element).run(x=x)
        dead = weakref.ref(x), weakref.ref(y)
        del x, y
        gc.collect()
        assert [ref() for ref in dead] == [None, None]


# Misuse: the right error, a message that names plan and tensor, outputs as they were


def misuse() -> dict[str, tuple[type[Exception], str, Callable[[], dict[str, Any]]]]:
    packed = np.zeros(2, dtype=[("pad", "i1"), ("x", "f4", (3,))])
    bytes_ = np.zeros(32, np.uint8)
    both = np.zeros((2, 4), np.float32)
    return {
        "missing": (gp.InvalidProblem, "expected tensors x, y .*missing 'x'", lambda: {}),
        "none": (gp.InvalidProblem, "missing 'x'", lambda: {"x": None}),
        "unknown": (gp.InvalidProblem, "unknown 'z'", lambda: {"x": X, "z": X}),
        "list": (gp.InvalidProblem, "'x': expected a tensor .*got list", lambda: {"x": [1, 2]}),
        "number": (gp.InvalidProblem, "'x': expected a tensor .*got float", lambda: {"x": 1.0}),
        "string": (gp.InvalidProblem, "'x': expected a tensor .*got str", lambda: {"x": "abc"}),
        "list out": (gp.InvalidProblem, "'y': expected a tensor", lambda: {"x": X, "y": [1, 2]}),
        "scalar out": (
            gp.InvalidProblem,
            "'y': expected a tensor that can be written",
            lambda: {"x": X, "y": np.float32(1)},
        ),
        "rank": (gp.InvalidProblem, r"'x': expected shape \[2, 3\]", lambda: {"x": X[None]}),
        "small": (
            gp.BufferTooSmall,
            r"'x': expected shape .* got shape \[1, 3\]",
            lambda: {"x": X[:1]},
        ),
        "small out": (
            gp.BufferTooSmall,
            "'y': expected shape",
            lambda: {"x": X, "y": X[:1].copy()},
        ),
        "dtype": (
            gp.InvalidProblem,
            "'x': expected .*float32.* got float64",
            lambda: {"x": X.astype(float)},
        ),
        "dtype out": (
            gp.InvalidProblem,
            "'y': expected .*float32.* got float16",
            lambda: {"x": X, "y": np.zeros((2, 3), np.float16)},
        ),
        "bfloat16": (
            gp.InvalidProblem,
            "'x': expected .*float32.* got bfloat16",
            lambda: {"x": X.astype(gp.ElementKind.BF16.dtype)},
        ),
        "complex": (gp.InvalidProblem, "'x': expected .*complex64", lambda: {"x": X * 1j}),
        "objects": (gp.InvalidProblem, "'x': expected .*object", lambda: {"x": X.astype(object)}),
        "big endian": (gp.InvalidProblem, "'x': expected .*>f4", lambda: {"x": X.astype(">f4")}),
        "odd strides": (
            gp.MisalignedOperand,
            "'x': expected strides that are multiples of the element size 4",
            lambda: {"x": packed["x"]},
        ),
        "odd address": (
            gp.MisalignedOperand,
            "'x': expected an address divisible by 4",
            lambda: {"x": bytes_[1:25].view(np.float32).reshape(2, 3)},
        ),
        "overlap": (
            gp.InvalidProblem,
            "'y': expected memory apart from 'x'",
            lambda: {"x": both[:, :3], "y": both[:, 1:]},
        ),
        "overlap reversed": (
            gp.InvalidProblem,
            "'y': expected memory apart from 'x'",
            lambda: {"x": both[:, :3], "y": both[:, 2::-1]},
        ),
        "own overlap": (
            gp.InvalidProblem,
            "'y': expected an output whose elements have addresses of their own",
            lambda: {"x": X, "y": np.lib.stride_tricks.as_strided(both, (2, 3), (4, 4))},
        ),
    }


@pytest.mark.parametrize("case", misuse())
def test_misuse_is_named(case: str, engine: str) -> None:
    error, pattern, make = misuse()[case]
    tensors = make()
    before = {name: bits(x) for name, x in tensors.items() if isinstance(x, np.ndarray)}
    plan = scan_plan()
    with pytest.raises(error, match=f"ScanPlan.*{pattern}") as caught:
        plan.run(**tensors)
    assert type(caught.value) is error
    assert {n: bits(x) for n, x in tensors.items() if isinstance(x, np.ndarray)} == before
    with pytest.raises(error, match=f"ScanPlan.*{pattern}"):
        plan.can_implement(**tensors)


def test_positional_tensors_are_refused(engine: str) -> None:
    with pytest.raises(gp.InvalidProblem, match=r"ScanPlan.run: expected tensors by name"):
        scan_plan().run(X)  # type: ignore[misc]


def test_memory_beside_memory_is_no_overlap(engine: str) -> None:
    both = np.zeros((2, 6), np.float32)
    for x, y in [(both[:, :3], both[:, 3:]), (both[:, ::2], both[:, 1::2])]:
        x[...] = X
        assert scan_plan().run(x=x, y=y) is y
        assert y.tolist() == CUMSUM


@all_ops
def test_in_place_as_declared_and_not_otherwise(op: Op, engine: str) -> None:
    for desc in sample_descriptors(op):
        plan = plan_class(op).select(desc)
        operands = op.operands(desc)
        inputs = sample_inputs(op, desc)
        expected = plan.run(**inputs)
        for position, out in enumerate(o for o in operands if not o.is_input):
            for other in operands:
                if not other.is_input or (other.shape, other.kinds) != (out.shape, out.kinds):
                    continue
                tensors = {name: x.copy() for name, x in inputs.items()}
                tensors[out.name] = tensors[other.name]
                if other.name in out.inplace:
                    plan.can_implement(**tensors)
                    result = plan.run(**tensors)
                    if isinstance(result, tuple):
                        assert bits(result[position]) == bits(expected[position])
                    else:
                        assert result is tensors[other.name]
                        assert bits(result) == bits(expected)
                else:
                    with pytest.raises(gp.InvalidProblem, match="memory apart"):
                        plan.run(**tensors)


def test_can_implement_writes_nothing(engine: str) -> None:
    y = np.full_like(X, 7)
    scan_plan().can_implement(x=X, y=y)
    scan_plan().can_implement(x=X)
    assert (y == 7).all()


# Frameworks


def test_jax_outputs_are_refused_and_tracers_explained(engine: str) -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    with pytest.raises(gp.InvalidProblem, match=r"'y': expected a tensor that can be written"):
        scan_plan().run(x=X, y=x)
    with pytest.raises(gp.Unsupported, match=r"'x': a JAX tracer .* use gradplan.jax"):
        jax.jit(lambda v: scan_plan().run(x=v))(x)


def test_torch_tensors_with_flags(engine: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X.copy())
    with torch.no_grad():
        assert scan_plan().run(x=x.clone().requires_grad_()).tolist() == CUMSUM
        assert scan_plan().run(x=torch.nn.Parameter(x)).tolist() == CUMSUM
    negated = torch.view_as_complex(torch.stack([x, -x], -1)).conj().imag
    assert negated.is_neg()
    assert scan_plan().run(x=negated).tolist() == CUMSUM
    with pytest.raises(gp.InvalidProblem, match=r"'y': .*negation"):
        scan_plan().run(x=x, y=negated)
    out = torch.zeros(2, 3, requires_grad=True)
    with pytest.raises(gp.InvalidProblem, match=r"'y': .*requires grad"):
        scan_plan().run(x=x, y=out)
    with torch.no_grad():
        assert scan_plan().run(x=x, y=out) is out
    assert out.tolist() == CUMSUM


def test_torch_tensors_without_data_are_refused(engine: str) -> None:
    torch = pytest.importorskip("torch")
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(2, 3)
    for x in (fake, torch.zeros(2, 3, device="meta"), torch.zeros(2, 3).to_sparse()):
        with pytest.raises(gp.Unsupported, match="'x': expected a dense tensor with data"):
            scan_plan().run(x=x)
    with pytest.raises(gp.InvalidProblem, match="'x': cannot be exported"):
        torch.func.vmap(lambda v: scan_plan().run(x=v))(torch.zeros(4, 2, 3))


def test_a_tensor_on_another_device_is_refused(engine: str) -> None:
    class OnGpu:
        """Exports the capsule of a device that this machine does not need to have."""

        shape, dtype = (2, 3), np.dtype("f4")

        def __dlpack__(self, **kwargs: Any) -> Any:
            return _relabelled(X.copy(), device_type=2)

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(gp.Unsupported, match="'x': expected a CPU tensor"):
        scan_plan().run(x=OnGpu(), y=np.zeros_like(X))


def _relabelled(x: Any, device_type: int) -> Any:
    import ctypes

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = x.__dlpack__()
    # DLTensor: data pointer, then the device's type.
    ctypes.c_int32.from_address(get(capsule, b"dltensor") + 8).value = device_type
    return capsule


# Engines


class WrongEngine(ReferenceEngine):
    """Adds one to the first element of every output: a test must notice."""

    name = "wrong"
    automatic = True

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        right = super().bind(op, desc)
        outputs = [i for i, o in enumerate(op.operands(desc)) if o.role is not Role.IN]

        def run(*args: Any) -> None:
            right.run(*args)
            for i in outputs:
                args[i].flat[0] += 1

        return BoundKernel(run)


@all_ops
def test_a_wrong_kernel_is_noticed(op: Op) -> None:
    desc = sample_descriptor(op)
    inputs = sample_inputs(op, desc)
    right = plan_class(op).select(desc, REFERENCE).run(**inputs)
    with registered(WrongEngine(), first=True):
        plan = plan_class(op).select(desc)
        assert plan.engine == plan.sku.backend == "wrong"
        wrong = plan.run(**inputs)
    assert "wrong" not in ENGINES
    assert [bits(y) for y in wrong] != [bits(y) for y in right]


def test_an_engine_can_be_replaced_and_comes_back() -> None:
    class Nothing(Engine):
        name = "reference"

        def why_not(self, op: Op, desc: Descriptor) -> str | None:
            return "closed today"

    desc = gp.ScanDescriptor(kind="cumsum", input_shape=(2,), scan_axis=0, element="f32")
    before = gp.ScanPlan.select(desc, REFERENCE)
    order = list(ENGINES)
    with registered(Nothing()), pytest.raises(gp.Unsupported, match="reference: closed today"):
        gp.ScanPlan.select(desc, REFERENCE)
    assert list(ENGINES) == order
    assert gp.ScanPlan.select(desc, REFERENCE).sku == before.sku


def test_a_kernel_that_breaks_shows_where() -> None:
    class Broken(ReferenceEngine):
        name = "broken"

        def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
            def run(*args: Any) -> None:
                raise ZeroDivisionError("inside")

            return BoundKernel(run)

    desc = gp.ScanDescriptor(kind="cumsum", input_shape=(2, 3), scan_axis=0, element="f32")
    with registered(Broken()), pytest.raises(ZeroDivisionError) as caught:
        gp.ScanPlan.select(desc, gp.PlanPreference(engine="broken")).run(x=X)
    assert any(entry.name == "run" and "test_plan" in str(entry.path) for entry in caught.traceback)


# The process


def test_importing_and_using_it_is_quiet_and_imports_no_framework() -> None:
    code = """
import sys, numpy as np, gradplan as gp
plan = gp.ScanPlan.select(
    gp.ScanDescriptor(kind="cumsum", input_shape=(3,), scan_axis=0, element="f32"),
    gp.PlanPreference(engine="reference"))
assert plan.run(x=np.float32([1, 2, 3])).tolist() == [1, 3, 6]
from gradplan._ffi import tvm_ffi
tvm_ffi()
assert not {"torch", "jax", "triton"} & set(sys.modules), "imported a framework"
"""
    result = run_python(code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.slow
def test_torch_can_come_before_or_after() -> None:
    pytest.importorskip("torch")
    use = "assert gp.cumsum(torch.ones(3)).tolist() == [1, 2, 3]"
    reference = "from gradplan._ffi import tvm_ffi; tvm_ffi()"
    for code in (
        f"import torch, gradplan as gp; {reference}; {use}",
        f"import gradplan as gp; {reference}; import torch; {use}",
    ):
        if not cpu.isa_builds():
            code = code.replace(use, "torch.ones(3)")
        result = run_python(code)
        assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not cpu.isa_builds(), reason="no build beside these sources")
@pytest.mark.parametrize("isa", cpu.supported_isas())
def test_the_forced_build_is_the_one_that_runs(isa: str) -> None:
    code = """
import numpy as np, gradplan as gp
from gradplan.engines import cpu
plan = gp.ScanPlan.select(
    gp.ScanDescriptor(kind="cumsum", input_shape=(3,), scan_axis=0, element="f32"))
print(plan.sku.arch, cpu.load().gradplan_isa())
"""
    assert run_python(code, GRADPLAN_ISA=isa).stdout.split() == [isa, isa]


@pytest.mark.skipif(not cpu.isa_builds(), reason="no build beside these sources")
def test_a_build_that_is_not_there_is_refused() -> None:
    code = "import numpy as np, gradplan as gp; gp.cumsum(np.float32([1]))"
    result = run_python(code, GRADPLAN_ISA="x86-64-v9")
    assert result.returncode == 1
    assert "gradplan.Unsupported" in result.stderr
    assert "GRADPLAN_ISA=x86-64-v9: there is no such build" in result.stderr
    assert all(isa in result.stderr for isa in cpu.supported_isas())


@pytest.mark.slow
def test_the_number_of_threads_is_checked() -> None:
    code = "import gradplan as gp; print(gp.get_num_threads())"
    assert run_python(code, GRADPLAN_NUM_THREADS="3").stdout.split() == ["3"]
    if cpu.isa_builds():
        assert run_python(code).stdout.split() == [str(cpu.common().gradplan_processors(""))]
    for wrong in ("0", "-1", "two", "1.5", "100000"):
        result = run_python(code, GRADPLAN_NUM_THREADS=wrong)
        assert "gradplan.InvalidProblem: GRADPLAN_NUM_THREADS: expected" in result.stderr
    for value in (0, -1, 1.5, "2", True, None):
        with pytest.raises(gp.InvalidProblem, match="set_num_threads: expected"):
            gp.set_num_threads(value)  # type: ignore[arg-type]


@pytest.mark.skipif(not cpu.isa_builds(), reason="no build beside these sources")
def test_the_number_of_threads_reaches_every_build() -> None:
    before = gp.get_num_threads()
    libraries = [cpu.load(isa) for isa in cpu.supported_isas()]
    try:
        for n in (1, 3):
            gp.set_num_threads(n)
            assert gp.get_num_threads() == n
            assert [library.gradplan_get_num_threads() for library in libraries] == [n] * len(
                libraries
            )
    finally:
        gp.set_num_threads(before)


def test_sample_values_are_of_their_kind() -> None:
    for operand in gp.EmbeddingPlan.op.operands(sample_descriptor(gp.EmbeddingPlan.op, "bf16")):
        assert sample_tensor(operand).dtype.name in operand.dtype_names


# Devices and streams --------------------------------------------------------------------------


class _Elsewhere:
    """A tensor that claims to be on a GPU."""

    shape, dtype = (3,), np.dtype("float32")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 1)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("nobody here takes it")


class _OnGpu(ReferenceEngine):
    """Takes what is on a GPU, and says which stream it was given."""

    name, automatic, devices = "gpu", True, frozenset({"cuda"})

    def __init__(self) -> None:
        self.given: list[Any] = []

    def bind(self, op: Any, desc: Any) -> BoundKernel:
        return BoundKernel(lambda *given: self.given.append(given), takes_stream=True)


def test_plans_are_selected_by_device(engine: str) -> None:
    desc = gp.ScanDescriptor(kind="cumsum", input_shape=(3,), scan_axis=0, element="f32")
    with pytest.raises(gp.Unsupported, match=r"(?s)on cuda:1:\n.*  cpu: takes tensors on cpu"):
        gp.cumsum(_Elsewhere())
    with pytest.raises(gp.InvalidProblem, match="expected a device such as 'cpu' or 'cuda:0'"):
        gp.ScanPlan.select(desc, device=None)  # type: ignore[arg-type]
    with registered(_OnGpu()) as gpu:
        assert isinstance(gpu, _OnGpu)
        here, there = gp.ScanPlan.select(desc), gp.ScanPlan.select(desc, device="cuda:1")
        assert (here.engine, here.device) == (engine, "cpu")
        assert (there.engine, there.device) == ("gpu", "cuda:1")
        assert gp.ScanPlan.select(desc, device="cuda:0") is not there
        # The same shapes and types on another device are another call.
        x, y = np.float32([1, 2, 3]), _Elsewhere()
        assert gp.cumsum(x).tolist() == [1, 3, 6]
        gp.cumsum(y, out=y)
        assert gp.cumsum(x).tolist() == [1, 3, 6]
        there.run(x=y, y=y, workspace=None, stream="a stream")
        assert [given[3:] for given in gpu.given] == [(None,), ("a stream",)]


def test_a_stream_is_refused_where_there_are_none(engine: str) -> None:
    plan = scan_plan()
    x = np.ones(plan.descriptor.input_shape, np.float32)
    with pytest.raises(gp.InvalidProblem, match=r"ScanPlan: stream: expected None: .*; got 7"):
        plan.run(x=x, stream=7)
