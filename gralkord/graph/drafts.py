"""What is to be understood, and what came of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime


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
    """

    uuid: str
    name: str
    body: str
    reference_time: datetime
    source_description: str
    passages: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    lens: str = "default"


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
