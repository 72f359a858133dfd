"""Graphiti's way through an episode, with the steps replaced that ask the model too often."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel, create_model
from typing_extensions import override

from gralkord.graph.drafts import Kinds
from gralkord.graph.library import (
    EntityEdge,
    EntityNode,
    EpisodicNode,
    Graphiti,
    GraphitiClients,
    extract_edges,
    resolve_edge_pointers,
)
from gralkord.graph.resolving import FactResolver
from gralkord.graph.sanitise import fold_name
from gralkord.graph.typed_facts import FactTypes
from gralkord.graph.typed_fields import fill, of_entities

# So much of a transcript sums up an entity of which no fact is known.
MENTION_CHARS: Final = 300


class EpisodePipeline(Graphiti):
    """A Graphiti for one episode that resolves facts in its own way.

    Args:
        resolver: Resolves them.
        kinds: What is looked for. Graphiti itself is to know kinds of entities without fields, or
            it asks for them, too: see `bare`.
        **parts: What Graphiti is made of.
    """

    def __init__(self, resolver: FactResolver, kinds: Kinds, **parts: Any) -> None:
        super().__init__(**parts)
        self._resolver = resolver
        self._kinds = kinds

    @override
    async def _extract_and_resolve_edges(
        self,
        episode: EpisodicNode | list[EpisodicNode],
        extracted_nodes: list[EntityNode],
        previous_episodes: list[EpisodicNode],
        edge_type_map: dict[tuple[str, str], list[str]],
        group_id: str,
        edge_types: dict[str, type[BaseModel]] | None,
        nodes: list[EntityNode],
        uuid_map: dict[str, str],
        strict_edge_types: bool = False,
        custom_extraction_instructions: str | None = None,
        entity_types: dict[str, type[BaseModel]] | None = None,
        clients: GraphitiClients | None = None,
    ) -> tuple[list[EntityEdge], list[EntityEdge], list[EntityEdge]]:
        """Return the facts of an episode, those that they end, and which of the first are new."""
        clients = clients or self.clients
        episode = episode if isinstance(episode, EpisodicNode) else episode[0]
        found, unlisted = await extract_edges(
            clients,
            episode,
            extracted_nodes,
            previous_episodes,
            edge_type_map,
            group_id,
            edge_types,
            strict_edge_types,
            custom_extraction_instructions,
        )
        if unlisted:
            await self._merge_materialized_endpoint_nodes(
                unlisted, episode, previous_episodes, entity_types, nodes, uuid_map, clients=clients
            )
        _classify(extracted_nodes, nodes, uuid_map, self._kinds)
        if self._kinds.strict:
            nodes[:] = [node for node in nodes if set(node.labels) & set(self._kinds.entity_types)]
        ends = {node.uuid for node in nodes}
        placed = [
            fact
            for fact in resolve_edge_pointers(found, uuid_map)
            if {fact.source_node_uuid, fact.target_node_uuid} <= ends
        ]
        types = FactTypes(self._kinds.edge_types, edge_type_map, strict_edge_types)
        facts = types.fitting(placed, nodes)
        resolved = await self._resolver.resolve(facts, episode.uuid, episode.content)
        asked = of_entities(nodes, self._kinds.entity_types)
        asked += types.asked(resolved.new, episode.valid_at)
        await fill(asked, episode.content, clients.llm_client)
        _introduce(nodes, resolved.new, episode.content)
        return resolved.facts, resolved.ended, resolved.new


@lru_cache(maxsize=1_024)
def bare(kind: type[BaseModel]) -> type[BaseModel]:
    """Return a kind of entities without its fields."""
    return create_model(kind.__name__, __doc__=kind.__doc__, __module__=__name__)


def _classify(
    found: Iterable[EntityNode],
    nodes: Iterable[EntityNode],
    uuid_map: Mapping[str, str],
    kinds: Kinds,
) -> None:
    """Let entities that are known as another ontology's kinds be of this one's, too."""
    labels: dict[str, set[str]] = {}
    for each in found:
        known = labels.setdefault(uuid_map.get(each.uuid, each.uuid), set())
        known |= set(each.labels) & set(kinds.entity_types)
    for node in nodes:
        if not set(node.labels) & set(kinds.entity_types):
            node.labels = [*node.labels, *sorted(labels.get(node.uuid, ()))]


def _introduce(nodes: Iterable[EntityNode], facts: Sequence[EntityEdge], transcript: str) -> None:
    """Sum up those entities of which there is no fact with the lines that name them.

    Graphiti asks the model for it, in a call that holds the whole transcript once more.
    """
    told = {end for fact in facts for end in (fact.source_node_uuid, fact.target_node_uuid)}
    for node in nodes:
        if not node.summary and node.uuid not in told:
            node.summary = _mentions(node.name, transcript)


def _mentions(name: str, transcript: str) -> str:
    """Return the lines that name an entity, or else its name; never nothing."""
    named = re.compile(rf"(?<!\w){re.escape(fold_name(name))}(?!\w)")
    lines = [line for line in transcript.splitlines() if named.search(fold_name(line))]
    return "\n".join(lines)[:MENTION_CHARS].strip() or name
