"""``gralkord worker``: one Dramatiq process for the understand lane."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated

import typer

from gralkord.cli.process import load, log_contents, process, require_parts

_EPILOG = """
Examples:

  gralkord worker --config gralkord.toml

Any number may run, on any hosts. Under systemd it takes credentials named queue-password,
graph-password and those of models: see docs/how-to/models.md.

Exit codes: 0 stopped, 1 failed, 2 wrong usage, 78 wrong configuration.
"""


def register(app: typer.Typer) -> None:
    """Add the command ``worker`` to *app*."""
    app.command(epilog=_EPILOG)(worker)


def worker(
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings.", envvar="GRALKORD_CONFIG")
    ] = None,
    parent_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a worker: it has models distil what was captured into the graph."""
    # Until it listens itself there is nothing to give back.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    with process(parent_fd):
        settings = load(config)
        log_contents(settings)
        require_parts(settings)
        from gralkord_workers.boot import run

        code = run(settings)
    raise typer.Exit(code)
