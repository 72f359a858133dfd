"""A queue that is full, as it is seen over HTTP and by the client."""

from __future__ import annotations

import asyncio

import pytest
from fake_daemon import TOKEN, turn

from gralkord import Client
from gralkord.client.transport import Retry
from gralkord.errors import QueueFull
from gralkord.models import CaptureReceipt


def full(seconds=2.0):
    return QueueFull("3 captures wait to be routed", limit=3, hint="later", retry_after=seconds)


@pytest.fixture
def refuse(services, monkeypatch):
    """Make the daemon refuse the turns whose texts are in the list that is given back."""
    texts, take = [], services._take

    def refusing(tenant, one):
        return full(0.01) if one.turn[0].content in texts else take(tenant, one)

    monkeypatch.setattr(services, "_take", refusing)
    return texts


async def test_a_full_queue_is_429_and_says_when_to_come_again(http, refuse):
    """A refused capture names the limit, what to do, and the seconds to wait."""
    refuse.append("tea")
    answer = await http.post("/v1/capture", json=turn("tea"))
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    error = answer.json()["error"]
    assert (error["code"], error["limit"], error["retry"]) == ("queue_full", 3, True)
    assert error["hint"]
    assert (await http.post("/v1/capture", json=turn("coffee"))).status_code == 202


async def test_a_batch_is_refused_turn_by_turn(http, refuse):
    """In a batch the turns that are let in have their receipts, the others say that it is full."""
    refuse.append("tea")
    body = {"captures": [turn("tea"), turn("coffee", session="s2")]}
    answer = await http.post("/v1/captures", json=body)
    assert answer.status_code == 200
    refused, taken = answer.json()["results"]
    assert refused["error"]["code"] == "queue_full"
    assert refused["error"]["retry_after"] == 0.01
    assert taken["receipt"]["receipt"]


async def test_a_batch_of_which_nothing_is_taken_is_429(http, refuse):
    """When the queue is full for all turns of a batch, its answer says when to come again."""
    refuse.extend(["tea", "coffee"])
    body = {"captures": [turn("tea"), turn("coffee")]}
    answer = await http.post("/v1/captures", json=body)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    body = {"captures": [turn("tea"), {"session": "s"}]}
    answer = await http.post("/v1/captures", json=body)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 0)


async def test_the_client_sends_again_what_was_refused_for_now(daemon, services, refuse):
    """The client waits as it is told and sends only what is missing, until all of it is stored."""
    refuse.append("b")
    pauses = []

    class Opening(Retry):
        def pause(self, failure, *, tried, waited):
            pauses.append(failure.error.retry_after)
            refuse.clear()
            return 0.0

    def capture():
        with Client(daemon, TOKEN, retry=Opening()) as client:
            return client.capture_many([turn(text, turn_id=text) for text in "abc"])

    outcomes = await asyncio.to_thread(capture)
    assert [one.turn_id for one in outcomes] == ["a", "b", "c"]
    assert pauses == [0.01]
    assert [one.turn_id for _, one in services.turns] == ["a", "c", "b"]


async def test_the_client_stops_behind_what_stays_refused(daemon, services, refuse):
    """What is still refused in the end is an outcome, and the batches after it are not sent."""
    refuse.append("5")

    def capture():
        with Client(daemon, TOKEN, retry=Retry(retries=0)) as client:
            return client.capture_many([turn(str(n), turn_id=f"t{n}") for n in range(150)])

    outcomes = await asyncio.to_thread(capture)
    assert [n for n, one in enumerate(outcomes) if isinstance(one, QueueFull)] == [
        5,
        *range(100, 150),
    ]
    assert sum(isinstance(one, CaptureReceipt) for one in outcomes) == 99
    assert len(services.turns) == 99
