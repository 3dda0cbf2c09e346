"""Recipes by the call that they are for, in C and in Python."""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gradplan.torch.listening import is_transforming, make_quiet  # noqa: E402
from gradplan.torch.table import Table, make_table  # noqa: E402

pytestmark = pytest.mark.usefixtures("way")


class Subclass(torch.Tensor):  # type: ignore[misc]
    pass


class Recipe:
    pass


def _table(inputs: int, options: int = 0, limit: int = 100) -> Table:
    return make_table(make_quiet(range(inputs), is_transforming), inputs, options, limit)


def _again(arguments: Any) -> list[Any]:
    """Equal arguments, but other objects."""
    copied: list[Any] = []
    for a in arguments:
        if isinstance(a, torch.Tensor):
            copied.append(a.clone())
        elif isinstance(a, float):
            copied.append(float(repr(a)))
        elif isinstance(a, str):
            copied.append("".join(list(a)))
        elif type(a) is int:
            copied.append(int(str(a)))
        else:
            copied.append(a)
    return copied


def _check_apart(table: Table, calls: Any) -> None:
    """Each call finds its own recipe, in whatever order they are asked for."""
    recipes = [Recipe() for _ in calls]
    for call, recipe in zip(calls, recipes, strict=True):
        assert table.find(*call) is None
        assert table.enter(*call) is None
        table.add(recipe, *call)
    for i, j in itertools.product(range(len(calls)), repeat=2):
        for find in (table.find, table.enter):
            assert find(*calls[i]) is recipes[i]
            assert find(*_again(calls[j])) is recipes[j]


def test_shapes_and_element_types() -> None:
    x = torch.randn(2, 3)
    kinds = [x, x.double(), x.bfloat16(), x.half(), torch.zeros(2, 3, dtype=torch.int32)]
    shapes = [(6,), (3, 2), (2, 3, 1), (1, 2, 3), (0,), (0, 3), (2, 0)]
    tensors = [*kinds, *(torch.zeros(shape) for shape in shapes), x[0, 0]]
    _check_apart(_table(1), [(t,) for t in tensors])
    pairs = [(x[0], x[0, 0]), (x[0, 0], x[0]), (x, x[0]), (x[0], x), (x, x)]
    _check_apart(_table(2), pairs)


def test_an_extent_is_not_taken_for_an_element_type() -> None:
    """Extents and types are numbers in one row; this extent is float32's code and size."""
    wide, one = (2 << 16) + 32, torch.zeros(())
    pairs = [(one.expand(wide, 7), one.expand(5)), (one, one.expand(7, wide, 5))]
    _check_apart(_table(2), pairs)


def test_options() -> None:
    x = torch.randn(2, 3)
    numbers = [0.0, -0.0, 0.5, -0.5, 1e300, float("inf"), 5e-324]
    _check_apart(_table(1, 1), [(x, number) for number in numbers])
    many = [(x, dim, reverse) for dim in (0, 1, -1, 1 << 40) for reverse in (False, True)]
    _check_apart(_table(1, 2), many)
    _check_apart(_table(1, 2), [(x, n, w) for n in (None, 3, 300) for w in ("raise", "skip")])


def test_a_weight_that_is_no_number() -> None:
    """NaN equals nothing, not even the NaN of before: no recipe is found, or the same one."""
    x, nan = torch.randn(2, 3), float("nan")
    table, recipe = _table(1, 1), Recipe()
    table.add(recipe, x, nan)
    assert table.find(x, nan) is recipe
    assert table.find(x, float("nan")) is None
    assert table.find(x, nan) is recipe


def test_nothing_else_matters() -> None:
    x = torch.randn(4, 4)
    table, recipe = _table(1), Recipe()
    table.add(recipe, x)
    for y in (x.T, torch.nn.Parameter(x), x.clone().requires_grad_(), x[:1].expand(4, 4)):
        assert table.find(y) is recipe
        assert table.enter(y) is recipe


