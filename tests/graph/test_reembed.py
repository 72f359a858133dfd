"""The move of whole tenants and operators to another embedder, as the daemon has it."""

from __future__ import annotations

import pytest
from fakes import FakeEmbedder
from groups_of_tests import ANN, BOB, only
from memories_of_tests import AxisEmbedder, remember

from gralkord.clock import SystemClock
from gralkord.config import Price, RecallSettings
from gralkord.errors import InvalidInput, NotFound, TooMany
from gralkord.graph.cache import CachePool
from gralkord.groups import Group
from gralkord.memories.reembed import Reembed
from gralkord.models import RecallRequest
from gralkord.models.reembed import ReembedRequest
from gralkord.providers.embedders.choice import Embedders
from gralkord.recall.recall import Recaller

ANNS = Group("default", "ann", "default")
BOBS = Group("default", "bob", "default")


class Remote(FakeEmbedder):
    """One that is asked over a network; counts what it is asked."""

    inline = False


async def run(reembed, **request):
    """Return all that is told."""
    return [each async for each in reembed.run("default", ReembedRequest(**request))]


async def ask(graph, embedders):
    """Return what is found in two groups."""
    pool = CachePool(graph, 2**30)
    recaller = Recaller(pool, embedders, RecallSettings(), SystemClock())
    request = RecallRequest(operator="ann", query="text 3")
    found = await recaller.recall("default", request, [ANNS, BOBS])
    await pool.close()
    return found


async def test_an_operator_is_moved_and_told(graph):
    """What it takes is told first, then how far it is; others stay where they are."""
    await remember(graph, ANN, *[f"text {number}" for number in range(3)])
    await remember(graph, BOB, "text 3")
    await remember(graph, Group("other", "ann", "default").id, "text 3")
    new = Remote()
    found = await run(Reembed(graph, new, Price(input=1_000)), operator="ann")
    assert [(each.operator, each.done, each.embedded) for each in found] == [
        ("ann", False, 0),
        ("ann", False, 3),
        ("ann", True, 3),
    ]
    last = found[-1]
    assert (last.moves, last.before, last.embedder) == (True, "test:axes:4", new.fingerprint)
    assert (last.rows, last.tokens, last.usd) == (3, 9, 0.009)
    embedders = "MATCH (m:Meta) RETURN m.embedder"
    assert await only(graph, ANN, embedders) == new.fingerprint
    assert await only(graph, BOB, embedders) == "test:axes:4"


async def test_a_dry_run_changes_and_asks_nothing(graph):
    """It tells each group once."""
    await remember(graph, ANN, "one")
    await remember(graph, BOB, "two", embed=False)
    new = Remote()
    found = await run(Reembed(graph, new), dry_run=True)
    assert [(each.operator, each.done, each.moves, each.rows, each.usd) for each in found] == [
        ("ann", True, True, 1, None),
        ("bob", True, False, 1, None),
    ]
    assert new.texts == []
    assert [each.usd for each in await run(Reembed(graph, FakeEmbedder()), dry_run=True)] == [0, 0]


async def test_each_group_is_asked_in_its_own_space(graph):
    """While some groups have moved and others not, nothing is degraded; without the old one it is."""
    await remember(graph, ANN, "text 3 tells of boats in Kiel")
    await remember(graph, BOB, "nobody has read text 3 since", session="t")
    old, new = AxisEmbedder(), FakeEmbedder()
    await run(Reembed(graph, new), operator="ann")
    both = await ask(graph, Embedders(new, (old,)))
    assert both.degraded == []
    assert len(both.results) == 2
    assert (await ask(graph, Embedders(new))).degraded == ["vector"]
    await run(Reembed(graph, new))
    assert (await ask(graph, Embedders(new))).degraded == []


async def test_refusals(graph):
    """No embedder, a stranger, and two at once are refused, and no graph is made."""
    await remember(graph, ANN, "one")
    with pytest.raises(InvalidInput):
        await run(Reembed(graph, None))
    reembed = Reembed(graph, FakeEmbedder())
    with pytest.raises(NotFound):
        await run(reembed, operator="nobody")
    first = reembed.run("default", ReembedRequest())
    await anext(first)
    with pytest.raises(TooMany):
        await run(reembed)
    await first.aclose()
    assert await run(reembed)
    assert await graph.groups() == [ANN]


async def test_a_group_that_is_erased_under_way_is_passed_over(graph):
    """The others are moved all the same."""
    await remember(graph, ANN, "one")
    await remember(graph, BOB, "two")
    found = Reembed(graph, FakeEmbedder()).run("default", ReembedRequest())
    assert (await anext(found)).operator == "ann"
    await graph.drop_group(ANN)
    rest = [each async for each in found]
    assert [(each.operator, each.done) for each in rest][-1] == ("bob", True)
