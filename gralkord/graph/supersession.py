"""Which fact may end another: a guard around Graphiti's own decision, with a trace of each.

Graphiti lets the model name facts that a new one contradicts, out of ten that merely look alike,
and takes its word for it: up to half of a group's facts were seen to end that way. Here a fact may
end only another about the same two entities, or of the same relation with one entity in the same
place.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import structlog

from gralkord.clock import to_iso
from gralkord.graph.library import EntityEdge, edge_operations

log = structlog.get_logger(__name__)

_MARK = "gralkord_guard"


def reason_to_supersede(new: EntityEdge, old: EntityEdge) -> str | None:
    """Return why *new* may end *old*, ``None`` if it may not."""
    if {new.source_node_uuid, new.target_node_uuid} == {old.source_node_uuid, old.target_node_uuid}:
        return "same_entities"
    if new.name == old.name and new.source_node_uuid == old.source_node_uuid:
        return "same_relation_and_source"
    if new.name == old.name and new.target_node_uuid == old.target_node_uuid:
        return "same_relation_and_target"
    return None


def install() -> None:
    """Put the guard into Graphiti, once per process.

    Raises:
        AttributeError: This version of Graphiti has no such function any more.
    """
    original: Any = edge_operations._apply_temporal_invalidation  # noqa: SLF001
    if hasattr(original, _MARK):
        return

    def guarded(resolved: EntityEdge, candidates: list[EntityEdge]) -> list[EntityEdge]:
        candidates[:] = [old for old in candidates if reason_to_supersede(resolved, old)]
        ends = {edge.uuid: edge.invalid_at for edge in [resolved, *candidates]}
        ended: list[EntityEdge] = original(resolved, candidates)
        for old in ended:
            _trace(old, resolved, ends[old.uuid])
        if resolved.invalid_at != ends[resolved.uuid]:  # what was known already is the newer one
            newer = next(each for each in candidates if each.valid_at == resolved.invalid_at)
            _trace(resolved, newer, ends[resolved.uuid])
        return ended

    setattr(guarded, _MARK, True)
    edge_operations._apply_temporal_invalidation = guarded  # type: ignore[assignment]  # noqa: SLF001


def _trace(old: EntityEdge, new: EntityEdge, ended_before: datetime | None) -> None:
    """Keep with the fact what ended it, when and why, so that it can be undone."""
    reason = reason_to_supersede(new, old)
    old.attributes |= {
        "superseded_by": new.uuid,
        "superseded_reason": reason,
        # None, too: it removes what an earlier supersession has left.
        "superseded_invalid_at": to_iso(ended_before) if ended_before else None,
        "superseded_at": to_iso(datetime.now(UTC)),
    }
    log.info("fact_superseded", group=old.group_id, old=old.uuid, new=new.uuid, reason=reason)
