"""gradplan.torch: what plain tensors must still get when they go past PyTorch's dispatcher."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from operator_arguments import defaults_behind  # noqa: E402
from torch_cases import CASES, Case, Listener  # noqa: E402

import gradplan as gp  # noqa: E402
from gradplan import engines  # noqa: E402
from gradplan import torch as gpt  # noqa: E402
from gradplan.engines import BoundKernel, cpu, registered  # noqa: E402
from gradplan.engines.reference import ReferenceEngine  # noqa: E402
from gradplan.memory import LARGE  # noqa: E402
from gradplan.torch.fast_path import NATIVE  # noqa: E402
from gradplan.torch.operators import OPERATORS  # noqa: E402
from gradplan.vocabulary import InvalidProblem  # noqa: E402


def _gradients(case: Case, inputs: Any, **how: bool) -> Any:
    """By the operator's own way, with ones for the gradient of the result."""
    y = case.ours(*inputs)
    return torch.autograd.grad(y, inputs, torch.ones_like(y), **how)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_second_call_equals_the_first(case: Case) -> None:
    inputs = case.inputs(torch.float32, grad=True)
    first, second = case.ours(*inputs), case.ours(*inputs)
    assert torch.equal(first, second)
    assert first.data_ptr() != second.data_ptr() or first.numel() == 0
    for a, b in zip(_gradients(case, inputs), _gradients(case, inputs), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_ways_record_the_same_gradients(case: Case) -> None:
    """With `create_graph` the backward goes through the dispatcher, and so does all of it here."""
    inputs = case.inputs(torch.float32, grad=True)
    short = _gradients(case, inputs)
    recorded = _gradients(case, inputs, create_graph=True)
    with Listener() as listener:
        dispatched = _gradients(case, inputs)
    assert sum(name.startswith("gradplan.") for name in listener.heard) >= 2
    for a, b, c in zip(short, recorded, dispatched, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_a_tensor_that_is_left_out_goes_past_the_dispatcher() -> None:
    """None is an argument like another, and one that is given later is not taken for it."""
    if NATIVE is None:
        pytest.skip("no fast path here")
    a, b = (torch.rand(3, 5, requires_grad=True) for _ in range(2))
    initial = torch.rand(3, requires_grad=True)
    path = OPERATORS["linear_scan"].ways.fast
    for given in ((a, b, None), (a, b, initial)):
        first = gpt.linear_scan(*given, dim=1)
        fast = path(*given, 1, *defaults_behind("linear_scan", "axis"))
        assert torch.equal(fast, first) and fast.requires_grad
        floats = [x for x in given if x is not None]
        for x, y in zip(
            *(torch.autograd.grad(h.sum(), floats) for h in (first, fast)), strict=True
        ):
            assert torch.equal(x, y)
    # Of three gradients those that nobody needs are left out.
    for needed in ((a,), (b,), (initial,), (b, initial)):
        given = [x if any(x is n for n in needed) else x.detach() for x in (a, b, initial)]
        ours = torch.autograd.grad(gpt.linear_scan(*given, dim=1).sum(), needed)
        with Listener():
            theirs = torch.autograd.grad(gpt.linear_scan(*given, dim=1).sum(), needed)
        for x, y in zip(ours, theirs, strict=True):
            assert torch.equal(x, y)
    for wrong in ((None, b), (a, None)):
        with pytest.raises(InvalidProblem, match=r"expected a torch\.Tensor"):
            gpt.linear_scan(*wrong)


PROFILERS = {"autograd": torch.autograd.profiler.profile, "torch": torch.profiler.profile}


@pytest.mark.parametrize("profiler", PROFILERS)
@pytest.mark.parametrize("grad", [False, True])
def test_profilers_see_the_operators(profiler: str, grad: bool) -> None:
    x = torch.randn(4, 5, requires_grad=grad)
    for _ in range(2):
        gpt.cumprod(x, 1).sum()
    with PROFILERS[profiler]() as seen:
        y = gpt.cumprod(x, 1)
        if grad:
            y.backward(torch.ones(4, 5))
    counts = {event.key: event.count for event in seen.key_averages()}
    assert counts["gradplan::cumprod"] == 1
    assert counts.get("gradplan::cumprod_backward", 0) == int(grad)


def test_function_modes_see_the_operators() -> None:
    heard: list[str] = []

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            heard.append(str(f))
            return f(*args, **(kwargs or {}))

    x = torch.randn(4, 5)
    expected = gpt.cumsum(x, 1)
    with Mode():
        assert torch.equal(gpt.cumsum(x, 1), expected)
    assert "gradplan.cumsum.default" in heard


def test_a_mode_around_the_backward_alone_hears_it() -> None:
    x = torch.randn(4, 5, requires_grad=True)
    y = gpt.cumsum(x, 1)
    with Listener() as listener:
        torch.autograd.grad(y, x, torch.ones(4, 5))
    assert "gradplan.cumsum_backward.default" in listener.heard


def test_gradients_with_a_pending_negation() -> None:
    x = torch.randn(4, 5, requires_grad=True)
    g = torch.randn(4, 5)
    imaginary = torch.complex(g, g).conj().imag
    assert imaginary.is_neg()
    for y in (gpt.cumsum(x, 1), gpt.cumprod(x, 1), gpt.lerp(x, x.detach(), 0.3)):
        (expected,) = torch.autograd.grad(y, x, -g, retain_graph=True)
        for negated in (torch._neg_view(g), imaginary):
            (result,) = torch.autograd.grad(y, x, negated, retain_graph=True)
            assert torch.equal(result, expected)


def test_inside_of_transforms_nothing_goes_past_the_dispatcher() -> None:
    x = torch.randn(4, 5)
    fast = OPERATORS["cumsum"].ways.fast
    arguments = x, 1, *defaults_behind("cumsum", "axis")
    expected = gpt.cumsum(x, 1)
    seen: list[Any] = []

    def watch(y: Any) -> Any:
        seen.append(fast(*arguments))
        return y.sum()

    torch.func.vmap(watch)(x)
    torch.func.grad(watch)(x)
    assert seen == [None, None]
    if NATIVE is not None:
        assert torch.equal(fast(*arguments), expected)


def test_batches_of_gradients() -> None:
    x = torch.randn(4, 5, requires_grad=True)
    y = gpt.cumprod(x, 1)
    many = torch.randn(3, 4, 5)
    (first,) = torch.autograd.grad(y, x, many, is_grads_batched=True, retain_graph=True)
    single = [torch.autograd.grad(y, x, g, retain_graph=True)[0] for g in many]
    (again,) = torch.autograd.grad(y, x, many, is_grads_batched=True, retain_graph=True)
    assert torch.equal(first, torch.stack(single))
    assert torch.equal(again, first)


def test_transforms_around_the_backward_alone() -> None:
    x = torch.randn(4, 5, requires_grad=True)
    y = gpt.cumprod(x, 1)
    many = torch.randn(3, 4, 5)

    def pull(g: Any) -> Any:
        return torch.autograd.grad(y, x, g, retain_graph=True)[0]

    single = [pull(g) for g in many]
    for _ in range(2):
        assert torch.equal(torch.func.vmap(pull)(many), torch.stack(single))
    _, tangent = torch.func.jvp(pull, (many[0],), (many[1],))
    assert torch.equal(tangent, single[1])


def test_a_graph_is_used_once_unless_it_is_retained() -> None:
    x = torch.randn(4, 5, requires_grad=True)
    y = gpt.cummax(x, 1).values
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_changing_what_the_gradient_needs_is_noticed() -> None:
    x = torch.randn(4, 5, requires_grad=True)
    z = x * 1
    y = gpt.cumprod(z, 1)
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    rows = torch.tensor([1, 0])
    y = gpt.embedding(rows, x)
    rows.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_hooks_on_saved_tensors_are_called() -> None:
    packed: list[Any] = []

    def pack(x: Any) -> Any:
        packed.append(x)
        return x.clone()

    x = torch.randn(4, 5, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        y = gpt.cummax(x, 1).values
    assert len(packed) == 1
    (ours,) = torch.autograd.grad(y.sum(), x)
    (theirs,) = torch.autograd.grad(torch.cummax(x, 1).values.sum(), x)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_gradient_that_nobody_wants_changes_no_other(
    engine: str, layout: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradplan.engines import ENGINES

    chosen = ENGINES[engine]
    monkeypatch.setattr(chosen, "automatic", True, raising=False)
    shape = (37, 91) if layout == "contiguous" else (91, 37)
    g, a, b = (torch.randn(shape).to(dtype) for _ in range(3))
    if layout == "transposed":
        g, a, b = g.T, a.T, b.T
    with registered(chosen, first=True):

        def gradients(*needed: bool) -> Iterator[Any]:
            ends = [x.detach().requires_grad_(need) for x, need in zip((a, b), needed, strict=True)]
            gpt.lerp(*ends, 0.3).backward(g)
            return (x.grad for x in ends)

        both = list(gradients(True, True))
        only_a, only_b = list(gradients(True, False)), list(gradients(False, True))
    assert torch.equal(only_a[0], both[0])
    assert torch.equal(only_b[1], both[1])
    assert only_a[1] is None
    assert only_b[0] is None


def test_only_kernels_that_can_leave_an_output_out_accept_none() -> None:
    x = torch.randn(3, 4)

    def kernel_of(name: str, *arguments: Any) -> Any:
        run, _ = OPERATORS[name].prepare((x, *arguments))
        return run.kernel

    kernel = kernel_of("lerp_backward", 0.3)
    db = torch.empty(3, 4)
    kernel(x, None, db, None)
    assert torch.equal(db, x * torch.tensor(0.3))
    kernel(x, None, None, None)
    with pytest.raises(InvalidProblem, match="expected a tensor, got None"):
        kernel(None, db, db.clone(), None)
    with pytest.raises(InvalidProblem, match="expected a tensor, got None"):
        kernel_of("cumsum", 0, *defaults_behind("cumsum", "axis"))(x, None, None)


def _flags_of(address: int) -> str:
    """What the system knows about the memory at an address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            low, high = (int(part, 16) for part in first.split("-"))
            inside = low <= address < high
        elif inside and line.startswith("VmFlags:"):
            return line
    return ""


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are asked for on Linux only")
@pytest.mark.parametrize("grad", [False, True])
def test_large_outputs_get_large_pages(grad: bool) -> None:
    elements = 16 * LARGE // 4  # past the sizes that malloc takes from its heap
    x = torch.ones(16, elements // 16, requires_grad=grad)
    y = gpt.cumsum(x, 1)
    middle = y.data_ptr() + y.nbytes // 2
    assert " hg" in _flags_of(middle)
    theirs = torch.cumsum(x, 1)  # nobody asked for it there
    assert " hg" not in _flags_of(theirs.data_ptr() + theirs.nbytes // 2)


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are asked for on Linux only")
def test_large_outputs_of_the_plain_functions_get_large_pages() -> None:
    y = gp.cumsum(torch.ones(16, LARGE // 4))
    assert " hg" in _flags_of(y.data_ptr() + y.nbytes // 2)


def test_every_build_has_the_same_gradients() -> None:
    g = torch.randn(5, 300)
    results = []
    for isa in cpu.supported_isas():
        with registered(cpu.CpuEngine(isa), first=True):
            x = torch.ones(5, 300, requires_grad=True)
            gpt.cumprod(x, 1).backward(g)
            results.append(x.grad)
    for other in results[1:]:
        assert torch.equal(results[0], other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "indices",
    [
        torch.tensor([[1, 0, 3], [3, 3, 9]]),
        torch.tensor([[1, 3], [0, 3], [3, 9]]).T,
        torch.tensor([[[1], [0], [3]], [[3], [3], [9]]])[:, ::2],
        torch.zeros(2, 0, 3, dtype=torch.int64),
        torch.tensor(7),
        torch.tensor([5, 5]).expand(3, 2),
    ],
    ids=["rank 2", "transposed", "rank 3", "empty", "0-d", "expanded"],
)
def test_axes_merge_or_are_copied(indices: Any, dtype: Any) -> None:
    weight = torch.randn(10, 6).to(dtype).requires_grad_()
    cotangent = torch.randn(*indices.shape, 6).to(dtype)
    flat = weight.detach().requires_grad_()
    for _ in range(2):  # the first call of its kind goes another way than the others
        y = gpt.embedding(indices, weight)
        assert torch.equal(y, weight.detach()[indices])
        weight.grad = flat.grad = None
        y.backward(cotangent)
        gpt.embedding(indices.reshape(-1), flat).backward(cotangent.reshape(-1, 6))
        assert torch.equal(weight.grad, flat.grad)


@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 3), (7, 2, 3), (0,), (7, 0, 2)], ids=str)
def test_rows_of_any_rank(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    ids = torch.arange(shape[0]) % 3
    expected = torch.zeros(3, *shape[1:]).index_add(0, ids, x)
    for _ in range(2):
        torch.testing.assert_close(gpt.segment_sum(x, ids, 3), expected)
    if len(shape) == 3:
        swapped = x.transpose(1, 2).contiguous().transpose(1, 2)  # axes that do not merge
        torch.testing.assert_close(gpt.segment_sum(swapped, ids, 3), expected)


def test_recipes_do_not_outlive_their_engine() -> None:
    class Sevens(ReferenceEngine):
        name, automatic = "sevens", True

        def bind(self, op: Any, desc: Any) -> BoundKernel:
            return BoundKernel(lambda *args: args[-2].fill_(7))

    def results() -> tuple[list[float], list[float]]:
        x = torch.ones(2, requires_grad=True)
        y = gpt.cumsum(x, 0)
        y.backward(torch.ones(2))
        return y.tolist(), x.grad.tolist()

    right, sevens = ([1.0, 2.0], [2.0, 1.0]), ([7.0, 7.0], [7.0, 7.0])
    for _ in range(2):
        assert [results(), results()] == [right, right]
        with registered(Sevens(), first=True):
            assert [results(), results()] == [sevens, sevens]


def test_threads_while_recipes_are_forgotten() -> None:
    """A table of recipes that is full, or stale, is emptied; calls under way do not mind."""
    x = torch.randn(3, 70)
    expected = gpt.cumsum(x, 1)
    done = threading.Event()

    def forget() -> None:
        while not done.is_set():
            engines._changed()

    with ThreadPoolExecutor(5) as pool:
        forgetting = pool.submit(forget)
        try:
            results = list(pool.map(lambda _: gpt.cumsum(x, 1), range(2000)))
        finally:
            done.set()
        forgetting.result()
    assert all(torch.equal(y, expected) for y in results)


def _step(x: Any) -> Any:
    rows = torch.tensor([1, 0])
    made = gpt.cumprod(x, 1).sum() + gpt.embedding(rows, x).sum()
    return made + gpt.lerp(x, x.detach(), 0.3).sum()


def _gradient_of(loss: Any, x: Any) -> Any:
    x.grad = None
    loss().backward()
    return x.grad


def _compiled(graph: Any) -> Any:
    return torch.compile(graph, backend="eager", fullgraph=True)


def test_compiled_autograd() -> None:
    from torch._dynamo import compiled_autograd

    x = torch.randn(4, 5, requires_grad=True)
    expected = _gradient_of(lambda: _step(x), x)
    with compiled_autograd._enable(_compiled):
        assert torch.equal(_gradient_of(lambda: _step(x), x), expected)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(4, 5, requires_grad=True)
    expected = _gradient_of(lambda: _step(x), x)
    loss = lambda: checkpoint(_step, x, use_reentrant=reentrant)  # noqa: E731
    assert torch.equal(_gradient_of(loss, x), expected)
