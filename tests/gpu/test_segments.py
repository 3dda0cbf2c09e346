"""Other reductions of segments in executed PTX: where blocks meet, ties, and wrong kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layouts import Array
from matrix import FUNCTIONS
from row_calls import call, expected, mutated, same
from samples import ELEMENTS

import gradplan as gp
from gradplan.cases import floats, hashed
from gradplan.declaration import Function, Op
from gradplan.engines.cuda import families
from gradplan.reference import FUNCTIONS as REFERENCE

# Members on either side of a block's end, and so that segments begin anywhere in a slot; an empty
# segment, and rows that belong to none.
MEMBERS = (255, 256, 257, 0, 1, 513, 2, 260, 16)
SEGMENTS = len(MEMBERS)
IDS = np.concatenate([np.repeat(np.arange(SEGMENTS), MEMBERS), [SEGMENTS] * 300])
ANY_ORDER = IDS[np.argsort(hashed("order", IDS.size), kind="stable")]
WIDTH = 3
FAMILIES = ("segment_reduce", "segment_softmax")
HERE = [
    (op, function)
    for op, function in FUNCTIONS
    if op.name.removeprefix("unsorted_").removesuffix("_backward") in FAMILIES
]


def problem(
    op: Op, function: Function, kind: gp.ElementKind, flavour: str, **options: Any
) -> tuple[Any, dict[str, Array]]:
    """A descriptor and inputs: what the forward gave is what the reference gives."""
    sizes = {"num_inputs": IDS.size, "embedding_dim": WIDTH, "num_segments": SEGMENTS}
    options = {name: value for name, value in options.items() if name in op.field_named}
    desc = op.descriptor(**sizes, element=kind, **function.fixed, **options)
    ids = IDS if op.name in FAMILIES else ANY_ORDER
    values = {
        o.name: floats(f"{function.name} {o.name}", o.shape, kind, flavour)
        for o in op.operands(desc)
        if o.is_input and o.name != "segment_ids"
    }
    x = values.get("input", floats("x", (IDS.size, WIDTH), kind, flavour))
    if "output" in values:
        forward = REFERENCE["unsorted_" + op.name.removesuffix("_backward")]
        values["output"] = forward(x, ids, num_segments=SEGMENTS, **function.fixed)
    return desc, {**values, "segment_ids": ids}


def is_right(op: Op, desc: Any, inputs: dict[str, Array], binaries: Any = None) -> bool:
    (out,) = (o for o in op.operands(desc) if not o.is_input)
    got = np.full(out.shape, np.nan, out.kinds[0].dtype)
    words = call(op.name, desc, {**inputs, out.name: got}, binaries)
    (want,) = expected(op.name, desc, inputs)
    return same(got, want) and not words.any()


@pytest.mark.parametrize(
    ("number", "pair"), list(enumerate(HERE)), ids=[function.name for _, function in HERE]
)
@pytest.mark.slow
def test_segments_of_several_blocks(number: int, pair: tuple[Op, Function]) -> None:
    """Each function in one type, the kinds of values in turn."""
    op, function = pair
    kind = ELEMENTS[number % len(ELEMENTS)]
    flavour = ("near_one", "huge") if "prod" in function.name else ("ties", "wide")
    for ties in ("first", "last", "share") if "ties" in op.field_named else ("first",):
        desc, inputs = problem(op, function, kind, flavour[number % 2], ties=ties)
        assert is_right(op, desc, inputs), ties
        if desc.kind.value not in ("max", "min"):
            break


def test_every_function_of_both_families_is_here() -> None:
    assert {op.name for op, _ in HERE} == {
        name for name in families()[0] if "segment" in name and "sum" not in name
    }


# Wrong kernels --------------------------------------------------------------------------------

CHANGES = {
    "a block of 512": ("members", "tl.constexpr(BLOCK)", "tl.constexpr(2 * BLOCK)", "segment_mean"),
    "the second half for all": (
        "members",
        "(begin % SLOT != 0) & (b == 0)",
        "(begin % SLOT != 0) & (b >= 0)",
        "segment_prod",
    ),
    "the other one of two equal ones": (
        "segment_reduce",
        "r.to(tl.int32) ^ option)[:, None] == t",
        "r.to(tl.int32) ^ option)[:, None] >= t",
        "segment_max_backward",
    ),
    "an empty segment": (
        "segment_reduce",
        "tl.where((members > 0)[:, None], total, fill)",
        "total",
        "segment_mean",
    ),
    "the maximum left out": (
        "members",
        "exp(difference(x, top))",
        "exp(x)",
        "segment_logsumexp",
    ),
    "products the other way round": (
        "segment_reduce",
        "multiply(multiply(before, total), multiply(taken[u][1], behind))",
        "multiply(before, multiply(total, multiply(taken[u][1], behind)))",
        "segment_prod_backward",
    ),
    "blocks behind counted from the front": (
        "segment_reduce",
        "b = blocks - 1 - (k + u) if REVERSE",
        "b = k + u + tl.zeros_like(blocks) if REVERSE",
        "segment_prod_backward",
    ),
    "rows of no segment": (
        "segment_reduce",
        "y = tl.where(inside, y, tl.zeros_like(y))",
        "y = tl.where(inside, y, tl.zeros_like(y) + 1)",
        "segment_softmax_backward",
    ),
    "another association": (
        "segment_reduce",
        "y = w * (x - t)",
        "y = w * x - w * t",
        "segment_softmax_backward",
    ),
    "the logarithm first": (
        "segment_reduce",
        "difference(x, w) - log(t)",
        "x - (w + log(t))",
        "segment_log_softmax",
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.slow
def test_a_wrong_kernel_is_noticed(change: tuple[str, str, str, str], tmp_path: Path) -> None:
    from gradplan.engines.cuda.kernels import members, segment_reduce

    where, old, new, name = change
    op, function = next(pair for pair in HERE if pair[1].name == name)
    flavour = {"prod": "near_one", "max": "ties"}.get(name.split("_")[1], "wide")
    desc, inputs = problem(op, function, gp.ElementKind.F32, flavour)
    within = members if where == "members" else None
    assert not is_right(op, desc, inputs, mutated(segment_reduce, {old: new}, tmp_path, within))
