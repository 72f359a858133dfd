"""What was acknowledged survives a power cut, with slow disks: a library stands in for both."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import tempfile
import threading
from pathlib import Path

import pytest
import redis
from powerless import PowerlessServer, build
from up_process import eventually, turn

from gralkord.clock import SystemClock
from gralkord.config import Graph, Server
from gralkord.embedded.servers import ServerSpec
from gralkord.graph.connection import GraphConnection
from gralkord.graph.passages import PassageStore
from gralkord.groups import Group
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.items import Item
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.turns.index import IndexLane, IndexParts

SYNC_MS = 100  # of each sync, as on a slow disk
OPERATORS = ("ada", "bob")
PRODUCERS = 16
CUTS = 4


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library, built."""
    return build(tmp_path_factory.mktemp("powerless"))


@pytest.fixture
def make_server(library):
    """Make a server whose power can be cut; it ends with the test."""
    home = Path(tempfile.mkdtemp(prefix="gk-"))
    made = []

    def make(kind, durability):
        spec = ServerSpec(kind, home / kind, home / f"{kind}.sock", durability=durability)
        made.append(PowerlessServer(spec, library, SYNC_MS))
        return made[-1]

    yield make
    for server in made:
        server.cut_power()
    shutil.rmtree(home, ignore_errors=True)


def test_the_server_rewrites_its_file_and_reloads_it(make_server):
    """Under the library the real server works as ever, but for what it has not synced."""
    server = make_server("queue", "always")
    server.start()
    with redis.Redis(unix_socket_path=str(server.spec.socket)) as client:
        pipe = client.pipeline(transaction=False)
        for number in range(200):
            pipe.set(f"before {number}", "x" * 100)
        pipe.execute()
        client.bgrewriteaof()
        eventually(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
        client.set("after", "y")
        client.config_set("appendfsync", "no")
        client.set("unsynced", "z")
        assert client.get("unsynced") == b"z"
        size = client.info("persistence")["aof_current_size"]
        server.cut_power()
        server.start()
        assert client.dbsize() == 201
        assert client.get("after") == b"y"
        assert client.get("unsynced") is None
        assert 0 < client.info("persistence")["aof_current_size"] < size


class Producers:
    """Capture one turn after the other over HTTP, several at a time, until they are stopped."""

    def __init__(self, up) -> None:
        self.acknowledged: dict[str, set[str]] = {operator: set() for operator in OPERATORS}
        self._up = up
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(PRODUCERS)]
        for thread in self._threads:
            thread.start()

    @property
    def count(self) -> int:
        """How many turns were acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    def stop(self) -> None:
        """End them all."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _run(self, producer: int) -> None:
        number, operator = 0, OPERATORS[producer % 2]
        while not self._stopped.is_set():
            number += 1
            name = f"{producer}-{number}"
            body = turn(f"words {name}", operator, f"s{producer}") | {"turn_id": name}
            with contextlib.suppress(OSError):  # not acknowledged: it may be there, or not
                self._up.request("/v1/capture", body)
                self.acknowledged[operator].add(name)


def passages(up, operator):
    """Return the turn ids of all passages of an operator."""
    socket = up.data_dir / "run" / "graph.sock"
    group = Group("default", operator, "default").id
    with redis.Redis(unix_socket_path=str(socket), decode_responses=True) as client:
        query = "MATCH (p:Passage) RETURN p.turn_id"
        try:
            return [row[0] for row in client.execute_command("GRAPH.RO_QUERY", group, query)[1]]
        except redis.ResponseError:  # no such graph yet
            return []


def drained(socket):
    """Return whether nothing is left in the intake stream and the index mailboxes."""
    with redis.Redis(unix_socket_path=str(socket)) as client:
        return not client.xlen("gk:intake:default") and not int(
            client.hget("gk:depth", "index") or 0
        )


