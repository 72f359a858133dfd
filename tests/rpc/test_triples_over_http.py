"""Triples and answers over HTTP: requests read, clients, and ``gralkord triples``."""

from __future__ import annotations

import json

import pytest
from fake_daemon import TOKEN

from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.errors import InvalidInput, NotFound
from gralkord.models.results import Result
from gralkord.models.triples import (
    AddedTriple,
    StoredTriple,
    TripleEnd,
    TriplePage,
    TriplesResult,
)


class FakeTriples:
    """Keeps what it was asked; knows one fact."""

    def __init__(self):
        self.asked = []
        self.complete = True

    async def add(self, tenant, request):
        self.asked.append((tenant, request))
        added = [
            AddedTriple(
                id=f"f{place}",
                created=True,
                subject=TripleEnd(id="e1", name=each.subject.term or each.subject.name),
                predicate=each.predicate,
                object=TripleEnd(id="e2", name=each.object.term),
            )
            for place, each in enumerate(request.triples)
        ]
        return TriplesResult(
            id="7-1", complete=self.complete, triples=added if self.complete else []
        )

    async def find(self, tenant, query):
        self.asked.append((tenant, query))
        found = StoredTriple(
            id="f1",
            subject=TripleEnd(id="e1", name="Ada\x1b[2J"),
            predicate="WORKS_AT",
            object=TripleEnd(id="e2", name="Acme"),
            fact="Ada works at Acme",
            valid_at="2024-05-01T00:00:00Z",
        )
        return TriplePage(triples=[found], next="5-f1" if query.limit == 1 else None)


class FakeResults:
    """One answer, one refusal."""

    async def result(self, tenant, request):
        if request == "7-1":
            return Result(id=request, complete=True, answer={"triples": []})
        raise NotFound("triples.0.subject: no entity has this id", field="triples.0.subject")


@pytest.fixture
def triples(services):
    """Triples of the daemon behind the app."""
    services.triples, services.results = FakeTriples(), FakeResults()
    return services.triples


TRIPLE = {"subject": "Ada", "predicate": "WORKS_AT", "object": "Acme"}


async def test_triples_are_added(http, triples):
    """What comes is read whole; the answer is 200 when it is done, 202 when it is not."""
    body = {
        "operator": "ada",
        "triples": [
            TRIPLE | {"valid_at": "2024-05-01", "confidence": 1, "supersede": True},
            TRIPLE | {"subject": {"name": "Ada", "handles": ["ada@example.com"]}},
        ],
    }
    answer = await http.post("/v1/triples", json=body)
    assert (answer.status_code, len(answer.json()["triples"])) == (200, 2)
    [(tenant, request)] = triples.asked
    assert (tenant, request.lens, request.timeout_ms) == ("default", "default", 30_000)
    assert request.triples[0].valid_at.isoformat() == "2024-05-01T00:00:00+00:00"
    assert request.triples[1].subject.handles == ["ada@example.com"]
    triples.complete = False
    answer = await http.post("/v1/triples", json=body)
    assert (answer.status_code, answer.json()["complete"]) == (202, False)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"subject": " \u200b"}, "triples.0.subject"),
        ({"subject": {}}, "triples.0.subject"),
        ({"subject": {"term": "a", "name": "b"}}, "triples.0.subject.term"),
        ({"subject": 5}, "triples.0.subject"),
        ({"predicate": ""}, "triples.0.predicate"),
        ({"object": "x" * 251}, "triples.0.object"),
        ({"fact": "a\x00b"}, "triples.0.fact"),
        ({"valid_at": "2024-02-01", "invalid_at": "2024-01-01"}, "triples.0.invalid_at"),
        ({"valid_at": "soon"}, "triples.0.valid_at"),
        ({"confidence": 2}, "triples.0.confidence"),
        ({"colour": "red"}, "triples.0.colour"),
    ],
)
async def test_a_bad_triple_is_refused_with_its_place(http, triples, change, field):
    """The field that is wrong is named, and nothing is asked of the daemon."""
    answer = await http.post("/v1/triples", json={"operator": "ada", "triples": [TRIPLE | change]})
    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == field
    assert triples.asked == []


