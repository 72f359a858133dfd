"""The router: takes the intake streams apart, one process at a time.

It needs no consumer group. It reads the head of each stream, decides what is to be done, and one
script checks that it is still the router and that this is still the head before it does anything,
so that any number of processes may try and the order holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

import orjson
import structlog
from redis.asyncio import Redis

from gralkord.groups import escape
from gralkord.intake.envelope import Entry
from gralkord.intake.marks import Marks
from gralkord.intake.plan import Planner
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Ring, decode_rings
from gralkord.mailbox.scripts import Scripts

log = structlog.get_logger(__name__)

LEASE_MS: Final = 4_000
BATCH: Final = 100
# What is ingested may be long, and nobody else is served while the script works.
MOST_BYTES: Final = 4 * 1024 * 1024
# Entries of more than this together may take seconds to read.
LARGE_BYTES: Final = 65_536
WAIT_MS: Final = 1_000
DUE_AT_ONCE: Final = 100

Ringer = Callable[[Sequence[Ring]], Awaitable[None]]


class Router:
    """Routes the entries of all tenants while it holds the router's lease."""

    def __init__(
        self,
        client: Redis,
        keys: Keys,
        planner: Planner,
        tenants: Sequence[str],
        owner: str,
        lease_ms: int = LEASE_MS,
    ) -> None:
        self.lease_ms = lease_ms
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client, keys.prefix)
        self._planner = planner
        self._streams = {keys.intake(tenant).encode(): tenant for tenant in tenants}
        self._owner = owner
        self.epoch: str | None = None
        self._marks: dict[str, Marks] = {}

    async def lead(self) -> bool:
        """Take or prolong the router's lease; whether this process is the router."""
        epoch = await self._scripts.call("lead", self._owner, self.lease_ms)
        if epoch and self.epoch is None:
            log.info("router_started", epoch=int(epoch))
        if not epoch and self.epoch is not None:
            log.warning("router_lost")
        self.epoch = epoch.decode() if epoch else None
        return self.epoch is not None

    async def resign(self) -> None:
        """Give the lease up, so that another process need not wait for it to expire."""
        if self.epoch is not None:
            await self._scripts.call("lead", self._owner, 0)
            self.epoch = None

    async def route(self, ring: Ringer) -> int:
        """Wait for entries and route what there is; return how many.

        Args:
            ring: Called with the doorbells to ring after each step.
        """
        if self.epoch is None:
            return 0
        with queue_errors():
            heads: Any = await self._client.xread(
                dict.fromkeys(self._streams, "0"), count=BATCH, block=WAIT_MS
            )
        taken = 0
        for stream, entries in heads:
            for part in _parts([Entry(name.decode(), fields) for name, fields in entries]):
                routed = await self._step(self._streams[stream], part, ring)
                taken += routed
                if not routed:
                    break
        return taken

    async def _step(self, tenant: str, entries: Sequence[Entry], ring: Ringer) -> int:
        if self.epoch is None:
            return 0
        marks = self._marks.get(tenant, Marks())
        if sum(map(_length, entries)) < LARGE_BYTES:
            plan = self._plan(tenant, entries, marks)
        else:  # in which time others are served, and the epoch is kept
            plan = await asyncio.to_thread(self._plan, tenant, entries, marks)
        answer = await self._scripts.call("route", self.epoch, escape(tenant), plan, marks.version)
        if answer[0] == -1:
            self.epoch = None
            return 0
        if answer[0] == -2:  # an erasure has begun or ended, or has taken the head away
            with queue_errors():
                found: Any = await self._client.hgetall(self._keys.erased(tenant))
            self._marks[tenant] = Marks.read(found)
            return 0
        await ring(decode_rings(answer[1]))
        return int(answer[0])

    def _plan(self, tenant: str, entries: Sequence[Entry], marks: Marks) -> bytes:
        return orjson.dumps([self._planner.step(tenant, entry, marks) for entry in entries])

    async def flush_due(self, ring: Ringer, *, everything: bool = False) -> int:
        """Flush the sessions that have been idle long enough, or all; return how many."""
        flushed = 0
        while self.epoch is not None:
            answer = await self._scripts.call(
                "flush_due",
                self.epoch,
                int(everything),
                DUE_AT_ONCE,
                int(self._planner.understanding),
                orjson.dumps(self._planner.limits()),
            )
            if answer[0] == -1:
                break
            flushed += int(answer[0])
            await ring(decode_rings(answer[1]))
            if answer[0] < DUE_AT_ONCE:
                break
        return flushed


def _parts(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield *entries* in parts that one script may be given."""
    part: list[Entry] = []
    size = 0
    for entry in entries:
        length = _length(entry)
        if part and size + length > MOST_BYTES:
            yield part
            part, size = [], 0
        part.append(entry)
        size += length
    yield part


def _length(entry: Entry) -> int:
    return sum(map(len, entry.fields.values()))
