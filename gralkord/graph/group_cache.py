"""One group in memory: its passages, facts and entities, and how their rows are read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from gralkord.graph import spaces
from gralkord.graph.analyzer import Analyzer
from gralkord.graph.connection import GraphConnection
from gralkord.graph.passage_table import PassageTable
from gralkord.graph.reading import ENTITIES, FACTS, PASSAGES, Kind, windows
from gralkord.graph.rows import EntityRow, FactRow, PassageRow
from gralkord.graph.scope_masks import ScopeMasks
from gralkord.graph.spaces import NO_SPACE, Space
from gralkord.graph.tables import EntityTable, FactTable
from gralkord.graph.validity import (
    Ending,
    View,
    earlier,
    fact_ending,
    passage_ending,
    support_ending,
)

log = structlog.get_logger(__name__)

# What a group takes in memory without any row, in bytes, about.
GROUP_BYTES: Final = 11_000

RowT = TypeVar("RowT")

# Properties of a fact that are ours alone: see `gralkord.graph.rows.FactRow`.
_FACT_OWN: Final = (
    *("superseded_by", "superseded_reason", "superseded_invalid_at", "superseded_at"),
    *("superseded_episode", "withdrawn_at", "withdrawn_until", "withdrawn_reason", "replaced_by"),
    *("source", "offset", "confidence", "note_kind"),
)
_FACT_FIELDS: Final = frozenset(
    {
        *("uuid", "name", "fact", "group_id", "created_at", "valid_at", "invalid_at"),
        *("expired_at", "reference_time", "episodes", "seq", "vector"),
        *("source_node_uuid", "target_node_uuid", "fact_embedding"),
        *(*_FACT_OWN, "undone", "vector_next", "unembedded"),
    }
)
_ENTITY_FIELDS: Final = frozenset(
    {
        *("uuid", "name", "summary", "group_id", "created_at", "labels", "seq", "vector"),
        *("handles", "told_in", "name_embedding", "vector_next", "unembedded", "note_kind"),
    }
)


class GroupCache:
    """What one group holds.

    Attributes:
        group: The group id.
        generation: Which life of the graph this is; after an erasure another one begins.
        run: Which run of the server it was read from; a crash may have taken writes back.
        space: Of its vectors; for its whole life, but that a group without vectors may get some.
        masks: Which rows fit the scopes that were asked for.
        lock: Held while rows are put in and while the tables are searched.
    """

    def __init__(self, group: str, generation: int, run: str, space: Space = NO_SPACE) -> None:
        self.group = group
        self.generation = generation
        self.run = run
        self.space = space
        self.lock = threading.RLock()
        analyzer = Analyzer()
        self.passages = PassageTable(analyzer)
        self.facts = FactTable(analyzer, self.lock)
        self.entities = EntityTable(analyzer, self.lock)
        self.masks = ScopeMasks()
        self._reached = {PASSAGES: 0, FACTS: 0, ENTITIES: 0}

    @property
    def seq(self) -> int:
        """All that was written up to this number is here."""
        return min(self._reached.values())

    @property
    def embedder(self) -> str:
        """Fingerprint of the vectors; empty if there are none."""
        return self.space.embedder

    @property
    def empty(self) -> bool:
        """Whether it has no row at all."""
        return not len(self)

    def __len__(self) -> int:
        return len(self.passages) + len(self.facts) + len(self.entities)

    def __bool__(self) -> bool:
        return True

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, about."""
        rows = self.passages.nbytes + self.facts.nbytes + self.entities.nbytes
        return GROUP_BYTES + rows

    def shown_facts(self, view: View) -> NDArray[np.bool_]:
        """Return which facts may be shown to a view; the lock is held."""
        return self.facts.shown(view, self.passages.ended_episodes(view))

    def ending(self, row: PassageRow | FactRow, view: View) -> Ending:
        """Return how a passage or a fact ends, as far as a view knows."""
        if isinstance(row, PassageRow):
            return passage_ending(row, view.known_ms)
        own = fact_ending(row, view.known_ms)
        with self.lock:
            said = [self.passages.of_episode(uuid, row.turn) for uuid in row.episodes]
        if not all(said):  # of other groups, or of none
            return own
        endings = (passage_ending(each, view.known_ms) for rows in said for each in rows)
        return earlier(own, support_ending(endings))

    async def pull(self, graph: GraphConnection, upto: int, *, timeout_ms: int) -> None:
        """Read what was written up to number *upto*.

        What has been read stays when this is interrupted, and the next pull goes on from there.

        Raises:
            BackendUnavailable: The server does not answer in time.
        """
        for kind, reached in tuple(self._reached.items()):
            pages = windows(
                graph,
                self.group,
                kind,
                reached,
                upto,
                timeout_ms=timeout_ms,
                more={"space": self.space.tag},
            )
            async for reach, rows in pages:
                if rows:
                    await asyncio.to_thread(self._put_all, kind, rows)
                self._reached[kind] = reach

    def _put_all(self, kind: Kind, rows: Sequence[Sequence[Any]]) -> None:
        with self.lock:
            if kind is PASSAGES:
                self.passages.put_all(self._read_all(self._passage, rows))
            elif kind is FACTS:
                self.facts.put_all(self._read_all(self._fact, rows))
            else:
                self.entities.put_all(self._read_all(self._entity, rows))

    def _read_all(
        self,
        read: Callable[[Sequence[Any]], tuple[RowT, str | None]],
        rows: Sequence[Sequence[Any]],
    ) -> list[tuple[RowT, str | None]]:
        found = []
        for row in rows:
            try:
                found.append(read(row))
            except (KeyError, TypeError, ValueError) as error:
                log.warning("row_unreadable", group=self.group, reason=repr(error))
        return found

    def _passage(self, row: Sequence[Any]) -> tuple[PassageRow, str | None]:
        share = self.passages.share
        found = PassageRow(
            uuid=row[0],
            text=row[1],
            speaker=share(row[2]),
            role=share(row[3]),
            agent=share(row[4]),
            session=share(row[5]),
            ordinal=int(row[6]),
            part=int(row[7]),
            event_time=row[8],
            event_ms=int(row[9]),
            turn_id=row[10],
            source=row[11] and share(row[11]),
            offset=row[12],
            created_ms=row[13],
            waiting=row[14] == "true",
            episode=row[15] and share(row[15]),
            invalid_at=row[16],
            seq=row[17],
            withdrawn_at=row[19],
            withdrawn_until=row[20],
            withdrawn_reason=row[21] and share(row[21]),
            replaced_by=row[22],
            metadata=row[23] and share(row[23]),
            form=row[24] and share(row[24]),
            description=row[25] and share(row[25]),
        )
        passage_ending(found)  # fails here, alone
        return found, spaces.of_space(row[18], self.space.tag)

    def _fact(self, row: Sequence[Any]) -> tuple[FactRow, str | None]:
        values, source, target = row
        return (
            FactRow(
                uuid=values["uuid"],
                name=values.get("name") or "",
                fact=values.get("fact") or "",
                source_uuid=source,
                target_uuid=target,
                group_id=values.get("group_id") or self.group,
                created_at=values.get("created_at"),
                valid_at=values.get("valid_at"),
                invalid_at=values.get("invalid_at"),
                expired_at=values.get("expired_at"),
                reference_time=values.get("reference_time"),
                episodes=tuple(values.get("episodes") or ()),
                attributes=_others(values, _FACT_FIELDS),
                seq=values["seq"],
                undone=tuple(values.get("undone") or ()),
                **{name: values.get(name) for name in _FACT_OWN},
            ),
            self._vector(values),
        )

    def _entity(self, row: Sequence[Any]) -> tuple[EntityRow, str | None]:
        values, labels = row
        return (
            EntityRow(
                uuid=values["uuid"],
                name=values.get("name") or "",
                summary=values.get("summary") or "",
                labels=tuple(labels),
                group_id=values.get("group_id") or self.group,
                created_at=values.get("created_at"),
                attributes=_others(values, _ENTITY_FIELDS),
                seq=values["seq"],
                handles=tuple(map(str, values.get("handles") or ())),
                told_in=tuple(map(str, values.get("told_in") or ())),
                note_kind=values.get("note_kind"),
            ),
            self._vector(values),
        )

    def _vector(self, values: Mapping[str, Any]) -> str | None:
        stored = values.get("vector"), values.get("vector_next")
        return spaces.vector_of(*stored, self.space.tag)


def _others(values: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in known}
