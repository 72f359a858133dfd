"""Doorbells: heard at once by one, also by a full queue, and never harmed by what is none."""

from __future__ import annotations

import json
import threading
import time
import uuid

import pytest
import redis as redis_sync
import structlog.testing

from gralkord.config import Queue
from gralkord.mailbox.doorbell import QUEUE, Doorbell, open_broker

LIST, BODIES = f"gk:dramatiq:{QUEUE}", f"gk:dramatiq:{QUEUE}.msgs"


@pytest.fixture
def client(queue_socket):
    """A client of a queue that has no limit again afterwards."""
    with redis_sync.Redis(unix_socket_path=str(queue_socket)) as client:
        yield client
        client.config_set("maxmemory", 0)


@pytest.fixture
def make_broker(queue_socket):
    """A function that makes the broker of one process."""
    made = []

    def make():
        made.append(open_broker(Queue(socket=queue_socket)))
        made[-1].declare_queue(QUEUE)
        return made[-1]

    yield make
    for broker in made:
        broker.client.close()


def listener_of(broker, prefetch=4):
    """Return a consumer as a worker has it."""
    return broker.consume(QUEUE, prefetch=prefetch, timeout=1_000)


def taken_of(client) -> list[bytes]:
    """Return the keys of what some process has taken and not acknowledged."""
    return client.keys("gk:dramatiq:__acks__*")


class Heard(threading.Thread):
    """Listens until it hears a doorbell, or *seconds* have gone by."""

    def __init__(self, listener, seconds=3.0) -> None:
        super().__init__()
        self.group = None
        self.after = None
        self._listener = listener
        self._seconds = seconds
        self.start()

    def run(self):
        began = time.monotonic()
        while self.group is None and time.monotonic() - began < self._seconds:
            message = next(self._listener)
            if message is not None:
                self.after = time.monotonic()
                self.group = message.args[0]
                self._listener.ack(message)


def waiting(client, number: int) -> None:
    """Return once so many listeners wait on the server."""
    while client.info("clients")["blocked_clients"] < number:
        time.sleep(0.005)


async def test_a_doorbell_is_heard_at_once(client, make_broker):
    """A listener that waits hears a doorbell without the pause of a poll, and leaves nothing."""
    heard = Heard(listener_of(make_broker()))
    waiting(client, 1)
    rung = time.monotonic()
    await Doorbell(make_broker()).ring("ada")
    heard.join()
    assert heard.group == "ada"
    assert heard.after - rung < 0.5
    assert client.hlen(BODIES) == client.llen(LIST) == 0
    assert taken_of(client) == []


async def test_doorbells_are_shared_out(client, make_broker):
    """Of two that wait, each hears one of two doorbells."""
    listeners = [Heard(listener_of(make_broker(), prefetch=1)) for _ in range(2)]
    waiting(client, 2)
    bell = Doorbell(make_broker())
    await bell.ring("ada")
    await bell.ring("bob")
    for listener in listeners:
        listener.join()
    assert {listener.group for listener in listeners} == {"ada", "bob"}


async def test_doorbells_ring_in_a_full_queue(client, make_broker):
    """At the memory limit a doorbell is rung, heard and acknowledged."""
    client.config_set("maxmemory", 1)
    with pytest.raises(redis_sync.exceptions.OutOfMemoryError):
        client.set("gk:probe", 1)
    await Doorbell(make_broker()).ring("ada")
    heard = Heard(listener_of(make_broker()))
    heard.join()
    assert heard.group == "ada"
    assert client.hlen(BODIES) == 0


def garbage() -> list[bytes | None]:
    """Return bodies that are no doorbells."""
    good = {
        "queue_name": QUEUE,
        "actor_name": "understand",
        "args": ["ada"],
        "kwargs": {},
        "options": {"redis_message_id": "1"},
        "message_id": "1",
        "message_timestamp": 1,
    }
    spoilt = (
        {"actor_name": "unknown"},
        {"queue_name": "other"},
        {"args": []},
        {"args": [7]},
        {"kwargs": {"x": 1}},
        {"options": {}},
        {"options": {"redis_message_id": "1", "eta": 99}},
        {"message_id": 5},
    )
    bodies = [json.dumps(good | each).encode() for each in spoilt]
    return [None, b"", b"\xff\x00", b"no json", b"[]", b"{}", b"null", *bodies]


