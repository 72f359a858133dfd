"""A FalkorDB that goes away and comes back."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from groups_of_tests import ANN, BOB
from memories_of_tests import remember

from gralkord.config import Graph
from gralkord.embedded.servers import ServerSpec
from gralkord.errors import BackendUnavailable
from gralkord.graph.connection import GraphConnection


@pytest.fixture
def spec():
    """A server of this test's own, not started."""
    home = Path(tempfile.mkdtemp(prefix="gk-"))
    yield ServerSpec(kind="graph", directory=home / "graph", socket=home / "s.sock")
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def start(spec):
    """Start that server; it ends with the test."""
    running = []

    def start_server():
        running.append(spec.start())
        return running[-1]

    yield start_server
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
async def graph(spec):
    """A connection to that server."""
    connection = GraphConnection.open(Graph(socket=spec.socket))
    yield connection
    await connection.close()


async def test_a_restart_is_waited_for(start, graph):
    """A read that begins while the server is down is answered once it is up; no write is lost."""
    server = start()
    await graph.wait_ready(10)
    await graph.ensure_group(ANN)
    await graph.write(ANN, "CREATE (:Kept)")
    await graph.wait_durable()
    server.kill()
    server.wait()
    with pytest.raises(BackendUnavailable):
        await graph.read(ANN, "RETURN 1", timeout_ms=100)
    reading = asyncio.create_task(
        graph.read(ANN, "MATCH (k:Kept) RETURN count(k)", timeout_ms=5_000)
    )
    await asyncio.sleep(0)
    start()
    assert await reading == [[1]]


async def test_the_successor_of_a_crashed_server_vouches_for_nothing(start, graph):
    """What was written to a server that has crashed since does not count as being on its disk."""
    server = start()
    await graph.wait_ready(10)
    await graph.ensure_group(ANN)
    run = await graph.known_run()
    await graph.write(ANN, "CREATE (:Kept)")
    await graph.wait_durable(run)
    server.kill()
    server.wait()
    start()
    await graph.wait_ready(10)
    with pytest.raises(BackendUnavailable, match="restarted"):
        await graph.wait_durable(run)
    await graph.wait_durable(await graph.known_run())


async def test_a_write_without_an_answer_is_not_sent_twice(start, graph):
    """A write whose answer got lost is reported, and only one that may run twice is sent again."""
    server = start()
    await graph.wait_ready(10)
    await graph.ensure_group(ANN)
    slow = "UNWIND range(1, 3000000) AS i WITH max(i) AS last CREATE (:Made {last: last})"
    for resend in (False, True):
        writing = asyncio.create_task(graph.write(ANN, slow, resend=resend))
        await asyncio.sleep(0.05)
        server.kill()
        server.wait()
        server = start()
        if resend:
            await writing
        else:
            with pytest.raises(BackendUnavailable):
                await writing
    assert await graph.read(ANN, "MATCH (n:Made) RETURN count(n)") == [[1]]


async def test_after_a_replay_the_indices_are_waited_for(start, graph):
    """A server that has read its file again is ready once its indices are; nothing is doubled then."""
    server = start()
    await graph.wait_ready(10)
    for group in (ANN, BOB):
        for page in range(2):
            texts = [f"turn {number}" for number in range(500)]
            assert len(await remember(graph, group, *texts, session=f"s{page}")) == 500
    await graph.wait_durable()
    server.kill()
    server.wait()
    start()
    await graph.wait_ready(20)
    for group in (ANN, BOB):
        rows = await graph.read(group, "CALL db.indexes() YIELD label, status RETURN label, status")
        assert len(rows) > 4
        assert {status for _, status in rows} == {"OPERATIONAL"}
        assert await remember(graph, group, "turn 0", "turn 1", session="s0") == []
        assert await graph.read(group, "MATCH (p:Passage) RETURN count(p)") == [[1_000]]


async def test_the_reason_for_not_being_ready_is_told(graph):
    """Waiting in vain for a server says why it cannot be reached."""
    with pytest.raises(BackendUnavailable, match=r"not ready after 0\.2 s: .*s\.sock"):
        await graph.wait_ready(0.2)
