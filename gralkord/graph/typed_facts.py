"""Facts of the types that an ontology names: which may join which entities, and their fields."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import BaseModel

from gralkord.graph.library import (
    EntityEdge,
    EntityNode,
    GraphitiClients,
    ModelSize,
    apply_capped_attributes,
    enforce_edge_type_signatures,
    generate_prompt_response,
    prompt_library,
)

STAGE: Final = "extract_edges.extract_attributes"


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

    async def fill(
        self, facts: Sequence[EntityEdge], told_at: datetime, clients: GraphitiClients
    ) -> None:
        """Have the fields of typed facts read from their words, each in a call of its own.

        Raises:
            GralkorError: The model's failure.
        """
        typed = [(fact, self.models[fact.name]) for fact in facts if fact.name in self.models]
        calls = (
            _fill(fact, model, told_at, clients) for fact, model in typed if model.model_fields
        )
        await asyncio.gather(*calls)

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


async def _fill(
    fact: EntityEdge, model: type[BaseModel], told_at: datetime, clients: GraphitiClients
) -> None:
    before = {name: fact.attributes[name] for name in model.model_fields if name in fact.attributes}
    answer = await generate_prompt_response(
        clients.llm_client,
        STAGE,
        prompt_library.extract_edges.extract_attributes,
        {"fact": fact.fact, "reference_time": told_at, "existing_attributes": before},
        clients=clients,
        response_model=model,
        model_size=ModelSize.small,
        attribute_extraction=True,
    )
    merged, _ = apply_capped_attributes(
        answer,
        model,
        before,
        merge_mode="replace",
        prompt_name=STAGE,
        entity_uuid=fact.uuid,
        group_id=fact.group_id,
    )
    fact.attributes |= merged
