"""Kernels as functions of PyTorch's tensors, in C and in Python."""

from __future__ import annotations

import gc
import math
import sys
import sysconfig
import tracemalloc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gradplan.memory import LARGE  # noqa: E402
from gradplan.torch import native  # noqa: E402
from gradplan.torch.launching import make_launch  # noqa: E402
from gradplan.torch.operators import OPERATORS  # noqa: E402
from gradplan.torch.outputs import Output  # noqa: E402
from gradplan.vocabulary import IndexOutOfRange, InvalidProblem  # noqa: E402

SHAPE = (5, 7)


def _counting(*shape: int) -> Any:
    """Numbers whose sums are exact in any order."""
    return torch.arange(float(math.prod(shape))).reshape(shape)


def _launch(
    name: str, arguments: tuple[Any, ...], otherwise: Any = None, like: int | None = 0
) -> Callable[..., Any]:
    operator = OPERATORS[name]
    run, shapes = operator.prepare(arguments)
    first = arguments[operator.differentiable[0]]
    outputs = [Output(tuple(shape), first.dtype, like) for shape in shapes]
    return make_launch(run, len(operator.tensors), outputs, otherwise or run)


def _unreached(*tensors: Any) -> Any:
    raise AssertionError("the kernel refused")


def test_the_module_in_c_is_there() -> None:
    """If it could be built: without it everything works, but slower."""
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    free_threaded = sysconfig.get_config_var("Py_GIL_DISABLED")
    if headers.exists() and native.EXPORTS_GRAD and not free_threaded:
        assert native.MODULE is not None


def test_each_way_is_what_it_says(way: str) -> None:
    launch = _launch("cumsum", (torch.randn(SHAPE), 1, False))
    assert isinstance(launch, type(len)) == (way == "in C")


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
def test_new_outputs(way: str, dtype: Any) -> None:
    x = _counting(*SHAPE).to(dtype)
    launch = _launch("cumsum", (x, 0, False), _unreached)
    first, second = launch(x), launch(x)
    assert first.dtype is dtype
    assert first.is_contiguous()
    assert torch.equal(first, torch.cumsum(x, 0))
    assert torch.equal(first, second)
    assert first.data_ptr() != second.data_ptr()


def test_tensors_with_gradients_are_taken_as_they_are(way: str) -> None:
    x = torch.randn(SHAPE, requires_grad=True)
    y = _launch("cumsum", (x, 0, False), _unreached)(x)
    assert not y.requires_grad
    z = _launch("cumsum", (x, 0, False), _unreached)(torch.nn.Parameter(x.detach()))
    assert torch.equal(y, z)


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
def test_outputs_are_strided_as_the_input_is(way: str, x: Any) -> None:
    y = _launch("cumsum", (x, 0, False), _unreached)(x)
    like = torch.empty_like(x)
    assert y.shape == x.shape
    assert all(a == b for a, b, n in zip(y.stride(), like.stride(), x.shape, strict=True) if n > 1)
    assert torch.equal(y, torch.cumsum(x, 0))


def test_outputs_that_are_like_no_input_are_contiguous(way: str) -> None:
    weight = torch.randn(4, 6).T
    rows = torch.tensor([5, 0, 5])
    launch = _launch("embedding_with_padding", (weight, rows, None, "raise"), _unreached, like=None)
    y = launch(weight, rows)
    assert y.is_contiguous()
    assert torch.equal(y, weight[rows])


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True), (False, False)])
def test_only_wanted_outputs(way: str, wanted: tuple[bool, bool]) -> None:
    g = torch.randn(SHAPE)
    launch = _launch("lerp_backward", (g, 0.25), _unreached)
    everything, some = launch(g), launch(g, *wanted)
    assert torch.equal(everything[0], 0.75 * g)
    for made, one, want in zip(everything, some, wanted, strict=True):
        assert torch.equal(one, made) if want else one is None


def test_what_the_kernel_refuses_goes_on(way: str) -> None:
    x = _counting(*SHAPE)
    seen: list[Any] = []

    def otherwise(*tensors: Any) -> str:
        seen.append(tensors)
        return "mended"

    launch = _launch("cumsum", (x, 0, False), otherwise)
    unfit = torch.randn(3, 3), x.double(), x.to("meta"), x.to_sparse()
    for y in unfit:
        assert launch(y) == "mended"
    assert [len(tensors) for tensors in seen] == [2] * len(unfit)
    assert all(a is b and none is None for (a, none), b in zip(seen, unfit, strict=True))
    assert torch.equal(launch(x), torch.cumsum(x, 0))  # nothing is left of the errors


def test_errors_come_out_as_they_are(way: str) -> None:
    weight = torch.randn(4, 6)
    launch = _launch(
        "embedding_with_padding", (weight, torch.tensor([1, 2]), None, "raise"), like=None
    )
    for _ in range(2):
        with pytest.raises(IndexOutOfRange, match=r"indices\[1\] = 4"):
            launch(weight, torch.tensor([1, 4]))
    assert torch.equal(launch(weight, torch.tensor([1, 3])), weight[[1, 3]])
    with pytest.raises(InvalidProblem, match="shape"):
        launch(torch.randn(4, 5), torch.tensor([1, 3]))


