"""Passages: the verbatim words of a turn, as nodes of the group's graph."""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gralkord.clock import to_iso
from gralkord.errors import BackendUnavailable
from gralkord.graph import schema, spaces
from gralkord.graph.connection import GraphConnection
from gralkord.graph.places import Places
from gralkord.models.places import place_key

# One query holds at most so much, or one turn, of which nobody must see a part: a longer one keeps
# readers of the same server waiting.
MAX_ROWS: Final = 200
MAX_CHARS: Final = 1_000_000
# Of so many groups it is noted which embedder their vectors are from.
MAX_NOTED: Final = 50_000

_NAMESPACE: Final = uuid.UUID("6f1f7a34-3c1e-5c7e-9b52-5a6e2f0f4f5d")

_COLUMNS: Final = (
    "p.uuid, p.text, p.speaker, p.role, p.agent, p.session, p.ordinal, p.part, p.event_time, "
    "p.turn_id, p.source, p.offset, p.episode, p.waiting, p.seq, "
    "p.withdrawn_at IS NOT NULL AND p.withdrawn_until IS NULL, p.metadata, "
    "p.form, p.description, p.through"
)
# A passage was created by this write if it carries this write's number.
_WRITE: Final = (
    f"{schema.INDEX_FENCE}{spaces.ENTER}{spaces.ONCE} UNWIND $rows AS row "
    "MERGE (p:Passage {uuid: row.uuid}) "
    "ON CREATE SET p = row, p.created_ms = $created_ms, p.waiting = true, p.seq = m.seq, "
    "p.vector = CASE WHEN ours THEN tag + row.vector END, p.unembedded = waits "
    "WITH m, collect(CASE WHEN p.seq = m.seq THEN p.uuid END) AS created "
    "SET m.passages = m.passages + size(created), m.waiting = m.waiting + size(created) "
    "RETURN created, m.embedder"
)
_LOAD: Final = f"MATCH (p:Passage) WHERE p.uuid IN $uuids RETURN {_COLUMNS}"
_WAITING: Final = (
    "MATCH (p:Passage {waiting: true}) WHERE p.withdrawn_at IS NULL AND (p.session > $session OR "
    "(p.session = $session "
    "AND (p.ordinal > $ordinal OR (p.ordinal = $ordinal AND p.part > $part)))) "
    f"RETURN {_COLUMNS} ORDER BY p.session, p.ordinal, p.part LIMIT $limit"
)
_OF_TURNS: Final = (
    "MATCH (p:Passage) WHERE p.turn_key IN $keys AND p.session = $session "
    f"RETURN {_COLUMNS} ORDER BY p.ordinal, p.part"
)
_COUNTS: Final = "MATCH (m:Meta) RETURN m.passages, m.waiting"
_EMBEDDER: Final = "MATCH (m:Meta) RETURN m.embedder"


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a turn, verbatim.

    Attributes:
        uuid: See `passage_uuid`.
        ordinal: Place of its message in the session, from 0.
        part: Place within its message, which is cut where it is long, from 0.
        event_time: When it was said, UTC.
        vector: Its embedding as `graph.vectors` encodes it.
        content: What stands for the words of its whole turn, if that has a source and an offset.
        metadata: What its producer says about it, as a JSON object.
        form: Of what was ingested: ``conversation``, ``document`` or ``structured_record``.
        description: Likewise: what it is and where it is from, in words.
        through: Names of the lenses that it is to be understood through; none: its group's alone.
    """

    uuid: str
    text: str
    speaker: str
    role: str
    agent: str
    session: str
    ordinal: int
    part: int
    event_time: datetime
    turn_id: str
    source: str | None = None
    offset: str | None = None
    vector: str | None = None
    content: str | None = None
    metadata: str | None = None
    form: str | None = None
    description: str | None = None
    through: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredPassage(Passage):
    """A passage as the graph has it; its vector is left there.

    Attributes:
        episode: Uuid of the episode that it was understood in.
        waiting: Whether it is still to be understood.
        seq: Number of the write that changed it last.
        withdrawn: Whether somebody has invalidated it, or its place has other words by now.
    """

    episode: str | None = None
    waiting: bool = False
    seq: int = 0
    withdrawn: bool = False


def passage_uuid(group: str, turn_id: str, index: int, part: int) -> str:
    """Return the uuid of a passage: the same words of the same turn always get the same.

    Args:
        group: The group id.
        turn_id: The turn's id.
        index: Place of the message in its turn.
        part: Place within the message.
    """
    return str(uuid.uuid5(_NAMESPACE, "\x00".join((group, turn_id, str(index), str(part)))))


class PassageStore:
    """The passages of all groups."""

    def __init__(self, connection: GraphConnection) -> None:
        self._connection = connection
        self._places = Places(connection)
        self._embedders: dict[str, str] = {}

    async def write(
        self,
        group: str,
        epoch: int,
        passages: Sequence[Passage],
        *,
        created_ms: int,
        fingerprint: str,
        embeds: bool = False,
    ) -> list[str]:
        """Write passages that are not there yet; those that are stay as they are.

        Those that stand at a place (source and offset) replace what stood there with other words.

        Args:
            group: The group id; its graph is made if need be.
            epoch: The lease's epoch.
            passages: In the order to keep; any number.
            created_ms: The time of writing, Unix milliseconds.
            fingerprint: Which embedder the vectors are from.
            embeds: Whether passages that are left without a vector are to get one later.

        Returns:
            The uuids that this call created, in order. After an error some may have been created
            although no call has returned them.

        Raises:
            LeaseLost: Another process holds a later epoch.
            BackendUnavailable: The server does not answer.
        """
        created: list[str] = []
        rows = list({passage.uuid: _row(passage) for passage in reversed(passages)}.values())[::-1]
        for chunk in _chunks(rows):
            has_vectors = any("vector" in row for row in chunk)
            params = {
                "epoch": epoch,
                "created_ms": created_ms,
                "embedder": fingerprint if has_vectors else "",
                "embeds": embeds,
                "rows": chunk,
            }
            created += await self._write(group, epoch, params)
        await self._places.settle(group, epoch, passages, created_ms)
        return created

    async def end_after(
        self,
        group: str,
        epoch: int,
        last: Sequence[Passage],
        *,
        offset: str,
        turns: int,
        spared: Collection[str],
        now_ms: int,
    ) -> None:
        """Withdraw what an earlier version of something ingested has more than this one.

        Args:
            group: The group id.
            epoch: The lease's epoch of the index lane.
            last: The passages of the last turn of this version.
            offset: Where in its source it stands as a whole.
            turns: How many turns it has.
            spared: Uuids of what a later version has written already.
            now_ms: The time, Unix milliseconds.

        Raises:
            LeaseLost: Another process holds a later epoch.
            BackendUnavailable: The server does not answer.
        """
        ended = (offset, turns)
        await self._places.end_after(group, epoch, last[0], ended, spared, now_ms)

    async def load(self, group: str, uuids: Sequence[str]) -> list[StoredPassage]:
        """Return the passages of these uuids, in their order; missing ones are left out."""
        found: dict[str, StoredPassage] = {}
        for start in range(0, len(uuids), MAX_ROWS):
            some = list(uuids[start : start + MAX_ROWS])
            for row in await self._connection.read(group, _LOAD, {"uuids": some}):
                found[row[0]] = _stored(row)
        return [found[each] for each in dict.fromkeys(uuids) if each in found]

    async def of_turns(self, group: str, session: str, turns: Sequence[str]) -> list[StoredPassage]:
        """Return the passages of these turns of a session, by their place in it.

        Args:
            group: The group id.
            session: The session's id.
            turns: Ids of turns; those without a passage are left out.
        """
        found: list[StoredPassage] = []
        for start in range(0, len(turns), MAX_ROWS):
            keys = [turn_key(turn) for turn in turns[start : start + MAX_ROWS]]
            rows = await self._connection.read(group, _OF_TURNS, {"keys": keys, "session": session})
            found += [_stored(row) for row in rows]
        return sorted(found, key=lambda passage: (passage.ordinal, passage.part))

    async def waiting(
        self, group: str, limit: int, after: StoredPassage | None = None
    ) -> list[StoredPassage]:
        """Return passages that are still to be understood, by session, ordinal and part.

        Args:
            group: The group id.
            limit: How many at most.
            after: The last one of the page before; default: from the start.
        """
        place: Mapping[str, Any] = (
            {"session": after.session, "ordinal": after.ordinal, "part": after.part}
            if after
            else {"session": "", "ordinal": -1, "part": -1}
        )
        rows = await self._connection.read(group, _WAITING, {**place, "limit": limit})
        return [_stored(row) for row in rows]

    async def counts(self, group: str) -> tuple[int, int]:
        """Return how many passages the group has, and how many of them wait to be understood."""
        found = await self._connection.read(group, _COUNTS)
        return (found[0][0], found[0][1]) if found else (0, 0)

    async def embedder(self, group: str) -> str:
        """Return the fingerprint of the group's vectors, as it was not long ago; empty: none.

        Raises:
            BackendUnavailable: The server does not answer.
        """
        if group not in self._embedders:
            found = await self._connection.read(group, _EMBEDDER)
            self._note(group, (found[0][0] or "") if found else "")
        return self._embedders[group]

    def _note(self, group: str, embedder: str) -> None:
        if len(self._embedders) >= MAX_NOTED and group not in self._embedders:
            self._embedders.clear()
        self._embedders[group] = sys.intern(embedder)

    async def _write(self, group: str, epoch: int, params: Mapping[str, Any]) -> list[str]:
        await self._connection.ensure_group(group)
        if found := await self._connection.write(group, _WRITE, params):
            self._note(group, found[0][1] or "")
            return list(found[0][0])
        self._embedders.pop(group, None)
        if lost := await schema.refused(self._connection, group, epoch):
            raise lost
        # Not made anew at once: it may have been erased, and these words with it. Whoever takes the
        # item next has it from a mailbox out of which they were taken first.
        self._connection.forget_group(group)
        raise BackendUnavailable(f"group {group} was dropped under way")


def turn_key(turn_id: str) -> str:
    """Return what stands for a turn's id in the index, which finds none with a leading blank."""
    return hashlib.blake2b(turn_id.encode(), digest_size=12).hexdigest()


