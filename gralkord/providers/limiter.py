"""Turns at a model's endpoint: who may call when, after its provider asked for fewer requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from gralkord.clock import SystemClock

if TYPE_CHECKING:
    from gralkord.clock import Clock
    from gralkord.errors import ConfigError, ModelOutage

# Nobody waits longer for a turn: the work itself is to wait.
LONGEST_TURN_SECONDS: Final = 30.0
_GAP: Final = 0.1
_LONGEST_GAP: Final = 10.0
_GAP_EASES: Final = 0.9
_GAP_OVER: Final = 0.01


@dataclass(frozen=True, slots=True)
class Turn:
    """When a call may be made.

    Attributes:
        wait: Seconds until then; beyond `LONGEST_TURN_SECONDS` nothing is reserved.
        start: That moment, in ms of the limiter's own clock.
        held: Whether the limiter wants to hear of the answer, because there is a hold.
        out: Whether the endpoint is known not to answer.
    """

    wait: float = 0.0
    start: int = 0
    held: bool = False
    out: bool = False


class Limiter(Protocol):
    """Gives turns at endpoints, and learns from each answer. It never fails."""

    async def ask(self, endpoint: str, reserved: int = 0) -> Turn:
        """Reserve a turn, or look again whether the one *reserved* (its start) still holds."""
        ...

    async def limited(self, endpoint: str, start: int, retry_after: float | None) -> None:
        """Note a refusal of the call whose turn began at *start*; *retry_after* in seconds."""
        ...

    async def answered(self, endpoint: str) -> None:
        """Note an answer to a call whose turn was `held`."""
        ...

    async def failed(self, endpoint: str, error: ModelOutage | ConfigError) -> None:
        """Note that an endpoint does not answer, or refuses key or model."""
        ...


@dataclass(slots=True)
class _Pace:
    until: float = 0.0
    next: float = 0.0
    gap: float = 0.0
    limited: float = -1.0


class LocalLimiter:
    """The limiter of one process by itself; `mailbox/lua/model_*.lua` keep the same rules."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._paces: dict[str, _Pace] = {}

    async def ask(self, endpoint: str, reserved: int = 0) -> Turn:
        """Reserve a turn, or look again whether the one *reserved* (its start) still holds."""
        now = self._clock.monotonic()
        pace = self._paces.get(endpoint)
        if pace is None:
            return Turn(start=int(now * 1000))
        if reserved and reserved >= int(pace.until * 1000):
            return Turn(max(0.0, reserved / 1000 - now), reserved, held=True)
        start = max(now, pace.until, pace.next)
        if start - now <= LONGEST_TURN_SECONDS:
            pace.next = start + pace.gap
        return Turn(start - now, int(start * 1000), held=True)

    async def limited(self, endpoint: str, start: int, retry_after: float | None) -> None:
        """Note a refusal: of many calls that are refused together the first doubles the gap."""
        now = self._clock.monotonic()
        pace = self._paces.setdefault(endpoint, _Pace())
        if start > int(pace.limited * 1000):
            pace.gap = min(max(2 * pace.gap, _GAP), _LONGEST_GAP)
            pace.limited = now
        pace.until = max(pace.until, now + (pace.gap if retry_after is None else retry_after))

    async def answered(self, endpoint: str) -> None:
        """Ease the pace."""
        pace = self._paces.get(endpoint)
        if pace is None:
            return
        pace.gap = max(pace.gap * _GAP_EASES, _GAP_OVER)
        if pace.gap == _GAP_OVER and pace.until <= self._clock.monotonic():
            del self._paces[endpoint]

    async def failed(self, endpoint: str, error: ModelOutage | ConfigError) -> None:
        """Do nothing: who calls has heard of it, and there is nobody else."""
