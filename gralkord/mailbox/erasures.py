"""Erasures in the queue: which one is under way, what each covers, what past ones have taken."""

from __future__ import annotations

from typing import Any, Final

from redis.asyncio import Redis

from gralkord.errors import LeaseLost
from gralkord.groups import escape
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.scripts import Scripts
from gralkord.models.erasure import EraseScope, Erasure

HELD_MS: Final = 10_000
# Graves are kept so long: a process that has been frozen for less finds a fence when it wakes.
GRAVE_MS: Final = 24 * 3600 * 1000


class Erasures:
    """The marks that keep what is erased from being routed, and the records of all erasures."""

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client, keys.prefix)

    async def open(self, tenant: str, erasure: str, scope: EraseScope) -> str | None:
        """Begin: from now on nothing of *scope* is routed; return the last entry's id.

        Returns:
            The id, or nothing if another erasure of the tenant is under way.
        """
        text = scope.model_dump_json(exclude_defaults=True)
        return await self._mark(tenant, erasure, "open", text) or None

    async def renew(self, tenant: str, erasure: str) -> str:
        """Go on, for without it others may begin after `HELD_MS`; return the last entry's id.

        Raises:
            LeaseLost: Another erasure has begun meanwhile.
        """
        return await self._held(tenant, erasure, "renew")

    async def close(self, tenant: str, erasure: str) -> str:
        """Let what is captured from now on be routed again; return the id of the last entry before.

        Raises:
            LeaseLost: Another erasure has begun meanwhile.
        """
        return await self._held(tenant, erasure, "close")

    async def end(self, tenant: str, erasure: str) -> None:
        """Let another erasure begin."""
        await self._mark(tenant, erasure, "end")

    async def current(self, tenant: str) -> str | None:
        """Return the id of the erasure that is under way."""
        with queue_errors():
            found: Any = await self._client.get(self._keys.erasing(tenant))
        return found.decode() if found else None

    async def save(self, tenant: str, erasure: Erasure) -> None:
        """Keep what is known of an erasure; it has no words of memories."""
        with queue_errors():
            await self._client.hset(
                self._keys.erasures(tenant), erasure.id, erasure.model_dump_json()
            )

    async def load(self, tenant: str, erasure: str) -> Erasure | None:
        """Return what is known of one erasure."""
        with queue_errors():
            found: Any = await self._client.hget(self._keys.erasures(tenant), erasure)
        return Erasure.model_validate_json(found) if found else None

    async def all(self, tenant: str) -> list[Erasure]:
        """Return all erasures of a tenant, newest first."""
        return [Erasure.model_validate_json(text) for text in await self._texts(tenant)][::-1]

    async def unfinished(self, tenant: str) -> list[Erasure]:
        """Return those that are not done, oldest first; most are, so only few are read."""
        found = [text for text in await self._texts(tenant) if b'"state":"done"' not in text]
        erasures = [Erasure.model_validate_json(text) for text in found]
        return [one for one in erasures if one.state != "done"]

    async def _texts(self, tenant: str) -> list[bytes]:
        """Return all records; their ids begin with the time, so that they sort by it."""
        with queue_errors():
            found: Any = await self._client.hgetall(self._keys.erasures(tenant))
        return [found[name] for name in sorted(found)]

    async def bury(self, group: str, now_ms: int) -> None:
        """Note that a group was emptied and is kept only for its fences."""
        with queue_errors():
            await self._client.zadd(self._keys.named("graves"), {group: now_ms})

    async def old_graves(self, now_ms: int) -> list[str]:
        """Return the groups whose graves have been kept long enough."""
        with queue_errors():
            found: Any = await self._client.zrangebyscore(
                self._keys.named("graves"), "-inf", now_ms - GRAVE_MS
            )
        return [group.decode() for group in found]

    async def forget_grave(self, group: str) -> None:
        """Note that a grave is gone, or has become a group again."""
        with queue_errors():
            await self._client.zrem(self._keys.named("graves"), group)

    async def _held(self, tenant: str, erasure: str, what: str) -> str:
        last = await self._mark(tenant, erasure, what)
        if not last:
            raise LeaseLost
        return last

    async def _mark(self, tenant: str, erasure: str, what: str, scope: str = "") -> str:
        found: bytes = await self._scripts.call(
            "erase_mark", escape(tenant), erasure, what, scope, HELD_MS
        )
        return found.decode()
