from __future__ import annotations

from datetime import UTC, datetime

import pytest
from rows_of_tests import cache_of, fact, passage

from gralkord.graph.rows import NEVER_MS, to_ms
from gralkord.graph.validity import (
    PASSAGES_ENDED,
    View,
    fact_ending,
    passage_ending,
    superseded_ending,
    view_at,
)

NOW = datetime(2024, 6, 1, tzinfo=UTC)


def at(year: int, **more) -> View:
    """Return the view of what was valid at the start of a year."""
    return view_at(NOW, datetime(year, 1, 1, tzinfo=UTC), **more)


def known(year: int) -> View:
    """Return the view of what was known at the start of a year."""
    return view_at(NOW, known_at=datetime(year, 1, 1, tzinfo=UTC))


def superseded(**more):
    """Return a fact that another one ended in 2022, which was found out in 2023."""
    values = {
        "created_at": "2021-01-01T00:00:00Z",
        "valid_at": "2020-01-01T00:00:00Z",
        "invalid_at": "2022-01-01T00:00:00Z",
        "expired_at": "2023-06-01T00:00:00Z",
        "superseded_by": "new",
        "superseded_reason": "same_entities",
        "superseded_at": "2023-06-01T00:00:00Z",
    }
    return fact("Ann lives in Rome", **(values | more))


def shown(row, view: View) -> bool:
    """Return whether a group with this row alone shows it."""
    cache = cache_of(row)
    if row in cache.facts.rows():
        (flag,) = cache.shown_facts(view)
    else:
        (flag,) = cache.passages.shown(view)
    return bool(flag)


def test_what_has_no_end_holds():
    """A passage and a fact of which nothing was said hold for ever."""
    assert passage_ending(passage("tea")).ms == NEVER_MS
    assert fact_ending(fact("tea")).ms == NEVER_MS


def test_a_withdrawn_memory_ends_when_it_is_withdrawn():
    """Without a time of its own an invalidation ends a memory when it was made."""
    row = passage("tea", withdrawn_at="2024-05-01T00:00:00Z", withdrawn_reason="wrong")
    assert passage_ending(row)[0] == "2024-05-01T00:00:00Z"
    assert passage_ending(row).reason == "wrong"
    assert not shown(row, View(to_ms("2024-06-01T00:00:00Z")))
    assert shown(row, View(to_ms("2024-06-01T00:00:00Z"), include_invalidated=True))


@pytest.mark.parametrize(
    ("until", "holds"), [("2024-07-01T00:00:00Z", True), ("2023-01-01", False)]
)
def test_a_withdrawn_memory_holds_until_the_time_that_was_given(until, holds):
    """A memory that is withdrawn for later still holds; for earlier it held only up to then."""
    row = fact("tea", withdrawn_at="2024-05-01T00:00:00Z", withdrawn_until=until)
    assert shown(row, view_at(NOW)) is holds
    assert shown(row, at(2022))


def test_the_earlier_of_two_ends_counts():
    """An invalidation does not prolong what has ended before."""
    row = superseded(withdrawn_at="2024-05-01T00:00:00Z")
    assert fact_ending(row).at == "2022-01-01T00:00:00Z"
    assert fact_ending(row).reason == "same_entities"


def test_a_superseded_fact_is_hidden_but_was_valid_then():
    """It is not shown by default, and is shown as of a time at which it held."""
    assert not shown(superseded(), view_at(NOW))
    assert shown(superseded(), at(2021))
    assert not shown(superseded(), at(2023))


def test_a_fact_that_will_end_holds_until_then():
    """What a later beginning supersedes is shown up to that time, and not hidden from now on."""
    will = superseded(invalid_at="2024-09-01T00:00:00Z")
    assert shown(will, view_at(NOW))
    assert not shown(will, view_at(NOW.replace(month=10)))
    assert shown(will, known(2024))
    assert fact_ending(will).at == "2024-09-01T00:00:00Z"


def test_what_was_not_known_yet_does_not_count():
    """Before the supersession was found out the fact holds; before it was told it is not there."""
    assert not shown(superseded(), known(2020))
    assert shown(superseded(), known(2023))
    assert not shown(superseded(), known(2024))
    withdrawn = passage("tea", created_ms=1, withdrawn_at="2024-05-01T00:00:00Z")
    assert shown(withdrawn, known(2024))


def test_an_undone_supersession_does_not_count():
    """The fact has the end again that it had before, which is none or an earlier one."""
    assert superseded_ending(superseded(undone=("new",))).ms == NEVER_MS
    assert shown(superseded(undone=("new",)), view_at(NOW))
    before = superseded(undone=("new",), superseded_invalid_at="2023-01-01T00:00:00Z")
    assert superseded_ending(before).at == "2023-01-01T00:00:00Z"
    assert not shown(before, view_at(NOW))
    assert not shown(superseded(undone=("older",)), view_at(NOW))


def test_a_fact_of_2024_is_not_known_in_2020():
    """As of a time neither later facts nor what was said later are shown."""
    later = fact("Ann moved", valid_at="2024-01-01T00:00:00Z")
    told = fact("Ann sings", reference_time="2024-01-01T00:00:00Z")
    assert [shown(row, at(2020)) for row in (later, told, fact("Ann is"), passage("hi"))] == [
        *(False, False, True, False)
    ]
    assert [shown(row, at(2025)) for row in (later, told, fact("Ann is"), passage("hi"))] == [
        True
    ] * 4


def test_a_fact_goes_with_all_of_its_passages():
    """A fact is hidden when every passage of every episode of it has ended, and only then."""
    gone = {"withdrawn_at": "2024-05-01T00:00:00Z", "withdrawn_reason": "wrong"}
    rows = [
        passage("one", 0, episode="e1", **gone),
        passage("two", 1, episode="e1", **gone),
        passage("three", 2, episode="e2", **gone),
        passage("four", 3, episode="e2"),
    ]
    only, both, other = (
        fact("said once", episodes=("e1",)),
        fact("said twice", episodes=("e1", "e2")),
        fact("said elsewhere", episodes=("e1", "e3")),
    )
    cache = cache_of(*rows, only, both, other)
    assert cache.shown_facts(view_at(NOW)).tolist() == [False, True, True]
    assert cache.shown_facts(at(2024)).tolist() == [True, True, True]
    assert cache.ending(only, view_at(NOW)).reason == PASSAGES_ENDED
    assert cache.ending(both, view_at(NOW)).ms == NEVER_MS
    assert cache.ending(other, view_at(NOW)).ms == NEVER_MS


def test_a_reactivated_passage_brings_its_facts_back():
    """When one passage of an episode holds again, so do the episode's facts."""
    gone = passage("one", 0, episode="e1", withdrawn_at="2024-05-01T00:00:00Z")
    cache = cache_of(gone, fact("said once", episodes=("e1",)))
    assert cache.shown_facts(view_at(NOW)).tolist() == [False]
    cache.passages.put(gone._replace(withdrawn_at=None, seq=2), None)
    assert cache.shown_facts(view_at(NOW)).tolist() == [True]


def test_a_fact_that_a_new_episode_says_is_found_with_it():
    """A fact that is mentioned again is no longer hidden with its first episode."""
    told = fact("said once", episodes=("e1",))
    cache = cache_of(
        passage("one", 0, episode="e1", withdrawn_at="2024-05-01T00:00:00Z"),
        passage("two", 1, episode="e2"),
        told,
    )
    cache.facts.put(fact("said once", episodes=("e1", "e2"), seq=2), None)
    assert cache.shown_facts(view_at(NOW)).tolist() == [True]
