"""A row of a group as a memory of an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import orjson

from gralkord.graph.drafts import NOTE_KINDS
from gralkord.graph.rows import FactRow, PassageRow
from gralkord.graph.validity import Ending, View
from gralkord.models import Memory, Role
from gralkord.models.recall import MemoryKind


def kind_of(row: PassageRow | FactRow) -> MemoryKind:
    """Return what kind of memory a row is."""
    if isinstance(row, PassageRow):
        return "passage"
    return cast("MemoryKind", row.note_kind) if row.note_kind in NOTE_KINDS else "fact"


def memory_of(
    row: PassageRow | FactRow,
    ending: Ending,
    view: View,
    *,
    lens: str,
    score: float,
    arms: Iterable[str],
    passages: Iterable[str] = (),
) -> Memory:
    """Return a row as a memory.

    Args:
        row: The row.
        ending: How it ends, as far as the view knows.
        view: From where it is looked at.
        lens: Name of the lens that it is of.
        score: How well it fits, 0 to 1.
        arms: Which arms found it.
        passages: Uuids of the passages that say it.

    Raises:
        ValueError: It holds what no memory can.
    """
    common: dict[str, Any] = {
        "kind": kind_of(row),
        "id": row.uuid,
        "score": round(score, 6),
        "lens": lens,
        "invalid_at": ending.at,
        "invalidated": ending.hides(view),
        "reason": ending.reason,
        "source": row.source,
        "offset": row.offset,
        "arms": sorted(arms),
    }
    if isinstance(row, PassageRow):
        return Memory(
            text=row.text,
            speaker=row.speaker,
            role=cast("Role", row.role),
            event_time=row.event_time,
            session=row.session,
            turn_id=row.turn_id,
            metadata=_object(row.metadata),
            **common,
        )
    attributes = dict(row.attributes)
    if row.confidence is not None:
        attributes["confidence"] = row.confidence
    told = attributes.pop("metadata", None) if row.note_kind == "memory" else None
    return Memory(
        text=row.fact,
        event_time=row.reference_time,
        valid_at=row.valid_at,
        passages=list(passages),
        attributes=attributes,
        metadata=_object(told),
        **common,
    )


def _object(text: str | None) -> dict[str, Any]:
    """Return what a producer says about a memory, which is kept as JSON."""
    found: dict[str, Any] = orjson.loads(text) if text else {}
    return found
