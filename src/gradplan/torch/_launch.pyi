from collections.abc import Callable
from typing import Any

def make_launch(
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
def make_quiet(
    plain_types: tuple[type, ...],
    floats: tuple[int, ...],
    questions: tuple[Callable[[], Any], ...],
    is_negated: Callable[[Any], bool],
    bound_is_negated: Callable[[], bool],
    variables: dict[str, Any],
    level: str,
    /,
) -> Callable[..., bool]: ...
def make_table(
    tensor_type: type, quiet: Callable[..., bool], inputs: int, options: int, limit: int, /
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., None], Callable[[], None]]: ...
