"""The index lane: writes passages as soon as a turn is routed, without any language model.

A process that has leased a group writes slice after slice without waiting for the graph's disk; a
second task waits for it and commits what is safe. So the words are recallable at once, and an item
leaves its mailbox only when it would survive a crash of the graph server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from gralkord.clock import Clock
from gralkord.errors import GralkorError, LeaseLost
from gralkord.graph.connection import GraphConnection
from gralkord.graph.passages import Passage, PassageStore
from gralkord.graph.vectors import encode
from gralkord.mailbox.items import Item, Lease
from gralkord.mailbox.mailbox import Mailbox
from gralkord.providers.base import Embedder
from gralkord.providers.embedders.choice import Embedders
from gralkord.turns.lease import keep
from gralkord.turns.passages import passages_of
from gralkord.turns.retry import decide, fail_item

log = structlog.get_logger(__name__)

SLICE: Final = 64
CLOSE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class IndexParts:
    """What the index lane works with.

    Attributes:
        follow: Called with a group to which passages were written whose vectors are to follow.
    """

    mailbox: Mailbox
    graph: GraphConnection
    passages: PassageStore
    embedders: Embedders | Embedder | None
    clock: Clock
    follow: Callable[[str], None] = lambda _: None


class IndexLane:
    """Drains the index mailboxes of all groups: many groups at once, each in order."""

    def __init__(self, parts: IndexParts, *, writers: int = 4) -> None:
        self._parts = parts
        self._writers = asyncio.Semaphore(writers)
        self._drains: dict[str, GroupDrain] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = True

    def ring(self, group: str) -> None:
        """Say that a group may have work."""
        if drain := self._drains.get(group):
            drain.wake.set()
        elif self._open:
            self._drains[group] = GroupDrain(self._parts, self._writers, group)
            task = asyncio.create_task(self._drain(group), name=f"index {group}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Take no more work, and finish or give back what is under way."""
        self._open = False
        for drain in self._drains.values():
            drain.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _drain(self, group: str) -> None:
        try:
            await self._drains[group].run()
        except GralkorError as error:
            log.warning("index_interrupted", group=group, code=error.code, reason=error.message)
        finally:
            del self._drains[group]


