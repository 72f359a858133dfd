"""From events to the messages of a turn."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gralkord.agents import (
    Answer,
    Failure,
    Rules,
    Said,
    Thought,
    ToolCall,
    ToolResult,
    turn_of,
    turns_of,
)
from gralkord.errors import ConfigError, InvalidInput
from gralkord.models import MAX_MESSAGES, MAX_TURN_BYTES, Capture, Message


def lines(messages):
    return [(message.role, message.content) for message in messages]


def test_a_turn_has_words_steps_and_the_answer_in_their_order():
    """Thoughts and tools are behaviours between what was said and what was answered."""
    found = turn_of(
        [
            Said("Where is my bike?"),
            Thought(" Look it up. "),
            ToolCall("search", {"query": "bike", "limit": 3}, id="1"),
            ToolResult("In the shed", id="1"),
            Answer(" In the shed.\n"),
        ]
    )
    assert lines(found) == [
        ("user", "Where is my bike?"),
        ("behaviour", "thought: Look it up."),
        ("behaviour", 'tool search(query="bike", limit=3) → In the shed'),
        ("assistant", "In the shed."),
    ]


def test_events_may_be_mappings():
    """A trace that was kept as JSON reads the same, and telemetry in it is left out."""
    assert turn_of(
        [
            {"event": "said", "text": "Hi", "speaker": "Zoe"},
            {"event": "thought", "text": "a greeting"},
            {"event": "tool_call", "name": "greet", "arguments": None},
            {"event": "tokens_used", "count": 7},
            {"event": "tool_result", "result": {"ok": True}, "failed": False},
            {"event": "answer", "text": "Hello Zoe"},
        ]
    ) == turn_of(
        [
            Said("Hi", "Zoe"),
            Thought("a greeting"),
            ToolCall("greet"),
            ToolResult({"ok": True}),
            Answer("Hello Zoe"),
        ]
    )


def test_what_is_captured_is_a_valid_turn():
    """The messages are those that a capture takes."""
    turn = turn_of([Said("Hi"), Answer("Hello")])
    assert Capture(session="s", operator="ann", agent="Ada", user="Ann", turn=turn).turn == turn


@pytest.mark.parametrize(
    "trace",
    [
        [],
        [Said("  \n"), Answer("")],
        [Thought(" ")],
        [Said("<gralkord-memory>\nx</gralkord-memory>")],
    ],
)
def test_an_empty_trace_is_skipped(trace):
    """With no words there is nothing to capture."""
    assert turn_of(trace) == []
    assert turns_of(trace) == []


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("no answer in time", "request failed: no answer in time"),
        (TimeoutError("30 s"), "request failed: TimeoutError: 30 s"),
        (ValueError(), "request failed: ValueError"),
        ({"code": 503}, 'request failed: {"code": 503}'),
        ("  ", "request failed"),
    ],
)
def test_a_failed_turn_ends_in_a_behaviour(failure, said):
    """So that it can be learned from; it is no answer of the agent's."""
    for found in (
        turn_of([Said("Hi")], failure=failure),
        turn_of([Said("Hi"), Failure(failure)]),
        *turns_of([Said("Hi")], failure=failure),
    ):
        assert lines(found) == [("user", "Hi"), ("behaviour", said)]


def test_a_failure_alone_is_captured():
    """A turn that failed before anything was said is something to learn from."""
    assert lines(turn_of([], failure="no model")) == [("behaviour", "request failed: no model")]


def test_results_belong_to_their_calls():
    """Parallel calls are told apart by id, calls without one by name; others stand alone."""
    found = turn_of(
        [
            ToolCall("read", {"path": "a"}, id="1"),
            ToolCall("read", {"path": "b"}, id="2"),
            ToolCall("list"),
            ToolCall("time"),
            ToolResult("B", id="2"),
            ToolResult("A", id="1"),
            ToolResult("noon", name="time"),
            ToolResult("nobody asked", name="alarm", id="9"),
        ]
    )
    assert [content for _, content in lines(found)] == [
        'tool read(path="a") → A',
        'tool read(path="b") → B',
        "tool list",
        "tool time → noon",
        "tool alarm → nobody asked",
    ]


