"""Each class of failure has one owner: the understand lane on real parts, each of which fails once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from groups_of_tests import ANN, BOB

from gralkord.config import Settings
from gralkord.daemon.build import build_daemon
from gralkord.embedded.servers import ServerSpec
from gralkord.graph.passages import Passage, passage_uuid
from gralkord.graph.understanding import understand as warm
from gralkord.groups import Group
from gralkord.mailbox.holds import ModelHolds
from gralkord.mailbox.items import Item
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import MOST_CRASHES, MOST_FAILURES
from gralkord.testing.faults import Fault, FaultPlan
from gralkord.testing.model_server import ScriptedModelServer
from gralkord.turns.parts import open_understand
from gralkord.turns.understand import understand

# Importing Graphiti holds everything up for a second; here it is done.
assert warm

WHEN = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)


class Lane:
    """The understand lane of one worker, and a look into what it leaves behind."""

    def __init__(self, queue: Path, graph: Path, spec: str, **leases) -> None:
        self.settings = Settings.model_validate(
            {
                "queue": {"socket": queue},
                "graph": {"socket": graph},
                "models": {"llm": spec},
                "leases": leases,
            }
        )
        stack = open_understand(self.settings, {})
        self.stack, self.mailbox, self.queue = stack, stack.parts.mailbox, stack.queue
        self.holds = ModelHolds(stack.queue, Keys())

    async def put(self, group: str, *texts: str) -> None:
        """Put one item for each text into the group's mailbox, its passage written."""
        for text in texts:
            turn = f"t {text}"
            passage = Passage(
                passage_uuid(group, turn, 0, 0), text, "Ann", "user", "bot", "s", 0, 0, WHEN, turn
            )  # fmt: skip
            await self.stack.graph.ensure_group(group)
            await self.stack.parts.passages.write(group, 1, [passage], created_ms=1, fingerprint="")
            body = {"kind": "understand", "home": group, "turns": [turn], "session": "s"}
            item = Item(f"i {text}".replace(" ", "-"), body | {"operator": "ann", "agent": "bot"})
            await self.mailbox.deliver([("understand", group, item)])

    async def work(self, group: str) -> bool:
        """Do the group's next item, whatever its time."""
        if await self.queue.zscore("gk:ready:understand", group) is not None:
            await self.queue.zadd("gk:ready:understand", {group: 0})
        return await understand(self.stack.parts, group)

    async def drain(self, *groups: str) -> None:
        """Work until nothing is left."""
        while not all([await self.mailbox.idle("understand", group) for group in groups]):
            await asyncio.gather(*[understand(self.stack.parts, group) for group in groups])
            await asyncio.sleep(0.02)

    async def meta(self, group: str) -> dict[str, str]:
        """Return how the head of the group's mailbox fared."""
        raw = await self.queue.hgetall(f"gk:meta:understand:{group}")
        return {key.decode(): value.decode() for key, value in raw.items()}

    async def dead(self) -> list[dict[str, str]]:
        """Return the dead letters."""
        return [
            {key.decode(): value.decode() for key, value in fields.items()}
            for _, fields in await self.queue.xrange("gk:dead")
        ]

    async def episodes(self, group: str) -> int:
        """Return how many episodes the group has."""
        rows = await self.stack.graph.read(group, "MATCH (e:Episodic) RETURN count(e)")
        return rows[0][0]

    async def close(self) -> None:
        """Close all connections."""
        self.stack.broker.close()
        await self.stack.close()


@pytest.fixture
def server():
    with ScriptedModelServer() as running:
        yield running


@pytest.fixture
async def open_lane(server):
    """Open the lane of a worker on these servers."""
    lanes = []

    def open_(queue, graph, spec=None, **leases) -> Lane:
        lanes.append(Lane(queue, graph, spec or server.spec, **leases))
        return lanes[-1]

    yield open_
    for lane in lanes:
        await lane.close()


@pytest.fixture
def lane(open_lane, queue_socket, graph_socket):
    """The lane of one worker."""
    return open_lane(queue_socket, graph_socket)


