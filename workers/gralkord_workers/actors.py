"""The one actor: a doorbell rang for a group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from gralkord.mailbox.doorbell import ACTOR, QUEUE


def declare(broker: RedisBroker, work: Callable[[str], Awaitable[None]]) -> None:
    """Declare the actor on *broker*: it does *work* for the group that the message names.

    The broker has neither Dramatiq's retries nor its time limit: retries belong to the mailbox,
    where order is kept, and a time limit would let a second execution overlap the first.
    """

    @dramatiq.actor(broker=broker, actor_name=ACTOR, queue_name=QUEUE)
    async def understand(group: str) -> None:
        await work(group)
