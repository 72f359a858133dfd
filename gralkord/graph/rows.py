"""What one row of a group's cache holds: a passage, a fact or an entity as the graph has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

NEVER_MS: Final = 2**63 - 1


class PassageRow(NamedTuple):
    """A passage: a tuple, for there are many of them.

    Attributes:
        event_time: When it was said, ISO 8601, UTC.
        event_ms: The same in Unix milliseconds.
        created_ms: When it was written, Unix milliseconds.
        waiting: Whether it is still to be understood.
        episode: Uuid of the episode that it was understood in.
        invalid_at: Since when it does not hold any more, ISO 8601, as it was told.
        seq: Number of the write that changed it last.
        withdrawn_at: When somebody invalidated it, ISO 8601.
        withdrawn_until: Until when it held all the same, ISO 8601; default: until then.
        withdrawn_reason: Why.
        replaced_by: Uuid of the passage that stands in its place now.
        metadata: What its producer says about it, as a JSON object.
        form: Of what was ingested: ``conversation``, ``document`` or ``structured_record``.
        description: Likewise: what it is and where it is from, in words.
    """

    uuid: str
    text: str
    speaker: str
    role: str
    agent: str
    session: str
    ordinal: int
    part: int
    event_time: str
    event_ms: int
    turn_id: str
    source: str | None
    offset: str | None
    created_ms: int
    waiting: bool
    episode: str | None
    invalid_at: str | None
    seq: int
    withdrawn_at: str | None = None
    withdrawn_until: str | None = None
    withdrawn_reason: str | None = None
    replaced_by: str | None = None
    metadata: str | None = None
    form: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class FactRow:
    """A fact: one entity's relation to another. Times are ISO 8601.

    Attributes:
        valid_at: Since when it holds.
        invalid_at: Since when it does not hold any more.
        expired_at: When it was found to be superseded.
        reference_time: The time of the episode that it was first found in.
        episodes: Uuids of the episodes that say it.
        attributes: Properties of its own type.
        seq: Number of the write that changed it last.
        superseded_by: Uuid of the fact that ended it last.
        superseded_reason: Why it could.
        superseded_invalid_at: The end that it had before.
        superseded_at: When that was found out; of old facts only `expired_at` tells.
        superseded_episode: Uuid of the episode that said so.
        undone: Uuids of facts that do not end it, although it was found that they do.
        withdrawn_at: When somebody invalidated it.
        withdrawn_until: Until when it held all the same; default: until then.
        withdrawn_reason: Why.
        replaced_by: Uuid of what stands in its place now.
        source: What it was taken from, where it was told as a triple.
        offset: Where in that it stands.
        confidence: How sure its producer is, 0 to 1.
        note_kind: What kind of note it is, see `gralkord.graph.drafts.Note`; none if it is a
            relation of two entities.
    """

    uuid: str
    name: str
    fact: str
    source_uuid: str
    target_uuid: str
    group_id: str
    created_at: str | None
    valid_at: str | None
    invalid_at: str | None
    expired_at: str | None
    reference_time: str | None
    episodes: tuple[str, ...]
    attributes: Mapping[str, Any]
    seq: int
    superseded_by: str | None = None
    superseded_reason: str | None = None
    superseded_invalid_at: str | None = None
    superseded_at: str | None = None
    superseded_episode: str | None = None
    undone: tuple[str, ...] = ()
    withdrawn_at: str | None = None
    withdrawn_until: str | None = None
    withdrawn_reason: str | None = None
    replaced_by: str | None = None
    source: str | None = None
    offset: str | None = None
    confidence: float | None = None
    note_kind: str | None = None

    @property
    def turn(self) -> str | None:
        """Id of the turn that a note was made of, where it was made of one alone."""
        turn = self.attributes.get("turn") if self.note_kind else None
        return turn if isinstance(turn, str) else None

    @property
    def support(self) -> tuple[str, ...]:
        """What it goes with: the episodes that say it, or the one turn in them, see `part_of`."""
        if self.turn is None:
            return self.episodes
        return tuple(part_of(episode, self.turn) for episode in self.episodes)


@dataclass(frozen=True, slots=True)
class EntityRow:
    """An entity.

    Attributes:
        labels: Its types, `Entity` among them.
        attributes: Properties of its types.
        seq: Number of the write that changed it last.
        handles: What else stands for it alone, such as an e-mail address.
        told_in: Which episode told each field of its types, see `gralkord.graph.told`.
        note_kind: What kind of note it stands for; none if it is an entity.
    """

    uuid: str
    name: str
    summary: str
    labels: tuple[str, ...]
    group_id: str
    created_at: str | None
    attributes: Mapping[str, Any]
    seq: int
    handles: tuple[str, ...] = ()
    told_in: tuple[str, ...] = ()
    note_kind: str | None = None


def part_of(episode: str, turn: str) -> str:
    """Return what stands for a turn in an episode."""
    return f"{episode}\x00{turn}"


def to_ms(moment: str | None) -> int:
    """Return an ISO 8601 time in Unix milliseconds; of none, a time that never comes."""
    if not moment:
        return NEVER_MS
    when = datetime.fromisoformat(moment)
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return int(when.timestamp() * 1000)
