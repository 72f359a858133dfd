"""``gralkord observe``: memories of what was said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gralkord.cli.options import (
    AsJson,
    DataDir,
    Operator,
    Url,
    connected,
    read_bytes,
    read_text,
    required,
)

if TYPE_CHECKING:
    from gralkord.models.observe import ObserveDecision, ObserveResult

_EPILOG = """
Examples:

  gralkord observe "I moved to Lisbon and I like green tea" -o ada --user Ada

  gralkord observe --file messages.json -o ada --id talk-7 --source chat --json

  cat messages.json | gralkord observe --file - -o ada --later

A file holds a JSON list of messages: {"role": "user", "content": "...", "speaker": "Ada"}; a text
is the user's. System text, and memory that was recalled into them, is left out; the words are not
kept. Prints one line a decision: action, id, kind, content and reason, between tabs. Ends with 1 if
the time is over before it is decided; then ask again with the same --id.
"""


def register(app: typer.Typer) -> None:
    """Add the command ``observe`` to *app*."""
    app.command(epilog=_EPILOG)(observe)


def observe(
    text: Annotated[
        list[str] | None, typer.Argument(help="What the user said; `-` reads it.")
    ] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Instead: a JSON list; `-` is stdin."),
    ] = None,
    operator: Operator = None,
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="Name of who speaks. Default: the operator.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Name of the agent.")] = None,
    identity: Annotated[
        str | None, typer.Option("--id", help="Your id of it, which is observed once.")
    ] = None,
    lens: Annotated[
        str | None, typer.Option("--lens", metavar="LENS", help="The lens whose memory.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="What it was taken from.")] = None,
    offset: Annotated[str | None, typer.Option(help="Where in the source it stands.")] = None,
    event_time: Annotated[
        str | None, typer.Option(help="When it was said, ISO 8601; UTC if without a zone.")
    ] = None,
    later: Annotated[bool, typer.Option("--later", help="Do not wait for the decisions.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most.", min=0, max=600)] = 30.0,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make memories of what was said, and bring those up to date that it changes."""
    from gralkord.cli.output import FAILURE

    messages = _messages(text, file)
    required(operator=operator)
    with connected(url, data_dir) as client:
        result = client.observe(
            operator or "",
            messages,
            user=user,
            agent=agent,
            id=identity,
            lens=lens,
            source=source,
            offset=offset,
            event_time=event_time,
            timeout=0.0 if later else timeout,
        )
    _tell(result, as_json=as_json)
    if not result.complete and not later:
        raise typer.Exit(FAILURE)


def _tell(result: ObserveResult, *, as_json: bool) -> None:
    from gralkord.cli.output import emit, say

    if as_json:
        emit(result.model_dump())
        return
    if not result.complete:
        say(f"not decided yet, request {result.id}")
    for decision in result.decisions:
        say(_line(decision))
    if result.left_out:
        say(f"left out, not sure enough: {result.left_out}")
    if result.complete and not result.decisions:
        say("nothing to remember")


def _line(decision: ObserveDecision) -> str:
    from gralkord.cli.output import printable

    shown = decision.id or decision.target or "-"
    cells = (decision.action, shown, decision.kind, decision.content, decision.reason or "-")
    return "\t".join(printable(cell, one_line=True) for cell in cells)


def _messages(text: list[str] | None, file: Path | None) -> list[Any]:
    """Return the messages of the command line, or of a file.

    Raises:
        BadParameter: It is both or neither, or the file holds no list.
    """
    import orjson

    if bool(text) == (file is not None):
        raise typer.BadParameter("give either TEXT or --file")
    if file is None:
        return [read_text(one, "messages") for one in text or ()]
    try:
        messages = orjson.loads(read_bytes(file))
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"{file} is not JSON: {error}") from error
    if not isinstance(messages, list):
        raise typer.BadParameter(f"{file} holds no list of messages")
    return messages
