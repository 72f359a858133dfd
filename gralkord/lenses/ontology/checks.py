"""Checks of an ontology, all at once, so that one look at the messages is enough."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final, get_args

from gralkord.errors import ConfigError
from gralkord.lenses.ontology.declared import (
    Declaration,
    DeclaredEntity,
    DeclaredField,
    DeclaredRelation,
)
from gralkord.lenses.ontology.model import (
    EntityMode,
    EntityType,
    FieldType,
    Ontology,
    OntologyField,
    RelationshipMode,
    RelationshipType,
)
from gralkord.lenses.ontology.reserved import (
    LEARNING,
    PROTECTED_ENTITY_FIELDS,
    PROTECTED_RELATIONSHIP_FIELDS,
    PYDANTIC_NAMES,
    RESERVED_KINDS,
    UNTYPED,
)
from gralkord.models import check_text

# All of an ontology is read by the model for each episode.
MAX_TYPES: Final = 100
MAX_FIELDS: Final = 50
MAX_NAME_CHARS: Final = 64
MAX_DESCRIPTION_CHARS: Final = 2_000

_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_VERB: Final = re.compile(r"[A-Z][A-Z0-9_]*")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN_WORDS: Final = re.compile(r"[\s-]+")


def relationship_name(verb: str) -> str:
    """Return what a verb is called in the graph: ``prefers`` and ``Prefers`` are ``PREFERS``.

    Words are joined by underscores: ``works at`` and ``WorksAt`` are ``WORKS_AT``.
    """
    return _BETWEEN_WORDS.sub("_", _HUMP.sub("_", verb.strip())).upper()


def build(declaration: Declaration) -> Ontology:
    """Return the ontology that was declared.

    Raises:
        ConfigError: Something is wrong with it; the message has all faults, each with its place.
    """
    return _Check(declaration).ontology()


class _Check:
    """One run over a declaration."""

    def __init__(self, declaration: Declaration) -> None:
        self._declared = declaration
        self._warnings: list[str] = []

    def ontology(self) -> Ontology:
        """Return the ontology, or raise with all faults."""
        declared = self._declared
        self._mode("entities", declared.entities, get_args(EntityMode))
        self._mode("relationships", declared.relationships, get_args(RelationshipMode))
        entity_types = [self._entity(one) for one in declared.entity_types]
        self._unique(declared.entity_types)
        relationship_types = self._relationships(declared.relations)
        self._whole(entity_types, relationship_types)
        if declared.faults:
            raise _refusal(declared.origin, declared.faults)
        return Ontology(
            declared.entities,
            declared.relationships,
            tuple(entity_types),
            tuple(relationship_types),
            origin=declared.origin,
            warnings=tuple(self._warnings),
        )

    def _mode(self, name: str, value: Any, known: Sequence[str]) -> None:
        choice = " or ".join(known)
        if value is None:
            self._declared.fault(name, f"must be given, {choice}")
        elif value not in known:
            self._declared.fault(name, f"must be {choice}, not {_short(value)}")

    def _whole(
        self, entities: Sequence[EntityType], relationships: Sequence[RelationshipType]
    ) -> None:
        declared = self._declared
        if declared.entities == "strict" and not entities:
            declared.fault("entities", "strict, and no entity is declared: none would be found")
        if declared.relationships == "scoped" and not relationships:
            self._warnings.append("relationships: scoped, and no relationship is declared")
        for name, types in (("entities", entities), ("relationships", relationships)):
            if len(types) > MAX_TYPES:
                declared.fault(name, f"{len(types)} types, the limit is {MAX_TYPES}")

    def _unique(self, entities: Sequence[DeclaredEntity]) -> None:
        seen: dict[str, DeclaredEntity] = {}
        for one in entities:
            first = seen.setdefault(one.name.casefold(), one)
            if first is not one:
                self._declared.fault(one.place, f"declared twice, first as {first.place}")

    def _entity(self, declared: DeclaredEntity) -> EntityType:
        name, place = declared.name, declared.place
        if not _IDENTIFIER.fullmatch(name) or len(name) > MAX_NAME_CHARS:
            self._declared.fault(place, f"{_short(name)} is no name of an entity: {_NAMES}")
        if name.casefold() in {kind.casefold() for kind in RESERVED_KINDS}:
            self._declared.fault(place, f"the graph has a kind {name!r} of its own")
        if name == LEARNING:
            self._warnings.append(f"{place}: takes the place of gralkord's own {LEARNING}")
        description = self._text(place, "description", declared.description)
        fields = self._fields(place, declared.fields, PROTECTED_ENTITY_FIELDS)
        self._warn(place, description, declared.fields, fields)
        return EntityType(name, description, fields)

    def _relationships(self, relations: Sequence[DeclaredRelation]) -> list[RelationshipType]:
        """Return one type for each verb, with all its pairs."""
        by_name: dict[str, list[DeclaredRelation]] = {}
        for one in relations:
            name = relationship_name(one.verb)
            if not _VERB.fullmatch(name) or len(name) > MAX_NAME_CHARS:
                self._declared.fault(one.place, f"{_short(one.verb)} is no verb: {_NAMES}")
            by_name.setdefault(name, []).append(one)
        return [self._relationship(name, group) for name, group in by_name.items()]

    def _relationship(self, name: str, group: Sequence[DeclaredRelation]) -> RelationshipType:
        first = group[0]
        fields = [
            self._fields(one.place, one.fields, PROTECTED_RELATIONSHIP_FIELDS) for one in group
        ]
        for one, some in zip(group, fields, strict=True):
            if _schema(some) != _schema(fields[0]):
                self._declared.fault(one.place, f"has other fields than {first.place}")
        if name == UNTYPED:
            self._warnings.append(
                f"{first.place}: facts whose type is not known are called {name}, too"
            )
        texts = [self._text(one.place, "description", one.description) for one in group]
        description = "\n".join(dict.fromkeys(filter(None, texts)))
        documented = _documented(fields)
        self._warn(first.place, description, first.fields, documented)
        return RelationshipType(name, self._pairs(group), description, documented)

    def _pairs(self, relations: Sequence[DeclaredRelation]) -> tuple[tuple[str, str], ...]:
        known = [entity.name for entity in self._declared.entity_types]
        pairs: dict[tuple[str, str], str] = {}
        for one in relations:
            if not one.targets:
                self._declared.fault(one.place, "leads to no entity")
            for target in one.targets:
                for end in dict.fromkeys((one.source, target)):
                    if end not in known:
                        self._declared.fault(
                            one.place, f"no entity is called {_short(end)}{_hint(known)}"
                        )
                pair = (one.source, target)
                if pair in pairs:
                    self._declared.fault(
                        one.place,
                        f"from {one.source} to {target} is declared twice, first as {pairs[pair]}",
                    )
                pairs.setdefault(pair, one.place)
        return tuple(pairs)

    def _fields(
        self, place: str, declared: Sequence[DeclaredField], protected: Collection[str]
    ) -> tuple[OntologyField, ...]:
        if len(declared) > MAX_FIELDS:
            self._declared.fault(place, f"{len(declared)} fields, the limit is {MAX_FIELDS}")
        seen: dict[str, str] = {}
        for one in declared:
            if one.name.casefold() in seen:
                self._declared.fault(
                    one.place, f"declared twice, first as {seen[one.name.casefold()]}"
                )
            seen.setdefault(one.name.casefold(), one.place)
        return tuple(self._field(one, protected) for one in declared)

    def _field(self, declared: DeclaredField, protected: Collection[str]) -> OntologyField:
        name, place = declared.name, declared.place
        if not _IDENTIFIER.fullmatch(name) or len(name) > MAX_NAME_CHARS:
            self._declared.fault(place, f"{_short(name)} is no name of a field: {_NAMES}")
        elif name.casefold() in protected:
            self._declared.fault(
                place, f"the graph has a property {name.casefold()!r} of its own: take another name"
            )
        elif name in PYDANTIC_NAMES:
            self._declared.fault(place, f"pydantic has {name!r} for itself: take another name")
        if declared.type not in get_args(FieldType):
            self._declared.fault(
                place,
                f"the type must be {', '.join(get_args(FieldType))}, not {_short(declared.type)}",
            )
        if not isinstance(declared.required, bool):
            self._declared.fault(
                place, f"required must be true or false, not {_short(declared.required)}"
            )
        doc = self._text(place, "doc", declared.doc)
        return OntologyField(name, declared.type, declared.required, doc)

    def _warn(
        self,
        place: str,
        description: str,
        declared: Sequence[DeclaredField],
        fields: Sequence[OntologyField],
    ) -> None:
        """Note which descriptions are missing: without them the model has to guess."""
        if not description:
            self._warnings.append(f"{place}: has no description, so it will seldom be found")
        places = {one.name: one.place for one in declared}
        self._warnings += [
            f"{places[one.name]}: has no doc, so the model has to guess what it means"
            for one in fields
            if not one.doc
        ]

    def _text(self, place: str, name: str, value: Any) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            self._declared.fault(place, f"{name} must be a text, not {_short(value)}")
            return ""
        try:
            check_text(value)
        except ValueError as error:
            self._declared.fault(place, f"{name}: {error}")
        if len(value) > MAX_DESCRIPTION_CHARS:
            self._declared.fault(
                place, f"{name}: {len(value)} characters, the limit is {MAX_DESCRIPTION_CHARS}"
            )
        return value.strip()


_NAMES: Final = (
    f"letters, digits and underscores, a letter first, at most {MAX_NAME_CHARS} characters"
)


def _schema(fields: Sequence[OntologyField]) -> list[tuple[str, str, bool]]:
    """Return what two declarations of a verb must have in common; docs may differ."""
    return sorted((field.name, field.type, field.required) for field in fields)


def _documented(declared: Sequence[tuple[OntologyField, ...]]) -> tuple[OntologyField, ...]:
    """Return the fields of the first declaration, with docs from wherever there are some."""
    docs = {one.name: one.doc for fields in reversed(declared) for one in fields if one.doc}
    return tuple(replace(one, doc=docs.get(one.name, "")) for one in declared[0])


def _short(value: Any) -> str:
    return repr(value)[:64]


def _hint(known: Sequence[str]) -> str:
    return f" (declared: {', '.join(known)})" if known else ""


def _refusal(origin: str, faults: Sequence[str]) -> ConfigError:
    if len(faults) == 1:
        return ConfigError(f"{origin}: {faults[0]}", field="ontology")
    lines = "".join(f"\n  {fault}" for fault in faults)
    return ConfigError(f"{origin}: {len(faults)} faults{lines}", field="ontology")
