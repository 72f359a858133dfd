"""Facts of the types that an ontology names: which may join which entities, and their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel

from gralkord.clock import to_iso
from gralkord.graph.library import EntityEdge, EntityNode, enforce_edge_type_signatures
from gralkord.graph.typed_fields import Asked


@dataclass(frozen=True, slots=True)
class FactTypes:
    """The types of facts that one episode may have.

    Attributes:
        models: Each type's fields, by its name.
        signatures: For the types of source and target the names of the types that may join them.
        strict: Whether a fact between others is dropped; else it becomes a plain one.
    """

    models: Mapping[str, type[BaseModel]]
    signatures: Mapping[tuple[str, str], Sequence[str]]
    strict: bool

    def fitting(
        self, facts: Sequence[EntityEdge], entities: Sequence[EntityNode]
    ) -> list[EntityEdge]:
        """Return the facts that may be, those of a type that does not fit as plain ones."""
        labels = {node.uuid: [*node.labels, "Entity"] for node in entities}
        allowed = [self._between(fact, labels) for fact in facts]
        signatures = {ends: list(names) for ends, names in self.signatures.items()}
        kept, _ = enforce_edge_type_signatures(list(facts), allowed, signatures, self.strict)
        return kept

    def asked(self, facts: Sequence[EntityEdge], told_at: datetime) -> list[Asked]:
        """Return the facts that are of kinds with fields."""
        typed = [(fact, self.models[fact.name]) for fact in facts if fact.name in self.models]
        return [
            Asked(
                [fact],
                f"fact_{fact.name}",
                model,
                {"fact": fact.fact, "told_at": to_iso(told_at)},
            )
            for fact, model in typed
            if model.model_fields
        ]

    def _between(
        self, fact: EntityEdge, labels: Mapping[str, Sequence[str]]
    ) -> dict[str, type[BaseModel]]:
        return {
            name: self.models[name]
            for source in labels.get(fact.source_node_uuid, ("Entity",))
            for target in labels.get(fact.target_node_uuid, ("Entity",))
            for name in self.signatures.get((source, target), ())
            if name in self.models
        }
