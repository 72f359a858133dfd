"""Single memories, sources and times of recall over HTTP: routes, both clients, the commands."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from fake_daemon import TOKEN, turn

from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.errors import InvalidInput, NotFound
from gralkord.models import Capture
from gralkord.models.memories import (
    ChangeResult,
    MemoryHistory,
    Provenance,
    SaidBy,
    StoredMemory,
    Supersession,
)
from gralkord.models.sources import SourceContent, SourceEntry, SourcePage, SourceSummary

MEMORY = StoredMemory(kind="fact", id="f1", lens="default", text="Ada lives\x1b[2J in Rome")
HISTORY = MemoryHistory(
    memory=MEMORY,
    superseded=Supersession(id="f2", reason="same_entities", at="2024-05-01T09:30:00Z"),
    provenance=[
        Provenance(
            episode="e1",
            passages=[
                SaidBy(id="p1", speaker="Ada", session="s1", turn_id="t1", event_time="2024-05-01")
            ],
        )
    ],
)
SOURCE = "books/\u00fcber: a?b#c"


class FakeMemories:
    """Keeps what it is asked; knows one fact and one source of `ada`."""

    def __init__(self):
        self.asked = []

    def _note(self, tenant, *asked):
        self.asked.append((tenant, *asked))

    async def show(self, tenant, memory, query):
        self._note(tenant, memory, query)
        if (query.operator, memory) != ("ada", "f1"):
            raise NotFound(f"the operator has no memory {memory!r}", field="id")
        return MEMORY

    async def history(self, tenant, memory, query):
        self._note(tenant, memory, query)
        return HISTORY

    async def invalidate(self, tenant, request):
        self._note(tenant, request)
        left = {one: "not_found" for one in request.ids if one != "f1"}
        return ChangeResult(passages=3 if request.source else 0, facts=len(request.ids), left=left)

    async def reactivate(self, tenant, request):
        return await self.invalidate(tenant, request)

    async def undo(self, tenant, request):
        self._note(tenant, request)
        return HISTORY

    async def page(self, tenant, query):
        self._note(tenant, query)
        one = SourceSummary(
            source=SOURCE, passages=3, invalidated=1, facts=2, first="2024-05-01T09:30:00Z",
            last="2024-06-01T09:30:00Z",
        )  # fmt: skip
        return SourcePage(sources=[one], next=SOURCE if query.limit == 1 else None)

    async def content(self, tenant, source, query):
        self._note(tenant, source, query)
        if source != SOURCE:
            raise NotFound(f"the operator has nothing of the source {source!r}", field="source")
        entry = SourceEntry(
            id="p1", lens="default", offset="12", checksum="ab", session="s1", turn_id="t1", part=0,
            event_time="2024-05-01T09:30:00Z", created_at="2024-05-01T09:31:00Z", invalidated=True,
            reason="wrong", facts=["f1"],
        )  # fmt: skip
        return SourceContent(source=source, entries=[entry])


@pytest.fixture
def memories(services):
    """The memories and sources behind the app."""
    services.memories = services.sources = FakeMemories()
    return services.memories


async def test_a_memory_is_shown_to_its_operator_only(http, memories):
    """The operator is needed, and another one's memories are not there."""
    answer = await http.get("/v1/memories/f1", params={"operator": "ada"})
    assert StoredMemory.model_validate(answer.json()) == MEMORY
    assert (await http.get("/v1/memories/f1")).status_code == 422
    other = await http.get("/v1/memories/f1", params={"operator": "bob"})
    assert (other.status_code, other.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "operator"),
        ({"operator": "ada"}, "ids"),
        ({"operator": "ada", "ids": ["f1"], "source": "s"}, "ids"),
        ({"operator": "ada", "ids": ["f1"], "offset": "1"}, "offset"),
        ({"operator": "ada", "ids": ["f1"], "reason": "x" * 501}, "reason"),
        ({"operator": "ada", "ids": ["f1"], "valid_until": "soon"}, "valid_until"),
        ({"operator": "ada", "ids": ["f1"] * 1_001}, "ids"),
    ],
)
async def test_what_cannot_be_invalidated_is_refused(http, memories, body, field):
    """The refusal names the field."""
    answer = await http.post("/v1/memories/invalidate", json=body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert memories.asked == []


async def test_a_source_of_any_name_is_asked_for(daemon, memories):
    """Slashes, marks and letters of a name come through, to the asynchronous client as well."""
    async with AsyncClient(daemon, TOKEN) as client:
        found = await client.source("ada", SOURCE, offset="12")
        assert (found.source, found.entries[0].checksum) == (SOURCE, "ab")
        with pytest.raises(NotFound):
            await client.source("ada", "other")
        with pytest.raises(InvalidInput):
            await client.source("ada", "..")
        page = await client.sources("ada", limit=1)
        assert page.next == page.sources[0].source == SOURCE


async def test_the_asynchronous_client_corrects(daemon, memories):
    """Times may be moments or texts; the answers are models."""
    async with AsyncClient(daemon, TOKEN) as client:
        until = datetime(2024, 6, 1, tzinfo=UTC)
        done = await client.invalidate("ada", ["f1", "f9"], reason="wrong", valid_until=until)
        assert (done.facts, done.left) == (2, {"f9": "not_found"})
        assert memories.asked[-1][1].valid_until == until
        assert (await client.reactivate("ada", source="s", offset="1")).passages == 3
        assert await client.memory("ada", "f1") == MEMORY
        assert await client.memory_history("ada", "f1", text=True) == HISTORY
        assert memories.asked[-1][2].text is True
        assert await client.undo_supersession("ada", "f1", by="f2") == HISTORY


def test_the_synchronous_client_corrects(daemon, memories):
    """The same, one call after the other."""
    with Client(daemon, TOKEN) as client:
        assert client.invalidate("ada", "f1").facts == 1
        assert client.reactivate("ada", ["f1"]).left == {}
        assert client.memory("ada", "f1") == MEMORY
        assert client.memory_history("ada", "f1") == HISTORY
        assert client.undo_supersession("ada", "f1") == HISTORY
        assert client.sources("ada").sources[0].facts == 2
        assert client.source("ada", SOURCE).entries[0].facts == ["f1"]


def test_a_recall_asks_for_times(daemon, services, memories):
    """`as_of` and `known_at` come to the daemon as moments; a zone has to exist."""
    asked = []

    async def recall(tenant, request):
        asked.append(request)
        return await type(services).recall(services, tenant, request)

    services.recall = recall
    with Client(daemon, TOKEN) as client:
        client.recall("ada", "tea", as_of="2020-01-01", known_at=datetime(2021, 1, 1, tzinfo=UTC))
        client.recall("ada", "tea", include_invalidated=True)
        client.recall("ada", "tea", zone="Europe/Berlin")
        for wrong in ({"as_of": "last week"}, {"zone": "Mars/Phobos"}, {"zone": "Europe"}):
            with pytest.raises(InvalidInput):
                client.recall("ada", "tea", **wrong)
    first, second, third = asked
    assert first.as_of == datetime(2020, 1, 1, tzinfo=UTC)
    assert first.known_at == datetime(2021, 1, 1, tzinfo=UTC)
    assert (second.as_of, second.include_invalidated) == (None, True)
    assert (second.zone, third.zone) == (None, "Europe/Berlin")


def test_metadata_of_a_capture_comes_to_the_daemon(daemon, services):
    """From the client's argument as from a mapping."""
    with Client(daemon, TOKEN) as client:
        client.capture("s1", "ada", "helper", "Ada", "tea", metadata={"page": 3})
        client.capture_many([turn(metadata={"tags": ["a"]})])
    assert [one.metadata for _, one in services.turns] == [{"page": 3}, {"tags": ["a"]}]


def test_memories_are_corrected_from_the_command_line(cli, memories):
    """Each command prints what was done, and ends with 4 if something was not there."""
    code, out, _ = cli("memories", "invalidate", "f1", "f9", "-o", "ada", "--reason", "wrong")
    assert (code, out.splitlines()) == (
        4,
        ["invalidated: 0 passages, 2 facts", "left: f9 (not_found)"],
    )
    assert memories.asked[-1][1].reason == "wrong"
    code, out, _ = cli("memories", "reactivate", "--source", "s", "-o", "ada", "--json")
    assert (code, json.loads(out)["passages"]) == (0, 3)
    assert cli("memories", "invalidate", "-o", "ada")[0] == 2
    assert cli("memories", "invalidate", "f1", "--offset", "1", "-o", "ada")[0] == 2
    assert cli("memories", "invalidate", "f1")[0] == 2


def test_memories_are_shown_on_the_command_line(cli, memories):
    """Nothing of a memory commands the terminal; what is not there ends with 4."""
    code, out, _ = cli("memories", "show", "f1", "-o", "ada")
    assert code == 0
    assert r"text: Ada lives\x1b[2J in Rome" in out
    assert cli("memories", "show", "f9", "-o", "ada")[0] == 4
    code, out, _ = cli("memories", "history", "f1", "-o", "ada", "--text")
    assert code == 0
    assert "reason: same_entities" in out
    assert "turn_id: t1" in out
    assert json.loads(cli("memories", "undo", "f1", "-o", "ada", "--json")[1])["superseded"]


def test_sources_are_told_on_the_command_line(cli, memories):
    """Piped, one line a source or a passage."""
    code, out, err = cli("sources", "list", "-o", "ada", "-n", "1")
    assert (code, out.split("\t")[:4]) == (0, [SOURCE, "3", "1", "2"])
    assert err == f"more: --after {SOURCE}\n"
    code, out, _ = cli("sources", "show", SOURCE, "-o", "ada")
    assert out.rstrip("\n").split("\t")[:3] == ["p1", "12", "ab"]
    assert out.endswith("\tinvalidated\n")
    assert cli("sources", "show", "other", "-o", "ada")[0] == 4
    assert cli("sources", "invalidate", SOURCE, "-o", "ada")[:2] == (
        0,
        "invalidated: 3 passages, 0 facts\n",
    )


def test_a_place_and_metadata_are_captured_from_the_command_line(cli, services):
    """`--source`, `--offset` and `--meta` are fields of the capture."""
    who = ("-o", "ada", "-s", "s1", "-a", "helper", "-u", "Ada")
    place = ("--source", "notes.md", "--offset", "12", "--meta", "topic=tea=hot", "--meta", "x=")
    assert cli("capture", "tea", *who, *place)[0] == 0
    [(_, taken)] = services.turns
    assert (taken.source, taken.offset, taken.metadata) == (
        *("notes.md", "12", {"topic": "tea=hot", "x": ""}),
    )
    assert taken.turn_id.startswith("place-")
    assert cli("capture", "tea", *who, "--meta", "topic")[0] == 2


def test_a_recall_of_the_command_line_tells_what_is_invalidated(cli, services):
    """It takes the times, and marks what does not hold any more."""
    services.turns.append(("default", _capture()))

    async def recall(tenant, request):
        found = await type(services).recall(services, tenant, request)
        assert request.as_of == datetime(2020, 1, 1, tzinfo=UTC)
        marked = [one.model_copy(update={"invalidated": True}) for one in found.results]
        return found.model_copy(update={"results": marked})

    services.recall = recall
    options = ("--as-of", "2020-01-01", "--known-at", "2021-01-01", "--include-invalidated")
    code, out, _ = cli("recall", "tea", "-o", "ada", *options)
    assert (code, out.rstrip("\n").split("\t")[-1]) == (0, "invalidated")


def _capture() -> Capture:
    return Capture.model_validate(turn())
