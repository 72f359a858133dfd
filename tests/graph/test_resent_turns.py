"""A turn that is sent again after its id was forgotten: recognised by the graph, in each group."""

from __future__ import annotations

import json

import pytest
from fakes import FakeEmbedder, FakeModel, entities, facts
from groups_of_tests import ANN, BOB

from gralkord.clock import SystemClock
from gralkord.config import CaptureSettings, Server
from gralkord.config import Lens as LensSettings
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import origin_key
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.passages import PassageStore
from gralkord.groups import Group
from gralkord.intake.plan import Planner
from gralkord.intake.router import Router
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.turns.index import IndexLane, IndexParts
from gralkord.turns.understand import understand
from gralkord.turns.work import UnderstandParts

ALL = Group("default").id
ACME = ("Ann", "WORKS_AT", "Acme", "Ann works at Acme.", None)


class Path:
    """The path of a turn in this process: router, both lanes."""

    def __init__(self, queue, graph) -> None:
        keys, clock = Keys(), SystemClock()
        lenses = LensRegistry({"all": LensSettings(scope="global")})
        mailbox, passages = Mailbox(queue, keys), PassageStore(graph)
        self.model = FakeModel(
            ExtractedEntities=entities("Ann", "Acme"), ExtractedEdges=facts(ACME)
        )
        episodes = EpisodeWriter(graph, CachePool(graph, 1 << 20), self.model, FakeEmbedder())
        self.queue = queue
        planner = Planner(lenses, CaptureSettings(), understanding=True)
        self.router = Router(queue, keys, planner, ["default"], owner="one")
        self.index = IndexLane(IndexParts(mailbox, graph, passages, None, clock))
        self.parts = UnderstandParts(
            mailbox, graph, passages, episodes, clock, self._nobody, lenses=lenses
        )
        self.mailbox = mailbox

    async def remember(self, *turns: str, session: str = "s") -> None:
        """Capture turns through both lenses, flush, and work until nothing is left."""
        await self.router.lead()
        both = {"operator": "ann", "agent": "bot", "user": "Ann", "lenses": ["default", "all"]}
        said = {"turn": [{"role": "user", "content": "I work at Acme."}]}
        for turn in turns:
            await self._say("turn", {"session": session, "turn_id": turn} | both | said)
        await self._say("flush", {"session": session})
        await self.router.route(self._nobody)
        self.index.ring(ANN)
        while not await self.mailbox.idle("index", ANN):
            pass
        for group in (ANN, ALL):
            while await understand(self.parts, group):
                pass
            assert await self.mailbox.idle("understand", group)

    async def _say(self, kind: str, data: dict) -> None:
        await self.queue.xadd("gk:intake:default", {"kind": kind, "data": json.dumps(data)})

    async def _nobody(self, _rings) -> None:
        pass


@pytest.fixture
async def queue(queue_socket):
    """A client of an empty queue Redis."""
    client = open_queue(Server(socket=queue_socket))
    yield client
    await client.aclose()


@pytest.fixture
async def path(queue, graph):
    """All parts between a capture and its facts."""
    path = Path(queue, graph)
    yield path
    await path.index.close()


async def forget(queue):
    """Let a day pass, after which ids of turns are forgotten."""
    await queue.delete(*await queue.keys("gk:seen:*"))


async def episodes(graph, group):
    return sorted(row[0] for row in await graph.read(group, "MATCH (e:Episodic) RETURN e.content"))


@pytest.mark.parametrize("session", ["s", "another"])
async def test_a_forgotten_turn_is_not_understood_again(path, queue, graph, session):
    """No model call, no passage and no episode comes of it, neither at home nor in a shared group."""
    await path.remember("t1", "t2")
    before = await episodes(graph, ANN), await episodes(graph, ALL), len(path.model.stages)
    assert len(before[0]) == len(before[1]) == 1
    await forget(queue)
    await path.remember("t2", session=session)
    after = await episodes(graph, ANN), await episodes(graph, ALL), len(path.model.stages)
    assert after == before
    assert await graph.read(ANN, "MATCH (p:Passage) RETURN count(p)") == [[2]]


async def test_what_is_new_beside_a_forgotten_turn_is_understood_alone(path, queue, graph):
    """The episode of a flush holds only the turns that no episode holds yet."""
    await path.remember("t1")
    await forget(queue)
    await path.remember("t1", "t2")
    for group in (ANN, ALL):
        assert await episodes(graph, group) == ["Ann: I work at Acme."] * 2


async def test_another_operators_turn_of_the_same_id_is_another_turn(path, queue, graph):
    """Origins in a shared group name the home group beside the turn."""
    await path.remember("t1")
    keys = [origin_key(group, "t1") for group in (ANN, BOB)]
    assert await path.parts.episodes.origins(ALL, keys, lens="all", but="") == {keys[0]}
