from __future__ import annotations

import pytest
from fake_daemon import turn

from gralkord.errors import BackendUnavailable, QueueFull


async def test_a_turn_is_answered_with_a_receipt(http, services):
    """A capture is stored and answered 202 with its receipt."""
    answer = await http.post("/v1/capture", json=turn(turn_id="t1"))

    assert answer.status_code == 202
    assert answer.json() == {
        "receipt": "1-0",
        "turn_id": "t1",
        "duplicate": False,
        "durability": "always",
        "notes": [],
    }
    assert services.turns[0][1].turn[0].content == "Ada likes tea"


async def test_operators_stay_apart(http):
    """What one operator captured is not recalled for another."""
    await http.post("/v1/capture", json=turn("tea in the morning", operator="ada", session="a"))
    await http.post("/v1/capture", json=turn("tea in the evening", operator="ben", session="b"))

    answer = await http.post("/v1/recall", json={"operator": "ben", "query": "tea"})

    assert [one["text"] for one in answer.json()["results"]] == ["tea in the evening"]


async def test_the_idempotency_key_names_the_turn(http, services):
    """The header is the turn's id when the body has none, in UTF-8."""
    answer = await http.post(
        "/v1/capture", json=turn(), headers={"Idempotency-Key": "clé-1".encode()}
    )
    again = await http.post(
        "/v1/capture", json=turn(), headers={"Idempotency-Key": "clé-1".encode()}
    )

    assert answer.json()["turn_id"] == "clé-1"
    assert again.json()["duplicate"] is True
    assert len(services.turns) == 1


async def test_the_id_in_the_body_wins(http):
    """An id in the body is kept though there is an idempotency key."""
    answer = await http.post(
        "/v1/capture", json=turn(turn_id="mine"), headers={"Idempotency-Key": "other"}
    )

    assert answer.json()["turn_id"] == "mine"


@pytest.mark.parametrize("key", [b" ", b"k" * 257, b"\xff"])
async def test_a_bad_idempotency_key_is_refused(http, services, key):
    """A key that is blank, too long or not UTF-8 is refused and nothing is stored."""
    answer = await http.post("/v1/capture", json=turn(), headers={"Idempotency-Key": key})

    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == "Idempotency-Key"
    assert services.calls == 0


@pytest.mark.parametrize("time", ["2024-05-01T09:30:00", "2024-05-01 09:30", "2024-05-01"])
async def test_a_time_without_a_zone_is_noted(http, services, time):
    """A time without a zone is taken as UTC, and the receipt says so."""
    answer = await http.post("/v1/capture", json=turn(event_time=time))

    [note] = answer.json()["notes"]
    assert "no zone" in note
    assert services.turns[0][1].event_time.utcoffset().total_seconds() == 0


@pytest.mark.parametrize("time", ["2024-05-01T09:30:00Z", "2024-05-01T09:30:00+14:00", None])
async def test_a_time_with_a_zone_needs_no_note(http, time):
    """A time with a zone, or none at all, needs no note."""
    answer = await http.post("/v1/capture", json=turn(event_time=time))

    assert answer.json()["notes"] == []


ODD_IDS = [
    "0b9d5f3e-5c1c-4a7e-9a76-6d7b8f9c0d1e",
    "ada@example.com",
    "team/a/b",
    "🦊🌿",
    "مرحبا",
    "  leading blanks",
    "the",
    "IT",
    "a:b*?[c]",
    "x" * 256,
    "é" * 128,
]


@pytest.mark.parametrize("name", ODD_IDS)
async def test_any_text_can_be_an_id(http, services, name):
    """Ids of every kind arrive unchanged."""
    answer = await http.post("/v1/capture", json=turn(operator=name, session=name, turn_id=name))

    assert answer.status_code == 202
    [(_, capture)] = services.turns
    assert (capture.operator, capture.session, capture.turn_id) == (name, name, name)


