"""Rules for dates that are reckoned from the moment of asking, or from another date."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from gralkord.recall.times.absolute import at, found, month_first
from gralkord.recall.times.named import nth_of, which_named
from gralkord.recall.times.reading import Found, Reading
from gralkord.recall.times.spans import (
    DAY,
    MONTHS_OF,
    Span,
    around,
    months_after,
    rolling,
    shifted,
    third,
    unit_at,
)
from gralkord.recall.times.words import PARTS, UNITS

# "A few" are so many, give or take.
FEW: Final = 3
# Parts that stretch over more than hours.
CALENDAR: Final = frozenset(
    {"day", "week", "weekend", "month", "quarter", "year", "decade", "century"}
)
_NOT_WEEKDAYS: Final = frozenset({"every", "each", "black", "good", "any", "all", "per", "a", "an"})
_LAST: Final = "last"


def part_of(day: Span, name: str) -> Span:
    """Return the morning, evening ... of a day."""
    first, last = (timedelta(hours=hours) for hours in PARTS[name])
    return Span(day.start + first, day.start + last, "time", day.every_year)


def with_part(read: Reading, day: Found) -> Found:
    """Return the part of the day that follows, as in "Friday night", or the day."""
    after = day.next
    after += read.at(after).text in {"in", "at"} and not read.closed(after)
    after = read.behind_the(after)
    if read.at(after).text not in PARTS or read.closed(day.next) or len(day.spans) > 1:
        return day
    return found(after + 1, part_of(day.spans[0], read.at(after).text))


def near(read: Reading, number: int) -> Found | None:
    """Read "today", "yesterday evening", "tonight", "tomorrow"."""
    token = read.at(number)
    day = unit_at(read.now, "day", token.value)
    if token.text == "tonight":
        return found(number + 1, part_of(day, "tonight"))
    return with_part(read, found(number + 1, day))


def weekday(read: Reading, number: int) -> Found | None:
    """Read "Friday", "Monday, 7 May 2023", "Sunday before 25 May", "Tuesday of last week"."""
    token = read.at(number)
    if not read.closed(number + 1):
        behind = read.behind_the(number + 1 + (read.kind(number + 1) == "comma"))
        named = read.date(behind)
        if named is not None and named.spans[0].grain == "day" and read.kind(behind) in _DATES:
            return named
        joined, behind = read.at(number + 1).text, read.behind_the(number + 2)
        if read.kind(number + 1) == "which":
            joined, behind = "of", number + 1
        whole = read.date(behind) if joined in _JOINING else None
        if whole is not None and (day := _weekday_by(token.value, joined, whole.spans[0])):
            return found(whole.next, day)
    short = token.kind == "short day" and read.before(number) not in {"on", "since", "until"}
    if short or read.at(number - 1).text in _NOT_WEEKDAYS:
        return None
    today = unit_at(read.now, "day")
    ahead = (token.value - today.start.weekday()) % 7 or 7
    back = (today.start.weekday() - token.value) % 7 or 7
    return found(number + 1, unit_at(read.now, "day", ahead if read.future else -back))


_DATES: Final = frozenset({"month", "number", "ordinal", "iso", "slashes", "dots"})
_JOINING: Final = frozenset({"before", "after", "of", "in"})


def _weekday_by(weekday_: int, joined: str, whole: Span) -> Span | None:
    if joined == "before":
        back = (whole.start.weekday() - weekday_) % 7 or 7
        return unit_at(whole.start - DAY * back, "day")
    if joined == "after":
        last = whole.end - DAY
        return unit_at(last + DAY * ((weekday_ - last.weekday()) % 7 or 7), "day")
    if whole.grain != "week" or joined == "in":
        return None
    return unit_at(whole.start + DAY * weekday_, "day")


def dated_part(read: Reading, number: int) -> Found | None:
    """Read "morning of 7 May 2023", "afternoon on Friday"."""
    if read.at(number + 1).text not in {"of", "on"} or read.at(number).text not in PARTS:
        return None
    day = read.date(read.behind_the(number + 2))
    if day is None or day.spans[0].grain != "day":
        return None
    return found(day.next, part_of(day.spans[0], read.at(number).text))


def counted(read: Reading, number: int) -> Found | None:
    """Read "two weeks ago", "3 days after 7 May", "a couple of months before Christmas"."""
    token = read.at(number)
    count, unit_at_ = token.value, number + 1
    if token.kind == "article" and read.at(number + 1).text in {"couple", "few"}:
        count, unit_at_ = read.at(number + 1).value, number + 2
    unit_at_ += read.at(unit_at_).text == "of"
    if read.kind(unit_at_) not in {"unit", "units"} or token.kind == "ordinal":
        return None
    unit, behind = UNITS[read.at(unit_at_).value], unit_at_ + 1
    relation = "" if read.closed(behind) else read.at(behind).text
    if relation in {"ago", "back"}:
        behind += read.at(behind + 1).text == "today" and not read.closed(behind + 1)
        return found(behind + 1, around(read.now, unit, -count))
    ahead = relation == "from" and read.at(behind + 1).text in {"now", "today"}
    if ahead or (read.at(number - 1).text == "in" and (relation == "time" or read.future)):
        return found(behind + 2 * ahead, around(read.now, unit, count))
    if relation in {"before", "after", "from"}:
        other = read.date(read.behind_the(behind + 1))
        if other is not None and unit not in {"minute", "hour"}:
            return found(other.next, _from(other.spans[0], unit, count, relation))
    return None


def _from(other: Span, unit: str, count: int, relation: str) -> Span:
    """Return the time that is some units before or after a date."""
    if relation == "before":
        span = around(other.start, unit, -count)
    else:
        span = around(other.end - DAY, unit, count)
    return Span(span.start, span.end, span.grain, other.every_year)


def unit_by(read: Reading, number: int) -> Found | None:
    """Read "the week before", "the day after Christmas", "the weekend of 7 May 2023"."""
    token = read.at(number)
    if read.kind(number - 1) not in {"the", "none"} and read.before(number) != "in":
        return None
    relation = "" if read.closed(number + 1) else read.at(number + 1).text
    if relation in {"before", "after"}:
        return _unit_beside(read, token.text, relation, number + 2)
    if relation == "of" and token.text in {"week", "weekend"}:
        day = read.date(read.behind_the(number + 2))
        fits = day is not None and day.spans[0].grain == "day"
        return _whole(day, token.text) if day is not None and fits else None
    if token.text == "week" and read.kind(number + 1) == "number":
        return _week_of_year(read, number + 1)
    if token.text == "weekend" and read.kind(number - 1) == "the":
        return _the_weekend(read, number)
    return None


def _whole(day: Found, unit: str) -> Found:
    span = day.spans[0]
    around_ = unit_at(span.start, unit)
    return found(day.next, Span(around_.start, around_.end, unit, span.every_year))


def _week_of_year(read: Reading, number: int) -> Found | None:
    behind = number + 1 + (read.at(number + 1).text in {"of", "in"})
    year = read.at(behind)
    if year.kind != "number" or not 1900 <= year.value <= 2200 or not read.at(number).value >= 1:
        return None
    first = unit_at(at(year.value, 1, 4), "week")
    start = first.start + DAY * 7 * (read.at(number).value - 1)
    return found(behind + 1, unit_at(start, "week")) if start.year <= year.value else None


def _the_weekend(read: Reading, number: int) -> Found | None:
    if read.before(number) not in {"on", "at", "over", "during", "since", "for"}:
        return None
    weekend = unit_at(read.now, "weekend")
    if not read.future and weekend.start > read.now:
        weekend = unit_at(read.now, "weekend", -1)
    return found(number + 1, weekend)


def _unit_beside(read: Reading, unit: str, relation: str, number: int) -> Found | None:
    other = read.date(read.behind_the(number)) if not read.closed(number) else None
    if other is not None:
        return found(other.next, _beside(other.spans[0], unit, relation))
    if unit not in {"week", "weekend", "month", "year"}:
        return None
    ends = read.closed(number) or read.kind(number) in {"comma", "mark"}
    name = "" if ends else read.at(number).text
    sign = -1 if relation == "before" else 1
    if name == (_LAST if sign < 0 else "next"):
        return found(number + 1, unit_at(read.now, unit, 2 * sign))
    return found(number, unit_at(read.now, unit, sign)) if ends else None


def _beside(other: Span, unit: str, relation: str) -> Span:
    """Return the unit that is next to a date: the week that ends with it, not the calendar's."""
    sign = -1 if relation == "before" else 1
    same = unit == other.grain or (unit in MONTHS_OF and other.grain in MONTHS_OF)
    if unit == "weekend":
        edge = other.start if sign < 0 else other.end - DAY
        inside = unit_at(edge, unit)
        step = 0 if (inside.end <= edge if sign < 0 else inside.start > edge) else sign
        inside = unit_at(edge, unit, step)
        return Span(inside.start, inside.end, unit, other.every_year)
    length = {"day": 1, "night": 1, "week": 7, "fortnight": 14}.get(unit)
    edge = other.start if sign < 0 else other.end
    if length is not None:
        start, end = sorted((edge, edge + DAY * length * sign))
    elif same:
        beside = unit_at(edge - DAY * (sign < 0), unit)
        start, end = beside.start, beside.end
    else:
        start, end = sorted((edge, months_after(edge, sign * MONTHS_OF.get(unit, 1))))
    return Span(start, end, unit if length else "days", other.every_year)


