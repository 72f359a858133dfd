"""What is to be understood, and what came of it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel

NoteKind = Literal["learning", "generalisation", "memory"]
NOTE_KINDS: Final[tuple[NoteKind, ...]] = get_args(NoteKind)
# What Graphiti is told that a text is.
EpisodeSource = Literal["message", "text", "json"]

_NOTES: Final = uuid.UUID("1b7a5f0c-52d7-5d0e-9d0f-6a1c0d3a4e21")


@dataclass(frozen=True, slots=True)
class Kinds:
    """Which kinds of entities and facts are looked for; with none of all, any.

    Attributes:
        entity_types: Kinds of entities by name; docstrings say when something is one, and fields
            what is to be known of it.
        excluded_entity_types: Kinds that are not kept; ``Entity`` is what is of no kind.
        edge_types: Kinds of facts by name, likewise.
        edge_type_map: Which kinds of facts stand between which kinds of entities.
    """

    entity_types: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    excluded_entity_types: Sequence[str] = ()
    edge_types: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    edge_type_map: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)

    @property
    def strict(self) -> bool:
        """Whether only entities of the kinds are kept."""
        return "Entity" in self.excluded_entity_types


ANY_KIND = Kinds()


@dataclass(frozen=True, slots=True)
class Note:
    """A statement that stands for itself: a learning, a generalisation, or a memory.

    It is written as a node with the label of its kind, and a fact that leads from that node to
    itself. So all that holds for facts holds for it: recall, time, supersession and undo, erasure.

    Attributes:
        uuid: Of both; see `note_uuid`.
        kind: What it is.
        title: Name of the node, short.
        text: The statement itself, which is what recall finds.
        since: Since when it holds, UTC.
        confidence: How sure whoever made it was, 0 to 1.
        source: What it was taken from, where that is not the episode.
        offset: Where in that it stands.
        attributes: What else is known of it: texts, numbers, truth values, or lists of those.
    """

    uuid: str
    kind: NoteKind
    title: str
    text: str
    since: datetime
    confidence: float | None = None
    source: str | None = None
    offset: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoteEnd:
    """A known note that an episode ends.

    Attributes:
        uuid: The note's.
        by: Uuid of the note that takes its place, or of the episode where none does.
        reason: Why, as ``undo`` and ``history`` show it: a word such as ``contradicts``.
        at: Since when it does not hold any more, UTC.
    """

    uuid: str
    by: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class EpisodeDraft:
    """A transcript to be understood as one episode.

    Attributes:
        uuid: Made of the group and what the transcript was taken from, so that repeating the work
            is the same episode.
        name: Short, for people who look at the graph.
        body: Lines of ``Speaker: words``.
        reference_time: The time that "yesterday" in it is relative to, UTC.
        source_description: What the model is told about where it is from.
        passages: Uuids of the passages of the same group that it was taken from.
        origins: Instead of those, where they are in another group: see `origin_key`.
        lens: Name of the lens it is understood through.
        kinds: What is looked for in it.
        source: What the text is; of messages each line names its speaker.
        extract: Whether entities and facts are looked for, which asks the model; if not, only the
            notes are written.
        notes: Statements that were made of it, written with it.
        ends: Known notes that do not hold any more, likewise.
        within: Uuid of the episode that has the passages which the text was made of, where that is
            another one: what is stated leads back to those words, and ends with them.
    """

    uuid: str
    name: str
    body: str
    reference_time: datetime
    source_description: str
    passages: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    lens: str = "default"
    kinds: Kinds = ANY_KIND
    source: EpisodeSource = "message"
    extract: bool = True
    notes: tuple[Note, ...] = ()
    ends: tuple[NoteEnd, ...] = ()
    within: str | None = None


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """An episode that is in the graph.

    Attributes:
        uuid: The episode's uuid.
        created: Whether this call wrote it; else it was there before and nothing was done.
        facts: How many facts it states, new ones and ones that were known.
        entities: How many entities it mentions.
        notes: How many notes were written with it.
    """

    uuid: str
    created: bool
    facts: int
    entities: int
    notes: int = 0


def origin_key(home: str, turn_id: str) -> str:
    """Return what stands for a turn in a group that it was understood into from another one.

    Args:
        home: The group that has the turn's passages.
        turn_id: The turn's id.
    """
    return hashlib.blake2b(f"{home}\x00{turn_id}".encode(), digest_size=12).hexdigest()


def note_uuid(group: str, *parts: str) -> str:
    """Return the uuid of a note: what is made of the same things twice is one note.

    Args:
        group: The group id.
        parts: What tells it apart, as the uuid of its episode and its place there.
    """
    return str(uuid.uuid5(_NOTES, "\x00".join((group, *parts))))
