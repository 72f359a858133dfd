"""``gralkord flush``: hand a session's buffered turns over to be understood."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gralkord.cli.options import AsJson, DataDir, Operator, Url, connected

_EPILOG = """
Examples:

  gralkord flush s1

  gralkord flush s1 --wait --until indexed --timeout 10

Ends with 1 if the time is over before it is done, if the model does not answer, or if some of it
was given up; what is left goes on all the same. Without a model there is nothing to wait for once
the turns are indexed.
"""


class Until(StrEnum):
    """How far a flush is waited for."""

    indexed = "indexed"
    understood = "understood"


def register(app: typer.Typer) -> None:
    """Add the command ``flush`` to *app*."""
    app.command(epilog=_EPILOG)(flush)


def flush(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session.")],
    *,
    operator: Operator = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done.")] = False,
    until: Annotated[Until, typer.Option(help="How far to wait.")] = Until.understood,
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait at most.", min=0.001, max=600)
    ] = 30.0,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Hand a session's buffered turns over to be understood."""
    from gralkord.cli.output import FAILURE, emit, printable, say

    with connected(url, data_dir) as client:
        if wait:
            result = client.flush_and_await(session, timeout, until.value, operator=operator)
        else:
            result = client.flush(session, operator=operator, until=until.value)
    if as_json:
        emit(result.model_dump())
    else:
        turns = "" if result.turns is None else f", {result.turns} turns"
        reason = f" ({printable(result.reason, one_line=True)})" if result.reason else ""
        say(f"flush {printable(result.flush, one_line=True)}: {result.state}{reason}{turns}")
    if wait and not result.complete:
        raise typer.Exit(FAILURE)
