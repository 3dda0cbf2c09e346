"""Tensors to measure on: aligned, already touched, with values that a user would have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradplan.bench.board import Cell
from gradplan.bench.styles import draw
from gradplan.cases import Array, forward_results, pointers, saved_results
from gradplan.declaration import Descriptor, Op, Operand, Role, Tensor
from gradplan.vocabulary import ElementKind, PlanPreference

ALIGNMENT = 64  # that of PyTorch and JAX; NumPy gives 16
_PATTERN = 2**20 + 7  # values repeat after this many; odd, so that rows differ
_SEED = 20


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An aligned array."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def normal(shape: tuple[int, ...], kind: ElementKind, *, near_one: bool) -> Array:
    """N(0, 1), or values around 1 whose running products stay in range."""
    rng = np.random.default_rng(_SEED)
    count = math.prod(shape)
    drawn = rng.standard_normal(min(count, _PATTERN), np.float32)
    pattern = (1 + drawn / 100 if near_one else drawn).astype(kind.dtype)
    out = empty(shape, kind.dtype)
    flat = out.reshape(-1)
    for start in range(0, count, _PATTERN):
        part = flat[start : start + _PATTERN]
        part[...] = pattern[: len(part)]
    return out


def row_numbers(count: int, extent: int, how: str, *, ascending: bool) -> Array:
    """Indices with a distribution of the board."""
    rng = np.random.default_rng(_SEED)
    drawn = rng.integers(0, extent, count)
    if how == "zipf":
        drawn = (rng.zipf(1.2, count) - 1) % extent
    if how == "hot":
        drawn[rng.random(count) < 1 / 3] = extent // 2
    out = empty((count,), ElementKind.I64.dtype)
    out[...] = np.sort(drawn) if ascending else drawn
    return out


def _indices(op: Op, tensor: Tensor, desc: Descriptor, how: str) -> Array:
    shape, extent = tensor.shape(desc), op.choices_of(tensor, desc)
    if tensor.pointers:
        return pointers(tensor.name, shape[0] - 1, extent)
    return row_numbers(math.prod(shape), extent, how, ascending=tensor.ascending).reshape(shape)


def tensors(cell: Cell) -> dict[str, Array]:
    """Everything that `run` takes, outputs included."""
    op, desc = cell.op, cell.descriptor()
    operands = op.operands(desc)
    saved = saved_results(op, desc)
    made: dict[str, Array] = {}
    for o in operands:
        if o.name in saved:
            continue
        tensor = op.tensor_named[o.name]
        if o.role is Role.OUT:
            made[o.name] = empty(o.shape, o.kinds[0].dtype)
            made[o.name].fill(0)  # page faults now, not in the measurement
        elif tensor.index:
            made[o.name] = _indices(op, tensor, desc, cell.problem.ids)
        elif cell.problem.style:
            made[o.name] = empty(o.shape, o.kinds[0].dtype)
            made[o.name][...] = draw(cell.problem.style, o.shape)
        else:
            made[o.name] = normal(o.shape, o.kinds[0], near_one=cell.function.near_one)
    if saved:
        inputs = {o.name: made[o.name] for o in operands if o.is_input and o.name in made}
        for name, value in forward_results(op, desc, inputs, PlanPreference()).items():
            made[name] = empty(value.shape, value.dtype)
            made[name][...] = value
    return {o.name: made[o.name] for o in operands}


def bytes_moved(operands: tuple[Operand, ...], given: Mapping[str, Array]) -> int:
    """Each input read once, each output written once."""
    times = {Role.IN: 1, Role.OUT: 1, Role.INOUT: 2}
    return sum(given[o.name].nbytes * times[o.role] for o in operands)
