"""Receipts: what has become of a turn or a flush, asked once or followed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import orjson

from gralkord.clock import Clock
from gralkord.daemon.progress import Routed, flush_job, queued_job, refused_job, turn_job
from gralkord.errors import BackendUnavailable, NotFound, TooMany
from gralkord.graph.connection import GraphConnection
from gralkord.graph.written import Written, written_of
from gralkord.groups import escape
from gralkord.mailbox.dead import entry_time
from gralkord.mailbox.scripts import Scripts
from gralkord.models.jobs import Job, check_entry_id

KEPT: Final = timedelta(days=7)
MOST_WATCHERS: Final = 64
HEARTBEAT_SECONDS: Final = 15.0
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 1.0

# How many entries or items are looked through for a position, and how many bytes of them: nobody
# else is served by the queue meanwhile. Who watches asks often.
_MOST_COUNTED: Final = 1_000
_MOST_WATCHED: Final = 100
_MOST_BYTES: Final = 1_000_000
# A receipt may lead to another one: of a resend to the first, of a retry to the new entry.
_MOST_STEPS: Final = 16


@dataclass(slots=True)
class Jobs:
    """Answers for receipts. Nothing is kept of a job but what the queue and the graph have."""

    scripts: Scripts
    graph: GraphConnection
    clock: Clock
    model: bool
    _watchers: int = 0
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self, tenant: str, job: str, most: int | None = None) -> Job:
        """Return what has become of an entry.

        While the graph does not answer, the queue alone is asked, and `degraded` says so.

        Args:
            tenant: Whose job.
            job: Its id.
            most: Count its position up to so many; default: 1,000.

        Raises:
            InvalidInput: *job* is no id of an entry.
            NotFound: There is no such entry, or it is older than seven days.
            BackendUnavailable: The queue does not answer.
        """
        check_entry_id(job)
        at = job
        for _ in range(_MOST_STEPS):
            said = await self._ask(tenant, at, most or _MOST_COUNTED)
            if "seen" not in said:
                break
            at = said["seen"]
        return (await self._tell(at, said)).model_copy(update={"id": job})

    async def watch(self, tenant: str, job: str, timeout: float) -> AsyncGenerator[Job | None]:  # noqa: ASYNC109
        """Yield the job at once, at each change, and last when it is final.

        Args:
            tenant: Whose job.
            job: Its id.
            timeout: Seconds after which it ends in any case.

        Yields:
            The job; or nothing, so that a reader learns that the watch goes on.

        Raises:
            InvalidInput: *job* is no id of an entry.
            NotFound: There is no such entry, or it is older than seven days.
            TooMany: As many are watched as this daemon does at a time.
        """
        if self._watchers >= MOST_WATCHERS:
            raise TooMany(
                f"{MOST_WATCHERS} jobs are being watched, no more can be",
                limit=MOST_WATCHERS,
                retry_after=LONGEST_PAUSE,
                hint="ask for the job's state instead",
            )
        self._watchers += 1
        try:
            async with contextlib.aclosing(self._changes(tenant, job, timeout)) as changes:
                async for change in changes:
                    yield change
        finally:
            self._watchers -= 1

    def close(self) -> None:
        """End all watches: the process is about to stop."""
        self._closing.set()

    async def _changes(self, tenant: str, job: str, timeout: float) -> AsyncGenerator[Job | None]:  # noqa: ASYNC109
        now = self.clock.monotonic()
        end, spoken = now + timeout, now
        last = await self.read(tenant, job, _MOST_WATCHED)
        yield last
        pause = FIRST_PAUSE
        while not last.final and not await self._paused(min(pause, end - now)):
            now = self.clock.monotonic()
            pause = min(pause * 1.3, LONGEST_PAUSE)
            with contextlib.suppress(BackendUnavailable):  # it is followed again when that is over
                state = await self.read(tenant, job, _MOST_WATCHED)
                if state != last:
                    last, pause, spoken = state, FIRST_PAUSE, now
                    yield state
            if now >= end:
                return
            if now - spoken >= HEARTBEAT_SECONDS:
                spoken = now
                yield None

    async def _paused(self, seconds: float) -> bool:
        """Wait; whether the watches are to end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.001)):
                await self._closing.wait()
        return self._closing.is_set()

    async def _ask(self, tenant: str, job: str, most: int) -> Mapping[str, Any]:
        raw = await self.scripts.call("job", escape(tenant), job, most, _MOST_BYTES)
        said: Mapping[str, Any] = orjson.loads(raw.decode(errors="replace"))
        return said

    async def _tell(self, job: str, said: Mapping[str, Any]) -> Job:
        if "entry" in said:
            return queued_job(job, said["entry"])
        if self.clock.now() - entry_time(job) <= KEPT:  # records go an hour at a time
            if "dead" in said:
                return refused_job(job, said)
            if "flush" in said:
                return flush_job(job, said)
            if "turn" in said:
                return turn_job(job, said, await self._written(Routed.read(said)), model=self.model)
        raise NotFound(
            f"no turn or flush has the receipt {job!r}",
            field="id",
            hint="receipts are kept for 7 days",
        )

    async def _written(self, turn: Routed) -> dict[str, Written] | None:
        elsewhere = [group for group in turn.understood if group not in turn.homes]
        try:
            asked = [written_of(self.graph, home, turn.turn_id) for home in turn.homes]
            asked += [
                written_of(self.graph, group, turn.turn_id, home=turn.homes[0])
                for group in elsewhere
            ]
            return dict(zip((*turn.homes, *elsewhere), await asyncio.gather(*asked), strict=True))
        except BackendUnavailable:
            return None
