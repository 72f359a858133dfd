"""Groups are moved to another embedder while they are used, and killed at any point, on a real server."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from fakes import FakeEmbedder
from groups_of_tests import ANN, BOB, only
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memories_of_tests import WHEN, AxisEmbedder, remember

from gralkord.clock import SystemClock
from gralkord.errors import BackendUnavailable, MalformedOutput, ModelOutage, Transient
from gralkord.graph import reembedding
from gralkord.graph.cache import CachePool
from gralkord.graph.reembedding import Reembedding
from gralkord.graph.triples import TripleWriter
from gralkord.graph.vectors import encode
from gralkord.models.triples import TriplesRequest
from gralkord.providers.embedders.choice import Embedders
from gralkord.wire import read_model

OLD, NEW = AxisEmbedder(), FakeEmbedder()
BOTH = Embedders(NEW, (OLD,))


@pytest.fixture
async def pool(graph):
    """A pool with room for everything."""
    pool = CachePool(graph, 2**30)
    yield pool
    await pool.close()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Many steps where few rows are."""
    monkeypatch.setattr(reembedding, "BATCH", 2)
    monkeypatch.setattr(reembedding, "BATCHES", 2)
    monkeypatch.setattr(reembedding, "SWEPT", 2)


async def tell(graph, group, subject, target, embedders=BOTH):
    """Write a fact between two entities."""
    caches = CachePool(graph, 2**30)
    request = read_model(
        TriplesRequest,
        {
            "operator": "x",
            "triples": [{"subject": subject, "predicate": "KNOWS", "object": target}],
        },
    )
    await TripleWriter(graph, caches, embedders, SystemClock()).add(group, 1, request.triples)
    await caches.close()


async def fill(graph, group, number=5):
    """Write passages, and a fact, with vectors of the old embedder."""
    await remember(graph, group, *[f"text {each}" for each in range(number)], spoken=True)
    await tell(graph, group, "Ann", "Boat", OLD)


async def moved(graph, group, embedder=NEW):
    """Move a group; return the numbers of rows that were told."""
    return [number async for number in Reembedding(graph, group, embedder).run()]


async def spaces_of(graph, group):
    """Return how many vectors a reader finds; each is checked against the embedder of the space."""
    caches = CachePool(graph, 2**30)
    cache = await caches.fresh(group)
    embedder = BOTH.fitting(cache.space.embedder)
    assert embedder.fingerprint == cache.space.embedder
    found = rows = 0
    for table, words in (
        (cache.passages, lambda row: f"{row.speaker}: {row.text}"),
        (cache.facts, lambda row: row.fact),
        (cache.entities, lambda row: row.name),
    ):
        rows += len(table)
        present = table.vectors.present(len(table))
        assert table.vectors.dimension in {None, embedder.dimension}
        for place in range(len(table)):
            row = table.row(place)
            if present[place]:
                found += 1
                (vector,) = await embedder.embed([words(row)])
                cosine = table.vectors.cosines(vector, len(table))[place]
                assert cosine > 0.97, (words(row), cosine)
    await caches.close()
    return cache.space.embedder, rows, found


async def leftovers(graph, group):
    """Return what a finished move must not leave behind."""
    counts = []
    for match in ("(x:Passage)", "()-[x:RELATES_TO]->()", "(x:Entity)"):
        rows = await graph.read(
            group,
            f"MATCH {match} WHERE x.vector_next IS NOT NULL OR x.unembedded OR x.vector IS NULL "
            "RETURN count(x)",
        )
        counts.append(rows[0][0])
    meta = "MATCH (m:Meta) RETURN m.embedder_next IS NULL AND m.space_next IS NULL AND "
    return counts, await only(graph, group, meta + "m.vectors_old IS NULL")


async def test_a_move_makes_all_vectors_anew_and_tidies_up(graph):
    """Passages, facts and entities; progress is told; other groups stay as they are."""
    await fill(graph, ANN)
    await fill(graph, BOB)
    assert await moved(graph, ANN) == [4, 5, 6, 8]
    assert await spaces_of(graph, ANN) == (NEW.fingerprint, 8, 8)
    assert await spaces_of(graph, BOB) == (OLD.fingerprint, 8, 8)
    assert await leftovers(graph, ANN) == ([0, 0, 0], True)
    again = FakeEmbedder()
    assert [number async for number in Reembedding(graph, ANN, again).run()] == []
    assert again.texts == ["dimension"]


async def test_back_again(graph):
    """A group can be moved any number of times, also back to where it was."""
    await fill(graph, ANN)
    for embedder in (NEW, OLD, NEW):
        await moved(graph, ANN, embedder)
        assert await spaces_of(graph, ANN) == (embedder.fingerprint, 8, 8)
        assert await leftovers(graph, ANN) == ([0, 0, 0], True)


