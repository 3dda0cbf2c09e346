"""The fast path's object in C: what it asks, finds, allocates and runs, and when it declines."""

from __future__ import annotations

import gc
import math
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from operator_arguments import defaults_behind  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.overrides import BaseTorchFunctionMode  # noqa: E402
from torch_cases import Listener  # noqa: E402
from torch_paths import NATIVE, launch, make_path, marks  # noqa: E402

from gradplan.memory import LARGE  # noqa: E402
from gradplan.torch import private  # noqa: E402
from gradplan.torch.fast_path import make_launch  # noqa: E402
from gradplan.torch.operators import OPERATORS  # noqa: E402
from gradplan.vocabulary import IndexOutOfRange, InvalidProblem  # noqa: E402

SHAPE = (5, 7)
FORWARD = defaults_behind("cumsum", "axis")


def path_for(name: str, arguments: tuple[Any, ...], **how: Any) -> Any:
    """A path with an operator's launch for these arguments."""
    operator = OPERATORS[name]
    counts = len(operator.tensors), len(operator.options), len(operator.outputs)
    path = make_path(*counts, floats=tuple(operator.differentiable), **how)
    call, shapes = operator.prepare(arguments)
    path.add(make_launch(call, operator._new_outputs(arguments, shapes), ("saved",)), *arguments)
    return path


# What the dispatcher would notice -------------------------------------------------------------


class Subclass(torch.Tensor):  # type: ignore[misc]
    pass


def _within(context: Any) -> Callable[[Callable[[Any], Any]], None]:
    def around(watch: Callable[[Any], Any]) -> None:
        with context():
            watch(torch.zeros(2))

    return around


AROUND = {
    "dispatch mode": _within(Listener),
    "function mode": _within(BaseTorchFunctionMode),
    "forward mode": _within(forward_ad.dual_level),
    "autograd's profiler": _within(torch.autograd.profiler.profile),
    "profiler": _within(torch.profiler.profile),
    "vmap": lambda watch: torch.func.vmap(watch)(torch.zeros(2)),
    "grad": lambda watch: torch.func.grad(watch)(torch.tensor(1.0)),
    "trace": lambda watch: torch.jit.trace(watch, (torch.zeros(2),), check_trace=False),
}


@pytest.mark.parametrize("around", AROUND)
def test_what_goes_on_around_is_noticed(around: str) -> None:
    path, x, seen = make_path(), torch.randn(2, 3), []
    path.add(launch(4), x)

    def watch(y: Any) -> Any:
        seen.extend(marks(path, x))
        return y + 1

    AROUND[around](watch)
    assert seen == [4, None]
    assert marks(path, x) == [4, 4]


def test_subclasses_and_turned_signs_are_noticed() -> None:
    x = torch.randn(2, 3)
    path, indices = make_path(2), make_path(2, floats=(1,))
    for p in (path, indices):
        p.add(launch(4), x, x)
    for y in (x, x.T.contiguous().T, torch.nn.Parameter(x), x.clone().requires_grad_()):
        assert marks(path, x, y) == marks(path, y, x) == [4, 4]
    with torch.autocast("cpu"):
        assert marks(path, x, x) == [4, 4]
    negated = torch._neg_view(x), torch.complex(x, x).conj().imag
    for y in (x.as_subclass(Subclass), *negated):
        assert marks(path, x, y) == marks(path, y, x) == [4, None]
        assert marks(indices, x, y) == [4, None]
    for y in negated:
        assert marks(indices, y, x) == [4, 4]  # not asked for an index
        assert marks(path, x, y.resolve_neg()) == [4, 4]


def _dispatcher(questions: Any = (), variables: Any = (), is_neg: Any = None) -> Any:
    return (torch.Tensor,), questions, variables, is_neg or torch.empty(0).is_neg, bool


def test_questions_are_asked_each_time() -> None:
    x, answers = torch.randn(2, 3), [False, 0, True, 1, None, [], "yes"]
    ask = _dispatcher((lambda: answers.pop(0), torch.is_inference_mode_enabled))  # the latter in C
    path = make_path(dispatcher=ask)
    path.add(launch(4), x)
    served = [path.call(x) is not None for _ in range(7)]
    assert served == [True, True, False, False, True, True, False]
    answers.append(False)
    with torch.inference_mode():
        assert path.call(x) is None


