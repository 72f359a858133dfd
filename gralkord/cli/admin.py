"""``gralkord admin``: indices, and communities of entities."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gralkord.cli.options import AsJson, DataDir, Operator, Url, connected, help_alone, required

if TYPE_CHECKING:
    from gralkord.client.sync import Client
    from gralkord.models.admin import CommunityBuild

_INDICES_EPILOG = """
Examples:

  gralkord admin build-indices

  gralkord admin build-indices --json

Groups that have all their indices stay as they are.
"""
_COMMUNITIES_EPILOG = """
Examples:

  gralkord admin build-communities --operator ada

  gralkord admin build-communities --operator ada --summaries --dry-run

  gralkord admin build-communities --operator ada --summaries --yes --json

The communities from before stay until the new ones are complete. Interrupt it, or call
`stop-communities` elsewhere, and nothing has changed. With --summaries it tells what it will cost
and asks.
"""
_STOP_EPILOG = """
Example:

  gralkord admin stop-communities --operator ada

Ends with 4 if nothing was under way.
"""
_LIST_EPILOG = """
Example:

  gralkord admin communities --operator ada --limit 10
"""

Lens = Annotated[str, typer.Option(help="The lens whose memory it is.")]


def register(app: typer.Typer) -> None:
    """Add the commands ``admin build-indices``, ``build-communities`` and others to *app*."""
    group = typer.Typer()
    group.callback(invoke_without_command=True)(help_alone)
    group.command("build-indices", epilog=_INDICES_EPILOG)(build_indices)
    group.command("build-communities", epilog=_COMMUNITIES_EPILOG)(build_communities)
    group.command("stop-communities", epilog=_STOP_EPILOG)(stop_communities)
    group.command("communities", epilog=_LIST_EPILOG)(communities)
    app.add_typer(group, name="admin", help="Work on the graph itself, for whoever runs it.")


def build_indices(*, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Make the indices that groups lack, in all of them."""
    from gralkord.cli.output import emit, printable, say
    from gralkord.cli.progress import progress

    groups = []
    with connected(url, data_dir) as client, progress("building indices", None) as advance:
        for found in client.build_indices():
            groups.append(found)
            advance(1)
    changed = [group for group in groups if group.created]
    if as_json:
        emit(
            {
                "groups": len(groups),
                "indices": sum(group.indices for group in groups),
                "created": sum(group.created for group in groups),
                "found": [group.model_dump() for group in changed],
            }
        )
        return
    for group in changed:
        name = f"{group.operator or '(shared)'} {group.lens or ''}".strip()
        say(printable(f"{name}: created {group.created} of {group.indices}", one_line=True))
    created = sum(group.created for group in groups)
    say(f"groups: {len(groups)}, indices: {sum(g.indices for g in groups)}, created: {created}")


def build_communities(
    *,
    operator: Operator = None,
    lens: Lens = "default",
    summaries: Annotated[
        bool, typer.Option("--summaries", help="Have the model name and sum up each; this costs.")
    ] = False,
    max_communities: Annotated[
        int, typer.Option(help="Only so many, the largest.", min=1, max=1_000)
    ] = 100,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count and estimate only, and change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask what it may cost.")] = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Find which of an operator's entities belong together."""
    from gralkord.cli.output import FAILURE, emit, say
    from gralkord.cli.progress import progress

    required(operator=operator)
    wanted: dict[str, Any] = {
        "lens": lens,
        "summaries": summaries,
        "max_communities": max_communities,
    }
    last: CommunityBuild | None = None
    with connected(url, data_dir) as client:
        if summaries and not (dry_run or yes):
            _confirm(client, operator or "", wanted, as_json=as_json)
        done = 0
        with progress("building communities", None) as advance:
            for last in client.build_communities(operator or "", dry_run=dry_run, **wanted):
                advance(max(0, last.summed_up + last.written - done))
                done = last.summed_up + last.written
    assert last is not None, "the first line is always there"
    if as_json:
        emit(last.model_dump())
    else:
        say(_told(last))
    if last.stopped:
        raise typer.Exit(FAILURE)


def stop_communities(
    *,
    operator: Operator = None,
    lens: Lens = "default",
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Stop a build of communities that is under way; those from before it stay."""
    from gralkord.cli.output import NOT_FOUND, emit, say

    required(operator=operator)
    with connected(url, data_dir) as client:
        result = client.stop_communities(operator or "", lens=lens)
    if as_json:
        emit(result.model_dump())
    else:
        say("stopped" if result.stopped else "nothing was under way")
    if not result.stopped:
        raise typer.Exit(NOT_FOUND)


def communities(
    *,
    operator: Operator = None,
    lens: Lens = "default",
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Most communities.", min=1, max=1_000)
    ] = 20,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the communities that were found, the largest first."""
    from gralkord.cli.output import emit, printable, say

    required(operator=operator)
    with connected(url, data_dir) as client:
        page = client.communities(operator or "", lens=lens, limit=limit)
    if as_json:
        emit(page.model_dump())
        return
    for one in page.communities:
        cells = (one.id, str(one.members), one.name, one.summary or ", ".join(one.entities))
        say("\t".join(printable(cell, one_line=True) for cell in cells))


def _confirm(client: Client, operator: str, wanted: dict[str, Any], *, as_json: bool) -> None:
    """Tell what a build takes, and ask.

    Raises:
        BadParameter: There is nobody to ask.
        Exit: The answer is no.
    """
    from gralkord.cli.output import FAILURE, printable

    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter("--summaries needs --yes where nobody can be asked")
    *_, plan = client.build_communities(operator, dry_run=True, **wanted)
    if not typer.confirm(printable(f"{_told(plan)}. Go on?", one_line=True)):
        raise typer.Exit(FAILURE)


def _told(build: CommunityBuild) -> str:
    head = f"communities: {build.communities} of {build.found}, members: {build.members}"
    rest = [f"entities: {build.entities}", f"facts: {build.facts}"]
    if build.calls:
        cost = "unknown" if build.usd is None else f"${build.usd:.4f}"
        rest.append(f"calls: {build.calls}, tokens about {build.tokens}, cost {cost}")
    if build.summed_up or build.unreadable:
        rest.append(f"summed up: {build.summed_up}, unreadable: {build.unreadable}")
    if build.stopped:
        rest.append("stopped, nothing has changed")
    return ", ".join([head, *rest])