async def eventually(holds, seconds=15.0):
    """Return once *holds* does."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in other processes
            await asyncio.sleep(0.01)


async def test_a_rate_limit_holds_all_workers(open_lane, lane, server, queue_socket, graph_socket):
    """Two workers keep to the time the provider asks for, and begin one after the other."""
    second = open_lane(queue_socket, graph_socket)
    groups = [Group("default", f"op{number}", "default").id for number in range(3)]
    for group in groups:
        await lane.put(group, "I work at Acme.")
    server.set_faults(FaultPlan(next=(Fault.RATE_LIMITED,) * 2, retry_after=0.8))
    first = asyncio.create_task(lane.work(groups[0]))
    await eventually(lambda: len(server.requests) == 2)
    assert (await lane.holds.state(lane.stack.model.endpoints)).state == "rate_limited"
    await asyncio.gather(first, *[second.work(group) for group in groups[1:]])
    _, refused, *later = [entry.at for entry in server.requests]
    for place, at in enumerate(later[:3]):
        assert at - refused >= 0.78 + 0.2 * place
    for group in groups:
        assert await lane.episodes(group) == 1
        assert await lane.meta(group) == {}
    assert await lane.dead() == []


async def test_an_outage_is_tried_by_one_and_ends_by_itself(open_lane, queue_socket, graph_socket):
    """With the model's server stopped items wait and use no attempt; once it is back all is done."""
    with ScriptedModelServer() as gone:
        port, spec = int(gone.root.rpartition(":")[2]), gone.spec
    lane = open_lane(queue_socket, graph_socket, spec)
    for group in (ANN, BOB):
        await lane.put(group, "I work at Acme.")
    assert await lane.work(ANN)
    assert not await lane.work(BOB), "the lane is closed"
    assert await status(lane) == "outage"
    await lane.queue.hset("gk:model:outage", "until", 0)
    assert sum(await asyncio.gather(lane.work(ANN), lane.work(BOB))) == 1, "one probe"
    for group in (ANN, BOB):
        assert not {"failures", "crashes"} & (await lane.meta(group)).keys()
    with ScriptedModelServer(port=port) as back:
        async with asyncio.timeout(10):
            await lane.drain(ANN, BOB)
        assert back.requests
    assert await status(lane) == "ok"
    assert await lane.dead() == []


async def status(lane) -> str:
    """Return what the status of a daemon on the same servers says of the model."""
    daemon = build_daemon(lane.settings, {})
    try:
        return (await daemon.services.status("default"))["model_state"]["state"]
    finally:
        daemon.doorbell.close()
        await daemon.caches.close()
        await daemon.graph.close()
        await daemon.queue.aclose()


async def test_a_refused_key_waits_for_who_can_mend_it(lane, server):
    """A provider that refuses the key uses no attempt, and the status says what is wrong."""
    server.set_faults(FaultPlan(rate=1, kinds=(Fault.REFUSED_KEY,)))
    await lane.put(ANN, "I work at Acme.")
    assert await lane.work(ANN)
    assert not await lane.work(ANN)
    assert len(server.requests) == 1
    meta = await lane.meta(ANN)
    assert meta["reason"] == "config_error"
    assert not {"failures", "crashes"} & meta.keys()
    state = await lane.holds.state(lane.stack.model.endpoints)
    assert state.state == "misconfigured"
    assert "refuses the key" in state.reason


async def test_one_malformed_answer_is_repaired(lane, server):
    """After an answer that does not fit the model is shown what is wrong, once, and all is well."""
    server.set_faults(FaultPlan(next=(Fault.WRONG_TYPES,)))
    await lane.put(ANN, "I work at Acme.")
    assert await lane.work(ANN)
    assert await lane.episodes(ANN) == 1
    assert "That answer cannot be used" in server.requests[1].prompt
    assert not any("cannot be used" in entry.prompt for entry in server.requests[2:])


async def test_malformed_answers_are_counted_then_given_up(lane, server):
    """Four attempts of two requests each, then a dead letter with its reason; the next item goes on."""
    server.set_faults(FaultPlan(rate=1, kinds=(Fault.WRONG_TYPES,), only="Zeppelin"))
    await lane.put(ANN, "I fly a Zeppelin.", "I work at Acme.")
    for attempt in range(1, MOST_FAILURES + 1):
        assert await lane.work(ANN)
        assert len(server.requests) == 2 * attempt
        if attempt < MOST_FAILURES:
            assert (await lane.meta(ANN))["failures"] == str(attempt)
    [letter] = await lane.dead()
    assert (letter["lane"], letter["group"]) == ("understand", ANN)
    assert (letter["reason"], letter["attempts"]) == ("malformed_output", "4")
    assert "not usable" in letter["detail"]
    assert Item.decode(letter["item"].encode()).body["turns"] == ["t I fly a Zeppelin."]
    server.set_faults(FaultPlan())
    assert await lane.work(ANN)
    assert await lane.episodes(ANN) == 1


async def test_a_refused_request_is_given_up_at_once(lane, server):
    """What the provider will never accept is a dead letter after one request; the next item goes on."""
    server.set_faults(FaultPlan(rate=1, kinds=(Fault.REFUSED,), only="Zeppelin"))
    await lane.put(ANN, "I fly a Zeppelin.", "I work at Acme.")
    assert await lane.work(ANN)
    assert len(server.requests) == 1
    [letter] = await lane.dead()
    assert letter["reason"] == "permanent"
    assert "Zeppelin" not in letter["detail"]
    server.set_faults(FaultPlan())
    assert await lane.work(ANN)
    assert await lane.episodes(ANN) == 1


