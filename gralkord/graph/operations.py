"""Graphiti's reads and writes of single things: answered from memory, saved all in one query."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, PrivateAttr
from typing_extensions import override

from gralkord.graph.library import EntityNode, EpisodicNode, GraphOperationsInterface
from gralkord.graph.search import entity
from gralkord.graph.statement import EpisodeRows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from gralkord.graph.cache import GroupCache

    Save = Callable[[EpisodeRows], Awaitable[None]]

_BLANKS = re.compile(r"\s+")


class EpisodeOperations(GraphOperationsInterface):
    """The operations of one episode.

    Graphiti calls the four saves in the order in which they stand here, always all four; the last
    one writes. What is not here raises NotImplementedError, after which Graphiti falls back on a
    query of its own, and the driver refuses those.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    _known: Any = PrivateAttr()
    _episode: EpisodicNode = PrivateAttr()
    _previous: list[EpisodicNode] = PrivateAttr()
    _save: Any = PrivateAttr()
    _rows: EpisodeRows = PrivateAttr(default_factory=EpisodeRows)

    def __init__(
        self,
        known: GroupCache,
        episode: EpisodicNode,
        previous: Sequence[EpisodicNode],
        save: Save,
    ) -> None:
        super().__init__()
        self._known = known
        self._episode = episode
        self._previous = list(previous)
        self._save = save

    @override
    async def episodic_node_get_by_uuid(self, _cls: Any, driver: Any, uuid: str) -> EpisodicNode:
        """Return the episode at work, which is not in the graph yet."""
        if uuid != self._episode.uuid:
            raise KeyError(uuid)
        return self._episode

    @override
    async def episodic_node_get_by_uuids(
        self, _cls: Any, driver: Any, uuids: list[str], group_id: str | None = None
    ) -> list[EpisodicNode]:
        """Return the episodes before it that were read when the work began."""
        return [each for each in self._previous if each.uuid in uuids]

    @override
    async def node_get_by_uuids(
        self, _cls: Any, driver: Any, uuids: list[str], group_id: str | None = None
    ) -> list[EntityNode]:
        """Return known entities."""
        return [entity(row) for row in self._known.entities.by_uuid(uuids)]

    @override
    async def node_get_by_names(
        self, _cls: Any, driver: Any, names: list[str], group_ids: list[str]
    ) -> list[EntityNode]:
        """Return known entities of exactly these names, whatever their case and blanks.

        In the graph, a query for an entity named like a stop word has crashed the server.
        """
        rows = {
            row.uuid: row
            for name in dict.fromkeys(_BLANKS.sub(" ", name).strip() for name in names)
            for row in self._known.entities.by_name(name)
        }
        return [entity(row) for row in rows.values()]

    @override
    async def episodic_node_save_bulk(
        self,
        _cls: Any,
        driver: Any,
        transaction: Any,
        nodes: list[Any],
        batch_size: int = 100,
    ) -> None:
        """Keep the episode."""
        self._rows = EpisodeRows(episodes=nodes)

    @override
    async def node_save_bulk(
        self,
        _cls: Any,
        driver: Any,
        transaction: Any,
        nodes: list[Any],
        batch_size: int = 100,
    ) -> None:
        """Keep the entities."""
        self._rows.entities = nodes

    @override
    async def episodic_edge_save_bulk(
        self,
        _cls: Any,
        driver: Any,
        transaction: Any,
        episodic_edges: list[Any],
        batch_size: int = 100,
    ) -> None:
        """Keep which entities the episode mentions."""
        self._rows.mentions = episodic_edges

    @override
    async def edge_save_bulk(
        self,
        _cls: Any,
        driver: Any,
        transaction: Any,
        edges: list[Any],
        batch_size: int = 100,
    ) -> None:
        """Write everything."""
        self._rows.facts = edges
        await self._save(self._rows)
