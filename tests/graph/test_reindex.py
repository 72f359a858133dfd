"""The cache compared with the graph, on a real server."""

from __future__ import annotations

import asyncio

import pytest
from fakes import FakeEmbedder, FakeModel, entities, facts
from groups_of_tests import ANN, BOB
from memories_of_tests import AxisEmbedder, remember

from gralkord.errors import NotFound, TooMany
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.episodes import EpisodeWriter
from gralkord.groups import Group
from gralkord.memories.reindex import Reindex
from gralkord.models.reindex import ReindexRequest
from gralkord.providers.embedders.choice import Embedders

from memories_of_tests import WHEN  # isort: skip

FACT = ("Ann", "OWNS", "Boat", "Ann owns a boat.", "2024-01-01")


@pytest.fixture
async def pool(graph):
    """A pool with room for everything."""
    pool = CachePool(graph, 2**30)
    yield pool
    await pool.close()


async def fill(graph, pool, group, *texts):
    """Write passages, and an episode with two entities and a fact."""
    await remember(graph, group, *texts)
    model = FakeModel(ExtractedEntities=entities("Ann", "Boat"), ExtractedEdges=facts(FACT))
    draft = EpisodeDraft(
        uuid="e", name="n", body="Ann: hi", reference_time=WHEN, source_description="d"
    )
    await EpisodeWriter(graph, pool, model, AxisEmbedder()).add(group, 1, draft)


async def run(reindex, **request):
    """Return the last word on each group."""
    found = reindex.run("default", ReindexRequest(**request))
    return [group async for group in found]


async def test_what_is_the_same_is_told_so(graph, pool):
    """Each group of a tenant is counted: rows, vectors, their embedder and dimension."""
    await fill(graph, pool, ANN, "one", "two")
    await remember(graph, BOB, "three")
    await remember(graph, Group("other", "eve", "default").id, "four")
    found = await run(Reindex(graph, pool, Embedders(AxisEmbedder())), check=True)
    assert [(one.operator, one.rows, one.vectors, one.different) for one in found] == [
        ("ann", 5, 5, 0),
        ("bob", 1, 1, 0),
    ]
    assert (found[0].embedder, found[0].dimension, found[0].usable) == ("test:axes:4", 4, True)


async def test_differences_are_found_and_mended(graph, pool):
    """Rows that are missing, too many, old, of other words or without vector are told and read anew."""
    await fill(graph, pool, ANN, *[f"text {number}" for number in range(6)])
    cache = await pool.fresh(ANN)
    table = cache.passages
    rows = [table.row(number) for number in range(6)]
    table.put(rows[0]._replace(text="other words"), None)
    table.put(rows[1], None)
    table.put(rows[2]._replace(uuid="nobody"), None)
    table._rows[3] = tuple(rows[3]._replace(seq=0))
    await graph.write(
        ANN, "MATCH (p:Passage {uuid: $uuid}) SET p.uuid = 'somebody'", {"uuid": rows[4].uuid}
    )
    await graph.write(ANN, "CREATE (:Passage {uuid: 'lost', text: 'x'})")
    reindex = Reindex(graph, pool, Embedders(AxisEmbedder()))
    (found,) = await run(reindex, operator="ann", check=True)
    assert {(each.id, each.what) for each in found.differences} == {
        (rows[0].uuid, "text"),
        (rows[1].uuid, "vector"),
        ("nobody", "extra"),
        (rows[3].uuid, "older"),
        (rows[4].uuid, "extra"),
        ("somebody", "missing"),
        ("", "unnumbered"),
    }
    assert await pool.fresh(ANN) is cache
    (found,) = await run(reindex, operator="ann")
    assert (found.different, found.left) == (7, 1)  # a row without a number nobody can read
    assert len((await pool.fresh(ANN)).passages) == 6


async def test_writes_beside_it_are_no_differences(graph, pool):
    """What is written while rows are compared counts for nothing."""
    await fill(graph, pool, ANN, *[f"text {number}" for number in range(50)])
    reindex = Reindex(graph, pool, Embedders(AxisEmbedder()))
    done = asyncio.Event()

    async def keep_writing():
        number = 0
        while not done.is_set():
            await remember(graph, ANN, f"more {number}", session="more", start=number)
            await pool.fresh(ANN)
            number += 1

    writing = asyncio.create_task(keep_writing())
    for _ in range(5):
        (found,) = await run(reindex, operator="ann")
        assert (found.different, found.left, found.differences) == (0, 0, [])
    done.set()
    await writing


async def test_vectors_that_no_embedder_fits_are_told(graph, pool):
    """Of the daemon's embedder or of one of before they are usable; of a stranger they are not."""
    await remember(graph, ANN, "one")
    for embedders, usable in (
        (Embedders(AxisEmbedder()), True),
        (Embedders(FakeEmbedder(), (AxisEmbedder(),)), True),
        (Embedders(FakeEmbedder()), False),
        (Embedders(), False),
    ):
        (found,) = await run(Reindex(graph, pool, embedders), check=True)
        assert found.usable is usable


async def test_refusals(graph, pool):
    """A stranger, and two at once, are refused, and no graph is made."""
    await remember(graph, ANN, "one")
    reindex = Reindex(graph, pool, Embedders())
    with pytest.raises(NotFound):
        await run(reindex, operator="nobody")
    first = reindex.run("default", ReindexRequest(check=True))
    assert (await anext(first)).operator == "ann"
    with pytest.raises(TooMany):
        await run(reindex)
    await first.aclose()
    assert await run(reindex)
    assert await graph.groups() == [ANN]
