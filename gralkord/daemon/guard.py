"""The guard of the queue's memory: intake is closed before the queue is full, and opened again.

A queue that is full to the brim would still drain, for every script but that of captures runs at
the memory limit. But what drains needs room on its way (an item is in two places for a moment, an
episode in several), and a server that is at its limit refuses strangers' commands at random. So new
work is refused in time, with a reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from redis import exceptions as refusals
from redis.asyncio import Redis

from gralkord.clock import Clock
from gralkord.errors import GralkorError
from gralkord.groups import escape
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.scripts import Scripts

log = structlog.get_logger(__name__)

# What is left above is for work under way, and for what direct producers write until they are shut
# out: at 100 MB/s a quarter of a second is a twentieth of the embedded queue's memory.
CLOSE_FROM_PERCENT: Final = 70
# Far enough below that a burst of captures does not close intake again at once.
OPEN_BELOW_PERCENT: Final = 60
# Below both, so that receipts of a busy week never keep intake closed.
FORGET_FROM_PERCENT: Final = 55
# From here on memory is looked at often.
WATCHFUL_PERCENT: Final = 50
WATCHFUL_SECONDS: Final = 0.25
CALM_SECONDS: Final = 1.0
# Intake opens by itself when no daemon has renewed this: then nobody would open it.
CLOSED_MS: Final = 5_000
# A server that was restarted has the rights of its configuration again.
RIGHTS_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Memory:
    """What the guard has seen.

    Attributes:
        percent: How much of its limit the queue uses; ``None``: it has no limit.
        closed: Whether intake is closed.
    """

    percent: int | None
    closed: bool


class Guard:
    """Closes and opens intake. Every daemon has one; they do the same and so do no harm."""

    def __init__(
        self,
        client: Redis,
        keys: Keys,
        clock: Clock,
        tenants: Sequence[str],
        producer_user: str | None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: The queue.
            keys: Its names.
            clock: The time.
            tenants: Whose receipts may be forgotten when memory runs short.
            producer_user: User of direct producers, whose right to append is taken while intake is
                closed; none: there are none that have a user of their own.
        """
        self._client = client
        self._scripts = Scripts(client, keys.prefix)
        self._clock = clock
        self._tenants = [escape(tenant) for tenant in tenants]
        self._user = producer_user
        # Neither is known at the start: whoever was here before may have left them shut out.
        self._closed: bool | None = None
        self._rights_until = 0.0
        self._complained = False

    async def watch(self) -> None:
        """Look again and again; runs until it is cancelled.

        Raises:
            GralkorError: The queue does not answer.
        """
        while True:
            try:
                memory = await self.check()
            except GralkorError:
                self._rights_until = 0.0
                raise
            often = memory.percent is not None and memory.percent >= WATCHFUL_PERCENT
            await asyncio.sleep(WATCHFUL_SECONDS if often else CALM_SECONDS)

    async def check(self) -> Memory:
        """Look at the memory once, and close or open intake.

        Raises:
            GralkorError: The queue does not answer.
        """
        percent, closed = await self._scripts.call(
            "guard",
            CLOSE_FROM_PERCENT,
            OPEN_BELOW_PERCENT,
            CLOSED_MS,
            FORGET_FROM_PERCENT,
            *self._tenants,
        )
        changed = bool(closed) != self._closed
        if changed and (closed or self._closed is not None):
            log.warning("intake_closed" if closed else "intake_opened", memory_percent=int(percent))
        self._closed = bool(closed)
        if self._user and (changed or self._clock.monotonic() >= self._rights_until):
            await self._allow(self._user, append=not closed)
            self._rights_until = self._clock.monotonic() + RIGHTS_SECONDS
        return Memory(int(percent) if percent >= 0 else None, bool(closed))

    async def _allow(self, user: str, *, append: bool) -> None:
        """Give the user of direct producers the right to append, or take it."""
        with queue_errors():
            try:
                known: Any = await self._client.acl_getuser(user)
                if known is not None:  # else the command would make one
                    rule = "+xadd" if append else "-xadd"
                    await self._client.execute_command("ACL", "SETUSER", user, rule)  # type: ignore[no-untyped-call]
                    self._complained = False
                    return
                reason = "there is no such user"
            except (refusals.NoPermissionError, refusals.ResponseError) as error:
                reason = str(error)[:200]  # managed servers let nobody do this
        if not self._complained:
            log.warning(
                "producers_not_guarded",
                user=user,
                reason=reason,
                hint="direct producers are stopped by the memory limit of the queue only",
            )
        self._complained = True
