"""Vectors that follow their passages, on a real queue and a real graph."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from fakes import FakeEmbedder, FakeModel, entities, facts
from groups_of_tests import ANN, BOB, only
from memories_of_tests import WHEN, AxisEmbedder, remember
from test_index_lane import turn, until_empty

from gralkord.clock import SystemClock
from gralkord.config import RecallSettings, Server
from gralkord.errors import ConfigError, MalformedOutput, ModelOutage
from gralkord.graph.cache import CachePool
from gralkord.graph.filling import Filling
from gralkord.graph.passages import PassageStore
from gralkord.groups import Group, parse_group
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.models import RecallRequest
from gralkord.providers.embedders.choice import Embedders
from gralkord.providers.embedders.embedder import SourceEmbedder
from gralkord.providers.embedders.profiles import PROFILES
from gralkord.recall.recall import Recaller
from gralkord.turns import vectors
from gralkord.turns.index import IndexLane, IndexParts
from gralkord.turns.vectors import VectorFollower

LACKS = "MATCH (p:Passage) WHERE p.vector IS NULL RETURN count(p)"
MARKED = "MATCH (p:Passage {unembedded: true}) RETURN count(p)"
WAITS = "MATCH (m:Meta) RETURN m.unembedded IS NOT NULL"


class Remote(FakeEmbedder):
    """One that is slow, and answers when it may; fails while it is told to."""

    inline = False

    def __init__(self):
        super().__init__()
        self.may, self.asked = asyncio.Event(), asyncio.Event()
        self.failure = None
        self.payers = []
        self.may.set()

    async def embed(self, texts, *, group=None, **_):
        """Embed, wait, or fail."""
        self.asked.set()
        self.payers.append(group)
        await self.may.wait()
        if self.failure is not None:
            raise self.failure
        return await super().embed(texts)


@pytest.fixture
async def mailbox(queue_socket):
    """The mailboxes."""
    client = open_queue(Server(socket=queue_socket))
    yield Mailbox(client, Keys())
    await client.aclose()


@pytest.fixture
def remote():
    """An embedder over the network."""
    return Remote()


@pytest.fixture
async def make_follower(graph):
    """Make followers; they are closed after the test."""
    followers = []

    def make(*embedders):
        followers.append(VectorFollower(Filling(graph, Embedders(embedders[0], embedders[1:]))))
        return followers[-1]

    yield make
    for follower in followers:
        await follower.close()


@pytest.fixture
async def make_lane(mailbox, graph):
    """Make an index lane; it is closed after the test."""
    lanes = []

    def make(follower, *embedders):
        parts = IndexParts(
            mailbox,
            graph,
            PassageStore(graph),
            Embedders(embedders[0], embedders[1:]),
            SystemClock(),
            follower.ring,
        )
        lanes.append(IndexLane(parts))
        return lanes[-1]

    yield make
    for lane in lanes:
        await lane.close()


async def until(graph, group, query, value=0):
    async with asyncio.timeout(10):
        while await only(graph, group, query) != value:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_passage_is_there_before_its_vector(
    mailbox, graph, make_lane, make_follower, remote
):
    """It is committed and searchable while the embedder has not answered; then its vector follows."""
    follower = make_follower(remote)
    lane = make_lane(follower, remote)
    remote.may.clear()
    await mailbox.deliver([("index", group, turn(0)) for group in (ANN, BOB)])
    for group in (ANN, BOB):
        lane.ring(group)
    await until_empty(mailbox, ANN, BOB)
    pool = CachePool(graph, 2**30)
    cache = await pool.fresh(ANN)
    assert len(cache.passages) == 1
    assert cache.space.embedder == ""
    remote.may.set()
    for group in (ANN, BOB):
        await until(graph, group, LACKS)
        await until(graph, group, WAITS, value=False)
    cache = await pool.fresh(ANN)
    assert cache.passages.vectors.present(1).all()
    assert cache.space.embedder == remote.fingerprint
    assert remote.texts.count("Ann: words 0") >= 2
    assert set(remote.payers) == {parse_group(ANN), parse_group(BOB)}
    await pool.close()


async def test_an_embedder_that_is_down_holds_up_nothing(
    mailbox, graph, make_lane, make_follower, remote, monkeypatch
):
    """Turns are indexed, the state says what is wrong, and when it is back the vectors follow."""
    monkeypatch.setattr(vectors, "FIRST_PAUSE", 0.01)
    follower = make_follower(remote)
    lane = make_lane(follower, remote)
    remote.failure = ModelOutage("gone")
    for number in range(3):
        await mailbox.deliver([("index", ANN, turn(number))])
        lane.ring(ANN)
        await until_empty(mailbox, ANN)
    async with asyncio.timeout(5):
        while follower.state.state == "ok":  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert follower.state.to_dict() == {
        "state": "model_outage",
        "groups_waiting": 1,
        "reason": "gone",
    }
    assert await only(graph, ANN, MARKED) == 3
    remote.failure = None
    follower._pause = 0.01
    await until(graph, ANN, LACKS)
    await until(graph, ANN, WAITS, value=False)
    async with asyncio.timeout(5):
        while follower.state.to_dict() != {"state": "ok", "groups_waiting": 0}:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_what_a_process_left_is_found_by_another(graph, make_follower, remote, monkeypatch):
    """After a crash the marks in the graph tell what is to do, without any ring."""
    monkeypatch.setattr(vectors, "SHOWS_SECONDS", 0.01)
    store = PassageStore(graph)
    from gralkord.turns.passages import passages_of

    for group in (ANN, BOB):
        await store.write(
            group,
            1,
            passages_of(group, turn(0).body),
            created_ms=1,
            fingerprint="",
            embeds=group is ANN,
        )
    follower = make_follower(remote)
    watching = asyncio.create_task(follower.watch())
    await until(graph, ANN, LACKS)
    watching.cancel()
    assert await only(graph, BOB, LACKS) == 1
    assert "Ann: words 0" in remote.texts


async def test_a_group_of_an_embedder_of_before_gets_its_own_vectors(
    mailbox, graph, make_lane, make_follower
):
    """Writes go on in the group's space; where no embedder fits, the words are there and marked."""
    old, new = AxisEmbedder(), FakeEmbedder()
    await remember(graph, ANN, "one")
    await remember(graph, BOB, "one")
    lane = make_lane(make_follower(new, old), new, old)
    await mailbox.deliver([("index", ANN, turn(0))])
    lane.ring(ANN)
    await until_empty(mailbox, ANN)
    assert await only(graph, ANN, LACKS) == 0
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.embedder") == old.fingerprint
    lane = make_lane(make_follower(new), new)
    await mailbox.deliver([("index", BOB, turn(0))])
    lane.ring(BOB)
    await until_empty(mailbox, BOB)
    assert (await only(graph, BOB, LACKS), await only(graph, BOB, MARKED)) == (1, 1)
    assert await Filling(graph, Embedders(new)).step(BOB) == "foreign"
    assert await Filling(graph, Embedders(new, (old,))).step(BOB) == "more"
    assert await only(graph, BOB, LACKS) == 0


