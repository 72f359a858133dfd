"""Rules for times with a name: quarters, seasons, decades, feasts, and parts of longer ones."""

from __future__ import annotations

from datetime import timedelta

from gralkord.recall.times.absolute import at, dated, found, month_first
from gralkord.recall.times.context import OWNERS, WITHIN
from gralkord.recall.times.reading import Found, Reading
from gralkord.recall.times.spans import Span, day_of, in_year, months_after, nearest, of_months
from gralkord.recall.times.tokens import Token
from gralkord.recall.times.words import FEASTS, LENGTHS, SEASONS, UNITS


def quarter(read: Reading, number: int) -> Found | None:
    """Read "Q3 2023", "Q3", "H1 of last year"."""
    token = read.at(number)
    length = 6 if token.kind == "half" else 3
    start = at(2000, length * (token.value - 1) + 1)
    span = Span(start, months_after(start, length), token.kind, every_year=True)
    read_ = dated(read, span, number + 1)
    return None if token.kind == "half" and read_.next == number + 1 else read_


def season(read: Reading, number: int) -> Found | None:
    """Read "summer 2023", "winter of 2022/23", "in the fall"."""
    token = read.at(number)
    span = season_span(token.value)
    doubtful = token.text in {"fall", "spring"}
    behind = read.behind_of(number + 1) if not doubtful else number + 1
    behind += doubtful and read.at(behind).text == "of"
    if read.kind(behind) == "years":
        return found(behind + 1, _season_of(span, read.at(behind).numbers[0]))
    loose = not doubtful or read.at(number + 1).text == "of" or read.kind(number - 1) == "the"
    dated_ = dated(read, span, number + 1, loose=loose)
    if dated_.next > number + 1:
        return dated_
    before = read.before(number)
    if before == "for":  # what is planned for a summer was told before it
        return None
    follows = "" if read.closed(number + 1) else read.at(number + 1).text
    alone = before in WITHIN or (not doubtful and read.kind(number - 1) == "the")
    alone = alone or before in {"over", "early", "mid", "late", "by", "before", "after", "of"}
    return dated_ if alone and follows != "of" else None


def season_span(month: int) -> Span:
    """Return the season of every year that begins with a month."""
    return Span(at(2000, month), months_after(at(2000, month), 3), "season", every_year=True)


def _season_of(span: Span, year: int) -> Span:
    shift = year - span.start.year
    return Span(in_year(span.start, shift), in_year(span.end, shift), "season")


def decade(read: Reading, number: int) -> Found | None:
    """Read "the 1990s", "the nineties", "the '80s"."""
    token = read.at(number)
    before = read.at(number - 1)
    short = not token.text[:4].isdigit()
    marked = before.kind in {"the", "third", "dash"} or token.text[0] in "'\u2019"
    if short and (before.text in OWNERS or not marked):
        return None
    if token.value % 10 or (before.kind == "third" and read.at(number - 2).text in OWNERS):
        return None
    return found(number + 1, of_months(at(token.value), 120, "decade"))


def feast(read: Reading, number: int) -> Found | None:
    """Read "Christmas Eve 2023", "Halloween", "last New Year's Day"."""
    which = read.at(number) if read.kind(number) == "which" else None
    begin = number + (which is not None)
    words = tuple(_possessive(read.at(begin + step)) for step in range(3))
    for length in LENGTHS.get(words[0], ()):
        if words[:length] not in FEASTS:
            continue
        month, day = FEASTS[words[:length]]
        start = at(2000, month, day)
        span = Span(start, start + timedelta(days=1), "day", every_year=True)
        if which is not None:
            return found(begin + length, nearest(span, read.now, which.value))
        if words[:length] == ("new", "year"):  # "a new year", "new year resolutions"
            return None
        return dated(read, span, begin + length)
    return None


def _possessive(token: Token) -> str:
    return token.text + "s" * (token.owns and token.kind != "word")


def which_named(read: Reading, number: int) -> Found | None:
    """Read "last March", "this summer", "next Christmas", "last 7 May"."""
    token, named = read.at(number), read.at(number + 1)
    if named.kind == "season":
        span = season_span(SEASONS[named.text])
    elif named.kind == "month":
        inner = month_first(read, number + 1)
        if inner is not None and inner.spans[0].every_year:
            return found(inner.next, nearest(inner.spans[0], read.now, token.value))
        span = Span(at(2000, named.value), months_after(at(2000, named.value), 1), "month")
    else:
        return feast(read, number)
    return found(number + 2, nearest(span, read.now, token.value))


def nth_of(read: Reading, number: int) -> Found | None:
    """Read "the first week of May 2023", "third quarter of 2022", "19th century"."""
    token = read.at(number)
    unit = read.at(number + 1)
    if unit.text == "century" and 1 <= token.value <= 21:
        return found(number + 2, of_months(at(100 * token.value - 99), 1200, "century"))
    if unit.kind not in {"unit", "weekday", "half"} and unit.text != "half":
        return None
    if read.at(number + 2).text not in {"of", "in"}:
        return None
    whole = read.date(read.behind_of(number + 2))
    if whole is None:
        return None
    part = _part_of(whole.spans[0], unit.text, unit.kind, unit.value, token)
    return None if part is None else found(whole.next, part)


def _part_of(
    whole: Span, name: str, kind: str, value: int, token: tuple[str, int, *tuple[object, ...]]
) -> Span | None:
    last = token[0] == "which"
    nth = -1 if last else token[1] - 1
    if kind == "weekday":
        first = (value - whole.start.weekday()) % 7
        days = range(first, (whole.end - whole.start).days, 7)
        return day_of(whole.start + timedelta(days=days[nth])) if nth < len(days) else None
    if name == "weekend":
        days = range((5 - whole.start.weekday()) % 7, (whole.end - whole.start).days, 7)
        start = whole.start + timedelta(days=days[nth])
        return Span(start, start + timedelta(days=2), "weekend", whole.every_year)
    if name in {"day", "week"}:
        step = timedelta(days=1 if name == "day" else 7)
        start = whole.end - step if last else whole.start + step * nth
        inside = start < whole.end
        return Span(start, min(start + step, whole.end), name, whole.every_year) if inside else None
    months = {"half": 6, "quarter": 3, "month": 1}.get(name if name in UNITS else "half", 0)
    start = months_after(whole.end, -months) if last else months_after(whole.start, months * nth)
    if not months or start >= whole.end or whole.grain not in {"year", "quarter", "decade"}:
        return None
    return Span(start, months_after(start, months), name, whole.every_year)
