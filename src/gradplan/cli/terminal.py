"""What the commands share: the console, progress, and mistakes of users."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gradplan.hints import did_you_mean

_PIPE_WIDTH = 240  # rich would wrap at 80 where there is no terminal to ask


class UserError(Exception):
    """A mistake of the user; the message names the fix."""


def console(*, stderr: bool = False) -> Console:
    """Standard output, unless that gets a file: colours and bars only where it is a terminal."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if terminal else _PIPE_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=True)


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


def choose(given: Iterable[str] | None, choices: Iterable[str], option: str) -> list[str] | None:
    """The values of an option that may be repeated or hold several, separated by commas."""
    if given is None:
        return None
    known = list(choices)
    wanted = [name.strip() for value in given for name in value.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        hint = (did_you_mean(unknown[0], known) if unknown else "") or ";"
        raise UserError(
            f"{option} {','.join(unknown) or repr('')}: not known here{hint} choose from "
            + ", ".join(known)
        )
    return wanted
