"""``gralkord reindex``: check what the daemon has in memory against the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gralkord.cli.options import AsJson, DataDir, Url, connected

if TYPE_CHECKING:
    from gralkord.models.reindex import GroupIndex

_EPILOG = """
Examples:

  gralkord reindex --check

  gralkord reindex --operator ada --json

Every group that differs is told with its first rows.

Ends with 1 if something differs: with `--check` what was found, else what is left.
"""


def register(app: typer.Typer) -> None:
    """Add the command ``reindex`` to *app*."""
    app.command("reindex", epilog=_EPILOG)(reindex)


def reindex(
    *,
    # No variable of the environment, unlike elsewhere: it would hide groups silently.
    operator: Annotated[
        str | None,
        typer.Option("--operator", "-o", metavar="OPERATOR", help="Only the memory of this one."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare only, and change nothing.")
    ] = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Compare what the daemon has in memory with the graph, and have it read anew."""
    from gralkord.cli.output import FAILURE, emit, printable, say
    from gralkord.cli.progress import progress

    groups: list[GroupIndex] = []
    with connected(url, data_dir) as client, progress("comparing groups", None) as advance:
        for found in client.reindex(operator, check=check):
            groups.append(found)
            advance(1)
    differ = [group for group in groups if (group.different if check else group.left)]
    if as_json:
        emit(
            {
                "groups": len(groups),
                "rows": sum(group.rows for group in groups),
                "vectors": sum(group.vectors for group in groups),
                "different": sum(group.different for group in groups),
                "left": sum(group.left for group in groups),
                "unusable": sum(not group.usable for group in groups),
                "found": [group.model_dump() for group in groups if _notable(group)],
            }
        )
    else:
        for group in groups:
            if _notable(group):
                for line in _lines(group):
                    say(printable(line, one_line=True))
        rows = sum(group.rows for group in groups)
        say(f"groups: {len(groups)}, rows: {rows}, different: {sum(g.different for g in groups)}")
    if differ:
        raise typer.Exit(FAILURE)


def _notable(group: GroupIndex) -> bool:
    return bool(group.different or group.left or not group.usable)


def _lines(group: GroupIndex) -> list[str]:
    name = f"{group.operator or '(shared)'} {group.lens or ''}".strip()
    counts = ("rows", "different", "left")
    told = ", ".join(f"{count} {getattr(group, count)}" for count in counts)
    lines = [f"{name}: {told}"]
    if not group.usable:
        lines.append(f"{name}: vectors are of {group.embedder}; `gralkord reembed` helps")
    return lines + [f"{name}: {each.kind} {each.id}: {each.what}" for each in group.differences]
