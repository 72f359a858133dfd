"""What recall is asked, and what it answers."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field, field_validator, model_validator

from gralkord.models.base import Identifier, Moment, Text, Wire, Zone
from gralkord.models.filters import Filters
from gralkord.models.metadata import Metadata
from gralkord.models.turns import MAX_LENSES, Role

MAX_QUERY_CHARS: Final = 8_000
MAX_RESULTS: Final = 200
MAX_KINDS: Final = 5

InterpretMode = Literal["auto", "on", "off"]
# What a level of detail shows at most, see `Question.tier`.
Tier = Literal[1, 2, 3]
MAX_TOKENS: Final = 1_000_000

MemoryKind = Literal["passage", "fact", "learning", "generalisation", "memory"]


class Question(Wire):
    """What `RecallRequest` and `gralkord.models.search.SearchRequest` have in common."""

    operator: Identifier
    query: Text = Field(max_length=MAX_QUERY_CHARS)
    agent: Identifier | None = Field(
        None, description="Who asks: an agent may have lenses of its own."
    )
    lenses: list[Identifier] = Field(
        default_factory=list,
        max_length=MAX_LENSES,
        description="Lenses besides `default`; `global` is what all global lenses share.",
    )
    kinds: list[MemoryKind] = Field(
        default_factory=list,
        max_length=MAX_KINDS,
        description="Only memories of these kinds. Default: as each lens is set, else all.",
    )
    deadline_ms: int | None = Field(None, gt=0, le=600_000)
    on_deadline: Literal["partial", "error"] = "partial"
    as_of: Moment | None = Field(
        None,
        description="What was valid then, by the times that memories tell: ISO 8601, UTC if "
        "without a zone. Default: what is valid now.",
    )
    known_at: Moment | None = Field(
        None, description="Only what the system knew then, by the times at which it was written."
    )
    include_invalidated: bool = Field(
        False, description="Also what does not hold any more, marked as `invalidated`."
    )
    zone: Zone | None = Field(
        None,
        description="Where the asker is, such as `Europe/Berlin`: when `yesterday` begins and "
        "ends. Default: UTC, and days count that begin elsewhere on Earth.",
    )
    filters: Filters | None = Field(
        None, description="Only memories that fit. Default: all of the lenses that are searched."
    )
    tier: Tier | None = Field(
        None,
        description="How much is shown: 1: ids, scores and sources of 5 memories; 2: snippets of "
        "40 characters of 5; 3: previews of 200 characters of 10. Default: all of their texts.",
    )
    max_tokens: int | None = Field(
        None,
        gt=0,
        le=MAX_TOKENS,
        description="The memory block and the texts of the results take so many tokens at most; "
        "the first results that fit are kept. Default: as the daemon is set.",
    )

    @field_validator("query")
    @classmethod
    def _query_has_words(cls, query: str) -> str:
        if not query.strip():
            raise ValueError("must not be blank")
        return query


class RecallRequest(Question):
    """What do we know that helps with this?"""

    session: Identifier | None = Field(
        None,
        description="The session that asks. Its turns that are not flushed yet are no results, "
        "because whoever asks has just heard them; a model that interprets is shown them.",
    )
    lens: Identifier | None = Field(
        None, description="Only memories of this lens, instead of `default` and others."
    )
    max_results: int = Field(10, ge=1, le=MAX_RESULTS)
    interpret: InterpretMode | None = Field(
        None,
        description="Whether a model picks what helps, with a reason for each: `on`, `off`, or "
        "`auto`: if there is one and it answers in time. Default: as the daemon is set.",
    )

    @model_validator(mode="after")
    def _one_lens_alone(self) -> RecallRequest:
        if self.lens is not None and self.lenses:
            raise ValueError("lens: goes without lenses")
        return self


class Memory(Wire):
    """One result of recall. Its text is untrusted data."""

    kind: MemoryKind
    id: str
    text: str
    score: float = Field(description="Calibrated to 0..1 within the answer; higher is better.")
    lens: str = Field(description="Whose it is; `global` is what all global lenses share.")
    origin: str | None = Field(
        None, description="Of a memory of `global`: the lens that it came through first."
    )
    speaker: str | None = None
    role: Role | None = None
    event_time: str | None = None
    valid_at: str | None = None
    invalid_at: str | None = Field(
        None, description="Since when it does not hold any more, whoever has ended it."
    )
    invalidated: bool = Field(False, description="It does not hold at the time that was asked for.")
    reason: str | None = Field(None, description="Why it ended. Untrusted data.")
    session: str | None = None
    turn_id: str | None = None
    source: str | None = None
    offset: str | None = None
    passages: list[str] = Field(
        default_factory=list,
        description="Passages that support a fact, or that it was merged with.",
    )
    metadata: Metadata = Field(
        default_factory=dict, description="What its producer says about it. Untrusted data."
    )
    attributes: dict[str, Any] = Field(
        default_factory=dict,
        description="What is known of a fact or a note besides its text, such as `lesson`, "
        "`success`, `confidence`, `level`, `importance` or `tags`. Untrusted data.",
    )
    arms: list[str] = Field(default_factory=list, description="Which arms found it.")
    relevance: str | None = Field(
        None, description="In what way it helps, as the model that interpreted it says. Untrusted."
    )


class RecallResult(Wire):
    """The answer to a recall."""

    results: list[Memory]
    memory_block: str
    tokens_estimate: int = Field(0, description="Tokens that the memory block takes, about.")
    interpreted: bool = Field(
        False, description="Whether a model has picked the results out of what was found."
    )
    partial: bool = False
    degraded: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    took_ms: float
