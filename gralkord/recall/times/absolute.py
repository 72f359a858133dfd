"""Rules for dates of the calendar: days, months, years, quarters, seasons, decades, feasts."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, datetime, timedelta
from typing import Final

from gralkord.recall.times.context import (
    AFTER_PEOPLE,
    AMBIGUOUS,
    BEFORE_PEOPLE,
    NUMBERED,
    PEOPLE,
    PREPOSITIONS,
    STREETS,
    WITHIN,
)
from gralkord.recall.times.reading import Found, Reading
from gralkord.recall.times.spans import (
    WEEK,
    Span,
    day_of,
    in_year,
    latest,
    months_after,
    nearest,
    of_months,
    shifted,
    unit_at,
)

# Years without a preposition are of these; further ahead it is a number.
FIRST_BARE: Final = 1900
YEARS_AHEAD: Final = 20
FIRST_YEAR: Final = 1000
LAST_YEAR: Final = 2999


def at(year: int, month: int = 1, day: int = 1) -> datetime:
    """Return the beginning of a day.

    Raises:
        ValueError: There is no such day.
    """
    return datetime(year, month, day)  # noqa: DTZ001 - local time


def found(next_: int, *spans: Span) -> Found:
    """Return what was read up to a word."""
    return Found(spans, next_)


def year_at(read: Reading, number: int) -> tuple[int, int] | None:
    """Return the year that qualifies what stands before, and the number of the word behind it."""
    token = read.at(number)
    if token.kind not in _YEARLY or read.closed(number):
        return None
    if token.kind == "short year":
        return token.value, number + 1
    if token.kind == "number" and FIRST_YEAR <= token.value <= LAST_YEAR:
        return None if read.counts(number + 1) else (token.value, number + 1)
    return _year_from_now(read, number)


_YEARLY: Final = frozenset({"short year", "number", "count", "article", "which", "unit"})


def _year_from_now(read: Reading, number: int) -> tuple[int, int] | None:
    token = read.at(number)
    following = [read.at(number + step).text for step in range(3)]
    if token.kind == "which" and following[1] == "year" and token.text != "past":
        return read.now.year + token.value, number + 2
    if following == ["year", "before", "last"]:
        return read.now.year - 2, number + 3
    ago = following[1] in {"year", "years"} and following[2] == "ago" and token.value < FIRST_YEAR
    return (read.now.year - token.value, number + 3) if ago else None


def year_behind(read: Reading, number: int, *, loose: bool = True) -> tuple[int, int] | None:
    """Return the year behind what was read, with "of", "in" or a comma between if *loose*."""
    if read.closed(number):
        return None
    token = read.at(number)
    if loose and (token.text in {"of", "in"} or token.kind == "comma"):
        behind = read.behind_the(number + 1)
        return None if token.closes else year_at(read, behind)
    dashed = token.kind == "dash" and read.kind(number + 1) == "number"
    the_year = token.kind == "the" and read.at(number + 1).text == "year"
    return year_at(read, number + (dashed or the_year))


def dated(read: Reading, span: Span, number: int, *, loose: bool = True) -> Found:
    """Return *span* in the year that follows; without one it is of every year."""
    year = year_behind(read, number, loose=loose)
    if (read.at(number).text, read.at(number + 1).text) == ("before", "last"):
        return found(number + 2, shifted(nearest(span, read.now, -1), -1))
    if year is None:
        return found(number, latest(span, read.now))
    shift = year[0] - span.start.year
    start = in_year(span.start, shift)
    end = start + (span.end - span.start) if span.grain == "day" else in_year(span.end, shift)
    return found(year[1], Span(start, end, span.grain))


def _day_in_month(read: Reading, month: int, day: int, number: int) -> Found:
    """Return the day of a month in the year that follows, or of every year; none if it has not."""
    year = year_behind(read, number)
    if day > monthrange(year[0] if year else 2000, month)[1]:
        return Found((), year[1] if year else number)
    if year is not None:
        return found(year[1], day_of(at(year[0], month, day)))
    start = at(2000, month, day)  # a leap year
    span = Span(start, start + timedelta(days=1), "day", every_year=True)
    if (month, day) == (2, 29):
        span = Span(at(2000, 2, 28), at(2000, 3, 1), "days", every_year=True)
    return found(number, latest(span, read.now))


def _day_range(read: Reading, month: int, days: tuple[int, int], number: int) -> Found | None:
    first, last = (_day_in_month(read, month, day, number) for day in days)
    if not first.spans or not last.spans or days[0] >= days[1]:
        return None
    one, other = first.spans[0], last.spans[0]
    if other.start < one.start:  # the first of them has begun in this year, the last has not
        one = Span(in_year(one.start, -1), one.end, "days", one.every_year)
    return found(last.next, Span(one.start, other.end, "days", one.every_year))


def _is_day(read: Reading, number: int) -> bool:
    token = read.at(number)
    return token.kind in {"number", "ordinal"} and 1 <= token.value <= 31


def month_first(read: Reading, number: int) -> Found | None:
    """Read "May 7, 2023", "May 3-9", "May of last year", "December"."""
    month = read.at(number)
    behind = read.behind_the(number + 1)
    if not read.closed(number + 1) and _is_day(read, behind) and not month.owns:
        joined = read.kind(behind + 1) == "dash" or read.at(behind + 1).text in {"and", "or"}
        if joined and _is_day(read, behind + 2) and not read.counts(behind + 3):
            days = (read.at(behind).value, read.at(behind + 2).value)
            return _day_range(read, month.value, days, behind + 3)
        if not _is_verb(read, number, behind + 1) and not read.counts(behind + 1):
            return _day_in_month(read, month.value, read.at(behind).value, behind + 1)
    if year_behind(read, number + 1) is None and not _is_month(read, number):
        return None
    start = at(2000, month.value)
    span = Span(start, months_after(start, 1), "month", every_year=True)
    return dated(read, span, number + 1)


def _is_verb(read: Reading, number: int, behind: int) -> bool:
    """Return whether "may 5" means that five of something may: it is small and goes on."""
    month = read.at(number)
    if month.text not in AMBIGUOUS or read.before(number) in PREPOSITIONS:
        return False
    if read.closed(behind) or year_behind(read, behind):
        return False
    return read.kind(behind) == "word" and read.at(behind).text not in PREPOSITIONS


def _is_month(read: Reading, number: int) -> bool:
    """Return whether a month that stands alone is one, not a verb or a person."""
    month = read.at(number)
    before, after = read.before(number), read.at(number + 1)
    if after.kind == "dash" or read.kind(number - 1) in {"dash", "third"}:
        return True
    if before in {"and", "to", "or"} and read.kind(number - 2) == "month":
        return True
    if month.text in PEOPLE:
        goes_on = not read.closed(number + 1) and after.text in AFTER_PEOPLE
        if (goes_on and before not in {"in", "during"}) or before in BEFORE_PEOPLE or month.owns:
            return False
        if after.text == "and" and before not in PREPOSITIONS:
            return read.kind(number + 2) == "month"
    return month.text not in AMBIGUOUS or before in PREPOSITIONS - {"on", "at", "for"}


def day_first(read: Reading, number: int) -> Found | None:
    """Read "7 May 2023", "the 7th of last month", "3-9 July", "the 5th"."""
    if not _is_day(read, number) or read.closed(number + 1):
        return _alone(read, number)
    first = last = read.at(number)
    behind = number + 1
    if read.kind(behind) == "dash" and _is_day(read, behind + 1):
        last, behind = read.at(behind + 1), behind + 2
    behind += read.kind(behind) == "dash"
    of = read.at(behind).text == "of"
    month_at = read.behind_the(behind + of)
    month = read.at(month_at)
    if of and month.kind == "which" and read.at(month_at + 1).text == "month":
        start = months_after(read.now.replace(day=1), month.value)
        return found(month_at + 2, day_of(at(start.year, start.month, first.value)))
    spelled = first.kind == "ordinal" and first.text.isalpha()
    if month.kind != "month" or (spelled and not of) or _is_modal(read, number, month_at):
        return _alone(read, number)
    behind = month_at + 1 + (read.kind(month_at + 1) == "dash")
    if last is not first:
        return _day_range(read, month.value, (first.value, last.value), behind)
    return _day_in_month(read, month.value, first.value, behind)


def _is_modal(read: Reading, number: int, month_at: int) -> bool:
    """Return whether "line 5 may fail" is what is said."""
    if read.at(month_at).text not in {"may", "march"} or read.kind(number) == "ordinal":
        return False
    return (
        month_at == number + 1
        and _is_verb(read, month_at, month_at + 1)
        and (read.before(number) not in PREPOSITIONS)
    )


def _alone(read: Reading, number: int) -> Found | None:
    """Read "on the 5th": the latest one."""
    token = read.at(number)
    ends = read.closed(number + 1) or read.kind(number + 1) in {"comma", "mark"}
    preceded = read.kind(number - 1) == "the" and read.before(number) in {"on", "since", "until"}
    if token.kind != "ordinal" or not (preceded and ends) or token.text.isalpha():
        return None
    for back in range(3):
        month = unit_at(read.now, "month", -back)
        day = month.start + timedelta(days=token.value - 1)
        if day < month.end and day <= read.now:
            return found(number + 1, day_of(day))
    return None


def bare_year(read: Reading, number: int) -> Found | None:
    """Read "2023", "2023 May 7", "2023 Q3"."""
    token = read.at(number)
    if not FIRST_YEAR <= token.value <= LAST_YEAR or len(token.text) != 4:
        return None
    behind = number + 1 + (read.kind(number + 1) == "dash")
    following = read.at(behind)
    if following.kind == "month" and not read.closed(number + 1):
        start = at(token.value, following.value)
        if _is_day(read, behind + 1) and not read.counts(behind + 2):
            return found(behind + 2, day_of(start.replace(day=read.at(behind + 1).value)))
        return found(behind + 1, of_months(start, 1, "month"))
    if following.kind == "quarter" and not read.closed(number + 1):
        start = at(token.value, 3 * following.value - 2)
        return found(behind + 1, of_months(start, 3, "quarter"))
    return (
        found(number + 1, of_months(at(token.value), 12, "year"))
        if _is_year(read, number)
        else None
    )


def _is_year(read: Reading, number: int) -> bool:
    value, before = read.at(number).value, read.before(number)
    near = FIRST_BARE <= value <= read.now.year + YEARS_AHEAD
    if not near and before not in WITHIN | {"before", "after", "by", "of"}:
        return False
    if before in NUMBERED or read.counts(number + 1) or read.kind(number + 1) == "dash":
        return False
    if read.kind(number - 1) in {"number", "figures"} and not read.at(number - 1).closes:
        return False
    if read.kind(number - 1) == "dash" and read.kind(number - 2) not in {"month", "third"}:
        return False
    street = {read.at(number + step).text for step in (1, 2, 3)} & STREETS
    return not street and not _is_amount(read, number)


def _is_amount(read: Reading, number: int) -> bool:
    """Return whether it is the lower end of a range of other numbers: "2000 to 2500 rows"."""
    other = read.at(number + 2)
    if read.at(number + 1).text not in {"to", "and", "or"} or other.kind != "number":
        return False
    return not FIRST_YEAR <= other.value <= LAST_YEAR or read.counts(number + 3)


def exact(read: Reading, number: int) -> Found | None:
    """Read "2023-05-07", "2023-05", "2023-W19", "7.5.2023", "12/25/2023", "2022/23"."""
    token = read.at(number)
    if token.kind in {"dots", "slashes"}:
        if read.before(number) in NUMBERED:
            return None
        return _day_in_figures(number, token.numbers, either=token.kind == "slashes")
    first, second, *rest = token.numbers
    if token.kind == "iso":
        span = day_of(at(first, second, rest[0]))
    elif token.kind == "iso month":
        span = of_months(at(first, second), 1, "month")
    elif token.kind == "iso week":
        monday = date.fromisocalendar(first, second, 1)
        start = at(monday.year, monday.month, monday.day)
        span = Span(start, start + WEEK, "week")
    else:
        span = Span(at(first), at(second + 1), "years")
    return found(number + 1, span)


def _day_in_figures(number: int, figures: tuple[int, ...], *, either: bool) -> Found | None:
    """Return the day, or both that it may be: half of the world puts the month first."""
    day, month, year = figures
    pairs = {(month, day), (day, month)} if either else {(month, day)}
    days = [at(year, *pair) for pair in sorted(pairs) if 1 <= pair[0] <= 12]
    return found(number + 1, *map(day_of, days)) if days else None
