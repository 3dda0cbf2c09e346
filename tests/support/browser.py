"""A real browser, without a window."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

PHONE = 390
"""The width of a small one, in pixels."""


def _browser() -> str:
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        message = "no browser: install Debian's package chromium"
        # In continuous integration a missing browser must not look like a pass.
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    return found


def _asked_by_the_page(log: str) -> list[str]:
    """The addresses in a log of the browser's network; what it asks for itself has no origin."""
    if not log.rstrip().endswith("}"):
        log = log.rstrip().rstrip(",") + "]}"  # left open at exit
    events = (event.get("params", {}) for event in json.loads(log)["events"])
    return [
        event["url"]
        for event in events
        if "url" in event and event.get("initiator", "not an origin") != "not an origin"
    ]


def browse(address: str, folder: Path, *flags: str, wait: int = 2000) -> tuple[str, list[str]]:
    """A page's document after rendering, and every address that it asked for.

    `folder` is for the browser's own files; `wait` is milliseconds of the page's time.
    """
    log = folder / "net.json"
    done = subprocess.run(
        [
            _browser(), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-quic", f"--user-data-dir={folder / 'profile'}",
            f"--log-net-log={log}", f"--virtual-time-budget={wait}", *flags, "--dump-dom",
            address,
        ],
        # The browser is not to be looked at by the sanitizers of `make sanitize`.
        env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )  # fmt: skip
    return done.stdout, _asked_by_the_page(log.read_text(errors="replace"))
