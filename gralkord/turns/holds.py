"""The limiter that all workers share: the holds in Redis, for the model calls of this process."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from gralkord.clock import Clock
from gralkord.errors import BackendUnavailable, ConfigError, GralkorError, ModelOutage
from gralkord.mailbox.holds import ModelHolds, OutageReason
from gralkord.providers.limiter import LocalLimiter, Turn

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
        self._silent_until = 0.0

    async def ask(self, endpoint: str, reserved: int = 0) -> Turn:
        """Reserve a turn, or look again whether the one *reserved* (its start) still holds."""
        self._endpoints.add(endpoint)
        if self._clock.monotonic() < self._silent_until:
            return await self._own.ask(endpoint, reserved)
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                place = await self._holds.ask(endpoint, reserved)
        except (GralkorError, TimeoutError) as error:
            _left_out("ask", error)
            self._silent_until = self._clock.monotonic() + _PAUSE_SECONDS
            return await self._own.ask(endpoint, reserved)
        held = place.paced or bool(place.out)
        return Turn(place.wait / 1000, place.start, held=held, out=place.out == endpoint)

    async def limited(self, endpoint: str, start: int, retry_after: float | None) -> None:
        """Note a refusal, for all workers."""
        try:
            await self._holds.limited(endpoint, start, retry_after)
        except GralkorError as error:
            _left_out("limited", error)
            await self._own.limited(endpoint, start, retry_after)

    async def answered(self, endpoint: str) -> None:
        """Ease the pace of all workers; end the outage."""
        await self._own.answered(endpoint)
        try:
            if await self._holds.answered(endpoint, self._endpoints - {endpoint}):
                log.info("model_outage_over", endpoint=endpoint)
        except GralkorError as error:
            _left_out("answered", error)

    async def failed(self, endpoint: str, error: ModelOutage | ConfigError) -> None:
        """Hold the understand lane of all workers."""
        reason: OutageReason = (
            "model_outage" if isinstance(error, ModelOutage) else "model_misconfigured"
        )
        try:
            tries = await self._holds.failed(endpoint, reason, error.message, error.retry_after)
        except GralkorError as unheard:
            _left_out("failed", unheard)
            return
        if tries:
            log.warning(reason, endpoint=endpoint, detail=error.message, tries=tries)


def _left_out(step: str, error: GralkorError | TimeoutError) -> None:
    told = isinstance(error, BackendUnavailable | TimeoutError)  # by those whose duty it is
    report = log.debug if told else log.warning
    report("model_hold_left_out", step=step, reason=str(error))
