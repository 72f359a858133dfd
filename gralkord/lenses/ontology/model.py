"""What an ontology is, however it was written."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

FieldType = Literal["string", "integer", "float", "boolean"]
EntityMode = Literal["strict", "open"]
RelationshipMode = Literal["scoped", "open"]


@dataclass(frozen=True, slots=True)
class OntologyField:
    """Something that is to be known of an entity or a relationship.

    Attributes:
        required: The model has to state it.
        doc: What it means; the model reads it.
    """

    name: str
    type: FieldType
    required: bool = False
    doc: str = ""


@dataclass(frozen=True, slots=True)
class EntityType:
    """A kind of entity.

    Attributes:
        description: When something is one; the model reads it.
    """

    name: str
    description: str = ""
    fields: tuple[OntologyField, ...] = ()


@dataclass(frozen=True, slots=True)
class RelationshipType:
    """A kind of relationship.

    Attributes:
        name: The verb in capitals, such as ``PREFERS``.
        description: When it holds; the model reads it.
        pairs: Which entities it leads from and to.
    """

    name: str
    pairs: tuple[tuple[str, str], ...]
    description: str = ""
    fields: tuple[OntologyField, ...] = ()


@dataclass(frozen=True, slots=True)
class Ontology:
    """Which kinds of entities and relationships are looked for.

    Attributes:
        entities: Whether there are others: ``strict`` takes none, ``open`` takes any.
        relationships: Whether a relationship keeps to its pairs, ``scoped``, or may stand between
            any two entities, ``open``.
        origin: Where it was written.
        warnings: What is allowed, and probably not meant.
    """

    entities: EntityMode
    relationships: RelationshipMode
    entity_types: tuple[EntityType, ...] = ()
    relationship_types: tuple[RelationshipType, ...] = ()
    origin: str = field(default="", compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its entity types, which become labels in the graph."""
        return tuple(kind.name for kind in self.entity_types)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return asdict(self)
