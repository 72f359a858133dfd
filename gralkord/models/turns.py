"""Turns on their way in, and flushes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

from pydantic import Field, model_validator

from gralkord.models.base import Identifier, Moment, Text, Wire
from gralkord.models.metadata import Metadata

MAX_TURN_BYTES: Final = 262_144
MAX_MESSAGES: Final = 200
MAX_LENSES: Final = 16
FUTURE_SLACK: Final = timedelta(days=1)

Role = Literal["user", "behaviour", "assistant"]
Until = Literal["indexed", "understood"]


class Message(Wire):
    """One thing said or done within a turn."""

    role: Role
    content: Text
    speaker: Identifier | None = Field(
        None, description="Who says it, where that is not the turn's `user` or `agent`."
    )


class Capture(Wire):
    """One turn of a session, as a producer sends it."""

    session: Identifier
    operator: Identifier
    agent: Identifier
    user: Identifier
    turn: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    lenses: list[Identifier] = Field(default_factory=list, max_length=MAX_LENSES)
    turn_id: Identifier | None = Field(
        None,
        description="The producer's id: the same id of the same operator is the same turn, however "
        "often it is sent.",
    )
    event_time: Moment | None = Field(
        None,
        description="When it happened, ISO 8601; UTC if without a zone; default: when it arrived.",
    )
    source: Identifier | None = Field(None, description="What the turn was taken from.")
    offset: Identifier | None = Field(
        None,
        description="Where in the source it stands. With `source` it names a place: other words at "
        "the same place replace those that were there.",
    )
    metadata: Metadata = Field(
        default_factory=dict,
        description="What the producer says about it: up to 32 names, each with a text, a number, "
        "a truth value or a list of texts. `outcome` may say how the turn ended: `succeeded` or "
        "`failed`; what the agent learns from it follows that.",
    )

    @model_validator(mode="after")
    def _turn_has_words(self) -> Capture:
        if not any(message.content.strip() for message in self.turn):
            raise ValueError("turn: all messages are empty")
        size = sum(len(message.content.encode()) for message in self.turn)
        if size > MAX_TURN_BYTES:
            raise ValueError(
                f"turn: {size} bytes of text, the limit is {MAX_TURN_BYTES} bytes a turn"
            )
        return self


class CaptureReceipt(Wire):
    """The answer to a capture: the turn is stored and will become recallable."""

    receipt: str = Field(description="Id of the request: the entry's id in the intake stream.")
    turn_id: str
    duplicate: bool = Field(False, description="This turn was captured before; nothing was added.")
    durability: str = Field(
        description="When the queue's file is synced: `always`, with each write; `everysec`, each "
        "second; `none`, by nobody. `queue`: written to the stream directly, so as the queue is "
        "set up."
    )
    notes: list[str] = Field(default_factory=list)


class FlushRequest(Wire):
    """Hand a session's buffered turns over to be understood."""

    session: Identifier
    operator: Identifier | None = Field(
        None, description="Checked against the session's binding when given."
    )
    wait: bool = Field(
        False, description="Answer when the flush is done, at the latest at `timeout_ms`."
    )
    until: Until = "understood"
    timeout_ms: int = Field(30_000, gt=0, le=600_000)


class FlushResult(Wire):
    """How far a flush has come."""

    flush: str = Field(description="Id of the flush.")
    state: Literal["queued", "indexed", "understood"]
    complete: bool = Field(description="Whether the flush got as far as the request asked for.")
    reason: str | None = Field(
        None,
        description="Why it stands there: `no_model`, `model_outage` and `model_misconfigured` (it "
        "goes on when the model answers), `budget_spent` (at midnight UTC), `dead_letters`, "
        "`timeout`, `stopping` (the daemon ends, the work goes on), or nothing.",
    )
    turns: int | None = Field(None, description="Turns that this flush handed over, once known.")
    dead: int = Field(0, description="Items it waited for that became dead letters.")


def future_limit(now: datetime) -> datetime:
    """Return the latest event time that a turn may carry when it arrives at *now*."""
    return now + FUTURE_SLACK
