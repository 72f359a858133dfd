"""The traces of frameworks, read as turns."""

from __future__ import annotations

from types import SimpleNamespace as Object

import pytest

from gralkord.agents import Said, ToolCall, ToolResult, turn_of, turns_of
from gralkord.errors import InvalidInput

TURN = [
    ("user", "Ann", "Where is my bike?"),
    ("behaviour", None, "thought: Search."),
    ("behaviour", None, 'tool search(query="bike") → In the shed'),
    ("assistant", None, "In the shed."),
]

OPENAI_CHAT = [
    {"role": "system", "content": "SECRET"},
    {"role": "developer", "content": [{"type": "text", "text": "SECRET"}]},
    {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "Where is my bike?"}]},
    {
        "role": "assistant",
        "content": "Search.",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "search", "arguments": '{"query": "bike"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "In the shed"},
    {"role": "assistant", "content": "In the shed.", "refusal": None, "tool_calls": None},
]

OPENAI_RESPONSES = [
    {"role": "developer", "content": "SECRET"},
    {
        "role": "user",
        "name": "Ann",
        "content": [
            {"type": "input_text", "text": "Where is my bike?"},
            {"type": "input_image", "image_url": "data:…"},
        ],
    },
    {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "Search."}]},
    {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"query": "bike"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "In the shed"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "In the shed.", "annotations": []}],
    },
]

ANTHROPIC = [
    {"role": "system", "content": "SECRET"},
    {"role": "user", "name": "Ann", "content": "Where is my bike?"},
    {
        "role": "assistant",
        "content": [
            {"type": "redacted_thinking", "data": "SECRET"},
            {"type": "text", "text": "Search."},
            {"type": "tool_use", "id": "c1", "name": "search", "input": {"query": "bike"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "In the shed"}],
            }
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "In the shed."}]},
]

LANGCHAIN = [
    Object(type="system", content="SECRET"),
    Object(type="human", content="Where is my bike?", name="Ann"),
    Object(
        type="ai",
        content="Search.",
        tool_calls=[{"name": "search", "args": {"query": "bike"}, "id": "c1", "type": "tool_call"}],
        additional_kwargs={"tool_calls": [{"function": {"name": "not twice"}}]},
    ),
    Object(type="tool", content="In the shed", tool_call_id="c1", name="search", status="success"),
    Object(
        type="AIMessageChunk", content=[{"type": "text", "text": "In the shed."}], tool_calls=[]
    ),
]

SHAPES = [
    ("openai-chat", OPENAI_CHAT),
    ("openai-responses", OPENAI_RESPONSES),
    ("anthropic", ANTHROPIC),
    ("langchain", LANGCHAIN),
]


def objects(value):
    """Return *value* with objects for mappings, as the SDKs have them; arguments stay data."""
    if isinstance(value, dict):
        return Object(**{k: v if k in {"input", "args"} else objects(v) for k, v in value.items()})
    return [objects(item) for item in value] if isinstance(value, list) else value


def said(messages):
    return [(message.role, message.speaker, message.content) for message in messages]


def contents(trace, shape):
    return [message.content for message in turn_of(trace, shape)]


@pytest.mark.parametrize(("shape", "trace"), SHAPES)
def test_the_same_turn_is_the_same_in_every_shape(shape, trace):
    """Thought, tool, answer and the user's name; system text never."""
    assert said(turn_of(trace, shape)) == TURN
    assert [said(turn) for turn in turns_of(trace + trace, shape)] == [TURN, TURN]


@pytest.mark.parametrize(("shape", "trace"), SHAPES)
def test_objects_of_an_sdk_read_like_mappings(shape, trace):
    """What an SDK returns can be passed as it is."""
    assert said(turn_of(objects(trace), shape)) == TURN


@pytest.mark.parametrize(("shape", "trace"), SHAPES)
def test_a_failed_turn_of_every_shape_says_so(shape, trace):
    """The answer that never came is a behaviour."""
    found = turn_of(trace[:-1], shape, failure=TimeoutError("30 s"))
    assert said(found) == [*TURN[:-1], ("behaviour", None, "request failed: TimeoutError: 30 s")]


@pytest.mark.parametrize(("shape", "trace"), SHAPES)
def test_system_text_alone_is_nothing(shape, trace):
    """A conversation that has not begun is skipped."""
    assert turn_of(trace[:1], shape) == []
    assert turns_of(trace[:1], shape) == []


