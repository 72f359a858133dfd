"""Take what is erased out of every store of the queue: stream, mailboxes, buffers, receipts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from redis.asyncio import Redis

from gralkord.errors import LeaseLost
from gralkord.groups import escape
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.items import Item, Lease
from gralkord.mailbox.keys import LANES, Keys, Lane
from gralkord.mailbox.ledger import SpendBook
from gralkord.mailbox.scripts import Scripts

PAGE: Final = 100
SCANNED: Final = 1_000
# A stream of more entries is not written anew: nobody else is served meanwhile.
MOST_MOVED: Final = 10_000
# Longer than a client goes on sending a turn whose answer it has lost.
RESENT_MS: Final = 120_000

Fields = dict[bytes, bytes]
# Returns the item if it stays, another if less of it does, or nothing.
Judge = Callable[[Item], Item | None]


@dataclass(slots=True)
class Taken:
    """What was taken out of a mailbox, or would be.

    Attributes:
        items: How many items went as a whole.
        turns: The turns of those that had words.
        sessions: The sessions of those.
    """

    items: int = 0
    turns: set[str] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Session:
    """A session that the queue knows.

    Attributes:
        name: Tail of its keys.
        id: Its id.
        operator: Whose it is.
    """

    name: str
    id: str
    operator: str


class Purge:
    """Steps of an erasure in the queue; each may be done again. With ``dry`` they only count."""

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client, keys.prefix)

    async def entries(
        self, tenant: str, upto: str, doomed: Callable[[str, Fields], bool], *, dry: bool
    ) -> int:
        """Delete entries of the intake stream, up to an id; return how many."""
        taken, start, key = 0, "-", self._keys.intake(tenant)
        while True:
            with queue_errors():
                page: Any = await self._client.xrange(key, start, upto, count=PAGE)
            ids = [entry.decode() for entry, fields in page if doomed(entry.decode(), fields)]
            if ids and not dry:
                taken += await self._scripts.call("erase_entries", escape(tenant), *ids)
            elif ids:
                taken += len(ids)
            if len(page) < PAGE:
                return taken
            start = f"({page[-1][0].decode()}"

    async def groups(self) -> set[str]:
        """Return all groups that have work in a mailbox."""
        found: set[str] = set()
        for lane in LANES:
            for name in ("ready", "leased"):
                with queue_errors():
                    members: Any = await self._client.zrange(
                        self._keys.named(f"{name}:{lane}"), 0, -1
                    )
                found |= {member.decode() for member in members}
        return found

    async def seize(self, lane: Lane, group: str, lease_ms: int) -> Lease:
        """Take the lease of a group's lane from whoever has it; its writes must be fenced off."""
        epoch = await self._scripts.call("seize", lane, group, lease_ms)
        return Lease(lane, group, int(epoch), ())

    async def items(self, lane: Lane, group: str, judge: Judge, lease: Lease | None) -> Taken:
        """Take items out of a mailbox, whose lease is held so that nobody moves them.

        Args:
            lane: The lane.
            group: The group.
            judge: Says what becomes of an item.
            lease: The lease; without one items are only counted.

        Raises:
            LeaseLost: It is not held any more.
        """
        taken = Taken()
        for name in ("run", "box"):
            await self._expunge(lane, group, name, judge, lease, taken)
        return taken

    async def _expunge(
        self, lane: Lane, group: str, name: str, judge: Judge, lease: Lease | None, taken: Taken
    ) -> None:
        key = (self._keys.run if name == "run" else self._keys.box)(lane, group)
        start = 0
        while True:
            with queue_errors():
                page: Any = await self._client.lrange(key, start, start + PAGE - 1)
            items = [Item.decode(raw) for raw in page]
            changes = [
                (place, item, left)
                for place, item in enumerate(items, start)
                if (left := judge(item)) is not item
            ]
            gone = 0
            if changes and lease is not None:
                words = [
                    word
                    for place, item, left in changes
                    for word in (place, item.id, left.encode() if left else "")
                ]
                gone = await self._scripts.call("expunge", lane, group, lease.epoch, name, *words)
                if gone == -1:
                    raise LeaseLost
                if gone == -2:  # something was put in front
                    start = 0
                    continue
            for _, item, left in changes:
                if left is None:
                    _note(item, taken)
            if len(page) < PAGE:
                return
            start += len(page) - gone

    async def sessions(self, tenant: str) -> AsyncIterator[Session]:
        """Yield the sessions of a tenant."""
        async for keys in self._scan(f"session:{escape(tenant)}:*"):
            with queue_errors():
                pipe = self._client.pipeline(transaction=False)
                for key in keys:
                    pipe.hmget(key, "session", "operator")
                rows: Any = await pipe.execute()
            head = len(self._keys.named("session:"))
            for key, (session, operator) in zip(keys, rows, strict=True):
                if session is not None and operator is not None:
                    yield Session(key[head:].decode(), session.decode(), operator.decode())

    async def forget_session(self, session: str, *, dry: bool) -> int:
        """Forget a session with all that it has buffered; return how many turns that is.

        Args:
            session: Name of the session, as in its keys.
            dry: Only count.
        """
        if dry:
            with queue_errors():
                found: Any = await self._client.llen(self._keys.named(f"buffer:{session}"))
            return int(found)
        return int(await self._scripts.call("unbuffer", session, "all"))

    async def unbuffer(self, session: str, turns: Collection[str], *, dry: bool) -> int:
        """Take turns out of a session's buffer; return how many.

        Args:
            session: Name of the session, as in its keys.
            turns: Their ids.
            dry: Only count.
        """
        if dry:
            with queue_errors():
                raw: Any = await self._client.lrange(self._keys.named(f"buffer:{session}"), 0, -1)
            return sum(orjson.loads(text)["id"] in turns for text in raw)
        if not turns:
            return 0
        return int(await self._scripts.call("unbuffer", session, "turns", *sorted(turns)))

    async def unbuffer_group(self, session: str, group: str) -> None:
        """Have no buffered turn of a session go to *group*."""
        await self._scripts.call("unbuffer", session, "group", group)

    async def receipts(
        self, tenant: str, doomed: Callable[[Sequence[Any]], bool], *, dry: bool
    ) -> int:
        """Forget what receipts are asked for; return how many."""
        taken = 0
        async for keys in self._scan(f"jobs:{escape(tenant)}:*"):
            for key in keys:
                fields: list[bytes] = []
                with queue_errors():
                    async for entry, text in self._client.hscan_iter(key, count=SCANNED):
                        if doomed(orjson.loads(text)):
                            fields.append(entry)
                taken += len(fields)
                for start in range(0, 0 if dry else len(fields), SCANNED):
                    with queue_errors():
                        await self._client.hdel(key, *fields[start : start + SCANNED])
        return taken

    async def forget_flushes(
        self,
        tenant: str,
        sessions: Collection[str],
        groups: Collection[str],
        *,
        open_too: bool = True,
    ) -> None:
        """Take the names of sessions out of the records of flushes, and delete answers.

        Args:
            tenant: Whose.
            sessions: Ids of the sessions.
            groups: Answers to requests of these groups go, for they hold words.
            open_too: Whether requests go, too, that nobody has answered yet.
        """
        async for keys in self._scan(f"flush:{escape(tenant)}:*"):
            with queue_errors():
                pipe = self._client.pipeline(transaction=False)
                for key in keys:
                    pipe.hmget(key, "session", "group")
                rows: Any = await pipe.execute()
                for key, (session, group) in zip(keys, rows, strict=True):
                    if session is not None and session.decode() in sessions:
                        await self._client.hdel(key, "session")
                    if group is not None and group.decode() in groups:
                        name = key.decode().removeprefix(self._keys.named("flush:"))
                        answer = self._keys.named(f"result:{name}")
                        if open_too or await self._client.exists(answer):
                            await self._client.unlink(key, answer)

    async def forget_seen(self, tenant: str, operator: str | None) -> None:
        """Soon take the turns of an operator, or of all, for new ones when they come again."""
        whose = f"{escape(operator)}:" if operator is not None else ""
        async for keys in self._scan(f"seen:{escape(tenant)}:{whose}*"):
            with queue_errors():
                pipe = self._client.pipeline(transaction=False)
                for key in keys:
                    pipe.pexpire(key, RESENT_MS, lt=True)
                await pipe.execute()

    async def forget_spending(self, tenant: str, operator: str | None) -> None:
        """Take the names of operators out of the ledger of model calls."""
        await SpendBook(self._client, self._keys).forget(tenant, operator)

    async def restream(self, tenant: str) -> list[str]:
        """Free what deleted entries still take; return the streams where that cannot be done."""
        names = (f"intake:{escape(tenant)}", "dead")
        return [
            name for name in names if not await self._scripts.call("restream", name, MOST_MOVED)
        ]

    async def _scan(self, pattern: str) -> AsyncIterator[list[bytes]]:
        cursor = 0
        while True:
            with queue_errors():
                found: Any = await self._client.scan(
                    cursor, match=self._keys.named(pattern), count=SCANNED
                )
            cursor, keys = found
            if keys:
                yield keys
            if not cursor:
                return


def _note(item: Item, taken: Taken) -> None:
    taken.items += 1
    if isinstance(turn := item.body.get("turn_id"), str):
        taken.turns.add(turn)
    if isinstance(session := item.body.get("session"), str):
        taken.sessions.add(session)
