"""Memories that are told outright: made, changed and listed one by one."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from gralkord.models.base import Identifier, Moment, Text, Wire
from gralkord.models.metadata import Metadata

RecordKind = Literal["semantic", "episodic", "preference", "instruction"]

MAX_CONTENT_CHARS: Final = 2_000
MAX_TAGS: Final = 32
MAX_PAGE: Final = 1_000
MAX_IMPORTANCE: Final = 1_000


def _check_content(text: str) -> str:
    if not any(char.isprintable() and not char.isspace() for char in text):
        raise ValueError("must not be blank")
    return text


Content = Annotated[Text, AfterValidator(_check_content), Field(max_length=MAX_CONTENT_CHARS)]
Importance = Annotated[float, Field(ge=0, le=MAX_IMPORTANCE)]
Tags = Annotated[list[Identifier], Field(max_length=MAX_TAGS)]


class AddMemoryRequest(Wire):
    """Remember something, as it is told; no model is asked."""

    operator: Identifier
    content: Content = Field(description="What is to be remembered.")
    kind: RecordKind = "semantic"
    importance: Importance = Field(1.0, description="How much it matters; 1.0 is usual.")
    tags: Tags = Field(default_factory=list, description="Words of yours to find it by.")
    metadata: Metadata = Field(default_factory=dict, description="What you say about it.")
    source: Identifier | None = Field(None, description="What it was taken from.")
    offset: Identifier | None = Field(None, description="Where in the source it stands.")
    event_time: Moment | None = Field(
        None, description="Since when it holds, ISO 8601; UTC if without a zone; default: now."
    )
    id: Identifier | None = Field(None, description="Your id of it: the same id is added once.")
    lens: Identifier = Field("default", description="The lens whose memory it goes to.")
    timeout_ms: int = Field(
        30_000,
        ge=0,
        le=600_000,
        description="Answer when it is written, at the latest after so long; the work goes on.",
    )


class UpdateMemoryRequest(Wire):
    """Change a memory. Other words make a new one, which takes its place and can be undone."""

    operator: Identifier
    content: Content | None = Field(None, description="What holds instead.")
    kind: RecordKind | None = None
    importance: Importance | None = None
    tags: Tags | None = Field(None, description="Instead of those that it has.")
    metadata: Metadata | None = Field(None, description="Instead of what it has.")
    event_time: Moment | None = Field(
        None, description="Since when the new words hold; default: now."
    )
    id: Identifier | None = Field(None, description="Your id of this change: made once.")
    timeout_ms: int = Field(
        30_000,
        ge=0,
        le=600_000,
        description="Answer when it is changed, at the latest after so long; the work goes on.",
    )

    @model_validator(mode="after")
    def _changes_something(self) -> UpdateMemoryRequest:
        values = (self.content, self.kind, self.importance, self.tags, self.metadata)
        if all(value is None for value in values):
            raise ValueError("content: say what is to change")
        if self.event_time is not None and self.content is None:
            raise ValueError("event_time: goes with content")
        return self


class MemoryResult(Wire):
    """What came of adding or changing a memory."""

    id: str = Field(description="Id of the request; see /v1/results.")
    complete: bool = Field(description="Whether it is done; else it will be.")
    memory: str | None = Field(None, description="Id of the memory that holds now.")
    replaced: str | None = Field(None, description="Id of the memory whose place it has taken.")
    created: bool = Field(False, description="Whether this request has made it.")


class MemoriesQuery(Wire):
    """Which memories: all parts that are given have to fit."""

    operator: Identifier
    lens: Identifier | None = Field(None, description="Only of this lens; default: of all.")
    kind: RecordKind | None = Field(None, description="Only of this kind.")
    tag: Identifier | None = Field(None, description="Only those with this tag.")
    source: Identifier | None = Field(None, description="Only what was taken from it.")
    include_invalidated: bool = Field(False, description="Also what does not hold any more.")
    limit: int = Field(100, ge=1, le=MAX_PAGE, description="Most memories of a page.")
    after: str | None = Field(None, max_length=200, description="`next` of the page before.")


class MemoryRecord(Wire):
    """A memory that was told outright or made of what was observed. Its words are untrusted."""

    id: str
    content: str
    kind: RecordKind
    importance: float
    tags: list[str] = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)
    lens: str
    confidence: float | None = Field(None, description="How sure a model was of it.")
    source: str | None = None
    offset: str | None = None
    event_time: str | None = Field(None, description="Since when it holds.")
    created_at: str | None = None
    last_accessed: str | None = None
    invalid_at: str | None = Field(None, description="Since when it does not hold any more.")
    invalidated: bool = False
    reason: str | None = Field(None, description="Why it ended: `updated`, `forgotten`, or yours.")
    superseded_by: str | None = Field(None, description="What took its place.")


class MemoryPage(Wire):
    """A page of memories, oldest first."""

    memories: list[MemoryRecord]
    next: str | None = Field(None, description="Where the next page begins; nothing: no more.")
