"""What the executor refuses."""

from __future__ import annotations


class PtxError(Exception):
    """Any of these; `machine.py` adds the instruction."""


class Unsupported(PtxError):
    """An opcode, modifier or directive that is not written here: perhaps for a reason."""


class OutOfBounds(PtxError):
    """An access outside of the memory that the launch was given."""


class Misaligned(PtxError):
    """An address that is no multiple of the size of the access."""


class Divergent(PtxError):
    """A barrier, shuffle or vote that not all of its threads have reached."""


class Race(PtxError):
    """Two threads store different values at one address in one instruction."""


class Unwritten(PtxError):
    """A register that is read before anything was written to it."""


class Endless(PtxError):
    """More steps than any launch of a test needs."""