def test_what_the_dispatcher_has_to_see() -> None:
    x = torch.randn(2, 3)
    table, recipe = _table(2), Recipe()
    table.add(recipe, x, x)
    subclass = x.as_subclass(Subclass)
    for y in (subclass, torch._neg_view(x)):
        assert table.enter(x, y) is False
        assert table.enter(y, x) is False
        assert table.find(x, y) is recipe  # the dispatcher's own way here
    seen: list[Any] = []

    def watch(y: Any) -> Any:
        seen.extend((table.enter(x, x), table.find(x, x)))
        return y

    torch.func.vmap(watch)(x)
    assert seen == [False, recipe]


def test_what_has_no_memory_here() -> None:
    x = torch.randn(2, 3)
    table = _table(1)
    table.add(Recipe(), x)
    meta = x.to("meta")
    assert table.enter(meta) is False
    assert table.find(meta) is None
    table.add(Recipe(), meta)
    assert table.find(meta) is None


def test_batches_have_no_memory_of_their_own() -> None:
    x = torch.randn(2, 3, requires_grad=True)
    table = _table(1)
    table.add(Recipe(), x)
    seen: list[Any] = []

    class Watch(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.extend((table.enter(g), table.find(g)))
            return g

    torch.autograd.grad(Watch.apply(x), x, torch.randn(4, 2, 3), is_grads_batched=True)
    assert seen == [False, None]


def test_options_that_cannot_be_hashed() -> None:
    x = torch.randn(2, 3)
    table = _table(1, 1)
    assert table.find(x, ["raise"]) is None
    assert table.enter(x, ["raise"]) is None
    with pytest.raises(TypeError, match="unhashable"):
        table.add(Recipe(), x, ["raise"])


def test_nothing_is_remembered_after_clear() -> None:
    x = torch.randn(2, 3)
    table = _table(1, 1)
    table.add(Recipe(), x, 0.5)
    assert table.find(x, 0.5) is not None
    assert table.enter(x, 0.5) is not None
    table.clear()
    assert table.find(x, 0.5) is None
    assert table.enter(x, 0.5) is None
    after = Recipe()
    table.add(after, x, 0.5)
    assert table.enter(x, 0.5) is after


def test_a_recipe_takes_the_place_of_another() -> None:
    x = torch.randn(2, 3)
    table = _table(1)
    for _ in range(2):
        recipe = Recipe()
        table.add(recipe, x)
        table.clear()
        table.add(recipe, x)
        assert table.find(x) is recipe
        assert table.enter(x) is recipe


def test_a_full_table_starts_over() -> None:
    table = _table(1, 1, limit=10)
    x = torch.randn(2, 3)
    for i in range(25):
        table.add(Recipe(), x, i)
    assert [i for i in range(25) if table.find(x, i) is not None] == list(range(20, 25))


def test_many_threads() -> None:
    table = _table(1, 1)
    tensors = [torch.randn(n, 3) for n in range(8)]
    recipes = [Recipe() for _ in tensors]

    def ask(i: int) -> bool:
        k = i % len(tensors)
        found = table.enter(tensors[k], 0.25)
        if i % 50 == 0:
            table.clear()
        if found is None:
            table.add(recipes[k], tensors[k], 0.25)
            return True
        return found is recipes[k]

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(ask, range(6000)))


def test_no_reference_is_lost_or_kept() -> None:
    x, weight, word = torch.randn(2, 3), 0.123, object()
    table = _table(1, 2)
    recipe = Recipe()
    table.add(recipe, x, weight, word)
    watched = [x, weight, word, recipe, None, True, False]
    before = [sys.getrefcount(w) for w in watched]
    for _ in range(500):
        table.find(x, weight, word), table.enter(x, weight, word), table.enter(x, 0.5, word)
        table.find(x, -0.0, None), table.find(x, 0.0, True), table.enter(x, [], word)
        table.add(recipe, x, weight, word)
    for w, count in zip(watched, before, strict=True):
        assert abs(sys.getrefcount(w) - count) < 50
    watch = weakref.ref(recipe)
    table.clear()
    del recipe, watched, w
    gc.collect()
    assert watch() is None


def test_a_table_lets_go_of_what_it_holds() -> None:
    table, recipe = _table(1), Recipe()
    watch = weakref.ref(recipe)
    table.add(recipe, torch.zeros(3))
    table.find(torch.zeros(3))
    del recipe
    gc.collect()
    assert watch() is not None
    del table
    gc.collect()
    assert watch() is None