async def test_a_session_that_changes_operator_is_refused(http, services):
    """The answer is 409 and names both operators."""
    await http.post("/v1/capture", json=turn(operator="ada"))
    answer = await http.post("/v1/capture", json=turn(operator="ben"))

    assert answer.status_code == 409
    error = answer.json()["error"]
    assert error["code"] == "session_conflict"
    assert "ada" in error["message"]
    assert "ben" in error["message"]
    assert len(services.turns) == 1


async def test_an_unknown_lens_is_refused(http):
    """The answer is 422 and names the lens."""
    answer = await http.post("/v1/capture", json=turn(lenses=["work"]))

    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "unknown_lens"


async def test_a_batch_keeps_its_order_and_survives_bad_items(http, services):
    """Each item of a batch is answered by itself, under its index."""
    answer = await http.post(
        "/v1/captures",
        json={
            "captures": [
                turn("one", turn_id="1"),
                turn("two", operator=" "),
                "three",
                turn("four", turn_id="4", event_time="2024-05-01"),
                turn("five", operator="ben"),
                turn("six", turn=[{"role": "user", "content": ""}]),
            ]
        },
    )

    assert answer.status_code == 200
    body = answer.json()
    assert body["accepted"] == 2
    assert [one["index"] for one in body["results"]] == list(range(6))
    assert body["results"][0]["receipt"]["turn_id"] == "1"
    assert body["results"][1]["error"]["field"] == "captures.1.operator"
    assert body["results"][2]["error"]["field"] == "captures.2"
    assert "no zone" in body["results"][3]["receipt"]["notes"][0]
    assert body["results"][4]["error"]["code"] == "session_conflict"
    assert body["results"][5]["error"]["field"] == "captures.5.turn"
    assert [capture.turn[0].content for _, capture in services.turns] == ["one", "four"]


async def test_a_batch_without_a_good_item_asks_no_back_end(http, services):
    """A batch of bad items only is answered without a call."""
    answer = await http.post("/v1/captures", json={"captures": [turn(user="")]})

    assert answer.json()["accepted"] == 0
    assert services.calls == 0


async def test_an_idempotency_key_names_each_turn_of_a_batch(http, services):
    """A repeated batch under one key adds nothing."""
    for _ in range(2):
        answer = await http.post(
            "/v1/captures",
            json={"captures": [turn("one"), turn("two")]},
            headers={"Idempotency-Key": "b"},
        )

    assert [one["receipt"]["turn_id"] for one in answer.json()["results"]] == ["b:0", "b:1"]
    assert all(one["receipt"]["duplicate"] for one in answer.json()["results"])
    assert len(services.turns) == 2


@pytest.mark.parametrize("captures", [[], [turn()] * 101, {}, None, "x"])
async def test_a_batch_has_1_to_100_captures(http, services, captures):
    """Another number, or no list, is refused as a whole."""
    answer = await http.post("/v1/captures", json={"captures": captures})

    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == "captures"
    assert answer.json()["error"]["limit"] == 100
    assert services.calls == 0


async def test_a_batch_has_no_other_field(http):
    """An unknown field beside `captures` is refused."""
    answer = await http.post("/v1/captures", json={"captures": [turn()], "operator": "ada"})

    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == "operator"


@pytest.mark.parametrize(
    ("fault", "status", "wait"),
    [
        (QueueFull("the queue is full", retry_after=7.2), 429, "8"),
        (BackendUnavailable("the queue does not answer"), 503, "1"),
    ],
)
async def test_a_refusal_for_now_says_when_to_come_back(http, services, fault, status, wait):
    """Back-pressure and outages carry Retry-After and are marked as worth a retry."""
    services.fault = fault
    one = await http.post("/v1/capture", json=turn())
    many = await http.post("/v1/captures", json={"captures": [turn()]})

    for answer in (one, many):
        assert answer.status_code == status
        assert answer.headers["Retry-After"] == wait
        assert answer.json()["error"]["retry"] is True