async def test_a_plan_counts_and_changes_nothing(graph):
    """Rows and characters that would be embedded, before, on the way and at the end."""
    await fill(graph, ANN)
    seq = await only(graph, ANN, "MATCH (m:Meta) RETURN m.seq")
    move = Reembedding(graph, ANN, NEW)
    plan = await move.plan()
    assert (plan.moves, plan.rows, plan.characters) == (True, 8, 5 * 11 + 14 + 3 + 4)
    assert await move.count() == 8
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.seq") == seq
    run = Reembedding(graph, ANN, NEW).run()
    assert await anext(run) == 4
    await run.aclose()
    assert (await move.plan()).rows == 4
    await moved(graph, ANN)
    plan = await move.plan()
    assert (plan.moves, plan.rows) == (False, 0)


async def test_a_group_without_vectors_is_filled(graph):
    """It is in the space at once; nothing is written twice."""
    await remember(graph, ANN, "one", "two", embed=False)
    assert await moved(graph, ANN) == [2]
    assert await spaces_of(graph, ANN) == (NEW.fingerprint, 2, 2)
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.space") is None


async def test_writes_on_the_way_keep_the_old_space_and_get_into_the_new_one(graph, pool):
    """Until the switch all is found in the old space; what was written meanwhile moves along."""
    await fill(graph, ANN, 9)
    run = Reembedding(graph, ANN, NEW).run()
    await anext(run)
    await remember(graph, ANN, "late words", session="late", spoken=True)
    await tell(graph, ANN, "Ann", "Zoe")
    assert await spaces_of(graph, ANN) == (OLD.fingerprint, 15, 15)
    cache = await pool.fresh(ANN)
    async for _ in run:
        pass
    assert cache.space.embedder == OLD.fingerprint
    assert (await pool.fresh(ANN)).space.embedder == NEW.fingerprint
    assert await spaces_of(graph, ANN) == (NEW.fingerprint, 15, 15)
    assert await leftovers(graph, ANN) == ([0, 0, 0], True)


async def test_a_group_that_is_written_to_all_the_while_is_moved(graph):
    """After some looks it is switched all the same; the rows that came last are marked and filled."""
    await fill(graph, ANN)

    class Busy(FakeEmbedder):
        number = 0

        async def embed(self, texts, **_):
            if texts != ["dimension"]:
                Busy.number += 1
                name = f"w{Busy.number}"
                await remember(graph, ANN, f"text {name}", session=name, spoken=True)
            return await super().embed(texts)

    run = Reembedding(graph, ANN, Busy()).run()
    async with asyncio.timeout(20):
        async for _ in run:
            if await only(graph, ANN, "MATCH (m:Meta) RETURN m.embedder") == NEW.fingerprint:
                break
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.unembedded IS NOT NULL")
    await run.aclose()
    await moved(graph, ANN)
    found = await spaces_of(graph, ANN)
    assert found[0] == NEW.fingerprint
    assert found[1] == found[2]
    assert await leftovers(graph, ANN) == ([0, 0, 0], True)


async def test_a_writer_that_is_late_leaves_its_vectors_out(graph):
    """Vectors made for the old space are not written into the new one; the rows are marked."""
    await fill(graph, ANN)
    await moved(graph, ANN)
    await remember(graph, ANN, "late words", session="late", spoken=True)
    assert await spaces_of(graph, ANN) == (NEW.fingerprint, 9, 8)
    await tell(graph, ANN, "Ann", "Zoe", OLD)
    assert await spaces_of(graph, ANN) == (NEW.fingerprint, 11, 8)
    await moved(graph, ANN)
    assert await spaces_of(graph, ANN) == (NEW.fingerprint, 11, 11)


async def test_a_move_that_was_given_up_leaves_nothing(graph):
    """The next one to the old space, or to a third, sweeps its vectors out."""
    await fill(graph, ANN)
    run = Reembedding(graph, ANN, NEW).run()
    await anext(run)
    await run.aclose()
    assert await moved(graph, ANN, OLD) == []
    assert await leftovers(graph, ANN) == ([0, 0, 0], True)
    assert await spaces_of(graph, ANN) == (OLD.fingerprint, 8, 8)


async def test_two_moves_to_different_places_do_not_mix(graph):
    """Who is overtaken is told so, and writes nothing more."""
    await fill(graph, ANN)

    class Third(FakeEmbedder):
        fingerprint = "third:letters:26"

    first = Reembedding(graph, ANN, Third()).run()
    await anext(first)
    await moved(graph, ANN)
    with pytest.raises(Transient):
        async for _ in first:
            pass
    assert await spaces_of(graph, ANN) == (NEW.fingerprint, 8, 8)
    assert await leftovers(graph, ANN) == ([0, 0, 0], True)