def lost_after_power_cuts(up, queue):
    """Capture through cuts of the queue's power while nothing can be indexed; return what is lost."""
    dice = random.Random(5)
    # So that every turn has to survive in the queue.
    os.kill(up.pids["graph"], signal.SIGSTOP)
    producers = Producers(up)
    try:
        for _ in range(CUTS):
            enough = producers.count + 20
            eventually(lambda enough=enough: producers.count >= enough)
            threading.Event().wait(dice.uniform(0, 2 * SYNC_MS / 1000))
            queue.cut_power()
            queue.start()
    finally:
        producers.stop()
        os.kill(up.pids["graph"], signal.SIGCONT)
    eventually(lambda: drained(queue.spec.socket), 30)
    found = {operator: passages(up, operator) for operator in OPERATORS}
    assert all(len(names) == len(set(names)) for names in found.values())
    return set().union(*(producers.acknowledged[each] - set(found[each]) for each in OPERATORS))


def test_a_power_cut_loses_no_acknowledged_turn(start_up, make_server):
    """With `always`, what was acknowledged is indexed in the end, once, through several cuts."""
    queue = make_server("queue", "always")
    queue.start()
    up = start_up(None, GRALKORD_QUEUE__SOCKET=str(queue.spec.socket)).ready()
    assert lost_after_power_cuts(up, queue) == set()


def test_a_power_cut_loses_turns_where_only_every_second_is_synced(start_up, make_server):
    """With `everysec` the same cuts lose acknowledged turns: they are cuts indeed."""
    queue = make_server("queue", "everysec")
    queue.start()
    up = start_up(None, GRALKORD_QUEUE__SOCKET=str(queue.spec.socket)).ready()
    assert lost_after_power_cuts(up, queue)


class Hasty(GraphConnection):
    """A connection that takes every write for durable at once."""

    async def wait_durable(self, run=None):
        """Wait for nothing."""


GROUPS = [Group(tenant, "ada", "default").id for tenant in ("default", "other")]


def item(number):
    message = {"role": "user", "content": f"words {number}"}
    return Item(
        f"{number}-0",
        {
            "kind": "turn",
            "turn_id": f"t{number}",
            "session": "s",
            "operator": "ada",
            "agent": "helper",
            "user": "Ada",
            "event_time": "2024-05-01T09:30:00Z",
            "ordinal": number + 1,
            "source": None,
            "offset": None,
            "messages": [message],
        },
    )


async def indexed_through_power_cuts(connection_type, server, queue_socket, cuts):
    """Index turns of two groups through cuts of the graph's power; return what the graph has."""
    queue = open_queue(Server(socket=queue_socket))
    graph = connection_type.open(Graph(socket=server.spec.socket))
    mailbox, store = Mailbox(queue, Keys()), PassageStore(graph)
    lane = IndexLane(IndexParts(mailbox, graph, store, None, SystemClock()))
    stopped = asyncio.Event()

    async def ring():
        while not stopped.is_set():
            for group in GROUPS:
                lane.ring(group)
            await asyncio.sleep(0.02)

    server.spawn()
    await server.answers()
    ringing, number = asyncio.create_task(ring()), 0
    async with asyncio.timeout(40):
        for _ in range(cuts):
            enough = number + 20
            while number < enough or (await mailbox.depths())["index"] > number:
                await mailbox.deliver(("index", group, item(number)) for group in GROUPS)
                number += 1
                await asyncio.sleep(0.01)
            server.cut_power()
            server.spawn()
            await server.answers()
        while (await mailbox.depths())["index"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    stopped.set()
    await ringing
    await lane.close()
    found = {group: [row.turn_id for row in await store.waiting(group, 2_000)] for group in GROUPS}
    await graph.close()
    await queue.aclose()
    return number, found


async def test_a_power_cut_of_the_graph_loses_nothing_committed(make_server, queue_socket):
    """Passages lost with the graph's power are in their mailboxes still, and are written again."""
    server = make_server("graph", "everysec")
    number, found = await indexed_through_power_cuts(GraphConnection, server, queue_socket, cuts=2)
    for group in GROUPS:
        assert found[group] == [f"t{each}" for each in range(number)]


async def test_a_commit_that_does_not_wait_for_the_graphs_disk_loses_passages(
    make_server, queue_socket
):
    """Without the wait the same cut loses what was committed: the wait is what keeps it."""
    server = make_server("graph", "everysec")
    number, found = await indexed_through_power_cuts(Hasty, server, queue_socket, cuts=1)
    assert sum(map(len, found.values())) < 2 * number
