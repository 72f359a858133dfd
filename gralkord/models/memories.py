"""Single memories: what is known of one, and the wire models of what people do with them."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field, model_validator

from gralkord.models.base import Identifier, Moment, Text, Wire
from gralkord.models.metadata import Metadata
from gralkord.models.recall import MemoryKind

MAX_SELECTED: Final = 1_000
MAX_REASON_CHARS: Final = 500


class MemoryQuery(Wire):
    """Whose memory is asked."""

    operator: Identifier = Field(description="Whose memory; all its lenses are looked at.")


class HistoryQuery(MemoryQuery):
    """Whose memory is asked, and how much is told."""

    text: bool = Field(False, description="Whether to tell the words, too; else ids only.")


class MemorySelection(Wire):
    """Memories of an operator: these ids, or all passages of a source."""

    operator: Identifier
    ids: list[Identifier] = Field(
        default_factory=list, max_length=MAX_SELECTED, description="Of passages, facts and notes."
    )
    source: Identifier | None = Field(
        None, description="Instead of ids: everything that was taken from it."
    )
    offset: Identifier | None = Field(None, description="Only what stands there in the source.")

    @model_validator(mode="after")
    def _one_way(self) -> MemorySelection:
        if bool(self.ids) == (self.source is not None):
            raise ValueError("ids: give either ids, or a source")
        if self.offset is not None and self.source is None:
            raise ValueError("offset: goes with a source")
        return self


class InvalidateRequest(MemorySelection):
    """These memories do not hold any more."""

    reason: Text | None = Field(None, max_length=MAX_REASON_CHARS, description="Why.")
    valid_until: Moment | None = Field(
        None, description="Until when they held, or will hold. Default: until now."
    )


class ReactivateRequest(MemorySelection):
    """These memories hold after all: what an invalidation or a replacement did is taken back."""


class UndoRequest(Wire):
    """A fact or a note was not ended by what was found to end it."""

    operator: Identifier
    id: Identifier = Field(description="The fact or note that was superseded.")
    by: Identifier | None = Field(
        None, description="The fact, note or episode that did it. Default: the one that did last."
    )


class ChangeResult(Wire):
    """What was done with memories."""

    passages: int = 0
    facts: int = Field(
        0, description="Facts that were named. Those that are only said by passages go with them."
    )
    notes: int = Field(0, description="Learnings, generalisations and memories that were named.")
    left: dict[str, str] = Field(
        default_factory=dict, description="Ids with which nothing was done: `not_found`."
    )


class StoredMemory(Wire):
    """All that is known of one passage, fact or note. Its words are untrusted data."""

    kind: MemoryKind
    id: str
    lens: str
    text: str
    created_at: str | None = Field(None, description="When it was written.")
    event_time: str | None = Field(None, description="When it was said.")
    valid_at: str | None = None
    invalid_at: str | None = Field(
        None, description="Since when it does not hold any more, whoever has ended it."
    )
    invalidated: bool = Field(False, description="It does not hold now.")
    reason: str | None = Field(None, description="Why it ended.")
    expired_at: str | None = Field(None, description="When a fact was found to have ended.")
    withdrawn_at: str | None = Field(None, description="When it was invalidated or replaced.")
    withdrawn_until: str | None = None
    replaced_by: str | None = Field(None, description="The passage that stands at its place now.")
    superseded_by: str | None = Field(
        None, description="The fact, note or episode that ended this one."
    )
    speaker: str | None = None
    role: str | None = None
    agent: str | None = None
    session: str | None = None
    turn_id: str | None = None
    source: str | None = None
    offset: str | None = None
    metadata: Metadata = Field(default_factory=dict)
    form: str | None = Field(
        None,
        description="Of what was ingested: `conversation`, `document` or `structured_record`.",
    )
    description: str | None = Field(
        None, description="Likewise: what it is and where it is from. Untrusted data."
    )
    title: str | None = Field(None, description="Of a note: what it is about, in short.")
    confidence: float | None = Field(
        None, description="How sure whoever told or made a fact or a note was, 0 to 1."
    )
    relation: str | None = Field(None, description="Name of a fact's relation.")
    subject: str | None = Field(None, description="Id of the entity that a fact is about.")
    object: str | None = Field(None, description="Id of the entity that it relates that one to.")
    attributes: dict[str, Any] = Field(
        default_factory=dict, description="What else is known of a fact or a note."
    )
    episodes: list[str] = Field(
        default_factory=list, description="Episodes that say it, or that it was understood in."
    )


class Supersession(Wire):
    """A fact or a note that ended another one."""

    id: str = Field(
        description="The other one: that ended this one, or was ended by it. An episode, where "
        "nothing took the place of a note."
    )
    text: str | None = None
    reason: str | None = Field(None, description="Why it could.")
    at: str | None = Field(None, description="When that was found out.")
    episode: str | None = Field(None, description="The episode that said so.")
    undone: bool = Field(False, description="It does not count any more.")


class SaidBy(Wire):
    """A passage that a fact was taken from."""

    id: str
    text: str | None = None
    speaker: str
    session: str
    turn_id: str
    event_time: str
    source: str | None = None
    offset: str | None = None
    invalidated: bool = False


class Provenance(Wire):
    """An episode that says a fact, and the passages that it was made of."""

    episode: str
    passages: list[SaidBy] = Field(default_factory=list)


class MemoryHistory(Wire):
    """Where a memory comes from and what became of it."""

    memory: StoredMemory
    superseded: Supersession | None = Field(None, description="What ended it last.")
    supersedes: list[Supersession] = Field(
        default_factory=list, description="What it has ended, where that was the last end."
    )
    provenance: list[Provenance] = Field(default_factory=list)
