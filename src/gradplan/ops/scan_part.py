"""Scans of parts of rows, for rows that stand on several devices or come one piece after the other.

A part begins at a multiple of 4096 in the order of the scan, so that its chunks are those of the
whole row; only the row's last part may have another length than a multiple of 4096. Then

    total, gain = scan_part_total(chunk)   what a chunk hands on, and how what comes in passes it
    carry       = scan_part_fold(...)      what comes out of each chunk, one after the other
    y           = scan_part(x, carry)      a part's results, given what comes out before it

give the bits of one scan of the whole row. A logcumsumexp is relative to the running maximum that
comes in: `before`, from the same three steps for cummax. Gradients do likewise, from the end of
the row. Values of rows are in the compute type.
"""

from __future__ import annotations

from typing import Annotated, Any

from gradplan.declaration import (
    AxisOf,
    Descriptor,
    Function,
    Kind,
    Op,
    Shape,
    Tensor,
    reads,
    without,
    writes,
)
from gradplan.vocabulary import ElementKind, OpCategory, ScanKind, Ties


class _PartFields(Descriptor):
    kind: Annotated[ScanKind, "the running operation"]
    input_shape: Annotated[Shape, "the shape of the part"]
    scan_axis: Annotated[int, AxisOf("input_shape"), "the axis to scan along"]
    reverse: Annotated[bool, "scan from the last element to the first"] = False
    element: Annotated[ElementKind, "the element type"]


class ScanPartDescriptor(_PartFields):
    """A scan of a part of each row."""


class ScanPartTotalDescriptor(_PartFields):
    """What a part of each row hands on."""


class _BackwardFields(_PartFields):
    ties: Annotated[Ties, "which of several equal extremes receives the gradient"] = Ties.FIRST


class ScanPartGradientDescriptor(_BackwardFields):
    """The gradient of a scan of a part of each row."""


class ScanPartGradientTotalDescriptor(_BackwardFields):
    """What the gradient of a part of each row hands on."""


class ScanPartFoldDescriptor(_PartFields):
    """What comes out of each of several parts, one after the other."""

    backward: Annotated[bool, "whether these are parts of a gradient"] = False


def _of_rows(name: str, doc: str, **how: Any) -> Tensor:
    return reads(name, without("scan_axis"), kind=Kind.COMPUTE, optional=True, doc=doc, **how)


def _result(name: str, doc: str) -> Tensor:
    return writes(name, without("scan_axis"), kind=Kind.COMPUTE, doc=doc)


# logcumsumexp is relative to the running maximum. A gradient begins at the element behind the part:
# x of it for cumprod, y for logcumsumexp. Those of cummax and cummin need the extreme before it.
_LEVEL = "logcumsumexp: the running maximum that comes in"
_BEFORE = "x or y behind the part, or the extreme before it"
_TOTAL = _result("total", "what comes out where nothing comes in")
_GAIN = "the factor of what comes in"

SCAN_PART = Op(
    ScanPartDescriptor,
    OpCategory.SCAN,
    "A scan of a part of each row, given what comes out of the part before.",
    tensors=(
        reads("x", "input_shape", doc="what is scanned"),
        _of_rows("before", _LEVEL),
        _of_rows("carry", "what comes in"),
        writes("y", "input_shape", doc="the running result", inplace=("x",)),
    ),
    functions=(
        Function(
            "scan_part",
            """A scan of a part of each row, given what comes out of the part before.

            >>> x = np.float32([1, 2, 3])
            >>> gp.scan_part(x, carry=np.float32(10), kind="cumsum")
            array([11., 13., 16.], dtype=float32)
            """,
        ),
    ),
)

SCAN_PART_TOTAL = Op(
    ScanPartTotalDescriptor,
    OpCategory.SCAN,
    "What a part of each row hands on to the next part of a scan.",
    tensors=(
        reads("x", "input_shape", doc="what is scanned"),
        _of_rows("before", _LEVEL),
        _TOTAL,
        _result("gain", _GAIN),
    ),
    functions=(
        Function(
            "scan_part_total",
            """What a part of each row hands on: the total, and the gain of what comes in.

            >>> gp.scan_part_total(np.float32([1, 2, 3]), kind="cumsum")[0]
            array(6., dtype=float32)
            """,
        ),
    ),
)

SCAN_PART_GRADIENT = Op(
    ScanPartGradientDescriptor,
    OpCategory.SCAN,
    "The gradient of a scan of a part of each row, given what comes out of the part behind.",
    tensors=(
        reads("dy", "input_shape", doc="the gradient of the results"),
        reads("x", "input_shape", doc="what was scanned"),
        reads("y", "input_shape", doc="the running result"),
        _of_rows("before", _BEFORE),
        _of_rows("behind", "cumprod: y before the part, if there is one"),
        _of_rows("carry", "what comes in"),
        writes("dx", "input_shape", doc="the gradient of x", inplace=("dy",)),
    ),
    functions=(
        Function(
            "scan_part_gradient",
            """The gradient of a scan of a part of each row, given what comes from behind it.

            >>> dy = x = y = np.float32([1, 2, 3])
            >>> gp.scan_part_gradient(dy, x, y, carry=np.float32(10), kind="cumsum")
            array([16., 15., 13.], dtype=float32)
            """,
        ),
    ),
)

SCAN_PART_GRADIENT_TOTAL = Op(
    ScanPartGradientTotalDescriptor,
    OpCategory.SCAN,
    "What a part of each row hands on to the part before it in the gradient of a scan.",
    tensors=(
        reads("dy", "input_shape", doc="the gradient of the results"),
        reads("x", "input_shape", doc="what was scanned"),
        reads("y", "input_shape", doc="the running result"),
        _of_rows("before", _BEFORE),
        _TOTAL,
        _result("gain", _GAIN),
        _result("exponent", "its exponent, of cumprod"),
    ),
    functions=(
        Function(
            "scan_part_gradient_total",
            """What the gradient of a part hands on: the total, and the gain of what comes in.

            >>> dy = x = y = np.float32([1, 2, 3])
            >>> gp.scan_part_gradient_total(dy, x, y, kind="cumsum")[0]
            array(6., dtype=float32)
            """,
        ),
    ),
)

SCAN_PART_FOLD = Op(
    ScanPartFoldDescriptor,
    OpCategory.SCAN,
    "What comes out of each of several parts of a row, one after the other.",
    tensors=(
        reads("total", "input_shape", doc="what comes out where nothing comes in"),
        reads("gain", "input_shape", doc=_GAIN),
        reads("exponent", "input_shape", doc="its exponent, of cumprod's gradient"),
        writes("carry", "input_shape", doc="what comes out of each part"),
    ),
    functions=(
        Function(
            "scan_part_fold",
            """What comes out of each of several parts, one after the other along the axis.

            >>> total, one = np.float32([6, 1, 2]), np.ones(3, np.float32)
            >>> gp.scan_part_fold(total, one, one, kind="cumsum")
            array([6., 7., 9.], dtype=float32)
            """,
        ),
    ),
)
