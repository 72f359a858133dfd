"""Filters, tiers and limits of tokens: over HTTP, of both clients, and on the command line."""

from __future__ import annotations

from itertools import pairwise

import pytest
import typer
from fake_daemon import TOKEN

from gralkord.cli.narrowing import conditions_of
from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.errors import InvalidInput
from gralkord.models import Memory, RecallResult
from gralkord.models.filters import Filters
from gralkord.models.search import SearchResult

FILTERS = {
    "metadata": {"room": ["kitchen", 2], "shelf": {"gte": 1}},
    "speaker": "Ada",
    "source": ["log"],
    "event_time": {"gte": "2024-05-01", "lte": "2024-05-31"},
}


@pytest.fixture
def asked(services):
    """Return what the daemon behind the app is asked to recall and to search."""
    requests = []

    async def recall(tenant, request):
        requests.append(request)
        return RecallResult(results=[], memory_block="block", tokens_estimate=2, took_ms=1.5)

    async def search(tenant, request):
        requests.append(request)
        return SearchResult(
            results=[], lenses=[], memory_block="block", tokens_estimate=2, took_ms=1.5
        )

    services.recall, services.search = recall, search
    return requests


@pytest.mark.parametrize("path", ["/v1/recall", "/v1/search"])
async def test_requests_are_read_whole(http, asked, path):
    """One name is a list of one, and a date as an end means all of that day."""
    body = {"operator": "ada", "query": "boat", "filters": FILTERS, "tier": 2, "max_tokens": 50}
    answer = await http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["tokens_estimate"] == 2
    (request,) = asked
    assert request.filters.metadata == FILTERS["metadata"]
    assert (request.filters.speaker, request.filters.source) == (["Ada"], ["log"])
    span = request.filters.event_time
    assert (span.gte.isoformat(), span.lte.isoformat()) == (
        "2024-05-01T00:00:00+00:00",
        "2024-05-31T23:59:59.999999+00:00",
    )
    assert (request.tier, request.max_tokens) == (2, 50)


@pytest.mark.parametrize("path", ["/v1/recall", "/v1/search"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("filters.metadata", {"metadata": {"room": []}}),
        ("filters.boat", {"boat": 1}),
        ("filters.event_time.lte", {"event_time": {"lte": "soon"}}),
        ("tier", 4),
        ("tier", "1"),
        ("max_tokens", 0),
        ("max_tokens", 1.5),
    ],
)
async def test_what_narrows_nothing_is_refused_by_name(http, asked, path, field, value):
    """Nothing is searched then."""
    body = {"operator": "ada", "query": "boat", field.split(".", maxsplit=1)[0]: value}
    answer = await http.post(path, json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == field
    assert asked == []


async def test_both_clients_narrow_down(daemon, asked):
    """Recall and search take the same, as a mapping or as `Filters`."""
    narrow = {"tier": 1, "max_tokens": 9}
    given = Filters(speaker=["Ada"])
    async with AsyncClient(daemon, TOKEN) as client:
        for ask in (client.recall, client.search):
            await ask("ada", "boat", filters={"speaker": "Ada"}, **narrow)
            with pytest.raises(InvalidInput):
                await ask("ada", "boat", tier=5)
    with Client(daemon, TOKEN) as client:
        for ask in (client.recall, client.search):
            ask("ada", "boat", filters=given, **narrow)
    assert len(asked) == 4
    assert {(each.tier, each.max_tokens) for each in asked} == {(1, 9)}
    assert all(one.filters == other.filters == given for one, other in pairwise(asked))


@pytest.mark.parametrize("tier", [None, 1])
async def test_a_tier_leaves_out_what_is_not_told(http, services, tier):
    """Names without a value cost tokens, too; without a tier all of them are there."""
    found = [Memory(kind="passage", id="1", text="", score=0.5, lens="default", source="log")]
    answer = RecallResult(results=found, memory_block="block", took_ms=1.5)

    async def recall(tenant, request):
        return answer

    services.recall = recall
    body = {"operator": "ada", "query": "boat"} | ({"tier": tier} if tier else {})
    told = (await http.post("/v1/recall", json=body)).json()
    assert RecallResult.model_validate(told) == answer
    names = {"kind", "id", "text", "score", "lens", "source"}
    assert set(told["results"][0]) == (names if tier else set(Memory.model_fields))


@pytest.mark.parametrize("command", ["recall", "search"])
def test_the_command_line_narrows_down(cli, asked, command):
    """Each option may be repeated where any of several will do."""
    options = ("--speaker", "Ada", "--speaker", "Bo", "--source", "log", "--from-session", "s")
    times = ("--since", "2024-05-01", "--until", "2024-05-31", "--tier", "3", "--max-tokens", "99")
    meta = ("--meta", "room=kitchen", "--meta", "shelf>=1", "--meta", "shelf<=2")
    code, _, err = cli(command, "boat", "-o", "ada", *options, *times, *meta)
    assert (code, err) == (0, "")
    (request,) = asked
    assert request.filters == Filters.model_validate(
        {
            "metadata": {"room": ["kitchen"], "shelf": {"gte": 1, "lte": 2}},
            "speaker": ["Ada", "Bo"],
            "source": "log",
            "session": "s",
            "event_time": {"gte": "2024-05-01", "lte": "2024-05-31"},
        }
    )
    assert (request.tier, request.max_tokens) == (3, 99)


def test_conditions_are_read_from_the_command_line():
    """What reads as a number or a truth value may be stored as that or as a text."""
    pairs = ["a=x=1", "b=2", "b=y", "c=true", 'd="2"', "e>=2024-05-01", "f=", "g=null"]
    assert conditions_of(pairs) == {
        "a": ["x=1"],
        "b": ["2", 2, "y"],
        "c": ["true", True],
        "d": ['"2"'],
        "e": {"gte": "2024-05-01"},
        "f": [""],
        "g": ["null"],
    }


@pytest.mark.parametrize("pairs", [["a"], ["=1"], ["a=1", "a>=1"], ["a<=1", "a<=2"]])
def test_what_is_no_condition_is_wrong_usage(pairs):
    """The option is named."""
    with pytest.raises(typer.BadParameter, match="--meta"):
        conditions_of(pairs)
