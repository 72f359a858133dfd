"""One model call, made in its turn, and made again where that is all it takes."""

from __future__ import annotations

import asyncio
import random
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import structlog

from gralkord.errors import ConfigError, GralkorError, ModelOutage, RateLimited
from gralkord.providers.announced import announced_by
from gralkord.providers.limiter import KEEP_SECONDS, Limiter, Planned, Turn
from gralkord.providers.refusals import Hiccup, QuotaSpent, SlowDown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx

    from gralkord.providers.endpoint import Endpoint

    Attempt = Callable[[], Awaitable[httpx.Response]]
    # How many tokens an answer says that it took, both ways; 0: it does not say.
    Used = Callable[[httpx.Response], int]

MOST_REPEATS: Final = 8
# After a fault that may be of this one call.
HICCUP_SECONDS: Final = (0.25, 1.0)
GOODBYE_SECONDS: Final = 1.0
# How fast the estimate of a call's tokens follows what calls turn out to use.
_FOLLOWS: Final = 0.2

log = structlog.get_logger(__name__)


class Calls:
    """Makes the calls to one endpoint.

    A call that is refused for its rate, or fails by chance, is repeated in place, because the whole
    episode would else be begun again, with every call that was paid already.

    Who cancels a call closes its connection; its place, and its turn if it was not sent yet, are
    given back behind its back.

    Args:
        endpoint: Where they go.
        limiter: Gives the turns, and hears how each call went.
        slots: Limits the calls under way, together with whoever else holds it.
        lane: Whether nothing can be understood while the endpoint is out, so that the whole lane is
            to wait for it. An embedder or reranker that is out is only not asked for a while.
    """

    def __init__(
        self, endpoint: Endpoint, limiter: Limiter, slots: asyncio.Semaphore, *, lane: bool = True
    ) -> None:
        self._endpoint = endpoint
        self._limiter = limiter
        self._slots = slots
        self._lane = lane
        self._ratio = 1.0
        self._goodbyes: set[asyncio.Task[None]] = set()

    async def make(
        self, attempt: Attempt, *, tokens: int = 0, used: Used | None = None
    ) -> httpx.Response:
        """Return what *attempt* returns, made once or, where that may help, several times.

        Args:
            attempt: Makes the call, and raises what a refusal stands for.
            tokens: How many it will use, roughly; so many are reserved, as past calls correct it.
            used: Tells how many an answer took.

        Raises:
            RateLimited: The next turn is too far off, or the provider has refused too often.
            ModelOutage: The endpoint does not answer, or has not for a while and is left alone.
            GralkorError: What *attempt* raised, otherwise.
        """
        planned = Planned(
            id=uuid.uuid4().hex,
            endpoint=self._endpoint.name,
            limits=self._endpoint.limits,
            tokens=round(tokens * self._ratio),
            lane=self._lane,
        )
        call = _Call(planned, attempt, used, tokens)
        try:
            while (response := await self._pass(call)) is None:
                pass
        finally:
            if not call.told:
                self._withdraw(call)
        return response

    async def close(self) -> None:
        """Wait until the places of cancelled calls are given back, a second at most."""
        if self._goodbyes:
            await asyncio.wait(set(self._goodbyes), timeout=GOODBYE_SECONDS)

    async def _pass(self, call: _Call) -> httpx.Response | None:
        """Make the call if its turn has come, else wait; None: it is to be tried again."""
        async with self._slots:
            # Asked with the slot in hand: others may be refused while this call waits for one.
            call.told = call.sent = False
            call.turn = await self._limiter.ask(call.planned, call.turn.start)
            pause = self._before(call)
            if not pause:
                call.sent = True
                try:
                    response = await self._kept(call)
                except GralkorError as error:
                    pause = await self._after(error, call)
                else:
                    await self._answered(call, response)
                    return response
        await asyncio.sleep(pause)
        return None

    def _before(self, call: _Call) -> float:
        """Return how long to wait for the call's turn, in seconds."""
        turn = call.turn
        if turn.out:
            raise ModelOutage(
                f"{self._endpoint.spec} has not answered lately", retry_after=turn.wait
            )
        if turn.far:
            raise RateLimited(
                f"{self._endpoint.spec}: the provider asks for fewer requests",
                retry_after=turn.wait,
            )
        # Those who were given no turn do not ask all at once.
        pause = turn.wait if turn.start else _jittered(turn.wait)
        return min(pause, KEEP_SECONDS) if call.planned.limits.concurrency else pause

    async def _kept(self, call: _Call) -> httpx.Response:
        """Make the call, and say all the while that it is under way."""
        if not (call.planned.limits.concurrency or call.turn.probe):
            return await call.attempt()
        keeper = asyncio.create_task(self._keep(call.planned))
        try:
            return await call.attempt()
        finally:
            keeper.cancel()

    async def _keep(self, planned: Planned) -> None:
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            await self._limiter.keep(planned)

    async def _after(self, error: GralkorError, call: _Call) -> float:
        """Tell the limiter of *error*; return the pause before the call is made again, or raise."""
        turn, call.turn = call.turn, Turn()
        call.told = True
        if isinstance(error, RateLimited):
            announced = error.announced if isinstance(error, SlowDown) else None
            await self._limiter.limited(call.planned, turn, error.retry_after, announced)
            call.refused += 1
            if call.refused > MOST_REPEATS or isinstance(error, QuotaSpent):
                raise error
            log.info("model_rate_limited", model=self._endpoint.model, times=call.refused)
            return 0.0
        if isinstance(error, Hiccup) and not turn.probe and call.hiccups < len(HICCUP_SECONDS):
            await self._limiter.withdrawn(call.planned, turn, sent=True)
            call.hiccups += 1
            log.info("model_hiccup", model=self._endpoint.model, reason=error.message)
            return _jittered(HICCUP_SECONDS[call.hiccups - 1])
        if isinstance(error, ModelOutage | ConfigError):
            await self._limiter.failed(call.planned, turn, error)
        elif turn.held:
            await self._limiter.answered(call.planned, turn, 0, None)
        raise error

    async def _answered(self, call: _Call, response: httpx.Response) -> None:
        tokens = call.used(response) if call.used else 0
        if tokens and call.estimate:
            self._ratio += _FOLLOWS * (tokens / call.estimate - self._ratio)
        announced = announced_by(response.headers)
        if call.turn.held or announced is not None:
            await self._limiter.answered(call.planned, call.turn, tokens or None, announced)
        call.told = True

    def _withdraw(self, call: _Call) -> None:
        """Give the call's place back without holding up whoever cancelled it."""
        goodbye = self._limiter.withdrawn(call.planned, call.turn, sent=call.sent)
        task: asyncio.Task[Any] = asyncio.create_task(goodbye)
        self._goodbyes.add(task)
        task.add_done_callback(self._goodbyes.discard)


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311 - not a secret


@dataclass(slots=True)
class _Call:
    """One call, and what has become of it up to now."""

    planned: Planned
    attempt: Attempt
    used: Used | None
    estimate: int
    turn: Turn = field(default_factory=Turn)
    sent: bool = False
    told: bool = True
    refused: int = 0
    hiccups: int = 0
