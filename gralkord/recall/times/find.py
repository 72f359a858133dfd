"""The dates of a text: single ones, and those that "since", "between" or "to" make stretches of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple

from gralkord.recall.times import absolute, named, relative
from gralkord.recall.times.period import Period
from gralkord.recall.times.reading import Found, Reading, Rule
from gralkord.recall.times.spans import DAWN, DUSK, WEEK, Span, day_of, in_year, shifted
from gralkord.recall.times.tokens import NONE, is_ahead, may_tell, tokens_of, words_of

# More times than that are a list, not a question.
MAX_PERIODS: Final = 12
# Whoever asks before or after is taken to ask then, so that there are years on both sides.
FIRST_NOW: Final = datetime(30, 1, 1, tzinfo=UTC)
LAST_NOW: Final = datetime(9970, 1, 1, tzinfo=UTC)

_JOINS: Final = frozenset({"to", "until", "till", "through", "-"})
_RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "month": (named.feast, absolute.month_first),
    "feast": (named.feast,),
    "number": (relative.counted, absolute.day_first, absolute.bare_year),
    "ordinal": (named.nth_of, absolute.day_first),
    "count": (relative.counted,),
    "article": (relative.counted,),
    "weekday": (relative.weekday,),
    "short day": (relative.weekday,),
    "near": (relative.near,),
    "part": (relative.dated_part,),
    "unit": (relative.dated_part, relative.unit_by),
    "which": (relative.which,),
    "third": (relative.third_of,),
    "side": (relative.side_of,),
    "season": (named.season,),
    "quarter": (named.quarter,),
    "half": (named.quarter,),
    "decade": (named.decade,),
    **dict.fromkeys(
        ("iso", "iso month", "iso week", "slashes", "dots", "years"), (absolute.exact,)
    ),
}


class _Mention(NamedTuple):
    """A date, and the numbers of its first word and of the one behind its last."""

    spans: tuple[Span, ...]
    first: int
    next: int


def find_periods(text: str, now: datetime, zone: tzinfo | None = None) -> list[Period]:
    """Return the stretches of time that an English text names, in their order.

    Args:
        text: Any text. Of a very long one not all sentences are read.
        now: What "yesterday" is relative to.
        zone: Where the asker is; None is UTC, but days may begin elsewhere on Earth.
    """
    small = text.replace("\u0130", "i").lower()  # the one letter whose small form is longer
    words = words_of(small)
    if not may_tell(small, words):
        return []
    local = min(max(now, FIRST_NOW), LAST_NOW).astimezone(zone or UTC).replace(tzinfo=None)
    read = Reading(tokens_of(small), local, _RULES, is_ahead(words))
    periods: list[Period] = []
    for mention in _mentions(read):
        place = (read.at(mention.first).start, read.at(mention.next - 1).end)
        for span in mention.spans:
            start, end = (_utc(edge, zone) for edge in (span.start, span.end))
            periods.append(Period(start, end, span.every_year, place, zone is not None))
        if len(periods) >= MAX_PERIODS:
            break
    return periods


def _utc(moment: datetime, zone: tzinfo | None) -> datetime:
    if zone is None or moment <= DAWN or moment >= DUSK:
        return moment.replace(tzinfo=UTC)
    return moment.replace(tzinfo=zone).astimezone(UTC)


def _mentions(read: Reading) -> Iterator[_Mention]:
    number = 0
    while (token := read.at(number)) is not NONE and read.tries > 0:
        mention = None if token.kind == "word" else _one(read, number)
        if mention is None:
            number = max(number + 1, read.skip)
            continue
        mention = _joined(read, mention) or _bounded(read, mention)
        yield mention
        number = mention.next


def _one(read: Reading, number: int) -> _Mention | None:
    if read.kind(number) not in _RULES:
        return _days_of(read, number)
    found = _date(read, number)
    return None if found is None else _Mention(found.spans, number, found.next)


def _date(read: Reading, number: int) -> Found | None:
    found = read.date(number)
    if found is not None and found.spans[0].grain == "day":
        return relative.with_part(read, found)
    return found


def _days_of(read: Reading, number: int) -> _Mention | None:
    """Read "from 3 to 9 July 2023": the first day is a bare number."""
    if read.kind(number) != "range":
        return None
    first = read.behind_the(number + 1)
    last = read.behind_the(first + 2)
    day, join = read.at(first), read.at(first + 1).text
    if day.kind not in {"number", "ordinal"} or not (join in _JOINS or join == "and"):
        return None
    found = read.date(last) if read.kind(last) in {"number", "ordinal"} else None
    if found is None or found.spans[0].grain != "day" or read.kind(first + 1) == "month":
        return None
    end = found.spans[0]
    if not 1 <= day.value < end.start.day:
        return None
    span = Span(end.start.replace(day=day.value), end.end, "days", end.every_year)
    return _Mention((span,), number, found.next)


def _joined(read: Reading, mention: _Mention) -> _Mention | None:
    """Return the stretch from this date to the one behind "to" or, after "between", "and"."""
    if read.closed(mention.next) or len(mention.spans) > 1:
        return None
    word = read.before(mention.first)
    join = read.at(mention.next)
    if join.text not in _JOINS and not (join.text == "and" and word == "between"):
        return None
    behind = read.behind_the(mention.next + 1)
    other = _date(read, behind)
    if other is None:
        other = _day_in_month(read, mention, behind)
    if other is None or len(other.spans) > 1:
        return None
    first, last = mention.spans[0], other.spans[0]
    if read.kind(mention.first) == read.kind(behind) == "weekday" and last.start < first.start:
        first = day_of(first.start - WEEK)  # "from Monday to Friday": the same week's
    span = _join(first, last)
    if span is None:
        return None
    return _Mention((span,), _with_word(read, mention, word in {"from", "between"}), other.next)


def _day_in_month(read: Reading, mention: _Mention, behind: int) -> Found | None:
    """Read the "9, 2023" of "July 3 to 9, 2023"."""
    first, token = mention.spans[0], read.at(behind)
    if first.grain != "day" or token.kind not in {"number", "ordinal"}:
        return None
    if not first.start.day < token.value <= 31 or read.kind(mention.first) != "month":
        return None
    start = first.start.replace(day=token.value)
    year = absolute.year_behind(read, behind + 1)
    if year is not None:
        start = start.replace(year=year[0])
        return Found((day_of(start),), year[1])
    return Found((replace(day_of(start), every_year=first.every_year),), behind + 1)


def _join(first: Span, last: Span) -> Span | None:
    if first.every_year and not last.every_year:
        first = shifted(first, last.start.year - first.start.year)
        if first.start > last.start:
            first = shifted(first, -1)
    elif last.every_year and not first.every_year:
        last = shifted(last, first.start.year - last.start.year)
        if last.end <= first.start:
            last = shifted(last, 1)
    elif first.every_year and last.start < first.start:
        first = replace(shifted(first, -1), every_year=True)
    if last.end <= first.start:
        return None
    return Span(first.start, last.end, "days", first.every_year and last.every_year)


def _with_word(read: Reading, mention: _Mention, worded: bool) -> int:
    """Return the number of the first word, that before the date too if it counts."""
    if not worded:
        return mention.first
    return mention.first - 1 - (read.kind(mention.first - 1) == "the")


def _bounded(read: Reading, mention: _Mention) -> _Mention:
    """Return the date, or the open stretch that a word such as "since" makes of it."""
    word = read.before(mention.first)
    onwards = read.at(mention.next).text in {"on", "onwards", "onward"} and word == "from"
    if word not in {"since", "after", "before", "until", "till", "by"} and not onwards:
        return mention
    the = read.kind(mention.first - 1) == "the"
    if the and read.kind(mention.first) in {"month", "number"} and word != "by":
        return mention  # "after the 2023 launch" is not after 2023
    first, last = mention.spans[0], mention.spans[-1]
    if first.every_year and word in {"until", "till", "by"} and read.future:
        first = last = _coming(first, read.now)
    if word == "since" or onwards:
        span = Span(first.start, DUSK, "open")
    elif word == "after":
        span = Span(last.end, DUSK, "open")
    else:
        whole = word != "before" or read.at(mention.first).text == "end"
        span = Span(DAWN, last.end if whole else first.start, "open")
    return _Mention((span,), _with_word(read, mention, worded=True), mention.next + onwards)


def _coming(span: Span, now: datetime) -> Span:
    return span if span.end > now else Span(in_year(span.start, 1), in_year(span.end, 1), "day")
