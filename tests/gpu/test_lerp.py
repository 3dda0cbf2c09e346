"""lerp and its gradients in executed PTX: bits of the reference, for every layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layouts import LAYOUTS, Array
from row_calls import RUN, Where, call, expected, far_apart, mutated, program, same
from samples import ELEMENTS

from gradplan.cases import floats
from gradplan.engines.cuda.program import I64
from gradplan.ops.binary import BinaryParamBackwardDescriptor, BinaryParamDescriptor
from gradplan.vocabulary import ElementKind

WEIGHTS = (0.25, 0.5, 0.75, -0.0, 1.0, -3.5, 1e-40, 1e300, float("nan"), 0.1)
FLAVOURS = ("plain", "special", "huge", "wide")
# One axis, of a vector's length and not; more axes than a kernel has; none; nothing.
SHAPES = ((1040,), (1043,), (2, 130), (3, 2, 2, 3, 2, 3), (), (0, 3))


def _lerp(kind: ElementKind, shape: tuple[int, ...], weight: float) -> BinaryParamDescriptor:
    return BinaryParamDescriptor(kind="lerp", shape=shape, element=kind, param=weight)


def _backward(
    kind: ElementKind, shape: tuple[int, ...], weight: float
) -> BinaryParamBackwardDescriptor:
    return BinaryParamBackwardDescriptor(kind="lerp", shape=shape, element=kind, param=weight)


def _gradients(outputs: dict[str, Any], dy: Array, kind: ElementKind, weight: float) -> bool:
    """Runs the gradient into some of the outputs; whether they are right."""
    desc = _backward(kind, dy.shape, weight)
    wanted = dict(
        zip(("da", "db"), expected("binary_param_backward", desc, {"dy": dy}), strict=True)
    )
    call("binary_param_backward", desc, {"dy": dy, **outputs})
    return all(same(x, wanted[name]) for name, x in outputs.items())


@pytest.mark.parametrize("kind", ELEMENTS)
def test_bits_are_those_of_the_reference(kind: ElementKind) -> None:
    where = Where()
    for number, weight in enumerate(WEIGHTS):
        shape = SHAPES[number % len(SHAPES)]
        values = [floats(f"{number} {i}", shape, kind, FLAVOURS[number % 4]) for i in range(2)]
        desc = _lerp(kind, shape, weight)
        for contiguous in (True, False):
            a, b = values if contiguous else map(where.place, values)
            y, da, db = (
                (LAYOUTS["contiguous"] if contiguous else where.room)(shape, kind.dtype)
                for _ in range(3)
            )
            (want,) = expected("binary_param", desc, {"a": a, "b": b})
            call("binary_param", desc, {"a": a, "b": b, "y": y.array})
            assert same(y.array, want), (shape, weight)
            assert y.only_itself_written()
            assert _gradients({"da": da.array, "db": db.array}, a, kind, weight)
            assert _gradients({"da": da.array}, a, kind, weight)
            assert _gradients({"db": db.array}, a, kind, weight)
            assert _gradients({}, a, kind, weight)
    for name in ("lerp", "lerp_backward", "scale"):
        for form in ("contiguous", "rows", "strided"):
            assert f"{name}/{kind.value}/{form}" in RUN


@pytest.mark.parametrize("shape", [(1043,), (5, 7)])
def test_in_place(shape: tuple[int, ...]) -> None:
    kind = ElementKind.F32
    a, b = (floats(name, shape, kind, "special") for name in "ab")
    desc = _lerp(kind, shape, 0.3)
    (want,) = expected("binary_param", desc, {"a": a, "b": b})
    for target in "ab":
        tensors = {"a": a.copy(), "b": b.copy()}
        call("binary_param", desc, {**tensors, "y": tensors[target]})
        assert same(tensors[target], want)
    wanted = expected("binary_param_backward", _backward(kind, shape, 0.3), {"dy": a})
    for target in ("da", "db"):
        tensors = {"dy": a.copy(), "da": np.empty_like(a), "db": np.empty_like(a)}
        tensors[target] = tensors["dy"]
        call("binary_param_backward", _backward(kind, shape, 0.3), tensors)
        assert same(tensors["da"], wanted[0]) and same(tensors["db"], wanted[1])


@pytest.mark.slow
def test_more_than_32_bits_of_elements() -> None:
    kind, shape = ElementKind.F16, (2, 5)
    a, y = (far_apart(2, 5, kind.dtype, 2**31 + 24) for _ in range(2))
    a[...] = floats("a", shape, kind, "plain")
    b = floats("b", shape, kind, "plain")
    (want,) = expected("binary_param", _lerp(kind, shape, 0.25), {"a": a, "b": b})
    call("binary_param", _lerp(kind, shape, 0.25), {"a": a, "b": b, "y": y})
    assert same(y, want)
    much = np.broadcast_to(np.float16(1), (2**33 + 5,))
    made = program("binary_param", _lerp(kind, much.shape, 0.25), {"a": much, "b": much, "y": much})
    assert I64(2**33 + 5) in made.launches[0].arguments


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a + w * span, b - span * rest", "a + w * span, b * w + a * rest"),
        ("(tl.abs(a) < inf) & (tl.abs(b) < inf)", "(tl.abs(a) < inf)"),
        ("a * rest + b * w, value", "value, value"),
    ],
)
def test_a_wrong_kernel_is_noticed(old: str, new: str, tmp_path: Path) -> None:
    from gradplan.engines.cuda.kernels import binary

    wrong = mutated(binary, {old: new}, tmp_path)
    kind, shape = ElementKind.F32, (2048,)
    desc = _lerp(kind, shape, 0.7)
    a, b = (
        np.concatenate([floats(f"{n} {f}", (1024,), kind, f) for f in ("special", "huge")])
        for n in "ab"
    )
    (want,) = expected("binary_param", desc, {"a": a, "b": b})
    for binaries, right in ((None, True), (wrong, False)):
        y = np.empty_like(a)
        call("binary_param", desc, {"a": a, "b": b, "y": y}, binaries)
        assert same(y, want) is right
