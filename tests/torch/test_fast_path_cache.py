"""The fast path's object in C: which launch it finds for a call."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch_paths import launch, make_path, marks  # noqa: E402


def _again(a: Any) -> Any:
    """An equal argument, but another object."""
    if isinstance(a, torch.Tensor):
        return a.detach()
    if isinstance(a, bool) or a is None:
        return a
    return "".join(list(a)) if isinstance(a, str) else type(a)(repr(a))


def _check_apart(path: Any, calls: Any) -> None:
    """Each call finds its own launch, in whatever order they are made."""
    for i, call in enumerate(calls):
        assert marks(path, *call) == [None, None]
        path.add(launch(i), *call)
    for i, j in itertools.product(range(len(calls)), repeat=2):
        assert marks(path, *calls[i]) == [i, i]
        assert marks(path, *map(_again, calls[j])) == [j, j]


def test_shapes_and_element_types() -> None:
    x = torch.randn(2, 3)
    kinds = [x, x.double(), x.bfloat16(), x.half(), torch.zeros(2, 3, dtype=torch.int32)]
    shapes = [(6,), (3, 2), (2, 3, 1), (1, 2, 3), (0,), (0, 3), (2, 0)]
    tensors = [*kinds, *(torch.zeros(shape) for shape in shapes), x[0, 0]]
    _check_apart(make_path(), [(t,) for t in tensors])
    pairs = [(x[0], x[0, 0]), (x[0, 0], x[0]), (x, x[0]), (x[0], x), (x, x)]
    _check_apart(make_path(2), pairs)


def test_an_extent_is_not_taken_for_an_element_type() -> None:
    """They are numbers in one row; this extent is what stands for float32 in the CPU's memory."""
    wide, one = (1 << 40) + (2 << 16) + 32, torch.zeros(())
    pairs = [(one.expand(wide, 7), one.expand(5)), (one, one.expand(7, wide, 5))]
    _check_apart(make_path(2), pairs)


def test_options() -> None:
    x = torch.randn(2, 3)
    numbers = [0.0, -0.0, 0.5, -0.5, 1e300, float("inf"), 5e-324]
    _check_apart(make_path(1, 1), [(x, number) for number in numbers])
    many = [(x, dim, reverse) for dim in (0, 1, -1, 1 << 40) for reverse in (False, True)]
    _check_apart(make_path(1, 2), many)
    _check_apart(make_path(1, 2), [(x, n, w) for n in (None, 3, 300) for w in ("raise", "skip")])
    _check_apart(make_path(1, 1), [(x, one) for one in (1, True, 1.0, "1")])


def test_a_weight_that_is_no_number() -> None:
    """NaN equals nothing, not even the NaN of before: no launch is found, or the same one."""
    path, x, nan = make_path(1, 1), torch.randn(2, 3), float("nan")
    path.add(launch(4), x, nan)
    for weight, found in ((nan, 4), (float("nan"), None), (nan, 4)):
        assert marks(path, x, weight) == [found, found]


@pytest.mark.parametrize(
    "option", [["raise"], torch.tensor(1), object(), 1j, b"raise"], ids=lambda x: type(x).__name__
)
def test_options_that_may_change_or_are_none(option: Any) -> None:
    path, x = make_path(1, 1), torch.randn(2, 3)
    for _ in range(2):
        assert marks(path, x, option) == [NotImplemented, None]
        path.add(launch(4), x, option)


def test_nothing_else_matters() -> None:
    path, x = make_path(), torch.randn(4, 4)
    path.add(launch(4), x)
    for y in (x.T, torch.nn.Parameter(x), x.clone().requires_grad_(), x[:1].expand(4, 4)):
        assert marks(path, y) == [4, 4]


@pytest.mark.parametrize(
    "x",
    [
        *(torch.zeros(2, 3, device="meta"), torch.zeros([1] * 64), torch.zeros(2, 3).to_sparse()),
        *(7, "x", [1.0], object(), torch.Tensor, torch.Size([5, 7])),
    ],
    ids=lambda x: str(type(x)),
)
def test_what_is_no_tensor_with_memory_here(x: Any) -> None:
    path = make_path(dispatcher=((type(x),), (), (), torch.empty(0).is_neg, bool), floats=())
    for _ in range(2):
        assert marks(path, x) == [NotImplemented, None]
        path.add(launch(4), x)


def test_a_tensor_that_is_left_out_is_remembered_as_that() -> None:
    """None stands for an optional tensor: a call without it is another one than a call with it."""
    path = make_path(dispatcher=((type(None),), (), (), torch.empty(0).is_neg, bool), floats=())
    x = torch.zeros(2, 3)
    path.add(launch(4), x)
    assert path.run(None) is None  # the first call of its kind
    assert path.run(x) is not None


def test_batches_have_no_memory_of_their_own() -> None:
    """Wrappers of transforms say that they are plain tensors. They are not."""
    path, x, seen = make_path(), torch.randn(2, 3, requires_grad=True), []
    path.add(launch(4), x)

    def watch(y: Any) -> Any:
        seen.append(marks(path, y))
        return y * 1

    y = x * 1
    y.register_hook(watch)
    torch.autograd.grad(y, x, torch.randn(4, 2, 3), is_grads_batched=True)
    torch.func.vmap(watch)(torch.randn(4, 2, 3))
    assert seen == [[NotImplemented, None]] * 2


def test_tensors_of_many_axes() -> None:
    long = torch.randn([1] * 60)
    for inputs, found in ((1, [4, 4]), (7, [NotImplemented, None])):
        path = make_path(inputs)
        path.add(launch(4), *[long] * inputs)
        assert marks(path, *[long] * inputs) == found


def test_a_launch_takes_the_place_of_another() -> None:
    path, x = make_path(1, 1), torch.randn(2, 3)
    for mark in (1, 2):
        path.add(launch(mark), x, 0.5)
        assert marks(path, x, 0.5) == [mark, mark]
    path.clear()
    assert marks(path, x, 0.5) == [None, None]
    path.add(launch(3), x, 0.5)
    assert marks(path, x, 0.5) == [3, 3]
    path.add(None, x, 0.5)  # there is none, and no need to look for one again
    assert marks(path, x, 0.5) == [NotImplemented, None]


def test_a_full_cache_starts_over() -> None:
    path, x = make_path(1, 1, limit=10), torch.randn(2, 3)
    for i in range(25):
        path.add(launch(i), x, i)
    assert [i for i in range(25) if path.run(x, i) is not None] == list(range(20, 25))


def test_many_threads_and_a_cache_that_is_cleared() -> None:
    path, tensors = make_path(1, 1), [torch.randn(n, 3) for n in range(8)]
    launches = [launch(k) for k in range(8)]

    def ask(i: int) -> bool:
        k = i % len(tensors)
        found = path.call(tensors[k], 0.25)
        if i % 50 == 0:
            path.clear()
        if found is None:
            path.add(launches[k], tensors[k], 0.25)
        return found is None or found.numel() == k

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(ask, range(6000)))
