"""``gralkord sources``: what memories were taken from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gralkord.cli.memories import Offset, Reason, ValidUntil, report
from gralkord.cli.options import (
    AsJson,
    DataDir,
    Operator,
    Url,
    connected,
    help_alone,
    required,
)

if TYPE_CHECKING:
    from rich.table import Table

    from gralkord.models.sources import SourcePage

_LIST_EPILOG = """
Examples:

  gralkord sources list -o ada

  gralkord sources list -o ada --limit 20 --json

Prints a table on a terminal; piped, one line a source: name, passages, invalidated passages, facts,
first and last time, between tabs.
"""

_SHOW_EPILOG = """
Examples:

  gralkord sources show handbook.md -o ada

  gralkord sources show handbook.md -o ada --offset 12 --json

Prints one line a passage: id, offset, check sum, session, turn, time and `invalidated` if it does
not hold any more, between tabs. The check sum is BLAKE2b of the text (32 bytes, UTF-8).
"""

_INVALIDATE_EPILOG = """
Examples:

  gralkord sources invalidate handbook.md -o ada --reason "out of date"

  gralkord sources invalidate handbook.md -o ada --offset 12 --valid-until 2024-06-30

The same as `gralkord memories invalidate --source`. Take it back with `gralkord memories reactivate
--source`.
"""

SourceName = Annotated[str, typer.Argument(metavar="SOURCE", help="Name of the source.")]


def register(app: typer.Typer) -> None:
    """Add the commands ``sources list``, ``show`` and ``invalidate`` to *app*."""
    group = typer.Typer()
    group.callback(invoke_without_command=True)(help_alone)
    group.command("list", epilog=_LIST_EPILOG)(list_)
    group.command(epilog=_SHOW_EPILOG)(show)
    group.command(epilog=_INVALIDATE_EPILOG)(invalidate)
    app.add_typer(group, name="sources", help="See what memories were taken from.")


def list_(
    *,
    operator: Operator = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Most sources.", min=1, max=1_000)
    ] = 100,
    after: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="Go on behind this source.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List what an operator's memories were taken from, by name."""
    from gralkord.cli.output import draw, emit, on_terminal, printable, say

    required(operator=operator)
    with connected(url, data_dir) as client:
        page = client.sources(operator or "", limit=limit, after=after)
    if as_json:
        emit(page.model_dump())
        return
    if not page.sources:
        if on_terminal():
            say("no sources")
    elif on_terminal():
        draw(_table(page))
    else:
        for cells in _rows(page):
            say("\t".join(cells))
    if page.next:
        typer.echo(printable(f"more: --after {page.next}", one_line=True), err=True)


def show(
    source: SourceName,
    *,
    operator: Operator = None,
    offset: Offset = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Most passages.", min=1, max=10_000)
    ] = 1_000,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on behind this passage.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Print what stands in a source: ids, offsets and check sums, without the words."""
    from gralkord.cli.output import emit, printable, say

    required(operator=operator)
    with connected(url, data_dir) as client:
        found = client.source(operator or "", source, offset=offset, limit=limit, after=after)
    if as_json:
        emit(found.model_dump())
        return
    for note in found.notes:
        say(f"{printable(note, one_line=True)}\tnote")
    for entry in found.entries:
        cells = (
            entry.id,
            entry.offset or "-",
            entry.checksum,
            entry.session,
            entry.turn_id,
            entry.event_time,
            "invalidated" if entry.invalidated else "-",
        )
        say("\t".join(printable(cell, one_line=True) for cell in cells))
    if found.next:
        typer.echo(f"more: --after {found.next}", err=True)


def invalidate(
    source: SourceName,
    *,
    operator: Operator = None,
    offset: Offset = None,
    reason: Reason = None,
    valid_until: ValidUntil = None,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Say that what was taken from a source does not hold any more."""
    required(operator=operator)
    with connected(url, data_dir) as client:
        result = client.invalidate(
            operator or "", source=source, offset=offset, reason=reason, valid_until=valid_until
        )
    report("invalidated", result, as_json=as_json)


def _rows(page: SourcePage) -> list[list[str]]:
    from gralkord.cli.output import printable

    return [
        [
            printable(cell, one_line=True)
            for cell in (
                one.source,
                str(one.passages),
                str(one.invalidated),
                str(one.facts),
                str(one.notes),
                one.first[:16].replace("T", " "),
                one.last[:16].replace("T", " "),
            )
        ]
        for one in page.sources
    ]


def _table(page: SourcePage) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False, pad_edge=False)
    table.add_column("source", ratio=1)
    for name in ("passages", "invalid", "facts", "notes"):
        table.add_column(name, justify="right")
    for name in ("first", "last"):
        table.add_column(name, no_wrap=True)
    for cells in _rows(page):
        table.add_row(*(Text(cell) for cell in cells))  # a str would be read as markup
    return table
