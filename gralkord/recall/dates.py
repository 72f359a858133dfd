"""Which stretch of time a question names: "in May 2023", "since last week", "two months ago"."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

# People tell of a thing some days after it; until then a time counts, less with every day.
AFTERMATH: Final = timedelta(days=7)
# A day begins and ends earlier or later elsewhere on Earth.
ZONES: Final = timedelta(hours=14)
# A period without a year is looked for in so many years at most.
MAX_YEARS: Final = 100

_DAY: Final = timedelta(days=1)
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_SHORT: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sept?", "oct", "nov", "dec"),
)
_WEEKDAYS: Final = (
    *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
)
_NUMBERS: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)

_MONTH = r"(?P<month>" + "|".join(_MONTHS) + "|" + "|".join(_SHORT) + r")\b\.?"
_YEAR = r"(?P<year>(?:19|20)\d\d)(?![\d-])"
_NTH = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?(?![\d:.%])"
_COUNT = r"(?P<count>\d{1,4}|an?|" + "|".join(_NUMBERS[1:]) + r"|a\s+couple\s+of|a\s+few)"
_DATE = re.compile(
    "|".join(
        part.replace("(?P<", f"(?P<{name}_")
        for name, part in {
            "iso": r"(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?(?!\d)",
            "dmy": rf"{_NTH}(?:\s+of)?\s+{_MONTH}(?:,?\s+{_YEAR})?",
            "mdy": rf"{_MONTH}\s+{_NTH}(?:,?\s+{_YEAR})?",
            "my": rf"{_MONTH},?(?:\s+of)?\s+{_YEAR}",
            "m": _MONTH,
            "y": rf"(?<![\d.-]){_YEAR}",
            "ago": rf"{_COUNT}\s+(?P<unit>day|week|month|year)s?\s+ago",
            "last": r"(?P<which>last|past|previous|this)\s+(?P<unit>week(?:end)?|month|year|night|"
            + "|".join(_WEEKDAYS)
            + ")",
            "near": r"(?P<day>day\s+before\s+yesterday|yesterday|today|tonight)",
        }.items()
    ).join((r"\b(?:", r")\b")),
    re.IGNORECASE,
)
_JOINED = re.compile(r"\s*(?:and|to|until|till|through|-|\u2013)\s*(?:the\s+)?", re.IGNORECASE)
_BEFORE_DATE = re.compile(
    r"\b(?P<word>since|after|before|until|till|by|between|from|in|of|on|during|last|this|next|every|"
    r"early|late|mid|around|about|for)[\s-]+(?:the\s+)?$",
    re.IGNORECASE,
)
# Months that are also other words: alone they count only after one of the words above.
_AMBIGUOUS: Final = frozenset({"may", "march", "mar", "sept", "sep", "jan", "dec"})


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time, from `start` up to but without `end`.

    Attributes:
        every_year: The year is open: the stretch of any year.
    """

    start: date
    end: date
    every_year: bool = False


def find_periods(question: str, now: datetime) -> list[Period]:
    """Return the stretches of time that an English question names.

    Args:
        question: Any text.
        now: What "yesterday" is relative to.
    """
    found: list[tuple[re.Match[str], Period]] = []
    for match in _DATE.finditer(question):
        period = _read(question, match, now.astimezone(UTC).date())
        if period is not None:
            found.append((match, period))
    periods: list[Period] = []
    skip = False
    for number, (match, period) in enumerate(found):
        if skip:
            skip = False
            continue
        word = _word_before(question, match)
        if number + 1 < len(found) and word in {"between", "from"}:
            after, last = found[number + 1]
            if _JOINED.fullmatch(question, match.end(), after.start()):
                periods.append(_join(period, last))
                skip = True
                continue
        periods.append(_bounded(word, period, now.astimezone(UTC).date()))
    return periods


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
    fade = AFTERMATH / timedelta(milliseconds=1)
    for period in periods:
        for start, end in _edges(period, first, min(last, first + MAX_YEARS)):
            late = np.maximum(0, event_ms - end).astype(np.float32)
            fit = np.where(event_ms >= start, np.maximum(0, 1 - late / np.float32(fade)), 0)
            np.maximum(best, fit, out=best)
    return best


def _edges(period: Period, first: int, last: int) -> list[tuple[int, int]]:
    if not period.every_year:
        return [(_ms(period.start) - _ms_of(ZONES), _ms(period.end) + _ms_of(ZONES))]
    edges = []
    for year in range(first - 1, last + 1):
        shift = year - period.start.year
        once = Period(_in_year(period.start, shift), _in_year(period.end, shift))
        edges += _edges(once, first, last)
    return edges


def _read(question: str, match: re.Match[str], today: date) -> Period | None:
    name = (match.lastgroup or "").split("_")[0]
    fields = {
        key.removeprefix(f"{name}_"): value
        for key, value in match.groupdict().items()
        if value is not None and key.startswith(f"{name}_")
    }
    try:
        if name in {"ago", "last", "near"}:
            return _RELATIVE[name](fields, today)
        alone = name == "m" and not _word_before(question, match)
        if alone and fields["month"].lower() in _AMBIGUOUS:
            return None
        return _absolute(fields, today)
    except (ValueError, OverflowError):  # the 31st of June, a million years ago
        return None


