"""gradplan.torch as real operators: opcheck, compile, export, transforms, fake and meta tensors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from operator_arguments import arguments_of, before_it_came, option_of  # noqa: E402
from torch_cases import CASES, Case, Listener  # noqa: E402

import gradplan as gp  # noqa: E402
from gradplan import torch as gpt  # noqa: E402
from gradplan.functional import SIGNATURES  # noqa: E402
from gradplan.torch import autograd, batching, operators, sharding  # noqa: E402
from gradplan.torch.operators import OPERATORS  # noqa: E402

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def same_bits(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))


def bits(x: Any) -> Any:
    words = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.detach().contiguous().view(words[x.element_size()])


def test_registration_knows_no_function_by_name() -> None:
    for module in (operators, autograd, batching, sharding):
        source = Path(module.__file__).read_text()
        assert not [name for name in SIGNATURES if re.search(rf"\b{name}\b", source)]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("grad", [False, True])
def test_opcheck(name: str, grad: bool) -> None:
    operator = OPERATORS[name]
    op = operator.op
    if op.gradient_name is None and not op.forwards():
        grad = False  # it refuses to be differentiated
    for choose in (option_of, before_it_came):
        arguments = arguments_of(operator, choose=choose)
        for x in arguments:
            if torch.is_tensor(x) and x.is_floating_point():
                x.requires_grad_(grad)
        torch.library.opcheck(operator.overload, arguments)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_eager_dispatched_and_plain_functions_agree(case: Case, dtype: Any) -> None:
    inputs = case.inputs(dtype, grad=True)
    eager = case.ours(*inputs)
    plain = case.plain(*(x.detach() for x in inputs))
    assert same_bits(eager, plain)
    with torch.autograd.profiler.profile(), Listener():
        assert same_bits(case.ours(*inputs), plain)
    cotangent = torch.ones_like(eager)
    short = torch.autograd.grad(eager, inputs, cotangent)
    with Listener():
        long = torch.autograd.grad(case.ours(*inputs), inputs, cotangent)
    assert all(same_bits(a, b) for a, b in zip(short, long, strict=True))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_compile(case: Case, dynamic: bool) -> None:
    torch._dynamo.reset()
    inputs = case.inputs(torch.float32, grad=True)

    def loss(*tensors: Any) -> Any:
        return case.ours(*(x * 1 for x in tensors)) * 2

    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    expected, result = loss(*inputs), compiled(*inputs)
    assert same_bits(expected, result)
    cotangent = torch.ones_like(expected)
    ours = torch.autograd.grad(result, inputs, cotangent)
    theirs = torch.autograd.grad(expected, inputs, cotangent)
    assert all(same_bits(a, b) for a, b in zip(ours, theirs, strict=True))


def test_dynamic_shapes_compile_once() -> None:
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter = CompileCounter()

    def function(x: Any, ids: Any, n: int) -> Any:
        return gpt.segment_sum(gpt.cumprod(x, -1), ids, n)

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    for n in (4, 5, 7):
        x, ids = torch.randn(n + 2, 2 * n), torch.randint(0, n, (n + 2,))
        assert same_bits(compiled(x, ids, n), function(x, ids, n))
    assert counter.frame_count == 1


@pytest.mark.slow
def test_inductor() -> None:
    """Generated code around the operators does not change their bits."""
    torch._dynamo.reset()
    indices = torch.randint(0, 8, (6, 5))

    def loss(weight: Any) -> Any:
        x = gpt.embedding(indices, weight, 0)
        return gpt.sparsemax(gpt.logcumsumexp(x, 1), -1).mul(2)

    weight = torch.randn(8, 16, requires_grad=True)
    try:
        result = torch.compile(loss, fullgraph=True)(weight)
    except torch._inductor.exc.InductorError as error:  # no compiler on this machine
        pytest.skip(str(error)[:80])
    expected = loss(weight)
    assert same_bits(result, expected)
    ours, theirs = (torch.autograd.grad(y.sum(), weight)[0] for y in (result, expected))
    assert same_bits(ours, theirs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_export(case: Case) -> None:
    class Module(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return case.ours(*tensors)

    inputs = tuple(case.inputs(torch.float32))
    program = torch.export.export(Module(), inputs, strict=False)
    assert any("gradplan" in str(node.target) for node in program.graph.nodes)
    assert same_bits(program.module()(*inputs), case.ours(*inputs))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_meta_and_fake_tensors(case: Case) -> None:
    from torch._subclasses import FakeTensorMode

    inputs = case.inputs(torch.float32)
    expected = case.ours(*inputs)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = case.ours(*(mode.from_tensor(x) for x in inputs))
        assert (fake.shape, fake.dtype) == (expected.shape, expected.dtype)
    assert fake.stride() == expected.stride()


def test_meta_device() -> None:
    x = torch.empty(3, 4, device="meta", requires_grad=True)
    y = gpt.cumsum(x, 0)
    assert (y.device.type, y.shape) == ("meta", x.shape)
    y.sum().backward()
    assert x.grad is not None and x.grad.device.type == "meta"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_vmap(case: Case) -> None:
    batch = [case.inputs(torch.float32, seed=i) for i in range(3)]
    expected = torch.stack([case.ours(*inputs) for inputs in batch])
    for dim in (0, -1):
        stacked = [torch.stack(list(x), dim) for x in zip(*batch, strict=True)]
        result = torch.func.vmap(case.ours, in_dims=dim)(*stacked)
        assert same_bits(result, expected)
    if len(case.shapes) == 2:  # a batch of one of them alone
        single = torch.func.vmap(case.ours, in_dims=(0, None))
        first = torch.stack([inputs[0] for inputs in batch])
        other = batch[0][1]
        assert same_bits(single(first, other), torch.stack([case.ours(a, other) for a in first]))


# PyTorch's own logcumsumexp has no tangents for empty tensors.
@pytest.mark.parametrize("case", [case for case in CASES if 0 not in case.shapes[0]], ids=str)
def test_transforms(case: Case) -> None:
    inputs = tuple(case.inputs())
    positions = tuple(range(len(inputs)))

    def loss(function: Any) -> Any:
        return lambda *tensors: (function(*tensors) ** 2).sum()

    close = torch.testing.assert_close
    ours = torch.func.grad(loss(case.ours), positions)(*inputs)
    close(ours, torch.func.grad(loss(case.theirs), positions)(*inputs))
    tangents = tuple(torch.randn_like(x) for x in inputs)
    _, pushed = torch.func.jvp(case.ours, inputs, tangents)
    in_forward_mode = case.formula or case.theirs
    close(in_forward_mode(*inputs), case.theirs(*inputs))
    close(pushed, torch.func.jvp(in_forward_mode, inputs, tangents)[1])
    stacked = tuple(torch.stack([x, x + 1]) for x in inputs)
    per_sample = torch.func.vmap(torch.func.grad(loss(case.ours), positions))(*stacked)
    close([g[0] for g in per_sample], list(ours))
    total = torch.func.grad(lambda *t: torch.func.vmap(loss(case.ours))(*t).sum(), positions)
    close(total(*stacked), tuple(per_sample))
    hessian = torch.func.hessian(loss(case.ours), positions)(*inputs)
    close(hessian, torch.func.hessian(loss(in_forward_mode), positions)(*inputs))


@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0)])
def test_vmap_of_indices(padding: int | None, dims: tuple[int | None, int | None]) -> None:
    indices = torch.randint(0, 4, (3, 2, 5)) if dims[0] == 0 else torch.randint(0, 4, (2, 5))
    weight = torch.randn((3, 4, 2) if dims[1] == 0 else (4, 2))

    def function(indices: Any, weight: Any) -> Any:
        return gpt.embedding(indices, weight, padding)

    def gradient(indices: Any, weight: Any) -> Any:
        return torch.func.grad(lambda w: (function(indices, w) ** 2).sum())(weight)

    for f in (function, gradient):
        expected = [
            f(indices[i] if dims[0] == 0 else indices, weight[i] if dims[1] == 0 else weight)
            for i in range(3)
        ]
        assert same_bits(torch.func.vmap(f, dims)(indices, weight), torch.stack(expected))


@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("in_order", [False, True])
def test_vmap_of_segments(dims: tuple[int | None, int | None], in_order: bool) -> None:
    x = torch.randn((3, 5, 2) if dims[0] == 0 else (5, 2))
    ids = torch.randint(0, 4, (3, 5) if dims[1] == 0 else (5,), dtype=torch.int32).sort(-1).values

    def function(x: Any, ids: Any) -> Any:
        return gpt.segment_sum(x, ids, 4, in_order)

    def gradient(x: Any, ids: Any) -> Any:
        return torch.func.grad(lambda x: (function(x, ids) ** 2).sum())(x)

    for f in (function, gradient):
        expected = [
            f(x[i] if dims[0] == 0 else x, ids[i] if dims[1] == 0 else ids) for i in range(3)
        ]
        assert same_bits(torch.func.vmap(f, dims)(x, ids), torch.stack(expected))
    with pytest.raises(IndexError):  # an id must not land in the neighbour's range
        torch.func.vmap(function, dims)(x, torch.where(ids == ids.max(), 4, ids))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_autocast_keeps_the_element_type_on_the_cpu(case: Case) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        inputs = case.inputs(dtype)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert case.ours(*inputs).dtype == case.theirs(*inputs).dtype == dtype


def test_deterministic_mode_never_raises() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        for case in CASES:
            inputs = case.inputs(torch.float32, grad=True)
            y = case.ours(*inputs)
            torch.autograd.grad(y, inputs, torch.ones_like(y))
    finally:
        torch.use_deterministic_algorithms(False)


def test_thread_counts_do_not_change_bits() -> None:
    x = torch.randn(257, 1000)
    indices = torch.randint(0, 50, (4096,))
    weight = torch.randn(50, 64)
    scale = torch.randn(1000)

    def step() -> list[Any]:
        a, w, s = (t.clone().requires_grad_() for t in (x, weight, scale))
        loss = gpt.logcumsumexp(gpt.lerp(a, s, 0.3), 1)[:, -1].square()
        rows = gpt.sparsemax(gpt.embedding(indices, w))
        return list(torch.autograd.grad([loss, rows], [a, w, s], [loss, rows]))

    before = gp.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            gp.set_num_threads(threads)
            results.append(step())
    finally:
        gp.set_num_threads(before)
    assert all(same_bits(a, b) for a, b in zip(*results, strict=True))


def test_jit_trace_records_the_operator() -> None:
    traced = torch.jit.trace(lambda x: gpt.cumsum(x, 0), torch.ones(3), check_trace=False)
    assert torch.equal(traced(torch.tensor([1.0, 2.0, 4.0])), torch.tensor([1.0, 3.0, 7.0]))
