"""Triples: facts that are told as such, written in one fenced query without a model."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import structlog

from gralkord.clock import Clock, to_iso
from gralkord.errors import BackendUnavailable, InvalidInput
from gralkord.graph import schema, spaces
from gralkord.graph.connection import GraphConnection
from gralkord.graph.embedding import Made, embedded
from gralkord.graph.resolution import Resolver, relation_name
from gralkord.graph.rows import EntityRow, FactRow, to_ms
from gralkord.graph.sanitise import MAX_FACT_CHARS, clean_text
from gralkord.graph.validity import View, fact_ending
from gralkord.models.triples import AddedTriple, Triple, TripleEnd
from gralkord.providers.base import Embedder
from gralkord.providers.embedders.choice import Embedders

if TYPE_CHECKING:
    from gralkord.graph.cache import CachePool, GroupCache

log = structlog.get_logger(__name__)

READ_MS: Final = 1_000
REASON: Final = "same_relation_and_source"

_NAMESPACE: Final = uuid.UUID("d3a3bb0e-61a4-5d0b-8c55-0f0a4b7a9c11")

# Who held the lease before, and is only late, must not write what is read from now on.
_BEGIN: Final = (
    "MATCH (m:Meta) WHERE m.fence_understand <= $epoch SET m.fence_understand = $epoch RETURN m.seq"
)
_EMBEDDER: Final = f"{spaces.ENTER} WITH m "
_ENTITIES: Final = (
    "UNWIND $entities AS row MERGE (n:Entity {uuid: row.uuid}) SET n += row.values, n.seq = m.seq "
    f"SET n.vector = coalesce({spaces.OURS}, CASE WHEN NOT row.worded THEN n.vector END), "
    "n.vector_next = CASE WHEN NOT row.worded THEN n.vector_next END "
    f"SET n.unembedded = {spaces.waits('n')} WITH m, count(n) AS rows "
)
_FACTS: Final = (
    "UNWIND $facts AS row MATCH (a:Entity {uuid: row.source}) MATCH (b:Entity {uuid: row.target}) "
    "MERGE (a)-[f:RELATES_TO {uuid: row.uuid}]->(b) SET f += row.values, f.seq = m.seq "
    f"SET f.vector = coalesce({spaces.OURS}, CASE WHEN NOT row.worded THEN f.vector END), "
    "f.vector_next = CASE WHEN NOT row.worded THEN f.vector_next END "
    f"SET f.unembedded = {spaces.waits('f')} WITH m, count(f) AS rows "
)


class TripleWriter:
    """Adds triples to groups. Whoever calls holds the group's lease in the understand lane."""

    def __init__(
        self,
        connection: GraphConnection,
        caches: CachePool,
        embedders: Embedders | Embedder | None,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._caches = caches
        self._embedders = Embedders.of(embedders)
        self._clock = clock

    async def add(self, group: str, epoch: int, triples: Sequence[Triple]) -> dict[str, Any]:
        """Write triples: everything at once, or nothing. Those that are known stay as they are.

        Args:
            group: The group id; its graph is made if need be.
            epoch: The lease's epoch.
            triples: In the order in which they end each other.

        Returns:
            `triples`, an `AddedTriple` for each, and `entities`, the ids of new ones; as JSON.

        Raises:
            LeaseLost: Another process holds a later epoch; nothing was written.
            BackendUnavailable: The graph does not answer.
            NotFound: An entity that a triple names by its id is not there; nothing was written.
            InvalidInput: A triple is not acceptable; nothing was written.
        """
        await self._connection.ensure_group(group)
        await self._write(group, epoch, _BEGIN, {"epoch": epoch})
        known = await self._caches.fresh(group, timeout_ms=READ_MS)
        if known is None:
            raise self._vanished(group)
        draft = Draft.of(known, self._clock.now())
        added = [draft.add(triple, f"triples.{at}") for at, triple in enumerate(triples)]
        if not draft.empty:
            made, vectors = await embedded(
                self._embedders, group, known.space.embedder, draft.texts(), stage="triples"
            )
            query, params = draft.statement(epoch, made, vectors)
            await self._write(group, epoch, query, params)
        log.debug("triples_added", group=group, facts=len(draft.facts))
        return {
            "triples": [each.model_dump() for each in added],
            "entities": draft.entities.created,
        }

    async def _write(self, group: str, epoch: int, query: str, params: dict[str, Any]) -> None:
        # Written again it would be the same.
        if await self._connection.write(group, query, params, resend=True):
            return
        raise await schema.refused(self._connection, group, epoch) or self._vanished(group)

    def _vanished(self, group: str) -> BackendUnavailable:
        self._connection.forget_group(group)
        return BackendUnavailable(f"group {group} was dropped under way")


@dataclass(slots=True)
class Draft:
    """What some triples make of what a group knows; nothing is written yet.

    Attributes:
        cache: What the group knows.
        now: The time, ISO 8601.
        now_ms: The same in Unix milliseconds.
        entities: The entities they are about.
        facts: The facts that are new or change, as they are to be.
        values: The properties of those that are to be written, by uuid.
        worded: Uuids of those whose text is new.
    """

    cache: GroupCache
    now: str
    now_ms: int
    entities: Resolver
    facts: dict[str, FactRow] = field(default_factory=dict)
    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    worded: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, cache: GroupCache, now: datetime) -> Draft:
        """Return the draft of no triples at all."""
        moment = to_iso(now)
        return cls(cache, moment, to_ms(moment), Resolver.of(cache, moment))

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.values or self.entities.changed)

    def add(self, triple: Triple, place: str) -> AddedTriple:
        """Add a triple.

        Args:
            triple: The triple.
            place: Where it stands in the request.

        Raises:
            NotFound: An entity that it names by its id is not there.
            InvalidInput: It is not acceptable.
        """
        relation = relation_name(triple.predicate)
        if not relation:
            raise InvalidInput(
                f"{place}.predicate: has no letter or digit", field=f"{place}.predicate"
            )
        subject = self.entities.resolve(triple.subject, f"{place}.subject")
        target = self.entities.resolve(triple.object, f"{place}.object")
        # The object may have named the subject.
        subject = self.entities.changed.get(subject.uuid, subject)
        known = self._same(triple, relation, subject, target)
        if known is None:
            row = self._make(triple, relation, subject, target)
        else:
            row = self._update(known, triple)
        return AddedTriple(
            id=row.uuid,
            created=known is None,
            subject=TripleEnd(id=subject.uuid, name=subject.name),
            predicate=row.name,
            object=TripleEnd(id=target.uuid, name=target.name),
            superseded=self._supersede(row, triple.valid_at) if triple.supersede else [],
            invalidated=row.withdrawn_at is not None,
        )

    def texts(self) -> dict[str, str]:
        """Return the texts that need a vector, by uuid."""
        changed = self.entities.changed
        names = {key: changed[key].name for key in changed if key in self.entities.named}
        return names | {key: self.facts[key].fact for key in self.facts if key in self.worded}

    def statement(
        self, epoch: int, made: Made, vectors: dict[str, str]
    ) -> tuple[str, dict[str, Any]]:
        """Return the query that writes everything, and its parameters.

        Args:
            epoch: The lease's epoch.
            made: Which embedder the vectors are from.
            vectors: By uuid.
        """
        params: dict[str, Any] = {
            "epoch": epoch,
            "embedder": made.embedder,
            "embeds": made.embeds,
        }
        worded = self.texts()
        parts = [schema.UNDERSTAND_FENCE, _EMBEDDER]
        if self.entities.changed:
            params["entities"] = [
                {
                    "uuid": key,
                    "values": self._entity(row),
                    "vector": vectors.get(key),
                    "worded": key in worded,
                }
                for key, row in self.entities.changed.items()
            ]
            parts.append(_ENTITIES)
        if self.values:
            params["facts"] = [
                {
                    "uuid": key,
                    "source": self.facts[key].source_uuid,
                    "target": self.facts[key].target_uuid,
                    "values": values,
                    "vector": vectors.get(key),
                    "worded": key in worded,
                }
                for key, values in self.values.items()
            ]
            parts.append(_FACTS)
        return "".join(parts) + "RETURN m.seq", params

    def _entity(self, row: EntityRow) -> dict[str, Any]:
        values: dict[str, Any] = {"name": row.name, "handles": list(row.handles)}
        if not row.handles:
            del values["handles"]
        if row.uuid in self.entities.created:
            values |= {
                "group_id": row.group_id,
                "summary": row.summary,
                "created_at": row.created_at,
            }
        return values

    def _current(self, rows: Iterable[FactRow]) -> dict[str, FactRow]:
        return {row.uuid: self.facts.get(row.uuid, row) for row in rows}

    def _related(self, subject: str, relation: str) -> list[FactRow]:
        """Return the facts of a subject that have this relation, oldest first."""
        rows = self._current(self.cache.facts.touching(subject)) | self.facts
        found = [
            row
            for row in rows.values()
            if row.source_uuid == subject and relation_name(row.name) == relation
        ]
        return sorted(found, key=lambda row: (row.created_at or "", row.uuid))

    def _same(
        self, triple: Triple, relation: str, subject: EntityRow, target: EntityRow
    ) -> FactRow | None:
        """Return the known fact that says the same.

        A triple without any time is the same as a fact that holds, or that somebody has
        invalidated; what was superseded since is told anew.
        """
        related = self._related(subject.uuid, relation)
        rows = [row for row in related if row.target_uuid == target.uuid]
        start_ms = to_ms(to_iso(triple.valid_at) if triple.valid_at else None)
        rows.sort(key=lambda row: to_ms(row.valid_at) != start_ms)
        if triple.valid_at or triple.invalid_at:
            return next((row for row in rows if to_ms(row.valid_at) == start_ms), None)
        view = View(self.now_ms)
        holding = (row for row in rows if not fact_ending(row).hides(view))
        return next(holding, None) or next((row for row in rows if row.withdrawn_at), None)

    def _make(
        self, triple: Triple, relation: str, subject: EntityRow, target: EntityRow
    ) -> FactRow:
        start = to_iso(triple.valid_at) if triple.valid_at else None
        key = _fact_uuid(self.cache.group, subject.uuid, relation, target.uuid, start)
        if key in self.facts or self.cache.facts.by_uuid([key]):
            if not (triple.valid_at or triple.invalid_at):
                start = self.now  # it held once, and holds again
            key = _fact_uuid(self.cache.group, subject.uuid, relation, target.uuid, start, self.now)
        text = clean_text(triple.fact or "", MAX_FACT_CHARS)
        row = FactRow(
            uuid=key,
            name=relation,
            fact=text or f"{subject.name} {relation.replace('_', ' ').lower()} {target.name}",
            source_uuid=subject.uuid,
            target_uuid=target.uuid,
            group_id=self.cache.group,
            created_at=self.now,
            valid_at=start,
            invalid_at=to_iso(triple.invalid_at) if triple.invalid_at else None,
            expired_at=None,
            reference_time=None,
            episodes=(),
            attributes={},
            seq=0,
            source=triple.source,
            offset=triple.offset,
            confidence=triple.confidence,
        )
        names = ("name", "fact", "group_id", "created_at", "valid_at", "invalid_at")
        values = {name: getattr(row, name) for name in (*names, "source", "offset", "confidence")}
        ends = {"source_node_uuid": subject.uuid, "target_node_uuid": target.uuid, "episodes": []}
        self.facts[key] = row
        self.values[key] = {name: each for name, each in values.items() if each is not None} | ends
        self.worded.add(key)
        return row

    def _update(self, row: FactRow, triple: Triple) -> FactRow:
        """Take over what a triple says more about a known fact."""
        told: dict[str, Any] = {
            "fact": clean_text(triple.fact or "", MAX_FACT_CHARS) or None,
            "invalid_at": to_iso(triple.invalid_at) if triple.invalid_at else None,
            "source": triple.source,
            "offset": triple.offset,
            "confidence": triple.confidence,
        }
        if told["fact"] not in {None, row.fact}:
            self.worded.add(row.uuid)
        return self._change(row, {key: value for key, value in told.items() if value is not None})

    def _change(self, row: FactRow, values: dict[str, Any]) -> FactRow:
        new = {key: value for key, value in values.items() if getattr(row, key) != value}
        if not new:
            return row
        row = replace(row, **new)
        self.facts[row.uuid] = row
        self.values.setdefault(row.uuid, {}).update(new)
        return row

    def _supersede(self, new: FactRow, valid_at: datetime | None) -> list[str]:
        """End the other facts of the subject and relation; return the uuids of those that ended.

        What begins later is not ended: it ends the new fact.
        """
        start = to_iso(valid_at) if valid_at else self.now
        start_ms = to_ms(start)
        ended, later = [], []
        for old in self._related(new.source_uuid, relation_name(new.name)):
            if old.uuid == new.uuid or new.uuid in old.undone:
                continue
            since = old.valid_at or old.reference_time
            if since and to_ms(since) > start_ms:
                later.append((to_ms(since), since, old))
            elif fact_ending(old).ms > start_ms:
                self._end(old, start, new.uuid)
                ended.append(old.uuid)
        if later:
            since_ms, since, old = min(later, key=lambda each: (each[0], each[2].uuid))
            if fact_ending(new).ms > since_ms and old.uuid not in new.undone:
                self._end(new, since, old.uuid)
        return ended

    def _end(self, old: FactRow, at: str, by: str) -> None:
        before = old.superseded_invalid_at if old.superseded_by else old.invalid_at
        self._change(
            old,
            {
                "invalid_at": at,
                "expired_at": self.now,
                "superseded_by": by,
                "superseded_reason": REASON,
                "superseded_at": self.now,
                "superseded_invalid_at": before,
            },
        )
        log.info("fact_superseded", group=self.cache.group, old=old.uuid, new=by, reason=REASON)


def _fact_uuid(*parts: str | None) -> str:
    """Return the uuid of a fact: told again it is the same."""
    return str(uuid.uuid5(_NAMESPACE, "\x00".join(part or "" for part in parts)))
