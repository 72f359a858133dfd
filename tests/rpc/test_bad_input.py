from __future__ import annotations

import json

import pytest
from fake_daemon import turn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gralkord.models import MAX_TURN_BYTES

JSON = {"Content-Type": "application/json"}


def said(content, role="user", **more):
    return [{"role": role, "content": content} | more]


def without(name):
    body = turn()
    del body[name]
    return body


FIELDS = [
    *[(f"{name} missing", without(name), name, "is missing") for name in turn()],
    *[
        (f"{name} blank", turn(**{name: " \u2003"}), name, "blank")
        for name in ("operator", "session", "agent", "user", "turn_id", "source", "offset")
    ],
    *[
        (f"{name} number", turn(**{name: 7}), name, "must be a text")
        for name in ("operator", "session", "agent", "user", "turn_id")
    ],
    *[
        (f"{name} long", turn(**{name: "é" * 129}), name, "258 bytes, the limit is 256")
        for name in ("operator", "session", "agent", "user", "turn_id")
    ],
    ("control in id", turn(operator="a\tb"), "operator", "control character U+0009"),
    ("NUL in id", turn(session="a\x00b"), "session", "control character U+0000"),
    ("role", turn(turn=said("x", role="system")), "turn.0.role", "'user', 'behaviour'"),
    ("role case", turn(turn=said("x", role="User")), "turn.0.role", "must be one of"),
    ("no message", turn(turn=[]), "turn", "at least 1"),
    ("empty turn", turn(turn=said(" \n") + said("")), "turn", "all messages are empty"),
    ("turn text", turn(turn="hello"), "turn", "must be a list"),
    ("message text", turn(turn=["hello"]), "turn.0", "must be an object"),
    ("content null", turn(turn=said(None)), "turn.0.content", "must be a text"),
    ("201 messages", turn(turn=said("x") * 201), "turn", "the limit is 200"),
    ("1 MB turn", turn("x" * 1_000_000), "turn", f"the limit is {MAX_TURN_BYTES} bytes"),
    ("NUL in text", turn("a\x00b"), "turn.0.content", "control character U+0000 at character 2"),
    ("C1 in id", turn(agent="a\x9bb"), "agent", "control character U+009B at character 2"),
    ("C1 in text", turn("a\x9b2J"), "turn.0.content", "control character U+009B"),
    ("escape in text", turn("a\x1b[2J"), "turn.0.content", "control character U+001B"),
    ("blank speaker", turn(turn=said("x", speaker="")), "turn.0.speaker", "blank"),
    ("unparsable time", turn(event_time="next week"), "event_time", "ISO 8601"),
    ("time as number", turn(event_time=1714555800), "event_time", "ISO 8601"),
    ("impossible time", turn(event_time="2024-02-30T00:00:00Z"), "event_time", "ISO 8601"),
    ("time before year 1", turn(event_time="0001-01-01T00:00:00+14:00"), "event_time", "years"),
    ("unknown field", turn(operater="x"), "operater", "no such field"),
    ("unknown nested", turn(turn=said("x", name="n")), "turn.0.name", "no such field"),
    ("17 lenses", turn(lenses=["default"] * 17), "lenses", "the limit is 16"),
    ("blank lens", turn(lenses=["default", ""]), "lenses.1", "blank"),
]


@pytest.mark.parametrize(
    ("body", "field", "words"), [case[1:] for case in FIELDS], ids=[case[0] for case in FIELDS]
)
async def test_a_bad_field_is_named(http, services, body, field, words):
    """The answer names field and fault, nothing is stored, and the next capture works."""
    answer = await http.post("/v1/capture", json=body)

    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "invalid_input"
    assert error["field"] == field
    assert error["retry"] is False
    assert words in error["message"]
    assert len(answer.content) < 600
    assert services.calls == 0
    assert (await http.post("/v1/capture", json=turn())).status_code == 202


async def test_a_far_future_time_is_the_daemons_to_refuse(http, services):
    """What the daemon refuses about a time comes back as 422 on that field."""
    answer = await http.post("/v1/capture", json=turn(event_time="2999-01-01T00:00:00Z"))

    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == "event_time"
    assert services.turns == []


async def test_a_limit_is_a_number_too(http):
    """The limit stands in the message and by itself."""
    answer = await http.post("/v1/capture", json=turn("x" * (MAX_TURN_BYTES + 1)))

    assert answer.json()["error"]["limit"] == MAX_TURN_BYTES


async def test_a_misspelt_field_is_guessed(http):
    """The hint says which field was meant."""
    answer = await http.post("/v1/capture", json=turn(operater="x"))

    assert answer.json()["error"]["hint"] == "did you mean operator?"


