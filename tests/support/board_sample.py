"""A board with made-up times: what shows results can be tested without measuring."""

from __future__ import annotations

from gradplan.bench.board import SIZES, Cell, board_cells, call_cells, size_cells
from gradplan.bench.measure import COPY, OURS, Measured
from gradplan.bench.results import Results

_COPY_SECONDS = 0.01


def _measured(number: int, cell: Cell, *, copy: bool = True) -> Measured:
    score = 0.3 + 0.09 * ((number + 1) % 9)
    times = {OURS: _COPY_SECONDS / score}
    if copy:
        times[COPY] = _COPY_SECONDS
    rivals = {figure.peer for figure in cell.function.figures}
    peers = {"entmax": 30.0} if "entmax" in rivals else {"torch": 6.0, "jax": 25.0}
    for peer, ratio in peers.items():
        if peer != "jax" or (copy and cell.element == "f32"):
            times[peer] = times[OURS] * ratio * (0.3 + number % 7)
    return Measured(cell, 2**27, times)


def sample_results() -> Results:
    """Every cell of the board, some of them short."""
    results = Results(quick=False)
    results.cells = [_measured(n, cell) for n, cell in enumerate(board_cells())]
    results.calls = [_measured(n, cell, copy=False) for n, cell in enumerate(call_cells())]
    for size in SIZES:
        for cell in size_cells(size):
            results.sizes.append(Measured(cell, size, {OURS: (size + 2**18) * 5e-10}))
    return results