@pytest.mark.parametrize("impostor", [None, 7, "x", [1.0], object(), torch.Size([5, 7])], ids=type)
def test_what_is_no_tensor_is_not_touched(way: str, impostor: Any) -> None:
    x = torch.randn(SHAPE)
    launch = _launch("cumsum", (x, 0, False), lambda *tensors: "mended")
    assert launch(impostor) == "mended"


def test_batches_have_no_memory_of_their_own(way: str) -> None:
    """Wrappers of transforms say that they are plain tensors. They are not."""
    x = torch.randn(SHAPE)
    launch = _launch("cumsum", (x, 0, False), lambda y, out: y + 1)
    assert torch.equal(torch.func.vmap(launch)(torch.zeros(3, *SHAPE)), torch.ones(3, *SHAPE))


def test_the_number_of_arguments(in_c: Any) -> None:
    x = torch.randn(SHAPE)
    launch = _launch("lerp", (x, x, 0.5))
    for arguments in ((), (x,), (x, x, True, True)):
        with pytest.raises(TypeError, match="expected 2 tensors and perhaps 1 flags"):
            launch(*arguments)


def test_outputs_that_do_not_fit_into_memory(way: str) -> None:
    x = torch.randn(1).expand(1 << 50)
    launch = _launch("cumsum", (x, 0, False))
    with pytest.raises(RuntimeError, match=r"allocate|memory"):
        launch(x)


def test_allocation_errors_come_out(in_c: Any) -> None:
    def allocate(*described: Any) -> Any:
        raise MemoryError("none left")

    x = torch.randn(SHAPE)
    run, _ = OPERATORS["cumsum"].prepare((x, 0, False))
    kernel = run.kernel
    made = in_c.make_launch(
        kernel,
        kernel.__chandle__(),
        False,
        torch.Tensor,
        1,
        (((SHAPE, (7, 1), x.dtype), 0),),
        allocate,
        torch.empty_like,
        _unreached,
    )
    with pytest.raises(MemoryError, match="none left"):
        made(x)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (1, (), "at most"),
        (8, ((((5, 7), (7, 1), torch.float32), 0),), "at most"),
        (-1, ((((5, 7), (7, 1), torch.float32), -1),), "at most"),
        (1, ((((5, 7), (7, 1), torch.float32), 1),), "no such input"),
    ],
)
def test_descriptions_that_make_no_sense(
    in_c: Any, inputs: int, outputs: Any, message: str
) -> None:
    run, _ = OPERATORS["cumsum"].prepare((torch.randn(SHAPE), 0, False))
    handle = run.kernel.__chandle__()
    rest = (torch.empty, torch.empty_like, _unreached)
    with pytest.raises(ValueError, match=message):
        in_c.make_launch(run.kernel, handle, False, torch.Tensor, inputs, outputs, *rest)
    with pytest.raises(AttributeError, match="exchange_api"):
        in_c.make_launch(run.kernel, handle, False, int, 1, outputs, *rest)


def test_large_problems_go_through_python(in_c: Any) -> None:
    x = torch.randn(LARGE // 4)
    launch = _launch("cumsum", (x, 0, False))
    assert not isinstance(launch, type(len))
    assert isinstance(_launch("cumsum", (x[:-1], 0, False)), type(len))
    assert torch.allclose(launch(x), torch.cumsum(x, 0), atol=1e-2)


@pytest.mark.parametrize("columns", [7, 4001])  # with Python's lock held, and without
def test_many_threads(way: str, columns: int) -> None:
    x = torch.randn(5, columns)
    launch = _launch("cumsum", (x, 1, False), _unreached)
    expected = launch(x)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(launch, [x] * 600))
    assert all(torch.equal(y, expected) for y in results)


def test_no_reference_is_lost_or_kept(in_c: Any) -> None:
    x, g = torch.randn(SHAPE), torch.randn(SHAPE)
    unfit = torch.randn(3, 3)
    mended = object()
    sums = _launch("cumsum", (x, 0, False), lambda *tensors: mended)
    lerps = _launch("lerp_backward", (g, 0.25), _unreached)

    def calls(times: int) -> None:
        for _ in range(times):
            sums(x), sums(x.T[:5].T if x.shape[1] > 5 else x), sums(unfit), sums(None)
            lerps(g), lerps(g, True, False)
            with pytest.raises(TypeError):
                sums()

    watched = [x, g, unfit, mended, None, True, False, torch.empty_like]
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


def test_a_launch_lets_go_of_what_it_holds() -> None:
    x = torch.randn(SHAPE)

    class Otherwise:
        def __call__(self, *tensors: Any) -> None:
            return None

    otherwise = Otherwise()
    watch = weakref.ref(otherwise)
    launch = _launch("cumsum", (x, 0, False), otherwise)
    launch(x)
    del otherwise
    assert watch() is not None
    del launch
    gc.collect()
    assert watch() is None
