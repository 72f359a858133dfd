"""The limiter that all processes share: the holds in Redis, for the model calls of this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from gralkord.clock import Clock
from gralkord.errors import BackendUnavailable, ConfigError, GralkorError, ModelOutage
from gralkord.mailbox.holds import Asked, ModelHolds, OutageReason, Place, Said
from gralkord.providers.limiter import LocalLimiter, Planned, Turn, line_wait

if TYPE_CHECKING:
    from gralkord.providers.announced import Announced

# So much later than asked a call is made at most, if the queue does not answer, ...
_ASK_SECONDS: Final = 0.5
# ... and so long it is not asked again.
_PAUSE_SECONDS: Final = 2.0

log = structlog.get_logger(__name__)


class SharedLimiter:
    """Implements `gralkord.providers.limiter.Limiter` for any number of processes.

    While the queue does not answer, this process keeps to what it knows itself: an episode that is
    half understood is not thrown away for that.
    """

    def __init__(self, holds: ModelHolds, clock: Clock) -> None:
        self._holds = holds
        self._clock = clock
        self._own = LocalLimiter(clock)
        self._endpoints: set[str] = set()
        # Calls whose turn is of `_own`, and so of another clock.
        self._own_calls: set[str] = set()
        self._silent_until = 0.0

    async def ask(self, call: Planned, reserved: int = 0) -> Turn:
        """Reserve a turn, or look again whether the one *reserved* (its start) still holds."""
        if call.lane:
            self._endpoints.add(call.endpoint)
        own = reserved if call.id in self._own_calls else 0
        if self._clock.monotonic() >= self._silent_until:
            try:
                async with asyncio.timeout(_ASK_SECONDS):
                    place = await self._holds.ask(_asked(call), 0 if own else reserved)
            except (GralkorError, TimeoutError) as error:
                _left_out("ask", error)
                self._silent_until = self._clock.monotonic() + _PAUSE_SECONDS
            else:
                self._own_calls.discard(call.id)
                return _turn(place)
        self._own_calls.add(call.id)
        return await self._own.ask(call, own)

    async def keep(self, call: Planned) -> None:
        """Keep the call's place for it."""
        try:
            await self._holds.keep(_asked(call))
        except GralkorError as error:
            _left_out("keep", error)

    async def limited(
        self, call: Planned, turn: Turn, retry_after: float | None, announced: Announced | None
    ) -> None:
        """Note a refusal, for all processes."""
        self._own_calls.discard(call.id)
        try:
            await self._holds.limited(_asked(call), turn.start, retry_after, _said(announced))
        except GralkorError as error:
            _left_out("limited", error)
            await self._own.limited(call, turn, retry_after, announced)

    async def answered(
        self, call: Planned, turn: Turn, tokens: int | None, announced: Announced | None
    ) -> None:
        """Ease the pace of all processes; end the outage."""
        self._own_calls.discard(call.id)
        await self._own.answered(call, turn, tokens, announced)
        others = self._endpoints - {call.endpoint}
        try:
            if await self._holds.answered(
                _asked(call), turn.start, tokens, _said(announced), others, lane=call.lane
            ):
                log.info("model_outage_over", endpoint=call.endpoint)
        except GralkorError as error:
            _left_out("answered", error)

    async def failed(self, call: Planned, turn: Turn, error: ModelOutage | ConfigError) -> None:
        """Leave the endpoint alone for a while, and hold the lane of all workers if it needs it."""
        self._own_calls.discard(call.id)
        reason: OutageReason = (
            "model_outage" if isinstance(error, ModelOutage) else "model_misconfigured"
        )
        try:
            tries = await self._holds.failed(
                _asked(call),
                reason,
                error.message,
                error.retry_after,
                start=turn.start,
                lane=call.lane,
            )
        except GralkorError as unheard:
            _left_out("failed", unheard)
            return
        if tries:
            log.warning(reason, endpoint=call.endpoint, detail=error.message, tries=tries)

    async def withdrawn(self, call: Planned, turn: Turn, *, sent: bool) -> None:
        """Give its place to the next, and what was not sent back."""
        self._own_calls.discard(call.id)
        await self._own.withdrawn(call, turn, sent=sent)
        if turn.held or not turn.start:
            try:
                await self._holds.withdrawn(_asked(call), turn.start, sent=sent)
            except GralkorError as error:
                _left_out("withdrawn", error)


def _asked(call: Planned) -> Asked:
    limits = call.limits
    return Asked(
        call.endpoint,
        call.id,
        call.tokens,
        limits.requests or 0,
        limits.tokens or 0,
        limits.concurrency or 0,
    )


def _turn(place: Place) -> Turn:
    return Turn(
        wait=line_wait(place.wait) if place.kind == "line" else place.wait / 1000,
        start=place.start,
        held=place.held,
        far=place.kind == "far",
        out=place.kind == "out",
        probe=place.kind == "probe",
    )


def _said(announced: Announced | None) -> Said:
    return Said(*(-1 if each is None else each for each in announced)) if announced else Said()


def _left_out(step: str, error: GralkorError | TimeoutError) -> None:
    told = isinstance(error, BackendUnavailable | TimeoutError)  # by those whose duty it is
    report = log.debug if told else log.warning
    report("model_hold_left_out", step=step, reason=str(error))
