"""Fixtures shared by the tests, and which of them are quick."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradplan as gp
from gradplan.engines import registered
from gradplan.engines.cpu import isa_builds
from gradplan.engines.reference import ReferenceEngine


class AutomaticReference(ReferenceEngine):
    """The reference, chosen without being asked for."""

    automatic = True


@pytest.fixture(params=["cpu", "reference"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test on each engine: plans selected without a preference come from it."""
    if request.param == "cpu" and not isa_builds():
        pytest.skip("no build of the CPU engine beside these sources")
    if request.param == "reference":
        with registered(AutomaticReference(), first=True):
            yield "reference"
    else:
        yield "cpu"


def _numpy(x: Any) -> Any:
    return x


def _torch(x: Any) -> Any:
    torch = pytest.importorskip("torch")
    if x.dtype == gp.ElementKind.BF16.dtype:
        return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(x.copy())


def _jax(x: Any) -> Any:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(x)


@pytest.fixture(params=[_numpy, _torch, _jax], ids=["numpy", "torch", "jax"])
def framework(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Converts an ndarray to a tensor of a framework."""
    convert: Callable[[Any], Any] = request.param
    return convert


# `make quick`: every test once, and those that say so once for every op.

# A whole certificate, compilations, a benchmark.
SLOW_FIXTURES = {"everything", "lerp_builds", "row_reducers", "small_board"}
OTHER_ELEMENTS = {"f16", "bf16", "f64", "float16", "bfloat16", "float64"}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "quick: in the short run; applied by a rule in conftest.py")
    config.addinivalue_line("markers", "every_op(parameter): in the short run with each of these")
    config.addinivalue_line("markers", "slow: takes seconds; not in the short run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks `quick` the first parameters of every test, of those in f32 if there are any."""
    chosen: dict[Any, tuple[bool, pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") or SLOW_FIXTURES & set(item.fixturenames):
            continue
        call = getattr(item, "callspec", None)
        values = call.params if call else {}
        in_f32 = OTHER_ELEMENTS.isdisjoint(str(v).removeprefix("torch.") for v in values.values())
        every = item.get_closest_marker("every_op")
        key = (item.nodeid.split("[")[0], every and id(values[every.args[0]]))
        if key not in chosen or in_f32 > chosen[key][0]:
            chosen[key] = in_f32, item
    for _, item in chosen.values():
        item.add_marker(pytest.mark.quick)
