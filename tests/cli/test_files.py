"""What the commands write, and where: files, links, FIFOs, standard output. Never a device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from processes import run_gradplan

from gradplan.cli import files, main
from gradplan.cli.terminal import UserError

CERTIFY = ("certify", "--op", "lerp", "--dtype", "f32")


def certificate(text: str) -> str:
    found = json.loads(text)
    assert found["passed"]
    return str(found["certificate"])


@pytest.fixture(scope="module")
def expected() -> str:
    done = run_gradplan(*CERTIFY)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


# Regular files -----------------------------------------------------------------------------------


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    files.write_file(path, "old")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_keeps_its_mode_and_a_new_one_has_the_usual_one(tmp_path: Path) -> None:
    usual, private = tmp_path / "usual", tmp_path / "private"
    usual.write_text("")
    private.write_text("old")
    private.chmod(0o600)
    files.write_file(private, "new")
    files.write_file(tmp_path / "new", "new")
    assert private.read_text() == "new"
    assert private.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode == usual.stat().st_mode


# Links -------------------------------------------------------------------------------------------


def test_a_link_stays_and_its_target_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], expected: str
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    target = there / "target.json"
    target.write_text("old")
    second = here / "second.json"
    second.symlink_to(target)
    first = here / "first.json"
    first.symlink_to("second.json")
    assert main([*CERTIFY, "--json", str(first)]) == 0
    assert first.is_symlink()
    assert second.is_symlink()
    assert not target.is_symlink()
    assert certificate(target.read_text()) == expected
    assert sorted(path.name for path in tmp_path.rglob("*.json")) == [
        "first.json",
        "second.json",
        "target.json",
    ]


def test_a_link_to_nothing_makes_a_file(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "new")
    assert not files.check_writable([link])
    files.write_file(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "new").read_text() == "text"


# FIFOs -------------------------------------------------------------------------------------------


def test_a_fifo_gets_everything_and_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], expected: str
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()), daemon=True)
    reader.start()
    assert main([*CERTIFY, "--json", str(fifo)]) == 0
    reader.join(60)
    assert certificate(read[0]) == expected
    assert fifo.is_fifo()
    assert list(tmp_path.iterdir()) == [fifo]


def test_to_look_at_a_fifo_does_not_wait_for_its_reader(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert not files.check_writable([fifo])
    assert fifo.is_fifo()


def test_a_reader_that_has_gone_is_named(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    handle = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    done: list[BaseException] = []

    def write() -> None:
        try:
            files.write_file(fifo, "x" * (1 << 20))  # more than a pipe holds
        except UserError as error:
            done.append(error)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    os.set_blocking(handle, True)
    while not os.read(handle, 1):  # until the writer has come: before, there is an end
        pass
    os.close(handle)
    writer.join(60)
    assert [str(error) for error in done] == [f"{fifo}: its reader has gone"]


# Standard output ---------------------------------------------------------------------------------


def test_a_dash_is_standard_output(tmp_path: Path, expected: str) -> None:
    done = run_gradplan(*CERTIFY, "--json", "-")
    assert done.returncode == 0
    assert certificate(done.stdout) == expected  # nothing else is there
    assert expected in done.stderr
    assert "written to" not in done.stderr


@pytest.mark.parametrize("regular", [True, False])
def test_standard_output_by_another_name(tmp_path: Path, expected: str, regular: bool) -> None:
    """As /dev/stdout is one: whether a file or a pipe, it is written and not replaced."""
    link = tmp_path / "link"
    link.symlink_to("/proc/self/fd/1")
    if not link.exists():
        pytest.skip("no /proc here")
    command = [sys.executable, "-m", "gradplan", *CERTIFY, "--json", str(link)]
    if not regular:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert certificate(done.stdout) == expected
    else:
        with (tmp_path / "out").open("w") as out:
            subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=True)
        assert certificate((tmp_path / "out").read_text()) == expected
    assert link.is_symlink()


# Refusals, before anything runs ------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--json", "--html", "--svg"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing/a", "missing does not exist; create it"),
        ("folder", "is a folder; name a file inside it"),
        ("to-folder", "is a folder; name a file inside it"),
        ("file/a", "is not a folder"),
        ("to-missing", "missing does not exist; create it"),
        ("loop", "symbolic links"),
        ("/proc/a", "cannot be written"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_run(
    option: str,
    name: str,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def must_not_run(*_: Any, **__: Any) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr("gradplan.cli.bench.measured", must_not_run)
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-folder").symlink_to("folder")
    (tmp_path / "to-missing").symlink_to("missing/a")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("text")
    before = sorted(tmp_path.iterdir())
    path = tmp_path / name
    if name.startswith("/proc") and not path.parent.is_dir():
        pytest.skip("no /proc here")
    assert main(["bench", option, str(path)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"gradplan bench: {path}: ")
    assert says in said.err.replace(f"{path}: ", "", 1)
    assert said.out == ""
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(AssertionError, match="it ran"):  # the control
        main(["bench", option, str(tmp_path / "fine")])


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("old")
    changed = old.stat().st_mtime_ns
    assert not files.check_writable([old, tmp_path / "new", None])
    assert (old.read_text(), old.stat().st_mtime_ns) == ("old", changed)
    assert list(tmp_path.iterdir()) == [old]
