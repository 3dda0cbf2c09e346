"""Assembles the shipped kernels for several GPUs and writes what comes out to docs/gpu-kernels.md.

python tools/gpu_table.py            write the table
python tools/gpu_table.py --check    exit with 1 if it is not current

A line holds for as long as its kernel has the same digest: only others are assembled again. The
check assembles a few of the rest as well, other ones every day.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import datetime
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import triton
from kernels import sample

from gradplan.engines.cuda import archive
from gradplan.engines.cuda.archive import Binary

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
PTXAS = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
DOCUMENT = Path(__file__).parents[1] / "docs" / "gpu-kernels.md"
BEGIN = "<!-- kernels: `make kernels` writes this table -->\n"
END = "<!-- end of kernels -->\n"
DIGITS = 12
HEADS = (
    "kernel",
    *(f"registers {a}" if a == ARCHITECTURES[0] else a for a in ARCHITECTURES),
    "spilled",
    "shared",
    "barriers",
    "PTX",
    "machine",
    "digest",
)


@dataclasses.dataclass(frozen=True)
class Line:
    """What is known of a kernel."""

    key: str
    registers: tuple[int, ...]
    spilled: int
    shared: int
    barriers: int
    ptx: int
    machine: int
    digest: str

    def __str__(self) -> str:
        numbers = (
            *self.registers,
            self.spilled,
            self.shared,
            self.barriers,
            self.ptx,
            self.machine,
        )
        return f"| {self.key} | {' | '.join(map(str, numbers))} | {self.digest} |"

    @classmethod
    def parse(cls, text: str) -> Line:
        key, *numbers, digest = (cell.strip() for cell in text.strip(" |\n").split("|"))
        *registers, spilled, shared, barriers, ptx, machine = map(int, numbers)
        return cls(key, tuple(registers), spilled, shared, barriers, ptx, machine, digest)


# Assembling ----------------------------------------------------------------------------------


def assemble(ptx: bytes, architecture: str) -> tuple[int, int, int]:
    """Registers, bytes spilled, and instructions; raises what ptxas complains about."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_bytes(ptx)
        command = [str(PTXAS), "-v", f"-arch={architecture}", str(source), "-o", str(target)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise ValueError(f"ptxas for {architecture}: {result.stderr}")
        return *read_report(result.stderr), _text_size(target.read_bytes()) // 16


def read_report(report: str) -> tuple[int, int]:
    """Registers and bytes spilled, of what ptxas -v says."""
    registers = re.search(r"Used (\d+) registers", report)
    spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report)
    stack = re.search(r"(\d+) bytes stack frame", report)
    assert registers and spilled and stack, report
    lost = max(*map(int, spilled.groups()), int(stack[1]))
    return int(registers[1]), lost


def _text_size(cubin: bytes) -> int:
    """Bytes of machine code: the sections .text.* of an ELF file of 64 bits."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + size * i) for i in range(count)]
    strings = headers[names][4]
    total = 0
    for name, _, _, _, _, length in headers:
        at = strings + name
        if cubin[at : cubin.index(b"\0", at)].startswith(b".text."):
            total += length
    return total


def line_of(binary: Binary) -> Line:
    reports = [assemble(binary.ptx, architecture) for architecture in ARCHITECTURES]
    registers, spilled, machine = zip(*reports, strict=True)
    body = binary.ptx.decode().partition("{")[2]
    return Line(
        key=binary.key,
        registers=registers,
        spilled=max(spilled),
        shared=binary.shared,
        barriers=body.count("bar.sync"),
        ptx=len(re.findall(r"^(?:@!?%p\d+\s+)?[a-z][\w.:]*\s*.*;$", body, re.M)),
        machine=machine[0],
        digest=binary.digest[:DIGITS],
    )


def lines_of(binaries: Iterable[Binary]) -> dict[str, Line]:
    """Several at once: ptxas runs in processes of its own."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return {line.key: line for line in pool.map(line_of, binaries)}


# The document --------------------------------------------------------------------------------


def read_table(text: str) -> dict[str, Line]:
    """The lines that stand in the document."""
    table = text.split(BEGIN)[1].split(END)[0].strip().splitlines()[2:]
    return {line.key: line for line in map(Line.parse, table)}


def document(text: str, lines: Iterable[Line]) -> str:
    head, rest = text.split(BEGIN)
    rows = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|", *map(str, lines)]
    return head + BEGIN + "\n" + "\n".join(rows) + "\n\n" + END + rest.split(END)[1]


def main() -> None:
    check = "--check" in sys.argv
    text = DOCUMENT.read_text()
    shipped = dict(sorted(archive.load().items()))
    known = read_table(text)
    same = [k for k, b in shipped.items() if k in known and known[k].digest == b.digest[:DIGITS]]
    again = [k for k in shipped if k not in same]
    if check:
        if again or {*known} - {*shipped}:
            sys.exit("docs/gpu-kernels.md is not about the shipped kernels: run make kernels")
        again = sample(same, datetime.date.today().toordinal())
    made = lines_of(shipped[key] for key in again)
    new = document(text, ({**known, **made}[key] for key in shipped))
    if check and new != text:
        sys.exit("docs/gpu-kernels.md is not what ptxas says: run make kernels")
    DOCUMENT.write_text(new)
    if spilled := [key for key, line in read_table(new).items() if line.spilled]:
        sys.exit(f"registers are spilled by {', '.join(spilled)}")


if __name__ == "__main__":
    main()
