"""Recipes by the call that they are for: shapes and element types of tensors, and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from gradplan.torch import native
from gradplan.torch.listening import Quiet

is_batch = torch._C._functorch.is_legacy_batchedtensor
"""Of the old vmap, that is of `is_grads_batched`."""


class Table(NamedTuple):
    """Functions of a call's arguments, tensors first."""

    find: Callable[..., Any]
    """The recipe, or None."""
    enter: Callable[..., Any]
    """The same, and False if the dispatcher has to see the call."""
    add: Callable[..., None]
    """Takes a recipe and then the arguments."""
    clear: Callable[[], None]
    """Forgets everything; without arguments."""


def make_table(quiet: Quiet, inputs: int, options: int, limit: int) -> Table:
    """One for calls of that many tensors and options; if it is full it starts over."""
    if native.MODULE is None:
        return _table_in_python(quiet, inputs, limit)
    return Table(*native.MODULE.make_table(torch.Tensor, quiet, inputs, options, limit))


def _table_in_python(quiet: Quiet, inputs: int, limit: int) -> Table:
    recipes = _Recipes()

    def key_of(arguments: tuple[Any, ...]) -> Any:
        key: list[Any] = []
        for x in arguments[:inputs]:
            if not x.is_cpu or is_batch(x):
                return None
            key += x.shape, x.dtype
        for option in arguments[inputs:]:
            # 0.0 equals -0.0, which is a different weight.
            key.append(str(option) if type(option) is float and option == 0 else option)
        return tuple(key)

    def recipe_for(key: Any) -> Any:
        try:
            return recipes.get(key)
        except TypeError:  # an option that cannot be hashed is for others to refuse
            return None

    def find(*arguments: Any) -> Any:
        return recipe_for(key_of(arguments))

    def enter(*arguments: Any) -> Any:
        if not quiet(*arguments[:inputs]):
            return False
        key = key_of(arguments)
        return False if key is None else recipe_for(key)

    def add(recipe: Any, *arguments: Any) -> None:
        key = key_of(arguments)
        if key is not None:
            if len(recipes) >= limit:
                recipes.clear()
            recipes[key] = recipe

    return Table(find, enter, add, recipes.clear)


class _Recipes(dict[Any, Any]):
    """A class of its own: `torch.compile` in PyTorch 2.6 looks into a plain dictionary in sight of
    the code that it compiles, and compiles again whenever that changes."""
