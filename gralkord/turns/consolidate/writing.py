"""From decisions to what one episode writes: new notes, ends of known ones, and the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gralkord.graph.drafts import Note, NoteEnd, note_uuid
from gralkord.graph.memory_notes import TITLE_CHARS, attributes_of
from gralkord.graph.rows import FactRow
from gralkord.turns.consolidate.decisions import ENDING, Decision

REASONS = {"update": "updated", "forget": "forgotten"}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where memories come from.

    Attributes:
        group: The group id.
        episode: Uuid of the episode that they are written with.
        when: When it was said, UTC.
        source: What it was taken from.
        offset: Where in that it stands.
        metadata: What its maker says about it, or that as JSON.
    """

    group: str
    episode: str
    when: datetime
    source: str | None = None
    offset: str | None = None
    metadata: Mapping[str, Any] | str | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What an episode writes.

    Attributes:
        answers: What is told of each decision.
    """

    notes: tuple[Note, ...]
    ends: tuple[NoteEnd, ...]
    answers: Sequence[Mapping[str, Any]]

    def counts(self) -> dict[str, int]:
        """Return how many decisions there are of each kind."""
        found = {"add": 0, "update": 0, "forget": 0, "noop": 0}
        for answer in self.answers:
            found[answer["action"]] += 1
        return found


def changes_of(decisions: Sequence[Decision], origin: Origin) -> Changes:
    """Return what is written for decisions."""
    notes: list[Note] = []
    ends: list[NoteEnd] = []
    answers: list[Mapping[str, Any]] = []
    for at, decision in enumerate(decisions):
        new = None
        if decision.action in {"add", "update"}:
            new = note_uuid(origin.group, origin.episode, str(at))
            notes.append(_note(new, decision, origin))
        target = decision.known.uuid if decision.known else None
        if decision.action in ENDING and target:
            by, reason = new or origin.episode, REASONS[decision.action]
            ends.append(NoteEnd(target, by, reason, origin.when))
        if decision.like is not None:
            like = answers[decision.like]
            target = like["id"] or like["target"]
        answers.append(_answer(decision, new, target))
    return Changes(tuple(notes), tuple(ends), answers)


def told_before(episode: str, rows: Sequence[FactRow], ended: Sequence[FactRow]) -> list[Any]:
    """Return the answers about an observation that was written before, as far as the graph tells.

    Args:
        episode: Its uuid.
        rows: The memories that it has made.
        ended: Those that it has ended.
    """
    targets = {row.superseded_by: row.uuid for row in ended}
    made = [_row_answer("update" if row.uuid in targets else "add", row) for row in rows]
    for answer in made:
        answer["target"] = targets.get(answer["id"])
    gone = [_row_answer("forget", row) for row in ended if row.superseded_by == episode]
    for answer in gone:
        answer |= {"id": None, "target": answer["id"]}
    return made + gone


def _note(uuid: str, decision: Decision, origin: Origin) -> Note:
    candidate = decision.candidate
    return Note(
        uuid,
        "memory",
        candidate.content[:TITLE_CHARS],
        candidate.content,
        origin.when,
        confidence=candidate.confidence,
        source=origin.source,
        offset=origin.offset,
        attributes=attributes_of(
            candidate.kind, candidate.importance, metadata=origin.metadata or None
        ),
    )


def _answer(decision: Decision, new: str | None, target: str | None) -> dict[str, Any]:
    candidate = decision.candidate
    return {
        "action": decision.action,
        "id": new,
        "target": target,
        "content": candidate.content,
        "kind": candidate.kind,
        "confidence": candidate.confidence,
        "importance": candidate.importance,
        "reason": decision.reason,
    }


def _row_answer(action: str, row: FactRow) -> dict[str, Any]:
    return {
        "action": action,
        "id": row.uuid,
        "target": None,
        "content": row.fact,
        "kind": row.attributes.get("memory_kind") or "semantic",
        "confidence": 1.0 if row.confidence is None else row.confidence,
        "importance": float(row.attributes.get("importance") or 0.0),
        "reason": "observed before",
    }
