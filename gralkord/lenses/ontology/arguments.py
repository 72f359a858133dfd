"""What Graphiti is told of an ontology."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel, Field, create_model

from gralkord.lenses.ontology.model import Ontology, OntologyField

# What Graphiti calls entities of no particular kind.
_ANY: Final = "Entity"
_TYPES: Final[dict[str, Any]] = {"string": str, "integer": int, "float": float, "boolean": bool}


def extraction_arguments(ontology: Ontology) -> dict[str, Any]:
    """Return the arguments of ``add_episode`` that *ontology* amounts to.

    There are ``entity_types``, ``excluded_entity_types``, ``edge_types`` and ``edge_type_map``,
    each only if there is something in it: an open ontology without types changes nothing.
    """
    return {name: value.copy() for name, value in _arguments(ontology).items()}


@lru_cache(maxsize=64)
def _arguments(ontology: Ontology) -> dict[str, Any]:
    """Return the arguments; equal ontologies have the same classes, which are dear to make."""
    pairs: dict[tuple[str, str], list[str]] = {}
    if ontology.relationships == "scoped":
        for kind in ontology.relationship_types:
            for pair in kind.pairs:
                pairs.setdefault(pair, []).append(kind.name)
    found: dict[str, Any] = {
        "entity_types": {
            kind.name: _model(kind.name, kind.description, kind.fields)
            for kind in ontology.entity_types
        },
        "excluded_entity_types": [_ANY] if ontology.entities == "strict" else [],
        "edge_types": {
            kind.name: _model(kind.name, kind.description, kind.fields)
            for kind in ontology.relationship_types
        },
        "edge_type_map": pairs,
    }
    return {name: value for name, value in found.items() if value}


def _model(name: str, description: str, fields: Sequence[OntologyField]) -> type[BaseModel]:
    definitions: dict[str, Any] = {field.name: _definition(field) for field in fields}
    return create_model(name, __doc__=description or None, __module__=__name__, **definitions)


def _definition(field: OntologyField) -> tuple[Any, Any]:
    kind, doc = _TYPES[field.type], field.doc or None
    if field.required:
        return kind, Field(description=doc)
    return kind | None, Field(None, description=doc)
