"""A stretch of time, and how well moments fit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gralkord.recall.times.spans import in_year

# People tell of a thing some days after it; until then a time counts, less with every day.
AFTERMATH: Final = timedelta(days=7)
# A day begins and ends earlier or later elsewhere on Earth.
ZONES: Final = timedelta(hours=14)
# A period without a year is looked for in so many years at most.
MAX_YEARS: Final = 100

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time, from `start` up to but without `end`, both in UTC.

    Attributes:
        start: When it begins.
        end: When it is over.
        every_year: The year is open: the stretch of any year; `start` is of the last one begun.
        words: Where it stands in the text: the first character, and the one behind the last.
        zoned: The zone of the asker is known, so that a day begins and ends when it says.
    """

    start: datetime
    end: datetime
    every_year: bool = False
    words: tuple[int, int] = (0, 0)
    zoned: bool = False


def closeness(periods: Sequence[Period], event_ms: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return how well each moment fits the best of *periods*: 1 within, less up to a week after, 0.

    Args:
        periods: At least one.
        event_ms: Unix milliseconds.
    """
    best = np.zeros(len(event_ms), dtype=np.float32)
    if not len(event_ms):
        return best
    first, last = (_year_of(int(edge)) for edge in (event_ms.min(), event_ms.max()))
    fade = np.float32(AFTERMATH / _MS)
    for period in periods:
        for start, end in _edges(period, first, min(last, first + MAX_YEARS)):
            late = np.maximum(0, event_ms - end).astype(np.float32)
            fit = np.where(event_ms >= start, np.maximum(0, 1 - late / fade), 0)
            np.maximum(best, fit, out=best)
    return best


def _edges(period: Period, first: int, last: int) -> list[tuple[int, int]]:
    slack = 0 if period.zoned else ZONES // _MS
    shifts = [0]
    if period.every_year:
        years = range(max(first - 1, 2), min(last, 9997) + 1)
        shifts = [year - period.start.year for year in years]
    edges = []
    for shift in shifts:
        start, end = (in_year(edge, shift) for edge in (period.start, period.end))
        edges.append(((start - _EPOCH) // _MS - slack, (end - _EPOCH) // _MS + slack))
    return edges


def _year_of(ms: int) -> int:
    return (_EPOCH + timedelta(milliseconds=ms)).year
