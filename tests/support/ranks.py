"""Worlds of processes with a gloo group over the loopback, none of which can hang.

A function of a test file runs on every rank. The processes are forked off a server that has
imported PyTorch once; groups and worlds have a timeout each.
"""

from __future__ import annotations

import datetime
import importlib.util
import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["pytest", "torch", "gradplan.torch.distributed"])


class Lost:
    """What stands for the result of a rank whose process has ended without one."""

    def __repr__(self) -> str:
        return "Lost()"


def _work(
    path: str, name: str, rank: int, world: int, store: str, timeout: float, pipe: Any, args: Any
) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch
    import torch.distributed as dist

    import gradplan as gp

    torch.set_num_threads(1)
    gp.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo",
            store=dist.FileStore(store, world),
            rank=rank,
            world_size=world,
            timeout=datetime.timedelta(seconds=timeout),
        )
        spec = importlib.util.spec_from_file_location("rank_work", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        pipe.send(("made", getattr(module, name)(rank, world, *args)))
    except BaseException:
        pipe.send(("raised", traceback.format_exc()))
    finally:
        pipe.close()
    os._exit(0)  # a group with a lost rank would wait in its destructor


def results(
    function: Callable[..., Any], world: int, *args: Any, timeout: float = 30, seconds: float = 120
) -> list[Any]:
    """What `function(rank, world, *args)` returns on each rank, or `Lost`, or its traceback.

    `function` is one of a module's own, `timeout` the group's; after `seconds` all are killed.
    """
    path = function.__code__.co_filename
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        started = []
        for rank in range(world):
            mine, theirs = _context.Pipe(duplex=False)
            given = (path, function.__name__, rank, world, store, timeout, theirs, args)
            process = _context.Process(target=_work, args=given, daemon=True)
            process.start()
            theirs.close()
            started.append((process, mine))
        deadline = time.monotonic() + seconds
        made: list[Any] = []
        try:
            for process, mine in started:
                if not mine.poll(max(deadline - time.monotonic(), 0)):
                    made.append(("raised", f"no answer of {process.name} in {seconds} s"))
                    continue
                try:
                    made.append(mine.recv())
                except EOFError:
                    made.append(("lost", Lost()))
        finally:
            for process, mine in started:
                process.join(1)
                if process.is_alive():
                    process.kill()
                    process.join()
                mine.close()
    return [value if kind != "raised" else Traceback(value) for kind, value in made]


class Traceback(str):
    """What a rank's process raised."""


def on_ranks(function: Callable[..., Any], world: int, *args: Any, **limits: float) -> list[Any]:
    """`results`; a rank that raises fails the test."""
    made = results(function, world, *args, **limits)
    wrong = [f"rank {r} of {world}: {x}" for r, x in enumerate(made) if _is_wrong(x)]
    assert not wrong, "\n".join(wrong)
    return made


def _is_wrong(x: Any) -> bool:
    return isinstance(x, (Traceback, Lost))


def bits(x: Any) -> Any:
    """The bits of a tensor, to compare them."""
    import torch

    sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.detach().contiguous().view(sizes[x.element_size()])


def same_bits(a: Any, b: Any) -> bool:
    import torch

    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(bits(a), bits(b))