def test_errors_are_left_to_the_dispatcher() -> None:
    class Undecided:
        def __bool__(self) -> bool:
            raise RuntimeError("neither yes nor no")

        __eq__ = __bool__  # type: ignore[assignment]

    def noticed(*questions: Any, **variables: Any) -> bool:
        watched = ((variables, "level", -1),) if variables else ()
        path, x = make_path(dispatcher=_dispatcher(questions, watched)), torch.randn(2, 3)
        path.add(launch(4), x)
        return path.call(x) is None

    assert not noticed()
    assert not noticed(level=-1)
    assert noticed(Undecided) and noticed(lambda: 1 / 0)
    for level in (0, "high", Undecided()):
        assert noticed(level=level)
    assert noticed(other=-1)


# Kernels --------------------------------------------------------------------------------------


def _counting(*shape: int) -> Any:
    """Numbers whose sums are exact in any order."""
    return torch.arange(float(math.prod(shape))).reshape(shape)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
def test_new_outputs(dtype: Any) -> None:
    x = _counting(*SHAPE).to(dtype).requires_grad_()
    path = path_for("cumsum", (x, 0, *FORWARD))
    first = path.run(x, 0, *FORWARD)
    second = path.call(torch.nn.Parameter(x).detach(), 0, *FORWARD)
    assert (first.dtype, first.requires_grad, first.is_contiguous()) == (dtype, False, True)
    assert torch.equal(first, torch.cumsum(x, 0))
    assert torch.equal(first, second)
    assert first.data_ptr() != second.data_ptr()


@pytest.mark.parametrize(
    "x",
    [
        _counting(7, 5).T,
        _counting(5, 14)[:, ::2],
        _counting(1, 7).expand(5, 7),
        _counting(5, 1, 7)[:, 0],
        _counting(0, 7),
        _counting(1, 7).as_strided((1, 7), (99, 1)),
        torch.tensor(2.0),
    ],
    ids=["transposed", "strided", "expanded", "sliced", "empty", "one row", "0-d"],
)
def test_outputs_are_strided_as_the_input_is(x: Any) -> None:
    y = path_for("cumsum", (x, 0, *FORWARD)).run(x, 0, *FORWARD)
    like = torch.empty_like(x)
    assert y.shape == x.shape
    assert all(a == b for a, b, n in zip(y.stride(), like.stride(), x.shape, strict=True) if n > 1)
    assert torch.equal(y, torch.cumsum(x, 0))


def test_outputs_that_are_like_no_input_are_contiguous() -> None:
    arguments = torch.randn(4, 6).T, torch.tensor([5, 0, 5]), None, "raise"
    y = path_for("embedding_with_padding", arguments).run(*arguments)
    assert y.is_contiguous()
    assert torch.equal(y, arguments[0][arguments[1]])


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True), (False, False)])
def test_only_wanted_outputs(wanted: tuple[bool, bool]) -> None:
    g = torch.randn(SHAPE)
    path = path_for("lerp_backward", (g, 0.25))
    everything = path.run(g, 0.25)
    none, *some = path.call_backward((g,), (), (0.25, "more"), (False, *wanted))
    assert none is None
    assert torch.equal(everything[0], 0.75 * g)
    for made, one, want in zip(everything, some, wanted, strict=True):
        assert torch.equal(one, made) if want else one is None
    none, first = path.call_backward((g,), (), (0.25,), (False, True))
    assert torch.equal(first, everything[0])


def test_what_the_kernel_refuses_is_for_the_dispatcher() -> None:
    x = _counting(*SHAPE)
    arguments, operator = (x, 0, *FORWARD), OPERATORS["cumsum"]
    path, (other, _) = path_for("cumsum", arguments), operator.prepare(arguments)
    for y in (torch.randn(3, 3), x.double()):
        unfit = y, 0, *(1 for _ in FORWARD)
        path.add(make_launch(other, operator._new_outputs((x,), [SHAPE]), ()), *unfit)
        assert marks(path, *unfit) == [NotImplemented, None]
    assert torch.equal(path.run(*arguments), torch.cumsum(x, 0))  # nothing is left of the errors
    assert make_launch(len, [], ()) is None  # a kernel in Python


