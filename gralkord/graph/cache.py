"""Groups in memory: pulled from the graph by write number, thrown away when there is no room."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from gralkord.graph.analyzer import Analyzer
from gralkord.graph.connection import GraphConnection
from gralkord.graph.passage_table import PassageTable
from gralkord.graph.reading import ENTITIES, FACTS, PASSAGES, Kind, windows
from gralkord.graph.rows import EntityRow, FactRow, PassageRow
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

# How long one answer to which run of the server this is holds good, in seconds.
RUN_SECONDS: Final = 1.0
# What a group takes in memory without any row, in bytes, about.
GROUP_BYTES: Final = 11_000

RowT = TypeVar("RowT")

_META: Final = "MATCH (m:Meta) RETURN m.seq, m.generation, m.embedder"

# Properties of a fact that are ours alone: see `gralkord.graph.rows.FactRow`.
_FACT_OWN: Final = (
    *("superseded_by", "superseded_reason", "superseded_invalid_at", "superseded_at"),
    *("superseded_episode", "withdrawn_at", "withdrawn_until", "withdrawn_reason", "replaced_by"),
    *("source", "offset", "confidence"),
)
_FACT_FIELDS: Final = frozenset(
    {
        *("uuid", "name", "fact", "group_id", "created_at", "valid_at", "invalid_at"),
        *("expired_at", "reference_time", "episodes", "seq", "vector"),
        *("source_node_uuid", "target_node_uuid", "fact_embedding"),
        *(*_FACT_OWN, "undone"),
    }
)
_ENTITY_FIELDS: Final = frozenset(
    {
        *("uuid", "name", "summary", "group_id", "created_at", "labels", "seq", "vector"),
        "handles",
        "name_embedding",
    }
)


class GroupCache:
    """What one group holds.

    Attributes:
        group: The group id.
        generation: Which life of the graph this is; after an erasure another one begins.
        run: Which run of the server it was read from; a crash may have taken writes back.
        embedder: Fingerprint of the vectors; empty if there are none.
        lock: Held while rows are put in and while the tables are searched.
    """

    def __init__(self, group: str, generation: int, run: str) -> None:
        self.group = group
        self.generation = generation
        self.run = run
        self.embedder = ""
        self.lock = threading.RLock()
        analyzer = Analyzer()
        self.passages = PassageTable(analyzer)
        self.facts = FactTable(analyzer, self.lock)
        self.entities = EntityTable(analyzer, self.lock)
        self._reached = {PASSAGES: 0, FACTS: 0, ENTITIES: 0}

    @property
    def seq(self) -> int:
        """All that was written up to this number is here."""
        return min(self._reached.values())

    @property
    def empty(self) -> bool:
        """Whether it has no row at all."""
        return not (len(self.passages) or len(self.facts) or len(self.entities))

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
            said = [self.passages.of_episode(uuid) for uuid in row.episodes]
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
            pages = windows(graph, self.group, kind, reached, upto, timeout_ms=timeout_ms)
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
        )
        passage_ending(found)  # fails here, alone
        return found, row[18]

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
            values.get("vector"),
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
            ),
            values.get("vector"),
        )


@dataclass(slots=True)
class _Slot:
    """A group's place in the pool.

    Attributes:
        cache: What is in memory; None for a group without a graph.
        asked: How often somebody has asked for it.
        checked: How many of those questions the checks so far have answered.
        check: The check that is under way, or the last one.
        nbytes: What the cache took when it was last looked at.
    """

    cache: GroupCache | None = None
    asked: int = 0
    checked: int = 0
    check: asyncio.Task[None] | None = None
    nbytes: int = 0


class CachePool:
    """The groups in memory of this process, for one event loop.

    Args:
        graph: Where to read.
        max_bytes: Memory for all groups together; the group last used may exceed it alone.
    """

    def __init__(self, graph: GraphConnection, max_bytes: int) -> None:
        self._graph = graph
        self._max_bytes = max_bytes
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._run = ("", -RUN_SECONDS)
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes that all groups take together, about."""
        return self._nbytes

    def known(self, group: str) -> GroupCache | None:
        """Return what is in memory of *group*, however old and incomplete."""
        slot = self._slots.get(group)
        return slot.cache if slot else None

    async def fresh(self, group: str, *, timeout_ms: int = 200) -> GroupCache | None:
        """Return *group* with all that was written before this call; None if it has no graph.

        Callers of the same moment share one look at the graph. A caller that gives up does not stop
        the reading.

        Args:
            group: The group id.
            timeout_ms: Limit of each read.

        Raises:
            BackendUnavailable: The server does not answer in time.
        """
        slot = self._slots.setdefault(group, _Slot())
        self._slots.move_to_end(group)
        slot.asked += 1
        mine = slot.asked
        while slot.checked < mine:
            if slot.check is None or slot.check.done():
                slot.check = asyncio.create_task(self._look(group, slot, slot.asked, timeout_ms))
                slot.check.add_done_callback(_retrieve)
            await asyncio.shield(slot.check)
        if slot.cache is None and slot.asked == slot.checked and self._slots.get(group) is slot:
            self._forget(group)
        return slot.cache

    def forget(self, group: str) -> None:
        """Free what is in memory of *group*: it was erased."""
        if group in self._slots:
            self._forget(group)

    async def close(self) -> None:
        """Stop all reading and forget everything."""
        checks = [slot.check for slot in self._slots.values() if slot.check]
        for check in checks:
            check.cancel()
        await asyncio.gather(*checks, return_exceptions=True)
        self._slots.clear()
        self._nbytes = 0

    async def _look(self, group: str, slot: _Slot, answers: int, timeout_ms: int) -> None:
        found = await self._graph.read(group, _META, timeout_ms=timeout_ms)
        if not found:
            slot.cache = None
            self._measure(group, slot)
        else:
            seq, generation, embedder = found[0]
            run = await self._server_run()
            cache = before = slot.cache
            if (
                cache is None
                or (cache.generation, cache.run) != (generation, run)
                or cache.seq > seq
            ):
                # At once, not when it is complete: what was erased must not be found any more.
                cache = slot.cache = GroupCache(group, generation, run)
            cache.embedder = embedder or ""
            if cache.seq < seq or cache is not before:
                try:
                    await cache.pull(self._graph, seq, timeout_ms=timeout_ms)
                finally:  # what has been read stays, also if the rest is late
                    self._measure(group, slot)
                    self._make_room(keep=group)
        slot.checked = answers

    async def _server_run(self) -> str:
        run, since = self._run
        now = asyncio.get_running_loop().time()
        if now - since >= RUN_SECONDS:
            run = await self._graph.run_id()
            self._run = (run, now)
        return run

    def _measure(self, group: str, slot: _Slot) -> None:
        if self._slots.get(group) is slot:
            before, slot.nbytes = slot.nbytes, slot.cache.nbytes if slot.cache else 0
            self._nbytes += slot.nbytes - before

    def _make_room(self, keep: str) -> None:
        kept = 0
        while self._nbytes > self._max_bytes and kept < len(self._slots):
            group, slot = next(iter(self._slots.items()))
            if group == keep or (slot.check and not slot.check.done()):
                self._slots.move_to_end(group)  # in use
                kept += 1
                continue
            self._forget(group)
            log.debug("group_dropped_from_memory", group=group, bytes=slot.nbytes)

    def _forget(self, group: str) -> None:
        self._nbytes -= self._slots.pop(group).nbytes


def _others(values: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in known}


def _retrieve(check: asyncio.Task[None]) -> None:
    """Mark the failure of a check as seen, also if all who waited for it have given up."""
    if not check.cancelled():
        check.exception()
