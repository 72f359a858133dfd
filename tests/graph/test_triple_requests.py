"""Requests on their whole way: asked for, done in the understand lane of a group, answered."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from fakes import FakeEmbedder, FakeModel, entities, facts
from groups_of_tests import ANN, BOB, only
from memories_of_tests import remember

from gralkord.clock import SystemClock
from gralkord.config import Server
from gralkord.errors import InvalidInput, NotFound, UnknownLens
from gralkord.graph.cache import CachePool
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.passages import PassageStore
from gralkord.graph.triples import TripleWriter
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.flushes import Flushes
from gralkord.mailbox.items import Item
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.mailbox.requests import Requests
from gralkord.memories.triples import TripleService
from gralkord.models.triples import TripleQuery, TriplesRequest
from gralkord.turns.triples import add_triples
from gralkord.turns.understand import understand
from gralkord.turns.work import UnderstandParts
from gralkord.wire import read_model

ACME = ("Ann", "WORKS_AT", "Acme", "Ann works at Acme", None)


@pytest.fixture
async def queue(queue_socket):
    """A client of an empty queue Redis."""
    client = open_queue(Server(socket=queue_socket))
    yield client
    await client.aclose()


class System:
    """The daemon's side and a worker's, in one process."""

    def __init__(self, queue, graph, model):
        keys, clock, embedder = Keys(), SystemClock(), FakeEmbedder()
        caches = CachePool(graph, 1 << 24)
        self.mailbox = Mailbox(queue, keys)
        self.flushes = Flushes(queue, keys, clock)
        self.requests = Requests(queue, keys, clock, self.flushes, self._ring, backlog_limit=100)
        lenses = LensRegistry({})
        self.triples = TripleService(self.requests, CachePool(graph, 1 << 24), lenses, clock)
        episodes = EpisodeWriter(graph, caches, model, embedder)
        writer = TripleWriter(graph, caches, embedder, clock)
        self.parts = UnderstandParts(
            mailbox=self.mailbox,
            graph=graph,
            passages=PassageStore(graph),
            episodes=episodes,
            clock=clock,
            ring=self._again,
            executors={"triples": add_triples(writer)},
        )
        self.working = set()

    async def _ring(self, rings):
        for _, group in rings:
            await self._again(group)

    async def _again(self, group):
        task = asyncio.create_task(understand(self.parts, group))
        self.working.add(task)
        task.add_done_callback(self.working.discard)

    async def add(self, *triples, operator="ann", lens="default", timeout_ms=20_000):
        raw = {"operator": operator, "lens": lens, "timeout_ms": timeout_ms}
        return await self.triples.add(
            "default", read_model(TriplesRequest, {**raw, "triples": list(triples)})
        )

    async def names(self, operator="ann"):
        page = await self.triples.find("default", read_model(TripleQuery, {"operator": operator}))
        return {(each.subject.name, each.predicate, each.object.name) for each in page.triples}


@pytest.fixture
async def make_system(queue, graph):
    """Make a system, with a model or without."""
    following = []

    def make(model=None):
        system = System(queue, graph, model)
        following.append(asyncio.create_task(system.flushes.follow()))
        return system

    yield make
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)


def triple(subject="Ann", predicate="WORKS_AT", target="Acme"):
    return {"subject": subject, "predicate": predicate, "object": target}


async def test_triples_are_added_and_found_without_a_model(make_system):
    """The answer names facts and entities, and nobody else's memory has them."""
    system = make_system()
    result = await system.add(triple())
    assert result.complete
    assert [each.created for each in result.triples] == [True]
    assert len(result.entities) == 2
    assert await system.names() == {("Ann", "WORKS_AT", "Acme")}
    assert await system.names("bob") == set()


async def test_a_refusal_is_an_answer_and_no_dead_letter(make_system, queue):
    """Who asks is told what is wrong; the next request is done."""
    system = make_system()
    with pytest.raises(NotFound, match=r"triples\.0\.subject"):
        await system.add(triple({"id": "nobody"}))
    with pytest.raises(UnknownLens):
        await system.add(triple(), lens="none")
    with pytest.raises(InvalidInput):
        await system.add(triple(predicate="?"))
    assert await queue.xlen("gk:dead") == 0
    assert (await system.add(triple())).complete


async def test_who_does_not_wait_asks_later(make_system):
    """With no time to wait the answer says so, and the id leads to what came of it."""
    system = make_system()
    result = await system.add(triple(), timeout_ms=0)
    await asyncio.gather(*system.working)
    later = await system.requests.result("default", result.id)
    assert later.complete
    assert later.answer["triples"][0]["created"]


async def test_triples_beside_an_episode_double_nothing(make_system, queue, graph):
    """Both go through the lane of the group, so each knows what the other has made."""
    model = FakeModel(ExtractedEntities=entities("Ann", "Acme"), ExtractedEdges=facts(ACME))
    system = make_system(model)
    await remember(graph, ANN, "I work at Acme.")
    item = {"kind": "understand", "home": ANN, "turns": ["s-0"], "operator": "ann"}
    body = {**item, "agent": "bot", "session": "s"}
    adding = [asyncio.create_task(system.add(triple("ann", "works_at", "ACME")))]
    await system._ring(await system.mailbox.deliver([("understand", ANN, Item("1.1", body))]))
    adding += [asyncio.create_task(system.add(triple("Acme", "BASED_IN", "Rome")))]
    async with asyncio.timeout(20):
        results = await asyncio.gather(*adding)
    assert all(result.complete for result in results)
    assert await queue.xlen("gk:dead") == 0
    assert await only(graph, ANN, "MATCH (n:Entity) RETURN count(n)") == 3
    assert await only(graph, ANN, "MATCH ()-[f:RELATES_TO]->() RETURN count(f)") == 2


async def test_without_a_model_episodes_wait_and_others_go_on(make_system, graph, queue):
    """What is to be understood keeps its attempts, and holds up its own group only."""
    system = make_system()
    await remember(graph, BOB, "I work at Acme.")
    body = {"kind": "understand", "home": BOB, "turns": ["s-0"], "session": "s", "agent": "bot"}
    await system.mailbox.deliver([("understand", BOB, Item("1.1", body))])
    assert await understand(system.parts, BOB)
    due_ms = await queue.zscore("gk:ready:understand", BOB)
    assert due_ms / 1000 - datetime.now(UTC).timestamp() > 20
    assert not await queue.hexists("gk:meta:understand:" + BOB, "failures")
    assert (await system.add(triple())).complete


async def test_work_of_an_unknown_kind_is_kept(make_system, queue):
    """What a newer version has asked for is a dead letter, not lost."""
    system = make_system()
    await system.mailbox.deliver([("understand", ANN, Item("1.1", {"kind": "later"}))])
    assert await understand(system.parts, ANN)
    [(_, letter)] = await queue.xrange("gk:dead")
    assert letter[b"item"] == b'1.1 {"kind":"later"}'
