"""One model call, made in its turn, and made again where that is all it takes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from gralkord.errors import ConfigError, GralkorError, ModelOutage, RateLimited
from gralkord.providers.limiter import LONGEST_TURN_SECONDS, Limiter, Turn
from gralkord.providers.refusals import Hiccup, QuotaSpent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gralkord.providers.endpoint import Endpoint

Outcome = TypeVar("Outcome")

MOST_REPEATS: Final = 4
MOST_WAIT_SECONDS: Final = 60.0
# After a fault that may be of this one call.
HICCUP_SECONDS: Final = (0.25, 1.0)

log = structlog.get_logger(__name__)


class Calls:
    """Makes the calls to one endpoint.

    A call that is refused for its rate, or fails by chance, is repeated in place, because the whole
    episode would else be begun again, with every call that was paid already.

    Args:
        endpoint: Where they go.
        limiter: Gives the turns, and hears how each call went.
        slots: Limits the calls under way, together with whoever else holds it.
    """

    def __init__(self, endpoint: Endpoint, limiter: Limiter, slots: asyncio.Semaphore) -> None:
        self._endpoint = endpoint
        self._limiter = limiter
        self._slots = slots

    async def make(self, attempt: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Return what *attempt* returns, made once or, where that may help, several times.

        Raises:
            RateLimited: The next turn is too far off, or the provider has refused too often.
            GralkorError: What *attempt* raised, otherwise.
        """
        so_far = _SoFar()
        while True:
            async with self._slots:
                # Asked with the slot in hand: others may be refused while this call waits for one.
                turn = await self._limiter.ask(self._endpoint.name, so_far.reserved)
                pause = self._before(turn, so_far)
                if not pause:
                    try:
                        outcome = await attempt()
                    except GralkorError as error:
                        pause = await self._after(error, turn, so_far)
                    else:
                        await self._answered(turn)
                        return outcome
            await asyncio.sleep(pause)

    def _before(self, turn: Turn, so_far: _SoFar) -> float:
        """Return how long to wait for *turn*, in seconds."""
        so_far.reserved = turn.start if turn.wait > 0 else 0
        if turn.wait > min(LONGEST_TURN_SECONDS, MOST_WAIT_SECONDS - so_far.waited):
            raise RateLimited(
                f"{self._endpoint.spec}: the provider asks for fewer requests",
                retry_after=turn.wait,
            )
        so_far.waited += turn.wait
        return turn.wait

    async def _after(self, error: GralkorError, turn: Turn, so_far: _SoFar) -> float:
        """Tell the limiter of *error*; return the pause before the call is made again, or raise."""
        name = self._endpoint.name
        if isinstance(error, RateLimited):
            await self._limiter.limited(name, turn.start, error.retry_after)
            so_far.refused += 1
            if so_far.refused > MOST_REPEATS or isinstance(error, QuotaSpent):
                raise error
            log.info("model_rate_limited", model=self._endpoint.model, times=so_far.refused)
            return 0.0
        if isinstance(error, Hiccup) and not turn.out and so_far.hiccups < len(HICCUP_SECONDS):
            so_far.hiccups += 1
            log.info("model_hiccup", model=self._endpoint.model, reason=error.message)
            return HICCUP_SECONDS[so_far.hiccups - 1]
        if isinstance(error, ModelOutage | ConfigError):
            await self._limiter.failed(name, error)
        else:
            await self._answered(turn)
        raise error

    async def _answered(self, turn: Turn) -> None:
        if turn.held:
            await self._limiter.answered(self._endpoint.name)


@dataclass(slots=True)
class _SoFar:
    """What has become of one call up to now; `reserved` is the start of the turn waited for."""

    reserved: int = 0
    waited: float = 0.0
    refused: int = 0
    hiccups: int = 0
