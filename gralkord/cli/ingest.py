"""``gralkord ingest``: a document, a conversation or a record, as a whole."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gralkord.cli.capture import metadata_of
from gralkord.cli.flush import Until
from gralkord.cli.options import (
    AsJson,
    DataDir,
    Operator,
    Url,
    connected,
    read_bytes,
    required,
)

if TYPE_CHECKING:
    from gralkord.models import FlushResult
    from gralkord.models.ingest import IngestReceipt

_EPILOG = """
Examples:

  gralkord ingest handbook.md -o ada --description "The kitchen's handbook" --source handbook.md

  gralkord ingest talk.txt -o ada --kind conversation -d "Minutes of the weekly call" --wait

  curl -s https://example.com/orders.json | gralkord ingest -o ada -k structured_record -d "Orders"

A conversation is lines of `Speaker: words`, or a JSON list of {"speaker": "...", "content": "..."}.
With --source the file may come again: the same content is ingested once, and other content replaces
it. With --wait it ends with 1 if the time is over before it is done; it goes on all the same.
"""


class Kind(StrEnum):
    """What is ingested."""

    conversation = "conversation"
    document = "document"
    structured_record = "structured_record"


def register(app: typer.Typer) -> None:
    """Add the command ``ingest`` to *app*."""
    app.command(epilog=_EPILOG)(ingest)


def ingest(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What to ingest; `-` is standard input.")
    ] = Path("-"),
    *,
    operator: Operator = None,
    description: Annotated[
        str | None,
        typer.Option("--description", "-d", help="What it is and where it is from, in words."),
    ] = None,
    kind: Annotated[Kind, typer.Option("--kind", "-k", help="What it is.")] = Kind.document,
    lens: Annotated[
        str | None,
        typer.Option(
            "--lens",
            metavar="LENS",
            help="The lens it goes through. Default: the agent's own, else `default`.",
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="Name of the agent that hands it over.")
    ] = None,
    event_time: Annotated[
        str | None, typer.Option(help="When it was written, ISO 8601; UTC if without a zone.")
    ] = None,
    identity: Annotated[
        str | None, typer.Option("--id", help="Your id of it, which is ingested once.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="What it was taken from.")] = None,
    offset: Annotated[
        str | None, typer.Option(help="Where in the source it stands, if it is not all of it.")
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEXT", help="What you say about it; may be repeated."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done.")] = False,
    until: Annotated[Until, typer.Option(help="How far to wait.")] = Until.understood,
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait at most.", min=0.001, max=600)
    ] = 60.0,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Store a document, a conversation or a record as a whole, and have it understood."""
    from gralkord.cli.output import FAILURE, emit

    required(operator=operator, description=description)
    content = _content(file, kind)
    with connected(url, data_dir) as client:
        receipt = client.ingest(
            operator or "",
            content,
            description or "",
            kind=kind.value,
            lens=lens,
            agent=agent,
            event_time=event_time,
            id=identity,
            source=source,
            offset=offset,
            metadata=metadata_of(meta),
        )
        done = None
        if wait:
            done = client.flush_and_await(receipt.session, timeout, until.value, operator=operator)
    if as_json:
        emit(receipt.model_dump() | _state(done))
    else:
        _tell(receipt, done)
    if done and not done.complete:
        raise typer.Exit(FAILURE)


def _tell(receipt: IngestReceipt, done: FlushResult | None) -> None:
    from gralkord.cli.output import printable, say

    state = "ingested before" if receipt.duplicate else "ingesting"
    say(
        f"{state}: {receipt.turns} turns, session {printable(receipt.session, one_line=True)}, "
        f"receipt {receipt.receipt}, durability {receipt.durability}"
    )
    for note in receipt.notes:
        say(f"note: {printable(note, one_line=True)}")
    if done:
        reason = f" ({printable(done.reason, one_line=True)})" if done.reason else ""
        say(f"{done.state}{reason}")


def _state(done: FlushResult | None) -> dict[str, Any]:
    return done.model_dump(include={"state", "complete", "reason", "dead"}) if done else {}


def _content(file: Path, kind: Kind) -> Any:
    from gralkord.errors import InvalidInput
    from gralkord.wire import parse_json

    raw = read_bytes(file)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"content: byte {error.start + 1} is not valid UTF-8", field="content"
        ) from None
    if kind is Kind.conversation and text.lstrip().startswith("["):
        return parse_json(raw)
    return text
