"""Indices and communities, over a real port."""

from __future__ import annotations

import json
import sys

import pytest
from fake_daemon import TOKEN

from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.errors import BudgetSpent, GralkorError, InvalidInput, NoModel
from gralkord.models.admin import (
    CommunityBuild,
    CommunityPage,
    GroupIndices,
    Stopped,
    StoredCommunity,
)


class FakeAdmin:
    """Answers with what a test puts there; an error among it is raised."""

    def __init__(self):
        self.found = []
        self.asked = []
        self.stopped = True

    async def build(self, tenant, request=None):
        """Yield what was put there."""
        self.asked.append((tenant, request and request.model_dump(exclude_defaults=True)))
        for each in self.found:
            if isinstance(each, GralkorError):
                raise each
            yield each

    async def stop(self, tenant, request):
        """Say whether there was anything to stop."""
        self.asked.append((tenant, request.model_dump()))
        return Stopped(stopped=self.stopped)

    async def page(self, tenant, query):
        """Return one community."""
        self.asked.append((tenant, query.model_dump()))
        return CommunityPage(communities=[ACME])


GROUPS = [
    GroupIndices(operator="ann", lens="default", indices=16, created=2),
    GroupIndices(operator="bob", lens="default", indices=16),
]
PLAN = CommunityBuild(
    operator="ann",
    lens="default",
    done=False,
    entities=9,
    facts=12,
    found=3,
    communities=2,
    members=7,
    calls=2,
    tokens=900,
    usd=0.0123,
)
GOOD = PLAN.model_copy(update={"done": True, "summed_up": 2, "written": 2})
ACME = StoredCommunity(
    id="c1",
    name="Work\x1b[2J",
    summary="",
    created_at="2026-05-01T00:00:00Z",
    members=2,
    entities=["Acme", "Ann"],
)


@pytest.fixture
def admin(services):
    """What the daemon's answer is made of."""
    services.indices = services.communities = FakeAdmin()
    return services.indices


async def test_both_clients_have_the_operations(daemon, admin):
    """Steps come one after the other, and wishes are passed on."""
    with Client(daemon, TOKEN) as client:
        admin.found = GROUPS
        assert list(client.build_indices()) == GROUPS
        admin.found = [PLAN, GOOD]
        assert list(client.build_communities("ann", summaries=True)) == [PLAN, GOOD]
        assert client.stop_communities("ann").stopped
        assert client.communities("ann", limit=3).communities == [ACME]
    async with AsyncClient(daemon, TOKEN) as client:
        assert [each async for each in client.build_communities("ann", dry_run=True)] == [
            PLAN,
            GOOD,
        ]
        admin.found = GROUPS
        assert [each async for each in client.build_indices()] == GROUPS
        assert (await client.stop_communities("ann", lens="work")).stopped
        assert (await client.communities("ann")).communities == [ACME]
    assert admin.asked == [
        ("default", None),
        ("default", {"operator": "ann", "summaries": True}),
        ("default", {"operator": "ann", "lens": "default"}),
        ("default", {"operator": "ann", "lens": "default", "limit": 3}),
        ("default", {"operator": "ann", "dry_run": True}),
        ("default", None),
        ("default", {"operator": "ann", "lens": "work"}),
        ("default", {"operator": "ann", "lens": "default", "limit": 100}),
    ]


@pytest.mark.parametrize("before", [[], [PLAN]])
def test_errors_are_told_wherever_they_come(daemon, admin, before):
    """A refusal is an answer of its own, a failure under way the last line; both are raised."""
    admin.found = [*before, BudgetSpent("spent")]
    with Client(daemon, TOKEN) as client:
        found = client.build_communities("ann", summaries=True)
        assert [next(found) for _ in before] == before
        with pytest.raises(BudgetSpent):
            next(found)
        with pytest.raises(InvalidInput):
            list(client.build_communities("ann", max_communities=0))


async def test_an_agent_is_told_not_to_do_this_by_itself(http):
    """The descriptions say so, for whoever makes tools of them."""
    paths = (await http.get("/openapi.json")).json()["paths"]
    for path in ("/v1/admin/indices", "/v1/admin/communities"):
        assert "must never do this by itself" in paths[path]["post"]["description"]


def test_the_command_tells_of_indices_that_were_missing(cli, admin):
    """A line for each such group; for programs one object."""
    admin.found = GROUPS
    code, out, _ = cli("admin", "build-indices")
    assert code == 0
    assert out.splitlines() == [
        "ann default: created 2 of 16",
        "groups: 2, indices: 32, created: 2",
    ]
    report = json.loads(cli("admin", "build-indices", "--json")[1])
    assert (report["groups"], report["created"], len(report["found"])) == (2, 2, 1)


def test_the_command_builds_communities_and_asks_before_it_costs(cli, admin, monkeypatch):
    """Where nobody can answer it needs --yes; a dry run and one without summaries ask nothing."""
    admin.found = [PLAN, GOOD]
    build = ("admin", "build-communities", "--operator", "ann")
    assert cli(*build, "--summaries")[0] == 2
    assert admin.asked == []
    code, out, _ = cli(*build, "--summaries", "--yes")
    assert code == 0
    assert out == (
        "communities: 2 of 3, members: 7, entities: 9, facts: 12, calls: 2, tokens about 900, "
        "cost $0.0123, summed up: 2, unreadable: 0\n"
    )
    assert cli(*build)[0] == cli(*build, "--summaries", "--dry-run")[0] == 0
    assert json.loads(cli(*build, "--json")[1])["written"] == 2
    admin.asked.clear()
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda question: "cost $0.0123" not in question)
    assert cli(*build, "--summaries")[0] == 1
    assert [asked["dry_run"] for _, asked in admin.asked] == [True]
    admin.found = [NoModel("none")]
    assert cli(*build, "--summaries", "--yes")[0] == 5


def test_the_command_stops_and_lists(cli, admin):
    """What is not under way cannot be stopped; names are printed as they can be."""
    assert cli("admin", "stop-communities", "-o", "ann")[:2] == (0, "stopped\n")
    admin.stopped = False
    assert cli("admin", "stop-communities", "-o", "ann", "--json")[0] == 4
    code, out, _ = cli("admin", "communities", "-o", "ann")
    assert (code, out) == (0, "c1\t2\tWork\\x1b[2J\tAcme, Ann\n")
    admin.found = [PLAN, GOOD.model_copy(update={"stopped": True})]
    assert cli("admin", "build-communities", "-o", "ann")[0] == 1
