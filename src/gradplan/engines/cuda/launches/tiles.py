"""What kernels are compiled for and launches count with: how many elements a program takes."""

from __future__ import annotations

FLAT = 1024
"""Elements of a program where tensors are one axis."""
TILE = (8, 128)
"""Lines and elements of a line, where they have strides."""
CHECKED = 4096
"""Indices that a program checks."""
FIRSTS = 1024
"""How many of their answers are looked through at a time."""
GATHERED = {"narrow": (256, 1), "middle": (32, 16), "wide": (8, 128), "vector": (4, 256)}
"""Rows and words of a program that copies rows, by how long they are; see `gather_form`."""


def gather_form(words: int) -> str:
    """Which of GATHERED suits rows of so many words.

    >>> [gather_form(n) for n in (1, 2, 16, 17)]
    ['narrow', 'middle', 'middle', 'wide']
    """
    return next((f for f in ("narrow", "middle") if words <= GATHERED[f][1]), "wide")


SORTED = 1024
"""Keys of a program of the radix sort."""
DIGIT = 4
"""Bits of a key that one pass sorts by."""
SCANNED = 4096
"""Counts of a program of the exclusive scan."""
STARTS = 128
"""Segments of a program that looks for their first members."""
SUMMED = {"narrow": (128, 1), "middle": (16, 8), "wide": (4, 32)}
"""Segments (or blocks of a segment) and columns of a program that sums rows, and in "vector" as
many columns as 16 bytes per lane are."""
VECTOR = 16
"""Elements that rows of the vector forms come in multiples of: Triton's unit of divisibility."""


def vector_columns(itemsize: int) -> int:
    """Columns of the vector form of a sum.

    >>> [vector_columns(n) for n in (2, 4, 8)]
    [256, 128, 64]
    """
    return 32 * 16 // itemsize


def sum_form(width: int) -> str:
    """Which of SUMMED suits rows of so many elements.

    >>> [sum_form(n) for n in (1, 2, 8, 9)]
    ['narrow', 'middle', 'middle', 'wide']
    """
    return next((f for f in ("narrow", "middle") if width <= SUMMED[f][1]), "wide")


LANES = 128
"""Lines times columns of a program that reduces segments otherwise, each a lane's own."""
ROW_LANES = 512
"""The same of a program that goes through rows."""
MOST_SIDE_BY_SIDE = 32
"""Columns next to each other there, at the most."""
VECTOR_LINES = SUMMED["wide"][0]
"""Segments (or blocks) of a program in the vector form."""


def side_by_side(width: int) -> int:
    """Columns of a program of LANES or ROW_LANES, as a power of 2.

    >>> [side_by_side(n) for n in (1, 2, 3, 32, 1000)]
    [0, 1, 2, 5, 5]
    """
    return (min(width, MOST_SIDE_BY_SIDE) - 1).bit_length()


REDUCTIONS = {
    "sum": ("itself", "cumsum"),
    "max": ("itself", "cummax"),
    "min": ("itself", "cummin"),
    "prod": ("itself", "cumprod"),
    "weights": ("weight", "cumsum"),
    "products": ("product", "cumsum"),
    "matches": ("match", "cumsum"),
    "places": ("place", "least"),
}
"""What counts of a member, and how members are combined; kernels/members.py has both."""
RESULTS = {"mean": "sum", "logsumexp": "weights"} | {n: n for n in REDUCTIONS if n != "sum"}
"""What can be asked for of a segment, and the reduction that it takes."""
TABLES = {"weights", "products", "matches", "places"}
"""Those that other kernels read: of the compute type or, places, of 32 bits."""
ROWWISE = {
    "mean": "*i32",
    "share": None,
    "chosen": "*i32",
    "logsumexp": None,
    "softmax": None,
    "log_softmax": None,
    "softmax_backward": None,
    "log_softmax_backward": None,
}
"""What can be asked for of a row; and what the table holds, if not the compute type."""
SPARSEMAX = {
    "16": (16, 16, 4),
    "128": (1, 128, 1),
    "1024": (1, 1024, 4),
    "4096": (1, 4096, 8),
    "long": (1, 1024, 4),
    "16/vector": (64, 16, 4),
    "128/vector": (2, 128, 1),
    "1024/vector": (1, 1024, 4),
    "4096/vector": (1, 4096, 8),
    "long/vector": (1, 2048, 8),
    "across/32": (32, 32, 4),
    "across/128": (32, 128, 8),
    "across/long": (32, 32, 4),
}
"""Lines, elements and warps of a program of sparsemax. A form is named after the most elements that
a line may have to stay in registers as a whole; long ones are visited piece by piece. "vector": a
lane has several neighbours of a line; "across": neighbours in memory belong to different lines."""


def sparsemax_form(n: int, held: int, *, across: bool, vector: bool) -> str:
    """Which of SPARSEMAX suits lines of n elements; they stay in registers up to `held`.

    >>> sparsemax_form(17, 4096, across=False, vector=True)
    '128/vector'
    >>> sparsemax_form(129, 4096, across=True, vector=True)
    'across/long'
    """
    before, behind = ("across/", "") if across else ("", "/vector" if vector else "")
    limits = (f"{before}{most}{behind}" for most in (16, 32, 128, 1024, 4096) if n <= most <= held)
    return next((form for form in limits if form in SPARSEMAX), f"{before}long{behind}")


REDUCED = 8
"""Lines of a program of sparsemax's gradient, 16 lanes each."""
UNDERWAY = 8
"""Loads of a lane before its first addition, where sums are serial."""
SHORT = 64
"""Elements of a line that are few enough to be loaded 16 at a time there."""
REDUCED_ACROSS = 32
"""The same where neighbours in memory belong to neighbouring lines, a lane each."""
INITIAL_GIVEN, DA_WANTED, DB_WANTED, D_INITIAL_WANTED = 1, 2, 4, 8
"""Bits of what kernels of linear_scan are told: what is there, and which gradients are wanted."""
READ, HELD = 1, 2
"""Bits of what kernels of lines' ends are told: another tensor is read; what is there counts."""
