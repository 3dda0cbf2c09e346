"""The shipped kernels: PTX of all of them in one compressed file. Triton is not needed to read it.

The file is xz: a line of JSON, which lists the kernels, and behind it their PTX in the same order.
They are compressed as a whole, since they are much alike. `make kernels` writes it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import lzma
from collections.abc import Iterable, Mapping
from pathlib import Path

PATH = Path(__file__).with_name("kernels.xz")


@dataclasses.dataclass(frozen=True)
class Binary:
    """A kernel as it is given to the driver."""

    key: str
    entry: str
    """Its name in the PTX."""
    threads: int
    """Of one program."""
    shared: int
    """Bytes of shared memory."""
    parameters: str
    """A letter per parameter: p pointer, i and l integers of 32 and 64 bits, f and d floats of as
    many, and 0 for those behind them that are no arguments and always null."""
    ptx: bytes = dataclasses.field(repr=False)
    source: str
    """Digest of what it was compiled from."""

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the PTX."""
        return hashlib.sha256(self.ptx).hexdigest()


class DamagedArchive(Exception):
    """The file is not what was written."""


def pack(binaries: Iterable[Binary]) -> bytes:
    """The same kernels give the same bytes."""
    ordered = sorted(binaries, key=lambda b: b.key)
    index = [
        {
            "key": b.key,
            "entry": b.entry,
            "threads": b.threads,
            "shared": b.shared,
            "parameters": b.parameters,
            "size": len(b.ptx),
            "digest": b.digest,
            "source": b.source,
        }
        for b in ordered
    ]
    head = json.dumps(index, separators=(",", ":")).encode() + b"\n"
    content = head + b"".join(b.ptx for b in ordered)
    return lzma.compress(content, check=lzma.CHECK_SHA256, preset=9 | lzma.PRESET_EXTREME)


def unpack(data: bytes) -> dict[str, Binary]:
    try:
        content = lzma.decompress(data)
    except lzma.LZMAError as error:
        raise DamagedArchive(str(error)) from None
    head, _, rest = content.partition(b"\n")
    binaries: dict[str, Binary] = {}
    at = 0
    for entry in json.loads(head):
        size, digest = entry.pop("size"), entry.pop("digest")
        binary = Binary(**entry, ptx=rest[at : at + size])
        if binary.digest != digest:
            raise DamagedArchive(f"the PTX of {binary.key} is not the one that was written")
        binaries[binary.key] = binary
        at += size
    return binaries


@functools.cache
def load() -> Mapping[str, Binary]:
    """All kernels by key; none where the package was built without them."""
    return unpack(PATH.read_bytes()) if PATH.exists() else {}
