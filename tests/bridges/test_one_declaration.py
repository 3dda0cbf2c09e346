"""The proof: an op that is declared at run time is everywhere, from its declaration and reference.

In processes of their own: PyTorch's operators cannot be taken back.
"""

from __future__ import annotations

import pytest
from processes import run_python

SETUP = """
import numpy as np
import gradplan as gp
{before}
from one_op import declare
forward, backward = declare()
x = np.array([[3.0, 2.0, 5.0], [1.0, 0.0, 4.0]])
y = np.array([[9.0, 6.0, 10.0], [1.0, 0.0, 0.0]])
dx = np.array([[8.0, 8.0, 2.0], [2.0, 5.0, 0.0]])  # for a gradient of ones
"""

FUNCTIONS = """
assert gp.neighbour_product(x).tolist() == y.tolist()
assert gp.neighbour_product(x.T, axis=0).T.tolist() == y.tolist()
assert gp.neighbour_product_backward(np.ones_like(x), x).tolist() == dx.tolist()
plan = gp.NeighbourProductPlan.select(
    gp.NeighbourProductDescriptor(input_shape=(2, 3), axis=-1, element="f64"))
assert plan.engine == "reference" and plan.sku.op == "neighbour_product"
"""

INFO_AND_CERTIFY = """
from gradplan.certify import certify_line, plans
from gradplan.cli import main
from gradplan.cli.info import collect
from gradplan.engines import ENGINES
rows = {row["function"]: row for row in collect()["plans"]}
assert {e["engine"] for e in rows["neighbour_product"]["elements"].values()} == {"reference"}
found = plans(["neighbour_product", "neighbour_product_backward"])
assert len(found) == 8
for op, function, element in found:
    line = certify_line(op, function, element, ENGINES["reference"])
    assert line.difference is None and not line.error, str(line)
    assert line.golden == "missing" and line.checked["batch"] and line.checked["layouts"]
"""

TORCH = """
import torch
from gradplan import torch as gpt
t = torch.from_numpy(x)
assert gpt.neighbour_product(t).tolist() == y.tolist()
assert gpt.neighbour_product(t.mT, dim=0).mT.tolist() == y.tolist()
leaf = t.clone().requires_grad_()
gpt.neighbour_product(leaf).sum().backward()
assert leaf.grad.tolist() == dx.tolist()
torch.library.opcheck(torch.ops.gradplan.neighbour_product.default, (leaf, 1))
torch.library.opcheck(
    torch.ops.gradplan.neighbour_product_backward.default,
    (torch.ones_like(t).requires_grad_(), leaf, 0))
torch.autograd.gradcheck(gpt.neighbour_product, (leaf,), check_forward_ad=True)
torch.autograd.gradgradcheck(gpt.neighbour_product, (leaf,))
assert torch.func.vmap(gpt.neighbour_product)(t).tolist() == y.tolist()
compiled = torch.compile(lambda z: gpt.neighbour_product(z).sum(), fullgraph=True, backend="eager")
assert float(compiled(t)) == y.sum()
assert not hasattr(gpt, "neighbour_product_backward")  # its operator is there, for autograd
"""

JAX = """
import jax
jax.config.update("jax_enable_x64", True)
import gradplan.jax as gpj
assert gpj.neighbour_product(x).tolist() == y.tolist()
assert jax.jit(gpj.neighbour_product)(x).tolist() == y.tolist()
total = lambda z: gpj.neighbour_product(z).sum()
assert jax.grad(total)(x).tolist() == dx.tolist()
assert jax.jit(jax.grad(total))(x).tolist() == dx.tolist()
assert jax.vmap(gpj.neighbour_product)(x).tolist() == y.tolist()
plain = lambda z: (z * jax.numpy.concatenate([z[:, :1], z[:, :-1]], 1)).sum()
assert np.allclose(jax.hessian(total)(x), jax.hessian(plain)(x))
"""


def run(code: str) -> str:
    """What went wrong in a process of its own; nothing if all went well."""
    result = run_python(code, timeout=300)
    return result.stderr if result.returncode else ""


PARTS = {"functions": FUNCTIONS, "info and certify": INFO_AND_CERTIFY, "torch": TORCH, "jax": JAX}
IMPORTS = {"torch": "from gradplan import torch", "jax": "import gradplan.jax"}


@pytest.mark.parametrize("part", PARTS)
def test_an_op_is_everywhere_from_its_declaration_and_reference(part: str) -> None:
    assert run(SETUP.format(before="") + PARTS[part]) == ""


@pytest.mark.slow
@pytest.mark.parametrize("part", IMPORTS)
def test_the_bridges_notice_ops_that_are_declared_after_their_import(part: str) -> None:
    assert run(SETUP.format(before=IMPORTS[part]) + PARTS[part]) == ""


@pytest.mark.parametrize("part", PARTS)
def test_the_proof_can_fail(part: str) -> None:
    """The negative control: a reference with a wrong gradient is noticed by every part."""
    broken = (
        SETUP.format(before="")
        + """
honest = gp.reference.FUNCTIONS["neighbour_product_backward"]
def wrong(dy, x, *, axis):
    return honest(dy, x, axis=axis) + dy.dtype.type(dy.size)
gp.reference.FUNCTIONS["neighbour_product_backward"] = wrong
"""
    )
    failure = run(broken + PARTS[part])
    assert "AssertionError" in failure