@dataclass(slots=True)
class GroupDrain:
    """One group's index mailbox, worked on until it is empty.

    Attributes:
        wake: Set when there may be more items, and when items have become safe.
    """

    parts: IndexParts
    writers: asyncio.Semaphore
    group: str
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    _stopping: bool = False
    _unsafe: list[str] = field(default_factory=list)
    _unsynced: bool = False
    _run: str = ""  # of the graph server, before the first write under the lease
    _written: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        """End after the slice that is being written."""
        self._stopping = True
        self.wake.set()

    async def run(self) -> None:
        """Lease the group and work, again and again, until nothing is due."""
        while not self._stopping:
            self.wake.clear()
            lease = await self.parts.mailbox.acquire("index", self.group, most=SLICE)
            if lease is not None:
                await self._hold(lease)
            elif not self.wake.is_set():
                return

    async def _hold(self, lease: Lease) -> None:
        self._unsafe.clear()
        self._written.clear()
        self._unsynced = False
        self._run = ""
        keeper = asyncio.create_task(keep(self.parts.mailbox, lease, self.parts.clock))
        committer = asyncio.create_task(self._commit(lease))
        try:
            failure = await self._write_all(lease, committer)
            if failure is None:
                if await self.parts.mailbox.commit(lease, ()):
                    self.wake.set()
                return
            await fail_item(self.parts.mailbox, lease, *failure)
        except LeaseLost:
            log.warning("lease_lost", lane="index", group=self.group, epoch=lease.epoch)
        finally:
            for task in (keeper, committer):
                task.cancel()
            await asyncio.gather(keeper, committer, return_exceptions=True)

    async def _write_all(
        self, lease: Lease, committer: asyncio.Task[None]
    ) -> tuple[str, Exception] | None:
        """Write until nothing is left and all is safe; the item that could not be, and why."""
        items: Sequence[Item] = lease.items
        while True:
            if committer.done():
                return self._first_unsafe(committer)
            self.wake.clear()
            async with self.writers:  # who waited for it takes all that has come meanwhile
                if not items and not self._stopping:
                    items = await self.parts.mailbox.more(lease, SLICE)
                failure = await self._write_slice(lease, items)
            if failure:
                await self._settle(committer)
                return failure
            if not items and not self._unsafe:
                return None
            if not items:
                await self._woken(committer)
            items = ()

    async def _write_slice(
        self, lease: Lease, items: Sequence[Item]
    ) -> tuple[str, Exception] | None:
        """Write items together; if that fails by one of them, one by one up to that one."""
        if not items:
            return None
        try:
            wrote = await self._write(lease, items)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - decide() owns every class of failure
            if len(items) == 1 or decide(error, lease.failures).verdict == "wait":
                return items[0].id, error
            for item in items:
                if failure := await self._write_slice(lease, [item]):
                    return failure
            return None
        # Not before the write has ended: a sync that begins before that does not cover it.
        self._unsynced |= wrote
        self._unsafe += [item.id for item in items]
        self._written.set()
        return None

    async def _woken(self, committer: asyncio.Task[None]) -> None:
        waiter = asyncio.ensure_future(self.wake.wait())
        try:
            await asyncio.wait({waiter, committer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()

    async def _settle(self, committer: asyncio.Task[None]) -> None:
        """Let what was written before a failure become safe."""
        while self._unsafe and not committer.done():
            self.wake.clear()
            await self._woken(committer)

    def _first_unsafe(self, committer: asyncio.Task[None]) -> tuple[str, Exception]:
        error = committer.exception()
        if isinstance(error, LeaseLost) or not isinstance(error, Exception):
            raise LeaseLost
        return self._unsafe[0], error

    async def _commit(self, lease: Lease) -> None:
        """Commit what has reached the graph's disk, as long as the lease is held."""
        while True:
            await self._written.wait()
            self._written.clear()
            ids = list(self._unsafe)
            if self._unsynced:  # a barrier alone has nothing to wait for
                self._unsynced = False
                await self.parts.graph.wait_durable(self._run)
            await self.parts.mailbox.commit(lease, ids, keep=True)
            del self._unsafe[: len(ids)]
            self.wake.set()

    async def _write(self, lease: Lease, items: Sequence[Item]) -> bool:
        """Write the passages of some items; whether there were any."""
        written = [
            (item, passages_of(self.group, item.body)) for item in items if item.kind == "turn"
        ]
        passages = [passage for _, found in written for passage in found]
        if not passages:
            return False
        embedders = Embedders.of(self.parts.embedders)
        space = await self.parts.passages.embedder(self.group) if embedders.before else ""
        embedder = embedders.fitting(space)
        inline = embedder is not None and embedder.inline
        if embedder is not None and inline:
            passages = await embedded(embedder, passages)
        await self.parts.graph.ensure_group(self.group)
        self._run = self._run or await self.parts.graph.known_run()
        await self.parts.passages.write(
            self.group,
            lease.epoch,
            passages,
            created_ms=int(self.parts.clock.now().timestamp() * 1000),
            fingerprint=embedder.fingerprint if embedder and inline else "",
            embeds=embedders.present is not None,
        )
        await self._end_versions(lease, written)
        if embedders.present is not None and (not inline or embedders.before):
            self.parts.follow(self.group)
        return True

    async def _end_versions(
        self, lease: Lease, written: Sequence[tuple[Item, Sequence[Passage]]]
    ) -> None:
        """Withdraw what is left of longer versions of what was ingested anew."""
        for at, (item, passages) in enumerate(written):
            if (ends := item.body.get("ends")) is None:
                continue
            await self.parts.passages.end_after(
                self.group,
                lease.epoch,
                passages,
                offset=ends["offset"],
                turns=ends["turns"],
                spared={each.uuid for _, later in written[at + 1 :] for each in later},
                now_ms=int(self.parts.clock.now().timestamp() * 1000),
            )


async def embedded(embedder: Embedder, passages: Sequence[Passage]) -> list[Passage]:
    """Return *passages* with their vectors; the speaker is part of what is embedded."""
    rows = await embedder.embed([f"{passage.speaker}: {passage.text}" for passage in passages])
    return [
        replace(passage, vector=vector)
        for passage, vector in zip(passages, encode(rows), strict=True)
    ]
