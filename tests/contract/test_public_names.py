"""`dir()` of the public modules, and what `help` says of plans."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import pydoc
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from processes import run_python
from six_ops import SIX, declared

import gradplan as gp
from gradplan.declaration import OPS, Op
from gradplan.plan import Plan, plan_class
from gradplan.signatures import run_tensors

MODULES = {
    "gradplan": ["jax", "reference", "torch"],
    "gradplan.torch": ["distributed", "scatter"],
    "gradplan.torch.distributed": [],
    "gradplan.torch.nn": [],
    "gradplan.torch.scatter": [],
    "gradplan.jax": [],
    "gradplan.reference": [],
}
"""And their submodules that are public, once they are imported."""


def module_named(name: str) -> ModuleType:
    for framework in ("torch", "jax"):
        if framework in name:
            pytest.importorskip(framework)
    return importlib.import_module(name)


def documented_constants() -> set[str]:
    """Names in the sources that are assigned with a text right below."""
    found = set()
    for path in Path(gp.__path__[0]).rglob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for statement, text in itertools.pairwise(body):
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                targets = getattr(statement, "targets", [getattr(statement, "target", None)])
                found |= {t.id for t in targets if isinstance(t, ast.Name)}
    return found


@pytest.mark.parametrize("name", MODULES)
def test_dir_has_public_names_only(name: str) -> None:
    module = module_named(name)
    public = {*module.__all__, *(m for m in MODULES[name] if m in vars(module))}
    assert dir(module) == sorted(public)
    constants = documented_constants()
    for public_name in dir(module):
        if public_name == "__version__":
            continue
        value = getattr(module, public_name)
        if callable(value) or inspect.ismodule(value):
            assert inspect.getdoc(value) and value.__doc__, public_name
        else:
            assert public_name in constants, public_name


def test_modules_are_shown_when_they_are_there() -> None:
    code = """
import gradplan as gp
before = dir(gp)
import gradplan.reference
assert "torch" not in before and "jax" not in before
assert dir(gp) == sorted({*before, "reference"})
assert all(hasattr(gp, name) for name in dir(gp))
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr


def test_what_nobody_calls_is_not_shown() -> None:
    """The negative control: modules do have other names."""
    for name in MODULES:
        module = module_named(name)
        assert {n for n in vars(module) if n.startswith("_")} - {*dir(module)}
        with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
            module.nothing  # noqa: B018


def test_ops_that_are_declared_later() -> None:
    before = dir(gp)
    with declared(*SIX):
        new = {*dir(gp)} - {*before}
        assert {"running_max", "RmsNormPlan", "RmsNormDescriptor"} <= new
        assert "running_max" in dir(gp.reference)
        assert all(getattr(gp, name) for name in new)
        with pytest.raises(AttributeError, match="did you mean 'running_max'"):
            gp.runing_max  # noqa: B018
    assert dir(gp) == before


LATER = """
import gradplan as gp
import gradplan.{bridge} as module
from one_op import declare
from gradplan.declaration import withdraw
before = dir(module)
ops = declare()
assert {{*dir(module)}} - {{*before}} == {{"neighbour_product"}}, dir(module)
if "{bridge}" == "torch":
    assert dir(module.nn) == ["Embedding", "NeighbourProduct", "Sparsemax"] == module.nn.__all__
    assert module.nn.NeighbourProduct(dim=0).dim == 0
for op in ops:
    withdraw(op)
assert dir(module) == before
if "{bridge}" == "torch":
    assert dir(module.nn) == ["Embedding", "Sparsemax"]
"""


@pytest.mark.slow
@pytest.mark.parametrize("bridge", ["torch", "jax"])
def test_ops_that_are_declared_later_in_bridges(bridge: str) -> None:
    pytest.importorskip(bridge)
    result = run_python(LATER.format(bridge=bridge))  # operators cannot be taken back
    assert result.returncode == 0, result.stderr


# Plans ---------------------------------------------------------------------------------------

all_ops = pytest.mark.parametrize("op", list(OPS.values()), ids=lambda op: op.name)


def shown(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.name != "self"}


@all_ops
def test_the_signature_of_a_plan_has_its_tensors(op: Op) -> None:
    cls = plan_class(op)
    empty = inspect.Parameter.empty
    tensors = {t.name: empty if needed else None for t, needed in run_tensors(op)}
    assert {*tensors} == {t.name for t in op.tensors}
    assert not any(t.is_input is False and tensors[t.name] is empty for t in op.tensors)
    expected = {**tensors, "workspace": None, "stream": None}
    assert shown(cls.run) == shown(cls.can_implement) == expected
    select = inspect.signature(cls.select)
    assert list(select.parameters) == ["desc", "prefer", "device"]
    assert select.parameters["desc"].annotation == op.descriptor.__name__
    assert select.return_annotation == op.plan_name


@all_ops
def test_help_of_a_plan_has_its_tensors(op: Op) -> None:
    cls = plan_class(op)
    for method in ("run", "can_implement", "select"):
        text = pydoc.render_doc(getattr(cls, method), renderer=pydoc.plaintext)
        assert f"{method}(" in text
        for t in op.tensors:
            assert f"    {t.name}: {'input' if t.is_input else 'output, optional'}" in text
            assert f"[{', '.join(t.axes)}] of {t.kind.value}; {t.doc}" in text
    assert f"Fields of `{op.descriptor.__name__}`" in (cls.select.__doc__ or "")
    for info in op.fields:
        assert info.doc in (cls.select.__doc__ or "")


def test_help_of_one_plan() -> None:
    desc = gp.ScanBackwardDescriptor(kind="cumsum", input_shape=(3,), scan_axis=0, element="f32")
    plan = gp.ScanBackwardPlan.select(desc)
    assert shown(plan.run) == shown(gp.ScanBackwardPlan.run) == shown(plan.can_implement)
    text = pydoc.render_doc(plan.run, renderer=pydoc.plaintext)
    assert "run(*, dy, x=None, y=None, dx=None, workspace=None, stream=None)" in text
    assert "    x: input, [input_shape] of element; the scan's input (only for kind in" in text
    dy = np.ones(3, np.float32)
    assert plan.can_implement(dy=dy) is None
    assert plan.run(dy=dy).tolist() == [3, 2, 1]


def test_the_base_has_no_tensors() -> None:
    """The negative control: what plans show is not what they inherit."""
    assert list(shown(Plan.run)) == ["workspace", "stream", "tensors"]
