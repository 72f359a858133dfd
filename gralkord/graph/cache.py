"""Groups in memory: pulled from the graph by write number, thrown away when there is no room."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from gralkord.errors import BackendUnavailable
from gralkord.graph import spaces
from gralkord.graph.connection import GraphConnection
from gralkord.graph.group_cache import GroupCache
from gralkord.graph.spaces import Space

__all__ = ["CachePool", "GroupCache"]

log = structlog.get_logger(__name__)

# How long one answer to which run of the server this is holds good, in seconds.
RUN_SECONDS: Final = 1.0
# How long one read may take that nobody waits for.
BESIDE_MS: Final = 2_000

_META: Final = f"MATCH (m:Meta) RETURN m.seq, m.generation, m.unembedded IS NOT NULL, {spaces.META}"
# A group of so many rows is read anew before anybody is answered: it takes less than 100 ms.
QUICK_ROWS: Final = 2_000


@dataclass(slots=True)
class _Slot:
    """A group's place in the pool.

    Attributes:
        cache: What is in memory; None for a group without a graph.
        asked: How often somebody has asked for it.
        checked: How many of those questions the checks so far have answered.
        check: The check that is under way, or the last one.
        nbytes: What the cache took when it was last looked at.
        moved: The group as it is in another space, while it is being read.
        reading: What reads it.
    """

    cache: GroupCache | None = None
    asked: int = 0
    checked: int = 0
    check: asyncio.Task[None] | None = None
    nbytes: int = 0
    moved: GroupCache | None = None
    reading: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """Give up what is being read of another space."""
        if self.reading is not None:
            self.reading.cancel()
        self.moved = self.reading = None


class CachePool:
    """The groups in memory of this process, for one event loop.

    Args:
        graph: Where to read.
        max_bytes: Memory for all groups together; the group last used may exceed it alone.
        unembedded: Called with a group in which rows wait for their vectors.
    """

    def __init__(
        self,
        graph: GraphConnection,
        max_bytes: int,
        unembedded: Callable[[str], None] | None = None,
    ) -> None:
        self._graph = graph
        self._max_bytes = max_bytes
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._run = ("", -RUN_SECONDS)
        self._nbytes = 0
        self._unembedded = unembedded

    @property
    def nbytes(self) -> int:
        """Bytes that all groups take together, about."""
        return self._nbytes

    def known(self, group: str) -> GroupCache | None:
        """Return what is in memory of *group*, however old and incomplete."""
        slot = self._slots.get(group)
        return slot.cache if slot else None

    async def fresh(self, group: str, *, timeout_ms: int = 200) -> GroupCache | None:
        """Return *group* with all that was written before this call; None if it has no graph.

        Callers of the same moment share one look at the graph. A caller that gives up does not stop
        the reading.

        Args:
            group: The group id.
            timeout_ms: Limit of each read.

        Raises:
            BackendUnavailable: The server does not answer in time.
        """
        slot = self._slots.setdefault(group, _Slot())
        self._slots.move_to_end(group)
        slot.asked += 1
        mine = slot.asked
        while slot.checked < mine:
            if slot.check is None or slot.check.done():
                slot.check = asyncio.create_task(self._look(group, slot, slot.asked, timeout_ms))
                slot.check.add_done_callback(_retrieve)
            await asyncio.shield(slot.check)
        if slot.cache is None and slot.asked == slot.checked and self._slots.get(group) is slot:
            self._forget(group)
        return slot.cache

    def forget(self, group: str) -> None:
        """Free what is in memory of *group*: it was erased."""
        if group in self._slots:
            self._forget(group)

    async def close(self) -> None:
        """Stop all reading and forget everything."""
        slots = self._slots.values()
        checks = [task for slot in slots for task in (slot.check, slot.reading) if task]
        for check in checks:
            check.cancel()
        await asyncio.gather(*checks, return_exceptions=True)
        self._slots.clear()
        self._nbytes = 0

    async def _look(self, group: str, slot: _Slot, answers: int, timeout_ms: int) -> None:
        found = await self._graph.read(group, _META, timeout_ms=timeout_ms)
        if not found:
            slot.cache = None
            slot.leave()
            self._measure(group, slot)
        else:
            seq, generation, waits, *space = found[0]
            run = await self._server_run()
            if waits and self._unembedded is not None:
                self._unembedded(group)
            cache = before = slot.cache
            if (
                cache is None
                or (cache.generation, cache.run) != (generation, run)
                or cache.seq > seq
            ):
                # At once, not when it is complete: what was erased must not be found any more.
                cache = slot.cache = GroupCache(group, generation, run, Space(*space))
                slot.leave()
            elif cache.space.tag != space[1]:
                cache = await self._move(slot, cache, Space(*space), seq, timeout_ms)
            cache.space = Space(*space) if cache.space.tag == space[1] else cache.space
            if cache.seq < seq or cache is not before:
                try:
                    await cache.pull(self._graph, seq, timeout_ms=timeout_ms)
                finally:  # what has been read stays, also if the rest is late
                    self._measure(group, slot)
                    self._make_room(keep=group)
        slot.checked = answers

    async def _move(
        self, slot: _Slot, cache: GroupCache, space: Space, seq: int, timeout_ms: int
    ) -> GroupCache:
        """Return the group in the space that it has moved to, or *cache* until that is read.

        Vectors of two spaces never meet in one cache.
        """
        moved = slot.moved
        if moved is None or moved.space != space:
            slot.leave()
            moved = slot.moved = GroupCache(cache.group, cache.generation, cache.run, space)
        if len(cache) > QUICK_ROWS and moved.seq < seq:
            if slot.reading is None:
                slot.reading = asyncio.create_task(self._read_beside(moved))
                slot.reading.add_done_callback(_retrieve)
            if not slot.reading.done():
                return cache
            failed = slot.reading.exception() is not None
            slot.reading = None
            if failed:  # what it has read stays, and the next look goes on
                return cache
        await moved.pull(self._graph, seq, timeout_ms=timeout_ms)
        slot.leave()
        slot.cache = moved
        log.debug("group_moved_in_memory", group=cache.group, embedder=space.embedder)
        return moved

    async def _read_beside(self, moved: GroupCache) -> None:
        """Read a group to its end, as it was a moment ago."""
        found = await self._graph.read(moved.group, _META, timeout_ms=BESIDE_MS)
        if not found or found[0][1] != moved.generation:
            raise BackendUnavailable(f"group {moved.group} was erased under way")
        await moved.pull(self._graph, found[0][0], timeout_ms=BESIDE_MS)

    async def _server_run(self) -> str:
        run, since = self._run
        now = asyncio.get_running_loop().time()
        if now - since >= RUN_SECONDS:
            run = await self._graph.run_id()
            self._run = (run, now)
        return run

    def _measure(self, group: str, slot: _Slot) -> None:
        if self._slots.get(group) is slot:
            caches = [each for each in (slot.cache, slot.moved) if each is not None]
            before, slot.nbytes = slot.nbytes, sum(each.nbytes for each in caches)
            self._nbytes += slot.nbytes - before

    def _make_room(self, keep: str) -> None:
        kept = 0
        while self._nbytes > self._max_bytes and kept < len(self._slots):
            group, slot = next(iter(self._slots.items()))
            if group == keep or (slot.check and not slot.check.done()):
                self._slots.move_to_end(group)  # in use
                kept += 1
                continue
            self._forget(group)
            log.debug("group_dropped_from_memory", group=group, bytes=slot.nbytes)

    def _forget(self, group: str) -> None:
        slot = self._slots.pop(group)
        slot.leave()
        self._nbytes -= slot.nbytes


def _retrieve(check: asyncio.Task[None]) -> None:
    """Mark the failure of a check as seen, also if all who waited for it have given up."""
    if not check.cancelled():
        check.exception()
