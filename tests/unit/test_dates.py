from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pytest

from gralkord.recall.dates import Period, closeness, find_periods

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)  # a Wednesday
EVER = date(9999, 12, 1)


def spans(question: str) -> list[tuple[str, str, bool]]:
    return [(str(p.start), str(p.end), p.every_year) for p in find_periods(question, NOW)]


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def fit(question: str, *moments: str) -> list[float]:
    event_ms = np.asarray([ms(moment) for moment in moments], dtype=np.int64)
    return [round(float(x), 2) for x in closeness(find_periods(question, NOW), event_ms)]


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("What happened on May 7, 2023?", "2023-05-07", "2023-05-08"),
        ("what did she say on 7 May, 2023", "2023-05-07", "2023-05-08"),
        ("the 3rd of July 2023", "2023-07-03", "2023-07-04"),
        ("What happened on 2023-05-07?", "2023-05-07", "2023-05-08"),
        ("anything in 2023-05", "2023-05-01", "2023-06-01"),
        ("who moved in march 2023?", "2023-03-01", "2023-04-01"),
        ("What did Ann do in 2022?", "2022-01-01", "2023-01-01"),
        ("What did we eat yesterday?", "2026-03-17", "2026-03-18"),
        ("the day before yesterday", "2026-03-16", "2026-03-17"),
        ("what is planned today", "2026-03-18", "2026-03-19"),
        ("what happened last week", "2026-03-09", "2026-03-16"),
        ("what happened last month", "2026-02-01", "2026-03-01"),
        ("what happened last year", "2025-01-01", "2026-01-01"),
        ("this month's plan", "2026-03-01", "2026-03-19"),
        ("in the past year", "2025-03-17", "2026-03-19"),
        ("last Friday", "2026-03-13", "2026-03-14"),
        ("last Wednesday", "2026-03-11", "2026-03-12"),
        ("last weekend", "2026-03-14", "2026-03-16"),
        ("three days ago", "2026-03-15", "2026-03-16"),
        ("a couple of weeks ago", "2026-03-01", "2026-03-08"),
        ("two months ago", "2026-01-03", "2026-02-03"),
        ("between March and May 2024", "2024-03-01", "2024-06-01"),
        ("from 3 July to 9 July 2023", "2023-07-03", "2023-07-10"),
        ("between December 2023 and February", "2023-12-01", "2024-03-01"),
        ("before June 2021", "0001-01-30", "2021-06-01"),
        ("since 2024-01-05", "2024-01-05", str(EVER)),
        ("after 2023", "2024-01-01", str(EVER)),
        ("since May", "2025-05-01", str(EVER)),
    ],
)
def test_times_are_read(question, start, end):
    """Dates, ranges, open ranges and relative times are understood."""
    assert spans(question) == [(start, end, False)]


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("what did we do in December?", "2026-12-01", "2027-01-01"),
        ("who came in may", "2026-05-01", "2026-06-01"),
        ("July 3rd", "2026-07-03", "2026-07-04"),
        ("on 29 February", "2026-02-28", "2026-03-01"),
    ],
)
def test_without_a_year_any_year_fits(question, start, end):
    """The words "In December" name the December of any year."""
    assert spans(question) == [(start, end, True)]


@pytest.mark.parametrize(
    "question",
    [
        "what did we decide about auth",
        "the market, a marriage, a novel, augment, junior, octopus, separate",
        "May I ask who may come?",
        "they march on",
        "error 2019x, room 12.2023, call 2020-1234",
        "31 June",
        "9999 years ago",
        "",
        "31 February 2023",
    ],
)
def test_other_words_are_no_times(question):
    """Words that only begin like a month, and days that do not exist, name no time."""
    assert spans(question) == []


def test_several_times_all_count():
    """Each time of a question is read."""
    assert [span[0] for span in spans("March 2023 or 7 June 2024")] == ["2023-03-01", "2024-06-07"]


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


def test_no_moments_no_numbers():
    """An empty table has no fits."""
    assert closeness([Period(date(2023, 1, 1), date(2024, 1, 1))], np.zeros(0, np.int64)).size == 0
