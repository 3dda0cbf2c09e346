"""What kernels say about themselves, and what is refused when one is bound or called."""

from __future__ import annotations

import enum
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import sample_descriptor

import gradplan as gp
from gradplan._ffi import tvm_ffi
from gradplan.declaration import OPS, Op
from gradplan.engines import cpu
from gradplan.engines.checks import ANY_DEVICE
from gradplan.plan import plan_class

SOURCES = Path(__file__).resolve().parents[2] / "csrc"
CPU, CUDA = 1, 2

pytestmark = pytest.mark.skipif(not cpu.supported_isas(), reason="no build for this CPU")


def operands(element: str = "float32") -> list[list[Any]]:
    return [
        ["x", "in", [element], [2, 3], []],
        ["y", "out", [element], [2, 3], ["x"]],
    ]


def bind(kind: str = "cumsum", element: str = "float32") -> Any:
    attributes = {"kind": kind, "scan_axis": 1, "reverse": False}
    return cpu.load().gradplan_bind("scan", "ScanPlan", operands(element), attributes)


# Kinds, words and element types ------------------------------------------------------------------


def test_an_unknown_kind_is_refused_and_not_computed_as_another() -> None:
    x, y = np.array([[1, 2, 3], [3, 2, 1]], np.float32), np.zeros((2, 3), np.float32)
    bind("cumsum")["run"](x, y)
    assert y.tolist() == [[1, 3, 6], [3, 5, 6]]
    with pytest.raises(gp.Unsupported, match="ScanPlan: no kernel for scan with kind='cumfoo'"):
        bind("cumfoo")


def test_an_element_type_without_a_kernel_is_refused() -> None:
    with pytest.raises(gp.Unsupported, match="ScanPlan: no kernel for scan of int32"):
        bind(element="int32")


@pytest.mark.parametrize("isa", cpu.supported_isas())
def test_every_word_of_a_declaration_is_implemented_or_named(isa: str) -> None:
    """The words that a kernel lists are those of the enumeration that the field has."""
    for name, known in cpu.kernels(isa).items():
        for attribute, words in known["attributes"].items():
            value = getattr(sample_descriptor(OPS[name], "f32"), attribute)
            declared = [w.value for w in type(value)] if isinstance(value, enum.Enum) else []
            assert sorted(words) == sorted(declared), f"{name}: {attribute}"


def lacking(monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], None]) -> str:
    """What the engine says about cumsum of f32 if its kernel for scans had less."""
    op = gp.ScanPlan.op
    desc = sample_descriptor(op, "f32")
    has = {name: dict(known) for name, known in cpu.kernels(cpu.isa()).items()}
    assert cpu.CpuEngine().why_not(op, desc) is None
    has["scan"]["attributes"] = dict(has["scan"]["attributes"])
    change(has["scan"])
    monkeypatch.setattr(cpu, "kernels", lambda name: has)
    reason = cpu.CpuEngine().why_not(op, desc)
    assert reason is not None
    return reason


def test_the_engine_says_which_word_or_element_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    desc: Any = sample_descriptor(gp.ScanPlan.op, "f32")
    with monkeypatch.context() as patch:
        reason = lacking(patch, lambda scan: scan["attributes"].update(kind=["cumfoo"]))
        assert reason == f"no kernel for scan with kind='{desc.kind.value}'"
    with monkeypatch.context() as patch:
        reason = lacking(patch, lambda scan: scan.update(elements=["float64"]))
        assert reason == "no kernel for scan of f32"


# The checks of a call ----------------------------------------------------------------------------


def checks(described: list[list[Any]], device: int = CPU) -> Any:
    return cpu.common().gradplan_checks("ScanPlan", described, device, ANY_DEVICE)


def test_the_checks_alone_run_nothing() -> None:
    x, y = np.ones((2, 3), np.float32), np.full((2, 3), 7, np.float32)
    check = checks(operands())
    check(x, y)
    check(x, y, None)
    check(x, None)
    check(x, x)  # in place, as declared
    assert (y == 7).all()


