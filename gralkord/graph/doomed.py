"""What an erasure takes of a group: worked out from what was read, without the graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

SUMMARY_CHARS: Final = 2_000

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DoomedPassage:
    """A passage that goes, or that has to be understood anew."""

    uuid: str
    turn_id: str
    session: str
    agent: str


@dataclass(frozen=True, slots=True)
class KnownFact:
    """What an erasure has to know of a fact; no words.

    Attributes:
        episodes: Uuids of the episodes that say it.
        ends: Uuids of its two entities.
        source: Where it was taken from, if it was told by itself.
        told: Whether it was told by itself, not found in an episode.
        superseded_by: Uuid of the fact that has ended it.
    """

    uuid: str
    episodes: tuple[str, ...]
    ends: tuple[str, str]
    source: str | None
    told: bool
    superseded_by: str | None
    superseded_reason: str | None
    superseded_invalid_at: str | None
    invalid_at: str | None

    @property
    def note(self) -> bool:
        """Whether it is a note, see `gralkord.graph.drafts.Note`: it leads from its own node."""
        return self.ends[0] == self.uuid


@dataclass(slots=True)
class Doomed:
    """What goes of a group, and what changes for it.

    Attributes:
        passages: What goes of them, by uuid.
        episodes: Uuids of the episodes that go: all that held one of those passages.
        lone: Those of them that were written for notes alone; they are found by those.
        origins: Keys of the turns of other groups that go.
        again: Passages of this group that their episode has left, to be understood anew.
        again_elsewhere: The same of other groups, as origin keys, each with the lenses that it was
            understood through.
        facts: Uuids of the facts that go, notes among them.
        notes: Uuids of the notes among them; their nodes go as well.
        kept: Facts that stay, with the episodes that are left to them and whether they forget their
            own source.
        revived: Facts that hold again, or that another one has ended now.
        entities: Uuids of the entities that go, nodes of notes among them.
        communities: Uuids of the communities that go: they say what was known of what goes.
        summaries: What is left to say of entities that stay.
        fields: What changes for entities that stay and lose fields, see `gralkord.graph.told`.
    """

    passages: dict[str, DoomedPassage] = field(default_factory=dict)
    episodes: set[str] = field(default_factory=set)
    lone: set[str] = field(default_factory=set)
    origins: set[str] = field(default_factory=set)
    again: list[DoomedPassage] = field(default_factory=list)
    again_elsewhere: dict[str, set[str]] = field(default_factory=dict)
    facts: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)
    kept: list[Row] = field(default_factory=list)
    revived: list[Row] = field(default_factory=list)
    entities: set[str] = field(default_factory=set)
    communities: set[str] = field(default_factory=set)
    summaries: dict[str, str] = field(default_factory=dict)
    fields: list[Row] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.passages or self.episodes or self.facts or self.origins)

    def counts(self) -> dict[str, int]:
        """Return how much it is."""
        return {
            "passages": len(self.passages),
            "episodes": len(self.episodes),
            "facts": len(self.facts - self.notes),
            "notes": len(self.notes),
            "facts_kept": len(self.kept),
            "facts_revived": len(self.revived),
            "entities": len(self.entities - self.notes),
            "communities": len(self.communities),
            "summaries_rebuilt": len(self.summaries),
            "passages_understood_again": len(self.again),
        }


def settle_facts(
    doomed: Doomed, facts: Mapping[str, KnownFact], *, named: Collection[str], source: str | None
) -> None:
    """Work out which facts go, which stay with fewer episodes, and which come back.

    A fact that was told by itself goes with its own source only, never with an episode. A note goes
    with either.

    Args:
        doomed: Its episodes are known; facts are put in.
        facts: All facts of the group.
        named: Uuids of facts that go in any case.
        source: Facts of this source go.
    """
    doomed.facts |= {uuid for uuid in named if uuid in facts}
    for fact in facts.values():
        if fact.uuid in doomed.facts:
            continue
        left = [episode for episode in fact.episodes if episode not in doomed.episodes]
        forget = source is not None and fact.source == source
        own = not forget and (fact.told or fact.source is not None)
        if not forget and len(left) == len(fact.episodes):
            continue
        if (left or own) if not fact.note else (left and not forget):
            doomed.kept.append({"uuid": fact.uuid, "episodes": left, "forget": forget})
        else:
            doomed.facts.add(fact.uuid)
    doomed.notes = {uuid for uuid in doomed.facts if facts[uuid].note}
    # What has ended a note may be an episode.
    gone = doomed.facts | doomed.episodes
    for fact in facts.values():
        if fact.uuid not in doomed.facts and fact.superseded_by in gone:
            doomed.revived.append(_revived(fact, facts, doomed.facts))


def _revived(fact: KnownFact, facts: Mapping[str, KnownFact], gone: Collection[str]) -> Row:
    """Return what a fact is when the one that has ended it is gone.

    If that one had been ended itself, for the same reason, then its successor ends this one: who
    moved from A to B to C does not live in A again when B is erased.
    """
    last, seen = facts.get(fact.superseded_by or ""), {fact.uuid}
    while last is not None and last.uuid in gone and last.uuid not in seen:
        seen.add(last.uuid)
        successor = facts.get(last.superseded_by or "")
        if successor is None or last.superseded_reason != fact.superseded_reason:
            break
        if successor.uuid not in gone and successor.uuid not in seen:
            return {
                "uuid": fact.uuid,
                "invalid_at": last.invalid_at,
                "by": successor.uuid,
                "back": False,
            }
        last = successor
    return {"uuid": fact.uuid, "invalid_at": fact.superseded_invalid_at, "by": None, "back": True}


def settle_entities(
    doomed: Doomed, mentions: Mapping[str, Iterable[str]], facts: Mapping[str, Sequence[str]]
) -> None:
    """Work out which entities go, and what is left to say of the others.

    Args:
        doomed: Its episodes and facts are known; entities are put in.
        mentions: For each entity that lost something, the episodes that mention it.
        facts: For each of them the texts of the facts that are left to it.
    """
    for entity, episodes in mentions.items():
        texts = facts.get(entity, ())
        if not texts and all(episode in doomed.episodes for episode in episodes):
            doomed.entities.add(entity)
        else:
            doomed.summaries[entity] = _joined(texts)


def _joined(texts: Sequence[str]) -> str:
    said, size = [], 0
    for text in dict.fromkeys(texts):
        size += len(text) + 1
        if size > SUMMARY_CHARS:
            break
        said.append(text)
    return "\n".join(said)
