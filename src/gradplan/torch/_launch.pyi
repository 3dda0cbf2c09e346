from collections.abc import Callable
from typing import Any

def make(
    kernel: Any,
    handle: int,
    release_lock: bool,
    tensor_type: type,
    inputs: int,
    outputs: tuple[tuple[tuple[Any, ...], int], ...],
    allocate: Callable[..., Any],
    empty_like: Callable[..., Any],
    otherwise: Callable[..., Any],
    /,
) -> Callable[..., Any]: ...
def make_key(
    tensor_type: type, exact_types: tuple[type, ...] | None, /
) -> Callable[..., bytes | None]: ...
