"""Where a command writes what it was asked for: a file, a FIFO, a device, standard output.

A regular file is written as a whole or not at all, behind whatever links lead to it. Everything
else is opened and written, as every tool does.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gradplan.cli.terminal import UserError

STANDARD_OUTPUT = Path("-")


def is_standard_output(path: Path) -> bool:
    """Also by another name, as /dev/stdout: then it is not ours to replace."""
    if path == STANDARD_OUTPUT:
        return True
    try:
        return os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # there is no such file, or no such descriptor
        return False


def check_writable(paths: Iterable[Path | None]) -> bool:
    """Complains now rather than after a minute of work. True: one of them is standard output."""
    given = [path for path in paths if path is not None]
    for path in given:
        if not is_standard_output(path):
            _check_file(path)
    count = sum(map(is_standard_output, given))
    if count > 1:
        raise UserError("-: only one file can go to standard output")
    return count == 1


def _check_file(path: Path) -> None:
    try:
        kind = _kind(path)
        if kind == stat.S_IFDIR:
            raise UserError(f"{path}: is a folder; name a file inside it")
        if kind == stat.S_IFREG:
            os.close(os.open(path, os.O_WRONLY))
        elif kind is not None:  # to open it might have effects, or wait for a reader
            if not os.access(path, os.W_OK):
                raise UserError(f"{path}: cannot be written; choose another")
        else:
            _check_new(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; choose another") from None


def _check_new(path: Path) -> None:
    folder = _target(path).parent
    if not folder.exists():
        raise UserError(f"{path}: the folder {folder} does not exist; create it or choose another")
    if not folder.is_dir():
        raise UserError(f"{path}: {folder} is not a folder; choose another")
    try:
        handle, name = _new_file(folder)
    except OSError as error:
        raise UserError(
            f"{path}: the folder {folder} cannot be written ({error.strerror}); choose another"
        ) from None
    os.close(handle)
    os.unlink(name)


def write_file(path: Path, text: str) -> None:
    """Writes a file; if it is a regular one, an interruption leaves the old one."""
    if is_standard_output(path):
        sys.stdout.write(text)
        return
    kind = _kind(path)
    try:
        new = _new_file(_target(path).parent) if kind in (None, stat.S_IFREG) else None
    except OSError:  # the file may be ours all the same
        new = None
    if new is None:
        try:
            path.write_text(text, encoding="utf-8")
        except BrokenPipeError:
            raise UserError(f"{path}: its reader has gone") from None
        return
    handle, name = new
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o666 & ~_umask() if kind is None else stat.S_IMODE(path.stat().st_mode))
        os.replace(name, _target(path))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _kind(path: Path) -> int | None:
    """What is there, behind links; None if nothing is."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise UserError(f"{path}: {path.parent} is not a folder; choose another") from None


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _new_file(folder: Path) -> tuple[int, str]:
    return tempfile.mkstemp(dir=folder, prefix=".gradplan-")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
