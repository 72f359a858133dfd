from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gralkord.recall.query import QueryReader

NOW = datetime(2026, 3, 18, tzinfo=UTC)
READER = QueryReader()


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("When did Ann move?", True),
        ("what year was that", True),
        ("how long has she known him", True),
        ("Where does Ann live?", False),
        ("whenever", False),
    ],
)
def test_questions_for_a_time_are_known(question, asks):
    """Such a question also looks for words that tell a time."""
    query = READER.read(question, NOW)
    assert query.asks_when is asks
    assert bool(query.time_terms) is asks


def test_names_are_left_out_of_what_is_embedded():
    """Also in their possessive; the other words stay."""
    query = READER.read("What is Ann's dog called, Ann Lee?", NOW)
    assert READER.without(query, ["Ann Lee"]).split() == ["What", "is", "dog", "called,", "?"]


def test_a_question_of_names_alone_is_embedded_as_it_is():
    """Something must be left to embed."""
    assert READER.without(READER.read("Ann Lee?", NOW), ["Ann Lee"]) == "Ann Lee?"


@pytest.mark.parametrize("text", ["_", "?", "👍", "\u202e\u202d", "a" * 8_000, "the it"])
def test_odd_questions_are_read(text):
    """Nothing that a request may hold is an error."""
    assert READER.read(text, NOW).text == text
