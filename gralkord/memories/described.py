"""A memory as a reader sees it: what is known of it, and where it comes from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from gralkord.clock import to_iso
from gralkord.graph.memory_notes import metadata_of
from gralkord.graph.rows import FactRow, PassageRow
from gralkord.models.memories import (
    MemoryHistory,
    Provenance,
    SaidBy,
    StoredMemory,
    Supersession,
)

if TYPE_CHECKING:
    from gralkord.graph.validity import View
    from gralkord.memories.lookup import Held, Row


def stored_memory(held: Held, row: Row, view: View) -> StoredMemory:
    """Return all that is known of a passage, a fact or a note."""
    ending = held.cache.ending(row, view)
    common: dict[str, Any] = {
        "id": row.uuid,
        "lens": held.lens,
        "invalid_at": ending.at,
        "invalidated": ending.hides(view),
        "reason": ending.reason,
        "withdrawn_at": row.withdrawn_at,
        "withdrawn_until": row.withdrawn_until,
        "replaced_by": row.replaced_by,
    }
    if isinstance(row, PassageRow):
        return StoredMemory(
            kind="passage",
            text=row.text,
            created_at=iso_of(row.created_ms),
            event_time=row.event_time,
            speaker=row.speaker,
            role=row.role,
            agent=row.agent,
            session=row.session,
            turn_id=row.turn_id,
            source=row.source,
            offset=row.offset,
            metadata=orjson.loads(row.metadata) if row.metadata else {},
            form=row.form,
            description=row.description,
            episodes=[row.episode] if row.episode else [],
            **common,
        )
    own: dict[str, Any] = {
        "kind": "fact",
        "relation": row.name,
        "subject": row.source_uuid,
        "object": row.target_uuid,
    }
    if row.note_kind:
        titles = [node.name for node in held.cache.entities.by_uuid([row.uuid])]
        own = {"kind": row.note_kind, "title": titles[0] if titles else None}
    attributes = dict(row.attributes)
    if row.note_kind == "memory":
        own["metadata"] = metadata_of(row)
        attributes.pop("metadata", None)
    return StoredMemory(
        text=row.fact,
        created_at=row.created_at,
        event_time=row.reference_time,
        valid_at=row.valid_at,
        expired_at=row.expired_at,
        superseded_by=row.superseded_by,
        source=row.source,
        offset=row.offset,
        confidence=row.confidence,
        attributes=attributes,
        episodes=list(row.episodes),
        **own,
        **common,
    )


def history_of(held: Held, row: Row, view: View, *, words: bool) -> MemoryHistory:
    """Return where a memory comes from and what became of it.

    Args:
        held: Its group.
        row: The memory.
        view: From where it is looked at.
        words: Whether to tell the words of the others, too.
    """
    memory = stored_memory(held, row, view)
    if isinstance(row, PassageRow):
        said = _provenance(held, [row.episode] if row.episode else [], view, words=words)
        return MemoryHistory(memory=memory, provenance=said)
    superseded = None
    if row.superseded_by is not None:
        found = held.cache.facts.by_uuid([row.superseded_by])
        text = found[0].fact if found and words else None
        superseded = _supersession(row.superseded_by, row, text)
    return MemoryHistory(
        memory=memory,
        superseded=superseded,
        supersedes=[
            _supersession(other.uuid, other, other.fact if words else None)
            for other in held.cache.facts.rows()
            if other.superseded_by == row.uuid
        ],
        provenance=_provenance(held, _told_in(row), view, turn=row.turn, words=words),
    )


def _told_in(row: FactRow) -> list[str]:
    """Return the episodes of a fact, and those that a generalisation was made of."""
    made_of = row.attributes.get("taken_from") if row.note_kind else None
    return [*row.episodes, *(map(str, made_of) if isinstance(made_of, list) else ())]


def iso_of(milliseconds: int) -> str:
    """Return Unix milliseconds as ISO 8601."""
    return to_iso(datetime.fromtimestamp(milliseconds / 1000, UTC))


def _supersession(uuid: str, ended: FactRow, text: str | None) -> Supersession:
    return Supersession(
        id=uuid,
        text=text,
        reason=ended.superseded_reason,
        at=ended.superseded_at or ended.expired_at,
        episode=ended.superseded_episode,
        undone=ended.superseded_by in ended.undone,
    )


def _provenance(
    held: Held, episodes: Any, view: View, *, turn: str | None = None, words: bool
) -> list[Provenance]:
    with held.cache.lock:
        found = {uuid: held.cache.passages.of_episode(uuid, turn) for uuid in episodes}
    return [
        Provenance(
            episode=uuid,
            passages=[
                SaidBy(
                    id=each.uuid,
                    text=each.text if words else None,
                    speaker=each.speaker,
                    session=each.session,
                    turn_id=each.turn_id,
                    event_time=each.event_time,
                    source=each.source,
                    offset=each.offset,
                    invalidated=held.cache.ending(each, view).hides(view),
                )
                for each in sorted(rows, key=lambda row: (row.session, row.ordinal, row.part))
            ],
        )
        for uuid, rows in found.items()
    ]