WRONG: dict[str, tuple[type[Exception], Callable[[Any, Any], tuple[Any, ...]]]] = {
    "expected element type float32, got float64": (
        gp.InvalidProblem,
        lambda x, y: (x.astype("f8"), y),
    ),
    r"expected shape \[2, 3\], got shape \[2, 2\]": (
        gp.BufferTooSmall,
        lambda x, y: (x[:, :2], y),
    ),
    "'y': expected memory apart from 'x'": (
        gp.InvalidProblem,
        lambda x, y: (x, np.ndarray((2, 3), "f4", x, strides=(4, 8))),
    ),
    "'x': expected a tensor, got None": (gp.InvalidProblem, lambda x, y: (None, y)),
    "expected 2 tensors and perhaps a workspace": (gp.InvalidProblem, lambda x, y: (x,)),
    "workspace: expected memory apart from 'y'": (
        gp.InvalidProblem,
        lambda x, y: (x, y, y.reshape(-1)),
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_the_checks_refuse_what_a_call_would(message: str) -> None:
    error, arguments = WRONG[message]
    x, y = np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)
    for function in (checks(operands()), bind()["run"]):
        with pytest.raises(error, match=message):
            function(*arguments(x, y))


def test_the_checks_know_the_device_of_their_engine() -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(gp.Unsupported, match=r"expected a GPU tensor .* got one on DLPack device"):
        checks(operands(), CUDA)(x, x)


def test_an_optional_tensor_may_be_none_and_another_may_not() -> None:
    optional = [["w", "in", ["float32"], [3], [], True], *operands()]
    given = [["w", "in", ["float32"], [3], [], False], *operands()]
    x = np.ones((2, 3), np.float32)
    checks(optional)(None, x, None)
    checks(optional)(x[0].copy(), x, None)
    with pytest.raises(gp.InvalidProblem, match="'w': expected a tensor, got None"):
        checks(given)(None, x, None)
    with pytest.raises(gp.BufferTooSmall, match=r"'w': expected shape \[3\], got shape \[2\]"):
        checks(optional)(x[0, :2].copy(), x, None)


def test_sixteen_tensors_are_not_too_many() -> None:
    described = [[f"t{i}", "in", ["float32"], [1], []] for i in range(17)]
    tensors = [np.ones(1, np.float32)] * 16
    checks(described[:16])(*tensors)
    with pytest.raises(gp.KernelError, match="too many tensors"):
        checks(described)


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_every_plan_binds_with_and_without_the_sixth_item(op: Op) -> None:
    desc = sample_descriptor(op, "f32")
    plan = plan_class(op).select(desc)
    described = [
        [o.name, o.role.value, o.dtype_names, list(o.shape), list(o.inplace)]
        for o in op.operands(desc)
    ]
    attributes = {i.name: i.field.attribute(getattr(desc, i.name)) for i in op.attributes}
    sizes = {
        cpu.load().gradplan_bind(op.name, op.plan_name, d, attributes)["workspace_size"]
        for d in (described, [[*o, False] for o in described])
    }
    assert sizes == {plan.workspace_size}


# Row kernels over other operations ---------------------------------------------------------------


@pytest.fixture(scope="module")
def row_reducers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler (the package needs one to be built)")
    program = tmp_path_factory.mktemp("rows") / "row_reducers"
    isa = cpu.isa()
    command = [compiler, "-std=gnu++20", "-O1", "-ffp-contract=off", "-w", f"-I{SOURCES}"]
    command += [f"-march={isa}"] if "x86" in isa else []
    command += [str(SOURCES / "tests/row_reducers.cc"), "-o", str(program)]
    # What only libgradplan_common.so uses is searched in the program's paths if it needs it too.
    command += ["-Wl,--no-as-needed"] if sys.platform == "linux" else []
    for library in (cpu.LIBRARIES / "libgradplan_common.so", tvm_ffi().libinfo.find_libtvm_ffi()):
        command += [str(library), f"-Wl,-rpath,{Path(library).parent}"]
    subprocess.run(command, check=True)
    return program


def differences(program: Path, *arguments: str) -> dict[str, int]:
    result = subprocess.run([program, *arguments], check=True, capture_output=True, text=True)
    words = result.stdout.split()
    return {name: int(count) for name, count in zip(words[::2], words[1::2], strict=True)}


def test_row_kernels_take_any_reducer(row_reducers: Path) -> None:
    assert differences(row_reducers) == {"maximum": 0, "product": 0, "weighted_sum": 0}
    wrong = differences(row_reducers, "wrong")
    assert len(wrong) == 3 and all(count > 1000 for count in wrong.values())
