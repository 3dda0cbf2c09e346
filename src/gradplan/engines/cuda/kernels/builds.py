"""Kernels as they are shipped, made from their sources; and kept, so that nothing is made twice."""

from __future__ import annotations

import json
import os
from pathlib import Path

from gradplan.engines.cuda.archive import Binary

from .catalogue import source_digest
from .compiler import compile
from .kernel import Kernel


def build(key: str, kernel: Kernel) -> Binary:
    made = compile(kernel)
    return Binary(
        key=key,
        entry=made.entry,
        threads=made.threads,
        shared=made.shared,
        parameters=made.parameters,
        ptx=made.ptx,
        source=source_digest(kernel),
    )


def build_once(key: str, kernel: Kernel, folder: Path) -> Binary:
    """The same, or what a file of the folder says: one for each source."""
    place = folder / source_digest(kernel)
    if not place.exists():
        binary = build(key, kernel)
        folder.mkdir(parents=True, exist_ok=True)
        partial = place.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps({**vars(binary), "ptx": binary.ptx.decode()}))
        partial.replace(place)
    fields = json.loads(place.read_text())
    return Binary(**{**fields, "key": key, "ptx": fields["ptx"].encode()})
