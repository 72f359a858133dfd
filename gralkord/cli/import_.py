"""``gralkord import``: turns from a file into an operator's memory."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from gralkord.cli.options import AsJson, DataDir, Operator, Url, required, usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gralkord.client.imports import ImportReport, ImportTurn, RejectedTurn

_EPILOG = """
Examples:

  gralkord import --format locomo conversation.json --operator ada

  gralkord import --format jsonl turns.jsonl --operator ada --user Ada

  zcat turns.jsonl.gz | gralkord import --format jsonl - --operator ada --json

Running it again adds only what is not there yet.

Exit codes: 0 all turns are there, 1 some could not be imported, 2 the file or the command line is
wrong; the others as everywhere.
"""

_STDIN = Path("-")


class Format(StrEnum):
    """What a file holds."""

    LOCOMO = "locomo"
    JSONL = "jsonl"


def register(app: typer.Typer) -> None:
    """Add the command ``import`` to *app*."""
    app.command("import", epilog=_EPILOG)(import_)


def import_(
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file; `-` is standard input, jsonl only.")
    ],
    file_format: Annotated[
        Format, typer.Option("--format", help="`locomo`, or `jsonl`: a JSON capture a line.")
    ],
    operator: Operator = None,
    agent: Annotated[
        str, typer.Option("--agent", "-a", help="The agent that the sessions are bound to.")
    ] = "importer",
    user: Annotated[
        str | None,
        typer.Option(
            "--user", "-u", help="Whom the agent talks to. Default for locomo: the other speaker."
        ),
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Import the turns of FILE, each with its own speaker and time."""
    import asyncio

    from gralkord import log
    from gralkord.cli.output import emit, say

    log.configure(level="warning")
    required(operator=operator)
    for option, value in (("operator", operator), ("agent", agent), ("user", user)):
        _check_name(option, value)
    if file == _STDIN and file_format is not Format.JSONL:
        raise typer.BadParameter("standard input is read as jsonl only")
    source = _locomo if file_format is Format.LOCOMO else _jsonl
    with source(file, operator or "", agent, user) as (turns, total):
        report = asyncio.run(_import(turns, total, url, data_dir))
    if as_json:
        emit(report.to_dict())
    else:
        say(_summary(report))
    if report.failed:
        raise typer.Exit(1)


async def _import(
    turns: Iterator[ImportTurn | RejectedTurn],
    total: int | None,
    url: str | None,
    data_dir: Path | None,
) -> ImportReport:
    from gralkord.cli.output import printable
    from gralkord.cli.progress import progress
    from gralkord.client.client import AsyncClient
    from gralkord.client.imports import Import

    def complain(turn: RejectedTurn) -> None:
        with suppress(BrokenPipeError):  # nobody reads it; the rest is imported all the same
            typer.echo(printable(f"{turn.where}: {turn.reason}", one_line=True), err=True)

    async with AsyncClient(url, data_dir=data_dir) as client:
        with progress("importing turns", total) as advance:
            run = Import(client, on_progress=advance, on_rejected=complain)
            return await run.run(turns)


@contextmanager
def _locomo(
    file: Path, operator: str, agent: str, user: str | None
) -> Iterator[tuple[Iterator[ImportTurn | RejectedTurn], int | None]]:
    from gralkord.client.import_locomo import locomo_turns, read_samples

    with usage():
        samples = read_samples(file)
    turns = (
        turn
        for sample in samples
        for turn in locomo_turns(sample, operator=operator, agent=agent, user=user)
    )
    yield turns, sum(sample.turns for sample in samples)


@contextmanager
def _jsonl(
    file: Path, operator: str, agent: str, user: str | None
) -> Iterator[tuple[Iterator[ImportTurn | RejectedTurn], int | None]]:
    from gralkord.client.import_jsonl import Defaults, jsonl_turns

    defaults = Defaults(operator=operator, agent=agent, user=user)
    with _opened(file) as stream:
        yield jsonl_turns(stream, name=_source(file), defaults=defaults), None


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if file == _STDIN:
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"cannot read {file}: {error.strerror}") from error
    with stream:
        yield stream


def _source(file: Path) -> str:
    """Return the name of *file* as the source of its turns: a file may be called what no id may."""
    from gralkord.cli.output import printable
    from gralkord.models import MAX_ID_BYTES

    name = "stdin" if file == _STDIN else printable(file.name, one_line=True)
    return name.encode()[:MAX_ID_BYTES].decode(errors="ignore")


def _check_name(option: str, value: str | None) -> None:
    from gralkord.models import check_id

    if value is None:
        return
    try:
        check_id(value)
    except ValueError as error:
        raise typer.BadParameter(f"--{option}: {error}") from error


def _summary(report: ImportReport) -> str:
    words = [f"{report.added} turns added", f"{report.duplicates} were there already"]
    if report.failed:
        words.append(f"{report.failed} failed")
    return f"{', '.join(words)}, {report.sessions} sessions, {report.seconds:.1f} s"
