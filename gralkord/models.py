"""Wire models: what requests and answers look like, the same on HTTP, streams and in Python."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

MAX_ID_BYTES: Final = 256
MAX_NAME_BYTES: Final = 256
MAX_TURN_BYTES: Final = 262_144
MAX_MESSAGES: Final = 200
MAX_QUERY_CHARS: Final = 8_000
MAX_RESULTS: Final = 200
MAX_LENSES: Final = 16
FUTURE_SLACK: Final = timedelta(days=1)

Role = Literal["user", "behaviour", "assistant"]
Until = Literal["indexed", "understood"]

# Tab, line feed and carriage return are text; every other control character, C1 too, is not.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_ANY_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def _check_encodable(text: str) -> None:
    if match := _SURROGATE.search(text):
        raise ValueError(
            f"lone surrogate U+{ord(match[0]):04X} at character {match.start() + 1}: "
            "not valid Unicode text"
        )


def check_text(text: str) -> str:
    """Return *text* unchanged if it can be stored.

    Raises:
        ValueError: It holds a NUL, a control character or a lone surrogate; the message says where.
    """
    if text.isprintable():  # neither controls nor surrogates are
        return text
    _check_encodable(text)
    if match := _CONTROL.search(text):
        raise ValueError(
            f"control character U+{ord(match[0]):04X} at character {match.start() + 1}: remove it"
        )
    return text


def check_id(text: str) -> str:
    """Return *text* unchanged if it can name an operator, session, lens, agent, speaker or turn.

    Raises:
        ValueError: It is blank, has a control character, or is longer than 256 bytes of UTF-8.
    """
    if text.isascii() and text.isprintable() and len(text) <= MAX_ID_BYTES and text.strip():
        return text
    _check_encodable(text)
    if not text.strip():
        raise ValueError("must not be blank")
    if match := _ANY_CONTROL.search(text):
        raise ValueError(
            f"control character U+{ord(match[0]):04X} at character {match.start() + 1}"
        )
    if (size := len(text.encode())) > MAX_ID_BYTES:
        raise ValueError(f"{size} bytes, the limit is {MAX_ID_BYTES} bytes of UTF-8")
    return text


def parse_time(value: Any) -> Any:
    """Return the moment that an ISO 8601 text names; without a zone it is taken as UTC.

    Raises:
        ValueError: The text is not ISO 8601, or names a moment that UTC cannot hold.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                f"{value[:64]!r} is not an ISO 8601 date and time such as 2024-05-01T09:30:00Z"
            ) from None
    if not isinstance(value, datetime):
        raise ValueError("must be an ISO 8601 text such as 2024-05-01T09:30:00Z")  # noqa: TRY004
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except (OverflowError, ValueError):
        raise ValueError(f"{value.isoformat()} is outside the years 1 to 9999 in UTC") from None


Identifier = Annotated[str, AfterValidator(check_id)]
Text = Annotated[str, AfterValidator(check_text)]
Moment = Annotated[datetime, BeforeValidator(parse_time)]


class Wire(BaseModel):
    """Base of what comes over the wire: unknown fields are refused, nothing is coerced silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)


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
    offset: Identifier | None = Field(None, description="Where in the source it stands.")

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
        "goes on when the model answers), `dead_letters`, `timeout`, or nothing.",
    )
    turns: int | None = Field(None, description="Turns that this flush handed over, once known.")
    dead: int = Field(0, description="Items it waited for that became dead letters.")


class RecallRequest(Wire):
    """What do we know that helps with this?"""

    operator: Identifier
    query: Text = Field(max_length=MAX_QUERY_CHARS)
    agent: Identifier | None = None
    session: Identifier | None = None
    lenses: list[Identifier] = Field(default_factory=list, max_length=MAX_LENSES)
    max_results: int = Field(10, ge=1, le=MAX_RESULTS)
    deadline_ms: int | None = Field(None, gt=0, le=600_000)
    on_deadline: Literal["partial", "error"] = "partial"

    @field_validator("query")
    @classmethod
    def _query_has_words(cls, query: str) -> str:
        if not query.strip():
            raise ValueError("must not be blank")
        return query


class Memory(Wire):
    """One result of recall. Its text is untrusted data."""

    kind: Literal["passage", "fact"]
    id: str
    text: str
    score: float = Field(description="Calibrated to 0..1 within the answer; higher is better.")
    lens: str
    speaker: str | None = None
    role: Role | None = None
    event_time: str | None = None
    valid_at: str | None = None
    invalid_at: str | None = None
    session: str | None = None
    turn_id: str | None = None
    source: str | None = None
    offset: str | None = None
    passages: list[str] = Field(
        default_factory=list,
        description="Passages that support a fact, or that it was merged with.",
    )
    arms: list[str] = Field(default_factory=list, description="Which arms found it.")


class RecallResult(Wire):
    """The answer to a recall."""

    results: list[Memory]
    memory_block: str
    partial: bool = False
    degraded: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    took_ms: float


def future_limit(now: datetime) -> datetime:
    """Return the latest event time that a turn may carry when it arrives at *now*."""
    return now + FUTURE_SLACK
