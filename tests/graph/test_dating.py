"""Which facts the model is asked again about, only to learn when they hold."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from fakes import FakeModel

from gralkord.errors import MalformedOutput, RateLimited
from gralkord.graph.dating import date_facts, is_english, may_tell_time
from gralkord.graph.library import EntityEdge
from gralkord.graph.llm import EpisodeModel
from gralkord.graph.names import Spellings

TOLD = datetime(2024, 5, 1, tzinfo=UTC)
YEAR = "2020-01-01T00:00:00Z"
ENGLISH = "Ann: It was the time of my life, and I have what you want."


def fact(text: str, **more) -> EntityEdge:
    """Return a fact that was told on the first of May, and has no time yet."""
    return EntityEdge(
        source_node_uuid="a",
        target_node_uuid="b",
        name="X",
        fact=text,
        group_id="g",
        created_at=TOLD,
        reference_time=TOLD,
        **more,
    )


def listed(prompt: str) -> list[str]:
    """Return the facts that a prompt asks about."""
    part = prompt.partition("<FACTS>\n")[2].partition("\n</FACTS>")[0]
    return [each["fact"] for each in json.loads(part)]


def answering(*times: str | None) -> tuple[FakeModel, list[list[str]]]:
    """A model that gives these times, and the facts of each of its calls."""
    asked: list[list[str]] = []

    def answer(prompt):
        asked.append(listed(prompt))
        return {"timestamps": [{"valid_at": time, "invalid_at": None} for time in times]}

    return FakeModel(BatchEdgeTimestamps=answer), asked


async def date(facts, model, text=ENGLISH):
    await date_facts(facts, text, EpisodeModel(model, Spellings(lambda _: ())))


async def test_only_facts_whose_words_tell_a_time_are_asked_about():
    """Facts with a time, or without a word of one, cost nothing; the others are one call."""
    model, asked = answering(YEAR, None)
    met, moved, lived = (
        fact("Ann met Bob."),
        fact("Ann moved last week."),
        fact("Bob quit in 2020."),
    )
    dated = fact("Ann came in 2019.", valid_at=TOLD)
    await date([met, moved, dated, lived], model)
    assert asked == [["Ann moved last week.", "Bob quit in 2020."]]
    assert [each.valid_at for each in (met, moved, lived)] == [
        None,
        datetime(2020, 1, 1, tzinfo=UTC),
        None,
    ]


async def test_nothing_to_ask_is_no_call():
    """An episode of facts that have their times, or none, asks nothing."""
    model, asked = answering()
    await date([fact("Ann met Bob."), fact("Ann runs.", valid_at=TOLD)], model)
    assert asked == []


@pytest.mark.parametrize("times", [(YEAR,), (YEAR, YEAR, YEAR)])
async def test_times_of_other_facts_are_no_times(times):
    """If there are more or fewer times than facts, nobody knows whose they are."""
    model, _ = answering(*times)
    facts = [fact("Ann moved last week."), fact("Bob quit in 2020.")]
    await date(facts, model)
    assert [each.valid_at for each in facts] == [None, None]


async def test_a_malformed_answer_costs_the_times_only():
    """The facts stay as they are."""
    facts = [fact("Ann moved last week.")]
    await date(facts, FakeModel(BatchEdgeTimestamps=MalformedOutput()))
    assert facts[0].valid_at is None


async def test_an_outage_is_no_answer():
    """What was not answered is tried again, with the whole episode."""
    with pytest.raises(RateLimited):
        await date([fact("Ann left in May.")], FakeModel(BatchEdgeTimestamps=RateLimited("wait")))


@pytest.mark.parametrize(
    ("text", "english"),
    [
        (ENGLISH, True),
        ("Ann: Ich war mit dem Zug in Rom, und dann ist es spät geworden.", False),
        ("Ann: El gato que vive en mi casa es de mi madre y le gusta.", False),
        ("Ann: Ik heb de trein genomen, of niet, en was toen in Rome.", False),
        ("Ann: 私は東京に住んでいます。", False),
        ("", False),
    ],
)
def test_english_is_told_by_its_small_words(text, english):
    """Only of English it is known which words tell a time."""
    assert is_english(text) is english


@pytest.mark.parametrize(
    ("words", "english", "tells"),
    [
        ("Ann met Bob.", True, False),
        ("Ann met Bob on Friday.", True, True),
        ("Ann met Bob at 5 o'clock.", True, True),
        ("Ann no longer works there.", True, True),
        ("Ann traf Bob letzte Woche.", False, True),
        ("Ann, née Roux, met Bob.", True, True),
    ],
)
def test_words_that_may_tell_a_time(words, english, tells):
    """In doubt they may."""
    assert may_tell_time(words, english=english) is tells