def _row(passage: Passage) -> dict[str, Any]:
    moment = passage.event_time.astimezone(UTC)
    row = {
        "uuid": passage.uuid,
        "text": passage.text,
        "speaker": passage.speaker,
        "role": passage.role,
        "agent": passage.agent,
        "session": passage.session,
        "ordinal": passage.ordinal,
        "part": passage.part,
        "event_time": to_iso(moment),
        "event_ms": int(moment.timestamp() * 1000),
        "turn_id": passage.turn_id,
        "turn_key": turn_key(passage.turn_id),
        "source": passage.source,
        "offset": passage.offset,
        "content_key": passage.content,
        "metadata": passage.metadata,
        "form": passage.form,
        "description": passage.description,
        "through": list(passage.through) or None,
        "vector": passage.vector,
    }
    if passage.source is not None and passage.offset is not None:
        row["place_key"] = place_key(passage.source, passage.offset)
    return {name: value for name, value in row.items() if value is not None}


def _chunks(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        length = len(row["text"]) + len(row.get("vector", ""))
        full = len(chunk) >= MAX_ROWS or size + length > MAX_CHARS
        if chunk and full and chunk[-1]["turn_id"] != row["turn_id"]:
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += length
    if chunk:
        yield chunk


def _stored(row: list[Any]) -> StoredPassage:
    return StoredPassage(
        uuid=row[0],
        text=row[1],
        speaker=row[2],
        role=row[3],
        agent=row[4],
        session=row[5],
        ordinal=row[6],
        part=row[7],
        event_time=datetime.fromisoformat(row[8]),
        turn_id=row[9],
        source=row[10],
        offset=row[11],
        episode=row[12],
        waiting=bool(row[13]),
        seq=row[14],
        withdrawn=bool(row[15]),
        metadata=row[16],
        form=row[17],
        description=row[18],
        through=tuple(row[19] or ()),
    )
