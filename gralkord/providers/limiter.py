"""Turns at a model's endpoint: who may call when, so that no limit of its provider is broken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from gralkord.clock import SystemClock
from gralkord.errors import ModelOutage
from gralkord.providers.paces import (
    AGAIN_MS,
    LATE_MS,
    LONGEST_HOLD_MS,
    LONGEST_WAIT_MS,
    NEAR_MS,
    Breaker,
    Pace,
    Window,
)
from gralkord.providers.planned import Planned, Turn

if TYPE_CHECKING:
    from gralkord.clock import Clock
    from gralkord.errors import ConfigError
    from gralkord.providers.announced import Announced

__all__ = ["KEEP_SECONDS", "Limiter", "LocalLimiter", "Planned", "Turn", "line_wait"]

# How often a call that waits or is under way has to be heard of, or its place is given away.
KEEP_SECONDS: Final = 2.5
# How soon a call that waits for a free place asks again: by how far back it stands.
_LINE_SECONDS: Final = (0.05, 0.5)


class Limiter(Protocol):
    """Gives turns at endpoints, and learns from each answer. It never fails.

    Each call that was given a turn ends with one of `answered`, `limited`, `failed`, `withdrawn`.
    """

    async def ask(self, call: Planned, reserved: int = 0) -> Turn:
        """Reserve a turn, or look again whether the one *reserved* (its start) still holds."""
        ...

    async def keep(self, call: Planned) -> None:
        """Say that *call* is still under way, at least every `KEEP_SECONDS`."""
        ...

    async def answered(
        self, call: Planned, turn: Turn, tokens: int | None, announced: Announced | None
    ) -> None:
        """Note an answer, how many *tokens* it took, and what the provider says of its limits."""
        ...

    async def limited(
        self, call: Planned, turn: Turn, retry_after: float | None, announced: Announced | None
    ) -> None:
        """Note that the provider asks for fewer requests; *retry_after* in seconds."""
        ...

    async def failed(self, call: Planned, turn: Turn, error: ModelOutage | ConfigError) -> None:
        """Note that an endpoint does not answer, or refuses key or model."""
        ...

    async def withdrawn(self, call: Planned, turn: Turn, *, sent: bool) -> None:
        """Note that nobody waits for *call* any more.

        What was *sent* stays counted: the provider has counted it as well.
        """
        ...


@dataclass(slots=True)
class _Endpoint:
    """What is known of one endpoint; the first calls of `line` are those that may be under way."""

    window: Window = field(default_factory=Window)
    line: list[str] = field(default_factory=list)
    pace: Pace | None = None
    breaker: Breaker | None = None

    def limits(self, call: Planned) -> tuple[int, int]:
        """Return the calls and tokens that a minute may hold; 0: no limit."""
        return (
            _least(call.limits.requests, self.window.most_requests),
            _least(call.limits.tokens, self.window.most_tokens),
        )


class LocalLimiter:
    """The limiter of one process by itself; `mailbox/lua/model_*.lua` keep the same rules."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._endpoints: dict[str, _Endpoint] = {}

    async def ask(self, call: Planned, reserved: int = 0) -> Turn:
        """Reserve a turn, or look again whether the one *reserved* (its start) still holds."""
        now, known = self._now(), self._endpoints.setdefault(call.endpoint, _Endpoint())
        if known.breaker is not None and not known.breaker.admits(now, call.id):
            return Turn((known.breaker.until - now) / 1000, held=True, out=True)
        if call.limits.concurrency:
            if call.id not in known.line:
                known.line.append(call.id)
            behind = known.line.index(call.id) - call.limits.concurrency
            if behind >= 0:
                return Turn(line_wait(behind), held=True)
        return self._reserve(known, call, now, reserved)

    def _reserve(self, known: _Endpoint, call: Planned, now: int, reserved: int) -> Turn:
        probe = known.breaker is not None
        limits, pace = known.limits(call), known.pace
        if pace is not None and not pace.gap_at(now) and pace.until <= now:
            pace = known.pace = None
        until = pace.until if pace else 0
        held = probe or pace is not None or bool(call.limits.concurrency) or limits != (0, 0)
        late = reserved + LATE_MS < now
        if reserved:
            if reserved >= until and not late:
                return Turn(max(0, reserved - now) / 1000, reserved, held=held, probe=probe)
            known.window.count(reserved, -1, -call.tokens)
        free = start = max(now, until)
        if pace is not None and not (reserved and late):
            start = max(start, pace.last + int(pace.gap_at(now)))
        if start - free > NEAR_MS:
            return Turn((max(until - now, 0) + AGAIN_MS) / 1000, held=True, probe=probe)
        if limits != (0, 0):
            known.window.forget(now)
            last = 0 if reserved and late else known.window.last
            start = known.window.place(start, call.tokens, limits, last)
        if until - now > LONGEST_HOLD_MS or start - now > LONGEST_WAIT_MS:
            return Turn((start - now) / 1000, held=held, far=True, probe=probe)
        if limits != (0, 0):
            known.window.last = max(start, known.window.last)
            known.window.count(start, 1, call.tokens)
        if pace is not None:
            pace.last = max(start, pace.last)
        return Turn((start - now) / 1000, start, held=held, probe=probe)

    async def keep(self, call: Planned) -> None:
        """Do nothing: no call of this process is ever forgotten."""

    async def answered(
        self, call: Planned, turn: Turn, tokens: int | None, announced: Announced | None
    ) -> None:
        """Ease the pace; end an outage."""
        now, known = self._now(), self._left(call, turn, tokens)
        known.breaker = None
        if announced is not None:
            _learn(known.window, now, announced)
        if known.pace is not None:
            known.pace.answer(now, turn.start)

    async def limited(
        self, call: Planned, turn: Turn, retry_after: float | None, announced: Announced | None
    ) -> None:
        """Slow down; a provider that refuses answers, so an outage is over."""
        now, known = self._now(), self._left(call, turn, 0)
        known.breaker = None
        if announced is not None:
            _learn(known.window, now, announced)
        known.pace = known.pace or Pace()
        known.pace.refuse(now, turn.start, None if retry_after is None else int(retry_after * 1000))

    async def failed(self, call: Planned, turn: Turn, error: ModelOutage | ConfigError) -> None:
        """Let one call at a time try whether the endpoint is back."""
        now, known = self._now(), self._left(call, turn, 0)
        if isinstance(error, ModelOutage):
            known.breaker = known.breaker or Breaker()
            known.breaker.fail(now, call.id, int((error.retry_after or 0) * 1000))

    async def withdrawn(self, call: Planned, turn: Turn, *, sent: bool) -> None:
        """Give its place to the next, and what was not sent back."""
        known = self._left(call, turn, None)
        if not sent and turn.start:
            known.window.count(turn.start, -1, -call.tokens)
        if known.breaker is not None and known.breaker.probe == call.id:
            known.breaker.probe, known.breaker.until = "", 0

    def _left(self, call: Planned, turn: Turn, tokens: int | None) -> _Endpoint:
        """Take *call* out of the line, and correct how many tokens it was counted for."""
        known = self._endpoints.setdefault(call.endpoint, _Endpoint())
        if call.id in known.line:
            known.line.remove(call.id)
        if tokens is not None and turn.start:
            known.window.count(turn.start, 0, tokens - call.tokens)
        return known

    def _now(self) -> int:
        return int(self._clock.monotonic() * 1000)


def line_wait(behind: int) -> float:
    """Return after how many seconds a call asks again with so many others before it in the line."""
    least, most = _LINE_SECONDS
    return min(least * (behind + 1), most)


def _learn(window: Window, now: int, said: Announced) -> None:
    window.learn(now, (said.requests, said.requests_left), (said.tokens, said.tokens_left))


def _least(chosen: int | None, announced: int) -> int:
    return min(filter(None, (chosen, announced)), default=0)