def which(read: Reading, number: int) -> Found | None:
    """Read "last week", "this Friday", "the past three months", "next year", "last night"."""
    token, named = read.at(number), read.at(number + 1)
    if read.closed(number + 1):
        return None
    if named.kind in {"count", "number", "units"} or named.text in {"couple", "few"}:
        return _rolling(read, number)
    if named.text == "half" or (token.text == _LAST and _is_part_of(read, number)):
        return nth_of(read, number)
    if named.kind in {"weekday", "short day"}:
        return with_part(read, _which_weekday(read, number))
    rules = {"part": _which_part, "unit": _which_unit}
    return rules.get(named.kind, which_named)(read, number)


def _is_part_of(read: Reading, number: int) -> bool:
    return (
        read.at(number + 1).kind in {"unit", "weekday"}
        and read.at(number + 2).text
        in {
            "of",
            "in",
        }
        and read.date(read.behind_of(number + 2)) is not None
    )


def _rolling(read: Reading, number: int) -> Found | None:
    token, behind = read.at(number), number + 1
    count = FEW if read.kind(behind) == "units" else read.at(behind).value
    behind += read.kind(behind) != "units"
    behind += read.at(behind).text == "of"
    if read.kind(behind) not in {"units", "unit"} or not token.value or not count:
        return None
    return found(behind + 1, rolling(read.now, UNITS[read.at(behind).value], -token.value * count))