async def test_a_long_name_is_told_in_characters(http, triples):
    """A text that is too long is no list of too many entries."""
    body = {"operator": "ada", "triples": [TRIPLE | {"predicate": "x" * 251}]}
    error = (await http.post("/v1/triples", json=body)).json()["error"]
    assert error["message"] == "triples.0.predicate: is too long, the limit is 250 characters"
    assert error["limit"] == 250


async def test_as_many_as_100_are_taken(http, triples):
    """More, or none, are refused."""
    for count, status in ((100, 200), (101, 422), (0, 422)):
        answer = await http.post("/v1/triples", json={"operator": "a", "triples": [TRIPLE] * count})
        assert answer.status_code == status


async def test_triples_are_asked_for(http, triples):
    """Each part of the question is a parameter."""
    answer = await http.get(
        "/v1/triples",
        params={
            "operator": "ada",
            "subject": "Ada & Co",
            "as_of": "2024-05-01T00:00:00+02:00",
            "include_invalidated": "true",
            "limit": "1",
        },
    )
    assert (answer.status_code, answer.json()["next"]) == (200, "5-f1")
    [(_, query)] = triples.asked
    assert (query.subject, query.include_invalidated, query.limit) == ("Ada & Co", True, 1)
    assert query.as_of.isoformat() == "2024-04-30T22:00:00+00:00"
    answer = await http.get("/v1/triples")
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "operator")


async def test_both_clients_add_ask_and_look_up(daemon, triples):
    """They send what is meant and give models and errors back."""
    async with AsyncClient(daemon, TOKEN) as client:
        assert (await client.add_triples("ada", [TRIPLE])).triples[0].id == "f0"
        assert (await client.triples("ada", "Ada", as_of="2024-05-01")).triples[0].id == "f1"
        assert (await client.result("7-1")).complete
        with pytest.raises(NotFound):
            await client.result("7-2")
    with Client(daemon, TOKEN) as client:
        assert client.add_triples("ada", [TRIPLE], timeout=0).complete
        assert client.triples("ada", include_invalidated=True).next is None
        assert client.result("7-1").answer == {"triples": []}
        with pytest.raises(InvalidInput):
            client.add_triples("ada", [TRIPLE | {"predicate": " "}])
    assert triples.asked[2][1].timeout_ms == 0
    assert triples.asked[3][1].include_invalidated


def test_the_command_adds_and_finds(cli, triples, tmp_path):
    """A triple on the command line, a file of them, and a question; nothing commands the terminal."""
    code, out, _ = cli("triples", "add", "Ada", "WORKS_AT", "Acme", "-o", "ada", "--supersede")
    assert (code, out) == (0, "f0\tadded\tAda\tWORKS_AT\tAcme\n")
    assert triples.asked[0][1].triples[0].supersede
    (tmp_path / "t.json").write_text(json.dumps([TRIPLE, TRIPLE]))
    code, out, _ = cli("triples", "add", "--file", str(tmp_path / "t.json"), "-o", "ada", "--json")
    assert (code, len(json.loads(out)["triples"])) == (0, 2)
    code, out, err = cli("triples", "query", "-o", "ada", "--subject", "Ada", "-n", "1")
    assert code == 0
    assert out == ("f1\tAda\\x1b[2J\tWORKS_AT\tAcme\t2024-05-01T00:00:00Z\t-\tAda works at Acme\n")
    assert "--after 5-f1" in err
    triples.complete = False
    code, out, _ = cli("triples", "add", "Ada", "LIKES", "tea", "-o", "ada", "--timeout", "0")
    assert (code, out) == (1, "not added yet, request 7-1\n")


@pytest.mark.parametrize(
    "words",
    [
        ("Ada", "WORKS_AT", "-o", "ada"),
        ("Ada", "WORKS_AT", "Acme"),
        ("Ada", "WORKS_AT", "Acme", "--file", "x.json", "-o", "ada"),
        ("--file", "/nowhere/x.json", "-o", "ada"),
    ],
)
def test_wrong_usage_is_told(cli, triples, words):
    """What is missing or too much ends with 2, and nothing is asked."""
    assert cli("triples", "add", *words)[0] == 2
    assert triples.asked == []
