"""Time as an argument: what needs the time is given a clock, so that tests can hold it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """Return the wall-clock time, zone UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go backwards, for deadlines."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the wall-clock time, zone UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""
        return time.monotonic()


def to_iso(moment: datetime) -> str:
    """Return *moment* in UTC as ``2024-05-01T09:30:00Z``, milliseconds only where there are any."""
    moment = moment.astimezone(UTC)
    spec = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=spec).replace("+00:00", "Z")
