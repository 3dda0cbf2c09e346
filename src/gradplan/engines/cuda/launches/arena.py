"""The workspace of a call, cut into pieces."""

from __future__ import annotations

from gradplan.engines.cuda.program import WORKSPACE, Pointer

_LINE = 256  # bytes; the workspace itself begins at a multiple of it


class Arena:
    """Hands out pieces one behind the other; what is behind `used` can be used again.

    >>> arena = Arena()
    >>> arena.take(4), arena.take(300), arena.size
    (Pointer(name='workspace', offset=0), Pointer(name='workspace', offset=256), 768)
    """

    def __init__(self) -> None:
        self.used = 0
        self.size = 0

    def take(self, size: int) -> Pointer:
        piece = Pointer(WORKSPACE, self.used)
        self.used += -(-size // _LINE) * _LINE
        self.size = max(self.size, self.used)
        return piece
