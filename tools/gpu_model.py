"""Says what GPUs should make of the shipped kernels, by a model; writes it to docs/performance.md.

python tools/gpu_model.py            write the section
python tools/gpu_model.py --check    exit with 1 if it is not current

The problems are the board's in f32, of every op that has kernels. What its launches take is
counted: their PTX is executed on two smaller problems of the same form, and a straight line through
both gives what the board's takes (what one program does by itself may not grow). Registers are what
ptxas said (docs/gpu-kernels.md). A line holds for as long as its digest: that of its kernels, its
launches and this file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))

from gpu_table import ARCHITECTURES, DIGITS, Line, read_table  # noqa: E402
from gpu_table import DOCUMENT as KERNEL_TABLE  # noqa: E402
from kernels import sample  # noqa: E402
from ptx.counts import Work, bytes_underway, count  # noqa: E402
from ptx.run import executable, layout_of  # noqa: E402

from gradplan.bench import data  # noqa: E402
from gradplan.bench.board import Cell, Problem, board_cells  # noqa: E402
from gradplan.engines.cuda import archive, families, packed  # noqa: E402
from gradplan.engines.cuda.archive import Binary  # noqa: E402
from gradplan.engines.cuda.launches.arena import Arena  # noqa: E402
from gradplan.engines.cuda.launches.choices import choosing, chosen  # noqa: E402
from gradplan.engines.cuda.launches.errors import WORDS  # noqa: E402
from gradplan.engines.cuda.launches.sums import exclusive_scan  # noqa: E402
from gradplan.engines.cuda.program import I64, Launch, Program  # noqa: E402
from gradplan.vocabulary import ElementKind  # noqa: E402

DOCUMENT = ROOT / "docs" / "performance.md"
BEGIN = "<!-- gpu model: `make kernels` writes this section -->\n"
END = "<!-- end of gpu model -->\n"

# The chips -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Chip:
    """Figures that NVIDIA publishes; the clock is what its FP32 peak comes to."""

    name: str
    architecture: str
    multiprocessors: int
    ghz: float
    bandwidth: float
    """Bytes of memory a second."""
    shared: int
    """Bytes of shared memory of a multiprocessor."""


CHIPS = (
    Chip("A100", "sm_80", 108, 1.41, 2.039e12, 164 << 10),
    Chip("H100", "sm_90", 132, 1.98, 3.35e12, 228 << 10),
)
WARP, MOST_WARPS, MOST_PROGRAMS, SCHEDULERS = 32, 64, 32, 4
"""Threads of a warp; what a multiprocessor holds, and how many instructions it issues a clock."""
REGISTERS, REGISTER_UNIT, SYSTEM_SHARED = 65536, 8, 1 << 10
"""Of a multiprocessor; those of a thread are given in units; shared memory that CUDA takes."""
LATENCY = 600e-9
"""Seconds from asking memory to having it, on a busy chip. An assumption."""
DEPENDENT = 4
"""Clocks until the next instruction of a warp, which mostly needs the result of the one before."""
GAP = 2e-6
"""Seconds from one launch to the next that waits for it. An assumption."""


def registers_of(chip: Chip, line: Line) -> int:
    """Of a thread."""
    return line.registers[ARCHITECTURES.index(chip.architecture)]


def resident_warps(chip: Chip, line: Line, threads: int) -> int:
    """What a multiprocessor holds of a kernel at once."""
    warps = -(-threads // WARP)
    given = -(-registers_of(chip, line) // REGISTER_UNIT) * REGISTER_UNIT * WARP
    limits = (
        REGISTERS // given // warps,
        chip.shared // (line.shared + SYSTEM_SHARED),
        MOST_WARPS // warps,
        MOST_PROGRAMS,
    )
    return min(limits) * warps


@functools.cache
def shipped() -> Mapping[str, Binary]:
    """Of this checkout: what is installed may have been written before."""
    return archive.unpack((ROOT / "src/gradplan/engines/cuda" / archive.PATH.name).read_bytes())


# A problem and what it takes -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Taken:
    """One kernel's part of a problem, in all its launches."""

    line: Line
    threads: int
    """Of a program."""
    launches: int
    programs: int
    """Of a launch."""
    instructions: float
    read: float
    written: float
    underway: float
    """Bytes that a thread has asked for at once."""

    def seconds(self, chip: Chip) -> tuple[float, str]:
        """How long it runs, and what it waits for."""
        here = resident_warps(chip, self.line, self.threads)
        warps = self.programs * -(-self.threads // WARP)
        resident = min(warps, here * chip.multiprocessors)
        busy = min(self.programs, chip.multiprocessors)
        issued = chip.ghz * 1e9 * min(SCHEDULERS * busy, resident / DEPENDENT)
        machine = self.instructions * self.line.machine / self.line.ptx / WARP
        asked = resident * WARP * self.underway / LATENCY
        times = {
            "instructions": machine / issued,
            "memory": (self.read + self.written) / chip.bandwidth,
            "latency": self.read / asked if 0 < asked < chip.bandwidth else 0.0,
        }
        longest = max(times, key=lambda name: times[name])
        return times[longest] + self.launches * GAP, longest


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A problem: its parts, and the least that it has to move."""

    parts: tuple[Taken, ...]
    elements: int
    least: int

    def of_copy(self, chip: Chip) -> float:
        copy = self.least / chip.bandwidth + GAP
        return copy / sum(part.seconds(chip)[0] for part in self.parts)

    def limit(self, chip: Chip) -> str:
        """What most of the time goes to."""
        lost: dict[str, float] = {"launches": GAP * (sum(p.launches for p in self.parts) - 1)}
        for part in self.parts:
            seconds, why = part.seconds(chip)
            lost[why] = lost.get(why, 0.0) + seconds - part.launches * GAP
        return max(lost, key=lambda name: lost[name])

    def main(self, chip: Chip) -> Taken:
        """The kernel that takes longest."""
        return max(self.parts, key=lambda part: part.seconds(chip)[0])


LINES = {False: 16, True: 64}
"""Lines that are executed, along rows and across them: a few programs of any form."""
SLICES = 256
"""Lines where all have the same indices, which make slices the rows of a table: wide ones."""
LONGEST = 2**17
"""And the most elements of a single line."""
ROWS = 64
"""One row by index of so many."""


def smaller(cell: Cell, part: int) -> Cell:
    """The same problem with fewer lines, of the same length as far as it can be; of it, a part."""
    p = cell.problem
    if not p.shape:
        n, places, width = p.rows
        rows = (n // ROWS // part, places // ROWS // part, width)
        return dataclasses.replace(cell, problem=dataclasses.replace(p, rows=rows))
    axis = p.axis % len(p.shape)
    fewer = LINES[axis != len(p.shape) - 1] // part
    if _has_slices(cell):
        fewer = SLICES // part
    longest = LONGEST // (part if len(p.shape) == 1 else 1)
    shape = tuple(min(n, longest if k == axis else fewer) for k, n in enumerate(p.shape))
    return dataclasses.replace(cell, problem=dataclasses.replace(p, shape=shape))


def _has_slices(cell: Cell) -> bool:
    ids = [o for o in cell.op.operands(cell.descriptor()) if len(o.kinds) > 1 and o.is_input]
    return any(len(each.shape) < len(cell.problem.shape) for each in ids)


def line_count(problem: Problem) -> int:
    return math.prod(problem.shape) // problem.shape[problem.axis] if problem.shape else 1


@contextlib.contextmanager
def as_many_lines_as(board: Problem, small: Problem) -> Iterator[None]:
    """What decides by the number of lines decides as it does on the board."""
    ratio = line_count(small) / line_count(board)
    names = ("scan.many", "scan.many_rows")
    with choosing({name: max(int(chosen(name) * ratio), 1) for name in names}):
        yield


def planned(cell: Cell) -> Program:
    """The launches of the board's problem: all tensors are packed, ids have 64 bits."""
    desc = cell.descriptor()
    layouts = packed(cell.op, desc)
    for operand in cell.op.operands(desc):
        if len(operand.kinds) > 1:
            wide = ElementKind.I64.dtype_name
            layouts[operand.name] = dataclasses.replace(layouts[operand.name], dtype=wide)
    return families()[0][cell.op.name](desc, layouts)


@dataclasses.dataclass(frozen=True)
class Executed:
    """What a smaller problem took: by kernel, of one launch; its elements, the least of bytes."""

    work: Mapping[str, Work]
    programs: Mapping[str, float]
    elements: int
    least: int


def executed(cell: Cell, part: int) -> Executed:
    little = smaller(cell, part)
    tensors = data.tensors(little)
    with as_many_lines_as(cell.problem, little.problem):
        layouts = {name: layout_of(array) for name, array in tensors.items()}
        program = families()[0][little.op.name](little.descriptor(), layouts)
    errors = np.zeros(WORDS, np.int64)
    work = count(program, tensors, shipped(), errors)
    least = data.bytes_moved(little.op.operands(little.descriptor()), tensors)
    return Executed(work, {key: programs(program, key) for key in work}, little.elements, least)


SCANS = ("scan_totals", "scan_serial", "scan_blocks")
"""Kernels of the exclusive scan of a sort's counts, if it is several programs'; 1/64 of a key each,
so a problem that needs them is too large to be executed, and they are executed by themselves."""
COUNTS = 2**15


def scans(part: int) -> Executed:
    n, arena = COUNTS // part, Arena()
    launches = tuple(exclusive_scan(arena.take(4 * n), n, arena))
    program = Program(launches, arena.size)
    work = count(program, {}, shipped())
    return Executed(work, {key: programs(program, key) for key in work}, n, 4 * n)


def counts_of(launch: Launch) -> int:
    """How many counts a launch of the scan has."""
    (n,) = (a.value for a in launch.arguments if isinstance(a, I64))
    return n


def programs(program: Program, key: str) -> float:
    """Of a launch of that kernel, in the mean."""
    grids = [math.prod(launch.grid) for launch in program.launches if launch.kernel == key]
    return sum(grids) / len(grids)


def on_a_line(small: tuple[int, float], large: tuple[int, float], elements: int) -> float:
    """On the straight line through two points, where it rises.

    >>> on_a_line((1, 5.0), (2, 7.0), 10), on_a_line((1, 5.0), (2, 5.0), 10)
    (23.0, 5.0)
    """
    slope = (large[1] - small[1]) / (large[0] - small[0])
    return large[1] + max(slope, 0.0) * (elements - large[0])


def estimate(cell: Cell, table: Mapping[str, Line]) -> Estimate:
    small, large = executed(cell, 2), executed(cell, 1)
    program = planned(cell)

    scanned = [launch for launch in program.launches if launch.kernel == SCANS[0]]
    apart = SCANS if scanned and SCANS[0] not in large.work else ()

    def part(key: str) -> Taken:
        less, more, elements = small, large, cell.elements
        if key in apart:
            less, more, elements = scans(2), scans(1), counts_of(scanned[0])
        if key not in less.work or key not in more.work:
            raise ValueError(f"{cell.name}: {key} was not executed in a smaller problem")
        launches = sum(launch.kernel == key for launch in program.launches)

        def grown(what: str) -> float:
            """With the elements; or with the programs, where one more has room for more."""
            before: float = getattr(less.work[key], what) / less.work[key].launches
            now: float = getattr(more.work[key], what) / more.work[key].launches
            line = on_a_line((less.elements, before), (more.elements, now), elements)
            return launches * max(line, now * programs(program, key) / more.programs[key])

        binary = shipped()[key]
        asking = min(grown("asked") / max(grown("came"), 1), 1)
        return Taken(
            line=table[key],
            threads=binary.threads,
            launches=launches,
            programs=round(programs(program, key)),
            instructions=grown("instructions"),
            read=grown("read"),
            written=grown("written"),
            underway=bytes_underway(executable(binary)) * asking,
        )

    least = on_a_line((small.elements, small.least), (large.elements, large.least), cell.elements)
    parts = [part(key) for key in dict.fromkeys(launch.kernel for launch in program.launches)]
    return Estimate(tuple(parts), cell.elements, round(least))


# The section ---------------------------------------------------------------------------------

HEADS = (
    "function",
    "problem",
    "kernels",
    "launches",
    "bytes of the least",
    "instructions",
    *(f"{what}, {chip.name}" for what in ("registers", "threads", "of copy") for chip in CHIPS),
    "limit",
    "digest",
)


def cells() -> list[Cell]:
    """The board's, in f32, where there are kernels; indices are uniform."""
    return [
        cell
        for cell in board_cells()
        if cell.element is ElementKind.F32
        and cell.op.name in families()[0]
        and cell.problem.ids == Problem("").ids
    ]


@functools.cache
def _source() -> bytes:
    return Path(__file__).read_bytes()


def digest_of(cell: Cell, table: Mapping[str, Line]) -> str:
    """Of what a line depends on."""
    sha = hashlib.sha256(_source())
    for launch in planned(cell).launches:
        sha.update(f"{launch.kernel} {launch.grid} {table[launch.kernel]}".encode())
    return sha.hexdigest()[:DIGITS]


def name_of(cell: Cell) -> str:
    return f"{cell.function.name} | {cell.problem.label}"


def line_of(cell: Cell, table: Mapping[str, Line]) -> str:
    made = estimate(cell, table)
    main = [(chip, made.main(chip)) for chip in CHIPS]
    registers = [registers_of(chip, m.line) for chip, m in main]
    threads = [WARP * resident_warps(chip, m.line, m.threads) for chip, m in main]
    numbers = (
        len(made.parts),
        sum(part.launches for part in made.parts),
        f"{sum(part.read + part.written for part in made.parts) / made.least:.2f}",
        f"{sum(part.instructions for part in made.parts) / made.elements:.1f}",
        *registers,
        *threads,
        *(f"{made.of_copy(chip):.2f}" for chip in CHIPS),
        made.limit(CHIPS[0]),
    )
    return f"| {name_of(cell)} | {' | '.join(map(str, numbers))} | {digest_of(cell, table)} |"


def known(text: str) -> dict[str, str]:
    """The lines that stand in the document, by function and problem."""
    _, found, table = text.split(BEGIN)[1].split(END)[0].partition(f"| {' | '.join(HEADS)} |\n")
    rows = table.split("\n\n")[0].splitlines()[1:] if found else []
    return {" | ".join(cell.strip() for cell in row.split("|")[1:3]): row for row in rows}


def assumptions() -> str:
    chips = "\n".join(
        f"| {c.name} (SXM) | {c.multiprocessors} | {c.ghz} | {c.bandwidth / 1e9:.0f} | "
        f"{c.shared >> 10} |"
        for c in CHIPS
    )
    return f"""\
A kernel's time is the longest of three, and {GAP * 1e6:.0f} us for each launch (an assumption):

- **memory**: the bytes that its loads and stores ask for, at the chip's published bandwidth;
- **latency**: the bytes that are loaded, if what resident threads can have asked for at once does
  not fill {LATENCY * 1e9:.0f} ns (an assumption) at that bandwidth. How many threads are resident
  follows from the grid, registers and shared memory; what a thread asks for at once is what the PTX
  loads between two branches, as far as loads do not depend on each other;
- **instructions**: executed PTX instructions, times what ptxas makes of one (machine code over PTX,
  sm_80), at {SCHEDULERS} a clock and multiprocessor, and one every {DEPENDENT} clocks of a warp.

| chip | multiprocessors | GHz | GB/s | KiB shared |
|---|---|---|---|---|
{chips}

A multiprocessor has {REGISTERS} registers and {WARP * MOST_WARPS} threads. A copy moves the least
bytes at the full bandwidth, in one launch. Left out are caches, sectors of memory that are used in
part, waves that are not full, uneven shares of work, and slower units of a multiprocessor.
"""


def section(rows: list[str]) -> str:
    head = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    return BEGIN + "\n" + assumptions() + "\n" + "\n".join([*head, *rows]) + "\n\n" + END


def main() -> None:
    check = "--check" in sys.argv
    text = DOCUMENT.read_text()
    table = read_table(KERNEL_TABLE.read_text())
    there = known(text)
    wanted = {name_of(cell): cell for cell in cells()}
    same = [
        name
        for name, cell in wanted.items()
        if f"| {digest_of(cell, table)} |" in there.get(name, "")
    ]
    again = {*wanted} - {*same}
    if check:
        if again or {*there} - {*wanted}:
            sys.exit("docs/performance.md does not model the shipped kernels: run make kernels")
        again = {*sample(same, datetime.date.today().toordinal())[:2]}
    made = {name: line_of(wanted[name], table) for name in again}
    before, rest = text.split(BEGIN)
    new = before + section([(there | made)[name] for name in wanted]) + rest.split(END)[1]
    if check and new != text:
        sys.exit("docs/performance.md is not what the model says: run make kernels")
    DOCUMENT.write_text(new)


if __name__ == "__main__":
    main()
