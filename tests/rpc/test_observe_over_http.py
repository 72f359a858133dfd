"""Observing and memories told outright over HTTP: requests read, clients, and commands."""

from __future__ import annotations

import json

import pytest
from fake_daemon import TOKEN

from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.errors import InvalidInput, NoModel, NotFound
from gralkord.models import Message
from gralkord.models.observe import ObserveDecision, ObserveResult
from gralkord.models.records import MemoryPage, MemoryRecord, MemoryResult

ADDED = ObserveDecision(
    action="add",
    id="m1",
    content="Ada likes\ttea\x1b[2J",
    kind="preference",
    confidence=0.9,
    importance=0.5,
    reason="new",
)


class FakeObserving:
    """Keeps what it was asked; decides to add one thing."""

    def __init__(self):
        self.asked = []
        self.complete = True
        self.fault = None

    async def observe(self, tenant, request):
        self.asked.append((tenant, request))
        if self.fault:
            raise self.fault
        return ObserveResult(
            id="7-1", complete=self.complete, decisions=[ADDED] if self.complete else [], left_out=2
        )


class FakeRecords:
    """Keeps what it was asked; knows one memory."""

    def __init__(self):
        self.asked = []

    async def add(self, tenant, request):
        self.asked.append((tenant, request))
        return MemoryResult(id="8-1", complete=True, memory="m1", created=True)

    async def update(self, tenant, memory, request):
        self.asked.append((tenant, memory, request))
        if memory == "gone":
            raise NotFound("the operator has no memory 'gone'", field="id")
        replaced = memory if request.content else None
        return MemoryResult(id="8-2", complete=False, memory="m2", replaced=replaced)

    async def page(self, tenant, query):
        self.asked.append((tenant, query))
        found = MemoryRecord(
            id="m1",
            content="Ada likes\ttea\x1b[2J",
            kind="preference",
            importance=1.0,
            lens="default",
            event_time="2024-05-01T00:00:00Z",
            invalidated=True,
            reason="updated",
        )
        return MemoryPage(memories=[found], next="2024/m1" if query.limit == 1 else None)


@pytest.fixture
def observing(services):
    """The operation of the daemon behind the app."""
    services.observing = FakeObserving()
    return services.observing


@pytest.fixture
def records(services):
    """The memories of the daemon behind the app."""
    services.records = FakeRecords()
    return services.records