def _which_weekday(read: Reading, number: int) -> Found:
    token, named = read.at(number), read.at(number + 1)
    monday = unit_at(read.now, "week").start
    day = unit_at(monday + DAY * named.value, "day")
    if token.value < 0:
        day = unit_at(day.start, "day", 0 if day.end <= read.now else -7)
    elif token.text == "next":
        day = unit_at(day.start, "day", 7)
    elif token.value > 0:  # the coming one
        day = unit_at(day.start, "day", 0 if day.start > read.now else 7)
    return found(number + 2, day)


def _which_part(read: Reading, number: int) -> Found | None:
    token, named = read.at(number), read.at(number + 1)
    if named.text in {"night", "evening"} or token.value == 0:
        day = unit_at(read.now, "day", token.value)
        return found(number + 2, part_of(day, named.text))
    return None


def _which_unit(read: Reading, number: int) -> Found | None:
    token, unit = read.at(number), read.at(number + 1).text
    if unit == "night":
        return _which_part(read, number)
    if unit not in CALENDAR | {"hour"} or (unit == "day" and token.value):
        return None
    if unit == "hour":
        return found(number + 2, rolling(read.now, unit, 1)) if token.value < 0 else None
    until_now = token.text == "past" or read.kind(number - 1) == "the"
    if token.value < 0 and unit in {"week", "month", "year", "decade"}:
        before = read.at(number + 2).text == "before" and read.at(number + 3).text == _LAST
        if (until_now and not before) or unit == "decade":
            return found(number + 2, rolling(read.now, unit, 1))
    offset = token.value
    if unit == "weekend" and offset < 0 and unit_at(read.now, unit).end <= read.now:
        offset = 0
    return _day_of_unit(read, found(number + 2, unit_at(read.now, unit, offset)))


def _day_of_unit(read: Reading, whole: Found) -> Found:
    """Return the "Tuesday" of "last week Tuesday", the "Christmas" of "this year's Christmas"."""
    span, behind = whole.spans[0], whole.next
    if read.closed(behind):
        return whole
    if span.grain == "week" and read.kind(behind) == "weekday":
        return found(behind + 1, unit_at(span.start + DAY * read.at(behind).value, "day"))
    inner = read.date(behind) if read.at(behind - 1).owns and span.grain == "year" else None
    if inner is None or not inner.spans[0].every_year:
        return whole
    return found(inner.next, shifted(inner.spans[0], span.start.year - inner.spans[0].start.year))


def third_of(read: Reading, number: int) -> Found | None:
    """Read "early May", "mid-2023", "the end of last month", "late 1990s"."""
    behind = number + 1 + (read.kind(number + 1) == "dash")
    if read.closed(number + 1):
        return None
    of = read.at(behind).text in {"of", "in"}
    behind = read.behind_of(behind)
    inner = read.at(behind)
    if of and inner.kind == "unit" and inner.text in CALENDAR and read.kind(behind - 1) == "the":
        whole = found(behind + 1, unit_at(read.now, inner.text))
    else:
        whole_ = month_first(read, behind) if inner.kind == "month" else read.date(behind)
        if whole_ is None:
            return None
        whole = whole_
    part = third(whole.spans[0], read.at(number).value)
    return None if part is None else found(whole.next, part)


def side_of(read: Reading, number: int) -> Found | None:
    """Read "earlier this year", "later today": up to now, or from now on."""
    whole = read.date(number + 1)
    if whole is None or not whole.spans[0].start <= read.now < whole.spans[0].end:
        return None
    span = whole.spans[0]
    edges = (read.now, span.end) if read.at(number).value else (span.start, read.now)
    return found(whole.next, Span(*edges, "part"))
