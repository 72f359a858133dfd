"""How durable the queue is: what its server says, where it says anything."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import redis.exceptions as refusals
import structlog
from redis.asyncio import Redis

log = structlog.get_logger(__name__)

CHECK_SECONDS: Final = 60.0

# From the weakest to the strongest.
_ORDER: Final = ("none", "everysec", "always")


class Durability:
    """Knows when the queue syncs its file, so that receipts can tell.

    Managed servers do not tell; then it is what is configured.

    Args:
        client: The queue.
        configured: `always` or `everysec`, as the settings have it.
    """

    def __init__(self, client: Redis, configured: str) -> None:
        self._client = client
        self._configured = configured
        self.current = configured

    async def watch(self) -> None:
        """Ask the server again and again."""
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Ask the server; log a warning when it has become weaker than what is configured."""
        found = await self._found() or self.current
        if found != self.current and _ORDER.index(found) < _ORDER.index(self._configured):
            log.warning(
                "queue_less_durable",
                configured=self._configured,
                found=found,
                hint="set appendonly yes and appendfsync always, or queue.durability to what is",
            )
        self.current = found

    async def _found(self) -> str | None:
        try:
            values: Any = await self._client.config_get("appendonly", "appendfsync")
        except refusals.RedisError:  # it may not be asked, or does not answer: nothing is known
            return None
        said = {_text(name): _text(value) for name, value in dict(values).items()}
        if said.get("appendonly") == "no":
            return "none"
        # `no` leaves the syncing to the system, and nobody knows when.
        return {"always": "always", "everysec": "everysec", "no": "none"}.get(
            said.get("appendfsync", "")
        )


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
