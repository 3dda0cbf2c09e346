"""What a module shows: its public names, those of ops that were declared after its import included.

`dir()` and completion list nothing else, and a name that is misspelt is answered with a hint.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType

from gradplan.hints import did_you_mean

Source = ModuleType | Mapping[str, object]


def public(
    module: str, own: Iterable[str], *sources: Source, submodules: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module.

    It has its `own` names, and those that the sources have at the time: the `__all__` of a module,
    the keys of a mapping. Of its submodules those are shown that have been imported.
    """
    names = list(own)

    def __getattr__(name: str) -> object:
        for source in sources:
            if name in _names(source):
                found: object = (
                    source[name] if isinstance(source, Mapping) else getattr(source, name)
                )
                return found
        hint = did_you_mean(name, __dir__())
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")

    def __dir__() -> list[str]:
        loaded = (name for name in submodules if f"{module}.{name}" in sys.modules)
        return sorted({*names, *loaded, *(name for source in sources for name in _names(source))})

    return __getattr__, __dir__


def _names(source: Source) -> Iterable[str]:
    return source if isinstance(source, Mapping) else source.__all__