@pytest.mark.parametrize("shape", ["openai-chat", "openai-responses", "anthropic", "langchain"])
@pytest.mark.parametrize(
    ("message", "field"),
    [
        (7, ""),
        ({}, ""),
        ({"role": "narrator", "content": "x"}, ""),
        ({"role": ["user"], "content": "x"}, ""),
        ({"role": "user", "content": {"text": "x"}}, ".content"),
        ({"role": "user", "content": "x", "name": "n" * 300}, ".name"),
        ({"role": "user", "content": "x", "name": {"first": "Ann"}}, ".name"),
    ],
)
def test_a_fault_of_a_message_is_named_by_its_place(shape, message, field):
    """The error says which message and which field, and not what was said."""
    with pytest.raises(InvalidInput) as caught:
        turn_of([{"role": "user", "content": "secret"}, message], shape)
    name = "items" if shape == "openai-responses" else "messages"
    assert caught.value.field.startswith(f"{name}[1]{field}")
    assert "secret" not in caught.value.message


def test_chat_messages_of_other_servers():
    """Reasoning, refusals, spoken answers, custom and old function calls are all read."""
    trace = [
        {"role": "user", "content": "Hi", "name": "user"},
        {"role": "assistant", "content": None, "reasoning_content": "Hm."},
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{broken"}},
        {"role": "function", "name": "f", "content": "1"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "2", "custom": {"name": "sh", "input": "ls -l"}}],
        },
        {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "total 0"}]},
        {"role": "assistant", "refusal": "I may not."},
        {"role": "assistant", "audio": {"transcript": "Hello."}, "content": None, "name": "Bo"},
    ]
    assert said(turn_of(trace, "openai-chat")) == [
        ("user", None, "Hi"),
        ("behaviour", None, "thought: Hm."),
        ("behaviour", None, "tool f({broken) → 1"),
        ("behaviour", None, "tool sh(ls -l) → total 0"),
        ("assistant", None, "I may not."),
        ("assistant", "Bo", "Hello."),
    ]


def test_items_of_tools_that_the_api_runs_itself():
    """Call and result stand in one item; images and lists of tools are no text."""
    trace = [
        {"type": "mcp_list_tools", "tools": [{"name": "x"}]},
        {"type": "web_search_call", "id": "1", "status": "completed", "action": {"query": "shed"}},
        {
            "type": "mcp_call",
            "id": "2",
            "name": "read",
            "arguments": "{}",
            "output": "A",
            "error": None,
        },
        {
            "type": "mcp_call",
            "id": "3",
            "name": "read",
            "arguments": '{"n": 1}',
            "error": "no file",
        },
        {"type": "code_interpreter_call", "id": "4", "code": "1+1", "outputs": [{"logs": "2"}]},
        {"type": "image_generation_call", "id": "5", "result": "base64", "status": "completed"},
        {"type": "file_search_call", "id": "6", "queries": ["q"], "status": "failed"},
        {"type": "computer_call", "call_id": "7", "action": {"type": "click"}},
        {"type": "computer_call_output", "call_id": "7", "output": {"image_url": "data:"}},
        {"type": "custom_tool_call", "call_id": "8", "name": "sh", "input": "ls"},
        {
            "type": "custom_tool_call_output",
            "call_id": "8",
            "output": [{"type": "input_text", "text": "a"}],
        },
        {"type": "item_of_next_year", "text": "x"},
    ]
    assert contents(trace, "openai-responses") == [
        'tool web_search(query="shed")',
        "tool read → A",
        "tool read(n=1) → error no file",
        'tool code_interpreter(1+1) → [{"logs": "2"}]',
        "tool image_generation",
        'tool file_search(["q"]) → error',
        'tool computer(type="click")',
        "tool sh(ls) → a",
    ]


def test_what_is_said_before_a_tool_is_used_is_a_thought():
    """The Responses API has it as a message of its own."""
    trace = [
        {"role": "user", "content": "Hi"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look."}],
        },
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "1", "name": "look", "arguments": ""},
        {"type": "message", "role": "assistant", "phase": "commentary", "content": "Nearly."},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "No."}],
        },
    ]
    assert contents(trace, "openai-responses") == [
        "Hi",
        "thought: I look.",
        "tool look",
        "thought: Nearly.",
        "No.",
    ]


