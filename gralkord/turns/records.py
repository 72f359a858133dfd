"""What the understand lane does with requests to add memories and to change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gralkord.errors import InvalidInput, NotFound
from gralkord.graph.cache import CachePool, GroupCache
from gralkord.graph.drafts import EpisodeDraft, Note, NoteEnd
from gralkord.graph.memory_changes import MemoryNotes
from gralkord.graph.memory_notes import (
    KIND,
    READ_MS,
    TITLE_CHARS,
    attributes_of,
    memory_uuid,
    metadata_of,
    observation_uuid,
)
from gralkord.graph.rows import FactRow
from gralkord.graph.validity import view_at
from gralkord.mailbox.items import Item, Lease
from gralkord.turns.work import Episodes

Body = Mapping[str, Any]
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecordKeeper:
    """Executes requests of the kind ``memories``; none asks a model. Repeats are harmless."""

    episodes: Episodes
    notes: MemoryNotes
    caches: CachePool

    async def __call__(self, lease: Lease, item: Item) -> Answer:
        """Add or change a memory; return its id and that of the one whose place it takes.

        Raises:
            NotFound: The memory is not there, or is erased.
            InvalidInput: It does not hold any more.
            LeaseLost: Another process holds the group.
            BackendUnavailable: The graph does not answer.
        """
        body = item.body
        if body["action"] == "add":
            return await self._add(lease, body)
        return await self._update(lease, body)

    async def _add(self, lease: Lease, body: Body) -> Answer:
        uuid = memory_uuid(lease.group, body["key"])
        told = attributes_of(
            body["memory_kind"], body["importance"], body["tags"], body["metadata"]
        )
        note = _note(uuid, body, told, source=body.get("source"), offset=body.get("offset"))
        created = await self._write(lease, body, note)
        if not created and not (await self._known(lease.group)).facts.by_uuid([uuid]):
            raise NotFound("the memory of this id was erased", field="id")
        return {"memory": uuid, "replaced": None, "created": created}

    async def _update(self, lease: Lease, body: Body) -> Answer:
        group, target = lease.group, body["memory"]
        known = await self._known(group)
        uuid = memory_uuid(group, body["key"])
        if known.facts.by_uuid([uuid]):  # done before, and then asked again
            return {"memory": uuid, "replaced": target, "created": False}
        row = _holding(known, target, datetime.fromisoformat(body["now"]))
        told = _merged(row, body)
        if body.get("content") in {None, row.fact}:
            await self.notes.change(group, lease.epoch, target, told)
            return {"memory": target, "replaced": None, "created": False}
        note = _note(uuid, body, told, source=row.source, offset=row.offset)
        end = NoteEnd(target, uuid, "updated", note.since)
        created = await self._write(lease, body, note, end)
        return {"memory": uuid, "replaced": target, "created": created}

    async def _write(self, lease: Lease, body: Body, note: Note, *ends: NoteEnd) -> bool:
        draft = EpisodeDraft(
            uuid=observation_uuid(lease.group, body["key"]),
            name="memory",
            body="",
            reference_time=note.since,
            source_description="told as a memory",
            lens=body["lens"],
            extract=False,
            source="text",
            notes=(note,),
            ends=ends,
        )
        done = await self.episodes.add(lease.group, lease.epoch, draft)
        return done.created

    async def _known(self, group: str) -> GroupCache:
        known = await self.caches.fresh(group, timeout_ms=READ_MS)
        if known is None:
            raise NotFound("nothing is known of the operator any more", field="id")
        return known


def _note(
    uuid: str, body: Body, attributes: Body, *, source: str | None, offset: str | None
) -> Note:
    content, since = body["content"].strip(), datetime.fromisoformat(body["when"])
    return Note(
        uuid,
        KIND,
        content[:TITLE_CHARS],
        content,
        since,
        source=source,
        offset=offset,
        attributes=attributes,
    )


def _holding(known: GroupCache, memory: str, now: datetime) -> FactRow:
    """Return a memory that can be changed.

    Raises:
        NotFound: There is none of that id.
        InvalidInput: It does not hold any more.
    """
    for row in known.facts.by_uuid([memory]):
        if row.note_kind != KIND:
            continue
        view = view_at(now)
        if known.ending(row, view).hides(view):
            successor = row.superseded_by if row.superseded_by not in row.undone else None
            raise InvalidInput(
                f"memory {memory!r} does not hold any more",
                field="id",
                hint=f"{successor} took its place" if successor else None,
            )
        return row
    raise NotFound(f"the operator has no memory {memory!r}", field="id")


def _merged(row: FactRow, body: Body) -> dict[str, Any]:
    """Return the attributes that a memory has after a change; None takes one away."""
    has = row.attributes
    given = {name: body[name] for name in ("memory_kind", "importance", "tags") if name in body}
    importance = given.get("importance", has.get("importance"))
    return attributes_of(
        given.get("memory_kind") or has.get("memory_kind") or "semantic",
        1.0 if importance is None else importance,
        given.get("tags", has.get("tags") or ()),
        body["metadata"] if "metadata" in body else metadata_of(row),
    )
