"""The language of declarations: everything that a file of `gradplan.ops` needs."""

from __future__ import annotations

from gradplan.declaration.derivatives import Namespace, Rule, Symmetric, Values
from gradplan.declaration.descriptor import Descriptor, FieldInfo, Only, fields_of
from gradplan.declaration.exclusive import INCLUSIVE, Exclusive, Exclusively, after, before
from gradplan.declaration.fields import (
    AxisOf,
    AxisRole,
    Extent,
    Features,
    Field,
    IndexInto,
    PackedRows,
    Rows,
    Shape,
)
from gradplan.declaration.functions import Figure, Function, Like, Module, Peer
from gradplan.declaration.op import (
    OPS,
    Arithmetic,
    Gradient,
    Op,
    TensorAxis,
    for_every_op,
    withdraw,
)
from gradplan.declaration.tensors import (
    Kind,
    Operand,
    Role,
    Tensor,
    along,
    one_more,
    reads,
    reads_indices,
    replaced,
    without,
    writes,
)

__all__ = [
    "INCLUSIVE",
    "OPS",
    "Arithmetic",
    "AxisOf",
    "AxisRole",
    "Descriptor",
    "Exclusive",
    "Exclusively",
    "Extent",
    "Features",
    "Field",
    "FieldInfo",
    "Figure",
    "Function",
    "Gradient",
    "IndexInto",
    "Kind",
    "Like",
    "Module",
    "Namespace",
    "Only",
    "Op",
    "Operand",
    "PackedRows",
    "Peer",
    "Role",
    "Rows",
    "Rule",
    "Shape",
    "Symmetric",
    "Tensor",
    "TensorAxis",
    "Values",
    "after",
    "along",
    "before",
    "fields_of",
    "for_every_op",
    "one_more",
    "reads",
    "reads_indices",
    "replaced",
    "withdraw",
    "without",
    "writes",
]
