"""Sources: what memories were taken from, told without their words."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from gralkord.models.base import Identifier, Wire
from gralkord.models.memories import MemoryQuery

MAX_SOURCES: Final = 1_000
MAX_ENTRIES: Final = 10_000


class SourcesQuery(MemoryQuery):
    """A page of the list of sources."""

    limit: int = Field(100, ge=1, le=MAX_SOURCES, description="Most sources of a page.")
    after: Identifier | None = Field(None, description="`next` of the page before.")


class SourceQuery(MemoryQuery):
    """A page of what stands in a source."""

    offset: Identifier | None = Field(None, description="Only what stands there.")
    limit: int = Field(1_000, ge=1, le=MAX_ENTRIES, description="Most entries of a page.")
    after: Identifier | None = Field(None, description="`next` of the page before.")


class SourceSummary(Wire):
    """One source, in numbers."""

    source: str
    passages: int
    invalidated: int = Field(description="Passages that do not hold any more.")
    facts: int = Field(description="Facts that a passage of it supports.")
    notes: int = Field(
        0, description="Notes that a passage of it supports, or that name it as their source."
    )
    first: str = Field(description="When the first of it was said, ISO 8601.")
    last: str = Field(description="When the last of it was said, ISO 8601.")


class SourcePage(Wire):
    """A page of the list of sources, by name."""

    sources: list[SourceSummary]
    next: str | None = Field(None, description="Where the next page begins; nothing: no more.")


class SourceEntry(Wire):
    """One passage of a source, without its words."""

    id: str
    lens: str
    offset: str | None
    checksum: str = Field(description="BLAKE2b of its text in UTF-8, 32 bytes as hex digits.")
    session: str
    turn_id: str
    part: int
    event_time: str
    created_at: str
    invalidated: bool
    reason: str | None
    facts: list[str] = Field(
        description="Ids of facts and notes of the episode that it is part of."
    )


class SourceContent(Wire):
    """What stands in a source, in the order in which it was captured."""

    source: str
    entries: list[SourceEntry]
    notes: list[str] = Field(
        default_factory=list,
        description="Ids of notes that name it as their source; with the first page.",
    )
    next: str | None = Field(None, description="Where the next page begins; nothing: no more.")
