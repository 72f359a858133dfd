from __future__ import annotations

import asyncio
import time

import pytest
import redis as redis_sync
from groups_of_tests import ANN, BOB, only

from gralkord.config import Graph
from gralkord.errors import BackendUnavailable, ConfigError, QueryRefused
from gralkord.graph.connection import MAX_CONNECTIONS, GraphConnection
from gralkord.graph.schema import EDGE_INDICES, NODE_INDICES
from gralkord.groups import Group

ENDLESS = (
    "UNWIND range(1, 10000) AS i UNWIND range(1, 10000) AS j UNWIND range(1, 10000) AS k "
    "RETURN count(i + j + k)"
)


async def test_reading_an_unknown_group_makes_no_graph(graph):
    """A read of a group that nobody has written answers with no rows and leaves no graph."""
    assert await graph.read(ANN, "MATCH (n) RETURN n.uuid") == []
    assert await graph.groups() == []


async def test_ensure_group_makes_one_meta_and_the_indices(graph):
    """A new group has one Meta node with its counters at zero, and the indices, all usable."""
    await graph.ensure_group(ANN)
    assert await graph.read(
        ANN,
        "MATCH (m:Meta) RETURN m.group_id, m.fence_index, m.fence_understand, m.seq, m.passages, m.waiting",
    ) == [[ANN, 0, 0, 0, 0, 0]]
    rows = await graph.read(ANN, "CALL db.indexes() YIELD label, properties, status RETURN *")
    found = {(label, name) for label, names, _ in rows for name in names}
    assert found == {*NODE_INDICES, *EDGE_INDICES}
    assert {row[2] for row in rows} == {"OPERATIONAL"}


async def test_many_processes_ensure_a_group_at_once(graph, graph_socket):
    """However many processes make the same groups at once, each group has one Meta node."""
    others = [GraphConnection.open(Graph(), socket=graph_socket) for _ in range(6)]
    groups = [ANN, BOB] + [Group("default", f"o{number}", None).id for number in range(20)]
    for group in groups:
        await asyncio.gather(*[each.ensure_group(group) for each in others])
    for group in groups:
        assert await only(graph, group, "MATCH (m:Meta) RETURN count(m)") == 1
    for each in others:
        await each.close()


async def test_a_group_that_was_dropped_and_made_again_is_another_generation(graph):
    """Caches can tell a new graph from the one before it by its generation."""
    await graph.ensure_group(ANN)
    before = await only(graph, ANN, "MATCH (m:Meta) RETURN m.generation")
    await graph.drop_group(ANN)
    await graph.drop_group(ANN)
    assert await graph.groups() == []
    await asyncio.sleep(0.002)
    await graph.ensure_group(ANN)
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.generation") > before


async def test_only_groups_are_listed(graph, graph_socket):
    """Graphs that others keep on the same server are none of ours."""
    await graph.ensure_group(ANN)
    with redis_sync.Redis(unix_socket_path=str(graph_socket)) as client:
        client.execute_command("GRAPH.QUERY", "somebody_else", "CREATE (:X)")
    assert await graph.groups() == [ANN]


async def test_a_read_cannot_write(graph):
    """A query that changes something is refused as a read."""
    await graph.ensure_group(ANN)
    with pytest.raises(QueryRefused):
        await graph.read(ANN, "CREATE (:X)")


async def test_a_runaway_read_is_stopped_and_others_are_answered(graph):
    """A read ends at its limit as an unavailable backend, and short reads go on beside it."""
    await graph.ensure_group(ANN)
    started = time.monotonic()
    runaway = asyncio.create_task(graph.read(ANN, ENDLESS, timeout_ms=300))
    assert await graph.read(ANN, "RETURN 1") == [[1]]
    assert not runaway.done()
    with pytest.raises(BackendUnavailable):
        await runaway
    assert time.monotonic() - started < 2