def test_a_tools_error_is_told_as_one():
    """What failed must not read as what was found."""
    found = turn_of(
        [ToolCall("read"), ToolResult("no such file", failed=True), ToolResult(None, failed=True)]
    )
    assert [content for _, content in lines(found)] == [
        "tool read → error no such file",
        "tool → error",
    ]


@pytest.mark.parametrize("tool", ["memory_search", "Memory_Search", "mcp__gralkord__search"])
def test_what_a_memory_tool_found_is_not_captured_again(tool):
    """It was asked, that is all; its error is kept."""
    found = turn_of([ToolCall(tool, {"query": "bike"}), ToolResult("- the bike is in the shed")])
    assert lines(found) == [("behaviour", f'tool {tool}(query="bike")')]
    found = turn_of([ToolCall(tool), ToolResult("no session", failed=True)])
    assert lines(found) == [("behaviour", f"tool {tool} → error no session")]


def test_who_has_a_name_keeps_it():
    """The speaker of a message is who said it; the names of roles are no names."""
    found = turn_of(
        [Said("Hi", "Zoe"), Said("Hey", " User "), Said("Oi", "Ai"), Answer("Yes?", "assistant")]
    )
    assert [message.speaker for message in found] == ["Zoe", None, "Ai", None]


def test_long_steps_are_cut_and_say_so():
    """Words are never cut."""
    rules = Rules(thought_chars=5, arguments_chars=4, result_chars=3)
    found = turn_of(
        [
            Said("s" * 99),
            Thought("t" * 9),
            ToolCall("x", "a" * 9),
            ToolResult("r" * 9),
            Answer("b" * 99),
        ],
        rules=rules,
    )
    assert [content for _, content in lines(found)] == [
        "s" * 99,
        "thought: ttttt … [4 characters left out]",
        "tool x(aaaa … [5 characters left out]) → rrr … [6 characters left out]",
        "b" * 99,
    ]


def test_text_is_made_fit_to_be_stored():
    """Colours of a terminal, control characters and half characters are no words."""
    found = turn_of(
        [
            Said("a\x00b\ud800c\td"),
            ToolCall("ls"),
            ToolResult("\x1b[31mred\x1b[0m \x1b]0;title\x07end"),
        ]
    )
    assert [content for _, content in lines(found)] == ["abc\td", "tool ls → red end"]


def test_a_text_without_anything_to_strip_is_verbatim():
    """Blanks around what a user said are what the user said."""
    assert lines(turn_of([Said("  a\n\n\n\nb \n")])) == [("user", "  a\n\n\n\nb \n")]


def test_steps_give_way_where_a_turn_is_too_long():
    """First and last are kept, one line tells how many were left out."""
    steps = [Thought(str(number)) for number in range(500)]
    found = turn_of([Said("Go"), *steps, Answer("Done")])
    assert len(found) == MAX_MESSAGES
    contents = [content for _, content in lines(found)]
    assert contents[:3] == ["Go", "thought: 0", "thought: 1"]
    assert contents[-2:] == ["thought: 499", "Done"]
    assert "… 303 steps left out …" in contents


def test_steps_give_way_where_a_turn_is_too_large():
    """The failure at the end stays."""
    steps = [ToolResult("x" * 9_000, name=f"t{number}") for number in range(40)]
    found = turn_of([Said("Go"), *steps], failure="stuck", rules=Rules(result_chars=9_000))
    assert sum(len(message.content.encode()) for message in found) <= MAX_TURN_BYTES
    assert found[-1].content == "request failed: stuck"
    assert any("steps left out" in message.content for message in found)
    assert Capture(session="s", operator="o", agent="a", user="u", turn=found)


