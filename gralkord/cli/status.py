"""``gralkord status`` and ``gralkord backfill``: what waits, and queueing it."""

from __future__ import annotations

from typing import Annotated

import typer

from gralkord.cli.options import AsJson, DataDir, Operator, Url, connected

_STATUS_EPILOG = """
Examples:

  gralkord status

  gralkord status --json
"""

_BACKFILL_EPILOG = """
Examples:

  gralkord backfill

  gralkord backfill --operator ada --json
"""


def register(app: typer.Typer) -> None:
    """Add the commands ``status`` and ``backfill`` to *app*."""
    app.command(epilog=_STATUS_EPILOG)(status)
    app.command(epilog=_BACKFILL_EPILOG)(backfill)


def status(url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Print what runs where, and how much waits."""
    from gralkord.cli.output import emit, printable, say, tree_lines

    with connected(url, data_dir) as client:
        content = client.status()
        if as_json:
            emit({"url": client.endpoint.url} | content)
            return
        say(f"daemon: {printable(client.endpoint.url, one_line=True)}")
    for line in tree_lines(content):
        say(line)


def backfill(
    operator: Operator = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Of all operators, also if GRALKORD_OPERATOR is set.")
    ] = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Queue the passages that were never understood, of one operator or of all."""
    from gralkord.cli.output import emit, say

    with connected(url, data_dir) as client:
        content = client.backfill(None if everyone else operator)
    if as_json:
        emit(content)
    else:
        say(f"queued {content.get('items', 0)} items with {content.get('passages', 0)} passages")
