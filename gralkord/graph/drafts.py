"""What is to be understood, and what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import BaseModel


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


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """An episode that is in the graph.

    Attributes:
        uuid: The episode's uuid.
        created: Whether this call wrote it; else it was there before and nothing was done.
        facts: How many facts it states, new ones and ones that were known.
        entities: How many entities it mentions.
    """

    uuid: str
    created: bool
    facts: int
    entities: int


def origin_key(home: str, turn_id: str) -> str:
    """Return what stands for a turn in a group that it was understood into from another one.

    Args:
        home: The group that has the turn's passages.
        turn_id: The turn's id.
    """
    return hashlib.blake2b(f"{home}\x00{turn_id}".encode(), digest_size=12).hexdigest()
