"""What an erasure leaves behind: nothing in the servers' files, nothing that comes back later."""

from __future__ import annotations

import asyncio

import pytest
from erasures_of_tests import World, servers
from groups_of_tests import ANN, BOB

from gralkord.config import Graph, Server
from gralkord.graph.connection import GraphConnection
from gralkord.groups import Group
from gralkord.mailbox.connection import open_queue
from gralkord.testing.model_server import ScriptedModelServer
from gralkord.turns.understand import understand

ALL = Group("default").id
BOTH = {"lenses": ["default", "shared"]}


@pytest.fixture(scope="module")
def model():
    with ScriptedModelServer() as running:
        yield running


@pytest.fixture(scope="module")
def stores():
    """A queue and a graph of these tests' own: sockets and directories."""
    with servers("queue") as queue, servers("graph") as graph:
        yield queue, graph


@pytest.fixture
async def world(stores, model):
    """All parts over empty servers that write their files without compression."""
    (queue_socket, _), (graph_socket, _) = stores
    queue = open_queue(Server(socket=queue_socket))
    graph = GraphConnection.open(Graph(), socket=graph_socket)
    for ask in (queue.execute_command, graph.command):
        await ask("FLUSHALL")
        await ask("CONFIG", "SET", "rdbcompression", "no")
        await ask("CONFIG", "SET", "slowlog-log-slower-than", "0")
    world = World(queue, graph, model.spec, flush_turns=20)
    yield world
    await world.close()
    await graph.close()
    await queue.aclose()


def holding(stores, word):
    """Return the files of both servers that hold a word."""
    files = [path for _, home in stores for path in home.rglob("*") if path.is_file()]
    return sorted(path.name for path in files if word.encode() in path.read_bytes())


async def forgotten(stores, word):
    """Wait until no file holds a word: replaced files are deleted a moment later."""
    async with asyncio.timeout(10):
        while found := holding(stores, word):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


@pytest.mark.parametrize("scope", [{"session": "secret"}, {}, {"source": "s1"}])
async def test_the_words_are_in_no_file(world, stores, scope):
    """Of what was understood, indexed, buffered, queued and buried not a word is left on disk."""
    secret = {"session": "secret", "source": "s1", **BOTH}
    await world.say("bob", "b1", "I work at Initech.", **BOTH)
    await world.say("ann", "t1", "I work at Zanzibar.", **secret)
    await world.work()
    await world.say("ann", "t2", "I moved to Zanzibar City.", **secret)
    await world.route()
    await world.queue.xadd("gk:intake:default", {"kind": "turn", "data": '{"operator":"ann", '
        '"session":"secret", "source":"s1", "Zanzibar'})  # fmt: skip
    await world.queue.xadd("gk:intake:default", {"kind": "turn", "data": '{"operator":"bob"'})
    await world.route()
    await world.say("ann", "t3", "I saw Zanzibar.", **secret)
    await world.say("bob", "b2", "I live in Berlin.", **BOTH)
    await world.graph.read(ANN, "MATCH (p:Passage) WHERE p.text = 'Zanzibar' RETURN p.uuid")
    assert holding(stores, "Zanzibar")
    done = await world.erase(operator="ann", **scope)
    assert done.not_confirmed == []
    assert done.counts["queue"]["dead_letters"] == 1
    assert await forgotten(stores, "Zanzibar") == []
    assert b"Zanzibar" not in b"".join(
        [await world.queue.dump(key) or b"" for key in await world.queue.keys("*")]
    )
    assert "Zanzibar" not in str(await world.graph.command("SLOWLOG", "GET", 1000))
    await world.work()
    assert await world.texts(BOB) == {"I work at Initech.", "I live in Berlin."}
    assert await world.texts(ANN) == set()
    assert len(await world.queue.xrange("gk:dead")) == 1


class Busy:
    """Producers of two operators, the router and both lanes, all at work until they are stopped."""

    def __init__(self, world) -> None:
        self.world = world
        self.stopped = asyncio.Event()

    def start(self):
        """Begin; return the tasks, the first two of which return how much was said."""
        world = self.world
        duties = (
            self.capture("ann"),
            self.capture("bob"),
            self.route(),
            self.drain("index", world.index.ring),
            self.drain("understand", lambda group: understand(world.understanding, group)),
            self.drain("understand", lambda group: understand(world.understanding, group)),
        )
        return [asyncio.create_task(duty) for duty in duties]

    async def capture(self, operator):
        """Say one thing after the other, in three sessions."""
        number = 0
        while not self.stopped.is_set():
            number += 1
            session = f"{operator}-{number % 3}"
            words = said(operator, number)
            await self.world.say(operator, f"{operator}{number}", words, session=session, **BOTH)
            await asyncio.sleep(0.02)
        return number

    async def route(self):
        """Lead and route."""
        while not self.stopped.is_set():
            await self.world.router.lead()
            await self.world.router.route(self.world.nobody)

    async def drain(self, lane, ring):
        """Sweep a lane and ring."""
        while not self.stopped.is_set():
            for group in (await self.world.mailbox.sweep(lane)).groups:
                if (rung := ring(group)) is not None:
                    await rung
            await asyncio.sleep(0.002)


async def test_nothing_comes_back_while_others_go_on(world):
    """With producers and both lanes at work, what was captured before is gone and stays gone."""
    await world.router.lead()
    busy = Busy(world)
    tasks = busy.start()
    async with asyncio.timeout(30):
        while not (await world.facts(ALL) and await world.texts(ANN)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    before = world.last["ann"]
    done = await world.erase(operator="ann")
    assert done.state == "done"
    late = world.last["ann"] + 5
    async with asyncio.timeout(30):  # what comes later is taken, and the lanes go on
        while said("ann", late) not in await world.texts(ANN):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    busy.stopped.set()
    numbers = await asyncio.gather(*tasks)
    await world.route()
    await world.indexed()
    waiting = b"".join(await world.queue.lrange(f"gk:box:understand:{ANN}", 0, -1))
    assert not any(b'"ann%d"' % number in waiting for number in range(1, before + 1))
    old = {said("ann", number) for number in range(1, before + 1)}
    assert await world.texts(ANN) & old == set()
    assert await world.texts(BOB) == {said("bob", number) for number in range(1, numbers[1] + 1)}
    content = str(await world.graph.read(ALL, "MATCH (e:Episodic) RETURN e.content"))
    assert not any(text in content for text in old)
    await world.meta(BOB)
    await world.meta(ANN)


def said(operator, number):
    """Return the words of a turn; most of them are about one thing, which is soon understood."""
    return f"I like Acme. That was number {number} of {operator}."
