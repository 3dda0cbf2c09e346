"""The command line: what every command shares, and `info`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import run_gradplan, run_python

import gradplan as gp
from gradplan.cli import main
from gradplan.declaration import OPS

COMMANDS = ("info", "certify", "bench")


def test_python_dash_m_and_version() -> None:
    done = run_gradplan("--version")
    assert done.returncode == 0
    assert done.stdout == f"gradplan {gp.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaves:
        main([command, "--help"])
    assert leaves.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    assert f"gradplan {command}" in text


def test_no_command_prints_help() -> None:
    bare, asked = run_gradplan(), run_gradplan("--help")
    assert (bare.returncode, bare.stderr) == (0, "")
    assert bare.stdout == asked.stdout
    assert all(f"gradplan {command}" in bare.stdout for command in COMMANDS)


def test_a_command_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    choices = "choose from info, certify, bench\n"
    assert main(["certfy", "--op", "lerp"]) == 2
    said = capsys.readouterr().err
    assert said == f"gradplan: no command 'certfy'; did you mean 'certify'? {choices}"
    assert main(["abacus"]) == 2
    assert capsys.readouterr().err == f"gradplan: no command 'abacus'; {choices}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["certify", "--op", "cumsun"], "choose from lerp"),
        (["certify", "--op", "lerp,cumsun"], "--op cumsun: not known here; did you mean 'cumsum'?"),
        (["certify", "--op", "scanplan"], "did you mean 'ScanPlan'?"),
        (["certify", "--op", ""], "choose from"),
        (["certify", "--dtype", "f8"], "f16, bf16, f32, f64"),
        (["certify", "--dtype", "bf61"], "did you mean 'bf16'?"),
        (["certify", "--engine", "abacus"], "no such engine; choose from cpu"),
        (["certify", "--engine", "referense"], "did you mean 'reference'?"),
        (["certify", "--json", "no/such/folder/a.json"], "does not exist; create it"),
        (["certify", "--json", "/"], "is a folder"),
        (["certify", "--compare", "a.json", "b.json"], "make one with"),
        (["bench", "--op", "cumsun"], "choose from lerp"),
        (["bench", "--dtype", "i32"], "f16, bf16, f32, f64"),
        (["bench", "--html", "no/such/folder/a.html"], "does not exist; create it"),
        (["bench", "--json", "/proc/no-such-file"], "cannot be written"),
        (["bench", "--json", "-", "--html", "-"], "only one file can go to standard output"),
        (["bench", "--markdown", "no/such/file.md"], "no such file"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"gradplan {arguments[0]}: ")
    assert says in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_wrong_environment_is_explained() -> None:
    done = run_gradplan("certify", "--op", "lerp", GRADPLAN_ISA="mmx")
    assert done.returncode == 2
    assert "GRADPLAN_ISA=mmx" in done.stderr
    assert "Traceback" not in done.stderr
    done = run_gradplan("info", GRADPLAN_NUM_THREADS="many")
    assert done.returncode == 2
    assert "GRADPLAN_NUM_THREADS" in done.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    done = subprocess.run(
        [f"{sys.executable} -m gradplan info | head -n 1"],
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("gradplan")
    assert done.stderr == ""


# info ----------------------------------------------------------------------------------------


def test_info_shows_every_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert f"numerics version {gp.NUMERICS_VERSION}" in text
    for op in OPS.values():
        assert op.plan_name in text
        assert all(f" {function.name} " in text for function in op.functions)
    assert "\x1b" not in text


def test_info_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["gradplan"] == gp.__version__
    assert facts["machine"]["isa"] in facts["machine"]["builds"]
    assert facts["engines"]["cpu"]["available"]
    functions = {plan["function"] for plan in facts["plans"]}
    assert functions == {f.name for op in OPS.values() for f in op.functions}
    cumsum = next(plan for plan in facts["plans"] if plan["function"] == "cumsum")
    assert cumsum["elements"]["bf16"] == {"engine": "cpu", "guarantee": "f32.f32.det.stable.all"}


_DOUBLED = """
from typing import Annotated
from gradplan.cli import main
from gradplan.declaration import Descriptor, Function, Op, Shape, reads, writes
from gradplan.reference import operation
from gradplan.vocabulary import ElementKind, OpCategory

class DoubledDescriptor(Descriptor):
    shape: Annotated[Shape, "the shape"]
    element: Annotated[ElementKind, "the element type"]

@operation
def doubled(x):
    return x + x

Op(
    DoubledDescriptor,
    OpCategory.BINARY,
    "Twice the input.",
    tensors=(reads("x", "shape", doc="x"), writes("y", "shape", doc="y")),
    functions=(Function("doubled", "Twice the input."),),
)
main(["info"])
"""


def test_info_shows_devices_and_what_only_the_reference_serves() -> None:
    """An op declared at run time: a declaration and a reference, nothing else."""
    done = run_python(_DOUBLED).stdout
    engines = [line for line in done.splitlines() if line.startswith("engine ")]
    assert engines[0].startswith("engine cpu        on cpu: ")
    assert engines[1].startswith("engine cuda       on cuda: not here, ")
    assert engines[2].startswith("engine reference  on cpu: any (only when asked for, and for ops")
    rows = {line.split()[1]: line for line in done.splitlines() if "Plan " in line}
    assert "f16 bf16 f32 f64  reference (no kernel)  " in rows["doubled"]
    assert "f16 bf16 f32 f64  cpu  " in rows["cumsum"]


def test_info_follows_the_environment() -> None:
    done = run_gradplan("info", "--json", GRADPLAN_NUM_THREADS="3")
    assert json.loads(done.stdout)["machine"]["threads"] == 3
