"""The command line: `gradplan info`, `gradplan certify`, `gradplan bench`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import gradplan
from gradplan.cli import bench, certify, info
from gradplan.cli.terminal import UserError
from gradplan.hints import did_you_mean
from gradplan.vocabulary import Error

_EPILOG = """\
examples:
  gradplan info                    what is installed here, and the table of plans
  gradplan certify                 verify every plan on this machine, in under a minute
  gradplan bench --quick           measure the speed board, roughly

`gradplan COMMAND --help` explains each. `python -m gradplan` is the same program.
"""

_COMMANDS = (info, certify, bench)

INTERRUPTED = 130  # what shells report for Ctrl-C
MISUSE = 2


def parser() -> argparse.ArgumentParser:
    """The parser of everything."""
    top = argparse.ArgumentParser(
        prog="gradplan",
        description="Gradient kernels with plans: the same bits everywhere.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"gradplan {gradplan.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        sub = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.DESCRIPTION,
            epilog=command.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status: 0 fine, 1 a difference was found, 2 misuse."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        parser().print_help()
        return 0
    names = [command.NAME for command in _COMMANDS]
    if not given[0].startswith("-") and given[0] not in names:
        hint = did_you_mean(given[0], names) or ";"
        print(
            f"gradplan: no command {given[0]!r}{hint} choose from {', '.join(names)}",
            file=sys.stderr,
        )
        return MISUSE
    options = parser().parse_args(given)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except (UserError, Error, OSError, MemoryError) as error:
        if isinstance(error, BrokenPipeError):
            # The reader has gone, as with `| head`. Python would complain once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        print(f"gradplan {options.command}: {_said(error)}", file=sys.stderr)
        return MISUSE
    except KeyboardInterrupt:
        print(f"gradplan {options.command}: interrupted; no file was written", file=sys.stderr)
        return INTERRUPTED


def _said(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "out of memory: choose fewer problems with --op, or --quick"
    return str(error)
