"""What the daemon does all the time, one duty each; none of them can end another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

import structlog

from gralkord.daemon.guard import Guard
from gralkord.errors import GralkorError
from gralkord.intake.router import Router
from gralkord.mailbox.doorbell import Doorbell
from gralkord.mailbox.flushes import Flushes
from gralkord.mailbox.keys import LANES
from gralkord.mailbox.mailbox import Mailbox, Ring
from gralkord.turns.index import IndexLane

log = structlog.get_logger(__name__)

SWEEP_SECONDS: Final = 0.5
SOONEST_SWEEP_SECONDS: Final = 0.05
IDLE_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.5
# A duty that went on for so long had recovered, so that its next failure is news.
RECOVERED_SECONDS: Final = 10.0


class Duties:
    """The router, the sweep, the idle flush and the reader of events."""

    def __init__(
        self,
        router: Router,
        mailbox: Mailbox,
        flushes: Flushes,
        index: IndexLane,
        doorbell: Doorbell,
        guard: Guard,
    ) -> None:
        self._router = router
        self._mailbox = mailbox
        self._flushes = flushes
        self._index = index
        self._doorbell = doorbell
        self._guard = guard
        self._leading = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._turns: Counter[str] = Counter()

    def start(self) -> None:
        """Take all duties up."""
        duties: Sequence[tuple[str, Callable[[], Awaitable[None]]]] = (
            ("lead", self._lead),
            ("route", self._route),
            ("sweep", self._sweep),
            ("idle_flush", self._flush_idle),
            ("events", self._flushes.follow),
            ("guard", self._guard.watch),
        )
        for name, duty in duties:
            self.perform(name, duty)

    def perform(self, name: str, duty: Callable[[], Awaitable[None]]) -> None:
        """Perform one duty until `stop`; a failure is logged, and it is taken up again."""
        task = asyncio.create_task(_perform(name, duty, self._turns), name=name)
        self._tasks.append(task)

    def prepare(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something once, beside the duties."""
        self._tasks.append(asyncio.create_task(_prepare(work), name="prepare"))

    async def stop(self) -> None:
        """Lay all duties down; flush what sessions have buffered, and let another router begin."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            flushed = await self._router.flush_due(self.ring, everything=True)
            await self._router.resign()
            log.info("flushed_at_shutdown", sessions=flushed)
        except GralkorError as error:
            log.warning("flush_at_shutdown_left_out", code=error.code, reason=error.message)

    async def ring(self, rings: Sequence[Ring]) -> None:
        """Ring doorbells: a call for the index lane, a message for the understand lane."""
        heard = True
        for lane, group in dict.fromkeys((lane, group) for lane, group in rings):
            if lane == "index":
                self._index.ring(group)
            elif heard:  # else it would be waited for once more in vain, and the sweep rings again
                try:
                    await self._doorbell.ring(group)
                except GralkorError as error:
                    log.warning("doorbells_lost", group=group, reason=error.message)
                    heard = False

    @property
    def is_router(self) -> bool:
        """Whether this process routes."""
        return self._leading.is_set()

    @property
    def turns(self) -> tuple[str, int]:
        """What grows as long as this process does its part: it routes, or it tries to.

        A duty that hangs for longer than any of its calls may take has no turn any more.
        """
        duty = "route" if self.is_router else "lead"
        return duty, self._turns[duty]

    async def _lead(self) -> None:
        while True:
            if await self._router.lead():
                self._leading.set()
            else:
                self._leading.clear()
            self._turns["lead"] += 1
            await asyncio.sleep(self._router.lease_ms / 4000)

    async def _route(self) -> None:
        while True:
            await self._leading.wait()
            await self._router.route(self.ring)
            self._turns["route"] += 1
            if self._router.epoch is None:  # another router, or late; `_lead` finds out which
                await asyncio.sleep(PAUSE_SECONDS)

    async def _flush_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE_SECONDS)
            await self._leading.wait()
            await self._router.flush_due(self.ring)

    async def _sweep(self) -> None:
        while True:
            pause = SWEEP_SECONDS
            for lane in LANES:
                swept = await self._mailbox.sweep(lane)
                if swept.freed:
                    log.warning("leases_expired", lane=lane, count=swept.freed)
                await self.ring([(lane, group) for group in swept.groups])
                if swept.due_in_ms is not None:
                    pause = min(pause, swept.due_in_ms / 1000)
            await asyncio.sleep(max(pause, SOONEST_SWEEP_SECONDS))


async def _prepare(work: Coroutine[Any, Any, object]) -> None:
    try:
        await work
    except GralkorError as error:
        log.warning("preparation_failed", code=error.code, reason=error.message)


async def _perform(name: str, duty: Callable[[], Awaitable[None]], turns: Counter[str]) -> None:
    """Perform a duty for ever; an outage is logged once and the duty taken up again."""
    clock = asyncio.get_running_loop().time
    failing = False
    while True:
        started = clock()
        try:
            await duty()
        except GralkorError as error:
            if not failing or clock() - started > RECOVERED_SECONDS:
                log.warning("duty_interrupted", duty=name, code=error.code, reason=error.message)
            failing = True
        except Exception:
            log.exception("duty_failed", duty=name)
            failing = False
        else:
            failing = False
        turns[name] += 1  # to meet an outage is a turn as well
        await asyncio.sleep(PAUSE_SECONDS)
