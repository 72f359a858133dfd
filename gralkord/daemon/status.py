"""How much waits in the queue, and since when."""

from __future__ import annotations

from typing import Any, Final

import orjson
from redis.asyncio import Redis

from gralkord.config import Server
from gralkord.groups import escape
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.keys import LANES, Keys
from gralkord.mailbox.scripts import Scripts

# Of each lane; what is beyond is counted by the lane's total only.
MOST_GROUPS: Final = 250


class QueueStatus:
    """Looks at the queue for `gralkord status`."""

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client, keys.prefix)

    async def read(self, tenant: str) -> dict[str, Any]:
        """Return what waits for *tenant*, and the state of the server.

        Of each lane the groups of the tenant are counted as ``ready`` (due), ``leased`` (worked on)
        and ``waiting`` (for their next attempt); where there are more than `MOST_GROUPS`,
        ``complete`` is false and the numbers are of those that were looked at. Ages are in seconds,
        ``None`` where nothing waits or its time is not known. Buffers, dead letters, memory and
        counters are of the whole queue.

        Raises:
            GralkorError: The queue does not answer.
        """
        with queue_errors():
            pipe = self._client.pipeline(transaction=False)
            pipe.get(self._keys.named("closed"))
            pipe.zcard(self._keys.named("idle"))
            pipe.xlen(self._keys.named("dead"))
            pipe.hgetall(self._keys.named("counters"))
            pipe.info("memory")
            closed, sessions, dead, counters, memory = await pipe.execute()
        backlog = orjson.loads(await self._scripts.call("backlog", escape(tenant), MOST_GROUPS))
        now = backlog["now"]
        return {
            "intake": {
                "state": f"closed: {closed.decode(errors='replace')}" if closed else "open",
                "entries": backlog["intake"]["entries"],
                "oldest_seconds": _age(now, backlog["intake"]["oldest"]),
            },
            **{lane: _lane(now, backlog["lanes"][lane]) for lane in LANES},
            "sessions_buffered": sessions,
            "dead_letters": dead,
            "memory": _memory(memory),
            "counters": {name.decode(): int(number) for name, number in sorted(counters.items())},
        }


def address_of(server: Server) -> str:
    """Return where a server is."""
    return str(server.socket or f"{server.host}:{server.port}")


def _lane(now: int, look: dict[str, Any]) -> dict[str, Any]:
    return {
        "items": look["items"],
        "oldest_seconds": _age(now, look["oldest"]),
        "ready": look["ready"],
        "leased": look["leased"],
        "waiting": look["waiting"],
        "complete": look["whole"],
    }


def _age(now: int, since: int) -> float | None:
    return round(max(0, now - since) / 1000, 1) if since else None


def _memory(info: dict[str, Any]) -> dict[str, Any]:
    used = int(info["used_memory"]) - int(info.get("mem_not_counted_for_evict", 0))
    limit = int(info.get("maxmemory", 0))
    return {
        "bytes": used,
        "limit": limit or None,
        "percent": round(used * 100 / limit, 1) if limit else None,
    }