async def test_words_without_a_vector_wait_for_none(graph, remote):
    """What an embedder does not take loses its mark; the rest gets its vectors."""
    await PassageStore(graph).write(ANN, 1, [], created_ms=1, fingerprint="")
    from gralkord.turns.passages import passages_of

    for number, text in enumerate(("good words", "12345", "bad words")):
        await PassageStore(graph).write(
            ANN,
            1,
            passages_of(ANN, turn(number, text).body),
            created_ms=1,
            fingerprint="",
            embeds=True,
        )

    class Choosy(Remote):
        async def embed(self, texts, **_):
            if any("bad" in text for text in texts):
                raise MalformedOutput("no")
            found = await super().embed(texts)
            return found * [[0.0] if "12345" in text else [1.0] for text in texts]

    filling = Filling(graph, Embedders(Choosy()))
    steps = [await filling.step(ANN) for _ in range(3)]
    assert steps == ["more", "done", "done"]
    assert await only(graph, ANN, MARKED) == 0
    assert await only(graph, ANN, LACKS) == 2


class Letters:
    """Makes vectors of one length."""

    most_texts, most_characters = 100, 10_000

    def __init__(self, dimension):
        self.dimension = dimension

    async def vectors(self, texts, purpose):
        """Return the same for all."""
        return np.ones((len(texts), self.dimension), dtype=np.float32)

    async def close(self):
        """Do nothing."""