async def test_a_turn_of_exactly_the_limit_is_taken(http):
    """The limit itself is allowed."""
    answer = await http.post("/v1/capture", json=turn("x" * MAX_TURN_BYTES))

    assert answer.status_code == 202


BODIES = [
    ("empty", b"", "is empty"),
    ("cut off", b'{"session": "s', "the body is not JSON"),
    ("words", b"session=s", "at line 1 column 1"),
    ("invalid UTF-8", b'{"session": "\xff"}', "byte 14 is not valid UTF-8"),
    ("lone surrogate", b'{"session": "\\ud83d"}', "lone surrogate"),
    ("low surrogate", b'{"session": "\\udc00"}', "lone surrogate"),
    ("NaN", b'{"session": NaN}', "line 1 column 13"),
    ("Infinity", b'{"session": -Infinity}', "the body is not JSON"),
    ("deep", b"[" * 5000 + b"]" * 5000, "depth limit"),
    ("two values", b"{} {}", "the body is not JSON"),
    ("UTF-16", '{"session": "s"}'.encode("utf-16"), "not valid UTF-8"),
]


@pytest.mark.parametrize(
    ("body", "words"), [case[1:] for case in BODIES], ids=[case[0] for case in BODIES]
)
@pytest.mark.parametrize("path", ["capture", "captures", "flush", "recall"])
async def test_a_body_that_is_not_json_is_refused(http, services, path, body, words):
    """The answer is 400 and says where the JSON is broken."""
    answer = await http.post(f"/v1/{path}", content=body, headers=JSON)

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "malformed"
    assert words in error["message"]
    assert set(error) >= {"code", "message", "field", "limit", "retry"}
    assert services.calls == 0


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"3"])
async def test_a_body_must_be_an_object(http, body):
    """JSON of another kind is 422."""
    answer = await http.post("/v1/recall", content=body, headers=JSON)

    assert answer.status_code == 422
    assert "must be a JSON object" in answer.json()["error"]["message"]


RECALLS = [
    ({}, "operator"),
    ({"operator": "a"}, "query"),
    ({"operator": "a", "query": "  "}, "query"),
    ({"operator": "a", "query": "x" * 8001}, "query"),
    ({"operator": "a", "query": "a\x00"}, "query"),
    ({"operator": "a", "query": "x", "max_results": 0}, "max_results"),
    ({"operator": "a", "query": "x", "max_results": 201}, "max_results"),
    ({"operator": "a", "query": "x", "max_results": "5"}, "max_results"),
    ({"operator": "a", "query": "x", "max_results": True}, "max_results"),
    ({"operator": "a", "query": "x", "max_results": 1e30}, "max_results"),
    ({"operator": "a", "query": "x", "deadline_ms": 0}, "deadline_ms"),
    ({"operator": "a", "query": "x", "deadline_ms": -5}, "deadline_ms"),
    ({"operator": "a", "query": "x", "on_deadline": "wait"}, "on_deadline"),
    ({"operator": "a", "query": "x", "limit": 5}, "limit"),
]


@pytest.mark.parametrize(("body", "field"), RECALLS)
async def test_a_bad_recall_is_named(http, services, body, field):
    """A recall that does not fit is 422 with its field, and the next one works."""
    answer = await http.post("/v1/recall", json=body)

    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == field
    assert services.calls == 0
    good = await http.post("/v1/recall", json={"operator": "a", "query": "x"})
    assert good.status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "session"),
        ({"session": ""}, "session"),
        ({"session": "s", "until": "done"}, "until"),
        ({"session": "s", "wait": "yes"}, "wait"),
        ({"session": "s", "timeout_ms": 0}, "timeout_ms"),
        ({"session": "s", "timeout_ms": 600_001}, "timeout_ms"),
    ],
)
async def test_a_bad_flush_is_named(http, services, body, field):
    """A flush that does not fit is 422 with its field."""
    answer = await http.post("/v1/flush", json=body)

    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == field
    assert services.calls == 0


names = st.sampled_from([*turn(), "turn_id", "event_time", "lenses", "captures", "query", "wait"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["user"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names | st.sampled_from(["role", "content"]), inner, max_size=4)
    ),
    max_leaves=12,
)
bodies = st.binary(max_size=40) | st.dictionaries(names, values).map(
    lambda value: json.dumps(value).encode()
)


@given(path=st.sampled_from(["capture", "captures", "flush", "recall", "backfill"]), body=bodies)
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_no_body_makes_the_daemon_fail(http, path, body):
    """Whatever is sent is taken or refused in the one form."""
    answer = await http.post(f"/v1/{path}", content=body, headers=JSON)

    assert answer.status_code in {200, 202, 400, 422}
    if answer.status_code >= 400:
        assert set(answer.json()["error"]) >= {"code", "message", "field", "limit", "retry"}
        assert len(answer.content) < 1000
