from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gralkord.recall.times import Period, closeness, find_periods
from gralkord.recall.times.find import MAX_PERIODS
from gralkord.recall.times.words import FEASTS, VOCABULARY

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)  # a Wednesday
LONGEST = 8_000
TABLE = Path(__file__).parent / "data" / "dates.txt"


def phrases():
    """Return the rows of the table: text, moment of asking, zone, what is expected."""
    rows, now, zone = [], NOW, None
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("@"):
            moment, _, name = line[1:].strip().partition(" ")
            now = datetime.fromisoformat(moment).replace(tzinfo=UTC)
            zone = ZoneInfo(name) if name else None
        elif line and not line.startswith("# "):
            text, _, expected = line.rpartition(" | ")
            rows.append((text, now, zone, [] if expected == "none" else expected.split(" & ")))
    return rows


def told(period):
    """Return a period as the table tells it."""
    edges = [
        ".." if edge.year in {1, 9999} else edge.strftime("%Y-%m-%dT%H:%M").removesuffix("T00:00")
        for edge in (period.start, period.end)
    ]
    return "yearly " * period.every_year + " / ".join(edges)


def ms(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def fit(question, *moments, zone=None):
    event_ms = np.asarray([ms(moment) for moment in moments], dtype=np.int64)
    return [round(float(x), 2) for x in closeness(find_periods(question, NOW, zone), event_ms)]


def test_table_of_phrases():
    """Each phrase of the table names what it says, in UTC, or nothing."""
    rows = phrases()
    assert len(rows) >= 300
    wrong = [
        f"{text}: {found}, not {expected}"
        for text, now, zone, expected in rows
        if (found := [told(period) for period in find_periods(text, now, zone)]) != expected
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What happened on May 7, 2023?", "May 7, 2023"),
        ("Did it rain between March and May 2024, or not?", "between March and May 2024"),
        ("İ said: since last week!", "since last week"),
        ("two weeks after 7 May 2023 it was over", "two weeks after 7 May 2023"),
        ("what about “mid-May 2023”?", "mid-May 2023"),
    ],
)
def test_words_of_a_time(text, words):
    """A time tells which of the words name it."""
    (period,) = find_periods(text, NOW)
    assert text[slice(*period.words)] == words


MOMENTS = [ms("0001-01-01"), ms("2023-05-07"), ms("9999-12-31T23:59")]
WORDS = sorted({*VOCABULARY, *(word for feast in FEASTS for word in feast)})
PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(["of", "in", "ago", "and", "to", ",", "-", ".", "2023", "31", "7th", "'23"]),
    st.from_regex(r"\d{1,5}([-/.:]\d{1,4}){0,2}", fullmatch=True),
    st.text(max_size=5),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(PIECES, max_size=30),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from([None, ZoneInfo("Pacific/Kiritimati"), ZoneInfo("America/New_York")]),
)
def test_any_text_is_read(pieces, now, zone):
    """Whatever is asked, whenever and wherever: no error, whole stretches, some words of it."""
    text = " ".join(pieces)
    periods = find_periods(text, now, zone)
    assert len(periods) <= MAX_PERIODS + 1
    for period in periods:
        assert period.start < period.end
        assert 0 <= period.words[0] < period.words[1] <= len(text)
    if periods:
        fits = closeness(periods, np.asarray(MOMENTS, np.int64))
        assert 0 <= fits.min() <= fits.max() <= 1


@pytest.mark.parametrize(
    "piece",
    [
        "what did we say about the tea and the kettle ",
        "may ",
        "1 ",
        "2023 ",
        "the week before ",
        "first week of ",
        "last last ",
        "x-y/z.",
        "May 7, ",
        "from may to ",
        "-",
        "a few days before ",
        "monday, ",
        "early ",
        "7/7 ",
        "1.2 7",
        "it may be that we spoke about the tea and the kettle of the night. ",
    ],
)
def test_long_texts_are_read_to_an_end(piece):
    """The longest question is read in bounded work, whatever it consists of: see bench/times.py."""
    text = (piece * LONGEST)[:LONGEST]
    assert len(find_periods(text, NOW)) <= MAX_PERIODS


def test_the_end_of_a_long_text_is_read():
    """What is asked often stands behind all that is told first."""
    text = "The tea stood beside the kettle. " * 200 + "What was it on Sept. 5, 2023?"
    (period,) = find_periods(text, NOW)
    assert text[slice(*period.words)] == "Sept. 5, 2023"
    assert told(period) == "2023-09-05 / 2023-09-06"


def test_moments_within_the_time_fit_wholly():
    """A moment in the month that is asked for fits, one long before or after does not."""
    fits = fit("in May 2023", "2023-05-01", "2023-05-31T23:00", "2023-03-01", "2024-05-10")
    assert fits == [1, 1, 0, 0]


def test_moments_soon_after_fit_partly():
    """People tell of a thing some days after it."""
    soon, later = fit("on 7 May 2023", "2023-05-10", "2023-05-20")
    assert 0 < soon < 1
    assert later == 0


def test_any_year_of_the_moments_is_tried():
    """Without a year the month of each year fits."""
    assert fit("in December", "1999-12-24", "2023-12-01", "2023-08-01") == [1, 1, 0]


def test_a_day_begins_where_the_asker_is():
    """With a zone a day begins when it does there; without one it may have begun elsewhere."""
    before = "2023-05-06T14:00"
    assert fit("on 7 May 2023", before) == [1]
    assert fit("on 7 May 2023", before, zone=ZoneInfo("Asia/Tokyo")) == [0]
    assert fit("on 7 May 2023", "2023-05-06T16:00", zone=ZoneInfo("Asia/Tokyo")) == [1]


def test_no_moments_no_numbers():
    """An empty table has no fits."""
    period = Period(datetime(2023, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC))
    assert closeness([period], np.zeros(0, np.int64)).size == 0
