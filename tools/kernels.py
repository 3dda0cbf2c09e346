"""Compiles the GPU kernels and writes the archive that is shipped; `make kernels`.

python tools/kernels.py            build what has changed, and write engines/cuda/kernels.xz
python tools/kernels.py --all      build everything
python tools/kernels.py --check    exit with 1 if the archive is not what the sources give

The check compares digests of all sources, and builds a few of the kernels again, other ones every
day, since the same source has to give the same bytes.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gradplan.engines.cuda import archive
from gradplan.engines.cuda.archive import Binary
from gradplan.engines.cuda.kernels.builds import build, build_once
from gradplan.engines.cuda.kernels.catalogue import catalogue, source_digest

KEPT = Path(__file__).parents[1] / "build" / "kernels"
"""What was built before and not shipped yet."""
SAMPLE = 6
"""Kernels that a check builds although their sources have not changed."""


def _build(key: str) -> Binary:
    """Runs in a process of its own."""
    return build(key, catalogue()[key])


def _build_once(key: str) -> Binary:
    return build_once(key, catalogue()[key], KEPT)


def build_all(keys: Sequence[str], function: Callable[[str], Binary] = _build) -> Iterator[Binary]:
    """In parallel, with a line for each."""
    workers = min(len(keys), len(os.sched_getaffinity(0)))
    if not workers:
        return
    context = multiprocessing.get_context("spawn")  # LLVM's threads do not survive a fork
    with concurrent.futures.ProcessPoolExecutor(workers, context) as pool:
        waiting = {pool.submit(function, key): key for key in keys}
        failed = []
        for number, future in enumerate(concurrent.futures.as_completed(waiting), 1):
            key = waiting[future]
            if future.exception() is None:
                print(f"[{number}/{len(keys)}] {key}", flush=True)
                yield future.result()
            else:
                failed.append(f"{key}: {future.exception()}")
                print(failed[-1], flush=True)
    if failed:
        sys.exit(f"{len(failed)} kernels could not be built")


def changed(shipped: dict[str, Binary]) -> list[str]:
    """Kernels that are new or made from another source."""
    return [
        key
        for key, kernel in catalogue().items()
        if key not in shipped or shipped[key].source != source_digest(kernel)
    ]


def write(everything: bool) -> None:
    keys = catalogue()
    shipped = {} if everything else dict(archive.load())
    binaries = {key: binary for key, binary in shipped.items() if key in keys}
    binaries |= {
        b.key: b for b in build_all(changed(shipped), _build if everything else _build_once)
    }
    data = archive.pack(binaries.values())
    archive.PATH.write_bytes(data)
    text = sum(len(b.ptx) for b in binaries.values())
    print(f"{archive.PATH.name}: {len(binaries)} kernels, {len(data):,} bytes ({text:,} of PTX)")


def sample(keys: Sequence[str], day: int) -> list[str]:
    """The next few kernels every day, all of them in turn."""
    first = day * SAMPLE % max(len(keys), 1)
    return (list(keys) * 2)[first : first + min(SAMPLE, len(keys))]


def problems(day: int) -> Iterator[str]:
    """What is wrong with the archive."""
    shipped = dict(archive.load())
    different = changed(shipped)
    yield from (f"{key} is shipped and has no source" for key in {*shipped} - {*catalogue()})
    yield from (f"{key} has changed since it was built" for key in different)
    same = [key for key in catalogue() if key not in different]
    for binary in build_all(sample(same, day)):
        if binary != shipped[binary.key]:
            yield f"{binary.key}: the same source gives other bytes"


def main() -> None:
    if "--check" not in sys.argv:
        write("--all" in sys.argv)
        return
    found = sorted(problems(datetime.date.today().toordinal()))
    if found:
        sys.exit("\n".join([*found, "run make kernels"]))


if __name__ == "__main__":
    main()
