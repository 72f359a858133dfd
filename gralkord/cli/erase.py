"""``gralkord erase``: delete memory for good."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gralkord.cli.options import AsJson, DataDir, Url, connected

if TYPE_CHECKING:
    from gralkord.models.erasure import Erasure

_EPILOG = """
Examples:

  gralkord erase --operator ada --session 2024-05-01 --dry-run

  gralkord erase --operator ada --source handbook.md --yes --json

  gralkord erase --operator ada

  gralkord erase --everything --yes

Without --session, --source, --turn, --id or --lens all memory of the operator goes. It cannot be
taken back. Ends with 1 if it is not done in time (it goes on, and is taken up again after a crash),
or if a server would not confirm that the words are in none of its files.
"""

# No variable of the environment, unlike elsewhere: nothing may go because of what was set long ago.
OfOperator = Annotated[
    str | None, typer.Option("--operator", "-o", metavar="OPERATOR", help="Whose memory.")
]


def register(app: typer.Typer) -> None:
    """Add the command ``erase`` to *app*."""
    app.command(epilog=_EPILOG)(erase)


def erase(
    *,
    operator: OfOperator = None,
    session: Annotated[str | None, typer.Option(help="Only what was said in this session.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Only what was taken from this source.")
    ] = None,
    turn: Annotated[str | None, typer.Option(metavar="ID", help="Only this turn.")] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="Only this passage or fact; may be repeated."),
    ] = None,
    lens: Annotated[
        str | None, typer.Option(help="Only what was captured through this lens.")
    ] = None,
    everything: Annotated[bool, typer.Option(help="The memory of all operators.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Change nothing, only count.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the end.", min=1)] = 600.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Delete memory for good: from queue, graph, buffers, dead letters and the servers' files."""
    scope: dict[str, Any] = {
        "session": session,
        "source": source,
        "turn": turn,
        "ids": ids or None,
        "lens": lens,
    }
    named = [f"{name} {value}" for name, value in scope.items() if value]
    if everything == (operator is not None):
        raise typer.BadParameter("give either --operator or --everything")
    if len(named) > (0 if everything else 1):
        raise typer.BadParameter("give one of --session, --source, --turn, --id and --lens")
    if not (dry_run or yes):
        whole = f"all memory of operator {operator}" if operator else "the memory of all operators"
        what = f"{named[0]} of operator {operator}" if named else whole
        _confirm(what, as_json=as_json)
    with connected(url, data_dir) as client:
        done = client.erase(
            operator, everything=not named, dry_run=dry_run, timeout=timeout, **scope
        )
    _report(done, as_json=as_json)


def _confirm(what: str, *, as_json: bool) -> None:
    """Ask before something is erased.

    Raises:
        BadParameter: There is nobody to ask.
        Exit: The answer is no.
    """
    from gralkord.cli.output import FAILURE, printable

    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter("this needs --yes where nobody can be asked")
    question = printable(f"{what} will be erased and cannot be brought back.", one_line=True)
    if not typer.confirm(f"{question} Go on?"):
        raise typer.Exit(FAILURE)


def _report(done: Erasure, *, as_json: bool) -> None:
    from gralkord.cli.output import FAILURE, emit, printable, say, tree_lines

    if as_json:
        emit(done.model_dump(exclude_none=True))
    else:
        head = "would be erased" if done.dry_run else {"done": "erased"}.get(done.state, done.state)
        say(f"{head} ({done.id})")
        for line in tree_lines(done.counts):
            say(line)
        for one in done.missing:
            say(printable(f"not there: {one}", one_line=True))
        for one in done.not_confirmed:
            say(printable(f"not confirmed: {one}", one_line=True))
    if done.state != "done" or done.not_confirmed:
        raise typer.Exit(FAILURE)
