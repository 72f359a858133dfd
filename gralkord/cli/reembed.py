"""``gralkord reembed``: move memories to another embedder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gralkord.cli.options import AsJson, DataDir, Url, connected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gralkord.models.reembed import GroupMove

_EPILOG = """
Examples:

  gralkord reembed --dry-run

  gralkord reembed

  gralkord reembed --operator ada --json

Name the new embedder in models.embedder and the old one in models.embedders_before, restart, then
run this. Memories are found by the old vectors until the new ones are complete. Interrupted, it
goes on where it was.
"""


def register(app: typer.Typer) -> None:
    """Add the command ``reembed`` to *app*."""
    app.command("reembed", epilog=_EPILOG)(reembed)


def reembed(
    *,
    # No variable of the environment, unlike elsewhere: it would leave groups out silently.
    operator: Annotated[
        str | None,
        typer.Option("--operator", "-o", metavar="OPERATOR", help="Only the memory of this one."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Count rows, tokens and cost, and change nothing."),
    ] = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make the vectors of memories anew with the daemon's embedder, while they are used."""
    from gralkord.cli.output import emit, printable, say
    from gralkord.cli.progress import progress

    groups: list[GroupMove] = []
    last = 0
    with connected(url, data_dir) as client, progress("embedding", None) as advance:
        for found in client.reembed(operator, dry_run=dry_run):
            advance(max(0, found.embedded - last))
            last = 0 if found.done else found.embedded
            if found.done:
                groups.append(found)
    totals = _totals(groups)
    if as_json:
        emit({**totals, "dry_run": dry_run, "found": [group.model_dump() for group in groups]})
        return
    for group in groups:
        if group.rows or group.embedded:
            say(printable(_line(group, dry_run=dry_run), one_line=True))
    cost = "unknown" if totals["usd"] is None else f"${totals['usd']:.4f}"
    done = f"rows {totals['rows']}" if dry_run else f"embedded {totals['embedded']}"
    say(f"groups: {len(groups)}, {done}, tokens about {totals['tokens']}, cost {cost}")


def _totals(groups: Sequence[GroupMove]) -> dict[str, Any]:
    costs = [group.usd for group in groups if group.rows]
    return {
        "groups": len(groups),
        "moved": sum(group.moves for group in groups),
        "rows": sum(group.rows for group in groups),
        "embedded": sum(group.embedded for group in groups),
        "tokens": sum(group.tokens for group in groups),
        "usd": None if None in costs else round(sum(each or 0.0 for each in costs), 6),
    }


def _line(group: GroupMove, *, dry_run: bool) -> str:
    name = f"{group.operator or '(shared)'} {group.lens or ''}".strip()
    told = f"rows {group.rows}" if dry_run else f"embedded {group.embedded}"
    if not group.moves:
        return f"{name}: {told}"
    to = group.embedder or "the new embedder"
    return f"{name}: {told}, from {group.before or 'no vectors'} to {to}"
