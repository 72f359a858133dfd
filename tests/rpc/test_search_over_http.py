"""Search over HTTP: requests read, both clients, and ``gralkord search``."""

from __future__ import annotations

import json

import pytest
from fake_daemon import TOKEN

from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.errors import InvalidInput
from gralkord.models import Memory
from gralkord.models.search import SearchResult
from gralkord.recall.block import memory_block

FOUND = (
    Memory(kind="passage", id="1", text="red\tboat", score=0.5, lens="default", speaker="Ada"),
    Memory(
        kind="learning",
        id="2",
        text="tar the \x1b[2Jboat",
        score=0.25,
        lens="global",
        origin="team",
        attributes={"success": True},
    ),
)


@pytest.fixture
def asked(services):
    """Return what the daemon behind the app is asked to search."""
    requests = []

    async def search(tenant, request):
        requests.append((tenant, request))
        found = [] if request.query == "nothing" else list(FOUND)
        return SearchResult(
            results=found,
            lenses=["default"],
            memory_block=memory_block(found, by_lens=True),
            took_ms=1.5,
        )

    services.search = search
    return requests


async def test_a_search_is_read_whole(http, asked):
    """Every field reaches the daemon; what is left out is left to the lenses."""
    body = {"operator": "ada", "query": "boat", "lenses": ["global"], "kinds": ["learning"]}
    answer = await http.post("/v1/search", json=body | {"agent": "helper", "max_results": 3})
    assert answer.status_code == 200
    assert [one["origin"] for one in answer.json()["results"]] == [None, "team"]
    await http.post("/v1/search", json={"operator": "ada", "query": "boat"})
    (_, first), (tenant, plain) = asked
    assert first.model_dump(include={*body, "agent", "max_results"}) == body | {
        "agent": "helper",
        "max_results": 3,
    }
    assert (tenant, plain.lenses, plain.kinds, plain.max_results) == ("default", [], [], None)


@pytest.mark.parametrize(
    ("field", "value"),
    [("query", " "), ("max_results", 0), ("kinds", ["boat"]), ("lens", "work"), ("operator", "")],
)
async def test_what_is_no_search_is_refused_by_name(http, asked, field, value):
    """Nothing is searched then."""
    answer = await http.post("/v1/search", json={"operator": "a", "query": "b", field: value})
    assert answer.status_code == 422
    assert answer.json()["error"]["field"].split(".")[0] == field
    assert asked == []


async def test_both_clients_search(daemon, asked):
    """They send the same, and refuse by themselves what is no search."""
    async with AsyncClient(daemon, TOKEN) as client:
        found = await client.search("ada", "boat", ["work"], max_results=2)
        with pytest.raises(InvalidInput):
            await client.search("ada", "boat", "work")
    with Client(daemon, TOKEN) as client:
        assert client.search("ada", "boat", ["work"], max_results=2) == found
    assert [one.lens for one in found.results] == ["default", "global"]
    assert asked[0] == asked[1]


def test_a_search_is_lines_when_piped(cli, asked):
    """Lens and origin stand first, and nothing of a text reaches the terminal as a command."""
    code, out, _ = cli("search", "boat", "-o", "ada", "--lens", "global", "--kind", "learning")
    assert code == 0
    assert out.splitlines() == [
        "default\t-\t0.500\t-\tAda\tred\\tboat",
        "global\tteam\t0.250\t-\tlearning\ttar the \\x1b[2Jboat",
    ]
    ((_, request),) = asked
    assert (request.lenses, request.kinds) == (["global"], ["learning"])


def test_a_search_is_an_object_when_asked_for(cli, asked):
    """With the block in which an agent reads it, also where nothing is found."""
    code, out, _ = cli("search", "nothing", "-o", "ada", "--json")
    assert code == 0
    assert "No relevant memories found." in json.loads(out)["memory_block"]


def test_a_search_looks_from_another_time_as_a_recall_does(cli, asked):
    """It takes the same options for that, and they are part of the question."""
    times = ("--as-of", "2020-01-01", "--known-at", "2021-02-03", "--zone", "Asia/Tokyo")
    code, _, _ = cli("search", "boat", "-o", "ada", *times, "--include-invalidated")
    assert code == 0
    ((_, request),) = asked
    moments = [moment.date().isoformat() for moment in (request.as_of, request.known_at)]
    assert moments == ["2020-01-01", "2021-02-03"]
    assert (request.include_invalidated, request.zone) == (True, "Asia/Tokyo")
