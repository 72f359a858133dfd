"""Finding what an erasure takes of one group's graph; nothing is changed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from gralkord.graph.connection import GraphConnection
from gralkord.graph.doomed import (
    Doomed,
    DoomedPassage,
    KnownFact,
    settle_entities,
    settle_facts,
)
from gralkord.graph.notes import LABELS
from gralkord.graph.passages import turn_key
from gralkord.graph.reading import Kind, windows
from gralkord.graph.told import without
from gralkord.models.erasure import EraseScope

READ_MS: Final = 2_000
# How many rows one query looks up or changes; others wait for it.
ROWS: Final = 500
MENTIONS_ROWS: Final = 50
# Of so few episodes and facts the server picks out what has to do with them; else all facts are
# read once.
FEW: Final = 100

T = TypeVar("T")

_PASSAGE: Final = "p.uuid, p.turn_id, p.session, p.agent"
_WINDOW: Final = "MATCH (p:Passage) WHERE p.seq > $after AND p.seq <= $upto "
_BY_VALUE: Final = {
    "session": Kind(f"{_WINDOW}AND p.session = $value RETURN {_PASSAGE}", 1_000, plain=False),
    "source": Kind(f"{_WINDOW}AND p.source = $value RETURN {_PASSAGE}", 1_000, plain=False),
    "all": Kind(f"{_WINDOW}RETURN {_PASSAGE}", 1_000, plain=False),
}
_BY_KEY: Final = f"MATCH (p:Passage) WHERE p.turn_key IN $keys RETURN {_PASSAGE}"
_BY_UUID: Final = f"MATCH (p:Passage) WHERE p.uuid IN $keys RETURN {_PASSAGE}"
_FACT: Final = (
    "f.uuid, f.episodes, f.source, f.reference_time IS NULL, f.superseded_by, f.superseded_reason, "
    "f.superseded_invalid_at, f.invalid_at, a.uuid, b.uuid"
)
_FACTS_WINDOW: Final = "MATCH (a)-[f:RELATES_TO]->(b) WHERE f.seq > $after AND f.seq <= $upto "
_FACTS: Final = Kind(f"{_FACTS_WINDOW}RETURN {_FACT}", 1_000, plain=False)
_FACTS_SAID: Final = Kind(
    f"{_FACTS_WINDOW}AND (any(e IN f.episodes WHERE e IN $episodes) OR f.source = $source) "
    f"RETURN {_FACT}",
    wanted=1_000,
    plain=False,
)
_FACTS_ENDED: Final = Kind(
    f"{_FACTS_WINDOW}AND f.superseded_by IN $facts RETURN {_FACT}", 1_000, plain=False
)
_FACTS_BY_UUID: Final = f"MATCH (a)-[f:RELATES_TO]->(b) WHERE f.uuid IN $keys RETURN {_FACT}"
_FACTS_ABOUT: Final = (
    "MATCH (n:Entity)-[f:RELATES_TO]-(o) WHERE n.uuid IN $keys "
    "WITH DISTINCT f, startNode(f) AS a, endNode(f) AS b "
    f"RETURN {_FACT}"
)
_SEQ: Final = "MATCH (m:Meta) RETURN m.seq"
_EPISODES_OF: Final = (
    "MATCH (p:Passage)-[:PART_OF]->(e:Episodic) WHERE p.uuid IN $keys RETURN DISTINCT e.uuid"
)
_EPISODES_OF_ORIGINS: Final = (
    "MATCH (o:Origin)-[:PART_OF]->(e:Episodic) WHERE o.key IN $keys RETURN DISTINCT e.uuid"
)
_PASSAGES_OF: Final = (
    f"MATCH (p:Passage)-[:PART_OF]->(e:Episodic) WHERE e.uuid IN $keys RETURN DISTINCT {_PASSAGE}"
)
_ORIGINS_OF: Final = (
    "MATCH (o:Origin)-[:PART_OF]->(e:Episodic) WHERE e.uuid IN $keys RETURN DISTINCT o.key, e.lens"
)
_MENTIONED: Final = (
    "MATCH (e:Episodic)-[:MENTIONS]->(n:Entity) WHERE e.uuid IN $keys RETURN DISTINCT n.uuid"
)
_MENTIONING: Final = (
    "MATCH (n:Entity) WHERE n.uuid IN $keys OPTIONAL MATCH (e:Episodic)-[:MENTIONS]->(n) "
    "RETURN n.uuid, collect(e.uuid)"
)
_TOLD: Final = (
    "MATCH (n:Entity) WHERE n.uuid IN $keys AND n.told_in IS NOT NULL RETURN n.uuid, n.told_in"
)
# Of what was taken from nothing else the words are kept in what was made of it alone.
_LONE_EPISODES: Final = (
    "MATCH (e:Episodic)-[:MENTIONS]->(n:Entity) WHERE n.uuid IN $keys AND NOT (e)<-[:PART_OF]-() "
    "WITH DISTINCT e MATCH (e)-[:MENTIONS]->(o:Entity) RETURN e.uuid, collect(o.uuid)"
)
_COMMUNITIES: Final = (
    "MATCH (n:Entity) WHERE n.uuid IN $keys MATCH (c:Community)-[:HAS_MEMBER]->(n) "
    "RETURN DISTINCT c.uuid"
)
_TEXTS: Final = (
    "MATCH ()-[f:RELATES_TO]->() WHERE f.uuid IN $keys RETURN f.uuid, f.fact, f.invalid_at, "
    "f.withdrawn_at"
)
_COUNTS: Final = {
    "passages": "MATCH (n:Passage) RETURN count(n)",
    "episodes": "MATCH (n:Episodic) RETURN count(n)",
    "facts": "MATCH ()-[f:RELATES_TO]->() RETURN count(f)",
    "notes": "MATCH (n:{label}) RETURN count(n.note_kind)",
    "entities": "MATCH (n:Entity) RETURN count(n)",
    "communities": "MATCH (n:Community) RETURN count(n)",
}


@dataclass(frozen=True, slots=True)
class Named:
    """What an erasure names in one group.

    Attributes:
        scope: Which passages; of a shared group there are none.
        origins: Keys of turns of other groups, see `gralkord.graph.drafts.origin_key`.
        partly: Those of them of which something is left.
    """

    scope: EraseScope | None = None
    origins: frozenset[str] = frozenset()
    partly: frozenset[str] = frozenset()


class GroupFinder:
    """Finds in the graphs of groups."""

    def __init__(self, graph: GraphConnection) -> None:
        self._graph = graph

    async def find(self, group: str, named: Named) -> Doomed:
        """Return what goes of *group*; nothing is changed.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        doomed = Doomed()
        scope = named.scope
        if scope is not None:
            async for passage in self.passages(group, scope):
                doomed.passages[passage.uuid] = passage
        doomed.episodes = set(await self._keyed(group, _EPISODES_OF, doomed.passages))
        if named.origins:
            doomed.episodes |= set(await self._keyed(group, _EPISODES_OF_ORIGINS, named.origins))
            for key, lens in await self._rows(group, _ORIGINS_OF, doomed.episodes):
                doomed.origins.add(key)
                if key not in named.origins or key in named.partly:
                    doomed.again_elsewhere.setdefault(key, set()).add(lens or "global")
        for row in await self._rows(group, _PASSAGES_OF, doomed.episodes):
            if row[0] not in doomed.passages:
                doomed.again.append(DoomedPassage(*row))
        if doomed.episodes or scope is not None:
            await self._find_facts(group, doomed, scope)
        return doomed

    async def passages(self, group: str, scope: EraseScope) -> AsyncIterator[DoomedPassage]:
        """Yield the passages of a scope, or all where it is a whole group's.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        kind = scope.kind
        if kind in {"turn", "ids"}:
            keys = scope.ids if kind == "ids" else [turn_key(scope.turn or "")]
            for row in await self._rows(group, _BY_UUID if kind == "ids" else _BY_KEY, keys):
                if kind == "ids" or row[1] == scope.turn:
                    yield DoomedPassage(*row)
            return
        wanted = _BY_VALUE.get(kind, _BY_VALUE["all"])
        value = {"session": scope.session, "source": scope.source}.get(kind)
        async for rows in self._windows(group, wanted, {"value": value}):
            for row in rows:
                yield DoomedPassage(*row)

    async def of_sessions(self, group: str, sessions: Collection[str]) -> list[DoomedPassage]:
        """Return all passages of some sessions."""
        found: list[DoomedPassage] = []
        for session in sessions:
            kind = _BY_VALUE["session"]
            async for rows in self._windows(group, kind, {"value": session}):
                found += [DoomedPassage(*row) for row in rows]
        return found

    async def counts(self, group: str) -> dict[str, int]:
        """Return how much a whole group has."""
        found: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
        for name, query in _COUNTS.items():
            # To look at each fact for whether it is a note would take seconds in a large group.
            for label in LABELS.values() if name == "notes" else ("",):
                asked = query.format(label=label)
                rows = await self._graph.read(group, asked, timeout_ms=READ_MS)
                found[name] += int(rows[0][0]) if rows else 0
        for name in ("facts", "entities"):
            found[name] = max(0, found[name] - found["notes"])
        return dict(found)

    async def _find_facts(self, group: str, doomed: Doomed, scope: EraseScope | None) -> None:
        named = scope.ids if scope is not None else ()
        source = scope.source if scope is not None else None
        few = len(doomed.episodes) + len(named) <= FEW and source is None
        facts = await self._near(group, doomed, named) if few else await self._facts(group, _FACTS)
        settle_facts(doomed, facts, named=named, source=source)
        touched = set(await self._keyed(group, _MENTIONED, doomed.episodes))
        touched |= {end for uuid in doomed.facts for end in facts[uuid].ends}
        await self._find_notes(group, doomed)
        touched -= doomed.notes
        doomed.communities |= set(await self._keyed(group, _COMMUNITIES, touched))
        mentions = dict(await self._rows(group, _MENTIONING, touched, MENTIONS_ROWS))
        if few:
            facts = _known(await self._rows(group, _FACTS_ABOUT, touched, MENTIONS_ROWS))
        about = [fact for fact in facts.values() if fact.uuid not in doomed.facts]
        about = [fact for fact in about if set(fact.ends) & touched]
        settle_entities(doomed, mentions, await self._texts(group, doomed, about))
        doomed.entities |= doomed.notes
        for uuid, told in await self._rows(group, _TOLD, touched - doomed.entities):
            if change := without(told, doomed.episodes):
                doomed.fields.append({"uuid": uuid, **change})

    async def _find_notes(self, group: str, doomed: Doomed) -> None:
        """Find the episodes that were written for notes alone, all of which go."""
        for uuid, nodes in await self._rows(group, _LONE_EPISODES, doomed.notes, MENTIONS_ROWS):
            if doomed.notes.issuperset(nodes):
                doomed.lone.add(uuid)
        doomed.episodes |= doomed.lone

    async def _near(
        self, group: str, doomed: Doomed, named: Collection[str]
    ) -> dict[str, KnownFact]:
        """Return the facts that may go, those that they have ended, and those that ended them."""
        params: dict[str, Any] = {"episodes": sorted(doomed.episodes), "source": None}
        facts = await self._facts(group, _FACTS_SAID, params) if doomed.episodes else {}
        facts |= _known(await self._rows(group, _FACTS_BY_UUID, named))
        if not facts and not doomed.episodes:
            return facts
        later = {fact.superseded_by for fact in facts.values() if fact.superseded_by}
        # What has ended a note may be an episode.
        ended = await self._facts(
            group, _FACTS_ENDED, {"facts": sorted({*facts, *doomed.episodes})}
        )
        return facts | ended | _known(await self._rows(group, _FACTS_BY_UUID, later))

    async def _facts(
        self, group: str, kind: Kind, params: Mapping[str, Any] | None = None
    ) -> dict[str, KnownFact]:
        found: dict[str, KnownFact] = {}
        async for rows in self._windows(group, kind, params or {}):
            found |= _known(rows)
        return found

    async def _texts(
        self, group: str, doomed: Doomed, facts: Sequence[KnownFact]
    ) -> dict[str, list[str]]:
        """Return for each entity the facts that are left to it, those that hold first."""
        back = {row["uuid"] for row in doomed.revived if row["back"]}
        said: dict[str, tuple[bool, str]] = {}
        for uuid, text, invalid_at, withdrawn_at in await self._rows(
            group, _TEXTS, [fact.uuid for fact in facts]
        ):
            holds = (invalid_at is None or uuid in back) and withdrawn_at is None
            said[uuid] = (not holds, text or "")
        found: dict[str, list[str]] = {}
        for fact in sorted(facts, key=lambda one: (said.get(one.uuid, (True, ""))[0], one.uuid)):
            for end in dict.fromkeys(fact.ends):
                if fact.uuid in said:
                    found.setdefault(end, []).append(said[fact.uuid][1])
        return found

    async def _windows(
        self, group: str, kind: Kind, params: Mapping[str, Any]
    ) -> AsyncIterator[list[list[Any]]]:
        found = await self._graph.read(group, _SEQ, timeout_ms=READ_MS)
        if not found:
            return
        reading: Any = _With(self._graph, params)
        pages = windows(reading, group, kind, 0, found[0][0], timeout_ms=READ_MS)
        async for _, rows in pages:
            yield rows

    async def _keyed(self, group: str, query: str, keys: Collection[str]) -> list[str]:
        return [row[0] for row in await self._rows(group, query, keys)]

    async def _rows(
        self, group: str, query: str, keys: Collection[str], size: int = ROWS
    ) -> list[list[Any]]:
        found: list[list[Any]] = []
        for some in slices(sorted(keys), size):
            found += await self._graph.read(group, query, {"keys": some}, timeout_ms=READ_MS)
        return found


class _With:
    """Reads with some parameters in each query."""

    def __init__(self, graph: GraphConnection, params: Mapping[str, Any]) -> None:
        self._graph = graph
        self._params = params

    async def read(
        self, group: str, query: str, params: Mapping[str, Any], **options: Any
    ) -> list[list[Any]]:
        return await self._graph.read(group, query, {**self._params, **params}, **options)


def _known(rows: Sequence[Sequence[Any]]) -> dict[str, KnownFact]:
    found = {}
    for uuid, episodes, *more, start, end in rows:
        found[uuid] = KnownFact(uuid, tuple(episodes or ()), (start, end), *more)
    return found


def slices(rows: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield *rows* in lists of at most *size*."""
    for start in range(0, len(rows), size):
        yield list(rows[start : start + size])
