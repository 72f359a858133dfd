"""Graphiti's searches, answered from the group's cache: no scan in the graph server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pydantic import ConfigDict, PrivateAttr
from typing_extensions import override

from gralkord.graph.filters import accepts_entity, accepts_fact, moment
from gralkord.graph.library import EntityEdge, EntityNode, SearchFilters, SearchInterface
from gralkord.graph.validity import superseded_ending

if TYPE_CHECKING:
    from gralkord.graph.cache import GroupCache
    from gralkord.graph.rows import EntityRow, FactRow

# Of all entities that one could be the model is shown so many; Graphiti shows fifteen, which in a
# large group is most of the prompt.
CANDIDATES: Final = 6
# With a filter more rows are looked at than asked for; the filter comes after the ranking.
OVERFETCH: Final = 8

_WORD = re.compile(r"\w+")
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CacheSearch(SearchInterface):
    """The searches of one episode, over what the group knew when it began.

    A fact is the same object however often it is found, so that two findings of it in one episode
    do not overwrite each other. Entities are not: Graphiti adds to a summary once per object.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    _known: Any = PrivateAttr()
    _facts: dict[str, EntityEdge] = PrivateAttr(default_factory=dict)

    def __init__(self, known: GroupCache) -> None:
        super().__init__()
        self._known = known

    # In all of them `driver` and `group_ids` name this group.

    @override
    async def edge_fulltext_search(
        self,
        driver: Any,
        query: str,
        search_filter: SearchFilters,
        group_ids: list[str] | None = None,
        limit: int = 100,
    ) -> list[EntityEdge]:
        """Return facts that share words with *query*, best first."""
        pair = self._pair(search_filter)
        if pair is not None:
            return [self.fact(row) for row in by_words(query, pair)[:limit]]
        accepts = self._fact_filter(search_filter)
        found = self._known.facts.lexical(query, limit * OVERFETCH if accepts else limit)
        return self._first(accepts, (row for row, _ in found), limit)

    @override
    async def edge_similarity_search(
        self,
        driver: Any,
        search_vector: list[float],
        source_node_uuid: str | None,
        target_node_uuid: str | None,
        search_filter: SearchFilters,
        group_ids: list[str] | None = None,
        limit: int = 100,
        min_score: float = 0.7,
    ) -> list[EntityEdge]:
        """Return facts whose vectors are close to *search_vector*, closest first.

        Between two given ends all are returned, the newest first: they are few, and to leave one
        out would be to store it twice.
        """
        pair = self._pair(search_filter)
        if pair is not None:
            newest = sorted(pair, key=lambda row: -row.seq)
            return [self.fact(row) for row in newest[:limit]]
        vector = np.asarray(search_vector, dtype=np.float32)
        if not vector.any():
            return []
        accepts = self._fact_filter(search_filter)

        def only(row: FactRow) -> bool:
            return (
                (source_node_uuid is None or row.source_uuid == source_node_uuid)
                and (target_node_uuid is None or row.target_uuid == target_node_uuid)
                and (accepts is None or accepts(row))
            )

        filtered = accepts is not None or source_node_uuid or target_node_uuid
        found = self._known.facts.similar(vector, limit, min_score, only if filtered else None)
        return [self.fact(row) for row, _ in found]

    @override
    async def node_fulltext_search(
        self,
        driver: Any,
        query: str,
        search_filter: SearchFilters,
        group_ids: list[str] | None = None,
        limit: int = 100,
    ) -> list[EntityNode]:
        """Return entities whose name or summary shares words with *query*, best first."""
        found = self._known.entities.lexical(query, limit * OVERFETCH)
        rows = [row for row, _ in found if _is_entity(search_filter, row)]
        return [entity(row) for row in rows[:limit]]

    @override
    async def node_similarity_search(
        self,
        driver: Any,
        search_vector: list[float],
        search_filter: SearchFilters,
        group_ids: list[str] | None = None,
        limit: int = 100,
        min_score: float = 0.7,
    ) -> list[EntityNode]:
        """Return a few entities whose names are close to *search_vector*, closest first."""
        vector = np.asarray(search_vector, dtype=np.float32)
        if not vector.any():
            return []
        found = self._known.entities.similar(
            vector,
            min(limit, CANDIDATES),
            min_score,
            lambda row: _is_entity(search_filter, row),
        )
        return [entity(row) for row, _ in found]

    @override
    async def edge_bfs_search(
        self,
        driver: Any,
        bfs_origin_node_uuids: list[str] | None,
        bfs_max_depth: int,
        search_filter: SearchFilters,
        group_ids: list[str] | None = None,
        limit: int = 100,
    ) -> list[EntityEdge]:
        """Return facts within so many steps from some entities, the nearest first."""
        steps = self._steps(bfs_origin_node_uuids or (), bfs_max_depth)
        return self._first(self._fact_filter(search_filter), (row for row, _ in steps), limit)

    @override
    async def node_bfs_search(
        self,
        driver: Any,
        bfs_origin_node_uuids: list[str] | None,
        search_filter: SearchFilters,
        bfs_max_depth: int,
        group_ids: list[str] | None = None,
        limit: int = 100,
    ) -> list[EntityNode]:
        """Return entities within so many steps from some others, the nearest first."""
        steps = self._steps(bfs_origin_node_uuids or (), bfs_max_depth)
        uuids = dict.fromkeys(reached for _, reached in steps)
        rows = self._known.entities.by_uuid(list(uuids))
        return [entity(row) for row in rows if accepts_entity(search_filter, row)][:limit]

    def fact(self, row: FactRow) -> EntityEdge:
        """Return a known fact as Graphiti's object, with all its attributes.

        A supersession that was undone does not count. What people have invalidated does not show:
        saved with the fact it would be an end that was told, and could not be taken back.
        """
        if row.uuid not in self._facts:
            ending = superseded_ending(row)
            self._facts[row.uuid] = EntityEdge(
                uuid=row.uuid,
                name=row.name,
                fact=row.fact,
                source_node_uuid=row.source_uuid,
                target_node_uuid=row.target_uuid,
                group_id=row.group_id,
                created_at=moment(row.created_at) or _BEGINNING,
                valid_at=moment(row.valid_at),
                invalid_at=moment(ending.at),
                expired_at=moment(row.expired_at) if ending.found_out else None,
                reference_time=moment(row.reference_time),
                episodes=list(row.episodes),
                attributes=dict(row.attributes),
            )
        return self._facts[row.uuid]

    def _pair(self, filters: SearchFilters) -> list[FactRow] | None:
        """Return the facts that a filter on both ends lets through, without any search."""
        sources, targets = filters.edge_source_node_uuids, filters.edge_target_node_uuids
        if not sources or not targets:
            return None
        accepts = self._fact_filter(filters)
        rows = {
            row.uuid: row
            for source in dict.fromkeys(sources)
            for target in dict.fromkeys(targets)
            for row in self._known.facts.between(source, target)
        }
        return [row for row in rows.values() if accepts is None or accepts(row)]

    def _fact_filter(self, filters: SearchFilters) -> Callable[[FactRow], bool] | None:
        def accepts(row: FactRow) -> bool:
            if row.note_kind:  # it says something by itself, of no two entities
                return False
            ends = self._known.entities.by_uuid([row.source_uuid, row.target_uuid])
            labels = {end.uuid: end.labels for end in ends} if filters.node_labels else {}
            return accepts_fact(filters, row, labels)

        return accepts if self._known.facts.has_notes else _filter_of(filters, accepts)

    def _first(
        self,
        accepts: Callable[[FactRow], bool] | None,
        rows: Iterable[FactRow],
        limit: int,
    ) -> list[EntityEdge]:
        fit = [row for row in rows if accepts is None or accepts(row)]
        return [self.fact(row) for row in fit[:limit]]

    def _steps(self, origins: Sequence[str], depth: int) -> list[tuple[FactRow, str]]:
        """Return the facts that lead away from *origins*, each with the entity it leads to."""
        found: dict[str, tuple[FactRow, str]] = {}
        here = list(dict.fromkeys(origins))
        seen = set(here)
        for _ in range(depth):
            steps = [
                (row, row.target_uuid)
                for uuid in here
                for row in self._known.facts.touching(uuid)
                if row.source_uuid == uuid and row.uuid not in found
            ]
            found |= {row.uuid: (row, reached) for row, reached in steps}
            here = [
                reached for reached in dict.fromkeys(r for _, r in steps) if reached not in seen
            ]
            seen.update(here)
        return list(found.values())


def entity(row: EntityRow) -> EntityNode:
    """Return a known entity as Graphiti's object, with all its attributes."""
    return EntityNode(
        uuid=row.uuid,
        name=row.name,
        group_id=row.group_id,
        labels=list(row.labels),
        summary=row.summary or "",
        created_at=moment(row.created_at) or _BEGINNING,
        attributes=dict(row.attributes),
    )


def _is_entity(filters: SearchFilters, row: EntityRow) -> bool:
    """Return whether a filter lets a row through; a note is no entity."""
    return not row.note_kind and accepts_entity(filters, row)


def by_words(query: str, rows: Sequence[FactRow]) -> list[FactRow]:
    """Return the rows that share a word with *query*, those that share most first."""
    wanted = set(_WORD.findall(query.casefold()))
    shared = [(len(wanted & set(_WORD.findall(row.fact.casefold()))), row) for row in rows]
    ranked = sorted(shared, key=lambda pair: -pair[0])
    return [row for count, row in ranked if count]


def _filter_of(
    filters: SearchFilters, accepts: Callable[[Any], bool]
) -> Callable[[Any], bool] | None:
    """Return *accepts* if the filters restrict anything at all."""
    return accepts if filters.model_dump(exclude_none=True) else None
