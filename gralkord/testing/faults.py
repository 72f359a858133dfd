"""Faults that the scripted model server shows on request, in an order that can be repeated."""

from __future__ import annotations

import json
import random
from collections import deque
from enum import StrEnum
from typing import Any, Self

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
    slow_ms: int = Field(5_000, ge=0, description="How long a `slow` answer takes.")
    retry_after: float | None = Field(
        1.0, ge=0, description="Seconds in the Retry-After of a 429; null: it has none."
    )
    retry_date: bool = Field(False, description="Whether Retry-After names a date instead.")
    only: str = Field("", description="Only requests whose prompt holds this text fail.")

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

    def draw(self, prompt: str = "") -> Fault | None:
        """Return what happens to the next request, which says *prompt*."""
        if self.plan.only not in prompt:
            return None
        self._count += 1
        if self._next:
            return self._next.popleft()
        # Seeded by the request's number, so that it does not matter what was drawn before.
        chance = random.Random(f"{self.plan.seed}:{self._count}")  # noqa: S311 - not a secret
        return chance.choice(self.plan.kinds) if chance.random() < self.plan.rate else None


def spoil(fault: Fault | None, answer: dict[str, Any], schema: dict[str, Any]) -> tuple[str, str]:
    """Return what the model writes instead of *answer*, and its finish reason."""
    written = text = json.dumps(answer, ensure_ascii=False)
    match fault:
        case Fault.CUT_OFF:
            written = text[: max(1, len(text) * 2 // 3)]
        case Fault.SCHEMA_ECHO:
            written = json.dumps(schema)
        case Fault.WRONG_TYPES:
            written = json.dumps(_wrong_types(answer, schema))
        case Fault.EMPTY:
            written = ""
        case Fault.THINK:
            written = f"<think>\nPerhaps {{}}? No, that is too little.\n</think>\n\n{text}"
        case Fault.CODE_FENCE:
            written = f"```json\n{json.dumps(answer, ensure_ascii=False, indent=2)}\n```"
        case Fault.PROSE:
            written = f"Sure! Here is the answer:\n\n{text}\n\nAnything else?"
    return written, "length" if fault is Fault.CUT_OFF else "stop"


def _wrong_types(answer: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    names = schema.get("properties", {}).keys() | answer.keys()
    return {name: "many" if isinstance(answer.get(name), list) else ["many"] for name in names}
