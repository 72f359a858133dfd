"""Stretches of local time and how to reckon with them."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

# A month has so many days at least.
SHORTEST: Final = 28
DAY: Final = timedelta(days=1)
WEEK: Final = timedelta(days=7)
# Where open stretches begin and end; nearer to the edge a zone or a week could not be added.
DAWN: Final = datetime(1, 1, 30)  # noqa: DTZ001 - local time
DUSK: Final = datetime(9999, 12, 1)  # noqa: DTZ001 - local time

# Units by their number in the vocabulary.
HOURLY: Final = ("minute", "hour")
MONTHS_OF: Final = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}
DAYS_OF: Final = {"day": 1, "night": 1, "week": 7, "weekend": 7, "fortnight": 14}


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of local time, from `start` up to but without `end`.

    Attributes:
        start: When it begins.
        end: When it is over.
        grain: What it is one of, such as ``day`` or ``month``.
        every_year: No year is named.
    """

    start: datetime
    end: datetime
    grain: str
    every_year: bool = False


def months_after(moment: datetime, months: int) -> datetime:
    """Return *moment* so many months later, on the month's last day if it has no such day.

    Raises:
        ValueError: There is no such year.
    """
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    day = moment.day
    if day > SHORTEST and 0 < year < 10_000:
        day = min(day, monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def in_year(moment: datetime, shift: int) -> datetime:
    """Return *moment* so many years later, see `months_after`."""
    return months_after(moment, 12 * shift) if shift else moment


def shifted(span: Span, years: int) -> Span:
    """Return *span* so many years later, as one of a certain year."""
    start, end = (in_year(edge, years) for edge in (span.start, span.end))
    return Span(start, end, span.grain)


def day_of(start: datetime, days: int = 1) -> Span:
    """Return the stretch of so many days from *start*."""
    return Span(start, start + DAY * days, "day" if days == 1 else "days")


def of_months(start: datetime, months: int, grain: str) -> Span:
    """Return the stretch of so many months from *start*."""
    return Span(start, months_after(start, months), grain)


def unit_at(moment: datetime, unit: str, offset: int = 0) -> Span:
    """Return the calendar's day, week, weekend, month ... that *moment* is in, or one near it.

    Args:
        moment: Any local time.
        unit: What is asked for; weeks begin on Monday.
        offset: How many units later.

    Raises:
        ValueError: There is no such year.
        OverflowError: Likewise.
    """
    today = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit in MONTHS_OF:
        length = MONTHS_OF[unit]
        number = (today.year * 12 + today.month - 1) // length + offset
        year, month = divmod(number * length, 12)
        return of_months(today.replace(year=year, month=month + 1, day=1), length, unit)
    if unit in {"day", "night"}:
        return day_of(today + DAY * offset)
    monday = today - DAY * today.weekday() + WEEK * offset
    if unit == "weekend":
        return Span(monday + DAY * 5, monday + WEEK, "weekend")
    return Span(monday, monday + DAY * DAYS_OF[unit], unit)


def around(moment: datetime, unit: str, count: int) -> Span:
    """Return the stretch about the time that is *count* units from *moment*, a unit wide.

    "Two weeks ago" is seldom meant to the day, "three days ago" is.

    Args:
        moment: From when on; only hours need more than the day.
        unit: What is counted.
        count: How many, negative for the past.

    Raises:
        ValueError: There is no such year.
        OverflowError: Likewise.
    """
    if unit in HOURLY:
        slack = timedelta(minutes=30 if unit == "hour" else 5)
        middle = moment + timedelta(minutes=count * (60 if unit == "hour" else 1))
        return Span(middle - slack, middle + slack, "time")
    today = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit in DAYS_OF:
        middle, days = today + DAY * count * DAYS_OF[unit], DAYS_OF[unit] // 2
        days = int(abs(count) > 3) if DAYS_OF[unit] == 1 else days
    else:
        middle = months_after(today, count * MONTHS_OF[unit])
        days = {"month": 15, "quarter": 45, "year": 183, "decade": 1826, "century": 18262}[unit]
    return Span(middle - DAY * days, middle + DAY * (days + 1), "day" if not days else "days")


def rolling(now: datetime, unit: str, count: int) -> Span:
    """Return the last *count* units up to the end of today; the next ones if it is negative."""
    today = unit_at(now, "day")
    if unit in HOURLY:
        length = timedelta(minutes=count * (60 if unit == "hour" else 1))
        return Span(min(now, now - length), max(now, now - length), "time")
    if unit in DAYS_OF:
        edge = today.start - DAY * count * DAYS_OF[unit]
    else:
        edge = months_after(today.start, -count * MONTHS_OF[unit])
    start, end = (edge, today.end) if count > 0 else (today.start, edge + DAY)
    return Span(start, end, "days")


def third(span: Span, which: int) -> Span | None:
    """Return the first, second or last third (0, 1, 2) of a stretch; None if it is too short."""
    if span.grain == "month":
        edges = [span.start, span.start + DAY * 10, span.start + DAY * 20, span.end]
    elif span.grain in {"year", "decade", "century", "quarter", "season", "half"}:
        length = (span.end.year - span.start.year) * 12 + span.end.month - span.start.month
        edges = [months_after(span.start, length * part // 3) for part in range(4)]
    elif span.grain == "week":
        edges = [span.start, span.start + DAY * 2, span.start + DAY * 4, span.end]
    else:
        return None
    return Span(edges[which], edges[which + 1], "part", span.every_year)


def nearest(span: Span, now: datetime, which: int) -> Span:
    """Return the one of every year's stretches that "last", "this" or "next" means (-1, 0, 1)."""
    if which == 0:
        return shifted(span, now.year - span.start.year)
    fits: Callable[[Span], bool] = (
        (lambda one: one.end <= now) if which < 0 else lambda one: one.start > now
    )
    return next(
        one
        for shift in range(2, -4, -1)[::-which]
        if fits(one := shifted(span, now.year - span.start.year + shift))
    )


def latest(span: Span, now: datetime) -> Span:
    """Return *span* in the latest year in which it has begun, still as one of every year."""
    shift = now.year - span.start.year
    one = shifted(span, shift)
    if one.start > now:
        one = shifted(span, shift - 1)
    return replace(one, every_year=span.every_year)
