"""A driver for every test that asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from standin import StandIn

from gradplan.engines.cuda import CudaEngine


@pytest.fixture(scope="session")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., StandIn]:
    """Makes drivers, each with devices and a state of its own."""
    folder: Path = tmp_path_factory.mktemp("drivers")
    made: list[StandIn] = []

    def make(**options: Any) -> StandIn:
        made.append(StandIn.compiled(folder, f"libcuda-{len(made)}.so", **options))
        return made[-1]

    return make


@pytest.fixture
def driver(drivers: Callable[..., StandIn]) -> StandIn:
    """Two GPUs, of compute capability 8.0 and 9.0."""
    return drivers()


@pytest.fixture
def engine(driver: StandIn) -> Iterator[CudaEngine]:
    """The engine on that driver, in place of the machine's."""
    with driver.registered() as made:
        yield made