def test_errors_come_out_of_the_operator() -> None:
    weight, good, bad = torch.randn(4, 6), torch.tensor([1, 3]), torch.tensor([1, 4])
    call = OPERATORS["embedding_with_padding"].call
    for _ in range(2):
        assert torch.equal(call(weight, good, None, "raise"), weight[good])
        with pytest.raises(IndexOutOfRange, match=r"indices\[1\] = 4"):
            call(weight, bad, None, "raise")
    with pytest.raises(InvalidProblem, match="shape"):
        OPERATORS["lerp"].call(weight, torch.randn(4, 5), 0.5)


def test_allocation() -> None:
    def allocate(*described: Any) -> Any:
        raise MemoryError("for small ones")

    x = torch.randn(LARGE // 4)
    small = path_for("cumsum", (x[1:], 0, *FORWARD), allocate=allocate)
    for run in (small.run, small.call):
        with pytest.raises(MemoryError, match="for small ones"):
            run(x[1:], 0, *FORWARD)
    large = path_for("cumsum", (x, 0, *FORWARD), allocate=allocate)
    assert torch.allclose(large.run(x, 0, *FORWARD), torch.cumsum(x, 0), atol=1e-2)
    endless = x[:1].expand(1 << 50)
    with pytest.raises(RuntimeError, match=r"allocate|memory"):
        path_for("cumsum", (endless, 0, *FORWARD)).run(endless, 0, *FORWARD)


@pytest.mark.parametrize("columns", [7, 4001])  # with Python's lock held, and without
def test_many_threads(columns: int) -> None:
    x = torch.randn(5, columns)
    path = path_for("cumsum", (x, 1, *FORWARD))
    expected = path.run(x, 1, *FORWARD)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: path.call(x, 1, *FORWARD), range(600)))
    assert all(torch.equal(y, expected) for y in results)


def test_what_is_recorded() -> None:
    a, b = torch.randn(SHAPE, requires_grad=True), torch.randn(SHAPE)
    given: list[Any] = []
    path = path_for("lerp", (a, b, 0.5), apply=lambda *all: given.extend(all) or 7, kept=(2, 0))
    assert path.call(a, b, 0.5) == 7
    (result, options, kept, everything), *floats = given
    assert torch.equal(result, torch.lerp(a, b, 0.5))
    assert options == ("saved",) and everything is None
    assert len(kept) == 2 and kept[0] is result and kept[1] is a
    assert len(floats) == 1 and floats[0] is a
    given.clear()
    assert path.call(b, a, 0.5) == 7
    assert len(given) == 3 and given[1] is b and given[2] is a
    given.clear()
    with torch.no_grad():
        assert torch.equal(path.call(a, b, 0.5), result)
    assert torch.equal(path.run(a, b, 0.5), result)
    assert torch.equal(path.call(b, b, 0.5), b)
    assert not given
    with pytest.raises(ZeroDivisionError):
        path_for("lerp", (a, b, 0.5), apply=lambda *all: 1 / 0).call(a, b, 0.5)


def test_results_behind_the_recorded_ones_go_past_autograd() -> None:
    x = torch.randn(SHAPE, requires_grad=True)
    arguments = x, 1, False, "last"
    values, indices = torch.cummax(x.detach(), 1)
    given: list[Any] = []
    for first, made in ((1, "values"), (2, ("values", "indices"))):
        path = path_for(
            "cummax_with_indices",
            arguments,
            apply=lambda *all, made=made: given.append(all) or made,
            first=first,
        )
        results = path.call(*arguments)
        recorded = given.pop()[0][0]
        assert torch.equal(recorded if first == 1 else recorded[0], values)
        assert results[0] == "values" and len(results) == 2
        assert results[1] == "indices" if first == 2 else torch.equal(results[1], indices)


# Arguments that make no sense, and references -------------------------------------------------


def test_the_number_of_arguments() -> None:
    x = torch.randn(SHAPE)
    path = path_for("lerp", (x, x, 0.5))
    for function in (path.call, path.run, lambda *given: path.add(None, *given)):
        for arguments in ((), (x,), (x, x, 0.5, True)):
            with pytest.raises(TypeError, match=f"expected 3 arguments, got {len(arguments)}"):
                function(*arguments)
    with pytest.raises(TypeError, match="expected 3 arguments"):
        path.add()
    flags = (False, True)
    for tuples in ((), ((x, x, 0.5),), ((x, x), flags), ((x, x, 0.5), (False, *flags))):
        with pytest.raises(TypeError, match="tuples of 3 arguments in all and 2 to 2 flags"):
            path.call_backward(*tuples)
    with pytest.raises(SystemError):  # Python's own, for what is no tuple
        path.call_backward([x, x, 0.5], flags)


