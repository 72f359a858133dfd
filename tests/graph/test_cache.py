from __future__ import annotations

import asyncio

import pytest
from groups_of_tests import ANN, BOB
from memories_of_tests import FINGERPRINT, WatchedGraph, axis, remember

from gralkord.errors import BackendUnavailable
from gralkord.graph import cache as cache_module
from gralkord.graph import reading
from gralkord.graph.cache import CachePool
from gralkord.graph.passages import passage_uuid

BIG = 2**30


@pytest.fixture
async def watched(graph):
    """The connection, watched."""
    return WatchedGraph(graph)


@pytest.fixture
async def pool(watched):
    """A pool with room for everything."""
    pool = CachePool(watched, BIG)
    yield pool
    await pool.close()


@pytest.fixture
def small_windows(monkeypatch):
    """Five writes are read at a time."""
    monkeypatch.setattr(reading, "FIRST_STEP", 5)
    monkeypatch.setattr(reading, "MAX_GROWTH", 1)


def texts(cache) -> list[str]:
    return sorted(cache.passages.row(number).text for number in range(len(cache.passages)))


async def touch(graph, where, statement, **params):
    """Change a group as a lane would: under its fence, with the number of the write."""
    query = "MATCH (m:Meta) SET m.seq = m.seq + 1 WITH m " + statement
    await graph.write(where, query, params)


async def test_a_group_without_a_graph_is_none_and_stays_so(graph, pool):
    """To look for a group does not make it."""
    assert await pool.fresh(ANN) is None
    assert pool.known(ANN) is None
    assert await graph.groups() == []


async def test_each_group_holds_its_own_rows(graph, pool):
    """Two operators share nothing."""
    await remember(graph, ANN, "apples")
    await remember(graph, BOB, "pears", "plums")
    assert texts(await pool.fresh(ANN)) == ["apples"]
    assert texts(await pool.fresh(BOB)) == ["pears", "plums"]


async def test_what_was_written_before_is_there(graph, pool):
    """Every write shows in the next look, with its vector and the embedder's name."""
    for number in range(5):
        await remember(graph, ANN, f"turn {number}", start=number)
        cache = await pool.fresh(ANN)
        assert len(cache.passages) == number + 1
    assert cache.embedder == FINGERPRINT
    assert cache.passages.vectors.cosines(axis("turn 0"), 5).tolist() == [1] * 5


async def test_nothing_new_costs_one_read(graph, watched, pool):
    """A group that has not changed is not read again."""
    await remember(graph, ANN, "apples")
    await pool.fresh(ANN)
    watched.queries.clear()
    await pool.fresh(ANN)
    assert len(watched.queries) == 1


async def test_many_rows_come_in_windows(graph, watched, pool, small_windows):
    """No row is missed or doubled, and no read returns the whole group."""
    expected = [f"turn {number:04d}" for number in range(3_000)]
    await remember(graph, ANN, *expected)
    assert texts(await pool.fresh(ANN)) == expected
    assert sum("Passage" in query for query in watched.queries) >= 3


async def test_rows_that_move_during_the_reading_are_not_missed(
    graph, watched, pool, small_windows
):
    """A row that is rewritten while others are read comes with its new number."""
    uuids = []
    for number in range(60):
        uuids += await remember(graph, ANN, f"turn {number}", start=number)
    reads = 0

    async def rewrite(query):
        nonlocal reads
        if "Passage" in query:
            reads += 1
            if reads == 2:
                statement = (
                    "MATCH (p:Passage) WHERE p.uuid IN $uuids SET p.episode = 'e', p.seq = m.seq"
                )
                await touch(graph, ANN, statement, uuids=uuids[30:])

    watched.before = rewrite
    cache = await pool.fresh(ANN)
    assert reads > 2
    assert len(cache.passages) == 60


