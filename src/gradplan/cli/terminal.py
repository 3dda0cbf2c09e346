"""What the commands share: the console, progress, files, and mistakes of users."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

_PIPE_WIDTH = 200  # rich would wrap at 80 where there is no terminal to ask


class UserError(Exception):
    """A mistake of the user; the message names the fix."""


def console() -> Console:
    """Standard output: colours and bars only where it is a terminal."""
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else _PIPE_WIDTH, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def progress(out: Console) -> Iterator[Progress]:
    """A progress bar that goes away when it is done; nothing at all when piped."""
    with Progress(
        TextColumn("[cyan]{task.description:<32}"),
        BarColumn(),
        TextColumn("{task.completed:>4.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    ) as bar:
        yield bar


def check_writable(path: Path) -> None:
    """Complains now rather than after a minute of work."""
    folder = path.parent
    if path.is_dir():
        raise UserError(f"{path}: is a folder; name a file inside it")
    if not folder.is_dir():
        raise UserError(f"{path}: the folder {folder} does not exist; create it or choose another")
    if not os.access(folder, os.W_OK):
        raise UserError(f"{path}: the folder {folder} cannot be written; choose another")


def write_file(path: Path, text: str) -> None:
    """Writes a file as a whole or not at all: an interruption leaves the old one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def choose(given: Iterable[str] | None, choices: Iterable[str], option: str) -> list[str] | None:
    """The values of an option that may be repeated or hold several, separated by commas."""
    if given is None:
        return None
    known = list(choices)
    wanted = [name.strip() for value in given for name in value.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise UserError(
            f"{option} {','.join(unknown) or repr('')}: not known here; choose from "
            + ", ".join(known)
        )
    return wanted
