"""The move to another embedder, over a real port."""

from __future__ import annotations

import json

import pytest
from fake_daemon import TOKEN

from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.errors import GralkorError, InvalidInput, ModelOutage, TooMany
from gralkord.models.reembed import GroupMove


class FakeReembed:
    """Answers with what a test puts there; an error among it is raised."""

    def __init__(self):
        self.found = []
        self.asked = []

    async def run(self, tenant, request):
        """Yield what was put there."""
        self.asked.append((tenant, request.model_dump()))
        for each in self.found:
            if isinstance(each, GralkorError):
                raise each
            yield each


STEP = GroupMove(
    operator="ann",
    lens="default",
    done=False,
    moves=True,
    before="local:w:256",
    embedder="openai:m:plain:8",
    rows=30,
    tokens=900,
    usd=0.0123,
)
HALF = STEP.model_copy(update={"embedded": 16})
GOOD = STEP.model_copy(update={"embedded": 30, "done": True})
IDLE = GroupMove(operator="b\x1b[2J", lens="default", done=True)


@pytest.fixture
def reembed(services):
    """What the daemon's answer is made of."""
    services.reembed = FakeReembed()
    return services.reembed


async def test_both_clients_tell_how_far_it_is(daemon, reembed):
    """Steps and groups come one after the other; the wish is passed on."""
    reembed.found = [STEP, HALF, GOOD, IDLE]
    with Client(daemon, TOKEN) as client:
        assert list(client.reembed("ann")) == reembed.found
    async with AsyncClient(daemon, TOKEN) as client:
        assert [each async for each in client.reembed(dry_run=True)] == reembed.found
    assert reembed.asked == [
        ("default", {"operator": "ann", "dry_run": False}),
        ("default", {"operator": None, "dry_run": True}),
    ]


@pytest.mark.parametrize("before", [[], [STEP]])
@pytest.mark.parametrize("error", [ModelOutage("out"), TooMany("busy", limit=1, retry_after=5)])
def test_errors_are_told_wherever_they_come(daemon, reembed, before, error):
    """A refusal is an answer of its own, a failure under way the last line; both are raised."""
    reembed.found = [*before, error]
    with Client(daemon, TOKEN) as client:
        found = client.reembed()
        assert [next(found) for _ in before] == before
        with pytest.raises(type(error)):
            next(found)


async def test_what_cannot_be_wished_is_refused(http, daemon, reembed):
    """Names are checked, and nothing is begun."""
    with Client(daemon, TOKEN) as client, pytest.raises(InvalidInput):
        list(client.reembed(" \x00"))
    assert (await http.post("/v1/reembed", json={"embed": 1})).status_code == 422
    assert reembed.asked == []


def test_the_command_tells_what_was_done(cli, reembed):
    """A line for each group that had work, for programs one object; failures end it with a code."""
    reembed.found = [STEP, HALF, GOOD, IDLE]
    code, out, _ = cli("reembed")
    assert code == 0
    assert out.splitlines() == [
        "ann default: embedded 30, from local:w:256 to openai:m:plain:8",
        "groups: 2, embedded 30, tokens about 900, cost $0.0123",
    ]
    dry = [GOOD.model_copy(update={"embedded": 0, "usd": None})]
    reembed.found = dry
    assert cli("reembed", "--dry-run")[1].endswith("rows 30, tokens about 900, cost unknown\n")
    code, out, _ = cli("reembed", "--json", "--dry-run")
    report = json.loads(out)
    assert (code, report["rows"], report["moved"], report["usd"]) == (0, 30, 1, None)
    assert report["found"] == [GroupMove.model_dump(dry[0])]
    reembed.found = [STEP, ModelOutage("the embedder is out")]
    code, out, err = cli("reembed")
    assert code != 0
    assert "the embedder is out" in err