class Own:
    """A server of one test's own, to be killed and started again."""

    def __init__(self, kind: str, home: Path) -> None:
        self.spec = ServerSpec(kind=kind, directory=home / kind, socket=home / f"{kind}.sock")
        self.process = self.spec.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.process = self.spec.start()


@pytest.fixture
def own():
    """Start a server of this test's own."""
    home, started = Path(tempfile.mkdtemp(prefix="gk-")), []

    def start(kind):
        started.append(Own(kind, home))
        return started[-1]

    yield start
    for server in started:
        server.kill()
    shutil.rmtree(home, ignore_errors=True)


async def test_a_graph_that_is_down_is_waited_for(open_lane, own, queue_socket):
    """With the graph's server killed the item waits and uses no attempt; then it is done once."""
    graph = own("graph")
    lane = open_lane(queue_socket, graph.spec.socket)
    await lane.stack.graph.wait_ready(20)
    await lane.put(ANN, "I work at Acme.")
    await lane.stack.graph.wait_durable()
    graph.kill()
    assert await lane.work(ANN)
    meta = await lane.meta(ANN)
    assert meta["reason"] == "backend_unavailable"
    assert not {"failures", "crashes"} & meta.keys()
    graph.restart()
    async with asyncio.timeout(20):
        await lane.drain(ANN)
    assert await lane.episodes(ANN) == 1
    assert await lane.dead() == []


async def test_a_queue_that_is_down_costs_no_work(open_lane, own, graph_socket, server):
    """A queue killed under an episode is waited for; the item is committed, and nothing asked twice."""
    queue = own("queue")
    lane = open_lane(queue.spec.socket, graph_socket)
    await eventually(queue.spec.socket.exists)
    await lane.put(ANN, "I work at Acme.")
    server.set_faults(FaultPlan(latency_ms=150))
    work = asyncio.create_task(lane.work(ANN))
    await eventually(lambda: server.requests)
    queue.kill()
    asked = len(server.requests)
    await eventually(lambda: len(server.requests) > asked)
    queue.restart()
    assert await work
    assert await lane.mailbox.idle("understand", ANN)
    assert await lane.episodes(ANN) == 1
    assert len(server.requests) == len({entry.prompt for entry in server.requests})


@contextlib.contextmanager
def worker_process(lane, spec):
    """A real worker process, with a lease of one second; its process id changes hands here."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GRALKORD", "OPENAI"))
    }
    environ |= {
        "GRALKORD_QUEUE__SOCKET": str(lane.settings.queue.socket),
        "GRALKORD_GRAPH__SOCKET": str(lane.settings.graph.socket),
        "GRALKORD_MODELS__LLM": spec,
        "GRALKORD_LEASES__UNDERSTAND_SECONDS": "1",
    }
    command = [sys.executable, "-m", "gralkord.cli.app", "worker"]
    process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(150)
async def test_an_item_that_kills_its_worker_is_given_up(lane, queue_socket, graph_socket):
    """After eight dead workers the item is a dead letter that says all about it; others go on."""
    victims = []

    def kill(prompt):
        if "Zeppelin" in prompt:
            os.kill(victims[-1], signal.SIGKILL)

    with ScriptedModelServer(watch=kill) as server:
        await lane.put(ANN, "I fly a Zeppelin.", "I work at Acme.")
        await lane.stack.parts.ring(ANN)
        for crash in (1, 2):
            with worker_process(lane, server.spec) as process:
                victims.append(process.pid)
                await eventually(lambda: process.poll() is not None, 60)
            assert (await lane.meta(ANN))["crashes"] == str(crash)
            await swept(lane)
        for _ in range(MOST_CRASHES - 2):
            assert await lane.mailbox.acquire("understand", ANN, most=1, lease_ms=1)
            await swept(lane)
        assert not await lane.work(BOB)
        killed = len(server.requests)
        async with asyncio.timeout(20):
            await Lane.drain(lane, ANN)
    [letter] = await lane.dead()
    assert (letter["lane"], letter["group"], letter["reason"]) == ("understand", ANN, "crashed")
    assert letter["attempts"] == str(MOST_CRASHES)
    assert f"{MOST_CRASHES} times" in letter["detail"]
    body = Item.decode(letter["item"].encode()).body
    assert (body["turns"], body["session"], body["agent"]) == (["t I fly a Zeppelin."], "s", "bot")
    assert await lane.episodes(ANN) == 1
    assert killed <= 2
    assert not any("Zeppelin" in entry.prompt for entry in server.requests[killed:])


async def swept(lane) -> None:
    """Wait until the lease of the group has expired and is freed, and ring."""
    deadline = time.monotonic() + 5
    while not (await lane.mailbox.sweep("understand")).freed:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    await lane.stack.parts.ring(ANN)