async def test_what_is_no_doorbell_is_dropped(client, make_broker):
    """Bodies that cannot be read leave a line in the log, and the doorbell behind them is heard."""
    for body in garbage():
        message_id = uuid.uuid4().hex
        client.rpush(LIST, message_id)
        if body is not None:
            client.hset(BODIES, message_id, body)
    await Doorbell(make_broker()).ring("ada")
    with structlog.testing.capture_logs() as logs:
        heard = Heard(listener_of(make_broker()))
        heard.join()
    assert heard.group == "ada"
    dropped = [line for line in logs if line["event"] == "doorbell_unreadable"]
    assert len(dropped) == len(garbage())
    assert client.hlen(BODIES) == client.llen(LIST) == 0
    assert taken_of(client) == []


async def test_no_more_is_taken_than_can_be_worked_on(client, make_broker):
    """With one thread one doorbell is taken; the next when that is acknowledged."""
    bell = Doorbell(make_broker())
    for group in ("ada", "bob"):
        await bell.ring(group)
    listener = listener_of(make_broker(), prefetch=1)
    first = next(listener)
    assert first.args == ("ada",)
    threading.Timer(0.1, listener.ack, [first]).start()
    began = time.monotonic()
    while (second := next(listener)) is None:
        assert client.llen(LIST) == 1 or time.monotonic() - began > 0.1
    assert second.args == ("bob",)
    assert time.monotonic() - began < 0.8  # sooner than the listener looks by itself


async def test_a_worker_that_stops_gives_back_what_it_has_not_begun(client, make_broker):
    """Nothing more is taken, and what is given back wakes somebody else."""
    broker = make_broker()
    listener = listener_of(broker)
    bell = Doorbell(make_broker())
    await bell.ring("ada")
    message = next(listener)
    broker.stopping.set()
    await bell.ring("bob")
    assert next(listener) is None
    other = Heard(listener_of(make_broker(), prefetch=1))
    other.join()
    listener.requeue([message])
    again = Heard(listener_of(make_broker(), prefetch=1))
    again.join()
    assert {other.group, again.group} == {"ada", "bob"}


async def test_what_cannot_be_acknowledged_now_is_acknowledged_later(
    client, make_broker, monkeypatch
):
    """An outage neither ends the listener nor leaves a message behind."""
    broker = make_broker()
    listener = listener_of(broker)
    await Doorbell(make_broker()).ring("ada")
    message = next(listener)

    def down(*_):
        raise redis_sync.ConnectionError

    with monkeypatch.context() as outage:
        outage.setattr(broker, "do_ack", down, raising=False)
        outage.setattr(broker, "do_fetch", down, raising=False)
        listener.ack(message)
        assert next(listener) is None
    assert client.hlen(BODIES) == 1
    broker.stopping.clear()
    next(listener)
    assert client.hlen(BODIES) == 0


async def test_what_a_dead_worker_had_taken_is_removed(client, make_broker):
    """Its messages, heartbeat and list go; those of a worker that lives stay."""
    bell = Doorbell(make_broker())
    for group in ("ada", "bob"):
        await bell.ring(group)
    dead, living = make_broker(), make_broker()
    assert next(listener_of(dead, prefetch=1)).args == ("ada",)
    assert next(listener_of(living, prefetch=1)).args == ("bob",)
    client.zadd("gk:dramatiq:__heartbeats__", {dead.broker_id: 1})
    await bell.ring("eve")
    heard = Heard(listener_of(make_broker(), prefetch=1))
    heard.join()
    assert heard.group == "eve"
    assert client.hlen(BODIES) == 1
    assert taken_of(client) == [f"gk:dramatiq:__acks__.{living.broker_id}.{QUEUE}".encode()]
    assert client.zscore("gk:dramatiq:__heartbeats__", dead.broker_id) is None
