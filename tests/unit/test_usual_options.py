from __future__ import annotations

import pytest

from gralkord.providers.formats.base import merged, pruned
from gralkord.providers.formats.usual import usual_options
from gralkord.providers.specs import parse_spec


def usual(written, role="llm", **more):
    return usual_options(parse_spec(written, "models.llm", role), **more)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("openai:gpt-4.1", {"temperature": 0}),
        ("openai:gpt-5-mini", {"reasoning_effort": "minimal"}),
        ("openai:gpt-5.1", {"reasoning_effort": "none"}),
        ("openai:o4-mini", {}),
        ("anthropic:claude-haiku-4-5-latest", {"temperature": 0}),
        ("google:gemini-2.0-flash", {"generationConfig": {"temperature": 0}}),
        (
            "google:gemini-2.5-flash-lite",
            {"generationConfig": {"temperature": 0, "thinkingConfig": {"thinkingBudget": 0}}},
        ),
        (
            "google:gemini-3.1-flash-lite",
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "minimal"}}},
        ),
        ("google:gemini-3-pro", {"generationConfig": {}}),
        ("openai-compatible:m@http://h:1", {"temperature": 0}),
    ],
)
def test_answers_are_short_and_steady(spec, expected):
    """Each model is asked not to think, and for its likeliest words, where it takes that."""
    assert usual(spec) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("openai:gpt-5-mini", {}),
        ("anthropic:claude-haiku-4-5-latest", {}),
        ("google:gemini-2.5-flash", {"generationConfig": {"temperature": 0}}),
    ],
)
def test_thinking_is_not_held_back_where_it_is_asked_for(spec, expected):
    """What would keep a model from thinking is left out."""
    assert usual(spec, thinking=True) == expected


def test_embedders_are_sent_nothing_of_that():
    """They do not write."""
    assert usual("openai:text-embedding-3-small", "embedder") == {}


def test_fields_of_the_settings_win():
    """They go over what is usual, also inside other fields."""
    over = merged(
        {"options": {"temperature": 0, "num_ctx": 1}}, {"options": {"num_ctx": 2}, "x": 1}
    )
    assert over == {"options": {"temperature": 0, "num_ctx": 2}, "x": 1}


@pytest.mark.parametrize(
    ("complaint", "left"),
    [
        ("Unknown name 'temperature'", {"generationConfig": {"thinkingConfig": {"budget": 0}}}),
        ("this model cannot turn reasoning off", {"generationConfig": {"temperature": 0}}),
        ("something else", None),
    ],
)
def test_complaints_name_fields_in_many_ways(complaint, left):
    """A field goes that is named, or that has to do with thinking where thinking is the matter."""
    options = {"generationConfig": {"temperature": 0, "thinkingConfig": {"budget": 0}}}
    assert pruned(options, complaint) == left
