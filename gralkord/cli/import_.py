"""``gralkord import``: turns from a file, or the rows of an export, into memory."""

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

    from gralkord.client.import_export import ExportFile, RejectedRow, RowReport
    from gralkord.client.imports import ImportReport, ImportTurn, RejectedTurn

_EPILOG = """
Examples:

  gralkord import --format locomo conversation.json --operator ada

  gralkord import --format jsonl turns.jsonl --operator ada --user Ada

  zcat turns.jsonl.gz | gralkord import --format jsonl - --operator ada --json

  gralkord import ada.jsonl --as-operator eve

Without --format the file must be one of `gralkord export`. Running it again adds only what is not
there yet.

Exit codes: 0 all is there, 1 some could not be imported, 2 the file or the command line is
wrong; the others as everywhere.
"""

_STDIN = Path("-")


class Format(StrEnum):
    """What a file holds."""

    LOCOMO = "locomo"
    JSONL = "jsonl"
    EXPORT = "export"


def register(app: typer.Typer) -> None:
    """Add the command ``import`` to *app*."""
    app.command("import", epilog=_EPILOG)(import_)


def import_(
    context: typer.Context,
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file; `-` is standard input, not locomo.")
    ],
    file_format: Annotated[
        Format,
        typer.Option(
            "--format",
            help="`export`: of `gralkord export`; `jsonl`: a JSON capture a line; or `locomo`.",
        ),
    ] = Format.EXPORT,
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
    as_operator: Annotated[
        str | None,
        typer.Option(
            "--as-operator",
            metavar="OPERATOR",
            help="Of an export: whose memory it becomes. Default: whose it was.",
        ),
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Import the turns of FILE, each with its own speaker and time, or the rows of an export."""
    import asyncio

    from gralkord import log
    from gralkord.cli.output import emit, say

    log.configure(level="warning")
    if file_format is Format.EXPORT:
        _of_turns_only(context)
        _check_name("as-operator", as_operator)
        _import_export(file, as_operator, url, data_dir, as_json=as_json)
        return
    if as_operator is not None:
        raise typer.BadParameter("--as-operator is for an export; use --operator")
    required(operator=operator)
    for option, value in (("operator", operator), ("agent", agent), ("user", user)):
        _check_name(option, value)
    if file == _STDIN and file_format is not Format.JSONL:
        raise typer.BadParameter("standard input is not read as locomo")
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


def _of_turns_only(context: typer.Context) -> None:
    """Refuse flags that say what an export says by itself; variables of the environment may be."""
    for name in ("operator", "agent", "user"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            hint = "; use --as-operator" if name == "operator" else ""
            raise typer.BadParameter(f"--{name} is for turns, not for an export{hint}")


def _import_export(
    file: Path,
    as_operator: str | None,
    url: str | None,
    data_dir: Path | None,
    *,
    as_json: bool,
) -> None:
    import asyncio

    from gralkord.cli.output import emit, say
    from gralkord.client.import_export import ExportFile

    with _opened(file) as stream:
        with usage():
            rows = ExportFile(stream)
        if as_operator is not None and len(rows.operators) > 1:
            raise typer.BadParameter(
                f"the file holds memories of {len(rows.operators)} operators, who must not be mixed"
            )
        report = asyncio.run(_import_rows(rows, as_operator, url, data_dir))
    if as_json:
        emit(report.to_dict())
    else:
        say(_row_summary(report))
        _warn(report)
    if report.failed or report.fault:
        raise typer.Exit(1)


async def _import_rows(
    file: ExportFile, as_operator: str | None, url: str | None, data_dir: Path | None
) -> RowReport:
    from gralkord.cli.output import printable
    from gralkord.cli.progress import progress
    from gralkord.client.client import AsyncClient
    from gralkord.client.import_export import RowImport

    def complain(row: RejectedRow) -> None:
        with suppress(BrokenPipeError):  # nobody reads it; the rest is imported all the same
            line = f"line {row.number}: {row.reason}"
            typer.echo(printable(line, one_line=True), err=True)

    async with AsyncClient(url, data_dir=data_dir) as client:
        with progress("importing rows", None) as advance:
            return await RowImport(client, as_operator, advance, complain).run(file)


def _warn(report: RowReport) -> None:
    from gralkord.cli.output import printable

    if report.fault:
        typer.echo(f"the file is damaged: {report.fault}", err=True)
    for lens in report.lenses:
        text = f"no lens {lens!r} is configured here: its memories are not recalled until it is"
        typer.echo(printable(text, one_line=True), err=True)


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


def _row_summary(report: RowReport) -> str:
    words = [f"{report.created} rows added", f"{report.known} were there already"]
    if report.skipped:
        words.append(f"{report.skipped} of the shared group left out")
    if report.failed:
        words.append(f"{report.failed} failed")
    return f"{', '.join(words)}, {report.seconds:.1f} s"


def _summary(report: ImportReport) -> str:
    words = [f"{report.added} turns added", f"{report.duplicates} were there already"]
    if report.failed:
        words.append(f"{report.failed} failed")
    return f"{', '.join(words)}, {report.sessions} sessions, {report.seconds:.1f} s"
