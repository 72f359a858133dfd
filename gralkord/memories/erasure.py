"""Erasures: begun, followed, and taken up again when their process has ended."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from typing import Any, Final

import structlog
from redis.asyncio import Redis

from gralkord.clock import to_iso
from gralkord.errors import GralkorError, NotFound, TooMany
from gralkord.groups import parse_group
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.erasures import HELD_MS
from gralkord.memories.erasing import EraserParts, Erasing
from gralkord.memories.files import forget_past
from gralkord.models.erasure import EraseRequest, EraseScope, Erasure, ErasureList

log = structlog.get_logger(__name__)

WATCH_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 2.0


class ErasureService:
    """Erases for the tenants of this process, one erasure a tenant at a time."""

    def __init__(self, parts: EraserParts, queue: Redis, tenants: Sequence[str]) -> None:
        """Prepare; nothing is sent yet.

        Args:
            parts: What an erasure works with.
            queue: The queue, whose file is written anew at the end.
            tenants: Whose interrupted erasures are taken up again.
        """
        self._parts = parts
        self._queue = queue
        self._tenants = tenants
        self._runs: dict[str, asyncio.Task[Erasure]] = {}

    async def erase(self, tenant: str, request: EraseRequest) -> Erasure:
        """Erase, or count; return the erasure, which may be under way still.

        Raises:
            TooMany: Another erasure of the tenant is under way.
            BackendUnavailable: The queue does not answer.
        """
        if request.dry_run:
            return await self.count(tenant, request.scope())
        erasure = self._new(request.scope())
        await self._begin(tenant, erasure)
        run = asyncio.create_task(self._run(tenant, erasure), name=f"erase {erasure.id}")
        self._runs[erasure.id] = run
        run.add_done_callback(lambda _: self._runs.pop(erasure.id, None))
        await asyncio.wait({run}, timeout=request.timeout_ms / 1000)
        return await self.read(tenant, erasure.id)

    async def erase_scope(self, tenant: str, scope: EraseScope) -> Erasure:
        """Erase to the end, for whoever has restored a backup that holds what was erased since.

        Raises:
            TooMany: Another erasure of the tenant is under way.
            GralkorError: It was interrupted; a daemon takes it up again.
        """
        erasure = self._new(scope)
        await self._begin(tenant, erasure)
        return await self._run(tenant, erasure, log_only=False)

    async def count(self, tenant: str, scope: EraseScope) -> Erasure:
        """Return what an erasure would take; nothing is changed.

        Raises:
            BackendUnavailable: A server does not answer.
        """
        erasure = self._new(scope)
        run = Erasing(self._parts, tenant, scope, dry=True)
        await run.take("+")
        return _told(erasure, run).model_copy(
            update={"dry_run": True, "state": "done", "finished_at": self._now()}
        )

    async def read(self, tenant: str, erasure: str) -> Erasure:
        """Return how far an erasure is.

        Raises:
            NotFound: There is none of that id.
            BackendUnavailable: The queue does not answer.
        """
        found = await self._parts.erasures.load(tenant, erasure)
        if found is None:
            raise NotFound(f"no erasure has the id {erasure[:64]!r}", field="id")
        current = await self._parts.erasures.current(tenant)
        return _interrupted(found) if current != erasure else found

    async def list_erasures(self, tenant: str) -> ErasureList:
        """Return all erasures of a tenant, newest first, so that they can be done again.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        current = await self._parts.erasures.current(tenant)
        return ErasureList(
            erasures=[
                one if one.id == current else _interrupted(one)
                for one in await self._parts.erasures.all(tenant)
            ]
        )

    async def watch(self) -> None:
        """Take up again what was interrupted, and drop old graves; runs until it is cancelled."""
        while True:
            for tenant in self._tenants:
                try:
                    await self.resume(tenant)
                except GralkorError as error:  # it is tried again soon
                    log.debug("erasures_wait", code=error.code)
                except Exception:
                    log.exception("erasures_failed")
            await asyncio.sleep(WATCH_SECONDS)

    async def resume(self, tenant: str) -> int:
        """Do interrupted erasures again, oldest first; return how many."""
        await self._drop_graves(tenant)
        current = await self._parts.erasures.current(tenant)
        unfinished = [
            one
            for one in await self._parts.erasures.unfinished(tenant)
            if one.id != current and one.id not in self._runs
        ]
        for erasure in unfinished:
            await self._begin(tenant, erasure)
            await self._run(tenant, erasure)
        return len(unfinished)

    async def close(self) -> None:
        """Stop what is under way; it is taken up again by the next daemon."""
        runs = list(self._runs.values())
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    async def _begin(self, tenant: str, erasure: Erasure) -> None:
        if await self._parts.erasures.open(tenant, erasure.id, erasure.scope) is None:
            raise TooMany("another erasure is under way", limit=1, retry_after=_RETRY_SECONDS)
        await self._parts.erasures.save(tenant, erasure)

    async def _run(self, tenant: str, erasure: Erasure, *, log_only: bool = True) -> Erasure:
        """Do all steps; what interrupts them stands in the record."""
        run = Erasing(self._parts, tenant, erasure.scope, dry=False)
        before = erasure
        try:
            renewing = asyncio.create_task(self._renew(tenant, erasure.id))
            work = asyncio.create_task(self._work(tenant, erasure.id, run))
            try:
                await asyncio.wait({renewing, work}, return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    renewing.result()
                refused = work.result()
            finally:
                for task in (renewing, work):
                    task.cancel()
                await asyncio.gather(renewing, work, return_exceptions=True)
        except GralkorError as error:
            log.warning("erasure_interrupted", erasure=erasure.id, code=error.code)
            await self._interrupt(tenant, _told(before, run), error)
            if not log_only:
                raise
            return await self.read(tenant, erasure.id)
        done = _told(before, run).model_copy(
            update={
                "state": "done",
                "finished_at": self._now(),
                "not_confirmed": refused,
                "last_error": None,
            }
        )
        await self._parts.erasures.save(tenant, done)
        await self._parts.erasures.end(tenant, erasure.id)
        log.info("erased", erasure=erasure.id, kind=erasure.scope.kind, counts=done.counts)
        return done

    async def _work(self, tenant: str, erasure: str, run: Erasing) -> list[str]:
        """Erase; return what the servers would not do."""
        parts = self._parts
        server = await parts.graph.known_run()
        upto = await parts.erasures.renew(tenant, erasure)
        await run.take(upto)
        # From here on what is captured is routed again; what was captured before never will be.
        await run.take_entries(await parts.erasures.close(tenant, erasure))
        await parts.graph.wait_durable(server)
        refused = [
            f"queue: {name} holds too many entries to be written anew"
            for name in await parts.purge.restream(tenant)
        ]
        graphs = sorted(set(run.touched) & set(await parts.graph.groups()))
        for part in await asyncio.gather(
            forget_past("queue", self._ask_queue),
            forget_past("graph", parts.graph.command, graphs),
        ):
            refused += part
        return refused

    async def _renew(self, tenant: str, erasure: str) -> None:
        while True:
            await asyncio.sleep(HELD_MS / 4000)
            await self._parts.erasures.renew(tenant, erasure)

    async def _interrupt(self, tenant: str, erasure: Erasure, error: GralkorError) -> None:
        lost = erasure.model_copy(update={"last_error": f"{error.code}: {error.message}"})
        with contextlib.suppress(GralkorError):
            await self._parts.erasures.save(tenant, lost)
            await self._parts.erasures.end(tenant, erasure.id)

    async def _drop_graves(self, tenant: str) -> None:
        """Drop the groups that are kept for their fences only, when that has been long enough."""
        now_ms = int(self._parts.clock.now().timestamp() * 1000)
        run = Erasing(self._parts, tenant, EraseScope(everything=True), dry=False)
        for group in await self._parts.erasures.old_graves(now_ms):
            if parse_group(group).tenant == tenant:
                await run.drop_grave(group)

    async def _ask_queue(self, *words: Any) -> Any:
        with queue_errors():
            return await self._queue.execute_command(*words)  # type: ignore[no-untyped-call]

    def _new(self, scope: EraseScope) -> Erasure:
        now = self._parts.clock.now()
        return Erasure(
            id=f"{int(now.timestamp() * 1000)}-{secrets.randbits(48)}",
            scope=scope,
            state="running",
            started_at=to_iso(now),
        )

    def _now(self) -> str:
        return to_iso(self._parts.clock.now())


def _told(erasure: Erasure, run: Erasing) -> Erasure:
    """Return the record with what a run has counted added to what earlier ones have."""
    counts = {
        store: {
            name: erasure.counts.get(store, {}).get(name, 0) + count for name, count in some.items()
        }
        for store, some in run.counts.items()
    }
    return erasure.model_copy(update={"counts": counts, "missing": run.missing})


def _interrupted(erasure: Erasure) -> Erasure:
    if erasure.state != "running":
        return erasure
    return erasure.model_copy(update={"state": "interrupted"})
