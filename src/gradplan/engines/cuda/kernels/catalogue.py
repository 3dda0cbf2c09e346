"""All kernels by key, and a digest of what each is made from."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import pkgutil
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import triton.language as tl
from triton.runtime.jit import JITCallable

from . import __name__ as _package
from . import __path__ as _path
from .compiler import CAPABILITY, PTX_VERSION, VERSION
from .kernel import Kernel


def catalogue() -> dict[str, Kernel]:
    """What the families list in KERNELS, sorted by key."""
    found: dict[str, Kernel] = {}
    for module in pkgutil.iter_modules(_path):
        family = importlib.import_module(f"{_package}.{module.name}")
        for key, kernel in getattr(family, "KERNELS", {}).items():
            if key in found:
                raise ValueError(f"two kernels are called {key}")
            found[key] = kernel
    return dict(sorted(found.items()))


def source_digest(kernel: Kernel) -> str:
    """Of everything that the PTX depends on, so that only what has changed is built again.

    That is the function without comments and docstrings, the functions that it calls, the constants
    that they name, how it is specialised, and the compiler.
    """
    sha = hashlib.sha256(f"{VERSION} {CAPABILITY} {PTX_VERSION}".encode())
    functions: dict[str, str] = {}
    _collect(kernel.function, functions)
    constants = {name: _constant(value, functions) for name, value in kernel.constants.items()}
    specialised = (list(kernel.signature.items()), constants, kernel.aligned, kernel.warps)
    sha.update(repr((kernel.function.__name__, specialised, sorted(functions.items()))).encode())
    return sha.hexdigest()


def _collect(function: Any, found: dict[str, str]) -> None:
    """Adds a function and all that it calls."""
    name = f"{function.__module__}.{function.__name__}"
    if name in found:
        return
    found[name] = ""  # it may call itself
    named = {
        label: _constant(value, found) for label, value in sorted(_globals(function.fn).items())
    }
    found[name] = (
        f"{_code_of(''.join(function.raw_src))} {getattr(function, 'noinline', False)} {named}"
    )


def _globals(function: Any) -> dict[str, Any]:
    """What a function names outside of itself; of our own modules, what it may take from them."""
    return dict(_looked_up(function.__code__, function.__globals__))


def _looked_up(code: types.CodeType, scope: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in code.co_names:
        value = scope.get(name)
        if isinstance(value, types.ModuleType) and value.__name__.startswith("gradplan"):
            for member in code.co_names:
                if hasattr(value, member):
                    yield f"{name}.{member}", getattr(value, member)
        elif value is not None and not isinstance(value, types.ModuleType):
            yield name, value
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _looked_up(constant, scope)


def _constant(value: Any, found: dict[str, str]) -> str:
    """A value in words that are the same in every process."""
    if isinstance(value, JITCallable):
        module = getattr(value, "__module__", "")
        if not module.startswith("triton"):
            _collect(value, found)
        return f"{module}.{value.__name__}"
    if isinstance(value, tl.constexpr):
        return f"constexpr {_constant(value.value, found)}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(_constant(v, found) for v in value)}]"
    if isinstance(value, (str, int, float, bool, tl.dtype)) or value is None:
        return f"{type(value).__name__} {value!r}"
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    raise TypeError(f"a kernel depends on {value!r}, of which there is no digest")


@functools.cache
def _code_of(source: str) -> str:
    """A function without comments, docstrings, layout and place."""
    tree = ast.parse(textwrap.dedent(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