async def test_cancelled_calls_leave_the_pool_whole(graph):
    """After many calls that were given up, as many connections as before can be used at once."""
    await graph.ensure_group(ANN)
    for _ in range(MAX_CONNECTIONS + 4):
        call = asyncio.create_task(graph.read(ANN, ENDLESS, timeout_ms=5))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises((asyncio.CancelledError, BackendUnavailable)):
            await call
    answers = await asyncio.gather(
        *[graph.read(ANN, "RETURN $i", {"i": i}) for i in range(3 * MAX_CONNECTIONS)]
    )
    assert answers == [[[i]] for i in range(3 * MAX_CONNECTIONS)]


async def test_errors_do_not_quote_memories(graph):
    """The message of a refused query holds nothing of the values that were sent."""
    await graph.ensure_group(ANN)
    with pytest.raises(QueryRefused) as caught:
        await graph.write(ANN, "SYNTAX $text", {"text": "the secret of Ann"})
    assert "secret" not in str(caught.value)


async def test_no_server_is_an_unavailable_backend(tmp_path):
    """A server that is not there is reported as such, within the call's limit."""
    connection = GraphConnection.open(Graph(), socket=tmp_path / "none.sock")
    started = time.monotonic()
    with pytest.raises(BackendUnavailable):
        await connection.read(ANN, "RETURN 1", timeout_ms=200)
    with pytest.raises(BackendUnavailable):
        await connection.wait_ready(0.2)
    assert time.monotonic() - started < 2
    await connection.close()


def test_settings_without_a_server_are_refused():
    """With neither an address nor an embedded server there is nothing to open."""
    with pytest.raises(ConfigError):
        GraphConnection.open(Graph())


async def test_writes_are_durable_after_the_wait(graph):
    """Many waits at once are answered, and say that the server syncs its file."""
    await graph.ensure_group(ANN)
    assert graph.durable is None
    await asyncio.gather(*[graph.wait_durable() for _ in range(40)])
    assert graph.durable is True


async def test_a_server_without_a_file_is_not_waited_for(graph, graph_socket):
    """Where the server keeps no append-only file the wait returns at once and is marked so."""
    with redis_sync.Redis(unix_socket_path=str(graph_socket)) as client:
        client.config_set("appendonly", "no")
        try:
            await asyncio.wait_for(graph.wait_durable(), 1)
            assert graph.durable is False
        finally:
            client.config_set("appendonly", "yes")
            _wait_for_file(client)


async def test_an_unsynced_file_is_no_success(graph, graph_socket, monkeypatch):
    """The wait fails where the write, made over another connection, does not reach the disk."""
    monkeypatch.setattr("gralkord.graph.connection.FSYNC_MS", 50)
    await graph.ensure_group(ANN)
    with redis_sync.Redis(unix_socket_path=str(graph_socket)) as client:
        before = client.config_get("appendfsync")["appendfsync"]
        client.config_set("appendfsync", "no")
        try:
            await graph.write(ANN, "CREATE (:X)")
            with pytest.raises(BackendUnavailable):
                await graph.wait_durable()
        finally:
            client.config_set("appendfsync", before)


async def test_versions_are_told(graph):
    """The versions of both parts of the server are known."""
    found = await graph.versions()
    assert found["redis"].split(".")[0] >= "8"
    assert found["falkordb"].count(".") == 2


async def test_large_answers_are_read_whole(graph):
    """5,000 rows of ten columns are the same in both forms that the server can answer in."""
    await graph.ensure_group(ANN)
    names = [f"a{i}" for i in range(10)]
    await graph.write(
        ANN,
        "UNWIND range(1, 5000) AS i CREATE (:P {"
        + ", ".join(f"{name}: 'text of some length ' + i" for name in names)
        + "})",
    )
    query = "MATCH (p:P) RETURN " + ", ".join(f"p.{name}" for name in names)
    rows = await graph.read(ANN, query)
    assert await graph.read(ANN, query, plain=True) == rows
    assert len(rows) == 5000


def _wait_for_file(client: redis_sync.Redis) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        info = client.info("persistence")
        if info["aof_enabled"] and not info["aof_rewrite_in_progress"]:
            return
        time.sleep(0.02)
    raise AssertionError("the append-only file did not come back")
