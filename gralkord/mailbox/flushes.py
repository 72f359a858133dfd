"""Flushes: how far each has come, and waiting for one without holding up anything else."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from redis.asyncio import Redis

from gralkord.clock import Clock
from gralkord.errors import BackendUnavailable, NotFound
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.holds import ModelHolds
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.ledger import SpendBook
from gralkord.models import FlushResult, Until

READ_MS: Final = 2_000
RECHECK_SECONDS: Final = 1.0
# A model that is out for no longer may be only restarting, and the wait goes on.
OUTAGE_SECONDS: Final = 3.0
# What one look may take, also where there is no time left to wait.
LOOK_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class FlushState:
    """What is recorded of one flush."""

    routed: bool
    indexed: bool
    understood: bool
    reason: str | None
    turns: int | None
    dead: int

    def reached(self, until: Until) -> bool:
        """Whether the flush is as far as *until*, or as far as it can get for now."""
        if until == "indexed" or self.reason is not None:
            return self.indexed
        return self.indexed and self.understood

    @property
    def state(self) -> Literal["queued", "indexed", "understood"]:
        """The last stage that is complete."""
        if self.indexed and self.understood and self.reason is None:
            return "understood"
        return "indexed" if self.indexed else "queued"


# Reasons that pass: what the flush was to reach will be reached.
_LATER: Final = frozenset({"timeout", "model_outage", "model_misconfigured", "budget_spent"})
Unfinished = Literal["timeout", "stopping"]

_UNKNOWN: Final = FlushState(
    routed=False, indexed=False, understood=False, reason=None, turns=None, dead=0
)


class Flushes:
    """Reads flush records, and wakes those who wait when the event stream names their flush.

    One reader per process serves all waiters. An event is a hint: a waiter looks at the record
    before it waits and every few seconds while it does.
    """

    def __init__(
        self, client: Redis, keys: Keys, clock: Clock, book: SpendBook | None = None
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: The queue Redis.
            keys: Its names.
            clock: For deadlines.
            book: The ledger, where there are budgets.
        """
        self._client = client
        self._keys = keys
        self._clock = clock
        self._book = book
        self._holds = ModelHolds(client, keys)
        self._closed = False
        self._waiters: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    async def read(self, tenant: str, flush: str) -> FlushState:
        """Return how far a flush has come.

        Raises:
            NotFound: There is no such flush, or it is older than seven days.
        """
        with queue_errors():
            raw: Any = await self._client.hgetall(self._keys.flush(tenant, flush))
        if not raw:
            raise NotFound(f"no flush has the id {flush!r}", field="flush")
        record = {key.decode(): value.decode() for key, value in raw.items()}
        return FlushState(
            routed="routed" in record,
            indexed=record.get("index") == "1",
            understood=record.get("understand") == "1",
            reason=record.get("reason"),
            turns=int(record["turns"]) if "turns" in record else None,
            dead=int(record.get("dead", 0)),
        )

    async def wait(
        self,
        tenant: str,
        flush: str,
        until: Until,
        timeout: float,  # noqa: ASYNC109
        *,
        asks_model: bool = True,
    ) -> FlushResult:
        """Wait until a flush gets as far as *until*, at most *timeout* seconds.

        While the queue does not answer, what was known last counts.

        Args:
            tenant: Whose flush.
            flush: Its id.
            until: How far.
            timeout: Seconds to wait.
            asks_model: While a model is out, or a budget is spent, nothing is understood that asks
                one: do not wait then, what is indexed is answered with that reason.
        """
        deadline = self._clock.monotonic() + timeout
        state = _UNKNOWN
        with self._woken(self._keys.flush(tenant, flush)) as event:
            while True:
                event.clear()
                left = deadline - self._clock.monotonic()
                with contextlib.suppress(TimeoutError, BackendUnavailable):
                    async with asyncio.timeout(max(left, LOOK_SECONDS)):
                        state = await self._state(tenant, flush)
                        if until == "understood" and asks_model:
                            state = await self._held(tenant, flush, state)
                left = deadline - self._clock.monotonic()
                if state.reached(until):
                    return result(flush, state, until)
                if left <= 0 or self._closed:
                    end: Unfinished = "timeout" if left <= 0 else "stopping"
                    return result(flush, state, until, end)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, RECHECK_SECONDS)):
                        await event.wait()

    def close(self) -> None:
        """Answer all who wait with what is known: the process ends, and the work goes on."""
        self._closed = True
        for events in self._waiters.values():
            for event in events:
                event.set()

    async def follow(self) -> None:
        """Read the event stream and wake the waiters; runs until it is cancelled."""
        last = "$"
        while True:
            with queue_errors():
                streams: Any = await self._client.xread(
                    {self._keys.named("events"): last}, count=500, block=READ_MS
                )
            for _, entries in streams:
                for entry_id, fields in entries:
                    last = entry_id
                    self._wake(fields[b"flush"].decode())

    async def _state(self, tenant: str, flush: str) -> FlushState:
        try:
            return await self.read(tenant, flush)
        except NotFound:  # the router has not come to it yet
            return _UNKNOWN

    async def _held(self, tenant: str, flush: str, state: FlushState) -> FlushState:
        if not state.indexed or state.understood or state.reason is not None:
            return state
        outage = await self._holds.outage()
        if outage is not None and outage.lasted >= OUTAGE_SECONDS:
            return replace(state, reason=outage.reason)
        if self._book is not None and await self._book.budget_held(tenant, flush):
            return replace(state, reason="budget_spent")
        return state

    def _wake(self, name: str) -> None:
        for event in self._waiters.get(f"{self._keys.prefix}flush:{name}", ()):
            event.set()

    @contextlib.contextmanager
    def _woken(self, key: str) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._waiters[key].add(event)
        try:
            yield event
        finally:
            self._waiters[key].discard(event)
            if not self._waiters[key]:
                del self._waiters[key]


def result(
    flush: str, state: FlushState, until: Until, unfinished: Unfinished | None = None
) -> FlushResult:
    """Return what a caller is told about a flush.

    Args:
        flush: Its id.
        state: What is recorded of it.
        until: How far the caller wants it.
        unfinished: Why it is not waited for any longer, if it is not so far.
    """
    reason = state.reason if until == "understood" else None
    if state.dead:
        reason = "dead_letters"
    if unfinished:
        reason = unfinished
    return FlushResult(
        flush=flush,
        state=state.state,
        complete=state.reached(until) and not state.dead and reason not in _LATER,
        reason=reason,
        turns=state.turns,
        dead=state.dead,
    )
