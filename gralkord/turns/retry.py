"""What becomes of an item that failed: each class of failure has one owner."""

from __future__ import annotations

import asyncio
import logging
import traceback
from dataclasses import dataclass
from typing import Final, Literal

import structlog

from gralkord.errors import ConfigError, GralkorError, MalformedOutput, NotYet
from gralkord.mailbox.items import Lease
from gralkord.mailbox.mailbox import Mailbox

log = structlog.get_logger(__name__)

Verdict = Literal["wait", "count", "bury"]

MAX_DETAIL: Final = 4_000
_COUNTED_DELAYS_MS: Final = (1_000, 4_000, 15_000)
_WAIT_MS: Final = 500
_MEND_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Decision:
    """The mailbox's next step with an item that failed.

    Attributes:
        verdict: ``wait`` uses no attempt, ``count`` uses one, ``bury`` makes it a dead letter.
        delay_ms: Time until the next attempt.
        reason: Code of the error.
        detail: What happened, for the dead letter; no text of memories.
        answer: What a model wrote that could not be used; for the dead letter only, never logged.
    """

    verdict: Verdict
    delay_ms: int
    reason: str
    detail: str
    answer: str = ""


def decide(error: BaseException, failures: int) -> Decision:
    """Return what becomes of an item after *error*, having failed *failures* times before."""
    if isinstance(error, GralkorError):
        detail = error.message
        if isinstance(error, ConfigError):  # somebody has to mend a key or an address
            return Decision("wait", _MEND_MS, error.code, detail)
        if not error.retry:
            return Decision("bury", 0, error.code, detail)
        if not error.counted:
            delay = int(error.retry_after * 1000) if error.retry_after is not None else _WAIT_MS
            return Decision("wait", delay, error.code, detail)
        answer = error.raw if isinstance(error, MalformedOutput) else ""
        return Decision("count", _delay(failures), error.code, detail, answer)
    if isinstance(error, asyncio.CancelledError):
        return Decision("wait", 0, "cancelled", "the process was told to stop")
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = ", ".join(f"{frame.name}:{frame.lineno}" for frame in frames)
    return Decision(
        "count", _delay(failures), "unexpected", f"{type(error).__name__} in {places}"[:MAX_DETAIL]
    )


async def fail_item(mailbox: Mailbox, lease: Lease, item: str, error: BaseException) -> None:
    """Give the lease back with *item* unfinished, as `decide` says.

    Raises:
        LeaseLost: The lease is not held any more; nothing was changed.
    """
    decision = decide(error, lease.failures)
    buried = await mailbox.fail(
        lease,
        item,
        verdict=decision.verdict,
        delay_ms=decision.delay_ms,
        reason=decision.reason,
        detail=decision.detail,
        answer=decision.answer,
    )
    # Waiting for other work is the usual course of things.
    level = logging.DEBUG if isinstance(error, NotYet) else logging.WARNING
    log.log(
        level,
        "item_failed",
        lane=lease.lane,
        group=lease.group,
        item=item,
        reason=decision.reason,
        detail=decision.detail,
        dead=buried,
    )


def _delay(failures: int) -> int:
    return _COUNTED_DELAYS_MS[min(failures, len(_COUNTED_DELAYS_MS) - 1)]
