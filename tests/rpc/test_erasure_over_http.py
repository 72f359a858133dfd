"""Erasing over HTTP: what is refused, both clients, and ``gralkord erase``."""

from __future__ import annotations

import asyncio
import json

import pytest
from fake_daemon import TOKEN

from gralkord import AsyncClient, Client
from gralkord.client.transport import Retry
from gralkord.errors import InvalidInput, NotFound, TooMany
from gralkord.models.erasure import Erasure, ErasureList

QUICK = Retry(retries=3, base=0.001)


class FakeEraser:
    """Is done after some questions."""

    def __init__(self):
        self.asked = []
        self.states = ["done"]
        self.fault = None
        self.refused = []

    def _erasure(self):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        scope, dry = self.asked[-1][1].scope(), self.asked[-1][1].dry_run
        return Erasure(
            id="7-1",
            scope=scope,
            dry_run=dry,
            state=state,
            started_at="2024-05-01T09:30:00Z",
            counts={"graph": {"passages": 3}},
            missing=["p9\x1b[2J"] if scope.ids else [],
            not_confirmed=self.refused,
        )

    async def erase(self, tenant, request):
        if self.fault:
            raise self.fault
        self.asked.append((tenant, request))
        return self._erasure()

    async def read(self, tenant, erasure):
        if erasure != "7-1":
            raise NotFound(f"no erasure {erasure}")
        return self._erasure()

    async def list_erasures(self, tenant):
        return ErasureList(erasures=[self._erasure()])


@pytest.fixture
def eraser(services):
    """What the daemon erases with."""
    services.erasure = FakeEraser()
    return services.erasure


@pytest.fixture(params=["sync", "async"])
async def client(request, daemon, home):
    """Both clients behind one awaitable face."""
    if request.param == "async":
        async with AsyncClient(daemon, TOKEN, retry=QUICK) as opened:
            yield opened
        return

    class Face:
        def __getattr__(self, name):
            async def call(*args, **kwargs):
                return await asyncio.to_thread(getattr(opened, name), *args, **kwargs)

            return call

    with Client(daemon, TOKEN, retry=QUICK) as opened:
        yield Face()


async def test_both_clients_wait_for_the_end(client, eraser, monkeypatch):
    """An erasure that takes longer than a request is asked for until it is done."""
    monkeypatch.setattr("gralkord.client.erasure._PAUSE_SECONDS", 0.001)
    eraser.states = ["running", "interrupted", "running", "done"]
    done = await client.erase("ada", source="handbook", timeout=30)
    assert (done.state, done.counts) == ("done", {"graph": {"passages": 3}})
    tenant, asked = eraser.asked[0]
    assert (tenant, asked.timeout_ms, asked.dry_run) == ("default", 20_000, False)
    assert asked.scope().model_dump(exclude_defaults=True) == {
        "operator": "ada",
        "source": "handbook",
    }
    assert (await client.erasure("7-1")).state == "done"
    assert [one.id for one in await client.erasures()] == ["7-1"]
    with pytest.raises(NotFound):
        await client.erasure("8-1")


async def test_a_wait_ends_at_its_time(client, eraser):
    """What is not done by then is no error: its state says how far it is."""
    eraser.states = ["running"]
    found = await client.erase("ada", everything=True, timeout=0.05)
    assert found.state == "running"
    assert eraser.asked[0][1].scope().kind == "operator"


async def test_a_scope_is_one_thing(client, eraser):
    """Nothing, no part of an operator's memory, and two parts at a time are refused."""
    for wrong in (
        {},
        {"operator": "ada", "session": "s", "turn": "t"},
        {"operator": "ada"},
        {"operator": "ada", "session": None},
        {"operator": "ada", "everything": True, "source": "s"},
        {"everything": True, "source": "s"},
        {"session": "s"},
        {"operator": "ada", "ids": [" "]},
    ):
        with pytest.raises(InvalidInput):
            await client.erase(**wrong)
    assert eraser.asked == []
    await client.erase(everything=True, dry_run=True)
    assert eraser.asked[0][1].scope().kind == "tenant"


async def test_a_search_that_found_nothing_erases_nothing(client, http, eraser):
    """An empty list of ids is refused; it never means all memory of the operator."""
    with pytest.raises(InvalidInput, match="ids: none given") as caught:
        await client.erase("ada", ids=[])
    assert caught.value.field == "ids"
    answer = await http.post("/v1/erase", json={"operator": "ada", "ids": []})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "ids")
    answer = await http.post("/v1/erase", json={"operator": "ada", "session": None})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "session")
    assert eraser.asked == []


async def test_a_raw_request_is_read_strictly(http, eraser):
    """Unknown fields are refused; an erasure under way is 202, a second one at once 429."""
    answer = await http.post("/v1/erase", json={"operator": "ada", "sesion": "s"})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "sesion")
    assert (await http.post("/v1/erase", json={"operator": ""})).status_code == 422
    eraser.states = ["running"]
    assert (await http.post("/v1/erase", json={"operator": "ada"})).status_code == 202
    assert (await http.get("/v1/erase/7-1")).json()["state"] == "running"
    assert (await http.get("/v1/erase/../status")).status_code in {200, 404}
    assert (await http.get("/v1/erase/nonsense")).status_code == 422
    eraser.fault = TooMany("another erasure is under way", retry_after=2)
    assert (await http.post("/v1/erase", json={"operator": "ada"})).status_code == 429


def test_the_command_erases(cli, eraser):
    """With --yes it erases, with --dry-run it asks nobody; names are printed without commands."""
    code, out, _ = cli("erase", "--operator", "ada", "--id", "p1", "--id", "p9", "--yes")
    assert code == 0
    assert "passages: 3" in out
    assert "\x1b" not in out
    assert eraser.asked[-1][1].ids == ["p1", "p9"]
    code, out, _ = cli("erase", "-o", "ada", "--session", "s", "--dry-run", "--json")
    assert (code, json.loads(out)["dry_run"]) == (0, True)
    code, _, _ = cli("erase", "--everything", "--yes")
    assert eraser.asked[-1][1].scope().kind == "tenant"
    eraser.refused = ["queue: SLOWLOG is not reset"]
    assert cli("erase", "-o", "ada", "--yes")[0] == 1


def test_the_command_asks_first(cli, eraser, monkeypatch):
    """Where nobody can be asked it wants --yes, and no is no; a variable names no operator."""
    monkeypatch.setenv("GRALKORD_OPERATOR", "ada")
    for words in (
        (),
        ("--operator", "ada"),
        ("--operator", "ada", "--everything", "--yes"),
        ("--operator", "ada", "--session", "s", "--turn", "t", "--yes"),
        ("--everything", "--session", "s", "--yes"),
    ):
        assert cli("erase", *words)[0] == 2
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda _: False)
    assert cli("erase", "--operator", "ada")[0] == 1
    assert eraser.asked == []
    monkeypatch.setattr("typer.confirm", lambda _: True)
    assert cli("erase", "--operator", "ada")[0] == 0
