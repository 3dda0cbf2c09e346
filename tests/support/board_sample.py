"""A board with made-up times: what shows results can be tested without measuring."""

from __future__ import annotations

from gradplan.bench.board import (
    SIZES,
    Cell,
    board_cells,
    call_cells,
    load_cells,
    size_cells,
    style_cells,
)
from gradplan.bench.load import ALL, ONE, Loaded, Spread
from gradplan.bench.measure import COPY, OURS, Measured
from gradplan.bench.results import Results
from gradplan.bench.styles import STYLES

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
            took = (size + 2**18) * 5e-10
            results.sizes.append(Measured(cell, size, {OURS: took, COPY: took, "torch": 2 * took}))
    for n, style in enumerate(STYLES):
        for cell in style_cells(style):
            results.styles.append(Measured(cell, 1, {OURS: 1 + n / 10, "torch": 3.0}))
    for cell in load_cells():
        spread = {ONE: Spread(1e-4, 2e-4), ALL: Spread(6e-5, 3e-4)}
        results.loads.append(Loaded(cell, 1, True, spread))
    return results
