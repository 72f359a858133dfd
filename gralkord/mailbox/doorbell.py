"""Doorbells of the understand lane: Dramatiq messages that carry a group and nothing else."""

from __future__ import annotations

import asyncio
from typing import Final

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

from gralkord.config import Server
from gralkord.errors import BackendUnavailable
from gralkord.mailbox.connection import connection_options

QUEUE: Final = "understand"
ACTOR: Final = "understand"
NAMESPACE: Final = "gk:dramatiq"


def open_broker(server: Server) -> RedisBroker:
    """Return a Dramatiq broker on the queue Redis.

    A message is only a hint, so losing one costs at most a sweep: no retries, no results. What a
    dead worker had taken comes back by the lease and the sweep, not by Dramatiq's maintenance,
    which looks for dead workers with KEYS; once in a thousand commands keeps its lists short.
    """
    return RedisBroker(  # type: ignore[no-untyped-call]
        client=redis.Redis(**connection_options(server)),
        namespace=NAMESPACE,
        middleware=[],
        maintenance_chance=1_000,
        heartbeat_timeout=30_000,
    )


class Doorbell:
    """Rings for groups of the understand lane."""

    def __init__(self, broker: RedisBroker) -> None:
        self._broker = broker
        broker.declare_queue(QUEUE)

    async def ring(self, group: str) -> None:
        """Tell some worker that the group may have work.

        Raises:
            BackendUnavailable: The queue does not answer; the sweep will ring again.
        """
        message: dramatiq.Message[None] = dramatiq.Message(
            queue_name=QUEUE, actor_name=ACTOR, args=(group,), kwargs={}, options={}
        )
        try:
            await asyncio.to_thread(self._broker.enqueue, message)
        except (redis.RedisError, dramatiq.BrokerError) as error:
            raise BackendUnavailable("the doorbell could not be rung", retry_after=1) from error

    def close(self) -> None:
        """Drop the connections."""
        self._broker.client.close()
        self._broker.close()