async def test_every_acknowledged_write_is_seen_while_others_write(graph, pool):
    """Looks and writes at the same time: what was written before a look began is in it."""
    written = 0

    async def keep_writing():
        nonlocal written
        for number in range(60):
            await remember(graph, ANN, f"turn {number}", start=number)
            written = number + 1

    writing = asyncio.create_task(keep_writing())
    while not writing.done():
        known = written
        cache = await pool.fresh(ANN)
        assert (len(cache.passages) if cache else 0) >= known
    await writing
    assert len((await pool.fresh(ANN)).passages) == 60


async def test_changed_rows_replace_the_old_ones(graph, pool):
    """A passage that is understood, or becomes invalid, changes in memory."""
    (uuid,) = await remember(graph, ANN, "apples")
    await pool.fresh(ANN)
    statement = (
        "MATCH (p:Passage {uuid: $uuid}) SET p.episode = 'e', p.waiting = NULL, "
        "p.invalid_at = '2024-06-01T00:00:00Z', p.seq = m.seq"
    )
    await touch(graph, ANN, statement, uuid=uuid)
    (row,) = (await pool.fresh(ANN)).passages.by_uuid([uuid])
    assert (row.episode, row.waiting, row.invalid_at) == ("e", False, "2024-06-01T00:00:00Z")


async def test_facts_and_entities_come_with_all_their_properties(graph, pool):
    """Nothing that Graphiti has stored gets lost on the way."""
    await graph.ensure_group(ANN)
    statement = (
        "CREATE (a:Entity:Person {uuid: 'a', name: 'Ann', summary: 's', group_id: $group, age: 7, "
        "created_at: '2024-01-01T00:00:00Z', seq: m.seq}) CREATE (a)-[:RELATES_TO {uuid: 'f', "
        "name: 'LIKES', fact: 'Ann likes Ann', group_id: $group, episodes: ['e1', 'e2'], "
        "valid_at: '2024-01-02T00:00:00Z', strength: 0.5, seq: m.seq}]->(a)"
    )
    await touch(graph, ANN, statement, group=ANN)
    cache = await pool.fresh(ANN)
    (ann,) = cache.entities.by_name("ann")
    assert set(ann.labels) == {"Entity", "Person"}
    assert (ann.summary, ann.created_at, ann.attributes) == (
        "s",
        "2024-01-01T00:00:00Z",
        {"age": 7},
    )
    (fact,) = cache.facts.between("a", "a")
    assert (fact.name, fact.episodes, fact.attributes) == ("LIKES", ("e1", "e2"), {"strength": 0.5})
    assert (fact.valid_at, fact.invalid_at) == ("2024-01-02T00:00:00Z", None)


async def test_a_new_generation_begins_anew(graph, pool):
    """After an erasure nothing of before is in memory."""
    await remember(graph, ANN, "apples", "pears")
    await pool.fresh(ANN)
    await graph.write(ANN, "MATCH (p:Passage {text: 'apples'}) DELETE p")
    await graph.write(ANN, "MATCH (m:Meta) SET m.generation = m.generation + 1")
    assert texts(await pool.fresh(ANN)) == ["pears"]


async def test_a_dropped_group_is_forgotten_and_may_come_again(graph, pool):
    """A graph of the same name that is made later is another one."""
    await remember(graph, ANN, "apples")
    await pool.fresh(ANN)
    await graph.drop_group(ANN)
    assert await pool.fresh(ANN) is None
    assert pool.known(ANN) is None
    await remember(graph, ANN, "pears")
    await remember(graph, ANN, "plums", start=1)
    assert texts(await pool.fresh(ANN)) == ["pears", "plums"]


async def test_another_run_of_the_server_begins_anew(graph, watched, pool, monkeypatch):
    """A crash may have taken back what was read, so it is read again."""
    monkeypatch.setattr(cache_module, "RUN_SECONDS", 0)
    await remember(graph, ANN, "apples")
    first = await pool.fresh(ANN)
    assert await pool.fresh(ANN) is first
    watched.run = "another"
    assert await pool.fresh(ANN) is not first


