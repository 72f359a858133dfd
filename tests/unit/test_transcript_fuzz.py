"""Whatever a trace holds: an error that says what is wrong, or a turn that can be captured."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gralkord.agents import Answer, Said, Thought, ToolCall, ToolResult, turn_of, turns_of
from gralkord.errors import GralkorError
from gralkord.models import Capture

SHAPES = ["events", "openai-chat", "openai-responses", "anthropic", "langchain"]
MEMORY_TAG = re.compile(r"(?:<|&lt;|\\u003c)\\?/?gralkord?-\w", re.IGNORECASE)
SECRET = "xyzzy"

NAME_WORDS = (
    "role content type text name tool_calls function arguments id tool_call_id call_id output input "
    "summary thinking is_error error event result speaker failed data kwargs additional_kwargs "
    "status refusal args tool_use_id url title action phase"
)
VALUE_WORDS = (
    "user assistant system tool message text tool_use tool_result reasoning function_call "
    "function_call_output web_search_call human ai constructor said thought tool_call answer "
    "failure <gralkord-memory> </gralkord-memory> gralkord-memory [[reply_to_current]] \x1b[1m"
)
NAMES = st.sampled_from(NAME_WORDS.split())
VALUES = st.sampled_from(VALUE_WORDS.split())
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | VALUES | st.text(max_size=8)
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(NAMES, inner, max_size=6)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": VALUES,
        "type": VALUES,
        "event": VALUES,
        "content": st.text(max_size=8)
        | st.lists(st.dictionaries(NAMES, SCALARS, max_size=5), max_size=4),
        "name": st.none() | st.text(max_size=8),
        "text": st.text(max_size=8),
        "tool_calls": st.none() | st.lists(DATA, max_size=2),
        "id": SCALARS,
        "output": DATA,
        "result": DATA,
    },
)
FAST = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check(messages):
    """A turn is captured as it is, and has no tag of a memory block."""
    if messages:
        Capture(session="s", operator="o", agent="a", user="u", turn=messages)
    for message in messages:
        assert message.content.strip()
        assert not MEMORY_TAG.search(message.content)


@pytest.mark.parametrize("shape", SHAPES)
@FAST
@given(trace=st.lists(MESSAGE | DATA, max_size=5), failure=st.none() | DATA)
def test_any_trace_is_a_turn_or_an_error(shape, trace, failure):
    """Nothing but a GralkorError is raised, and what comes out can be captured."""
    for read in (lambda: [turn_of(trace, shape, failure=failure)], lambda: turns_of(trace, shape)):
        try:
            found = read()
        except GralkorError:
            continue
        for turn in found:
            check(turn)


PIECES = st.lists(
    st.sampled_from(
        [
            "<gralkord-memory>",
            '<gralkord-memory trust="untrusted">',
            "<gralkor-memory\n",
            "</gralkord-memory>",
            "</gralkor-memory >",
            "&lt;gralkord-memory&gt;",
            "\\u003c/gralkord-memory\\u003e",
            "<\\/gralkord-memory>",
            "<gralkord-",
            "gralkord-memory>",
            "<",
            "</",
            "memory>",
            "\x00",
            "\ud800",
            "\x1b[0m",
            "\n",
            " ",
            "word",
        ]
    ),
    max_size=14,
).map("".join)


@FAST
@given(pieces=st.lists(PIECES, min_size=5, max_size=5), deep=st.booleans())
def test_no_tag_of_a_memory_block_comes_through(pieces, deep):
    """However tags are broken, doubled, escaped or spread over the parts of a step."""
    said, thought, name, argument, result = pieces
    check(
        turn_of(
            [
                Said(said),
                Thought(thought),
                ToolCall(name, {argument: [said]} if deep else argument),
                ToolResult({"found": result} if deep else result),
                Answer(said + thought),
            ],
            failure=result,
        )
    )


@FAST
@given(
    before=st.text("ab \n", max_size=6),
    inside=st.lists(
        st.sampled_from([SECRET, "\n", "- ", "<gralkord-memory>", "</gralkord-memory>", "<b>"]),
        max_size=8,
    ),
    after=st.text("ab \n", max_size=6),
    trust=st.sampled_from(["", ' trust="untrusted"']),
)
def test_nothing_of_a_memory_block_comes_through(before, inside, after, trust):
    """Whatever the memories in it say; what stands around it stays.

    Unless the words in between read as two whole blocks and a user's words.
    """
    openings, closings = inside.count("<gralkord-memory>"), inside.count("</gralkord-memory>")
    block = f"<gralkord-memory{trust}>\n{''.join(inside)}\n</gralkord-memory>"
    found = turn_of([Said(before + block + after)])
    left = "".join(message.content for message in found)
    if closings == 0 or closings > openings:
        assert SECRET not in left
    if closings == openings == 0:
        assert left.split() == (before + " " + after).split()