async def test_an_observation_is_read_whole_and_answered_when_it_is_decided(http, observing):
    """Texts are the user's; the header names what the body does not; later is 202."""
    body = {
        "operator": "ada",
        "messages": ["Hi", {"role": "assistant", "content": "Hello", "speaker": "bot"}],
        "metadata": {"room": "lab"},
        "event_time": "2024-05-01",
    }
    headers = {"Idempotency-Key": "o1"}
    answer = await http.post("/v1/observe", json=body, headers=headers)
    assert answer.status_code == 200
    assert answer.json()["decisions"][0]["action"] == "add"
    [(tenant, request)] = observing.asked
    assert (tenant, request.id, request.lens, request.timeout_ms) == (
        "default",
        "o1",
        None,
        30_000,
    )
    assert [(one.role, one.content) for one in request.messages] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
    ]
    observing.complete = False
    answer = await http.post("/v1/observe", json={**body, "timeout_ms": 0, "id": "o2"})
    assert (answer.status_code, answer.json()["id"]) == (202, "7-1")
    assert observing.asked[1][1].id == "o2"
    observing.fault = NoModel("no language model is configured")
    answer = await http.post("/v1/observe", json=body)
    assert answer.json()["error"]["code"] == "no_model"
    assert observing.asked[2][1].id is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [5]}, "messages.0"),
        ({"messages": [{"role": "pirate", "content": "Arr"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": ["a\x00b"]}, "messages.0.content"),
        ({"messages": ["x" * 262_145]}, "messages"),
        ({"metadata": {"a": {"b": 1}}}, "metadata"),
        ({"operator": " "}, "operator"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_bad_observation_is_refused_with_its_place(http, observing, change, field):
    """The field that is wrong is named, and nothing is asked of the daemon."""
    body = {"operator": "ada", "messages": ["Hi"]} | change
    answer = await http.post("/v1/observe", json=body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert observing.asked == []


@pytest.mark.parametrize(
    ("method", "path", "change", "field"),
    [
        ("POST", "/v1/memories", {"content": " \u200b"}, "content"),
        ("POST", "/v1/memories", {"content": "x" * 2_001}, "content"),
        ("POST", "/v1/memories", {"content": "x", "kind": "fact"}, "kind"),
        ("POST", "/v1/memories", {"content": "x", "importance": -1}, "importance"),
        ("POST", "/v1/memories", {"content": "x", "tags": [" "]}, "tags.0"),
        ("PATCH", "/v1/memories/m1", {}, "content"),
        (
            "PATCH",
            "/v1/memories/m1",
            {"kind": "semantic", "event_time": "2024-05-01"},
            "event_time",
        ),
    ],
)
async def test_a_bad_memory_is_refused_with_its_place(http, records, method, path, change, field):
    """The field that is wrong is named, and nothing is asked of the daemon."""
    answer = await http.request(method, path, json={"operator": "ada"} | change)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert records.asked == []


async def test_both_clients_observe_and_name_what_they_send(daemon, observing):
    """Each observation has an id of its own, so that a retry is the same."""
    async with AsyncClient(daemon, TOKEN) as client:
        said = [Message(role="user", content="Hi"), "again", {"role": "system", "content": "x"}]
        result = await client.observe("ada", said, metadata={"a": 1}, source="chat")
        assert (result.decisions[0].id, result.left_out) == ("m1", 2)
        observing.complete = False
        assert not (await client.observe_later("ada", "Hi", id="mine")).complete
    with Client(daemon, TOKEN) as client:
        client.observe_later("ada", "Hi", agent="bot")
        with pytest.raises(InvalidInput):
            client.observe("ada", 5)
        with pytest.raises(InvalidInput, match="finite"):
            client.observe("ada", "Hi", timeout=float("inf"))
    first, second, third = (request for _, request in observing.asked)
    assert [one.role for one in first.messages] == ["user", "user", "system"]
    assert (second.id, second.timeout_ms, third.agent) == ("mine", 0, "bot")
    assert len({first.id, second.id, third.id}) == 3


@pytest.mark.parametrize(
    "alone", ["tea", {"role": "user", "content": "tea"}, Message(role="user", content="tea")]
)
def test_one_message_need_not_be_in_a_list(daemon, observing, alone):
    """It is not taken for its letters, or for the names of its fields."""
    with Client(daemon, TOKEN) as client:
        client.observe("ada", alone)
    [(_, asked)] = observing.asked
    assert [one.content for one in asked.messages] == ["tea"]


async def test_both_clients_tell_change_and_list_memories(daemon, records):
    """They send what is meant and give models and errors back."""
    async with AsyncClient(daemon, TOKEN) as client:
        added = await client.add_memory("ada", "Ada likes tea", tags=("a", "b"), importance=2)
        assert (added.memory, added.created) == ("m1", True)
        assert (await client.update_memory("ada", "m1", content="Coffee")).replaced == "m1"
        with pytest.raises(NotFound):
            await client.update_memory("ada", "gone", tags=[])
        assert (await client.memories("ada", tag="a")).memories[0].id == "m1"
    with Client(daemon, TOKEN) as client:
        client.add_memory("ada", "Ada likes tea", id="mine")
        client.update_memory("ada", "a b?", importance=0.5)
        assert client.memories("ada", include_invalidated=True, limit=1).next == "2024/m1"
        with pytest.raises(InvalidInput):
            client.update_memory("ada", "m1")
    assert records.asked[0][1].tags == ["a", "b"]
    assert records.asked[0][1].id
    assert records.asked[2][2].tags == []
    assert records.asked[4][1].id == "mine"
    assert records.asked[5][1] == "a b?"
    assert records.asked[6][1].include_invalidated


def test_the_command_observes(cli, observing, tmp_path):
    """A text, or a file; a line each decision, which commands no terminal."""
    code, out, _ = cli("observe", "I like tea", "-o", "ada", "--user", "Ada", "--id", "o1")
    assert (code, out.splitlines()[1]) == (0, "left out, not sure enough: 2")
    assert out.splitlines()[0] == "add\tm1\tpreference\tAda likes\\ttea\\x1b[2J\tnew"
    (tmp_path / "m.json").write_text(json.dumps([{"role": "assistant", "content": "Hello"}]))
    code, out, _ = cli("observe", "--file", str(tmp_path / "m.json"), "-o", "ada", "--json")
    assert (code, json.loads(out)["decisions"][0]["id"]) == (0, "m1")
    observing.complete = False
    code, out, _ = cli("observe", "I like tea", "-o", "ada", "--later")
    assert (code, out.splitlines()[0]) == (0, "not decided yet, request 7-1")
    assert cli("observe", "I like tea", "-o", "ada")[0] == 1
    assert observing.asked[0][1].id == "o1"
    cli("observe", "-", "-o", "ada", "--later", stdin=b"I like tea\n")
    assert observing.asked[-1][1].messages[0].content == "I like tea"
    for words in ((), ("x", "--file", "y.json"), ("--file", "/nowhere/x.json")):
        assert cli("observe", *words, "-o", "ada")[0] == 2
    assert cli("observe", "I like tea")[0] == 2


def test_the_command_tells_changes_and_lists(cli, records):
    """Ids are told between tabs, and what does not hold is marked."""
    code, out, _ = cli("memories", "add", "-", "-o", "ada", "--tag", "a", stdin=b"Ada likes tea\n")
    assert (code, out) == (0, "added\tm1\t-\n")
    assert (records.asked[0][1].content, records.asked[0][1].tags) == ("Ada likes tea", ["a"])
    code, out, _ = cli("memories", "update", "m1", "Coffee", "-o", "ada", "--timeout", "0")
    assert (code, out) == (1, "not done yet, request 8-2\n")
    assert cli("memories", "update", "m1", "-o", "ada")[0] == 2
    assert cli("memories", "update", "gone", "Coffee", "-o", "ada")[0] == 4
    code, out, err = cli("memories", "list", "-o", "ada", "-n", "1", "--kind", "preference")
    assert code == 0
    assert out == (
        "m1\tpreference\t1\t2024-05-01T00:00:00Z\t(invalid: updated) Ada likes\\ttea\\x1b[2J\n"
    )
    assert "--after 2024/m1" in err
