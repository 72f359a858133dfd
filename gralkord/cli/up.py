"""``gralkord up``: the servers, the daemon and a worker in one command on one machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gralkord.cli.options import AsJson, directory
from gralkord.cli.process import announced

_EPILOG = """
Examples:

  gralkord up

  gralkord up --data-dir ./memory --port 0 --json

  gralkord up --model openai:gpt-5-mini

Stops in order at Ctrl-C or SIGTERM; a second signal kills at once.

Exit codes: 0 stopped, 1 could not start or keep running, 2 wrong usage or configuration,
130 stopped by a second signal.
"""


def register(app: typer.Typer) -> None:
    """Add the command ``up`` to *app*."""
    app.command(epilog=_EPILOG)(up)


def up(
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=directory,
            help="Where everything is kept. Default: ~/.local/share/gralkord.",
            envvar="GRALKORD_DATA_DIR",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="HTTP port on the loopback address; 0 takes a free one.", min=0),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings.", envvar="GRALKORD_CONFIG")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Language model: `PROVIDER:MODEL[@BASE_URL]` or `none`."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start the queue, the graph, the daemon and a worker, and keep them running."""
    from gralkord import log
    from gralkord.cli.output import INTERRUPTED, emit, printable, say
    from gralkord.cli.process import load
    from gralkord.client.discovery import default_data_dir
    from gralkord.embedded.run import run
    from gralkord.lenses.load import load_lenses
    from gralkord.providers.check import check_roles

    log.configure(level="warning")
    settings = load(config, {"rpc.port": port, "models.llm": model, "data_dir": data_dir})
    roles = check_roles(settings, os.environ)
    load_lenses(settings)

    def show(line: str, fields: dict[str, Any]) -> None:
        if as_json:
            emit(fields)
        else:
            say(printable(line, one_line=True))
        sys.stdout.flush()

    in_order = run(
        settings,
        data_dir=settings.data_dir or default_data_dir(),
        config_file=config,
        changes={"GRALKORD_MODELS__LLM": model} if model else {},
        model=roles["llm"].model,
        announced=announced,
        show=show,
    )
    if not in_order:
        raise typer.Exit(INTERRUPTED)