def test_blocks_of_tools_that_anthropic_runs_itself():
    """The answer is what comes after the last of them; pages that were found are titles."""
    trace = [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "text", "text": "I search."},
                {
                    "type": "server_tool_use",
                    "id": "1",
                    "name": "web_search",
                    "input": {"query": "q"},
                },
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "1",
                    "content": [
                        {
                            "type": "web_search_result",
                            "title": "T",
                            "url": "u",
                            "encrypted_content": "S",
                        }
                    ],
                },
                {"type": "server_tool_use", "id": "2", "name": "web_fetch", "input": {}},
                {
                    "type": "web_fetch_tool_result",
                    "tool_use_id": "2",
                    "content": {"error_code": "too_long"},
                },
                {"type": "text", "text": "It is ", "citations": None},
                {"type": "text", "text": "5 %", "citations": [{"url": "u"}]},
                {"type": "text", "text": "."},
            ],
        }
    ]
    assert contents(trace, "anthropic") == [
        "thought: Hm.",
        "thought: I search.",
        'tool web_search(query="q") → T (u)',
        "tool web_fetch → error too_long",
        "It is 5 %.",
    ]


def test_results_and_words_of_one_message_are_told_apart():
    """Anthropic's results of tools come as a user's message, with what the user says meanwhile."""
    trace = [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "1", "name": "x", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "is_error": True, "content": "broken"},
                {"type": "text", "text": "Stop!"},
            ],
        },
    ]
    assert said(turn_of(trace, "anthropic")) == [
        ("behaviour", None, "tool x → error broken"),
        ("user", None, "Stop!"),
    ]


@pytest.mark.parametrize(
    "message",
    [
        "Hi",
        ("human", "Hi"),
        ("user", "Hi"),
        {"role": "user", "content": "Hi"},
        {"type": "human", "content": "Hi"},
        {"type": "human", "data": {"content": "Hi", "name": None}},
        {"type": "chat", "data": {"role": "user", "content": "Hi"}},
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", "HumanMessage"],
            "kwargs": {"content": "Hi"},
        },
        Object(type="chat", role="user", content="Hi"),
        Object(type="HumanMessageChunk", content=["Hi"]),
    ],
)
def test_what_langchain_takes_for_a_message_is_one(message):
    """Objects, dumps, serialised forms, pairs and bare texts."""
    assert said(turn_of([message], "langchain")) == [("user", None, "Hi")]


def test_messages_of_langchain_in_older_and_other_forms():
    """Calls in the provider's form, calls that could not be read, reasoning, failed tools."""
    old = {"tool_calls": [{"id": "1", "function": {"name": "a", "arguments": '{"x": 1}'}}]}
    trace = [
        Object(type="remove", id="7", content=""),
        Object(type="ai", content="", additional_kwargs=old | {"reasoning_content": "Hm."}),
        Object(type="tool", content="broken", tool_call_id="1", status="error"),
        {"role": "assistant", "content": "", "tool_calls": old["tool_calls"]},
        Object(
            type="ai",
            content=[{"type": "thinking", "thinking": "Deep."}, {"type": "tool_use", "name": "b"}],
            tool_calls=[{"name": "b", "args": {}, "id": "2"}],
            invalid_tool_calls=[{"name": "c", "args": "{x", "id": "3", "error": "no JSON"}],
        ),
        Object(type="ai", content=[{"type": "reasoning", "summary": [{"text": "So."}]}, "Done."]),
    ]
    assert contents(trace, "langchain") == [
        "thought: Hm.",
        "tool a(x=1) → error broken",
        "tool a(x=1)",
        "thought: Deep.",
        "tool b",
        "tool c({x) → error no JSON",
        "thought: So.",
        "Done.",
    ]


def test_a_property_that_fails_is_none():
    """A foreign object may do what it likes when it is read."""

    class Message:
        role = "user"
        content = "Hi"

        @property
        def name(self):
            raise RuntimeError

    assert said(turn_of([Message()], "openai-chat")) == [("user", None, "Hi")]


def test_events_are_a_shape_as_well():
    """The default."""
    trace = [Said("Hi", "Ann"), ToolCall("x"), ToolResult("1")]
    assert turn_of(trace, "events") == turn_of(trace)