async def test_words_that_an_embedder_does_not_take_are_left_out(graph):
    """They alone have no vector then; a server that takes nothing is an error."""
    await fill(graph, ANN)

    class Choosy(FakeEmbedder):
        async def embed(self, texts, **_):
            if any("text 3" in text for text in texts):
                raise MalformedOutput("no")
            return await super().embed(texts)

    await moved(graph, ANN, Choosy())
    assert await spaces_of(graph, ANN) == (NEW.fingerprint, 8, 7)

    class Out(FakeEmbedder):
        async def embed(self, texts, **_):
            raise ModelOutage

    with pytest.raises(ModelOutage):
        await moved(graph, ANN, Out())


async def test_a_large_group_is_searched_in_its_old_space_until_the_new_one_is_read(
    graph, pool, monkeypatch
):
    """Nobody waits for the reading, and vectors of two spaces are never in one cache."""
    monkeypatch.setattr("gralkord.graph.cache.QUICK_ROWS", 3)
    await fill(graph, ANN)
    before = await pool.fresh(ANN)
    await moved(graph, ANN)
    await remember(graph, ANN, "late words", session="late", spoken=True)
    now = await pool.fresh(ANN)
    assert now is before
    assert now.space.embedder == OLD.fingerprint
    assert len(now) == 9
    async with asyncio.timeout(10):
        while (await pool.fresh(ANN)) is before:  # noqa: ASYNC110
            await asyncio.sleep(0)
    after = await pool.fresh(ANN)
    assert (after.space.embedder, len(after)) == (NEW.fingerprint, 9)
    assert before.passages.vectors.dimension == OLD.dimension
    assert after.passages.vectors.dimension == NEW.dimension


class Killed(BaseException):
    """The process is gone."""


class Mortal:
    """A connection that is killed at one of its writes, before it arrives or before its answer."""

    def __init__(self, graph, at, *, after):
        self.graph, self.at, self.after, self.writes = graph, at, after, 0

    async def read(self, *args, **options):
        """Read."""
        if self.writes > self.at:
            raise Killed
        return await self.graph.read(*args, **options)

    async def write(self, *args, **options):
        """Write, or be killed."""
        self.writes += 1
        if self.writes > self.at:
            if self.after and self.writes == self.at + 1:
                await self.graph.write(*args, **options)
            raise Killed
        return await self.graph.write(*args, **options)

    async def wait_durable(self):
        """Be durable."""
        await self.graph.wait_durable()


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    kills=st.lists(st.tuples(st.integers(0, 14), st.booleans()), min_size=1, max_size=4),
    written=st.sampled_from(["passage", "fact", "nothing"]),
)
async def test_killed_at_any_write_it_goes_on_where_it_was(graph, kills, written):
    """At every moment all vectors are of one space, none is lost, and the last run ends the move."""
    await graph.drop_group(ANN)
    await fill(graph, ANN)
    rows = 8
    for number, (at, after) in enumerate(kills):
        run = Reembedding(Mortal(graph, at, after=after), ANN, FakeEmbedder()).run()
        try:
            async for _ in run:
                pass
        except Killed:
            pass
        space, seen, found = await spaces_of(graph, ANN)
        assert (seen, found) == (rows, rows)
        embedder = BOTH.fitting(space)
        if written == "passage":
            await write_as(graph, embedder, f"more {number}")
            rows += 1
        elif written == "fact":
            await tell(graph, ANN, "Ann", f"Name{number}")
            rows += 2
    await moved(graph, ANN)
    assert await spaces_of(graph, ANN) == (NEW.fingerprint, rows, rows)
    assert await leftovers(graph, ANN) == ([0, 0, 0], True)


async def write_as(graph, embedder, text):
    """Write a passage as the index lane does that knows the group's space."""
    from dataclasses import replace

    from gralkord.graph.passages import Passage, PassageStore, passage_uuid

    passage = Passage(
        uuid=passage_uuid(ANN, text, 0, 0),
        text=text,
        speaker="Ann",
        role="user",
        agent="bot",
        session=text,
        ordinal=0,
        part=0,
        event_time=WHEN,
        turn_id=text,
    )
    (vector,) = encode(np.asarray(await embedder.embed([f"Ann: {text}"])))
    await PassageStore(graph).write(
        ANN,
        1,
        [replace(passage, vector=vector)],
        created_ms=1,
        fingerprint=embedder.fingerprint,
        embeds=True,
    )


async def test_a_group_that_is_gone_is_told(graph):
    """Nothing is written into it."""
    await fill(graph, ANN)
    run = Reembedding(graph, ANN, NEW).run()
    await anext(run)
    await graph.drop_group(ANN)
    with pytest.raises(BackendUnavailable):
        async for _ in run:
            pass
    assert await graph.read(ANN, "MATCH (n) RETURN count(n)") in ([], [[0]])