def test_words_that_do_not_fit_are_refused_with_the_limit():
    """Nothing that was said is dropped in silence."""
    with pytest.raises(InvalidInput, match="201 messages of users") as many:
        turn_of([Said("x")] * (MAX_MESSAGES + 1))
    assert many.value.limit == MAX_MESSAGES
    with pytest.raises(InvalidInput, match=f"{MAX_TURN_BYTES + 2} bytes of text") as large:
        turn_of([Said("ä" * (MAX_TURN_BYTES // 2)), Answer("ok"), Thought("gives way")])
    assert (large.value.field, large.value.limit) == ("turn", MAX_TURN_BYTES)


def test_no_room_for_a_step_is_no_error():
    """Where words fill a turn, its steps are left out."""
    found = turn_of([*[Said("x")] * MAX_MESSAGES, Thought("t")])
    assert len(found) == MAX_MESSAGES
    assert {message.role for message in found} == {"user"}


def test_a_conversation_is_split_where_somebody_speaks_after_an_answer():
    """What is said while the agent works belongs to the turn under way."""
    found = turns_of(
        [
            Said("one"),
            ToolCall("x"),
            Said("and this"),
            Answer("1"),
            Said("two", "Zoe"),
            Said("too", "Ann"),
            Failure("down"),
            Said("three"),
        ],
        failure="still down",
    )
    assert [[message.content for message in turn] for turn in found] == [
        ["one", "tool x", "and this", "1"],
        ["two", "too", "request failed: down"],
        ["three", "request failed: still down"],
    ]


@pytest.mark.parametrize("trace", ["text", {"messages": []}, None, 7, b"x"])
def test_what_is_no_list_is_refused(trace):
    """A state or a response is not the list in it."""
    with pytest.raises(InvalidInput, match="trace: must be a list"):
        turn_of(trace, "openai-chat")


@pytest.mark.parametrize(
    ("trace", "field"),
    [
        ([7], "events[0]"),
        ([Said("x"), {"text": "x"}], "events[1]"),
        ([{"event": "said", "text": 7}], "events[0].text"),
        ([{"event": "said", "text": "x", "speaker": "n" * 300}], "events[0].speaker"),
        ([{"event": "tool_call", "name": ["x"]}], "events[0].name"),
        ([Said(7)], "events[0].text"),
        ([Said("x", 7)], "events[0].speaker"),
        ([Answer("x", "a\nb")], "events[0].speaker"),
    ],
)
def test_a_fault_of_a_trace_is_named_by_its_place(trace, field):
    """The error says which event and which field."""
    with pytest.raises(InvalidInput) as caught:
        turn_of(trace)
    assert caught.value.field == field


def test_an_unknown_shape_is_refused_with_those_there_are():
    """A typing error must not read as an empty trace."""
    with pytest.raises(InvalidInput, match="'openai'") as caught:
        turn_of([], "openai")
    assert "openai-chat" in caught.value.hint


def test_limits_of_rules_are_positive():
    """A limit of nothing is a mistake."""
    with pytest.raises(ConfigError, match="result_chars"):
        Rules(result_chars=0)


@dataclass
class Finding:
    place: str
    seen: frozenset


class Foreign:
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"a": [1, None, "ü"]}, '{"a": [1, null, "ü"]}'),
        (Finding("shed", frozenset({1})), '{"place": "shed", "seen": [1]}'),
        (Message(role="user", content="x"), '{"role": "user", "content": "x"}'),
        (Foreign(), '"<Foreign>"'),
        (OSError("gone"), "OSError: gone"),
        (2**80, str(2**80)),
    ],
)
def test_results_are_shown_whatever_they_are(result, shown):
    """Texts as they are, data as JSON, and foreign objects by their kind."""
    assert lines(turn_of([ToolResult(result, name="t")])) == [("behaviour", f"tool t → {shown}")]


def test_arguments_may_be_an_object():
    """SDKs have objects for the arguments of tools that the provider runs."""
    found = turn_of(
        [ToolCall("look", Message(role="user", content="x")), ToolCall("go", Finding("a", ()))]
    )
    assert [content for _, content in lines(found)] == [
        'tool look(role="user", content="x")',
        'tool go(place="a", seen=[])',
    ]


def test_a_result_without_an_end_is_shown_by_its_kind():
    """Data that holds itself, or is nested without measure, stops nothing."""
    loop: list = []
    loop.append(loop)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert (
        lines(turn_of([ToolResult(loop), ToolResult(deep)])) == [("behaviour", "tool → <list>")] * 2
    )
