"""gradplan.torch against PyTorch's own operators: `python -m gradplan.bench.torch_bridge`.

Small calls, which show what the bridge costs, and large ones, which show what is left of the
kernels' speed. Contenders take turns. Ratios only: times belong to a machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from gradplan import torch as gpt
from gradplan.bench.measure import FULL, QUICK, Call, Effort, best_times, per_call

LIMITS = {"forward": 2.0, "forward + backward": 1.0}
"""A small call may take this many times as long as PyTorch's own."""
SMALL, LARGE = (32, 64), (4096, 4096)
_TURNS = 7

Function = Callable[[Any], Any]


def pairs(shape: tuple[int, int]) -> dict[str, tuple[Function, Function]]:
    """Our function and PyTorch's, of a tensor of that shape. (No sparsemax: PyTorch has none.)"""
    rows = torch.randint(0, shape[0], (shape[0],))
    other = torch.randn(shape)
    functional = torch.nn.functional
    made: dict[str, tuple[Function, Function]] = {
        "embedding": (lambda x: gpt.embedding(rows, x), lambda x: functional.embedding(rows, x)),
        "lerp": (lambda x: gpt.lerp(x, other, 0.3), lambda x: torch.lerp(x, other, 0.3)),
        "segment_sum": (
            lambda x: gpt.segment_sum(x, rows, shape[0]),
            lambda x: x.new_zeros(shape).index_add(0, rows, x),
        ),
    }
    for name in ("cumsum", "cumprod", "logcumsumexp"):
        made[name] = _scans(getattr(gpt, name), getattr(torch, name))
    for name in ("cummax", "cummin"):
        made[name] = _scans(getattr(gpt, name), _values(getattr(torch, name)))
    return dict(sorted(made.items()))


def _scans(ours: Any, theirs: Any) -> tuple[Function, Function]:
    return lambda x: ours(x, 1), lambda x: theirs(x, 1)


def _values(function: Any) -> Any:
    return lambda x, dim: function(x, dim)[0]


def _call(function: Function, x: Any, both: bool) -> Call:
    if not both:
        return lambda: function(x)
    x = x.clone().requires_grad_()
    cotangent = torch.ones_like(function(x))

    def run() -> None:
        torch.autograd.grad(function(x), x, cotangent)

    return run


def ratios(shape: tuple[int, int], both: bool, effort: Effort) -> Iterator[tuple[str, float]]:
    """Our time over PyTorch's, by function."""
    x = torch.randn(shape)
    for name, functions in pairs(shape).items():
        ours, theirs = (_call(f, x, both) for f in functions)
        ours(), theirs()
        if shape == LARGE:
            best = best_times({"ours": ours, "theirs": theirs}, effort)
            yield name, best["ours"] / best["theirs"]
        else:
            turn = Effort(effort.seconds / _TURNS, effort.rounds)
            times = [(per_call(ours, turn), per_call(theirs, turn)) for _ in range(_TURNS)]
            yield name, min(t for t, _ in times) / min(t for _, t in times)


def main() -> None:
    """Prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--small", action="store_true", help="small calls alone")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    console = Console()
    for shape in (SMALL,) if options.small else (SMALL, LARGE):
        title = f"{shape[0]} x {shape[1]} f32: time over PyTorch's"
        table = Table("function", *LIMITS, title=title, title_justify="left")
        columns = [dict(ratios(shape, both, effort)) for both in (False, True)]
        for name in columns[0]:
            table.add_row(name, *(f"{column[name]:.2f}" for column in columns))
        console.print(table)


if __name__ == "__main__":
    main()
