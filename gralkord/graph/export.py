"""Reading a group out row by row, so that it can be written elsewhere.

A group is read up to the number that it had at the start. What is written meanwhile may be seen or
not, but no row that is returned refers to one that is not: episodes come first, and whatever names
an episode or entity that was not returned was written after the start, or is taken without it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gralkord.graph.connection import GraphConnection
from gralkord.graph.passages import passage_uuid
from gralkord.graph.reading import END
from gralkord.graph.spaces import META, vector_of
from gralkord.models import MAX_MESSAGES

READ_MS: Final = 1_000
# Rows in one answer, unless one write has changed more: others of the server wait for no more.
MOST_ROWS: Final = 400
FIRST_STEP: Final = 16
GROWTH: Final = 8

Row = dict[str, Any]

_META: Final = f"MATCH (m:Meta) RETURN m.seq, m.passages, m.waiting, {META}"


@dataclass(frozen=True, slots=True)
class _Sort:
    """How one kind of row is read.

    Attributes:
        match: Finds what ``x`` stands for, with ``$after < seq <= $upto``.
        rows: What is returned of it; a map of its properties first.
    """

    match: str
    rows: str

    @property
    def count(self) -> str:
        """The query that counts, and gives up at ``$limit``."""
        return f"{self.match} WITH x LIMIT $limit RETURN count(x)"

    @property
    def query(self) -> str:
        """The query that reads."""
        return f"{self.match} {self.rows}"


_EPISODES: Final = _Sort(
    "MATCH (x:Episodic) WHERE x.seq > $after AND x.seq <= $upto",
    "OPTIONAL MATCH (o:Origin)-[:PART_OF]->(x) RETURN properties(x), collect(o.key)",
)
_ENTITIES: Final = _Sort(
    "MATCH (x:Entity) WHERE x.seq > $after AND x.seq <= $upto", "RETURN properties(x), labels(x)"
)
_MENTIONS: Final = _Sort(
    "MATCH (e:Episodic) WHERE e.seq > $after AND e.seq <= $upto MATCH (e)-[x:MENTIONS]->(n:Entity)",
    "RETURN properties(x), e.uuid, n.uuid",
)
_FACTS: Final = _Sort(
    "MATCH (a)-[x:RELATES_TO]->(b) WHERE x.seq > $after AND x.seq <= $upto",
    "RETURN properties(x), a.uuid, b.uuid",
)
_PASSAGES: Final = _Sort(
    "MATCH (x:Passage) WHERE x.seq > $after AND x.seq <= $upto", "RETURN properties(x)"
)
_PLACES: Final = (
    "MATCH (p:Passage) WHERE p.uuid IN $uuids RETURN p.uuid, p.turn_id, p.part, p.ordinal"
)

# They follow from where a row is, or stand in its line by themselves.
_LEFT_OUT: Final = frozenset(
    {
        *("uuid", "seq", "vector", "group_id", "labels", "source_node_uuid", "target_node_uuid"),
        *("name_embedding", "fact_embedding", "vector_next", "unembedded"),
    }
)
_LEFT_OUT_OF_PASSAGES: Final = _LEFT_OUT | {
    *("episode", "waiting", "turn_key", "event_ms", "replaced_by"),
}


@dataclass(frozen=True, slots=True)
class GroupState:
    """What a group was like when its export began.

    Attributes:
        seq: Number of its last write.
        embedder: Fingerprint of its vectors; empty if there are none.
        tag: What stands in front of them.
        passages: How many passages it has.
        waiting: How many of them are still to be understood.
    """

    seq: int
    embedder: str
    passages: int
    waiting: int
    tag: str = ""


async def group_state(graph: GraphConnection, group: str) -> GroupState | None:
    """Return what *group* is like now; ``None`` where there is no such graph.

    Raises:
        BackendUnavailable: The graph does not answer in time.
    """
    rows = await graph.read(group, _META, timeout_ms=READ_MS)
    if not rows:
        return None
    seq, passages, waiting, embedder, tag = rows[0]
    return GroupState(seq, embedder or "", passages, waiting, tag)


@dataclass(slots=True)
class GroupExport:
    """One reading of one group.

    Attributes:
        graph: Where to read.
        group: The group id.
        upto: The number that it had at the start.
        vectors: Whether vectors are wanted.
        tag: What stands in front of those of the group's space.
    """

    graph: GraphConnection
    group: str
    upto: int
    vectors: bool = False
    tag: str = ""
    _episodes: set[str] = field(default_factory=set)
    _entities: set[str] = field(default_factory=set)
    _last_index: tuple[str, int] = ("", -1)

    async def rows(self) -> AsyncIterator[Row]:
        """Yield all rows as the values of a `TransferRow` without operator and lens.

        Raises:
            BackendUnavailable: The graph does not answer in time.
        """
        async for properties, origins in self._read(_EPISODES):
            self._episodes.add(properties["uuid"])
            yield _row("episode", properties) | ({"origins": origins} if origins else {})
        async for properties, labels in self._read(_ENTITIES):
            self._entities.add(properties["uuid"])
            types = sorted(set(labels) - {"Entity"})
            yield self._with_vector("entity", properties) | ({"labels": types} if types else {})
        async for properties, episode, entity in self._read(_MENTIONS):
            if episode in self._episodes and entity in self._entities:
                yield _row("mention", properties) | {"episode": episode, "entity": entity}
        async for properties, source, target in self._read(_FACTS):
            if row := self._fact(properties, source, target):
                yield row
        async for row in self._passages():
            yield row

    async def _read(self, sort: _Sort) -> AsyncIterator[Sequence[Any]]:
        """Yield each row of a kind once, as it was when it was seen first."""
        seen: set[str] = set()
        async for rows in self._windows(sort):
            for row in rows:
                # Links have not always had a uuid: what they connect names them as well.
                uuid = row[0].setdefault("uuid", ".".join(map(str, row[1:])))
                if uuid not in seen:
                    seen.add(uuid)
                    yield row

    async def _windows(self, sort: _Sort) -> AsyncIterator[list[list[Any]]]:
        """Yield the rows of a kind, as many at once as may be.

        A row that is rewritten meanwhile moves to a higher number, and the last window is open at
        its end: so none that was there at the start is missed.
        """
        after, step = 0, FIRST_STEP
        while after < self.upto:
            reach = min(after + step, self.upto)
            place = {"after": after, "upto": END if reach == self.upto else reach}
            limit = place | {"limit": MOST_ROWS + 1}
            found = await self.graph.read(self.group, sort.count, limit, timeout_ms=READ_MS)
            rows = found[0][0] if found else 0  # the group is dropped
            if rows > MOST_ROWS and step > 1:
                step = max(1, step // GROWTH)
                continue
            if rows:
                yield await self.graph.read(self.group, sort.query, place, timeout_ms=READ_MS)
            after = reach
            if rows * GROWTH <= MOST_ROWS:
                step *= GROWTH

    async def _passages(self) -> AsyncIterator[Row]:
        seen: set[str] = set()
        async for rows in self._windows(_PASSAGES):
            fresh = {row[0]["uuid"]: row[0] for row in rows if row[0]["uuid"] not in seen}
            seen |= fresh.keys()
            places = await self._places([each.get("replaced_by") for each in fresh.values()])
            for properties in fresh.values():
                yield self._passage(properties, places)

    async def _places(self, uuids: Sequence[str | None]) -> Mapping[str, Row]:
        """Return what the uuids of some passages are made of, where that can be told."""
        wanted = [uuid for uuid in uuids if uuid]
        if not wanted:
            return {}
        rows = await self.graph.read(self.group, _PLACES, {"uuids": wanted}, timeout_ms=READ_MS)
        found: dict[str, Row] = {}
        for uuid, turn_id, part, ordinal in rows:
            index = self._index(uuid, turn_id, part, ordinal)
            if index is not None:
                found[uuid] = {"turn_id": turn_id, "index": index, "part": part}
        return found

    def _fact(self, properties: Mapping[str, Any], source: str, target: str) -> Row | None:
        if not {source, target} <= self._entities:
            return None
        said_by = properties.get("episodes") or []
        known = [uuid for uuid in said_by if uuid in self._episodes]
        if said_by and not known:  # it came with an episode of after the start
            return None
        row = self._with_vector("fact", properties) | {"source": source, "target": target}
        if said_by:
            row["properties"]["episodes"] = known
        return row

    def _passage(self, properties: Mapping[str, Any], places: Mapping[str, Row]) -> Row:
        row = self._with_vector("passage", properties, _LEFT_OUT_OF_PASSAGES)
        episode = properties.get("episode")
        if episode in self._episodes:
            row["episode"] = episode
        elif episode or properties.get("waiting"):
            row["waiting"] = True
        index = self._index(
            properties["uuid"], properties["turn_id"], properties["part"], properties["ordinal"]
        )
        if index is not None:
            row["index"] = index
        if place := places.get(properties.get("replaced_by") or ""):
            row["replaced_by"] = place
        return row

    def _index(self, uuid: str, turn_id: str, part: int, ordinal: int) -> int | None:
        """Return the place of a passage's message in its turn, which only its uuid tells."""
        turn, first = self._last_index
        guesses = [ordinal - first] if turn == turn_id else []
        for guess in (*guesses, *range(MAX_MESSAGES)):
            index = int(guess)
            if index >= 0 and passage_uuid(self.group, turn_id, index, part) == uuid:
                self._last_index = (turn_id, ordinal - index)
                return index
        return None

    def _with_vector(
        self, kind: str, properties: Mapping[str, Any], left_out: frozenset[str] = _LEFT_OUT
    ) -> Row:
        row = _row(kind, properties, left_out)
        if self.vectors:
            stored = properties.get("vector"), properties.get("vector_next")
            if (vector := vector_of(*stored, self.tag)) is not None:
                row["vector"] = vector
        return row


def _row(kind: str, properties: Mapping[str, Any], left_out: frozenset[str] = _LEFT_OUT) -> Row:
    return {
        "kind": kind,
        "uuid": properties["uuid"],
        "properties": {
            name: value
            for name, value in sorted(properties.items())
            if name not in left_out and value is not None
        },
    }
