"""The guard of the queue's memory, on a real server."""

from __future__ import annotations

import pytest
import redis.exceptions
import structlog.testing

from gralkord.clock import SystemClock
from gralkord.config import Server
from gralkord.daemon.guard import Guard, Memory
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.keys import Keys

CLOSED = "gk:closed"
STREAM = "gk:intake:default"


@pytest.fixture
async def client(queue_socket):
    """A client of a queue that has no limit again afterwards, and no user of a test."""
    client = open_queue(Server(socket=queue_socket))
    for _ in range(128):  # so much that what connections come and go with does not matter
        await client.rpush("ballast", b"x" * 65_536)
    yield client
    await client.delete("ballast")
    await client.config_set("maxmemory", 0)
    await client.acl_deluser("producer")
    await client.aclose()


@pytest.fixture
async def producer(client, queue_socket):
    """A client of a direct producer."""
    rules = ["on", "nopass", "resetkeys", "~gk:intake:*", "+xadd", "+ping"]
    await client.execute_command("ACL", "SETUSER", "producer", *rules)
    producer = open_queue(Server(socket=queue_socket, username="producer", password="any"))
    yield producer
    await producer.aclose()


def guard_of(client, user=None) -> Guard:
    """Return a guard as a daemon has it after its start."""
    return Guard(client, Keys(), SystemClock(), ["default", "other"], user)


async def fill(client, percent: int) -> None:
    """Set the limit so that so much of it is in use."""
    info = await client.info("memory")
    used = info["used_memory"] - info["mem_not_counted_for_evict"]
    await client.config_set("maxmemory", used * 100 // percent)


@pytest.mark.parametrize(
    ("before", "now", "closed"), [(50, 65, False), (80, 65, True), (80, 55, False), (80, 110, True)]
)
async def test_intake_is_closed_when_it_is_nearly_full_and_opened_when_enough_is_free(
    client, before, now, closed
):
    """Between the two limits it stays as it was, at the memory limit itself it still works."""
    guard = guard_of(client)
    await fill(client, before)
    await guard.check()
    await fill(client, now)
    memory = await guard.check()
    assert memory.closed is closed
    assert abs(memory.percent - now) <= 2
    why = await client.get(CLOSED)
    assert why == (
        f"the memory of the queue is {memory.percent} % full".encode() if closed else None
    )
    if closed:
        assert 0 < await client.pttl(CLOSED) <= 5_000


async def test_without_a_limit_there_is_nothing_to_guard(client):
    """A server without a memory limit keeps intake open."""
    await client.set(CLOSED, "of an earlier limit")
    assert await guard_of(client).check() == Memory(None, closed=False)
    assert await client.exists(CLOSED) == 0


async def test_direct_producers_are_shut_out_and_let_in_again(client, producer):
    """While intake is closed their user may not append; afterwards it may."""
    guard = guard_of(client, "producer")
    await guard.check()
    await producer.xadd(STREAM, {"a": 1})
    await fill(client, 80)
    await guard.check()
    with pytest.raises(redis.exceptions.NoPermissionError):
        await producer.xadd(STREAM, {"a": 1})
    assert await producer.ping()
    await client.config_set("maxmemory", 0)
    await guard.check()
    await producer.xadd(STREAM, {"a": 1})


async def test_what_a_crashed_daemon_has_closed_is_opened_by_the_next(client, producer):
    """A guard that has just begun gives the right back if there is room."""
    await fill(client, 80)
    await guard_of(client, "producer").check()
    await client.config_set("maxmemory", 0)
    await guard_of(client, "producer").check()
    await producer.xadd(STREAM, {"a": 1})


async def test_guards_of_several_daemons_agree(client, producer):
    """What one guard closes the other opens, whichever saw it first."""
    one, other = guard_of(client, "producer"), guard_of(client, "producer")
    for guard in (one, other):
        await guard.check()
    await fill(client, 80)
    assert (await one.check()).closed
    await fill(client, 65)
    assert (await other.check()).closed
    await fill(client, 50)
    assert not (await other.check()).closed
    assert not (await one.check()).closed
    await producer.xadd(STREAM, {"a": 1})


async def test_a_user_that_does_not_exist_is_not_made(client):
    """A name that is written wrongly is told once, and intake is closed all the same."""
    guard = guard_of(client, "produser")
    await fill(client, 80)
    with structlog.testing.capture_logs() as logs:
        assert (await guard.check()).closed
        await fill(client, 50)
        assert not (await guard.check()).closed
    assert [line["event"] for line in logs].count("producers_not_guarded") == 1
    assert await client.acl_getuser("produser") is None


async def test_old_receipts_are_forgotten_before_intake_closes(client):
    """The oldest hour of each tenant goes first, counted; those of the last two hours stay."""
    hour = int((await client.time())[0]) // 3600
    for tenant in ("default", "other"):
        for before in (100, 50, 1):
            await client.hset(f"gk:jobs:{tenant}:{hour - before}", "1-0", "[]")
    await fill(client, 57)
    assert not (await guard_of(client).check()).closed
    left = {key.decode() for key in await client.keys("gk:jobs:*")}
    assert left == {
        f"gk:jobs:{tenant}:{hour - before}" for tenant in ("default", "other") for before in (50, 1)
    }
    for _ in range(3):
        await guard_of(client).check()
    assert len(await client.keys("gk:jobs:*")) == 2
    assert (await client.hget("gk:counters", "receipts_forgotten")) == b"4"
