"""The operations of the contract by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Every operation by its name."""


def operation(function: F) -> F:
    """The function is the reference of the op that has its name."""
    FUNCTIONS[function.__name__] = function
    return function
