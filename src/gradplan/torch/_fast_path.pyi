from collections.abc import Callable
from typing import Any, final

@final
class FastPath:
    def __new__(
        cls,
        tensor_type: type,
        dispatcher: tuple[Any, ...],
        allocate: Callable[..., Any],
        apply: Callable[..., Any],
        floats: tuple[int, ...],
        kept: tuple[int, ...],
        inputs: int,
        options: int,
        outputs: int,
        first: int,
        limit: int,
        /,
    ) -> FastPath: ...
    def call(self, /, *arguments: Any) -> Any: ...
    def call_backward(self, /, *tuples: tuple[Any, ...]) -> tuple[Any, ...] | None: ...
    def run(self, /, *arguments: Any) -> Any: ...
    def add(self, launch: tuple[Any, ...] | None, /, *arguments: Any) -> None: ...
    def clear(self) -> None: ...
