"""Graphiti's way through an episode, with the steps replaced that ask the model too often."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic import BaseModel
from typing_extensions import override

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

# So much of a transcript sums up an entity of which no fact is known.
MENTION_CHARS: Final = 300


class EpisodePipeline(Graphiti):
    """A Graphiti for one episode that resolves facts in its own way.

    Args:
        resolver: Resolves them.
        **parts: What Graphiti is made of.
    """

    def __init__(self, resolver: FactResolver, **parts: Any) -> None:
        super().__init__(**parts)
        self._resolver = resolver

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
        types = FactTypes(edge_types or {}, edge_type_map, strict_edge_types)
        facts = types.fitting(resolve_edge_pointers(found, uuid_map), nodes)
        resolved = await self._resolver.resolve(facts, episode.uuid, episode.content)
        await types.fill(resolved.new, episode.valid_at, clients)
        _introduce(nodes, resolved.new, episode.content)
        return resolved.facts, resolved.ended, resolved.new


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