async def test_a_model_whose_vectors_are_longer_than_before_fills_nothing(graph):
    """Its length is not known before it answers; then it is another space, and recall says so."""
    first, second = (
        SourceEmbedder(Letters(dimension), "test:model", PROFILES["plain"]) for dimension in (4, 8)
    )
    await remember(graph, ANN, "one", embed=False)
    await graph.write(ANN, "MATCH (p:Passage), (m:Meta) SET p.unembedded = true, m.unembedded = 1")
    assert await Filling(graph, Embedders(first)).step(ANN) == "more"
    await graph.write(
        ANN,
        "MATCH (p:Passage), (m:Meta) SET p.unembedded = true, p.vector = NULL, m.unembedded = 2",
    )
    pool = CachePool(graph, 2**30)
    recaller = Recaller(pool, second, RecallSettings(), SystemClock())
    request = RecallRequest(operator="ann", query="one")
    found = await recaller.recall("default", request, [Group("default", "ann", "default")])
    assert (len(found.results), found.degraded, found.partial) == (1, ["vector"], False)
    fresh = SourceEmbedder(Letters(8), "test:model", PROFILES["plain"])
    assert await Filling(graph, Embedders(fresh)).step(ANN) == "foreign"
    assert await only(graph, ANN, MARKED) == 1
    await pool.close()


async def test_settings_that_are_wrong_leave_the_marks(graph, make_follower, remote):
    """Nothing is given up because a key is refused."""
    from gralkord.turns.passages import passages_of

    passages = passages_of(ANN, turn(0).body)
    await PassageStore(graph).write(ANN, 1, passages, created_ms=1, fingerprint="", embeds=True)
    remote.failure = ConfigError("the key is refused")
    follower = make_follower(remote)
    follower.ring(ANN)
    async with asyncio.timeout(5):
        while follower.state.state == "ok":  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert follower.state.state == "config_error"
    assert await only(graph, ANN, MARKED) == 1


async def test_an_episode_is_written_though_the_embedder_is_down(graph, make_follower, remote):
    """What was understood is there at once; entities and facts get their vectors when it is back."""
    from gralkord.graph.drafts import EpisodeDraft
    from gralkord.graph.episodes import EpisodeWriter

    fact = ("Ann", "OWNS", "Boat", "Ann owns a boat.", "2024-01-01")
    model = FakeModel(ExtractedEntities=entities("Ann", "Boat"), ExtractedEdges=facts(fact))
    draft = EpisodeDraft(
        uuid="e", name="n", body="Ann: hi", reference_time=WHEN, source_description="d"
    )
    pool = CachePool(graph, 2**30, make_follower(remote).ring)
    remote.failure = ModelOutage("gone")
    done = await EpisodeWriter(graph, pool, model, remote).add(ANN, 1, draft)
    assert (done.facts, done.entities) == (1, 2)
    count = "MATCH (n:Entity) WHERE n.vector IS NULL RETURN count(n)"
    assert await only(graph, ANN, count) == 2
    remote.failure = None
    await pool.fresh(ANN)  # who asks for the group finds the marks
    await until(graph, ANN, count)
    await until(graph, ANN, "MATCH ()-[f:RELATES_TO]->() WHERE f.vector IS NULL RETURN count(f)")
    await until(graph, ANN, WAITS, value=False)
    cache = await pool.fresh(ANN)
    assert cache.entities.vectors.present(2).all()
    await pool.close()
