"""``gralkord lenses``: the lenses that the settings name, and who uses them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gralkord.cli.options import AsJson, help_alone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gralkord.config import Settings
    from gralkord.lenses.ontology import Ontology
    from gralkord.lenses.registry import LensRegistry

Config = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with settings.", envvar="GRALKORD_CONFIG"),
]

_LIST_EPILOG = """
Examples:

  gralkord lenses list --config gralkord.toml

  gralkord lenses list --json
"""

_SHOW_EPILOG = """
Examples:

  gralkord lenses show work --config gralkord.toml
"""

_CHECK_EPILOG = """
Examples:

  gralkord lenses check --config gralkord.toml

Daemon and worker do the same when they start, and do not start if something is wrong.
"""


def register(app: typer.Typer) -> None:
    """Add the commands ``lenses list``, ``show`` and ``check`` to *app*."""
    group = typer.Typer()
    group.callback(invoke_without_command=True)(help_alone)
    group.command("list", epilog=_LIST_EPILOG)(list_)
    group.command(epilog=_SHOW_EPILOG)(show)
    group.command(epilog=_CHECK_EPILOG)(check)
    app.add_typer(group, name="lenses", help="List, show and check the lenses of the settings.")


def list_(config: Config = None, as_json: AsJson = False) -> None:
    """List all lenses, `default` first, and the agents that write to them."""
    from gralkord.cli.output import emit, printable, say

    settings, lenses = _load(config)
    rows = [_described(settings, lenses, name) for name in lenses.names()]
    if as_json:
        emit({"lenses": rows})
        return
    for row in rows:
        line = f"{row['name']}: {row['scope']}, {row['ingestion']}, {row['ontology'] or 'anything'}"
        writers = ", ".join([*row["written_by"], *row["generalised_from"]])
        say(printable(f"{line}, from {writers}" if writers else line, one_line=True))


def show(
    name: Annotated[str, typer.Argument(metavar="LENS", help="Its name.")],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show one lens: its process, who writes and searches it, how, and what it looks for."""
    from gralkord.cli.output import emit, printable, say, tree_lines

    settings, lenses = _load(config)
    ontology = lenses.lens(name).ontology
    described = _described(settings, lenses, name)
    if as_json:
        emit(described | {"kinds": ontology.to_dict() if ontology else None})
        return
    for line in tree_lines(described):
        say(line)
    for line in ontology_lines(ontology) if ontology else ():
        say(printable(line, one_line=True))


def check(config: Config = None, as_json: AsJson = False) -> None:
    """Check all lenses, their ontologies and processes, and the agents that use them."""
    from gralkord.cli.output import emit, printable, say
    from gralkord.lenses.warnings import find_warnings

    settings, lenses = _load(config)
    warnings = find_warnings(settings, lenses)
    if as_json:
        found = [asdict(each) for each in warnings]
        emit({"ok": True, "lenses": list(lenses.names()), "warnings": found})
        return
    for each in warnings:
        say(printable(f"warning: {each.line}", one_line=True))
    say(printable(f"ok: {', '.join(lenses.names())}", one_line=True))


def ontology_lines(ontology: Ontology) -> Iterator[str]:
    """Yield an ontology as lines for people."""
    yield f"entities: {ontology.entities}"
    for kind in ontology.entity_types:
        yield from _kind_lines(f"  {kind.name}", asdict(kind))
    yield f"relationships: {ontology.relationships}"
    for relation in ontology.relationship_types:
        pairs = ", ".join(f"{source} to {target}" for source, target in relation.pairs)
        yield from _kind_lines(f"  {relation.name}: {pairs}", asdict(relation))


def _kind_lines(head: str, kind: Mapping[str, Any]) -> Iterator[str]:
    yield head
    for line in kind["description"].splitlines():
        yield f"    {line}"
    for field in kind["fields"]:
        needed = ", required" if field["required"] else ""
        doc = f": {field['doc']}" if field["doc"] else ""
        yield f"    {field['name']} ({field['type']}{needed}){doc}"


def _load(config: Path | None) -> tuple[Settings, LensRegistry]:
    from gralkord.cli.process import load
    from gralkord.lenses.load import load_lenses

    settings = load(config)
    return settings, load_lenses(settings)


def _described(settings: Settings, lenses: LensRegistry, name: str) -> dict[str, Any]:
    lens = lenses.lens(name)
    agents = settings.agents.items()
    described: dict[str, Any] = {
        "name": lens.name,
        "scope": lens.scope,
        "ingestion": lens.ingestion,
        "ontology": lens.reference,
        "distil": lens.distil,
        "learn": lens.learn,
    }
    if lens.process is not None:
        described["timeout_seconds"] = lens.timeout_seconds
    return described | {
        "search": lens.search.model_dump(exclude_none=True),
        "written_by": [agent for agent, own in agents if own.default_lens == name],
        "generalised_from": [agent for agent, own in agents if own.generalise_lens == name],
        "searched_by": [
            agent
            for agent, own in agents
            if name in {"default", own.default_lens, *own.search_lenses}
        ],
    }
