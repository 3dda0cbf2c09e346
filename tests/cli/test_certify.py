"""`gradplan certify`: what it finds, what it writes, and what it says when something is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from processes import run_gradplan

import gradplan as gp
from gradplan import certify as work
from gradplan.cases import FLAVOURS, cases, floats, hashed
from gradplan.cli import main
from gradplan.declaration import OPS, Descriptor, Function, Op
from gradplan.engines import BoundKernel, registered
from gradplan.engines.cpu import CpuEngine, supported_isas
from gradplan.vocabulary import ElementKind

HASHED = ["960e8fae57be8995", "828ad0c8ea48e4f7"]
VALUES = "cc65160b6f7ea5869392a5a71b54753c528aec177a98e13ccbc7f1ba819350ef"
ONE_PLAN = ("--op", "cumsum", "--dtype", "f32")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The whole certificate, as a user gets it through a pipe: its text and its file."""
    path = tmp_path_factory.mktemp("certificate") / "all.json"
    done = run_gradplan("certify", "--json", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout, json.loads(path.read_text())


def _has_lines(op: Op, function: Function) -> bool:
    """Whether its problems can be cut into independent ones."""
    return any(any(case.lines()) for case in cases(op, function, ElementKind.F32))


def test_every_plan_is_certified(everything: tuple[str, dict[str, Any]]) -> None:
    text, certificate = everything
    expected = {
        f"{f.name}/{e}" for op in OPS.values() for f in op.functions for e in op.descriptor.elements
    }
    expected |= {  # and every scan is certified exclusively as well
        f"{f.name} exclusive/{e}"
        for op in OPS.values()
        if "exclusive" in op.field_named
        for f in op.functions
        for e in op.descriptor.elements
    }
    in_one_piece = {f.name for op, f, e in work.plans() if e == "f32" and not _has_lines(op, f)}
    assert in_one_piece == {"segment_weighted_sum_backward", "segment_weighted_mean_backward"}
    assert set(certificate["plans"]) == expected
    assert certificate["complete"]
    assert certificate["passed"]
    for key, line in certificate["plans"].items():
        assert line["golden"] == "equal", key
        counts = line["checked"]
        assert counts["threads"] == 4 * counts["reference"]
        assert counts["builds"] == len(supported_isas()) * counts["reference"]
        assert counts["layouts"] >= 3 * counts["reference"]
        # (Where everything meets in a sum there is nothing to cut.)
        assert counts.get("batch", 0) > 0 or key.partition("/")[0] in in_one_piece
    assert "\x1b" not in text  # piped: no colours, no bars
    assert certificate["certificate"] in text


def test_the_certificate_is_that_of_the_golden_digests(
    everything: tuple[str, dict[str, Any]],
) -> None:
    _, certificate = everything
    frozen = dict(work.golden(work.STANDARD))
    assert certificate["certificate"] == work.certificate_digest(frozen, work.STANDARD)


def test_golden_digests_are_complete() -> None:
    keys = {f"{f.name}/{e}" for _, f, e in work.plans() for e in [e.value]}
    for level in work.LEVELS:
        assert set(work.golden(level)) == keys


def test_one_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert main(["certify", *ONE_PLAN, "--json", str(path)]) == 0
    text = capsys.readouterr().out
    assert "partial certificate" in text
    data = json.loads(path.read_text())
    assert list(data["plans"]) == ["cumsum/f32", "cumsum exclusive/f32"]
    assert not data["complete"]


@pytest.mark.parametrize("name", ["binary_param", "BinaryParamPlan", "lerp"])
def test_ops_have_several_names(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", "--op", name, "--dtype", "f64"]) == 0
    assert "\nlerp " in capsys.readouterr().out


@pytest.mark.slow
def test_thorough_has_its_own_digests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", "--thorough", "--op", "embedding", "--dtype", "f16"]) == 0
    assert "thorough certificate" in capsys.readouterr().out


def test_the_reference_certifies_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", "--engine", "reference", "--op", "lerp", "--dtype", "f32"]) == 0
    assert "engine reference" in capsys.readouterr().out


def test_threads_are_as_before() -> None:
    before = gp.get_num_threads()
    assert main(["certify", *ONE_PLAN]) == 0
    assert gp.get_num_threads() == before


# What goes wrong -----------------------------------------------------------------------------


class Wrong(CpuEngine):
    """The CPU engine with something done to every call's tensors afterwards."""

    def __init__(self, spoil: Callable[[Any], None]) -> None:
        super().__init__()
        self.spoil = spoil

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        right = super().bind(op, desc)

        def run(*args: Any) -> None:
            right.run(*args)
            self.spoil(args[-2])  # the last output; behind it comes the workspace

        return BoundKernel(run, right.workspace_size)


def _one_ulp(y: Any) -> None:
    if y.shape == (5, 4113):
        y.view(np.uint32)[3, 4100] ^= 1


def test_a_wrong_kernel_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with registered(Wrong(_one_ulp)):
        assert main(["certify", *ONE_PLAN, "--json", str(path)]) == 1
    text = capsys.readouterr().out
    assert "failed: f32" in text
    assert "cumsum/f32: y[3, 4100]: expected bits" in text
    assert "1 differing in all" in text
    assert "input_shape=(5,4113)" in text
    assert "No certificate" in text
    data = json.loads(path.read_text())
    assert not data["passed"]
    assert data["certificate"] is None
    found = data["plans"]["cumsum/f32"]["difference"]
    assert found["index"] == [3, 4100]
    assert int(found["expected_bits"], 16) ^ int(found["found_bits"], 16) == 1


def _only_on_three_threads(y: Any) -> None:
    if gp.get_num_threads() == 3 and y.size:
        y.view(np.uint32)[(0,) * y.ndim] ^= 1


def _only_transposed(y: Any) -> None:
    if y.ndim > 1 and not y.flags.c_contiguous and y.size and min(y.strides) >= 0:
        y[...] = 0


@pytest.mark.parametrize(
    ("spoil", "variation"),
    [(_only_on_three_threads, "3 threads"), (_only_transposed, "transposed")],
)
def test_the_variation_is_named(
    spoil: Callable[[Any], None], variation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with registered(Wrong(spoil)):
        assert main(["certify", *ONE_PLAN]) == 1
    assert f"run: {variation}" in capsys.readouterr().out


def _depends_on_the_batch(y: Any) -> None:
    if y.ndim == 2 and y.shape[0] == 1:
        y.view(np.uint32)[0, -1] ^= 1


def test_dependence_on_the_batch_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    with registered(Wrong(_depends_on_the_batch)):
        assert main(["certify", *ONE_PLAN]) == 1
    assert "run: a line alone" in capsys.readouterr().out


def test_a_kernel_that_fails_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(y: Any) -> None:
        raise RuntimeError("out of luck")

    with registered(Wrong(fails)):
        assert main(["certify", *ONE_PLAN]) == 1
    assert "cumsum/f32: " in (text := capsys.readouterr().out)
    assert "out of luck" in text


def test_an_engine_that_is_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    class Absent(CpuEngine):
        name = "absent"

        def why_not(self, op: Op, desc: Descriptor) -> str | None:
            return "left the building"

    with registered(Absent()):
        assert main(["certify", "--engine", "absent"]) == 2
    assert "--engine absent: left the building; others: cpu" in capsys.readouterr().err


def test_other_golden_digests_are_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "golden", lambda level: {"cumsum/f32": "0" * 64})
    assert main(["certify", *ONE_PLAN]) == 1
    assert "engine and reference agree, but the golden digest" in capsys.readouterr().out
    monkeypatch.setattr(work, "golden", lambda level: {})
    assert main(["certify", *ONE_PLAN]) == 1
    assert "is missing" in capsys.readouterr().out


def test_interruption_leaves_no_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(work, "certify_line", interrupted)
    assert main(["certify", *ONE_PLAN, "--json", str(tmp_path / "a.json")]) == 130
    assert list(tmp_path.iterdir()) == []
    assert "interrupted" in capsys.readouterr().err


# --compare -----------------------------------------------------------------------------------


@pytest.fixture
def two(everything: tuple[str, dict[str, Any]], tmp_path: Path) -> Any:
    """Compares the certificate with a changed copy of itself."""

    def compare(change: Callable[[dict[str, Any]], None]) -> int:
        data = json.loads(json.dumps(everything[1]))
        (tmp_path / "a.json").write_text(json.dumps(data))
        change(data)
        (tmp_path / "b.json").write_text(json.dumps(data))
        return main(["certify", "--compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")])

    return compare


def test_compare_equal(two: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert two(lambda data: None) == 0
    assert "equal: the same bits in all" in capsys.readouterr().out


def test_compare_names_the_problem(two: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def change(data: dict[str, Any]) -> None:
        problems = data["plans"]["cumprod_backward/f64"]["cases"]
        problems[next(iter(problems))] = "0" * 64

    assert two(change) == 1
    text = capsys.readouterr().out
    assert "cumprod_backward/f64: 1 of" in text
    assert "input_shape=(5,4113)" in text


def test_compare_explains_everything_else(two: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def failed(data: dict[str, Any]) -> None:
        data["passed"], data["certificate"] = False, None
        data["plans"]["lerp/f32"]["difference"] = {
            "case": "shape=(3,)",
            "variation": "3 threads",
            "tensor": "y",
            "index": [1],
            "expected_bits": "00000000",
            "found_bits": "00000001",
            "expected": "0.0",
            "found": "1e-45",
            "count": 1,
        }
        data["plans"]["lerp/f64"]["error"] = "no kernel"
        data["plans"]["lerp/f16"]["golden"] = "differs"
        del data["plans"]["lerp/bf16"]

    assert two(failed) == 1
    text = capsys.readouterr().out
    assert "differs from its own reference: y[1]: expected bits 00000000" in text
    assert "lerp/f64: b.json could not run it: no kernel" in text
    assert "lerp/f16: b.json: golden digest differs" in text
    assert "lerp/bf16: only in a.json" in text
    assert two(lambda data: data.update(numerics_version=99)) == 1
    assert "different numerics versions" in capsys.readouterr().out
    assert two(lambda data: data.update(level="thorough")) == 1
    assert "--thorough" in capsys.readouterr().out


def test_compare_refuses_other_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content in ("not json", "[]", "{}"):
        path.write_text(content)
        assert main(["certify", "--compare", str(path), str(path)]) == 2
        assert "not a certificate; make one with" in capsys.readouterr().err


# The problems --------------------------------------------------------------------------------


def test_values_are_the_same_everywhere() -> None:
    """Frozen, because every golden digest stands on them."""
    assert [f"{word:016x}" for word in hashed("gradplan", 2).tolist()] == HASHED
    bits = [
        work.digest({"x": floats("x", (999,), e, f)})
        for e in gp.ElementKind
        if e.is_float
        for f in FLAVOURS
    ]
    assert work.line_digest({str(n): value for n, value in enumerate(bits)}) == VALUES


def test_flavours_are_what_they_say() -> None:
    for element in [e for e in gp.ElementKind if e.is_float]:
        values = {f: floats("x", (4000,), element, f).astype(np.float64) for f in FLAVOURS}
        assert np.abs(np.abs(values["near_one"]) - 1).max() <= 1 / 16
        assert len(np.unique(values["ties"])) == 8
        assert np.abs(values["plain"]).max() < 2
        assert np.abs(values["wide"]).max() > 1000
        special = values["special"]
        for found in (np.isnan(special), special == np.inf, special == -np.inf, special == 0):
            assert found.any()
        huge = values["huge"]
        assert np.isfinite(huge).all() and (huge == 0).any()
        top = float(ml_dtypes.finfo(element.dtype).max)
        assert (huge > top / 2).any() and (huge < -top / 2).any()


def test_every_option_of_every_op_occurs() -> None:
    for op, function, element in work.plans(elements=["f32"]):
        seen: dict[str, set[Any]] = {}
        for case in cases(op, function, element):
            for info in op.attributes:
                seen.setdefault(info.name, set()).add(getattr(case.descriptor, info.name))
        for info in op.attributes:
            free = (
                info.name not in function.fixed
                and not info.field.apart
                and (info.when is None or info.when.allows(function.fixed))
            )
            assert len(seen[info.name]) > 1 or not free, (function.name, info.name)
