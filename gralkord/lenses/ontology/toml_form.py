"""Ontologies written in TOML.

::

    entities = "strict"
    relationships = "scoped"

    [entity.Person]
    description = "A human being who is named."

    [entity.Drink]
    description = "Something to drink."
    fields.hot = { type = "boolean", doc = "Whether it is drunk hot." }

    [from.Person.prefers]
    to = "Drink"
    description = "The person says what they like."
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gralkord.errors import ConfigError
from gralkord.lenses.ontology.checks import build
from gralkord.lenses.ontology.declared import (
    Declaration,
    DeclaredEntity,
    DeclaredField,
    DeclaredRelation,
)
from gralkord.lenses.ontology.model import Ontology

_TOP: Final = ("entities", "relationships", "entity", "from")
_ENTITY: Final = ("description", "fields")
_RELATION: Final = ("to", "description", "fields")
_FIELD: Final = ("type", "required", "doc")


def read_ontology(path: Path) -> Ontology:
    """Return the ontology in the TOML file at *path*.

    Raises:
        ConfigError: It cannot be read, is not TOML, or something is wrong with it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", field="ontology") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8", field="ontology") from error
    return parse_ontology(text, str(path))


def parse_ontology(text: str, origin: str) -> Ontology:
    """Return the ontology that *text* is in TOML.

    Args:
        text: What stands in the file.
        origin: What messages call it.

    Raises:
        ConfigError: It is not TOML, or something is wrong with it.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin} is not TOML: {error}", field="ontology") from None
    except RecursionError:
        raise ConfigError(f"{origin} is nested too deeply", field="ontology") from None
    declaration = Declaration(origin, tree.get("entities"), tree.get("relationships"))
    _known(declaration, "", tree, _TOP)
    for name, table in _tables(declaration, "entity", tree.get("entity")):
        place = f"entity.{name}"
        _known(declaration, place, table, _ENTITY)
        declaration.entity_types.append(
            DeclaredEntity(
                place, name, table.get("description"), _fields(declaration, place, table)
            )
        )
    for source, verbs in _tables(declaration, "from", tree.get("from")):
        for verb, table in _tables(declaration, f"from.{source}", verbs):
            declaration.relations.append(_relation(declaration, source, verb, table))
    return build(declaration)


def _relation(
    declaration: Declaration, source: str, verb: str, table: Mapping[str, Any]
) -> DeclaredRelation:
    place = f"from.{source}.{verb}"
    _known(declaration, place, table, _RELATION)
    to = table.get("to", [])
    targets = [to] if isinstance(to, str) else to
    if not isinstance(targets, list) or not all(isinstance(one, str) for one in targets):
        declaration.fault(f"{place}.to", "must be the name of an entity, or a list of names")
        targets = []
    fields = _fields(declaration, place, table)
    return DeclaredRelation(place, source, verb, targets, table.get("description"), fields)


def _fields(
    declaration: Declaration, place: str, table: Mapping[str, Any]
) -> tuple[DeclaredField, ...]:
    found = []
    for name, written in _tables(declaration, f"{place}.fields", table.get("fields")):
        at = f"{place}.fields.{name}"
        _known(declaration, at, written, _FIELD)
        required, doc = written.get("required", False), written.get("doc")
        found.append(DeclaredField(at, name, written.get("type"), required, doc))
    return tuple(found)


def _tables(
    declaration: Declaration, place: str, value: Any
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the tables within a table, with their names."""
    if value is None:
        return
    if not isinstance(value, dict):
        declaration.fault(place, "must be a table")
        return
    for name, table in value.items():
        if isinstance(table, dict):
            yield name, table
        else:
            declaration.fault(f"{place}.{name}", "must be a table")


def _known(
    declaration: Declaration, place: str, table: Mapping[str, Any], known: Collection[str]
) -> None:
    for name in table:
        if name not in known:
            at = f"{place}.{name}" if place else name
            declaration.fault(at, f"no such key; there are {', '.join(known)}")