def test_descriptions_that_make_no_sense() -> None:
    x = torch.randn(SHAPE)
    for counts in ((1, 0, 0), (8, 0, 1), (0, 0, 1), (1, -1, 1), (1, 16, 1)):
        with pytest.raises(ValueError, match=r"at most 8 tensors, .* 16 arguments"):
            make_path(*counts, floats=())
    for positions in ((1,), (-1,), (0, 0)):
        with pytest.raises(ValueError, match="different positions below 1"):
            make_path(floats=positions)
        with pytest.raises(ValueError, match="different positions below 2"):
            make_path(kept=tuple(2 * p for p in positions))
    with pytest.raises(TypeError):
        make_path(floats=("0",))
    with pytest.raises(TypeError, match="a tensor's own method"):
        make_path(dispatcher=_dispatcher(is_neg=lambda: False))
    with pytest.raises(TypeError):
        make_path(dispatcher=_dispatcher(variables=((),)))
    with pytest.raises(AttributeError, match="exchange_api"):
        NATIVE(int, private.DISPATCHER, None, None, (), (), 1, 0, 1, 1, 1)
    for first in (-1, 2):
        with pytest.raises(ValueError, match="at most 8 tensors"):
            make_path(first=first)
    *described, (output,), saved = launch(4)
    with pytest.raises(ValueError, match="expected 1 outputs, got 2"):
        make_path().add((*described, (output, output), saved), x)
    with pytest.raises(ValueError, match="no such input"):
        make_path().add((*described, ((*output[:2], 1),), saved), x)
    with pytest.raises(TypeError):
        make_path().add(tuple(described), x)


@pytest.mark.slow
def test_no_reference_is_lost_or_kept() -> None:
    x, g, unfit = torch.randn(SHAPE), torch.randn(SHAPE), torch.randn(3, 3)
    a, weight, recorded = torch.randn(SHAPE, requires_grad=True), 0.123, object()
    sums, lerps = path_for("cumsum", (x, 0, *FORWARD)), path_for("lerp_backward", (g, weight))
    mixes = path_for("lerp", (a, x, weight), apply=lambda *_: recorded, kept=(0, 1, 2))
    other = launch(4)

    def calls(times: int) -> None:
        for _ in range(times):
            sums.run(x, 0, *FORWARD), sums.call(x, 0, *FORWARD), sums.run(x.T[:5].T, 0, *FORWARD)
            sums.run(unfit, 0, *FORWARD), sums.call(None, 0, *FORWARD), sums.call(x, 0, [], {})
            sums.call(x, -0.0, None, None), sums.run(x, 1, True, True)
            sums.add(other, unfit, 1, *FORWARD)
            lerps.run(g, weight), lerps.call_backward((g,), (), (weight,), (False, True, False))
            mixes.call(a, x, weight), mixes.run(a, x, weight)
            with pytest.raises(TypeError):
                sums.run()

    watched = [x, g, a, unfit, weight, recorded, other, None, True, False, NotImplemented]
    calls(10)
    gc.collect()
    before = [sys.getrefcount(w) for w in watched]
    tracemalloc.start()
    try:
        calls(20)
        gc.collect()
        first, _ = tracemalloc.get_traced_memory()
        calls(400)
        gc.collect()
        second, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    for w, count in zip(watched, before, strict=True):
        assert abs(sys.getrefcount(w) - count) < 50
    assert second - first < 20_000


@pytest.mark.slow
@pytest.mark.parametrize("forget", ["clear", "delete"])
def test_it_lets_go_of_what_it_holds(forget: str) -> None:
    options, x = torch.nn.Module(), torch.zeros(3)
    watch, path = weakref.ref(options), make_path()
    path.add(launch(4, options), x)
    path.run(x)
    del options
    gc.collect()
    assert watch() is not None
    if forget == "clear":
        path.clear()
    else:
        del path
    gc.collect()
    assert watch() is None