async def test_callers_of_one_moment_share_a_look(graph, watched, pool):
    """Fifty recalls at once are one or two questions to the graph."""
    await remember(graph, ANN, "apples")
    await pool.fresh(ANN)
    watched.queries.clear()
    caches = await asyncio.gather(*(pool.fresh(ANN) for _ in range(50)))
    assert len({id(cache) for cache in caches}) == 1
    assert len(watched.queries) <= 2


async def test_a_look_that_began_before_is_not_enough(graph, watched, pool):
    """Who asks while a look is under way waits for the next one, which sees later writes."""
    await remember(graph, ANN, "apples")
    watched.gate = asyncio.Event()
    first = asyncio.create_task(pool.fresh(ANN))
    await asyncio.sleep(0)
    await remember(graph, ANN, "pears", start=1)
    second = asyncio.create_task(pool.fresh(ANN))
    watched.gate.set()
    await first
    assert texts(await second) == ["apples", "pears"]


async def test_a_caller_that_gives_up_does_not_stop_the_reading(graph, watched, pool):
    """What one recall has begun to read the next one finds."""
    await remember(graph, ANN, "apples")
    watched.gate = asyncio.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await pool.fresh(ANN)
    watched.gate.set()
    assert texts(await pool.fresh(ANN)) == ["apples"]


async def test_a_graph_that_is_down_leaves_what_is_known(graph, watched, pool):
    """The error is told, and the rows stay; when it is back, so is the truth."""
    await remember(graph, ANN, "apples")
    await pool.fresh(ANN)
    watched.down = True
    with pytest.raises(BackendUnavailable):
        await pool.fresh(ANN)
    assert texts(pool.known(ANN)) == ["apples"]
    watched.down = False
    await remember(graph, ANN, "pears", start=1)
    assert texts(await pool.fresh(ANN)) == ["apples", "pears"]


async def test_an_interrupted_reading_goes_on_where_it_was(graph, watched, pool, small_windows):
    """What has been read is kept, and nothing is missed afterwards."""
    await remember(graph, ANN, *[f"turn {number}" for number in range(3_000)])
    reads = 0

    async def fail_later(query):
        nonlocal reads
        reads += "Passage" in query
        watched.down = reads > 1

    watched.before = fail_later
    with pytest.raises(BackendUnavailable):
        await pool.fresh(ANN)
    assert 0 < len(pool.known(ANN).passages) < 3_000
    watched.before, watched.down = None, False
    assert len((await pool.fresh(ANN)).passages) == 3_000


async def test_the_group_not_used_for_longest_makes_room(graph, watched):
    """Memory is limited; the group in use is never dropped."""
    for group in (ANN, BOB):
        await remember(graph, group, *[f"some words {number}" for number in range(50)])
    pool = CachePool(watched, 1)
    await pool.fresh(ANN)
    assert pool.known(ANN) is not None
    await pool.fresh(BOB)
    assert pool.known(ANN) is None
    assert pool.known(BOB) is not None
    assert len((await pool.fresh(ANN)).passages) == 50
    await pool.close()


async def test_a_row_that_cannot_be_read_does_not_hide_the_others(graph, pool):
    """What another program has written wrongly is left out."""
    await remember(graph, ANN, "apples")
    statement = "CREATE (:Passage {uuid: 'odd', text: 'odd', seq: m.seq})"
    await touch(graph, ANN, statement)
    await remember(graph, ANN, "pears", start=1)
    assert texts(await pool.fresh(ANN)) == ["apples", "pears"]


async def test_neighbours_are_those_of_the_session_even_if_they_came_late(graph, pool):
    """A turn that is written after later ones stands before them."""
    await remember(graph, ANN, "second", start=1)
    await pool.fresh(ANN)
    await remember(graph, ANN, "first", start=0)
    cache = await pool.fresh(ANN)
    names = [cache.passages.row(number).text for number in range(2)]
    before = cache.passages.neighbours.order().links[0]
    assert names == ["second", "first"]
    assert before.tolist() == [1, -1, -1]
    assert cache.passages.by_uuid([passage_uuid(ANN, "s-0", 0, 0)])[0].text == "first"
