"""An ontology as somebody wrote it, before it is checked; both forms end here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class DeclaredField:
    """A field as written; so anything may be of any type.

    Attributes:
        place: Where it stands, for messages; so in all of these.
    """

    place: str
    name: str
    type: Any
    required: Any = False
    doc: Any = ""


@dataclass(frozen=True, slots=True)
class DeclaredEntity:
    """An entity type as written."""

    place: str
    name: str
    description: Any
    fields: Sequence[DeclaredField]


@dataclass(frozen=True, slots=True)
class DeclaredRelation:
    """``from source verb targets`` as written."""

    place: str
    source: str
    verb: str
    targets: Sequence[str]
    description: Any
    fields: Sequence[DeclaredField]


@dataclass(slots=True)
class Declaration:
    """A whole ontology as written.

    Attributes:
        origin: The file, for messages.
        entities: The mode of the entities, or nothing.
        relationships: The mode of the relationships, or nothing.
        faults: What was wrong already with how it is written.
    """

    origin: str
    entities: Any
    relationships: Any
    entity_types: list[DeclaredEntity] = field(default_factory=list)
    relations: list[DeclaredRelation] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def fault(self, place: str, message: str) -> None:
        """Note that something at *place* is wrong."""
        self.faults.append(f"{place}: {message}" if place else message)
