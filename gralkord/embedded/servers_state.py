"""What the embedded servers of a data directory hold, in numbers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gralkord.config import Graph, Queue
from gralkord.graph.connection import GraphConnection
from gralkord.graph.export import group_state
from gralkord.groups import DEFAULT_TENANT
from gralkord.mailbox.connection import open_queue, queue_errors
from gralkord.mailbox.erasures import Erasures
from gralkord.mailbox.keys import Keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from redis.asyncio import Redis

    from gralkord.embedded.servers import Kind

_AT_ONCE: Final = 16
_SYNC_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class ServersState:
    """Both servers of a data directory that is in use."""

    queue: Redis
    graph: GraphConnection
    keys: Keys

    @classmethod
    @asynccontextmanager
    async def open(cls, sockets: Mapping[Kind, Path]) -> AsyncIterator[ServersState]:
        """Open connections to both; closed in the end."""
        queue = open_queue(Queue(socket=sockets["queue"]))
        graph = GraphConnection.open(Graph(socket=sockets["graph"]))
        try:
            yield cls(queue, graph, Keys())
        finally:
            await graph.close()
            await queue.aclose()

    async def read(self) -> dict[str, Any]:
        """Return epoch and depths of the queue, the groups of the graph, and the last erasure.

        Raises:
            GralkorError: A server does not answer.
        """
        with queue_errors():
            epoch = await self.queue.get(self.keys.named("epoch"))
            depth: Any = await self.queue.hgetall(self.keys.named("depth"))
        erasures = await Erasures(self.queue, self.keys).all(DEFAULT_TENANT)
        names = await self.graph.groups()
        groups = []
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            states = await asyncio.gather(*(group_state(self.graph, name) for name in some))
            groups += [
                {"group": name, "seq": state.seq, "passages": state.passages}
                for name, state in zip(some, states, strict=True)
                if state is not None
            ]
        return {
            "epoch": int(epoch or 0),
            "depth": {lane.decode(): int(number) for lane, number in depth.items()},
            "groups": groups,
            "passages": sum(group["passages"] for group in groups),
            "last_erasure": erasures[0].started_at if erasures else None,
            "versions": await self.graph.versions(),
        }

    async def sync(self, kind: Kind) -> None:
        """Have all that was answered so far reach the file of a server.

        Raises:
            GralkorError: It does not answer.
        """
        if kind == "graph":
            await self.graph.wait_durable()
            return
        with queue_errors():
            # WAITAOF waits for the writes of its own connection.
            async with self.queue.client() as client:
                await client.set(self.keys.named("probe"), 1, px=1_000)
                await client.execute_command("WAITAOF", 1, 0, _SYNC_MS)  # type: ignore[no-untyped-call]
