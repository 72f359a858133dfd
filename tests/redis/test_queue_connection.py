"""The client of the queue: how many may use it, and how long it is patient."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
import redis as redis_sync
import redis.exceptions as refusals
import structlog.testing

import gralkord
from gralkord.config import Queue
from gralkord.errors import BackendUnavailable
from gralkord.mailbox import connection
from gralkord.mailbox.connection import (
    explain,
    open_queue,
    queue_errors,
    warn_of_forgetting,
)


@pytest.fixture
async def client(queue_socket):
    """The client as the daemon has it."""
    client = open_queue(Queue(socket=queue_socket))
    yield client
    await client.aclose()


async def test_callers_beyond_the_limit_of_connections_wait_their_turn(client):
    """More callers at once than connections are all served."""
    calls = [client.incr("gk:n") for _ in range(5 * connection.MAX_CONNECTIONS)]
    assert max(await asyncio.gather(*calls)) == len(calls)


async def cancelled(call, steps):
    """Cancel a task after so many turns of the event loop; whether it was, or was done before."""
    task = asyncio.create_task(call())
    for _ in range(steps):
        await asyncio.sleep(0)
    if not task.cancel():
        return True
    await asyncio.wait([task])
    return task.cancelled()


@pytest.mark.parametrize("steps", range(8))
async def test_a_call_can_be_cancelled_at_any_moment(client, queue_socket, steps):
    """No cancellation is lost, and whoever has the connection next gets its own answer."""
    await client.set("gk:n", "mine")
    assert await cancelled(client.ping, steps)
    assert await client.get("gk:n") == b"mine"
    async with gralkord.AsyncStreamProducer(socket=queue_socket) as producer:
        await producer.flush("s")
        assert await cancelled(lambda: producer.flush("s"), steps)
        assert (await producer.flush("s")).flush


async def test_a_queue_that_hangs_is_told_after_one_wait(queue_socket, monkeypatch):
    """No call waits several times over for a server that does not answer."""
    monkeypatch.setattr(connection, "READ_SECONDS", 0.3)
    with redis_sync.Redis(unix_socket_path=str(queue_socket)) as other:
        pid = other.info("server")["process_id"]
    client = open_queue(Queue(socket=queue_socket))
    await client.ping()
    os.kill(pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        with pytest.raises(BackendUnavailable), queue_errors():
            await client.set("gk:n", 1)
        assert time.monotonic() - started < 1.1
    finally:
        os.kill(pid, signal.SIGCONT)
        await client.aclose()


def test_a_refusal_quotes_no_command():
    """What redis-py quotes of a pipeline holds somebody's words: they stay out of the error."""
    text = "Command # 1 (EVALSHA 66 1 gk: my secret) of pipeline caused error: "
    assert "secret" not in explain(refusals.ResponseError(text + "WRONGTYPE")).message
    assert isinstance(explain(refusals.NoScriptError(text + "NOSCRIPT")), BackendUnavailable)


@pytest.mark.parametrize(
    ("rights", "events"),
    [("off", ["queue_forgets_at_restart"]), ("off ~* &* +@all", [])],
)
async def test_a_server_that_cannot_replay_its_file_is_told(queue_socket, rights, events):
    """Where the user `default` has no rights, a restart would lose what scripts have written."""
    admin = redis_sync.Redis(unix_socket_path=str(queue_socket), username="admin", password="p")
    with redis_sync.Redis(unix_socket_path=str(queue_socket)) as default:
        default.execute_command("ACL", "SETUSER", "admin", "on", ">p", "~*", "&*", "+@all")
    client = open_queue(Queue(socket=queue_socket, username="admin", password="p"))
    try:
        admin.execute_command("ACL", "SETUSER", "default", "reset", *rights.split())
        with structlog.testing.capture_logs() as logs:
            await warn_of_forgetting(client)
        assert [each["event"] for each in logs] == events
    finally:
        await client.aclose()
        admin.execute_command("ACL", "SETUSER", "default", "on", "nopass", "~*", "&*", "+@all")
        admin.close()
        with redis_sync.Redis(unix_socket_path=str(queue_socket)) as default:
            default.acl_deluser("admin")
