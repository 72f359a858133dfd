"""What a session still holds back."""

from __future__ import annotations

from typing import Any

import orjson
from redis.asyncio import Redis

from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.keys import Keys


class SessionBuffers:
    """Looks into the buffers of sessions.

    Args:
        client: The queue Redis.
        keys: Names of its keys.
    """

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def unflushed(self, tenant: str, session: str) -> list[str]:
        """Return the ids of a session's turns that are not flushed yet, oldest first.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        with queue_errors():
            # A stub that knows no bytes.
            texts: Any = await self._client.lrange(self._keys.buffer(tenant, session), 0, -1)
        return [orjson.loads(text)["id"] for text in texts]
