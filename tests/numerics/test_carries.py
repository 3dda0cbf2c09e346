"""Plain scans behind carries that leave little to compute: zeros, infinities and NaN.

Kernels take short ways there; the reference does not. What tempts them to take one where it is
wrong: a product that overflows behind a zero (zero times infinity is +0, whatever the signs), one
that vanishes behind an infinity, the sign of a zero, a NaN that a zero must not hide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from extremes import finfo
from samples import all_elements

import gradplan as gp
from gradplan import reference

BLOCK, CHUNK = 256, 4096
KINDS = {"cumsum": gp.cumsum, "cumprod": gp.cumprod, "cummax": gp.cummax, "cummin": gp.cummin}
reverses = pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
kinds = pytest.mark.parametrize("kind", list(KINDS))


def _at(rng: Any, value: Any, signed: bool = True) -> Any:
    """Ones with another value somewhere."""
    block = np.ones(BLOCK)
    block[rng.integers(BLOCK)] = np.copysign(value, rng.choice([-1, 1])) if signed else value
    return block


def _blocks(element: gp.ElementKind) -> dict[str, Any]:
    """Blocks by what they do to a product."""
    info = finfo(element.dtype)
    bottom, top = float(info.smallest_subnormal), float(info.max)
    # Of the type that products are computed in, whose range decides.
    bits = 1000 if element is gp.ElementKind.F64 else 120
    half, whole = BLOCK // 2, BLOCK
    return {
        "keeps": lambda rng: np.ones(whole),
        "near 1": lambda rng: 1 + rng.standard_normal(whole) / 100,
        "vanishes": lambda rng: np.full(whole, 2.0**-8),
        "decays": lambda rng: rng.random(whole),
        "overflows": lambda rng: np.full(whole, 2.0**8),
        "overflows and vanishes": lambda rng: np.repeat([2.0**10, 2.0**-10], half),
        "vanishes and overflows": lambda rng: np.repeat([2.0**-10, 2.0**10], half),
        "overflows in a group": lambda rng: np.tile(np.repeat([2.0**15, 2.0**-14], 8), whole // 16),
        "vanishes in a group": lambda rng: np.tile(np.repeat([2.0**-14, 2.0**14], 8), whole // 16),
        "far up": lambda rng: np.exp2(np.where(np.arange(whole) < 16, bits // 16 + 1, 0)),
        "far down": lambda rng: np.exp2(np.where(np.arange(whole) < 16, -(bits // 16) - 1, 0)),
        "up": lambda rng: np.exp2(np.where(np.arange(whole) < 16, bits // 20, 0)),
        "down": lambda rng: np.exp2(np.where(np.arange(whole) < 16, -(bits // 20), 0)),
        "subnormal": lambda rng: rng.integers(1, 4, whole) * bottom,
        "largest": lambda rng: np.full(whole, top),
        "has a zero": lambda rng: _at(rng, 0.0),
        "has an infinity": lambda rng: _at(rng, np.inf),
        "has both": lambda rng: _at(rng, 0.0) * np.where(_at(rng, 2.0, False) == 2, np.inf, 1),
        "has a NaN": lambda rng: _at(rng, np.nan, False),
    }


def _check(kind: str, x: Any, reverse: bool) -> None:
    axis = x.ndim - 1
    want = reference.scan(x, kind=kind, scan_axis=axis, reverse=reverse)
    assert KINDS[kind](x, axis=axis, reverse=reverse).tobytes() == want.tobytes()
    in_place = x.copy()
    KINDS[kind](in_place, axis=axis, reverse=reverse, out=in_place)
    assert in_place.tobytes() == want.tobytes()
    turned = np.ascontiguousarray(x.T)
    across = KINDS[kind](turned, axis=0, reverse=reverse)
    assert np.ascontiguousarray(across.T).tobytes() == want.tobytes()


@reverses
@kinds
@all_elements
def test_blocks_of_all_sorts_behind_one_another(
    element: gp.ElementKind, kind: str, reverse: bool
) -> None:
    """Across blocks, batches and chunks, with a short block at the end."""
    rng = np.random.default_rng(7)
    blocks = _blocks(element)
    calm = ["keeps", "near 1", "decays"]
    rows = []
    for first in [*blocks] * 2:
        for _ in range(2):
            wild = rng.random() < 0.5
            names = [first, *rng.choice([*blocks] if wild else calm, 2 * CHUNK // BLOCK)]
            if not wild:  # one event among blocks that change little
                names[rng.integers(1, len(names))] = rng.choice([*blocks])
            rows.append(np.concatenate([blocks[name](rng) for name in names])[: 2 * CHUNK + 77])
    x = np.array(rows)
    signs = np.where(rng.random(x.shape) < rng.random((len(x), 1)) / 2, -1.0, 1.0)
    with np.errstate(over="ignore"):
        _check(kind, (x * signs).astype(element.dtype), reverse)


@reverses
@all_elements
def test_every_pair_of_blocks(element: gp.ElementKind, reverse: bool) -> None:
    """What one block leaves behind, and the next one makes of it."""
    rng = np.random.default_rng(8)
    blocks = _blocks(element)
    calm = np.ones(2 * BLOCK)
    x = np.array(
        [np.r_[calm, a(rng), b(rng), calm] for a in blocks.values() for b in blocks.values()]
    )
    x *= np.where(rng.random(x.shape) < 0.3, -1.0, 1.0)
    with np.errstate(over="ignore"):
        _check("cumprod", x.astype(element.dtype), reverse)


@reverses
@all_elements
def test_blocks_that_overflow_together_behind_a_chunk(
    element: gp.ElementKind, reverse: bool
) -> None:
    """Each block is harmless; c2 times its results is not."""
    rng = np.random.default_rng(10)
    blocks = _blocks(element)
    x = np.ones((16, 2 * CHUNK))
    for row in x:
        row[:BLOCK] = blocks["has a zero"](rng)
        then = rng.choice(["up", "keeps"], 4, p=[0.7, 0.3])
        row[CHUNK : CHUNK + 4 * BLOCK] = np.concatenate([blocks[name](rng) for name in then])
    x[::2] = np.where(x[::2] == 0, np.inf, 1 / np.where(x[::2] == 0, 1, x[::2]))  # upside down
    x *= np.where(rng.random(x.shape) < 0.3, -1.0, 1.0)
    _check("cumprod", (x[:, ::-1] if reverse else x).astype(element.dtype), reverse)


@reverses
def test_one_long_row_behind_a_zero(reverse: bool) -> None:
    """Rows that several threads share find what comes in by another way."""
    rng = np.random.default_rng(9)
    x = rng.standard_normal((1, 40 * CHUNK + 300)).astype(np.float32)
    for position, value in ((30 * CHUNK + 5, np.inf), (39 * CHUNK + 700, np.nan)):
        x[0, position] = value
        want = reference.scan(x, kind="cumprod", scan_axis=1, reverse=reverse)
        assert gp.cumprod(x, axis=1, reverse=reverse).tobytes() == want.tobytes()
