"""Writing rows of an export into a group: what is there already stays as it is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from gralkord.errors import BackendUnavailable, LeaseLost
from gralkord.graph import schema, spaces
from gralkord.graph.connection import GraphConnection
from gralkord.graph.embedding import Made, embedded, space_of
from gralkord.graph.notes import LABELS
from gralkord.graph.passages import MAX_CHARS, passage_uuid, turn_key
from gralkord.models.transfer import PassagePlace, TransferRow
from gralkord.providers.base import Embedder
from gralkord.providers.embedders.choice import Embedders, fingerprint_of

MAX_ROWS: Final = 200

Row = dict[str, Any]

_NAMESPACE: Final = uuid.UUID("3d5c1f5e-52f4-5d55-9a3c-0c7c1d0f6a55")

_FENCE: Final = f"{schema.UNDERSTAND_FENCE}{spaces.ENTER} WITH m UNWIND $rows AS row "
_VECTOR: Final = (
    f"vector = {spaces.OURS}, x.unembedded = CASE WHEN $embeds AND "
    "($embedder = '' OR m.embedder <> $embedder) THEN true END"
)
# The words of a note are those of its fact, and so is its vector.
_NODE_VECTOR: Final = _VECTOR.replace(
    "$embeds AND", "$embeds AND row.properties.note_kind IS NULL AND"
)
# A row was created by this write if it carries this write's number.
_ANSWER: Final = "RETURN collect(row.number), collect(CASE WHEN x.seq = m.seq THEN 1 END)"
_QUERIES: Final[Mapping[str, str]] = {
    "episode": "MERGE (x:Episodic {uuid: row.uuid}) "
    "ON CREATE SET x = row.properties, x.seq = m.seq " + _ANSWER,
    "entity": "MERGE (x:Entity {uuid: row.uuid}) "
    f"ON CREATE SET x = row.properties, x.seq = m.seq, x.{_NODE_VECTOR} " + _ANSWER,
    "mention": "MATCH (e:Episodic {uuid: row.episode}) MATCH (n:Entity {uuid: row.entity}) "
    "MERGE (e)-[x:MENTIONS]->(n) ON CREATE SET x += row.properties, x.seq = m.seq " + _ANSWER,
    # A note leads from its own node to itself, and nothing else to or from that node.
    "fact": "MATCH (a:Entity {uuid: row.source}) MATCH (b:Entity {uuid: row.target}) "
    "WHERE coalesce(a.note_kind, '') = coalesce(row.properties.note_kind, '') "
    "AND coalesce(b.note_kind, '') = coalesce(row.properties.note_kind, '') WITH m, row, a, b "
    "MERGE (a)-[x:RELATES_TO {uuid: row.uuid}]->(b) "
    f"ON CREATE SET x += row.properties, x.seq = m.seq, x.{_VECTOR} " + _ANSWER,
    "passage": "MERGE (x:Passage {uuid: row.uuid}) "
    "ON CREATE SET x = row.properties, x.seq = m.seq, "
    f"x.waiting = CASE WHEN row.waiting THEN true END, x.{_VECTOR} "
    "WITH m, collect(row.number) AS numbers, collect(CASE WHEN x.seq = m.seq THEN 1 END) AS made, "
    "collect(CASE WHEN x.seq = m.seq AND row.waiting THEN 1 END) AS waiting "
    "SET m.passages = m.passages + size(made), m.waiting = m.waiting + size(waiting) "
    "RETURN numbers, made",
}
_LABELS: Final = "MATCH (x:Entity {{uuid: row.uuid}}) SET x{labels} " + _ANSWER
_ORIGINS: Final = (
    "MATCH (e:Episodic {uuid: row.episode}) MERGE (o:Origin {key: row.key}) "
    "MERGE (o)-[x:PART_OF]->(e) ON CREATE SET x.seq = m.seq " + _ANSWER
)
# Until its episode is linked to it, a passage waits: so nothing is understood twice.
_LINKS: Final = (
    "MATCH (x:Passage {uuid: row.uuid}) WHERE x.waiting MATCH (e:Episodic {uuid: row.episode}) "
    "MERGE (x)-[r:PART_OF]->(e) ON CREATE SET r.seq = m.seq "
    "SET x.episode = e.uuid, x.waiting = NULL, x.seq = m.seq "
    "WITH m, collect(row.number) AS numbers SET m.waiting = m.waiting - size(numbers) "
    "RETURN numbers, [] AS made"
)
_FENCE_OF: Final = "MATCH (m:Meta) RETURN m.fence_understand"


@dataclass(frozen=True, slots=True)
class Written:
    """What became of some rows.

    Attributes:
        created: How many were new.
        numbers: Which are there now, by their place among the rows.
    """

    created: int
    numbers: frozenset[int]


@dataclass(frozen=True, slots=True)
class RowWriter:
    """Writes rows of an export into groups. Whoever calls holds the understand lease."""

    graph: GraphConnection
    embedders: Embedders | Embedder | None

    async def write(
        self, group: str, epoch: int, rows: Sequence[TransferRow], *, origin: str, embedder: str
    ) -> Written:
        """Write rows that are not there yet; those that are stay as they are.

        What a row refers to has to be there or to stand before it, or else it is left out.

        Args:
            group: The group id; its graph is made if need be.
            epoch: The lease's epoch.
            rows: In the order of the file.
            origin: Id of the group that they were exported from.
            embedder: Fingerprint of the rows' own vectors.

        Raises:
            LeaseLost: Another process holds a later epoch.
            BackendUnavailable: The graph does not answer.
            GralkorError: The embedder's failure.
        """
        await self.graph.ensure_group(group)
        made, vectors = await self._vectors(group, rows, embedder)
        load = _Load(group, origin, vectors)
        run = _Run(self.graph, group, epoch, made)
        created, numbers = 0, set[int]()
        for kind, some in groupby(enumerate(rows), lambda pair: pair[1].kind):
            for chunk in _chunks([load.row(number, row) for number, row in some]):
                there, new = await run.query(_QUERIES[kind], chunk)
                created += new
                numbers |= there
        for labels, entities in load.labels.items():
            names = "".join(f":{label}" for label in labels)  # words, as the model has checked
            await run.follow(_LABELS.format(labels=names), entities)
        await run.follow(_ORIGINS, load.origins)
        await run.follow(_LINKS, load.links)
        return Written(created, frozenset(numbers))

    async def _vectors(
        self, group: str, rows: Sequence[TransferRow], theirs: str
    ) -> tuple[Made, Mapping[int, str]]:
        """Return the vector of each row by its place, and which embedder they are from.

        Vectors of a file are taken where they are of the group's space, or where we can make none.
        """
        embedders = Embedders.of(self.embedders)
        given = {
            number: row.vector
            for number, row in enumerate(rows)
            if row.vector and _embedded_text(row) is not None
        }
        space = await space_of(self.graph, group)
        embedder = embedders.fitting(space)
        takes = embedder is not None and embedder.fits(theirs)
        ours = space or (theirs if takes else fingerprint_of(embedder))
        if embedders.present is None and not space:
            return Made(theirs if given else ""), given
        known = given if theirs == ours else {}
        missing = {
            number: text
            for number, row in enumerate(rows)
            if number not in known and (text := _embedded_text(row))
        }
        made, vectors = await embedded(embedders, group, space, missing, stage="import")
        if not known:
            return made, vectors
        # Of some that were left out the rest is not marked; `gralkord reembed` finds them.
        return Made(ours, made.embeds), {**known, **vectors}


@dataclass(slots=True)
class _Load:
    """Rows as parameters of queries, and the links that are made after them."""

    group: str
    origin: str
    vectors: Mapping[int, str]
    labels: dict[tuple[str, ...], list[Row]] = field(default_factory=dict)
    origins: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)

    def row(self, number: int, row: TransferRow) -> Row:
        """Return one row."""
        properties: Row = {**row.properties, "uuid": row.uuid}
        found: Row = {"number": number, "properties": properties}
        if number in self.vectors:
            found["vector"] = self.vectors[number]
        if row.kind == "passage":
            properties |= self._passage(row)
            found["waiting"] = row.waiting or row.episode is not None
            if row.episode is not None:
                link = {"uuid": properties["uuid"], "episode": row.episode, "number": number}
                self.links.append(link)
        else:
            properties["group_id"] = self.group
        if row.kind == "fact":
            properties |= {"source_node_uuid": row.source, "target_node_uuid": row.target}
            found |= {"source": row.source, "target": row.target}
        if labels := _labels(row):
            self.labels.setdefault(labels, []).append({"uuid": row.uuid, "number": number})
        if row.kind == "mention":
            found |= {"episode": row.episode, "entity": row.entity}
        if row.kind == "episode":
            properties["done"] = True
            self.origins += [
                {"episode": row.uuid, "key": key, "number": number} for key in row.origins
            ]
        return found | {"uuid": properties["uuid"]}

    def _passage(self, row: TransferRow) -> Row:
        """Return what follows from where a passage is written, and from its own properties."""
        properties = row.properties
        turn_id, part = str(properties["turn_id"]), properties["part"]
        moment = datetime.fromisoformat(str(properties["event_time"]))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        assert isinstance(part, int), "the model has checked it"
        place = None if row.index is None else (turn_id, row.index, part)
        found: Row = {
            "uuid": self._uuid(row.uuid, place),
            "event_ms": int(moment.timestamp() * 1000),
            "turn_key": turn_key(turn_id),
        }
        if row.replaced_by is not None:
            found["replaced_by"] = _uuid_at(self.group, row.replaced_by)
        return found

    def _uuid(self, uuid_there: str, place: tuple[str, int, int] | None) -> str:
        """Return the uuid of a passage here; it depends on the group.

        So a turn that is captured here again is the same one.
        """
        if self.group == self.origin:
            return uuid_there
        if place is not None:
            return passage_uuid(self.group, *place)
        return str(uuid.uuid5(_NAMESPACE, f"{self.group}\x00{uuid_there}"))


@dataclass(frozen=True, slots=True)
class _Run:
    """Queries of one lease."""

    graph: GraphConnection
    group: str
    epoch: int
    made: Made

    async def query(self, query: str, rows: Sequence[Row]) -> tuple[set[int], int]:
        """Write some rows; return the numbers of those that are there, and how many are new."""
        params = {
            "epoch": self.epoch,
            "embedder": self.made.embedder,
            "embeds": self.made.embeds,
            "rows": list(rows),
        }
        # Written again they are the same; only who was first to create them would be told wrongly.
        found = await self.graph.write(self.group, _FENCE + query, params, resend=True)
        numbers, made = found[0] if found else ([], [])
        if not numbers:
            await self._check_fence()
        return set(numbers), len(made)

    async def follow(self, query: str, rows: Sequence[Row]) -> None:
        """Make links, if there are any to be made."""
        for chunk in _chunks(rows):
            await self.query(query, chunk)

    async def _check_fence(self) -> None:
        """Tell rows that could not be written from a lease that is lost."""
        found = await self.graph.read(self.group, _FENCE_OF)
        if not found:
            self.graph.forget_group(self.group)
            raise BackendUnavailable(f"group {self.group} was dropped under way")
        if found[0][0] > self.epoch:
            raise LeaseLost(
                f"group {self.group} is at the epoch {found[0][0]}, this process has {self.epoch}"
            )


def _uuid_at(group: str, place: PassagePlace) -> str:
    return passage_uuid(group, place.turn_id, place.index, place.part)


def _labels(row: TransferRow) -> tuple[str, ...]:
    """Return the labels of an entity, besides that it is one."""
    if row.kind != "entity":
        return ()
    if (note_kind := row.properties.get("note_kind")) is not None:
        return tuple(LABELS[kind] for kind in LABELS if kind == note_kind)
    return tuple(sorted(set(row.labels) - {"Entity"}))


def _embedded_text(row: TransferRow) -> str | None:
    """Return what the vector of a row is made of, as when it was written first."""
    if row.kind == "passage":
        return f"{row.properties['speaker']}: {row.properties['text']}"
    if row.kind in {"entity", "fact"}:
        if row.kind == "entity" and "note_kind" in row.properties:
            return None
        text = row.properties["name" if row.kind == "entity" else "fact"]
        return str(text).replace("\n", " ")
    return None


def _chunks(rows: Sequence[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    size = 0
    for row in rows:
        length = len(str(row.get("properties", ""))) + len(row.get("vector", ""))
        if chunk and (len(chunk) >= MAX_ROWS or size + length > MAX_CHARS):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += length
    if chunk:
        yield chunk
