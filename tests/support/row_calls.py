"""Calls of the row families' programs, with tensors anywhere in memory, against the reference."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from layouts import INPUT_LAYOUTS, LAYOUTS, Array, Placed, words
from ptx.run import kernels, layout_of, run_program

from gradplan.declaration import OPS, Descriptor
from gradplan.engines.cuda import families
from gradplan.engines.cuda.archive import Binary
from gradplan.engines.cuda.launches.errors import WORDS
from gradplan.engines.cuda.program import Launch, Program
from gradplan.reference import FUNCTIONS

PROGRAMS, WORKSPACE = families()
RUN: set[str] = set()
"""Keys of the kernels that this process has run."""


def program(name: str, desc: Descriptor, tensors: Mapping[str, Array]) -> Program:
    """The launches of a call; what the plan would report as its workspace is enough."""
    made = PROGRAMS[name](desc, {tensor: layout_of(x) for tensor, x in tensors.items()})
    assert made.workspace_size <= WORKSPACE[name](desc)
    return made


def call(
    name: str,
    desc: Descriptor,
    tensors: Mapping[str, Array],
    binaries: Mapping[str, Binary] | None = None,
    **schedule: bool,
) -> Array:
    """Runs a call, and returns the words for what is wrong with indices."""
    errors = np.zeros(WORDS, np.int64)
    made = program(name, desc, tensors)
    run_program(made, tensors, errors=errors, binaries=binaries, **schedule)
    RUN.update(launch.kernel for launch in made.launches)
    return errors


def expected(name: str, desc: Descriptor, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """What the reference makes of it, bounds skipped."""
    function = FUNCTIONS[name]
    takes = inspect.signature(function).parameters
    op = next(op for op in OPS.values() if op.name == name)
    options = {i.name: getattr(desc, i.name) for i in op.fields if i.name in takes}
    results = function(**inputs, **options | ({"bounds": "skip"} if "bounds" in takes else {}))
    return results if isinstance(results, tuple) else (results,)


@dataclasses.dataclass
class Where:
    """Layouts in turn, so that many calls see many combinations of them."""

    turn: int = 0

    def place(self, x: Array) -> Array:
        """A tensor that is read. It may repeat elements, so compare with what it then holds."""
        self.turn += 1
        return list(INPUT_LAYOUTS.values())[self.turn * 5 % len(INPUT_LAYOUTS)](x)

    def room(self, shape: Sequence[int], dtype: Any) -> Placed:
        """A tensor that is written."""
        self.turn += 1
        return list(LAYOUTS.values())[self.turn * 5 % len(LAYOUTS)](tuple(shape), dtype)


def same(got: Array, want: Array) -> bool:
    return got.shape == want.shape and bool((words(got) == words(want)).all())


def far_apart(rows: int, columns: int, dtype: Any, stride: int) -> Array:
    """Rows that are `stride` elements apart, of memory of which no more is touched."""
    memory = np.empty(stride * (rows - 1) + columns, dtype)
    return np.lib.stride_tricks.as_strided(
        memory, (rows, columns), (stride * memory.itemsize, memory.itemsize)
    )


def mutated(
    module: ModuleType, changes: Mapping[str, str], folder: Path, within: ModuleType | None = None
) -> Mapping[str, Binary]:
    """Kernels of a family after each text has been replaced in its source, where it is once; or in
    that of another module, which the family takes functions from."""
    from gradplan.engines.cuda.kernels.compiler import compile

    changed = within or module
    source = Path(str(changed.__file__)).read_text()
    for old, new in changes.items():
        assert source.count(old) == 1, f"{source.count(old)} times in {changed.__name__}: {old}"
        source = source.replace(old, new)
    if within is None:
        return _Mutated(_loaded(module, source, folder).KERNELS, compile)
    name = within.__name__.rpartition(".")[2]
    other = _loaded(within, source, folder)
    sys.modules[other.__name__] = other
    try:
        text = Path(str(module.__file__)).read_text()
        assert text.count(f"from .{name} import") == 1
        text = text.replace(f"from .{name} import", f"from .{name}_mutated import")
        return _Mutated(_loaded(module, text, folder).KERNELS, compile)
    finally:
        del sys.modules[other.__name__]


def _loaded(module: ModuleType, source: str, folder: Path) -> Any:
    """A module of another text than this one has."""
    name = f"{module.__name__}_mutated"
    place = folder / f"{name}.py"
    place.write_text(source)
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    finally:
        del sys.modules[name]
    return made


class _Mutated(dict[str, Binary]):
    """Wrong kernels, compiled when asked for, and right ones beside them."""

    def __init__(self, wrong: Mapping[str, Any], compile: Any) -> None:
        self.wrong, self.compile = wrong, compile

    def __missing__(self, key: str) -> Binary:
        if key not in self.wrong:
            return kernels()[key]
        made = dataclasses.asdict(self.compile(self.wrong[key]))
        self[key] = Binary(key=key, **made, source="")
        return self[key]


def launches_of(made: Program, start: str) -> list[Launch]:
    return [launch for launch in made.launches if launch.kernel.startswith(start)]
