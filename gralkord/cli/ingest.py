"""``gralkord ingest``: a document, a conversation or a record, as a whole."""

from __future__ import annotations

from contextlib import suppress
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
    from gralkord.client.sync import Client
    from gralkord.models.ingest import IngestReceipt
    from gralkord.models.jobs import Job

_EPILOG = """
Examples:

  gralkord ingest handbook.md -o ada --description "The kitchen's handbook" --source handbook.md

  gralkord ingest talk.txt -o ada --kind conversation -d "Minutes of the weekly call" --wait

  curl -s https://example.com/orders.json | gralkord ingest -o ada -k structured_record -d "Orders"

A conversation is lines of `Speaker: words`, or a JSON list of {"speaker": "...", "content": "..."}.
With --source the file may come again: the same content is ingested once, and other content replaces
it. With --wait it ends with 1 if some of it was given up, or if the time is over before it is done;
then it goes on all the same.
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
        job = _watched(client, receipt.receipt, until, timeout) if wait else None
    done = job is not None and _reached(job, until)
    if as_json:
        state = {"state": job.state, "complete": done, "reason": job.reason} if job else {}
        emit(receipt.model_dump() | state)
    else:
        _tell(receipt, job)
    if wait and not done:
        raise typer.Exit(FAILURE)


def _watched(client: Client, receipt: str, until: Until, seconds: float) -> Job | None:
    job = None
    for job in client.watch_job(receipt, seconds):
        if _reached(job, until):
            break
    return job


def _reached(job: Job, until: Until) -> bool:
    if until is Until.indexed:
        return job.stages.indexed is not None
    return job.final and job.state != "dead"


def _tell(receipt: IngestReceipt, job: Job | None) -> None:
    from gralkord.cli.output import printable, say

    state = "ingested before" if receipt.duplicate else "ingesting"
    say(
        f"{state}: {receipt.turns} turns, session {printable(receipt.session, one_line=True)}, "
        f"receipt {receipt.receipt}, durability {receipt.durability}"
    )
    for note in receipt.notes:
        say(f"note: {printable(note, one_line=True)}")
    if job:
        reason = f" ({printable(job.reason, one_line=True)})" if job.reason else ""
        say(f"{job.state}{reason}")


def _content(file: Path, kind: Kind) -> Any:
    import orjson

    from gralkord.errors import InvalidInput

    raw = read_bytes(file)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"content: byte {error.start + 1} is not valid UTF-8", field="content"
        ) from None
    if kind is Kind.conversation and text.lstrip().startswith("["):
        with suppress(orjson.JSONDecodeError):  # then it is a line that begins so
            return orjson.loads(text)
    return text
