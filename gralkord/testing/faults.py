"""Faults that the scripted model server shows on request, in an order that can be repeated."""

from __future__ import annotations

import random
import time
from collections import deque
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Fault(StrEnum):
    """A way to fail."""

    RATE_LIMITED = "rate_limited"
    """429 with Retry-After."""
    SERVER_ERROR = "server_error"
    """500."""
    REFUSED_KEY = "refused_key"
    """401."""
    REFUSED = "refused"
    """400: the request itself is not acceptable."""
    DROPPED = "dropped"
    """The connection ends in the middle of the answer."""
    SLOW = "slow"
    """The answer comes after `slow_ms`."""
    CUT_OFF = "cut_off"
    """JSON that breaks off, finish reason `length`."""
    SCHEMA_ECHO = "schema_echo"
    """The schema instead of an instance of it."""
    WRONG_TYPES = "wrong_types"
    """JSON with values of other types than asked for."""
    EMPTY = "empty"
    """Nothing."""
    THINK = "think"
    """The right answer after a `<think>` block that holds a wrong one."""
    CODE_FENCE = "code_fence"
    """The right answer in a code fence."""
    PROSE = "prose"
    """The right answer between polite sentences."""
    BROKEN_OFF = "broken_off"
    """JSON that breaks off, finish reason `stop`."""
    OTHER_NAMES = "other_names"
    """The right answer under other names."""
    EMPTY_OBJECT = "empty_object"
    """`{}`."""
    SEVERAL = "several"
    """Two objects: one that says nothing was found, and the right one."""
    TWICE = "twice"
    """The right answer, each field of it once more and empty."""
    APOLOGY = "apology"
    """A sentence without JSON."""
    PYTHON = "python"
    """The right answer as Python writes it."""
    SLIPS = "slips"
    """The right answer with a comment and a comma too many."""
    QUOTED = "quoted"
    """The right answer as a JSON text."""
    TOOL_CALL = "tool_call"
    """The right answer as the arguments of a call."""


MALFORMED = frozenset(Fault) - {
    Fault.RATE_LIMITED,
    Fault.SERVER_ERROR,
    Fault.REFUSED_KEY,
    Fault.REFUSED,
    Fault.DROPPED,
    Fault.SLOW,
}
"""The faults of what is written, and not of how it arrives."""


class FaultPlan(BaseModel):
    """Which requests fail, and how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rate: float = Field(0.0, ge=0, le=1, description="Share of the requests that fail.")
    kinds: tuple[Fault, ...] = Field((), description="Ways to fail, drawn with equal chance.")
    seed: int = Field(0, description="The same seed fails the same requests the same way.")
    next: tuple[Fault | None, ...] = Field(
        (), description="What happens to the next requests, one after the other; null: nothing."
    )
    latency_ms: int = Field(0, ge=0, description="How long each answer takes.")
    token_ms: float = Field(0.0, ge=0, description="How much longer for each token of it.")
    slow_ms: int = Field(5_000, ge=0, description="How long a `slow` answer takes.")
    retry_after: float | None = Field(
        1.0, ge=0, description="Seconds in the Retry-After of a 429; null: it has none."
    )
    retry_date: bool = Field(False, description="Whether Retry-After names a date instead.")
    only: str = Field("", description="Only requests whose prompt holds this text fail.")
    path: str = Field("", description="Only requests whose path holds this text fail.")
    lasts: float | None = Field(
        None, ge=0, description="Seconds after which nothing fails any more; null: for good."
    )
    requests_per_minute: int | None = Field(
        None, gt=0, description="Requests a minute; told in headers, and what is over gets a 429."
    )
    tokens_per_minute: int | None = Field(
        None, gt=0, description="Tokens a minute of prompts, likewise."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.rate and not self.kinds:
            raise ValueError("rate needs kinds")
        return self


class Faults:
    """Hands out the faults of a plan, request by request."""

    def __init__(self, plan: FaultPlan) -> None:
        self.plan = plan
        self._count = 0
        self._next = deque(plan.next)
        self._ends = None if plan.lasts is None else time.monotonic() + plan.lasts

    def draw(self, prompt: str = "", path: str = "") -> Fault | None:
        """Return what happens to the next request, which says *prompt* to *path*."""
        if self.plan.only not in prompt or self.plan.path not in path:
            return None
        if self._ends is not None and time.monotonic() >= self._ends:
            return None
        self._count += 1
        if self._next:
            return self._next.popleft()
        # Seeded by the request's number, so that it does not matter what was drawn before.
        chance = random.Random(f"{self.plan.seed}:{self._count}")  # noqa: S311 - not a secret
        return chance.choice(self.plan.kinds) if chance.random() < self.plan.rate else None
