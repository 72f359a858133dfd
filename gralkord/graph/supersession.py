"""Which fact may end another, and what happens to both when it does.

Graphiti lets the model name facts that a new one contradicts, out of ten that merely look alike,
and takes its word for it: up to half of a group's facts were seen to end that way. Here a fact may
end only another about the same two entities, or of the same relation with one entity in the same
place. So the model is asked about those facts only, and not at all where there are none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from gralkord.clock import to_iso
from gralkord.graph.library import EntityEdge
from gralkord.graph.resolution import relation_name

log = structlog.get_logger(__name__)

# Ends that are told twice are taken for the same up to this.
SAME_END: Final = timedelta(days=1)


def reason_to_supersede(new: EntityEdge, old: EntityEdge) -> str | None:
    """Return why *new* may end *old*, ``None`` if it may not."""
    if {new.source_node_uuid, new.target_node_uuid} == {old.source_node_uuid, old.target_node_uuid}:
        return "same_entities"
    if relation_name(new.name) != relation_name(old.name):
        return None
    if new.source_node_uuid == old.source_node_uuid:
        return "same_relation_and_source"
    if new.target_node_uuid == old.target_node_uuid:
        return "same_relation_and_target"
    return None


def since(fact: EntityEdge) -> datetime | None:
    """Return since when a fact holds as far as is known: at the latest since it was told."""
    return _utc(fact.valid_at or fact.reference_time)


def could_end(new: EntityEdge, old: EntityEdge, *, told_before: bool = False) -> bool:
    """Return whether anything would change if *new* contradicted *old*.

    Args:
        new: A fact.
        old: Another one.
        told_before: Whether *old* was told earlier in the same transcript. Of two facts that hold
            since the same time that decides.
    """
    new_since, old_since = since(new), since(old)
    if new_since is None or old_since is None or reason_to_supersede(new, old) is None:
        return False
    new_end, old_end = _utc(new.invalid_at), _utc(old.invalid_at)
    if (old_end and old_end <= new_since) or (new_end and new_end <= old_since):
        return False
    return new_since != old_since or told_before


def repeats(told: EntityEdge, known: EntityEdge) -> bool:
    """Return whether a fact that says the same as a known one is also about the same time.

    It is not where it begins after the known one has ended, or tells another end.
    """
    end, known_end = _utc(told.invalid_at), _utc(known.invalid_at)
    if end is not None:
        return known_end is not None and abs(end - known_end) <= SAME_END
    begun = _utc(told.valid_at)
    return known_end is None or begun is None or begun < known_end


def cut_short(known: EntityEdge, told: EntityEdge) -> bool:
    """End a known fact where one that says the same tells an earlier end; return whether it does.

    A fact that begins only after that end is of another time, and left alone.
    """
    end, known_end, begun = _utc(told.invalid_at), _utc(known.invalid_at), since(known)
    if end is None or begun is None or end <= begun or (known_end and known_end <= end):
        return False
    _end(known, told, end)
    return True


def settle(
    told: EntityEdge,
    contradicted: Sequence[EntityEdge],
    told_before: Collection[str] = (),
    *,
    known: EntityEdge,
) -> list[EntityEdge]:
    """End what a fact contradicts, or the fact itself where that is the earlier of the two.

    Args:
        told: The fact as it was told now.
        contradicted: The facts that cannot be true together with it; others than it may end are
            left alone.
        told_before: Uuids of those that were told earlier in the same transcript.
        known: The fact that it turned out to be; the same, if it is new.

    Returns:
        Those that were ended.
    """
    others = [
        old
        for old in contradicted
        if old.uuid != known.uuid and could_end(told, old, told_before=old.uuid in told_before)
    ]
    later = [old for old in others if _after(old, told)]
    if later and told is known and told.invalid_at is None:
        first = min(later, key=lambda old: since(old) or datetime.max.replace(tzinfo=UTC))
        _end(told, first, since(first))
    ended = [
        old
        for old in others
        if old not in later and could_end(told, old, told_before=old.uuid in told_before)
    ]
    for old in ended:
        _end(old, known, since(told))
    return ended


def _utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _after(one: EntityEdge, other: EntityEdge) -> bool:
    one_since, other_since = since(one), since(other)
    return one_since is not None and other_since is not None and one_since > other_since


def _end(old: EntityEdge, new: EntityEdge, at: datetime | None) -> None:
    """End a fact, and keep with it what ended it, when and why, so that it can be undone."""
    reason, ended_before = reason_to_supersede(new, old), old.invalid_at
    now = datetime.now(UTC)
    old.invalid_at = at
    old.expired_at = old.expired_at or now
    old.attributes |= {
        "superseded_by": new.uuid,
        "superseded_reason": reason,
        # None, too: it removes what an earlier supersession has left.
        "superseded_invalid_at": to_iso(ended_before) if ended_before else None,
        "superseded_at": to_iso(now),
    }
    log.info("fact_superseded", group=old.group_id, old=old.uuid, new=new.uuid, reason=reason)
