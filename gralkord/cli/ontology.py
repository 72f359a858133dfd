"""``gralkord ontology``: check and show an ontology by itself."""

from __future__ import annotations

from typing import Annotated

import typer

from gralkord.cli.options import AsJson, help_alone

Reference = Annotated[
    str,
    typer.Argument(
        metavar="ONTOLOGY", help="A TOML file, or `package.module:name` of one in Python."
    ),
]

_CHECK_EPILOG = """
Examples:

  gralkord ontology check kinds.toml

  gralkord ontology check package.module:kinds --json

All faults are told at once. Warnings tell what is allowed and probably not meant.
"""

_SHOW_EPILOG = """
Examples:

  gralkord ontology show kinds.toml
"""


def register(app: typer.Typer) -> None:
    """Add the commands ``ontology check`` and ``ontology show`` to *app*."""
    group = typer.Typer()
    group.callback(invoke_without_command=True)(help_alone)
    group.command(epilog=_CHECK_EPILOG)(check)
    group.command(epilog=_SHOW_EPILOG)(show)
    app.add_typer(group, name="ontology", help="Check and show what a lens may look for.")


def check(ontology: Reference, as_json: AsJson = False) -> None:
    """Check an ontology."""
    from gralkord.cli.output import emit, printable, say
    from gralkord.lenses.ontology import load_ontology

    found = load_ontology(ontology)
    if as_json:
        emit({"ok": True, "file": found.origin, "warnings": list(found.warnings)})
        return
    for warning in found.warnings:
        say(printable(f"warning: {warning}", one_line=True))
    kinds, relations = len(found.entity_types), len(found.relationship_types)
    counted = f"ok: {found.origin}: entities {kinds}, relationships {relations}"
    say(printable(counted, one_line=True))


def show(ontology: Reference, as_json: AsJson = False) -> None:
    """Show an ontology as the model is told of it."""
    from gralkord.cli.lenses import ontology_lines
    from gralkord.cli.output import emit, printable, say
    from gralkord.lenses.ontology import load_ontology

    found = load_ontology(ontology)
    if as_json:
        emit(found.to_dict())
        return
    for line in ontology_lines(found):
        say(printable(line, one_line=True))
