"""gradplan.torch against PyTorch's own operators: `python -m gradplan.bench.torch_bridge`.

Small calls, which show what the bridge costs; large ones, as a user would time them; and the cells
of the board, which show what is left of a plan's speed when the bridge calls it. Contenders take
turns. Ratios only: times belong to a machine.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Iterator
from types import SimpleNamespace

from rich.console import Console
from rich.table import Table

from gradplan.bench import data
from gradplan.bench.board import SMALL, Cell, Problem, board_cells, functions, small_problem
from gradplan.bench.bridges import bridge_peer
from gradplan.bench.measure import FULL, OURS, QUICK, Call, Effort, best_times, plan_call
from gradplan.bench.peers import OnTorch, as_torch, values
from gradplan.declaration import Function, Op, Peer
from gradplan.signatures import signature_of
from gradplan.vocabulary import ElementKind

AIMS = {"forward": 1.1, "forward + backward": 1.05}
"""A small call should take at most this many times as long as PyTorch's own."""
LEFT = 0.9
"""How much of a plan's advantage over PyTorch should be left."""
LARGE = small_problem(4096, 4096)
_CALLS = 10


class Torch(OnTorch):
    """PyTorch's functions, as on the board."""

    def __init__(self) -> None:
        super().__init__("torch")


class Bridge(Torch):
    """Ours, called and differentiated as PyTorch's are; they allocate their outputs."""

    def peer(self, op: Op, function: Function) -> Peer | None:
        return bridge_peer("torch", op, function)


def pairs(cell: Cell) -> Iterator[tuple[str, tuple[Peer, Peer], SimpleNamespace]]:
    """The bridge's function, our and PyTorch's, and arguments for them; indices also in a batch."""
    op, function = cell.op, cell.function
    ours, theirs = Bridge().peer(op, function), Torch().peer(op, function)
    if ours is None or theirs is None or function.torch is None:
        return
    tensors = {name: as_torch(array) for name, array in data.tensors(cell).items()}
    v = values(op, function, cell.descriptor(), tensors)
    yield ours.name, (ours, theirs), v
    indices = {t.function_name for t in op.inputs if t.index and op.packs.issuperset(t.axes)}
    if indices:
        batches = {name: getattr(v, name).reshape(4, -1) for name in indices}
        yield f"{ours.name} of a batch", (ours, theirs), SimpleNamespace(**{**vars(v), **batches})


def _call(peer: Peer, v: SimpleNamespace, leaf: str, both: bool) -> Call:
    module = importlib.import_module(peer.library)
    if not both:
        forward: Call = peer.bind(module, v, None)
        return forward
    torch = importlib.import_module("torch")
    x = getattr(v, leaf).detach().requires_grad_()
    call = peer.bind(module, SimpleNamespace(**{**vars(v), leaf: x}), None)
    cotangent = torch.ones_like(call())

    def run() -> None:
        torch.autograd.grad(call(), x, cotangent)

    return run


def ratios(problem: Problem, both: bool, effort: Effort) -> Iterator[tuple[str, float]]:
    """Our time over PyTorch's, by function."""
    for op, function in functions().values():
        cell = Cell(op, function, ElementKind.F32, problem)
        leaf = signature_of(op, function.name).first.function_name
        for name, peers, v in pairs(cell):
            ours, theirs = (_call(peer, v, leaf, both) for peer in peers)
            ours(), theirs()
            if problem is LARGE:
                best = best_times({"ours": ours, "theirs": theirs}, effort)
                yield name, best["ours"] / best["theirs"]
            else:
                yield name, _shortest(ours, theirs, effort.seconds)


def _shortest(ours: Call, theirs: Call, seconds: float) -> float:
    """The ratio of the best times of a few calls each; a scheduler's turn is longer than those."""
    best = [float("inf")] * 2
    end = time.perf_counter() + 2 * seconds
    while time.perf_counter() < end:
        for i, call in enumerate((ours, theirs)):
            call()  # its code and tables are in the cache again
            began = time.perf_counter()
            for _ in range(_CALLS):
                call()
            best[i] = min(best[i], time.perf_counter() - began)
    return best[0] / best[1]


def speedups(effort: Effort) -> Iterator[tuple[str, float, float]]:
    """How many times faster than PyTorch a plan is, and the bridge.

    For the f32 cells of the board that PyTorch has an operator for. The bridge allocates its
    outputs; the plan has its own.
    """
    for cell in board_cells():
        if cell.element is not ElementKind.F32:
            continue
        tensors = data.tensors(cell)
        theirs, bridge = Torch().calls(cell, tensors), Bridge().calls(cell, tensors)
        if theirs is None or bridge is None:
            continue
        bridge(), theirs()
        contenders = {OURS: plan_call(cell, tensors), "bridge": bridge, "torch": theirs}
        best = best_times(contenders, effort)
        name = f"{cell.function.name} {cell.problem.label}"
        yield name, best["torch"] / best[OURS], best["torch"] / best["bridge"]


def main() -> None:
    """Prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--small", action="store_true", help="small calls alone")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    console = Console()
    for problem in (SMALL,) if options.small else (SMALL, LARGE):
        heads = [
            f"{way} (aim: {limit})" if problem is SMALL else way for way, limit in AIMS.items()
        ]
        title = f"{problem.label} f32: time over PyTorch's"
        table = Table("function", *heads, title=title, title_justify="left")
        columns = [dict(ratios(problem, both, effort)) for both in (False, True)]
        for name in sorted(columns[0]):
            table.add_row(name, *(f"{column[name]:.2f}" for column in columns))
        console.print(table)
    if not options.small:
        console.print(_left_of_speedups(effort))


def _left_of_speedups(effort: Effort) -> Table:
    title = "The board, f32: how many times faster than PyTorch"
    heads = ("cell", "plan", "gradplan.torch", f"left of it (aim: {LEFT})")
    table = Table(*heads, title=title, title_justify="left")
    for name, plan, bridge in speedups(effort):
        table.add_row(name, f"{plan:.2f}", f"{bridge:.2f}", f"{bridge / plan:.2f}")
    return table


if __name__ == "__main__":
    main()
