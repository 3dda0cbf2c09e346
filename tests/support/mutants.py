"""Kernels that are wrong in one place, to see whether it is noticed."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_matrix import GpuCase, gpu_cases, planned, wrong
from matrix import FUNCTIONS
from ptx.run import kernels

from gradplan.engines.cuda.archive import Binary
from gradplan.engines.cuda.kernels import __name__ as PACKAGE
from gradplan.engines.cuda.kernels.builds import build
from gradplan.engines.cuda.kernels.catalogue import catalogue
from gradplan.engines.cuda.kernels.kernel import Kernel


def changed_module(name: str, folder: Path, old: str = "", new: str = "") -> Any:
    """A module of kernels with one piece of its text replaced, if any."""
    original = importlib.util.find_spec(f"{PACKAGE}.{name}")
    assert original is not None and original.origin is not None
    text = Path(original.origin).read_text()
    if text.count(old) != 1 and old:
        raise ValueError(f"{name}.py has {text.count(old)} times {old!r}")
    place = folder / f"{name}_changed.py"
    place.write_text(text.replace(old, new) if old else text)
    full = f"{PACKAGE}.{place.stem}"
    spec = importlib.util.spec_from_file_location(full, place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[full]
    return module


def with_function_of(key: str, module: Any) -> Kernel:
    """A kernel of the catalogue, its function taken from another module."""
    kernel = catalogue()[key]
    return dataclasses.replace(kernel, function=getattr(module, kernel.function.__name__))


def cases_with(key: str, function: str = "") -> list[GpuCase]:
    """Problems that launch a kernel, of this function or of the one that its key names."""
    names = [function] if function else key.split("/")
    named = [pair for pair in FUNCTIONS if pair[1].name in names]
    cases = (case for op, function in named for case in gpu_cases(op, function))
    return [c for c in cases if key in {launch.kernel for launch in planned(c).launches}]


def replacing(binary: Binary) -> Mapping[str, Binary]:
    """All kernels, with this one in the place of its own."""
    return ChainMap({binary.key: binary}, kernels())  # type: ignore[arg-type]


def is_noticed(key: str, kernel: Kernel, function: str = "") -> bool:
    """Whether any problem comes out wrong with another kernel in the place of its own."""
    binaries = replacing(build(key, kernel))
    cases = cases_with(key, function)
    assert cases
    return any(wrong(case, binaries) for case in cases)
