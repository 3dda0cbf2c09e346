"""Problems and tensors for every op, made from the declarations alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradplan as gp
from gradplan.declaration import OPS, Descriptor, Op, Operand

REFERENCE = gp.PlanPreference(engine="reference")
ELEMENTS = [k for k in gp.ElementKind if k.is_float]


def sample_descriptor(op: Op, element: Any = "f32", **fields: Any) -> Descriptor:
    """A small problem of an op, made from its declaration alone."""
    values = {info.name: info.field.sample(i) for i, info in enumerate(op.fields)}
    values["element"] = element
    return op.descriptor(**{**values, **fields})


def sample_descriptors(op: Op, element: Any = "f32") -> list[Descriptor]:
    """One problem for each function of an op."""
    return [sample_descriptor(op, element, **function.fixed) for function in op.functions]


def sample_tensor(operand: Operand, seed: int = 0) -> Any:
    """Values for an operand: small positive ones, or ascending ids that every axis here has."""
    rng = np.random.default_rng(seed)
    kind = operand.kinds[-1]
    if not kind.is_float:
        return np.sort(rng.integers(0, 3, operand.shape)).astype(kind.dtype)
    return rng.uniform(0.5, 1.5, operand.shape).astype(kind.dtype)


def sample_inputs(op: Op, desc: Descriptor) -> dict[str, Any]:
    return {
        o.name: sample_tensor(o, seed) for seed, o in enumerate(op.operands(desc)) if o.is_input
    }


def case_id(value: Any) -> str | None:
    return getattr(value, "name", None)


all_ops = pytest.mark.parametrize("op", list(OPS.values()), ids=case_id)
all_elements = pytest.mark.parametrize("element", ELEMENTS, ids=str)


def bits(x: Any) -> bytes:
    """The elements of any framework's tensor, bit for bit, in C order."""
    if type(x).__module__.startswith("torch"):
        torch = pytest.importorskip("torch")
        x = x.detach().contiguous()
        x = x.view(torch.int16).numpy() if x.dtype == torch.bfloat16 else x.numpy()
    return np.ascontiguousarray(np.asarray(x)).tobytes()
