"""Fixtures shared by the tests."""

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
