"""Observing: messages of which memories are made, and what was decided about each of them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gralkord.models.base import Identifier, Moment, Text, Wire
from gralkord.models.metadata import Metadata
from gralkord.models.records import RecordKind
from gralkord.models.turns import MAX_MESSAGES, MAX_TURN_BYTES

Action = Literal["add", "update", "forget", "noop"]

# Roles of what an agent's makers told it; their messages are left out.
SYSTEM_ROLES: Final = frozenset({"system", "developer"})
_ROLES: Final = ("user", "behaviour", "assistant", "tool", *sorted(SYSTEM_ROLES))


def _check_role(role: str) -> str:
    if role not in _ROLES:
        raise ValueError(f"must be one of {', '.join(_ROLES)}")
    return role


class ObservedMessage(Wire):
    """One thing said or done. System text, and memory that was put in, is left out."""

    role: Annotated[str, AfterValidator(_check_role)] = Field(
        "user", description="`user`, `assistant`, `behaviour` or `tool`; or `system`."
    )
    content: Text
    speaker: Identifier | None = Field(None, description="Who says it; default: `user`, `agent`.")


def _as_message(value: Any) -> Any:
    return {"content": value} if isinstance(value, str) else value


Observed = Annotated[ObservedMessage, BeforeValidator(_as_message, json_schema_input_type=Any)]


class ObserveRequest(Wire):
    """Make memories of what was said: those that are new are added, others are brought up to date.

    The words themselves are not kept.
    """

    operator: Identifier
    messages: list[Observed] = Field(
        min_length=1,
        max_length=MAX_MESSAGES,
        description="Texts of the user's, or objects with role, content and speaker.",
    )
    id: Identifier | None = Field(
        None, description="Your id of this observation: the same id is observed once."
    )
    user: Identifier | None = Field(
        None, description="Name of who speaks as `user`; default: the operator."
    )
    agent: Identifier | None = Field(None, description="Name of who speaks as `assistant`.")
    lens: Identifier | None = Field(
        None, description="The lens whose memory they go to; default: the agent's, or `default`."
    )
    metadata: Metadata = Field(
        default_factory=dict, description="What you say about it; kept with each memory."
    )
    source: Identifier | None = Field(None, description="What it was taken from.")
    offset: Identifier | None = Field(None, description="Where in the source it stands.")
    event_time: Moment | None = Field(
        None, description="When it was said, ISO 8601; UTC if without a zone; default: now."
    )
    timeout_ms: int = Field(
        30_000,
        ge=0,
        le=600_000,
        description="Answer when it is decided, at the latest after so long; the work goes on. "
        "0: at once, ask /v1/results later.",
    )

    @model_validator(mode="after")
    def _fits(self) -> ObserveRequest:
        size = sum(len(message.content.encode()) for message in self.messages)
        if size > MAX_TURN_BYTES:
            raise ValueError(
                f"messages: {size} bytes of text, the limit is {MAX_TURN_BYTES} bytes at a time"
            )
        return self


class ObserveDecision(Wire):
    """What was decided about one thing that may be worth remembering. Untrusted data."""

    action: Action = Field(
        description="`add`: a new memory; `update`: one that takes the place of another; `forget`: "
        "another does not hold any more; `noop`: it is known."
    )
    id: str | None = Field(None, description="Id of the new memory.")
    target: str | None = Field(
        None, description="Id of the memory that is ended by it, or that says it already."
    )
    content: str
    kind: RecordKind
    confidence: float
    importance: float
    reason: str | None = Field(None, description="Why it was decided so.")


class ObserveResult(Wire):
    """What came of an observation."""

    id: str = Field(description="Id of the request; see /v1/results.")
    complete: bool = Field(description="Whether it is decided; else it will be.")
    decisions: list[ObserveDecision] = Field(default_factory=list)
    left_out: int = Field(0, description="Candidates that were not sure enough.")
    repeated: bool = Field(
        False, description="It was observed before; these are the memories that came of it then."
    )
