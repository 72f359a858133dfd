"""The check of what is in memory, over a real port."""

from __future__ import annotations

import json

import pytest
from fake_daemon import TOKEN

from gralkord.client.client import AsyncClient
from gralkord.client.lines import Lines
from gralkord.client.sync import Client
from gralkord.errors import BackendUnavailable, GralkorError, InvalidInput, NotFound, TooMany
from gralkord.models.reindex import GroupIndex, RowDifference


class FakeReindex:
    """Answers with what a test puts there; an error among it is raised."""

    def __init__(self) -> None:
        self.found = []
        self.asked = []

    async def run(self, tenant, request):
        """Yield what was put there."""
        self.asked.append((tenant, request.model_dump()))
        for each in self.found:
            if isinstance(each, GralkorError):
                raise each
            yield each


GOOD = GroupIndex(operator="ann", lens="default", rows=3, vectors=2, dimension=4)
BAD = GOOD.model_copy(
    update={
        "operator": "b\x1b[2J",
        "different": 1,
        "left": 1,
        "differences": [RowDifference(kind="fact", id="f1", what="missing")],
        "usable": False,
        "embedder": "old:4",
    }
)


@pytest.fixture
def reindex(services):
    """What the daemon's answer is made of."""
    services.reindex = FakeReindex()
    return services.reindex


async def test_both_clients_tell_every_group(daemon, reindex):
    """Groups come one after the other; the wish is passed on."""
    reindex.found = [GOOD, BAD]
    with Client(daemon, TOKEN) as client:
        assert list(client.reindex("ann")) == [GOOD, BAD]
    async with AsyncClient(daemon, TOKEN) as client:
        assert [group async for group in client.reindex(check=True)] == [GOOD, BAD]
    assert reindex.asked == [
        ("default", {"operator": "ann", "check": False}),
        ("default", {"operator": None, "check": True}),
    ]


@pytest.mark.parametrize("before", [[], [GOOD]])
@pytest.mark.parametrize("error", [NotFound("none"), TooMany("busy", limit=1, retry_after=5)])
def test_errors_are_told_wherever_they_come(daemon, reindex, before, error):
    """A refusal is an answer of its own, a failure under way the last line; both are raised."""
    reindex.found = [*before, error]
    with Client(daemon, TOKEN) as client:
        found = client.reindex()
        assert [next(found) for _ in before] == before
        with pytest.raises(type(error)):
            next(found)


async def test_an_answer_that_breaks_off_is_no_success(http, reindex):
    """Without its last line an answer is not whole."""
    reindex.found = [GOOD]
    first, last = (await http.post("/v1/reindex")).text.splitlines()
    lines = Lines(GroupIndex)
    assert lines.take(first) == GOOD
    with pytest.raises(BackendUnavailable, match="broke off"):
        lines.close()
    assert lines.take(last) is None
    lines.close()


async def test_what_cannot_be_wished_is_refused(http, daemon, reindex):
    """Names are checked, and what there is to wish; nothing is begun."""
    answer = await http.post("/v1/reindex", json={"check": True, "embed": True})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "embed")
    with Client(daemon, TOKEN) as client, pytest.raises(InvalidInput):
        list(client.reindex(" \x00"))
    assert reindex.asked == []


def test_the_command_tells_and_ends_with_what_is_wrong(cli, reindex):
    """A table for people, one object for programs; exit code 1 if something differs."""
    reindex.found = [GOOD]
    assert cli("reindex") == (0, "groups: 1, rows: 3, different: 0\n", "")
    reindex.found = [GOOD, BAD]
    code, out, _ = cli("reindex", "--check")
    assert code == 1
    assert "\x1b" not in out
    assert "fact f1: missing" in out
    assert "gralkord reembed" in out
    code, out, _ = cli("reindex", "--json")
    report = json.loads(out)
    assert (code, report["groups"], report["different"], report["unusable"]) == (1, 2, 1, 1)
    assert [group["operator"] for group in report["found"]] == ["b\x1b[2J"]
    reindex.found = [NotFound("this operator has no memories")]
    assert cli("reindex", "--operator", "nobody")[0] == 4
