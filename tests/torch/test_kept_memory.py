"""The memory of large outputs serves again, and only if nobody refers to it any more."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gradplan import torch as gpt  # noqa: E402
from gradplan.memory import LARGE  # noqa: E402
from gradplan.torch import memory  # noqa: E402
from gradplan.torch.memory import KEPT, KeptMemory  # noqa: E402
from gradplan.vocabulary import InvalidProblem  # noqa: E402

ROWS = 64
COLUMNS = LARGE // 4 // ROWS


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    KEPT.release()
    yield
    KEPT.release()


def _result(value: float = 1.0) -> Any:
    """A large output that is `value` everywhere."""
    return gpt.cummax(torch.full((ROWS, COLUMNS), value), 1, return_indices=False)


def _address_once_freed() -> int:
    y = _result()
    return int(y.data_ptr())


def test_memory_serves_again() -> None:
    address = _address_once_freed()
    for _ in range(3):
        y = _result(2.0)
        assert y.data_ptr() == address
        assert bool((y == 2.0).all())
        del y


def test_small_outputs_are_not_kept() -> None:
    gpt.cummax(torch.ones(4, 5), 1, return_indices=False)
    assert not KEPT.release()


def test_another_size_is_not_taken() -> None:
    address = _address_once_freed()
    y = gpt.cummax(torch.ones(ROWS, COLUMNS + 1), 1, return_indices=False)
    assert y.data_ptr() != address
    assert y.untyped_storage().nbytes() == y.nbytes


def test_outputs_that_serve_again_are_ordinary_tensors() -> None:
    _address_once_freed()
    x = torch.ones(ROWS, COLUMNS, requires_grad=True)
    y = gpt.cumsum(x, 1)
    assert (y.dtype, y.shape, y.stride()) == (x.dtype, x.shape, x.stride())
    assert not y.is_leaf
    y.sum().backward()
    assert x.grad[0, 0] == COLUMNS
    z = _result()
    z.resize_(2 * ROWS, COLUMNS)  # memory of PyTorch's own allocator can grow
    assert z.shape[0] == 2 * ROWS
    ones = torch.ones(2 * ROWS, COLUMNS, dtype=torch.bfloat16)  # as many bytes
    half = gpt.cummax(ones, 1, return_indices=False)
    assert bool((half == 1).all())


def _graph(y: Any) -> Any:
    """Something whose backward needs y, without a name for y."""
    return (y * torch.ones((), requires_grad=True)).sum()


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda y: y,
    "view": lambda y: y[3:, 7],
    "detached": lambda y: y.detach(),
    "storage": lambda y: y.untyped_storage(),
    "array": lambda y: y.numpy(),
    "part of an array": lambda y: y.numpy()[::2],
    "memory view": lambda y: memoryview(y.numpy()),
    "capsule": lambda y: torch.utils.dlpack.to_dlpack(y),
    "other owner": lambda y: torch.from_dlpack(y),
    "graph": _graph,
    "parameter": lambda y: torch.nn.Parameter(y),
    "closure": lambda y: lambda: y,
    "typed storage": lambda y: y.storage(),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_memory_in_use_is_left_alone(holder: str) -> None:
    y = _result()
    address, held = y.data_ptr(), HOLDERS[holder](y)
    del y
    gc.collect()
    others = [_result(2.0) for _ in range(3)]
    assert all(z.data_ptr() != address for z in others)
    first = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * 4).from_address(address))
    assert (first == 1.0).all()
    del held


@pytest.mark.parametrize(
    ("holder", "blind"), [("tensor", (True, True)), ("storage", (False, True))]
)
def test_the_test_above_would_notice(
    holder: str, blind: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    references = memory._Block.references

    def overlook(block: Any) -> tuple[int, ...]:
        counts = zip(references(block), memory._IDLE, blind, strict=True)
        return tuple(idle if unseen else count for count, idle, unseen in counts)

    monkeypatch.setattr(memory._Block, "references", overlook)
    with pytest.raises(AssertionError):
        test_memory_in_use_is_left_alone(holder)


def test_saved_tensors_keep_their_memory() -> None:
    x = torch.full((ROWS, COLUMNS), 1.0, requires_grad=True)
    y = gpt.logcumsumexp(x, 1)  # its backward reads y
    loss = y.sum()
    del y
    for _ in range(3):
        _result(9.0)
    (after,) = torch.autograd.grad(loss, x)
    (expected,) = torch.autograd.grad(gpt.logcumsumexp(x, 1).sum(), x)
    assert torch.equal(after, expected)


def test_memory_that_another_process_may_read_is_not_taken() -> None:
    y = _result()
    y.share_memory_()
    address = y.data_ptr()
    del y
    for _ in range(2):
        z = _result(2.0)
        assert z.data_ptr() != address
        assert not z.is_shared()


def test_memory_that_was_given_back_is_not_taken() -> None:
    y = _result()
    y.untyped_storage().resize_(0)
    del y
    z = _result(2.0)
    assert z.untyped_storage().nbytes() == z.nbytes
    assert bool((z == 2.0).all())


def test_no_more_than_the_limit_is_kept() -> None:
    size = 1 << 20
    kept = KeptMemory(3 * size)
    tensors = [torch.empty(size, dtype=torch.uint8) for _ in range(5)]
    for x in tensors:
        kept.keep(x)
    kept.keep(torch.empty(4 * size, dtype=torch.uint8))  # larger than all: not kept
    addresses = [x.data_ptr() for x in tensors]
    tensors.clear()
    del x
    found = [kept.new((size,), (1,), torch.uint8, size) for _ in range(4)]
    assert sorted(y.data_ptr() for y in found[:3]) == sorted(addresses[2:])
    assert found[3] is None


def test_memory_is_released_on_demand() -> None:
    _address_once_freed()
    assert len(KEPT._blocks) == 1
    gpt.release_memory()
    assert len(KEPT._blocks) == 0


def test_what_is_kept_is_given_back_before_memory_runs_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _address_once_freed()
    allocate, failures = memory.allocate, [RuntimeError("no memory")]

    def scarce(*described: Any) -> Any:
        if failures:
            raise failures.pop()
        return allocate(*described)

    monkeypatch.setattr(memory, "allocate", scarce)
    output = memory.Output((ROWS, 2 * COLUMNS), torch.float32, None)
    assert output.new(()).shape == output.shape
    assert not failures
    KEPT.release()
    failures.append(RuntimeError("no memory"))
    with pytest.raises(RuntimeError, match="no memory"):
        output.new(())


@pytest.mark.parametrize("workers", [2, 6])
def test_threads(workers: int) -> None:
    def work(value: int) -> bool:
        held = [_result(value + k) for k in range(2)]
        return all(bool((y == value + k).all()) for k, y in enumerate(held))

    with ThreadPoolExecutor(workers) as pool:
        assert all(pool.map(work, range(60)))


@pytest.mark.parametrize(("given", "limit"), [("123456789", 123456789), ("0", 0)])
def test_the_limit_can_be_set(given: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADPLAN_KEPT_MEMORY", given)
    assert memory._limit() == limit


@pytest.mark.parametrize("given", ["plenty", "-1", "1.5", "1e9"])
def test_a_limit_that_is_no_number(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADPLAN_KEPT_MEMORY", given)
    message = f"GRADPLAN_KEPT_MEMORY: expected a number of bytes; got '{given}'"
    with pytest.raises(InvalidProblem, match=message):
        memory._limit()


def test_the_limit_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GRADPLAN_KEPT_MEMORY", raising=False)
    assert 0 < memory._limit() <= 1 << 30
    container = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_CONTAINER_LIMITS", [str(container)])
    container.write_text("max\n")
    assert memory._limit() > 1 << 21
    container.write_text(f"{1 << 26}\n")
    assert memory._limit() == 1 << 21
    monkeypatch.setattr(memory, "_sizes_of_memory", lambda: iter(()))
    assert memory._limit() == 0


def test_nothing_is_kept_with_a_limit_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KEPT, "limit", 0)
    _address_once_freed()
    assert not KEPT.release()
