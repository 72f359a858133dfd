"""Mailboxes: for each group and lane an ordered list of items, worked on under a lease.

The list in Redis is the truth. A doorbell (a Dramatiq message, or a call inside the daemon) says
only that a group may have work; it may be lost, late or doubled. Every step is one Lua script in
``lua/``, whose first comment is its contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson
from redis.asyncio import Redis

from gralkord.errors import LeaseLost
from gralkord.groups import parse_group
from gralkord.mailbox.budgets import Budgets
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.items import FollowUp, Item, Lease, Swept
from gralkord.mailbox.keys import Keys, Lane
from gralkord.mailbox.scripts import Scripts

LEASE_MS: Final[dict[Lane, int]] = {"index": 10_000, "understand": 30_000}
MOST_CRASHES: Final = 8
MOST_FAILURES: Final = 4

Ring = tuple[Lane, str]


class Mailbox:
    """The steps of a lease: acquire, take more, renew, commit, fail, release; and the sweep."""

    def __init__(
        self,
        client: Redis,
        keys: Keys,
        leases: Mapping[Lane, int] | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        """Prepare the scripts; nothing is sent yet.

        Args:
            client: The queue Redis.
            keys: Its names.
            leases: How long the lease of each lane lasts, in ms; default: `LEASE_MS`.
            budgets: What may be spent on models in a day; default: nothing is limited.
        """
        self.lease_ms: Mapping[Lane, int] = LEASE_MS if leases is None else leases
        self._client = client
        self._keys = keys
        self._budgets = budgets
        self._scripts = Scripts(client, keys.prefix)

    async def acquire(
        self, lane: Lane, group: str, *, most: int, lease_ms: int | None = None
    ) -> Lease | None:
        """Lease the group if it is ready, due and free; ``None`` otherwise.

        An item that asks a model is not given while a budget is spent or a model is out.

        Args:
            lane: The lane.
            group: Id of the group.
            most: Take at most so many items.
            lease_ms: Time until the lease expires unless it is renewed; default: the lane's.
        """
        limits = self._limits(group) if lane == "understand" else ()
        answer = await self._scripts.call(
            "acquire", lane, group, lease_ms or self.lease_ms[lane], most, MOST_CRASHES, *limits
        )
        if not answer:
            return None
        epoch, crashes, failures, *items = answer
        return Lease(
            lane,
            group,
            int(epoch),
            tuple(Item.decode(item) for item in items),
            int(crashes),
            int(failures),
        )

    def _limits(self, group: str) -> tuple[int, ...]:
        return self._budgets.limits(parse_group(group)) if self._budgets else ()

    async def more(self, lease: Lease, most: int) -> tuple[Item, ...]:
        """Take further items under a lease that is held.

        Raises:
            LeaseLost: It is not held any more.
        """
        held, *items = await self._scripts.call("more", lease.lane, lease.group, lease.epoch, most)
        if not held:
            raise LeaseLost
        return tuple(Item.decode(item) for item in items)

    async def renew(self, lease: Lease, lease_ms: int | None = None) -> None:
        """Prolong the lease.

        Raises:
            LeaseLost: It is not held any more; whatever is under way must stop.
        """
        milliseconds = lease_ms or self.lease_ms[lease.lane]
        if not await self._scripts.call(
            "renew", lease.lane, lease.group, lease.epoch, milliseconds
        ):
            raise LeaseLost

    async def commit(
        self,
        lease: Lease,
        done: Sequence[str],
        follow_ups: Iterable[FollowUp] = (),
        *,
        keep: bool = False,
    ) -> bool:
        """Drop finished items and add what follows from them.

        Args:
            lease: The lease they were taken under.
            done: Ids of the finished items.
            follow_ups: Work that follows; it stands before everything that waits.
            keep: Keep the lease.

        Returns:
            Whether the group was given back, has more work, and its doorbell is to be rung.

        Raises:
            LeaseLost: The lease is not held any more; nothing was changed.
        """
        triples: list[str | bytes] = []
        for follow_up in follow_ups:
            triples += [follow_up.lane, follow_up.group, follow_up.item.encode()]
        answer = await self._scripts.call(
            "commit", lease.lane, lease.group, lease.epoch, int(keep), len(done), *done, *triples
        )
        if answer == -1:
            raise LeaseLost
        return bool(answer == 1)

    async def fail(
        self,
        lease: Lease,
        item: str,
        *,
        verdict: str,
        delay_ms: int,
        reason: str,
        detail: str,
        answer: str = "",
    ) -> bool:
        """Give the lease back with one item unfinished.

        Args:
            lease: The lease.
            item: Id of the item that failed.
            verdict: ``wait`` does not count, ``count`` uses one attempt, ``bury`` gives up at once.
            delay_ms: Time until the next attempt.
            reason: Code of the error.
            detail: What happened, for the dead letter.
            answer: What a model wrote that could not be used, for the dead letter only.

        Returns:
            Whether the item went to the dead letters.

        Raises:
            LeaseLost: The lease is not held any more; nothing was changed.
        """
        buried = await self._scripts.call(
            "fail",
            lease.lane,
            lease.group,
            lease.epoch,
            item,
            verdict,
            delay_ms,
            MOST_FAILURES,
            reason,
            detail,
            answer.encode(errors="replace"),
        )
        if buried == -1:
            raise LeaseLost
        return bool(buried)

    async def release(self, lease: Lease) -> None:
        """Give the lease back unfinished, as a process does that is told to stop.

        Raises:
            LeaseLost: It is not held any more.
        """
        if await self._scripts.call("release", lease.lane, lease.group, lease.epoch) == -1:
            raise LeaseLost

    async def answer(self, lease: Lease, request: str, answer: Mapping[str, Any]) -> None:
        """Keep what the request under way is answered with, unless it has an answer already.

        Args:
            lease: The lease.
            request: Its tenant and id, as in its body.
            answer: What the caller is told.

        Raises:
            LeaseLost: It is not held any more; nothing was kept.
        """
        if not await self._scripts.call(
            "answer", lease.lane, lease.group, lease.epoch, request, orjson.dumps(dict(answer))
        ):
            raise LeaseLost

    async def sweep(self, lane: Lane, *, most: int = 200) -> Swept:
        """Free expired leases, and find the groups that are due and have no doorbell under way.

        Args:
            lane: The lane.
            most: Handle at most so many groups.
        """
        freed, due_in_ms, *groups = await self._scripts.call("sweep", lane, most)
        return Swept(
            int(freed),
            tuple(group.decode() for group in groups),
            None if due_in_ms < 0 else int(due_in_ms),
        )

    async def deliver(self, items: Iterable[tuple[Lane, str, Item]]) -> list[Ring]:
        """Append items from outside the intake stream; return the doorbells to ring."""
        triples: list[str | bytes] = []
        for lane, group, item in items:
            triples += [lane, group, item.encode()]
        if not triples:
            return []
        return decode_rings(await self._scripts.call("deliver", *triples))

    async def depths(self) -> dict[str, int]:
        """Return the number of items in all mailboxes, by lane."""
        with queue_errors():
            raw: Any = await self._client.hgetall(self._keys.named("depth"))
        return {lane.decode(): int(number) for lane, number in raw.items()}

    async def idle(self, lane: Lane, group: str) -> bool:
        """Whether nothing waits or runs for the group."""
        with queue_errors():
            pipe = self._client.pipeline(transaction=False)
            pipe.llen(self._keys.box(lane, group))
            pipe.llen(self._keys.run(lane, group))
            waiting, running = await pipe.execute()
        return bool(waiting + running == 0)


def decode_rings(raw: Any) -> list[Ring]:
    """Return the doorbells that a script asks for; Lua writes an empty list as ``{}``."""
    pairs = orjson.loads(raw)
    return [(lane, group) for lane, group in pairs] if isinstance(pairs, list) else []
