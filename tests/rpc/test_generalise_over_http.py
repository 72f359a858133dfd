"""Generalisations over HTTP: requests read, clients, and the commands."""

from __future__ import annotations

import json

import pytest
from fake_daemon import TOKEN

from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.errors import GeneralisationParseFailed, NoModel
from gralkord.models.generalisations import (
    AddedGeneralisation,
    Generalisation,
    GeneralisationPage,
    GeneralisationsResult,
    GeneraliseResult,
    MadeGeneralisation,
    StoredGeneralisation,
)

FORM = 'GEN|v1|{"id":"gen-1","level":1,"confidence":0.5,"generalises":[]}\nAda likes tea\x1b[2J'
GOOD = FORM.replace("\x1b[2J", "")


class FakeGeneralisations:
    """Keeps what it was asked; knows two."""

    def __init__(self):
        self.asked = []
        self.complete = True
        self.refusal = None

    async def generalise(self, tenant, request):
        self.asked.append((tenant, request))
        if self.refusal:
            raise self.refusal
        made = MadeGeneralisation(
            id="m1", action="save", content="Ada likes\ttea", confidence=0.9, level=0
        )
        found = [made] if self.complete else []
        return GeneraliseResult(
            id="7-1", complete=self.complete, hypotheses=2, kept=1, saved=1, generalisations=found
        )

    async def add(self, tenant, request):
        self.asked.append((tenant, request))
        added = [
            AddedGeneralisation(id=f"n{place}", given=one.id, created=not place)
            for place, one in enumerate(request.generalisations)
        ]
        return GeneralisationsResult(id="7-2", complete=True, generalisations=added)

    async def find(self, tenant, query):
        self.asked.append((tenant, query))
        first = query.after is None
        one = StoredGeneralisation(
            id="m1" if first else "m2", content="Ada likes tea", confidence=0.5, level=1
        )
        return GeneralisationPage(
            generalisations=[one], next="t|m1" if first and query.query is None else None
        )


@pytest.fixture
def known(services):
    """Generalisations of the daemon behind the app."""
    services.generalisations = FakeGeneralisations()
    return services.generalisations


async def test_requests_are_read_and_answered(http, known):
    """200 when it is done, 202 when it will be; what is wrong is named with its place."""
    body = {"operator": "ada", "transcript": "Ada: tea", "event_time": "2026-01-01", "id": "x"}
    answer = await http.post("/v1/generalise", json=body)
    assert (answer.status_code, answer.json()["kept"]) == (200, 1)
    [(tenant, request)] = known.asked
    assert (tenant, request.timeout_ms, request.id) == ("default", 60_000, "x")
    known.complete = False
    assert (await http.post("/v1/generalise", json={"operator": "ada"})).status_code == 202
    bad = {"operator": "ada", "generalisations": [GOOD, "GEN|v1|{}\nx"]}
    error = (await http.post("/v1/generalisations", json=bad)).json()["error"]
    assert (error["code"], error["field"]) == ("generalisation_parse_failed", "generalisations.1")
    item = {"id": "a", "content": " ", "confidence": 1}
    bad = {"operator": "ada", "generalisations": [item]}
    error = (await http.post("/v1/generalisations", json=bad)).json()["error"]
    assert (error["code"], error["field"]) == ("invalid_input", "generalisations.0.content")
    error = (await http.get("/v1/generalisations?operator=a&max_results=0")).json()["error"]
    assert error["field"] == "max_results"
    assert len(known.asked) == 2


async def test_both_clients_ask(daemon, known):
    """They send what is meant, name each request, and give models and errors back."""
    async with AsyncClient(daemon, TOKEN) as client:
        assert (await client.generalise("ada", "Ada: tea")).saved == 1
        assert (await client.search_generalisations("ada", "tea", 3)).next is None
        page = await client.generalisations("ada", lens="global", limit=7)
        assert (page.next, known.asked[-1][1].max_results, known.asked[-1][1].lens) == (
            *("t|m1", 7, "global"),
        )
        own = Generalisation(id="own", content="Ada runs", confidence=1)
        added = await client.add_generalisations("ada", [GOOD, own])
        assert [one.given for one in added.generalisations] == ["gen-1", "own"]
    with Client(daemon, TOKEN) as client:
        client.generalise("ada", timeout=0)
        assert known.asked[-1][1].timeout_ms == 0
        assert known.asked[-1][1].id != known.asked[0][1].id is not None
        with pytest.raises(GeneralisationParseFailed) as caught:
            client.add_generalisations("ada", ["GEN|v1|{}\nsecret"])
        assert "secret" not in str(caught.value)
        known.refusal = NoModel("none is configured")
        with pytest.raises(NoModel):
            client.generalise("ada", id="mine")
        assert known.asked[-1][1].id == "mine"


def test_the_commands(cli, known, tmp_path):
    """A file, what is new, a search, and forms that go out and in again."""
    (tmp_path / "t.txt").write_text("Ada: tea\n")
    code, out, err = cli("generalise", str(tmp_path / "t.txt"), "-o", "ada")
    assert (code, out) == (0, "m1\tsave\t0\t0.9\tAda likes\\ttea\n")
    assert "hypotheses 2, kept 1, saved 1" in err
    known.complete = False
    code, _, err = cli("generalise", "-o", "ada")
    assert (code, err) == (1, "not done yet, request 7-1\n")
    code, out, _ = cli("generalisations", "search", "tea", "-o", "ada", "-n", "2")
    assert (code, out) == (0, "m1\t1\t0.5\tAda likes tea\n")
    code, out, _ = cli("generalisations", "export", "-o", "ada")
    assert code == 0
    assert out == GOOD.replace("gen-1", "m1") + "\n" + GOOD.replace("gen-1", "m2") + "\n"
    (tmp_path / "g.txt").write_text(out)
    code, out, _ = cli("generalisations", "import", str(tmp_path / "g.txt"), "-o", "eve")
    assert (code, out) == (0, "n0\tadded\tm1\nn1\tknown\tm2\n")
    (tmp_path / "g.json").write_text(json.dumps({"generalisations": [GOOD]}))
    code, out, _ = cli("generalisations", "import", str(tmp_path / "g.json"), "-o", "eve", "--json")
    assert json.loads(out)["generalisations"] == [{"id": "n0", "given": "gen-1", "created": True}]


@pytest.mark.parametrize(
    ("words", "content", "code"),
    [
        (("generalise",), "", 2),
        (("generalisations", "import", "FILE", "-o", "ada"), "", 2),
        (("generalisations", "import", "FILE", "-o", "ada"), FORM, 5),
    ],
)
def test_wrong_usage_is_told(cli, known, tmp_path, words, content, code):
    """Nothing is asked of the daemon."""
    (tmp_path / "x").write_text(content)
    given = [str(tmp_path / "x") if word == "FILE" else word for word in words]
    assert cli(*given)[0] == code
    assert known.asked == []
