"""How much of a request's time is left."""

from __future__ import annotations

from dataclasses import dataclass

from gralkord.clock import Clock


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a request, by the clock on the wall.

    Attributes:
        clock: What tells the time.
        started: When the request came, monotonic seconds.
        seconds: How long it may take.
    """

    clock: Clock
    started: float
    seconds: float

    @classmethod
    def after(cls, clock: Clock, milliseconds: float) -> Deadline:
        """Return the deadline *milliseconds* from now."""
        return cls(clock, clock.monotonic(), milliseconds / 1000)

    @property
    def spent(self) -> float:
        """Seconds since the request came."""
        return self.clock.monotonic() - self.started

    def left(self, reserve: float = 0.0) -> float:
        """Return the seconds that are left, never less than 0.

        Args:
            reserve: Share of the whole, 0 to 1, that is kept for what comes after.
        """
        return max(0.0, self.seconds * (1 - reserve) - self.spent)