def _absolute(fields: dict[str, str], today: date) -> Period:
    open_year = "year" not in fields
    year = int(fields.get("year", today.year))
    if "month" not in fields:
        return Period(date(year, 1, 1), date(year + 1, 1, 1))
    month = _month(fields["month"])
    if "day" not in fields:
        start = date(year, month, 1)
        return Period(start, _months_after(start, 1), open_year)
    day = int(fields["day"])
    if open_year and (month, day) == (2, 29):
        return Period(date(year, 2, 28), date(year, 3, 1), open_year)
    start = date(year, month, day)
    return Period(start, start + _DAY, open_year)


def _ago(fields: dict[str, str], today: date) -> Period:
    word = re.sub(r"\s+", " ", fields["count"].lower())
    counts = {"a": 1, "an": 1, "a couple of": 2, "a few": 3}
    counts |= {number: value for value, number in enumerate(_NUMBERS)}
    count = counts[word] if word in counts else int(word)
    unit = fields["unit"].lower()
    if unit in {"day", "week"}:
        middle = today - _DAY * count * (7 if unit == "week" else 1)
        slack = _DAY * (3 if unit == "week" else int(count > 3))
    else:
        middle = _months_after(today, -count * (12 if unit == "year" else 1))
        slack = _DAY * (183 if unit == "year" else 15)
    return Period(middle - slack, middle + slack + _DAY)


def _last(fields: dict[str, str], today: date) -> Period:
    which, unit = fields["which"].lower(), fields["unit"].lower()
    monday = today - _DAY * today.weekday()
    month, year = today.replace(day=1), date(today.year, 1, 1)
    if unit in _WEEKDAYS:
        back = (today.weekday() - _WEEKDAYS.index(unit)) % 7
        day = today - _DAY * (back or 7 * (which != "this"))
        return Period(day, day + _DAY)
    if unit == "night":
        return Period(today - _DAY, today + _DAY)
    if unit == "weekend":
        saturday = monday + _DAY * 5
        saturday -= _DAY * 7 * (today < saturday or which != "this")
        return Period(saturday, saturday + _DAY * 2)
    if which == "past":
        return Period(today - _DAY * {"week": 7, "month": 31, "year": 366}[unit], today + _DAY)
    if which == "this":
        return Period({"week": monday, "month": month, "year": year}[unit], today + _DAY)
    earlier = {
        "week": (monday - _DAY * 7, monday),
        "month": (_months_after(month, -1), month),
        "year": (date(year.year - 1, 1, 1), year),
    }
    return Period(*earlier[unit])


def _near(fields: dict[str, str], today: date) -> Period:
    word = fields["day"].lower()
    days = 0 if word in {"today", "tonight"} else 1 if word == "yesterday" else 2
    return Period(today - _DAY * days, today - _DAY * (days - 1))


_RELATIVE: Final[dict[str, Callable[[dict[str, str], date], Period]]] = {
    "ago": _ago,
    "last": _last,
    "near": _near,
}


def _word_before(question: str, match: re.Match[str]) -> str:
    found = _BEFORE_DATE.search(question, 0, match.start())
    return found["word"].lower() if found else ""


def _bounded(word: str, period: Period, today: date) -> Period:
    """Return *period*, or the open stretch that a word such as "since" makes of it."""
    if word not in {"since", "after", "before", "until", "till", "by"}:
        return period
    if period.every_year:  # the last one that has begun
        shift = -int(period.start > today)
        start, end = (_in_year(edge, shift) for edge in (period.start, period.end))
        period = Period(start, end)
    if word in {"since", "after"}:
        return Period(period.start if word == "since" else period.end, date.max - _DAY * 30)
    return Period(date(1, 1, 30), period.start if word == "before" else period.end)


def _join(first: Period, last: Period) -> Period:
    if first.every_year and not last.every_year:
        start = _in_year(first.start, last.start.year - first.start.year)
        first = Period(start if start <= last.start else _in_year(start, -1), first.end)
    elif last.every_year and not first.every_year:
        end = _in_year(last.end, first.start.year - last.start.year)
        last = Period(last.start, end if end > first.start else _in_year(end, 1))
    every_year = first.every_year and last.every_year
    if last.end <= first.start:
        last = replace(last, end=_in_year(last.end, 1) if every_year else first.end)
    return Period(first.start, last.end, every_year)


def _month(text: str) -> int:
    if text.isdigit():
        return int(text)
    return [month[:3] for month in _MONTHS].index(text.lower()[:3]) + 1


def _months_after(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _in_year(day: date, shift: int) -> date:
    return _months_after(day, 12 * shift)


def _year_of(ms: int) -> int:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).year


def _ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _ms_of(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
